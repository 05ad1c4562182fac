//! `blksum` keeps to what its users' fingers and scripts know.

use crate::common;

use std::path::Path;
use std::process::Stdio;

use common::{blksum, data_file, image_sum};
use rustix::process::Signal;

/// A file and what `verisum image sum` says of it.
fn file(folder: &Path, arguments: &[&str]) -> (String, String) {
    let path = data_file(folder, "image", 1 << 20);
    let out = image_sum(arguments.iter().map(Path::new).chain([path.as_path()])).clean();
    (path.to_str().unwrap().to_string(), out)
}

#[test]
fn options_have_their_usual_forms() {
    let folder = tempfile::tempdir().unwrap();
    let (name, wanted) = file(folder.path(), &["-a", "sha1", "--block-size", "128k"]);
    let name = name.as_str();
    let same: [&[&str]; 9] = [
        &["-d", "sha1", "--block-size", "128k", name],
        &["-dsha1", "--block-size=131072", name],
        &["--digest", "sha1", "--block-size", "128K", "--", name],
        &["--digest=sha1", name, "--block-size=128k"],
        &["--dig", "sha1", "--bl", "128k", name],
        &["-cpd", "sha1", "-t2", "--block-size=128k", name],
        &["-pct", "4", "-d", "sha1", "--block-size=128k", name],
        &["-dmd5", "-d", "sha1", "--block-size=128k", "--queue-depth=16", "--read-size=256k", name],
        &["--cache", "--progress", "--threads", "1", "-d", "SHA1", "--block-size=128k", name],
    ];
    for arguments in same {
        assert_eq!(blksum(arguments).clean(), wanted, "{arguments:?}");
    }
}

#[test]
fn the_defaults_are_sha256_and_64_kib() {
    let folder = tempfile::tempdir().unwrap();
    let (name, wanted) = file(folder.path(), &["-a", "sha256", "--block-size", "65536"]);
    assert_eq!(blksum([name.as_str()]).clean(), wanted);
}

#[test]
fn the_list_is_that_of_the_specification() {
    let names = "blake2b512 blake2s256 blake3 md5 md5-sha1 null ripemd160 sha1 sha224 sha256 sha3-224 \
        sha3-256 sha3-384 sha3-512 sha384 sha512 sha512-224 sha512-256 shake128 shake256 sm3";
    let wanted: Vec<&str> = names.split_whitespace().collect();
    for arguments in [&["-l"][..], &["--list-digests"], &["--list", "ignored"]] {
        let out = blksum(arguments).clean();
        assert_eq!(out.lines().collect::<Vec<_>>(), wanted);
    }
    // Each of them can be used.
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "image", 100_000);
    for name in wanted {
        let out = blksum(["-d", name, path.to_str().unwrap()]).clean();
        assert!(out.ends_with(&format!("  {}\n", path.display())));
    }
}

#[test]
fn digests_beyond_the_list_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(common::repository().join("crates/cli/man/blksum.1")).unwrap();
    for name in ["crc32", "xxh3-64", "SHA512/256"] {
        let (path, wanted) = file(folder.path(), &["-a", name]);
        assert_eq!(blksum(["-d", name, path.as_str()]).clean(), wanted);
        assert!(page.contains(&name.replace('-', "\\-")), "the manual names {name}");
        assert!(!blksum(["-l"]).clean().lines().any(|line| line == name));
    }
}

#[test]
fn help_goes_to_standard_output() {
    for arguments in [&["-h"][..], &["--help"], &["-ch", "/no/such"]] {
        let out = blksum(arguments).clean();
        for option in ["--digest", "--progress", "--cache", "--threads", "--queue-depth", "--read-size"] {
            assert!(out.contains(option), "{option}");
        }
        assert!(out.lines().all(|line| line.len() <= 80));
    }
}

#[test]
fn the_version_is_that_of_verisum() {
    let wanted = format!("blksum (verisum) {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(blksum(["--version"]).clean(), wanted);
    assert_eq!(blksum(["--vers", "/no/such"]).clean(), wanted);
}

#[test]
fn every_mistake_is_one_line_and_code_1() {
    let even = "must be an even number of bytes, more than 0 and less than 4G";
    let cases: [(&[&str], String); 15] = [
        (&["-d", "foo"], "blkhash_new: Invalid argument (unknown digest: foo)".to_string()),
        (&["-d", "f\no"], r"blkhash_new: Invalid argument (unknown digest: $'f\no')".to_string()),
        (&["--block-size", "0"], format!("--block-size: 0: {even}")),
        (&["--block-size=3"], format!("--block-size: 3: {even}")),
        (
            &["--block-size", "64kib"],
            "--block-size: 64kib: must be a size, as 65536, 64k, 64KiB or 64KB".to_string(),
        ),
        (&["-t0"], "--threads: 0: must be 1 to 128".to_string()),
        (&["-t", "129"], "--threads: 129: must be 1 to 128".to_string()),
        (&["--queue-depth", "0"], "--queue-depth: 0: must be 1 to 128".to_string()),
        (&["--queue-depth", "129"], "--queue-depth: 129: must be 1 to 128".to_string()),
        (&["--read-size", "1k"], "--read-size: 1k: must be a multiple of the block size, 65536".to_string()),
        (
            &["--read-size=64k", "--block-size=1m"],
            "--read-size: 64k: must be a multiple of the block size, 1048576".to_string(),
        ),
        (&["-x"], "invalid option -- 'x'".to_string()),
        (&["--nonsense"], "unrecognized option '--nonsense'".to_string()),
        (&["--threads"], "option '--threads' requires an argument".to_string()),
        (&["a", "b"], "extra operand: b".to_string()),
    ];
    for (arguments, message) in cases {
        blksum(arguments).failed(1, &format!("blksum: {message}"));
    }
}

/// The blkhash project's program says so too (bin/blksum.c): `Terminated by signal %d`, and of SIGINT nothing.
#[test]
fn a_signal_that_ends_it_is_told() {
    for (signal, number, said) in
        [(Signal::TERM, 15, "blksum: Terminated by signal 15\n"), (Signal::INT, 2, "")]
    {
        let mut waiting = common::command(common::BLKSUM);
        waiting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = waiting.spawn().unwrap();
        let input = child.stdin.take();
        let status = format!("/proc/{}/status", child.id());
        common::wait_until("SIGTERM is caught", || {
            let status = std::fs::read_to_string(&status).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(caught.trim(), 16).unwrap() >> 14 & 1 == 1
        });
        common::signal(&child, signal);
        let ended = common::Ended::of(child.wait_with_output().unwrap());
        assert_eq!((ended.signal, ended.out(), ended.stderr.as_str()), (Some(number), "", said));
        drop(input);
    }
}
