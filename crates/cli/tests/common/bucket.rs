//! A real server of S3 on this machine, whose objects are plain files.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use verisum::object::StoreOptions;
use verisum_testkit::{Port, require_tool};

use super::{Ended, VERISUM, command, wait_until};

/// What the server lets in.
pub const KEY: &str = "AKIATESTS";
pub const SECRET: &str = "a+secret/of=tests";

/// A real server of S3 on this machine. What is in the folder of a bucket is in the bucket.
pub struct Store {
    folder: TempDir,
    port: Port,
    child: Child,
}

impl Store {
    /// `None` where there is no such server.
    pub fn start() -> Option<Store> {
        let server = require_tool("versitygw")?;
        let folder = tempfile::Builder::new().prefix("verisum-s3-").tempdir().unwrap();
        for name in ["root", "versions"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let port = Port::take();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(server)
            .args(["--access", KEY, "--secret", SECRET, "--quiet", "--port"])
            .arg(format!("127.0.0.1:{}", port.number()))
            .args(["posix", "--versioning-dir"])
            .arg(folder.path().join("versions"))
            .arg(folder.path().join("root"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut store = Store { folder, port, child };
        wait_until("the server listens", || {
            let ended = store.child.try_wait().unwrap();
            let log = || fs::read_to_string(store.folder.path().join("log")).unwrap_or_default();
            assert!(ended.is_none(), "{ended:?}: {}", log());
            TcpStream::connect(("127.0.0.1", store.port.number())).is_ok()
        });
        Some(store)
    }

    /// The folder of a bucket, which is made.
    pub fn bucket(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join("root").join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A folder beside the server's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn options(&self) -> StoreOptions {
        let mut options = StoreOptions::default();
        let settings = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)];
        options.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        options.endpoint = Some(format!("http://127.0.0.1:{}", self.port.number()));
        options
    }

    /// Runs `verisum` with these words.
    pub fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.verisum(words).output().unwrap())
    }

    /// The program with these words.
    pub fn verisum(&self, words: &[&str]) -> Command {
        verisum_at(&format!("http://127.0.0.1:{}", self.port.number()), words)
    }
}

/// Runs `verisum` with a store at this URL.
pub fn run_at(url: &str, words: &[&str]) -> Ended {
    Ended::of(verisum_at(url, words).output().unwrap())
}

fn verisum_at(url: &str, words: &[&str]) -> Command {
    let mut command = command(VERISUM);
    command.args(words);
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET).env("AWS_ENDPOINT_URL", url);
    command
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
