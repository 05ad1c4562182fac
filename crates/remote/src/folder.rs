//! Makes the private directory for the sockets of ssh's connections, and ends those connections.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The longest path in which a socket still fits: ssh appends a name of its own while it makes one.
const MOST: usize = 60;

/// What the shell does that waits for the end of this process: whatever is in its group of processes ends
/// with it. Those that may ask at the terminal cannot be in that group, and are told over their sockets.
const KEEPER: &str = r#"trap "" HUP INT TERM
while read -r l; do :; done
for s in "$0"/ask*; do if [ -S "$s" ]; then ssh -F none -S "$s" -O exit -- x; fi; done
rm -rf -- "$0"
kill -KILL 0"#;

/// A directory that only this user can enter. It goes when this is dropped, and also when this process ends
/// in any other way, and the processes of ssh go with it: a shell waits for that.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Waits for the end of its standard input, which only this process holds open.
    keeper: Child,
}

impl Folder {
    /// Makes it below `parent`, or below /tmp where that path is too long for a socket.
    pub fn new(parent: &Path) -> io::Result<Folder> {
        let parent = if parent.as_os_str().len() < MOST { parent } else { Path::new("/tmp") };
        // `tempfile` makes it with the mode 0700.
        let folder = tempfile::Builder::new().prefix("verisum-ssh-").tempdir_in(parent)?;
        // Out of reach of the keys of the terminal, which end this process and so tell it anyway.
        let keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Folder { path: folder.keep(), keeper })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The group of processes that end when this process does.
    pub fn group(&self) -> u32 {
        self.keeper.id()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
