//! What cannot be hashed: one line that says so, the right exit code, and never a value.

use crate::common;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use common::{
    BLKSUM, Ended, VERISUM, blksum, command, data_file, image_sum, start, values, verisum, with_pipe,
};
use verisum_testkit::{Run, fault, paint, require_tool};

#[test]
fn missing_files_and_folders_are_named() {
    image_sum(["/no/such"]).failed(3, "verisum: /no/such: open: No such file or directory");
    blksum(["/no/such"]).failed(1, "blksum: /no/such: open: No such file or directory");
    image_sum(["/"]).failed(3, "verisum: /: open: Is a directory");
    blksum(["/"]).failed(1, "blksum: /: open: Is a directory");
    image_sum(["/dev/null"]).failed(3, "verisum: /dev/null: open: Is a character device");
    image_sum(["/etc/passwd/x"]).failed(3, "verisum: /etc/passwd/x: open: Not a directory");
    let stdin = || Stdio::from(File::open("/").unwrap());
    let ended =
        Ended::of(command(VERISUM).args(["image", "sum", "--untagged"]).stdin(stdin()).output().unwrap());
    ended.failed(3, "verisum: standard input: open: Is a directory");
    let ended = Ended::of(command(BLKSUM).stdin(stdin()).output().unwrap());
    ended.failed(1, "blksum: standard input: open: Is a directory");
}

#[test]
fn good_files_are_printed_beside_bad_ones() {
    let folder = tempfile::tempdir().unwrap();
    let good = data_file(folder.path(), "good", 1 << 20);
    let other = data_file(folder.path(), "other", 512);
    let good_value = image_sum([&good]).clean();
    let other_value = image_sum([&other]).clean();
    let ended = image_sum([&good, &folder.path().join("none"), folder.path(), &other]);
    assert_eq!(ended.code, Some(3));
    assert_eq!(ended.out(), good_value.clone() + &other_value);
    assert_eq!(ended.stderr.lines().count(), 2);
    // The order does not matter.
    let ended = image_sum([folder.path(), &good]);
    assert_eq!((ended.code, ended.out()), (Some(3), good_value.as_str()));
}

#[test]
fn unreadable_files_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "secret", 4096);
    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let (name, message) = (path.to_str().unwrap(), format!("{}: open: Permission denied", path.display()));
    if !verisum_testkit::is_root() {
        image_sum([name]).failed(3, &format!("verisum: {message}"));
        return blksum([name]).failed(1, &format!("blksum: {message}"));
    }
    // Root reads everything: be somebody else, who finds the programs in a folder open to all.
    let Some(setpriv) = require_tool("setpriv") else { return };
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for (program, arguments, code) in [(VERISUM, &["image", "sum", "--untagged"][..], 3), (BLKSUM, &[], 1)] {
        let copy = folder.path().join(program.rsplit('/').next().unwrap());
        // By another process: a program cannot be started while a file of it is open for writing, and other
        // tests start children that would inherit one from here.
        assert!(command("cp").arg(program).arg(&copy).status().unwrap().success());
        let mut command = command(setpriv.to_str().unwrap());
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        let ended = Ended::of(command.args(arguments).arg(name).output().unwrap());
        ended.failed(code, &format!("{}: {message}", copy.file_name().unwrap().to_str().unwrap()));
    }
}

#[test]
fn a_read_error_in_the_middle_leaves_no_value() {
    let Some(bad) = fault::btrfs_bad_file() else { return };
    let name = bad.path.to_str().unwrap();
    let message = format!("{name}: read at {}: Input/output error", bad.bad_offset);
    for cache in [&[][..], &["--cache"]] {
        let arguments = || cache.iter().chain([&name]);
        image_sum(arguments()).failed(3, &format!("verisum: {message}"));
        blksum(arguments()).failed(1, &format!("blksum: {message}"));
    }
    let stdin = || common::stdin_of(&bad.path);
    let ended =
        Ended::of(command(VERISUM).args(["image", "sum", "--untagged"]).stdin(stdin()).output().unwrap());
    ended.failed(3, &format!("verisum: {}", message.replacen(name, "standard input", 1)));
}

#[test]
fn containers_that_cannot_be_decoded_are_errors_and_not_raw() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let name = path.to_str().unwrap();
    let formats: [(&[u8], &str); 3] = [(b"KDMV\x01", "VMDK"), (b"vhdxfile", "VHDX"), (b"QED\0", "QED")];
    for (magic, format) in formats {
        fs::write(&path, [magic, &[1; 2000]].concat()).unwrap();
        let hint = "(--format raw hashes the bytes of the file itself)";
        if require_tool("qemu-nbd").is_some() {
            let ended = image_sum([name]);
            // Why is for QEMU to say.
            assert!(ended.stderr.starts_with(&format!("verisum: {name}: open: ")), "{ended:?}");
            assert_eq!((ended.code, ended.out(), ended.stderr.lines().count()), (Some(3), "", 1));
        }
        let piped =
            with_pipe(command(VERISUM).args(["image", "sum", "--untagged"]), &fs::read(&path).unwrap());
        let pipe =
            format!("verisum: standard input: open: {format} images cannot be read from a pipe {hint}");
        piped.failed(3, &pipe);
        let raw = image_sum(["--format=raw", "--exact", name]).clean();
        let stdin = Ended::of(command(BLKSUM).stdin(common::stdin_of(&path)).output().unwrap());
        assert_eq!(values(&raw), values(&stdin.clean()), "blksum takes standard input as it is");
        assert_eq!(values(&blksum([name]).clean()), values(image_sum(["--format=raw", name]).out()));
    }
    fs::write(&path, [&b"QFI\xfb\0\0\0\x03"[..], &[1; 2000]].concat()).unwrap();
    let message = format!("{name}: open at 20: cluster size of 2^16843009 bytes");
    image_sum([name]).failed(3, &format!("verisum: {message}"));
    blksum([name]).failed(1, &format!("blksum: {message}"));
}

#[test]
fn addresses_without_a_server_are_errors() {
    let address = "nbd+unix:///?socket=/nonexistent";
    let message = format!("{address}: open: connect: No such file or directory");
    blksum([address]).failed(1, &format!("blksum: {message}"));
    image_sum([address]).failed(3, &format!("verisum: {message}"));
    let message = "nbd://alice:...@localhost/: open: an NBD address has no password (keys are in a file: \
                   tls-psk-file=FILE)";
    image_sum(["nbd://alice:secret@localhost/"]).failed(3, &format!("verisum: {message}"));
    let message = format!("{address}: open: what an NBD server exports is raw, without snapshots");
    image_sum(["--format=vdi", address]).failed(3, &format!("verisum: {message}"));
}

#[test]
fn bad_usage_is_found_before_anything_is_read() {
    let cases: [(&[&str], &str); 15] = [
        (&["--block-size", "64 KB"], "--block-size: 64 KB: must be a size, as 65536, 64k, 64KiB or 64KB"),
        (&["-a", "sha265"], "unknown digest: sha265 (did you mean sha256?)"),
        (&["-a", "nonsense"], "unknown digest: nonsense (`verisum digests` lists them)"),
        (&["-a", "sha"], "unknown digest: sha (did you mean sha1, sha256, sha224 or sha384?)"),
        (&["-a", "a\nb"], r"unknown digest: $'a\nb' (`verisum digests` lists them)"),
        (&["-a", ""], "unknown digest: '' (`verisum digests` lists them)"),
        (&["-a", "openssl:nonsense"], "unknown digest: openssl:nonsense (`verisum digests` lists them)"),
        (
            &["--block-size", "0"],
            "--block-size: 0: must be an even number of bytes, more than 0 and less than 4G",
        ),
        (
            &["--block-size", "511"],
            "--block-size: 511: must be an even number of bytes, more than 0 and less than 4G",
        ),
        (
            &["--block-size", "4G"],
            "--block-size: 4G: must be an even number of bytes, more than 0 and less than 4G",
        ),
        (&["--threads", "0"], "--threads: 0: must be 1 to 128"),
        (&["--threads", "129"], "--threads: 129: must be 1 to 128"),
        (&["-t", "x"], "--threads: x: must be 1 to 128"),
        (&["--thread", "1"], "unexpected argument '--thread' found (a similar argument exists: '--threads')"),
        (&["--cache", "--cache"], "the argument '--cache' cannot be used multiple times"),
    ];
    for (arguments, message) in cases {
        image_sum(arguments.iter().chain([&"/no/such"])).failed(2, &format!("verisum: {message}"));
    }
    for arguments in [&["-c", "SUMS"][..], &["-cSUMS"], &["-pc", "SUMS"], &["--check"], &["--check=SUMS"]] {
        let option = if arguments[0].starts_with("--") { "--check" } else { "-c" };
        let message = format!("verisum: {option}: lists are checked by `verisum check`");
        verisum(["sum"].iter().chain(arguments)).failed(2, &message);
        verisum(["image", "map", "--cache"].iter().chain(arguments)).failed(2, &message);
    }
    verisum([""; 0]).failed(2, "verisum: a command is missing (--help lists them)");
    verisum(["image"]).failed(2, "verisum: a command is missing (--help lists them)");
    verisum(["no\nsuch"]).failed(2, "verisum: unrecognized subcommand 'no such'");
    verisum(["digest"])
        .failed(2, "verisum: unrecognized subcommand 'digest' (did you mean `verisum digests`?)");
    verisum(["bench", "digests", "-a", "md5,sha265"])
        .failed(2, "verisum: unknown digest: sha265 (did you mean sha256?)");
    verisum(["help", "image", "sums"]).failed(2, "verisum: unrecognized subcommand 'sums'");
    verisum(["completions", "tcsh"]).failed(
        2,
        "verisum: invalid value 'tcsh' for '<SHELL>' [possible values: bash, elvish, fish, powershell, zsh] (a similar value exists: 'zsh')",
    );
}

#[test]
fn a_level_that_is_not_there_is_bad_usage() {
    let with = |program: &str, level: &str| {
        let mut command = command(program);
        if program == VERISUM {
            command.args(["image", "sum", "--untagged"]);
        }
        Ended::of(command.arg("/no/such").env("VERISUM_KERNEL", level).output().unwrap())
    };
    let unknown = "VERISUM_KERNEL: sse9: must be one of portable, shani, avx2, avx512";
    with(VERISUM, "sse9").failed(2, &format!("verisum: {unknown}"));
    with(BLKSUM, "sse9").failed(1, &format!("blksum: {unknown}"));
    // Empty is as unset.
    with(VERISUM, "").failed(3, "verisum: /no/such: open: No such file or directory");
    with(BLKSUM, "").failed(1, "blksum: /no/such: open: No such file or directory");
    for level in verisum::digest::Level::ALL.iter().filter(|level| !level.available()) {
        let missing = format!("verisum: VERISUM_KERNEL: {}: this processor does not have it", level.name());
        with(VERISUM, level.name()).failed(2, &missing);
    }
}

#[test]
fn every_level_gives_the_same_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    paint(&path, &[Run::data(2_000_000), Run::hole(1_000_000), Run::data(5)]).unwrap();
    for digest in ["sha256", "sha1", "sha512", "md5", "blake2b512", "sha3-256"] {
        let wanted = image_sum(["-a", digest, path.to_str().unwrap()]).stdout;
        for level in verisum::digest::Level::ALL.iter().filter(|level| level.available()) {
            let mut command = command(VERISUM);
            command
                .args(["image", "sum", "--untagged", "-a", digest])
                .arg(&path)
                .env("VERISUM_KERNEL", level.name());
            assert_eq!(command.output().unwrap().stdout, wanted, "{digest} {level:?}");
        }
    }
}

#[test]
fn a_closed_or_full_output_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "image", 4096);
    let name = path.to_str().unwrap();
    let runs: [(&str, &[&str], i32); 9] = [
        (VERISUM, &["image", "sum", "--untagged", name, name], 3),
        (VERISUM, &["image", "sum", "--untagged", "--json", name], 3),
        (VERISUM, &["digests"], 3),
        (VERISUM, &["digests", "--json"], 3),
        (VERISUM, &["completions", "bash"], 3),
        (VERISUM, &["--help"], 3),
        (BLKSUM, &[name], 1),
        (BLKSUM, &["-l"], 1),
        (BLKSUM, &["-h"], 1),
    ];
    for (program, arguments, code) in runs {
        let program_name = program.rsplit('/').next().unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(program).args(arguments).stdout(full).output().unwrap();
        Ended::of(output)
            .failed(code, &format!("{program_name}: standard output: write: No space left on device"));

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(program).args(arguments).stdout(writer).output().unwrap();
        Ended::of(output).failed(code, &format!("{program_name}: standard output: write: Broken pipe"));
    }
}

/// Runs a command of `sh`, in which `$0` is the program.
fn shell(program: &str, script: &str) -> Ended {
    Ended::of(command("sh").args(["-c", script, program]).output().unwrap())
}

#[test]
fn closed_standard_streams_are_not_empty_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "image", 4096);
    let name = path.to_str().unwrap();
    for script in ["", "-", "--progress -"] {
        let script = format!("\"$0\" image sum --untagged {script} <&-");
        shell(VERISUM, &script).failed(3, "verisum: standard input: open: Bad file descriptor");
    }
    shell(BLKSUM, "\"$0\" <&-").failed(1, "blksum: standard input: open: Bad file descriptor");
    let good = shell(VERISUM, &format!("\"$0\" image sum --untagged {name} - <&-"));
    assert_eq!((good.code, good.out().lines().count()), (Some(3), 1));
    // Who asks for nothing of it does not miss it.
    assert!(shell(BLKSUM, &format!("\"$0\" {name} <&-")).clean().ends_with("image\n"));

    // Written after all, or only opened for reading: both lose what is printed.
    for close in [">&-", "1</dev/null", ">&- <&- "] {
        for arguments in [&format!("image sum --untagged {name}"), "digests", "digests --json", "--help"] {
            let ended = shell(VERISUM, &format!("\"$0\" {arguments} {close}"));
            ended.failed(3, "verisum: standard output: write: Bad file descriptor");
        }
        for arguments in [name, "-l", "-h"] {
            let ended = shell(BLKSUM, &format!("\"$0\" {arguments} {close}"));
            ended.failed(1, "blksum: standard output: write: Bad file descriptor");
        }
    }
    // Nothing is opened or read in vain, and no message is lost that tells more.
    shell(VERISUM, "\"$0\" image sum --untagged /no/such >&-")
        .failed(3, "verisum: standard output: write: Bad file descriptor");
    assert_eq!(shell(VERISUM, "\"$0\" --nonsense >&-").code, Some(2));
    // What prints nothing needs no output.
    shell(VERISUM, &format!("\"$0\" man {} >&-", folder.path().display())).clean();
    assert_eq!(shell(VERISUM, "\"$0\" image sum --untagged /no/such 2>&-").code, Some(3));
}

#[test]
fn a_reader_that_goes_away_ends_a_long_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "image", 4096);
    let mut child =
        start(command(VERISUM).args(["image", "sum", "--untagged"]).args(std::iter::repeat_n(&path, 5000)));
    drop(child.stdout.take());
    Ended::of(child.wait_with_output().unwrap()).failed(3, "verisum: standard output: write: Broken pipe");
}

#[test]
fn one_option_or_argument_reads_standard_input() {
    for (words, both) in [
        (&["sum", "--hosts", "-", "--files0-from", "-", "/srv"][..], "--hosts and --files0-from"),
        (&["check", "--hosts", "-", "-", "/"], "--hosts and LIST"),
        (&["image", "diff", "-", "-"], "A and B"),
        (&["image", "update", "--map", "m", "--ranges", "-", "-o", "n", "-"], "--ranges and IMAGE"),
    ] {
        let ended = with_pipe(command(VERISUM).args(words), b"web1\n");
        ended.failed(2, &format!("verisum: {both} both read standard input: one must be a file"));
    }
}
