//! Servers that speak as Google Cloud Storage and Azure Blob Storage do, on this machine.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use verisum::object::StoreOptions;
use verisum_testkit::{Port, require_tool};

use super::{Ended, VERISUM, command, wait_until};

/// The account and the key that azurite is known for.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Makes a container: verisum makes none.
const MAKE_CONTAINER: &str = r#"
import base64, email.utils, hashlib, hmac, sys, urllib.request
url, account, key, name = sys.argv[1:]
date = email.utils.formatdate(usegmt=True)
headers = f"x-ms-date:{date}\nx-ms-version:2023-11-03\n"
text = "PUT\n" + "\n" * 11 + headers + f"/{account}/{account}/{name}\nrestype:container"
sign = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
request = urllib.request.Request(f"{url}/{name}?restype=container", method="PUT", headers={
    "x-ms-date": date, "x-ms-version": "2023-11-03", "Authorization": f"SharedKey {account}:{sign}"})
urllib.request.urlopen(request).read()
"#;

/// A running server with one bucket.
pub struct Cloud {
    /// The URL of the bucket.
    pub url: &'static str,
    /// The URL of the server.
    pub server: String,
    variables: Vec<(&'static str, String)>,
    folder: TempDir,
    /// Nobody else gets its number.
    _port: Port,
    child: Child,
}

impl Cloud {
    /// One that speaks as Google does. `None` where there is none.
    pub fn google() -> Option<Cloud> {
        let program = require_tool("fake-gcs-server")?;
        let port = Port::take();
        let host = format!("127.0.0.1:{}", port.number());
        let mut server = Command::new(program);
        server.args(["-scheme", "http", "-host", "127.0.0.1", "-port", &port.number().to_string()]);
        server.args(["-public-host", &host, "-external-url", &format!("http://{host}")]);
        server.args(["-backend", "memory", "-data", "/nonexistent"]);
        let variables = vec![("STORAGE_EMULATOR_HOST", format!("http://{host}"))];
        let cloud = Cloud::start("gs://places", server, port, format!("http://{host}"), variables);
        let body = r#"{"name": "places"}"#;
        let length = body.len();
        let request = format!(
            "POST /storage/v1/b?project=p HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        // On a busy machine it may close a connection before it has answered.
        wait_until("the bucket is made", || {
            let mut answer = Vec::new();
            let mut stream = TcpStream::connect(&host).unwrap();
            let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut answer));
            let answer = String::from_utf8_lossy(&answer);
            // The second says that it was made, but the answer was lost.
            let is_made = ["HTTP/1.1 200", "HTTP/1.1 409"].iter().any(|start| answer.starts_with(start));
            assert!(is_made || answer.is_empty(), "{answer}");
            is_made
        });
        Some(cloud)
    }

    /// One that speaks as Azure does. `None` where there is none.
    pub fn azure() -> Option<Cloud> {
        let (program, python) = (require_tool("azurite-blob")?, require_tool("python3")?);
        let port = Port::take();
        let number = port.number().to_string();
        let mut server = Command::new(program);
        server.args(["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]);
        server.args(["--blobHost", "127.0.0.1", "--blobPort", &number]);
        let endpoint = format!("http://127.0.0.1:{number}/{ACCOUNT}");
        let variables = vec![
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_string()),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY.to_string()),
            ("AZURE_STORAGE_ENDPOINT", endpoint.clone()),
        ];
        let cloud = Cloud::start("az://places", server, port, endpoint.clone(), variables);
        let made = Command::new(python)
            .args(["-c", MAKE_CONTAINER, &endpoint, ACCOUNT, KEY, "places"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(cloud)
    }

    fn start(
        url: &'static str,
        mut program: Command,
        port: Port,
        server: String,
        variables: Vec<(&'static str, String)>,
    ) -> Cloud {
        let folder = tempfile::Builder::new().prefix("verisum-cloud-").tempdir().unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        program.current_dir(folder.path()).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = program.spawn().unwrap();
        let mut cloud = Cloud { url, server, variables, folder, _port: port, child };
        wait_until("the server listens", || {
            let ended = cloud.child.try_wait().unwrap();
            let log = || fs::read_to_string(cloud.folder.path().join("log")).unwrap_or_default();
            assert!(ended.is_none(), "{ended:?}: {}", log());
            TcpStream::connect(("127.0.0.1", cloud._port.number())).is_ok()
        });
        cloud
    }

    pub fn options(&self) -> StoreOptions {
        StoreOptions::of_variables(
            self.variables.iter().map(|(name, value)| (name.to_string(), value.clone())),
        )
    }

    /// Runs `verisum` with these words.
    pub fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.args(words).envs(self.variables.iter().map(|(name, value)| (name, value)));
        let ended = Ended::of(command.output().unwrap());
        let said = [&ended.stdout[..], ended.stderr.as_bytes()].concat();
        assert!(!String::from_utf8_lossy(&said).contains(KEY), "a secret is shown");
        ended
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
