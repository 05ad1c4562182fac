//! Running the two programs.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod answers;
pub mod bucket;
pub mod chroot;
pub mod cloud;
pub mod network;
pub mod recording;
pub mod scrubbing;
pub mod sshd;
pub mod tagging;
pub mod trees;
pub mod webhook;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use verisum_testkit::{Run, paint};

pub const VERISUM: &str = env!("CARGO_BIN_EXE_verisum");
pub const BLKSUM: &str = env!("CARGO_BIN_EXE_blksum");

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Without what measurements say of a busy machine, which tests always run on.
fn without_noise(messages: &str) -> String {
    messages.split_inclusive('\n').filter(|line| !line.starts_with("verisum: noisy: ")).collect()
}

impl Ended {
    pub fn of(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: output.stdout,
            stderr: without_noise(&String::from_utf8(output.stderr).expect("messages in UTF-8")),
        }
    }

    pub fn out(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("results in UTF-8")
    }

    /// Asserts that all went well and nothing was said; returns the results.
    #[track_caller]
    pub fn clean(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""));
        String::from_utf8(self.stdout).expect("results in UTF-8")
    }

    /// Asserts the exit code, that there is no result, and the one line of message.
    #[track_caller]
    pub fn failed(self, code: i32, message: &str) {
        assert_eq!(self.stderr, format!("{message}\n"));
        assert_eq!((self.code, self.out()), (Some(code), ""));
    }
}

/// A program that sees none of this machine's settings. Scrubs run at normal priority: at their own, the lowest, they
/// would wait for minutes on a busy machine.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_remove("VERISUM_KERNEL").env("VERISUM_CONFIG", "").env("VERISUM_FOREGROUND", "true");
    command.stdin(Stdio::null());
    command
}

/// Runs `verisum` to its end.
pub fn verisum<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    Ended::of(command(VERISUM).args(arguments).output().unwrap())
}

/// Runs `verisum image sum` to its end.
pub fn image_sum<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    Ended::of(command(VERISUM).args(["image", "sum", "--untagged"]).args(arguments).output().unwrap())
}

/// Runs `blksum` to its end.
pub fn blksum<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    Ended::of(command(BLKSUM).args(arguments).output().unwrap())
}

/// Runs a command with these bytes in a pipe as its standard input.
pub fn with_pipe(command: &mut Command, bytes: &[u8]) -> Ended {
    let mut child = start(command.stdin(Stdio::piped()));
    let mut pipe = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that ends early is seen in its exit code.
            let _ = pipe.write_all(bytes);
        });
        Ended::of(child.wait_with_output().unwrap())
    })
}

/// Starts a command whose output is kept.
pub fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Makes a file of data in a folder.
pub fn data_file(folder: &Path, name: &str, length: u64) -> PathBuf {
    let path = folder.join(name);
    paint(&path, &[Run::data(length)]).unwrap();
    path
}

/// The value of each line, be it tagged or not.
pub fn values(out: &str) -> Vec<&str> {
    out.lines()
        .map(|line| line.rsplit_once(") = ").map_or(line.split(' ').next().unwrap(), |(_, value)| value))
        .collect()
}

pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Whether this process ignores a signal, and with it every program that it starts.
pub fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Waits until a process has a file open and has read so much that it knows the file's length: no start of a
/// program reads that. Also returns if it has ended.
pub fn wait_for_open(child: &mut Child, path: &Path) {
    let path = path.canonicalize().unwrap();
    let has_read = |child: &Child| {
        let told =
            |what: &str| fs::read_to_string(format!("/proc/{}/{what}", child.id())).unwrap_or_default();
        let read = told("io").lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
        // It may also be hashed in the page cache.
        read.is_some_and(|read: u64| read >= 64 << 10) || told("maps").contains(path.to_str().unwrap())
    };
    wait_until("the file is read", || {
        let ended = child.try_wait().unwrap().is_some();
        let descriptors = fs::read_dir(format!("/proc/{}/fd", child.id()));
        let is_open = descriptors.is_ok_and(|all| {
            all.flatten().any(|one| fs::read_link(one.path()).is_ok_and(|link| link == path))
        });
        ended || is_open && has_read(child)
    });
}

/// Waits until something is so; panics after ten minutes, which is a guard and no limit.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(600);
    while !so() {
        assert!(Instant::now() < deadline, "not so after ten minutes: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Opens a file to be a program's standard input.
pub fn stdin_of(path: &Path) -> Stdio {
    File::open(path).unwrap().into()
}

/// Changes bytes without a trace in the file's time of modification.
pub fn change_and_restore_time(path: &Path, content: &(impl AsRef<[u8]> + ?Sized)) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, content).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Flips a bit of the first of these bytes in an image, where they begin a block.
pub fn flip(image: &Path, bytes: &[u8]) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let mut block = vec![0; bytes.len()];
    for offset in (0..file.metadata().unwrap().len()).step_by(4096) {
        if file.read_exact_at(&mut block, offset).is_ok() && block == bytes {
            file.write_all_at(&[bytes[0] ^ 0x55], offset).unwrap();
            file.sync_all().unwrap();
            return;
        }
    }
    panic!("{}: the bytes are not there", image.display());
}
