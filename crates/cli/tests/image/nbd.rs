//! NBD from the command line: the value is that of the same bytes in a file, and every failure of a server
//! ends the programs with a line that says what it was.

use crate::common;

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Duration;

use common::{BLKSUM, Ended, VERISUM, blksum, command, image_sum, start, values, verisum, wait_until};
use rustix::process::Signal;
use verisum_testkit::{Run, Server, paint, require_root, require_tool};

const MIB: u64 = 1 << 20;

/// Both programs, and their exit codes for what could not be read.
fn programs() -> [(&'static str, Command, i32); 2] {
    let mut image_sum = command(VERISUM);
    image_sum.args(["image", "sum", "--untagged"]);
    [("verisum", image_sum, 3), ("blksum", command(BLKSUM), 1)]
}

#[test]
fn an_export_has_the_value_of_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let runs = [Run::data(5 * MIB), Run::hole(9 * MIB), Run::data(3 * MIB + 4321)];
    paint(&path, &runs).unwrap();
    let name = path.to_str().unwrap();
    let Some(nbdkit) = Server::nbdkit(["file", name]) else { return };
    let Some(qemu) = Server::qemu_nbd(["--format=raw", "--shared=0", name]) else { return };
    let sum = |arguments: &[&str]| image_sum(arguments).out().split(' ').next().unwrap().to_string();
    let (padded, exact) = (sum(&[name]), sum(&["--exact", name]));
    assert_ne!(padded, exact);
    for threads in ["1", "2", "30"] {
        assert_eq!(sum(&["-t", threads, &nbdkit.uri()]), padded);
        assert_eq!(sum(&["-t", threads, "--exact", &nbdkit.uri()]), exact);
        assert_eq!(sum(&["-t", threads, "--exact", &qemu.uri()]), padded, "QEMU shows whole sectors");
    }
    let ended = blksum(["--threads=3", &qemu.uri()]);
    assert_eq!(ended.clean(), format!("{padded}  {}\n", qemu.uri()));
    assert_eq!(blksum([&nbdkit.uri()]).clean(), format!("{exact}  {}\n", nbdkit.uri()));
    let json = image_sum(["--json", &nbdkit.uri()]);
    assert!(json.out().contains(&format!(r#""digest":"{padded}""#)), "{json:?}");
    assert!(json.stderr.contains("is not a multiple of 512"));
    // What reads images reads exports.
    assert_eq!(verisum(["image", "diff", name, &nbdkit.uri()]).code, Some(0));
}

#[test]
fn what_a_server_fails_at_is_said() {
    let Some(server) = Server::nbdkit(["--filter=error", "pattern", "8M", "error-pread-rate=100%"]) else {
        return;
    };
    for (name, mut program, code) in programs() {
        let ended = Ended::of(program.args(["-t1", &server.uri()]).output().unwrap());
        ended.failed(code, &format!("{name}: {}: read at 0: Input/output error", server.uri()));
    }
}

#[test]
fn a_server_that_is_lost_is_an_error_and_no_wait() {
    for mode in ["multi-conn-mode=disable", "multi-conn-mode=auto"] {
        for (name, mut program, code) in programs() {
            let log = tempfile::NamedTempFile::new().unwrap();
            let logfile = format!("logfile={}", log.path().display());
            // A read takes longer than any test.
            let filters = ["--filter=multi-conn", "--filter=log", "--filter=delay", "pattern", "64M"];
            let options = [mode, &logfile, "rdelay=1000"];
            let Some(mut server) = Server::nbdkit(filters.iter().chain(&options)) else { return };
            let uri = server.uri();
            let child = start(program.args(["-t4", &uri]));
            wait_until("it reads", || fs::read_to_string(log.path()).unwrap().contains(" Read "));
            server.kill();
            let ended = Ended::of(child.wait_with_output().unwrap());
            assert_eq!((ended.code, ended.out()), (Some(code), ""), "{ended:?}");
            assert!(ended.stderr.starts_with(&format!("{name}: {uri}: read at ")), "{ended:?}");
            assert!(ended.stderr.contains("connection") && ended.stderr.lines().count() == 1, "{ended:?}");
        }
    }
}

#[test]
fn signals_end_the_wait_for_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    // It accepts, by the kernel's hand, and says nothing.
    let _listener = UnixListener::bind(&socket).unwrap();
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        for (_, mut program, _) in programs() {
            let child = start(program.arg(&uri));
            let waits = || fs::read_to_string(format!("/proc/{}/wchan", child.id())).unwrap_or_default();
            // Kernels may hide where a process waits.
            wait_until("it waits", || ["0", ""].contains(&waits().as_str()) || waits().contains("poll"));
            std::thread::sleep(Duration::from_millis(50));
            common::signal(&child, signal);
            let ended = Ended::of(child.wait_with_output().unwrap());
            let said = match (program.get_program() == BLKSUM, signal) {
                (true, Signal::TERM) => "blksum: Terminated by signal 15\n",
                _ => "",
            };
            assert_eq!((ended.signal, ended.out(), ended.stderr.as_str()), (Some(number), "", said));
        }
    }
}

#[test]
fn without_the_library_its_package_is_named() {
    if require_root().is_none() {
        return;
    }
    let (Some(unshare), Some(ldconfig)) = (require_tool("unshare"), require_tool("ldconfig")) else { return };
    let known = Command::new(ldconfig).arg("-p").output().unwrap();
    let known = String::from_utf8(known.stdout).unwrap();
    let Some(line) = known.lines().find(|line| line.contains("libnbd.so.0")) else {
        return verisum_testkit::skip("libnbd0 is not installed");
    };
    let library = line.split(" => ").nth(1).unwrap();
    let script = r#"mount --bind /dev/null "$0" && exec "$@""#;
    let mut hidden = Command::new(unshare);
    hidden.args([
        "--mount",
        "sh",
        "-c",
        script,
        library,
        VERISUM,
        "image",
        "sum",
        "--untagged",
        "nbd://localhost/",
    ]);
    let message = "NBD needs libnbd.so.0, which is not installed (Debian package libnbd0)";
    let ended = Ended::of(hidden.output().unwrap());
    ended.failed(3, &format!("verisum: nbd://localhost/: open: {message}"));
    // Nothing else needs it.
    let mut hidden = Command::new(require_tool("unshare").unwrap());
    hidden.args([
        "--mount",
        "sh",
        "-c",
        script,
        library,
        VERISUM,
        "image",
        "sum",
        "--untagged",
        "/dev/null",
        "/etc/fstab",
    ]);
    assert_eq!(values(Ended::of(hidden.output().unwrap()).out()).len(), 1);
}
