//! Several hosts on one machine: network namespaces that are joined by pairs of devices.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use verisum_testkit::{require_root, require_tool, skip};

use super::sshd::{BUSY, Sshd};
use super::{VERISUM, command};

/// Hosts, and the place from which they are seen.
pub struct Network {
    folder: TempDir,
    ip: PathBuf,
    /// The namespace in which the asker is.
    here: String,
    hosts: Vec<Host>,
}

/// A host, called `h1`, `h2` and so on.
struct Host {
    namespace: String,
    /// The device of the asker that leads there.
    device: String,
    /// None where nobody listens, and nobody answers.
    server: Option<Sshd>,
    /// The key that is shown to it.
    key: &'static str,
}

impl Network {
    /// No hosts yet. `None` where that cannot be.
    pub fn new() -> Option<Network> {
        /// Of this process; others have other numbers of processes.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        require_root()?;
        let ip = require_tool("ip")?;
        require_tool("nsenter")?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let here = format!("verisum-{}-{number}", std::process::id());
        let folder = tempfile::Builder::new().prefix("verisum-net-").tempdir().unwrap();
        let network = Network { folder, ip, here, hosts: Vec::new() };
        if !network.try_ip(&["netns", "add", &network.here]) {
            skip("no network namespace can be made");
            return None;
        }
        Some(network)
    }

    /// Adds a host with a server that has this in its configuration; the key is `user` or one that is not
    /// let in. Without a server nobody answers at its address.
    pub fn add(&mut self, key: &'static str, server: Option<&str>) -> Option<()> {
        let number = self.hosts.len() + 1;
        let namespace = format!("{}-h{number}", self.here);
        let device = format!("h{number}");
        self.ip(&["netns", "add", &namespace]);
        self.hosts.push(Host { namespace: namespace.clone(), device: device.clone(), server: None, key });
        let there = ["-n", &namespace];
        self.ip(&[
            "-n", &self.here, "link", "add", &device, "type", "veth", "peer", "name", "eth", "netns",
            &namespace,
        ]);
        self.ip(&["-n", &self.here, "address", "add", &format!("10.0.{number}.1/24"), "dev", &device]);
        self.ip(&["-n", &self.here, "link", "set", &device, "up"]);
        self.ip(&[&there[..], &["link", "set", "lo", "up"]].concat());
        let Some(extra) = server else { return Some(()) };
        let address = format!("10.0.{number}.2");
        self.ip(&[&there[..], &["address", "add", &format!("{address}/24"), "dev", "eth"]].concat());
        self.ip(&[&there[..], &["link", "set", "eth", "up"]].concat());
        let enter = format!("set -- nsenter --net=/run/netns/{namespace} \"$@\"");
        let extra = format!("ListenAddress {address}\n{extra}");
        self.hosts[number - 1].server = Some(Sshd::start_after(&enter, Path::new("/bin/sh"), &extra)?);
        Some(())
    }

    /// A file or folder that all may see.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The server of a host, counted from 1.
    pub fn server(&self, number: usize) -> &Sshd {
        self.hosts[number - 1].server.as_ref().unwrap()
    }

    /// Ends everything that runs on a host, as where it is switched off.
    pub fn stop(&self, number: usize) {
        self.end_all(&self.hosts[number - 1].namespace);
    }

    /// Starts its server again.
    pub fn start(&mut self, number: usize) {
        self.hosts[number - 1].server.as_mut().unwrap().start_again();
    }

    fn end_all(&self, namespace: &str) {
        let pids = Command::new(&self.ip).args(["netns", "pids", namespace]).output().unwrap().stdout;
        for pid in String::from_utf8(pids).unwrap().lines() {
            let pid = pid.parse().ok().and_then(Pid::from_raw).unwrap();
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Cuts a host off, so that nothing of it comes or goes and nobody says so; or joins it again.
    pub fn cut(&self, number: usize, is_cut: bool) {
        let namespace = &self.hosts[number - 1].namespace;
        self.ip(&["-n", namespace, "link", "set", "eth", if is_cut { "down" } else { "up" }]);
    }

    /// A verb of `verisum`, as it is run on the asker's side.
    pub fn remote(&self, verb: &str) -> Command {
        let mut config = String::new();
        for (host, number) in self.hosts.iter().zip(1..) {
            let address = format!("10.0.{number}.2");
            let _ = write!(
                config,
                "Host {}\nHostName {address}\nIdentitiesOnly yes\nIdentityAgent none\n",
                host.device
            );
            let Some(server) = &host.server else { continue };
            let known = self.path(&format!("known-{number}"));
            let port = server.port();
            let key = fs::read_to_string(server.path("host.pub")).unwrap();
            fs::write(&known, format!("[{address}]:{port} {key}")).unwrap();
            let _ = write!(
                config,
                "Port {port}\nUser nobody\nIdentityFile {}\nUserKnownHostsFile {}\nGlobalKnownHostsFile none\n",
                server.path(host.key).display(),
                known.display()
            );
        }
        let path = self.path("config");
        fs::write(&path, config).unwrap();
        let temporary = self.path("tmp");
        fs::create_dir_all(&temporary).unwrap();
        let mut command = command("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.here)).arg(VERISUM);
        command.args([verb, "--ssh-config"]).arg(path).env("TMPDIR", temporary);
        command.env("VERISUM_TIMEOUT", BUSY);
        command
    }

    #[track_caller]
    fn ip<S: AsRef<OsStr>>(&self, words: &[S]) {
        let output = Command::new(&self.ip).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn try_ip(&self, words: &[&str]) -> bool {
        Command::new(&self.ip).args(words).output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in std::mem::take(&mut self.hosts) {
            // Sessions that were cut off wait for those who asked.
            self.end_all(&host.namespace);
            drop(host.server);
            self.try_ip(&["netns", "del", &host.namespace]);
        }
        self.try_ip(&["netns", "del", &self.here]);
    }
}
