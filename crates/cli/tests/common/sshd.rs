//! A real sshd on this machine that lets in a user without rights.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use verisum_testkit::{Port, require_root, require_tool, skip};

use super::{Ended, VERISUM, command, wait_until};

/// A real sshd on this machine, with keys, a configuration and a user of its own.
pub struct Sshd {
    folder: TempDir,
    port: Port,
    /// What starts it.
    command: Command,
    child: Child,
}

/// How long a host may take to answer: on a busy machine ssh takes half a minute and more to connect.
pub const BUSY: &str = "5m";

/// The user that is let in: it owns nothing. It has a shell only where the server runs.
const USER: &str = "nobody";

/// Whoever has installed verisum here has it on this host too, which then is asked in another way.
const NOT_INSTALLED: &str = "for program in /usr/local/bin/verisum /usr/bin/verisum; \
                             do [ ! -e $program ] || mount --bind /dev/null $program || exit; done";

impl Sshd {
    /// With this login shell, and more lines of its configuration. `None` where that cannot be.
    pub fn start(shell: &Path, extra: &str) -> Option<Sshd> {
        Sshd::start_after(":", shell, extra)
    }

    /// The same after these commands, which see the mounts that only the server sees.
    pub fn start_after(before: &str, shell: &Path, extra: &str) -> Option<Sshd> {
        require_root()?;
        let (sshd, keygen, unshare) =
            (require_tool("sshd")?, require_tool("ssh-keygen")?, require_tool("unshare")?);
        // It checks that nobody else could have changed them.
        let folder = tempfile::Builder::new().prefix("verisum-sshd-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        let path = |name: &str| folder.path().join(name);
        for key in ["host", "user", "stranger"] {
            let made =
                Command::new(&keygen).args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key)).status();
            assert!(made.unwrap().success());
        }
        fs::copy(path("user.pub"), path("authorized")).unwrap();
        fs::set_permissions(path("authorized"), fs::Permissions::from_mode(0o644)).unwrap();
        let taken = Port::take();
        let port = taken.number();
        let here = folder.path().display();
        // The usual key exchange takes ten times as long: it withstands computers that do not exist yet.
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host\nAuthorizedKeysFile {here}/authorized\n\
             PidFile {here}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nUseDNS no\nKexAlgorithms curve25519-sha256\n{extra}\n"
        );
        let config = config.replace("FORCED", &format!("ForceCommand /bin/sh {here}/forced"));
        fs::write(path("sshd_config"), config).unwrap();
        // The accounts that the server sees.
        let accounts = fs::read_to_string("/etc/passwd").unwrap();
        let mut mine = format!("{USER}:x:65534:65534::/:{}\n", shell.display());
        mine.extend(
            accounts.lines().filter(|line| !line.starts_with("nobody:")).map(|line| format!("{line}\n")),
        );
        fs::write(path("passwd"), mine).unwrap();
        let key = fs::read_to_string(path("host.pub")).unwrap();
        let key = key.trim().rsplit_once(' ').map_or(&key[..], |(key, _)| key);
        fs::write(path("known"), format!("[127.0.0.1]:{port} {key}\n")).unwrap();
        let mut hosts = String::new();
        for (host, key, port) in [
            ("web1", "user", port),
            ("web2", "user", port),
            ("stranger", "stranger", port),
            ("down", "user", 1),
        ] {
            hosts.push_str(&format!(
                "Host {host}\nHostName 127.0.0.1\nPort {port}\nUser {USER}\nIdentityFile {here}/{key}\n\
                 IdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {here}/known\nGlobalKnownHostsFile none\n"
            ));
        }
        hosts.push_str(&format!("Host new\nHostName 127.0.0.1\nPort {port}\nUser {USER}\nIdentityFile {here}/user\nUserKnownHostsFile {here}/none\nGlobalKnownHostsFile none\n"));
        fs::write(path("config"), hosts).unwrap();
        let mut command = Command::new(unshare);
        command
            .args(["--mount", "/bin/sh", "-c"])
            .arg(format!("mount --bind \"$0\" /etc/passwd && {NOT_INSTALLED} && {before} && exec \"$@\""))
            .arg(path("passwd"));
        command.arg(sshd).arg("-D").arg("-f").arg(path("sshd_config")).arg("-E").arg(path("log"));
        let child = start(&mut command, folder.path());
        Some(Sshd { folder, port: taken, command, child })
    }

    /// Starts it again after its end.
    pub fn start_again(&mut self) {
        let _ = self.child.wait();
        self.child = start(&mut self.command, self.folder.path());
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Replaces what a host starts for every command.
    pub fn force(&self, script: &str) {
        fs::write(self.path("forced"), script).unwrap();
    }

    /// A verb of `verisum`, with a folder of its own for what is temporary.
    pub fn remote(&self, verb: &str) -> Command {
        self.verisum(&[verb])
    }

    /// The same with other words.
    pub fn verisum(&self, words: &[&str]) -> Command {
        let temporary = self.path("tmp");
        fs::create_dir_all(&temporary).unwrap();
        let mut command = command(VERISUM);
        command.args(words).arg("--ssh-config").arg(self.path("config")).env("TMPDIR", temporary);
        command.env("VERISUM_TIMEOUT", BUSY);
        command
    }

    pub fn run(&self, command: &mut Command) -> Ended {
        let ended = Ended::of(command.output().unwrap());
        // The sockets and their folder go with the program.
        let left: Vec<_> = fs::read_dir(self.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        ended
    }
}

/// Starts a server and waits until it listens; its number stands in a file then.
fn start(command: &mut Command, folder: &Path) -> Child {
    let _ = fs::remove_file(folder.join("pid"));
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let (pid, log) = (folder.join("pid"), folder.join("log"));
    wait_until("the server listens", || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", fs::read_to_string(&log).unwrap_or_default());
        pid.exists()
    });
    child
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The test needs an account that sshd lets in with a key: one that is not locked.
pub fn sshd(extra: &str) -> Option<Sshd> {
    let shadow = fs::read_to_string("/etc/shadow").unwrap_or_default();
    let password = shadow.lines().find_map(|line| line.strip_prefix("nobody:")).unwrap_or("!");
    if password.starts_with('!') {
        skip("the user nobody is locked");
        return None;
    }
    Sshd::start(Path::new("/bin/sh"), extra)
}

/// A server that runs this script in place of every command. It greets, as some login shells do.
pub fn forced(script: &str) -> Option<Sshd> {
    let server = sshd("FORCED")?;
    server.force(script);
    Some(server)
}

/// What runs the command that was asked for.
pub const RUN: &str = "exec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n";
