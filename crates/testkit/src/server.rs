//! NBD servers of others, for the time of a test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{Port, require_tool};

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Its port on localhost, if it has one; otherwise it listens at a socket in the folder.
    port: Option<Port>,
    folder: TempDir,
}

impl Server {
    /// Starts `nbdkit` with these arguments after its own, at a unix socket. `None` where it is missing.
    ///
    /// # Panics
    /// If it does not get ready.
    pub fn nbdkit<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Option<Server> {
        Some(Server::start(require_tool("nbdkit")?, None, |command, folder| {
            command.args(["--foreground", "--readonly"]);
            command.arg("--pidfile").arg(folder.join(READY)).arg("--unix").arg(folder.join(SOCKET));
            command.args(arguments);
        }))
    }

    /// The same at a port of localhost.
    pub fn nbdkit_tcp<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Option<Server> {
        let program = require_tool("nbdkit")?;
        let port = Port::take();
        let number = port.number().to_string();
        Some(Server::start(program, Some(port), |command, folder| {
            command.args(["--foreground", "--readonly", "--ipaddr=127.0.0.1"]);
            command.arg("--pidfile").arg(folder.join(READY)).arg("--port").arg(number);
            command.args(arguments);
        }))
    }

    /// Starts `qemu-nbd` with these arguments after its own, at a unix socket.
    pub fn qemu_nbd<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Option<Server> {
        Some(Server::start(require_tool("qemu-nbd")?, None, |command, folder| {
            command.args(["--persistent", "--read-only"]);
            command.arg("--pid-file").arg(folder.join(READY)).arg("--socket").arg(folder.join(SOCKET));
            command.args(arguments);
        }))
    }

    fn start(program: PathBuf, port: Option<Port>, prepare: impl FnOnce(&mut Command, &Path)) -> Server {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(program);
        prepare(&mut command, folder.path());
        let said = std::fs::File::create(folder.path().join(SAID)).expect("a file in the folder");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let child = command.spawn().expect("the server starts");
        let mut server = Server { child, port, folder };
        let deadline = Instant::now() + Duration::from_secs(600);
        let ready = server.folder.path().join(READY);
        while !std::fs::metadata(&ready).is_ok_and(|file| file.len() > 0) {
            let ended = server.child.try_wait().expect("the state of a child");
            assert!(ended.is_none() && Instant::now() < deadline, "{command:?}: {}", server.said());
            thread::sleep(Duration::from_millis(1));
        }
        server
    }

    /// The address of the default export.
    pub fn uri(&self) -> String {
        self.uri_of("nbd", "", "", "")
    }

    /// The address of an export, by `nbd` or `nbds`, for this user (`alice@` or nothing), and with further
    /// parameters (`&key=value` or nothing).
    pub fn uri_of(&self, scheme: &str, user: &str, export: &str, parameters: &str) -> String {
        match self.port.as_ref().map(Port::number) {
            Some(port) => {
                let parameters = parameters.replacen('&', "?", 1);
                format!("{scheme}://{user}localhost:{port}/{export}{parameters}")
            }
            None => {
                format!("{scheme}+unix://{user}/{export}?socket={}{parameters}", self.socket().display())
            }
        }
    }

    /// Where the socket is.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// Ends it at once, as if its machine had failed.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(SAID)).unwrap_or_default()
    }
}

/// Names in the server's folder: its socket, what it writes once it listens, and its messages.
const SOCKET: &str = "socket";
const READY: &str = "pid";
const SAID: &str = "messages";

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
