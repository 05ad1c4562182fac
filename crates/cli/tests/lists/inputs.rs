//! One value for one content, in whatever form it comes.

use crate::common;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;

use common::{BLKSUM, Ended, VERISUM, blksum, command, data_file, image_sum, stdin_of, values, with_pipe};
use verisum_testkit::{FsKind, LoopDevice, Mount, Run, content, paint, require_python, require_tool};

const MIB: u64 = 1 << 20;

fn runs() -> Vec<Run> {
    vec![Run::hole(2 * MIB), Run::data(3 * MIB + 512), Run::zero(MIB), Run::hole(4 * MIB), Run::data(5 * 512)]
}

#[test]
fn pipes_descriptors_and_holes_give_the_value_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    paint(&path, &runs()).unwrap();
    let bytes = content(&runs());
    let out = image_sum([&path]).clean();
    let wanted = values(&out)[0];
    let on_stdin = format!("{wanted}  -\n");

    let sum = || {
        let mut command = command(VERISUM);
        command.args(["image", "sum", "--untagged"]);
        command
    };
    assert_eq!(Ended::of(sum().stdin(stdin_of(&path)).output().unwrap()).clean(), on_stdin);
    assert_eq!(Ended::of(command(BLKSUM).stdin(stdin_of(&path)).output().unwrap()).clean(), on_stdin);
    assert_eq!(with_pipe(&mut sum(), &bytes).clean(), on_stdin);
    assert_eq!(with_pipe(&mut command(BLKSUM), &bytes).clean(), on_stdin);
    assert_eq!(with_pipe(sum().arg("-"), &bytes).clean(), on_stdin);
    assert_eq!(with_pipe(command(BLKSUM).arg("-"), &bytes).clean(), on_stdin);
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let named = format!("{wanted}  {name}\n");
        assert_eq!(with_pipe(sum().arg(name), &bytes).clean(), named);
        assert_eq!(with_pipe(command(BLKSUM).arg(name), &bytes).clean(), named);
        assert_eq!(Ended::of(sum().arg(name).stdin(stdin_of(&path)).output().unwrap()).clean(), named);
    }

    let Some(mkfifo) = require_tool("mkfifo") else { return };
    let fifo = folder.path().join("fifo");
    assert!(command(mkfifo.to_str().unwrap()).arg(&fifo).status().unwrap().success());
    for program in [VERISUM, BLKSUM] {
        let mut command = if program == VERISUM { sum() } else { command(BLKSUM) };
        let child = common::start(command.arg(&fifo));
        File::options().write(true).open(&fifo).unwrap().write_all(&bytes).unwrap();
        let out = Ended::of(child.wait_with_output().unwrap()).clean();
        assert_eq!(out, format!("{wanted}  {}\n", fifo.display()));
    }
}

/// Only a name that was typed is standard input, or one in a list whose names begin at the working directory.
#[test]
fn a_file_called_minus_is_one_where_it_can_only_be_that() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("tree");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("-"), "file").unwrap();
    let run = |arguments: &[&str], at: &Path| {
        with_pipe(command(VERISUM).args(arguments).current_dir(at), b"standard input")
    };
    let listed = run(&["sum", "-r", "--relative", "tree"], folder.path()).clean();
    assert!(listed.ends_with("  ./-\n"), "{listed}");
    assert_eq!(run(&["sum", "-r", "--relative", "local:tree"], folder.path()).out(), listed);
    std::fs::write(folder.path().join("names"), "-").unwrap();
    assert_eq!(run(&["sum", "--files0-from", "../names"], &inside).clean(), listed);
    std::fs::write(folder.path().join("list"), listed.replace("./-", "-")).unwrap();
    for place in ["tree", "./tree", "local:tree"] {
        let checked = run(&["check", "list", place], folder.path());
        assert_eq!((checked.code, checked.out()), (Some(0), "-: OK\n"), "{place}: {}", checked.stderr);
    }
    let checked = run(&["check", "../list"], &inside);
    assert_eq!((checked.code, checked.stderr.contains("mend it")), (Some(1), false), "{}", checked.stderr);
}

#[test]
fn verisum_takes_the_guests_view_everywhere_and_blksum_that_of_files() {
    let folder = tempfile::tempdir().unwrap();
    for length in [1, 513, 65_535, 65_537, 200_001] {
        let path = data_file(folder.path(), "odd", length);
        let whole = folder.path().join("whole");
        let rest = length.next_multiple_of(512) - length;
        paint(&whole, &[Run::data(length), Run::zero(rest)]).unwrap();
        let padded = image_sum([&whole]).clean();
        let padded = values(&padded)[0];
        let exact = image_sum([Path::new("--exact"), &path]).clean();
        let exact = values(&exact)[0];
        assert_ne!(padded, exact);

        let remark = |name: &str| {
            format!(
                "verisum: {name}: length {length} is not a multiple of 512: hashed with {rest} zero bytes after \
                 it, as a guest sees it (--exact hashes it alone)\n"
            )
        };
        let bytes = content(&[Run::data(length)]);
        let mut sum = command(VERISUM);
        sum.args(["image", "sum", "--untagged", "-t2"]);
        let cases = [
            (image_sum([&path]), remark(path.to_str().unwrap())),
            (Ended::of(sum.stdin(stdin_of(&path)).output().unwrap()), remark("standard input")),
            (with_pipe(&mut sum, &bytes), remark("standard input")),
        ];
        for (ended, remark) in cases {
            assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), remark.as_str()));
            assert_eq!(values(ended.out()), [padded]);
        }
        assert_eq!(values(&with_pipe(sum.arg("--exact"), &bytes).clean()), [exact]);
        assert_eq!(values(&blksum([&path]).clean()), [padded]);
        assert_eq!(values(&with_pipe(&mut command(BLKSUM), &bytes).clean()), [exact]);
        let stdin = Ended::of(command(BLKSUM).stdin(stdin_of(&path)).output().unwrap());
        assert_eq!(values(&stdin.clean()), [exact]);

        let json = Ended::of(
            command(VERISUM).args(["image", "sum", "--untagged", "--json"]).arg(&path).output().unwrap(),
        );
        let record: serde_json::Value = serde_json::from_str(json.out()).unwrap();
        let fields = serde_json::json!({
            "version": 1, "type": "image", "path": path.to_str().unwrap(), "algorithm": "sha256", "block_size": 65536,
            "size": length + rest, "padded": rest, "digest": padded, "modified": false,
            "tag": "BLKHASH-SHA256-64K",
        });
        assert_eq!(record, fields);
    }
}

#[test]
fn standard_input_is_read_from_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "image", MIB);
    let tail = folder.path().join("tail");
    std::fs::write(&tail, &std::fs::read(&path).unwrap()[4096..]).unwrap();
    let mut file = File::open(&path).unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    let ended = Ended::of(command(BLKSUM).stdin(Stdio::from(file)).output().unwrap());
    assert_eq!(values(&ended.clean()), values(&blksum([&tail]).clean()));
}

#[test]
fn a_loop_device_gives_the_value_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    paint(&path, &runs()).unwrap();
    let Some(device) = LoopDevice::new(&path) else { return };
    let wanted = image_sum([&path]).clean();
    for ended in [
        image_sum([device.path()]),
        image_sum([Path::new("--cache"), device.path()]),
        blksum([device.path()]),
    ] {
        assert_eq!(values(&ended.clean()), values(&wanted));
    }
}

#[test]
fn every_file_system_gives_the_same_value() {
    let mut wanted = None;
    for kind in FsKind::ALL {
        let Some(mount) = Mount::new(kind, 32 * MIB) else { continue };
        let path = mount.path().join("image");
        paint(&path, &runs()).unwrap();
        for ended in [image_sum([&path]), image_sum([Path::new("--cache"), &path]), blksum([&path])] {
            let out = ended.clean();
            let value = values(&out)[0].to_string();
            assert_eq!(*wanted.get_or_insert(value.clone()), value, "{kind:?}");
        }
    }
}

#[test]
fn threads_and_tuning_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    paint(&path, &runs()).unwrap();
    let name = path.to_str().unwrap();
    let wanted = blksum([name]).clean();
    for threads in ["1", "2", "7", "64", "128"] {
        assert_eq!(image_sum(["-t", threads, name]).clean(), wanted);
        assert_eq!(blksum(["-t", threads, name]).clean(), wanted);
    }
    assert_eq!(blksum(["--queue-depth", "1", "--read-size", "1m", "-c", name]).clean(), wanted);
    // Progress is for terminals.
    assert_eq!(image_sum(["--progress", name]).clean(), wanted);
    assert_eq!(blksum(["-p", name]).clean(), wanted);
}

#[test]
fn the_reference_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let Some(python) = require_python() else { return };
    let mut noise = vec![0_u8; 70_001];
    File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut noise)).unwrap();
    noise[10_000..40_000].fill(0);
    let path = folder.path().join("noise");
    std::fs::write(&path, &noise).unwrap();
    let reference = common::repository().join("reference/blockhash.py");
    for (digest, block_size) in
        [("sha256", "65536"), ("sha3-256", "512"), ("blake3", "4096"), ("crc32c", "2"), ("md5", "4294967294")]
    {
        let ours = image_sum([
            Path::new("-a"),
            digest.as_ref(),
            "--block-size".as_ref(),
            block_size.as_ref(),
            &path,
        ]);
        let theirs = command(python.to_str().unwrap())
            .arg(&reference)
            .args(["-d", digest, "--block-size", block_size])
            .arg(&path)
            .output()
            .unwrap();
        assert_eq!(ours.out(), Ended::of(theirs).clean(), "{digest}");
    }
}
