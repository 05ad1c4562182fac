//! Block hashes in lists: their tags, and who verifies them.

use crate::common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use common::{BLKSUM, Ended, VERISUM, command, values, with_pipe};
use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::{LoopDevice, Run, Server, paint, require_root, require_tool};

/// A folder with images in it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.paint("a", &[Run::data(100_000), Run::hole(1 << 20), Run::data(4096 - 100_000 % 4096)]);
        folder.paint("b", &[Run::data(1_000)]);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn paint(&self, name: &str, runs: &[Run]) {
        paint(&self.path(name), runs).unwrap();
    }

    fn run(&self, program: &str, words: &str) -> Ended {
        let words = words.split(' ').filter(|word| !word.is_empty());
        Ended::of(command(program).args(words).current_dir(self.0.path()).output().unwrap())
    }

    fn verisum(&self, words: &str) -> Ended {
        self.run(VERISUM, words)
    }

    /// Writes a list, and returns it. `blksum` takes one image at a time.
    fn list(&self, program: &str, words: &str) -> String {
        let list = match (program == BLKSUM, words.strip_suffix(" b")) {
            (true, Some(first)) => {
                let second = first.strip_suffix('a').unwrap().to_string() + "b";
                self.run(program, first).clean() + &self.run(program, &second).clean()
            }
            _ => self.run(program, words).out().to_string(),
        };
        fs::write(self.path("SUMS"), &list).unwrap();
        list
    }

    /// Changes one byte.
    fn spoil(&self, name: &str) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        bytes[700] ^= 1;
        fs::write(self.path(name), bytes).unwrap();
    }
}

const FAILED: &str = "verisum: WARNING: 1 computed checksum did NOT match\n";

#[test]
fn what_image_sum_writes_is_verified_by_check() {
    let folder = Folder::new();
    for (options, tag) in [
        ("", "BLKHASH-SHA256-64K"),
        ("-a blake3", "BLKHASH-BLAKE3-64K"),
        ("-a sha3-256 --block-size 1M", "BLKHASH-SHA3-256-1M"),
        ("-a sha512-256 --block-size 512", "BLKHASH-SHA512/256-512B"),
        ("-a md5 --block-size 100", "BLKHASH-MD5-100B"),
        ("-a crc32c --block-size 1536k", "BLKHASH-CRC32C-1536K"),
        ("--exact", "BLKHASH-SHA256-64K/EXACT"),
        ("--format raw --exact", "BLKHASH-SHA256-64K/EXACT/RAW"),
    ] {
        let list = folder.list(VERISUM, &format!("image sum {options} a b"));
        let lines: Vec<&str> = list.lines().collect();
        assert!(lines[0].starts_with(&format!("{tag} (a) = ")), "{list}");
        assert!(lines[1].starts_with(&format!("{tag} (b) = ")), "{list}");
        let bare = folder.verisum(&format!("image sum --untagged {options} a b"));
        assert_eq!(values(&list), values(bare.out()), "{options}");
        for check in ["check SUMS", "image sum -c SUMS"] {
            let ended = folder.verisum(check);
            assert_eq!(
                (ended.code, ended.out()),
                (Some(0), "a: OK\nb: OK\n"),
                "{options} {check}: {ended:?}"
            );
            assert_eq!(ended.stderr, "verisum: 2 verified\n");
        }
        folder.spoil("b");
        for check in ["check SUMS", "image sum -c SUMS"] {
            let ended = folder.verisum(check);
            assert_eq!((ended.code, ended.out()), (Some(1), "a: OK\nb: FAILED\n"), "{options} {check}");
            let (path, value) = (folder.path("b"), values(&list)[1]);
            let help = format!("{}: failed\n  {tag} {value}\n  no copy is known\n", path.display());
            assert_eq!(ended.stderr, format!("{FAILED}{help}verisum: 1 verified, 1 failed\n"));
        }
        folder.spoil("b");
    }
}

#[test]
fn a_bad_image_is_told_a_good_copy_of_the_same_list() {
    let folder = Folder::new();
    fs::copy(folder.path("b"), folder.path("copy")).unwrap();
    // As of images, so of files.
    for words in ["image sum b a copy", "sum b a copy"] {
        folder.list(VERISUM, words);
        folder.spoil("b");
        let ended = folder.verisum("check SUMS");
        assert_eq!((ended.code, ended.out()), (Some(1), "b: FAILED\na: OK\ncopy: OK\n"));
        let copy = format!("  a good copy is {}\n", folder.path("copy").display());
        assert!(ended.stderr.contains(&copy), "{words}: {}", ended.stderr);
        folder.spoil("b");
    }
}

#[test]
fn the_bytes_and_what_a_guest_sees_are_told_apart() {
    let folder = Folder::new();
    let [guest, exact] = ["", "--exact"].map(|how| folder.list(VERISUM, &format!("image sum {how} b")));
    assert_ne!(values(&guest), values(&exact));
    // A guest sees zeros after the bytes in any case; the bytes are others.
    let mut bytes = fs::read(folder.path("b")).unwrap();
    bytes.resize(1024, 0);
    fs::write(folder.path("b"), bytes).unwrap();
    fs::write(folder.path("SUMS"), guest + &exact).unwrap();
    let ended = folder.verisum("check SUMS");
    assert_eq!((ended.code, ended.out()), (Some(1), "b: OK\nb: FAILED\n"));
}

#[test]
fn lists_mix_digests_and_block_hashes() {
    let folder = Folder::new();
    let images = folder.list(VERISUM, "image sum a b");
    let files = folder.verisum("sum --tag a b").clean() + &folder.verisum("sum a").clean();
    fs::write(folder.path("SUMS"), format!("{images}{files}nonsense\n")).unwrap();
    folder.spoil("b");
    let ended = folder.verisum("check SUMS");
    assert_eq!(ended.out(), "a: OK\nb: FAILED\na: OK\nb: FAILED\na: OK\n");
    let quiet = folder.verisum("check --quiet SUMS");
    assert_eq!((quiet.code, quiet.out()), (Some(1), "b: FAILED\nb: FAILED\n"));
    let status = folder.verisum("check --status SUMS");
    assert_eq!((status.code, status.out(), &*status.stderr), (Some(1), "", ""));
    folder.spoil("b");
    assert_eq!(folder.verisum("check SUMS").code, Some(0));
    assert_eq!(folder.verisum("check --strict SUMS").code, Some(1));
    fs::remove_file(folder.path("b")).unwrap();
    let missing = folder.verisum("check SUMS");
    assert_eq!(missing.code, Some(3));
    assert!(missing.out().contains("b: FAILED open or read\n"), "{missing:?}");
    assert!(missing.stderr.starts_with("verisum: b: No such file or directory\n"), "{missing:?}");
    assert_eq!(folder.verisum("check --ignore-missing SUMS").code, Some(0));
    // Where the names begin.
    fs::create_dir(folder.path("elsewhere")).unwrap();
    fs::rename(folder.path("a"), folder.path("elsewhere/a")).unwrap();
    assert_eq!(folder.verisum("check --ignore-missing -C elsewhere SUMS").code, Some(0));
}

#[test]
fn a_bare_list_of_block_hashes_is_refused_with_the_reason() {
    let folder = Folder::new();
    let reason = "verisum: SUMS: the list holds block hashes (verisum image sum, blksum), not digests of files \
                  (`verisum image sum -c` checks them)";
    for (program, words, options) in [
        (BLKSUM, "a b", ""),
        (BLKSUM, "-d sha1 a b", "-a sha1"),
        (VERISUM, "image sum --untagged a b", ""),
        (VERISUM, "image sum --untagged -a blake3 a b", "-a blake3"),
    ] {
        let reason = &match options.strip_prefix("-a ") {
            Some(id) => format!(
                "verisum: SUMS: the list holds block hashes by {id} (verisum image sum, blksum), not digests of files \
                 (`verisum image sum -c -a {id}` checks them)"
            ),
            None => reason.to_string(),
        };
        folder.list(program, words);
        folder.verisum(&format!("check {options} SUMS")).failed(3, reason);
        let ended = folder.verisum(&format!("image sum -c {options} SUMS"));
        assert_eq!((ended.code, ended.out()), (Some(0), "a: OK\nb: OK\n"), "{ended:?}");
        folder.spoil("b");
        folder.verisum(&format!("check {options} SUMS")).failed(3, reason);
        let ended = folder.verisum(&format!("image sum -c {options} SUMS"));
        assert_eq!((ended.code, ended.out()), (Some(1), "a: OK\nb: FAILED\n"));
        folder.spoil("b");
    }
    // So many digits are taken for SHA-256, and are of BLAKE3.
    folder.list(VERISUM, "image sum --untagged -a blake3 a b");
    let by_blake3 = "verisum: SUMS: the list holds block hashes by blake3 (verisum image sum, blksum), not digests \
                     of files (`verisum image sum -c -a blake3` checks them)";
    folder.verisum("check SUMS").failed(3, by_blake3);
    assert_eq!(folder.verisum("image sum -c -a blake3 SUMS").code, Some(0));
    // An image that was bad before that was seen has no remedy: the number is no digest of it.
    folder.list(BLKSUM, "a b");
    folder.spoil("a");
    let ended = folder.verisum("check SUMS");
    assert_eq!((ended.code, ended.out()), (Some(1), "a: FAILED\n"));
    assert_eq!(ended.stderr, format!("{reason}\n"));
    folder.spoil("a");
    // Other lists are checked all the same.
    folder.list(BLKSUM, "a b");
    fs::write(folder.path("FILES"), folder.verisum("sum a b").clean()).unwrap();
    let ended = folder.verisum("check SUMS FILES");
    assert_eq!((ended.code, ended.out()), (Some(3), "a: OK\nb: OK\n"));
    assert_eq!(ended.stderr, format!("{reason}\nverisum: 2 verified\n"));
    // What is rotten stays FAILED.
    folder.spoil("a");
    folder.spoil("b");
    assert_eq!(folder.verisum("check FILES").out(), "a: FAILED\nb: FAILED\n");
    // The block size is part of what a bare list does not say.
    folder.spoil("a");
    folder.spoil("b");
    folder.list(VERISUM, "image sum --untagged --block-size 512 a b");
    assert_eq!(folder.verisum("image sum -c --block-size 512 SUMS").code, Some(0));
    assert_eq!(folder.verisum("image sum -c SUMS").code, Some(1));
}

#[test]
fn where_nothing_matches_block_hashes_are_named() {
    let folder = Folder::new();
    let hint = "`verisum image sum -c` checks block hashes of images";
    for (options, is_named) in [("", true), ("-a md5", true), ("-a crc32c", false)] {
        folder.list(VERISUM, &format!("image sum --untagged {options} a b"));
        folder.spoil("a");
        folder.spoil("b");
        let ended = folder.verisum("check SUMS");
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches(hint).count(), usize::from(is_named), "{}", ended.stderr);
    }
    // What one file has is the digest of a file.
    fs::write(folder.path("SUMS"), folder.verisum("sum a b").out()).unwrap();
    folder.spoil("b");
    let ended = folder.verisum("check SUMS");
    assert!(ended.code == Some(1) && !ended.stderr.contains(hint), "{}", ended.stderr);
}

#[test]
fn a_bare_list_of_digests_of_files_is_no_list_of_images() {
    let folder = Folder::new();
    fs::write(folder.path("SUMS"), folder.verisum("sum a b").clean()).unwrap();
    let reason = "verisum: SUMS: the list holds digests of files, not block hashes of images (`verisum check` \
                  checks them)";
    folder.verisum("image sum -c SUMS").failed(3, reason);
    assert_eq!(folder.verisum("check SUMS").out(), "a: OK\nb: OK\n");
    folder.spoil("b");
    folder.verisum("image sum -c SUMS").failed(3, reason);
}

#[test]
fn a_bare_list_is_refused_whatever_the_usual_block_size() {
    let folder = Folder::new();
    folder.paint("large", &[Run::data(5_000), Run::hole(80 << 20), Run::data(1_000)]);
    for options in [
        "--block-size 512 a b",
        "--block-size 1M a b",
        "--block-size 16M a",
        "--exact b a",
        "--exact --block-size 4k b",
        "--block-size 1M large",
        "--exact large",
    ] {
        folder.list(VERISUM, &format!("image sum --untagged {options}"));
        let ended = folder.verisum("check SUMS");
        assert_eq!((ended.code, ended.out()), (Some(3), ""), "{options}: {ended:?}");
        assert!(ended.stderr.contains("the list holds block hashes"), "{options}: {ended:?}");
    }
    // What is neither is FAILED as before.
    fs::write(folder.path("SUMS"), folder.verisum("sum b large").clean()).unwrap();
    folder.spoil("b");
    folder.spoil("large");
    assert_eq!(folder.verisum("check SUMS").out(), "b: FAILED\nlarge: FAILED\n");
}

#[test]
fn a_bare_list_of_both_kinds_calls_nothing_bad() {
    let folder = Folder::new();
    let file = folder.verisum("sum a").clean();
    let image = folder.verisum("image sum --untagged b").out().to_string();
    fs::write(folder.path("SUMS"), file.clone() + &image).unwrap();
    let ended = folder.verisum("check SUMS");
    assert_eq!((ended.code, ended.out()), (Some(3), "a: OK\n"), "{ended:?}");
    assert!(ended.stderr.contains("the list holds block hashes"), "{ended:?}");
    fs::write(folder.path("SUMS"), image + &file).unwrap();
    let ended = folder.verisum("image sum -c SUMS");
    assert_eq!((ended.code, ended.out()), (Some(3), "b: OK\n"), "{ended:?}");
    assert!(ended.stderr.contains("the list holds digests of files"), "{ended:?}");
    // Rot behind such a line is told all the same.
    fs::write(folder.path("rotten"), "good").unwrap();
    let more = folder.verisum("sum rotten").clean();
    fs::write(folder.path("rotten"), "rot!").unwrap();
    let image = folder.verisum("image sum --untagged b").out().to_string();
    fs::write(folder.path("SUMS"), file + &image + &more).unwrap();
    let ended = folder.verisum("check SUMS");
    assert_eq!((ended.code, ended.out()), (Some(1), "a: OK\nrotten: FAILED\n"), "{ended:?}");
    assert!(ended.stderr.contains("SUMS: 2: the list holds block hashes"), "{ended:?}");
    assert!(ended.stderr.contains("rotten: "), "{ended:?}");
}

#[test]
fn nothing_is_repaired_by_block_hashes() {
    let folder = Folder::new();
    folder.paint("large", &[Run::data(5_000), Run::hole(80 << 20), Run::data(1_000)]);
    fs::create_dir(folder.path("copy")).unwrap();
    for name in ["a", "b", "large"] {
        fs::write(folder.path("copy").join(name), "of other content").unwrap();
    }
    let good = fs::read(folder.path("b")).unwrap();
    for words in ["image sum --untagged b", "image sum --untagged --exact --block-size 1M large", "sum a"] {
        let list = folder.verisum(words).out().to_string();
        let both = folder.verisum("sum a").clean() + &list;
        for list in [list, both] {
            fs::write(folder.path("SUMS"), list).unwrap();
            for options in ["", " --dry-run"] {
                let ended = folder.verisum(&format!("repair --sums SUMS --from copy{options} ."));
                if words == "sum a" {
                    assert_eq!((ended.code, ended.out()), (Some(0), "nothing to repair\n"), "{ended:?}");
                    continue;
                }
                let reason = "verisum: SUMS: read: the list holds block hashes (verisum image sum, blksum), not digests \
                              of files (`verisum image sum -c` checks them)\n";
                assert_eq!(
                    (ended.code, ended.out(), &*ended.stderr),
                    (Some(3), "", reason),
                    "{words}{options}"
                );
            }
        }
    }
    assert!(fs::read(folder.path("b")).unwrap() == good);
}

#[test]
fn block_hashes_are_not_taken_over_for_digests() {
    let folder = Folder::new();
    let (blocks, files) = (folder.verisum("image sum --untagged a").clean(), folder.verisum("sum b").clean());
    let other = folder.verisum("image sum --untagged --exact --block-size 1M b").clean();
    for (list, options) in
        [(blocks.clone(), ""), (blocks.clone() + &files, ""), (files + &blocks, "-a sha256 "), (other, "")]
    {
        fs::write(folder.path("SUMS"), list).unwrap();
        for command in [
            format!("catalog import --catalog c.db --tree . {options}SUMS"),
            format!("adopt {options}--from SUMS ."),
        ] {
            let ended = folder.verisum(&command);
            assert_eq!((ended.code, ended.out()), (Some(3), ""), "{command}: {ended:?}");
            assert!(ended.stderr.contains("the list holds block hashes"), "{command}: {ended:?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        }
    }
    // A list that names them is told so by its lines.
    for list in ["image sum a", "image sum --json a"] {
        folder.list(VERISUM, list);
        for command in ["catalog import --catalog c.db --tree . SUMS", "adopt --from SUMS ."] {
            let ended = folder.verisum(command);
            let why = "block hashes of images, which are not digests of files and cannot be taken over\n";
            assert_eq!((ended.code, ended.out()), (Some(3), ""), "{command}: {ended:?}");
            assert!(ended.stderr.ends_with(why), "{command}: {ended:?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        }
    }
    assert_eq!(folder.verisum("catalog export --catalog c.db --format coreutils").out(), "");
}

#[test]
fn names_of_any_bytes_and_lines_that_end_with_nul() {
    let folder = Folder::new();
    let names: [&[u8]; 5] = [b"a\nb", b"a\\nb", b"c\r", b"d) = e (", b"\xff \\"];
    let names = names.map(std::ffi::OsStr::from_bytes);
    for name in names {
        fs::write(folder.0.path().join(name), name.as_bytes().repeat(100)).unwrap();
    }
    for options in [&["image", "sum"][..], &["image", "sum", "-z"], &["image", "sum", "--json"]] {
        let list = command(VERISUM).args(options).args(names).current_dir(folder.0.path()).output().unwrap();
        fs::write(folder.path("SUMS"), &list.stdout).unwrap();
        for check in ["check -q SUMS", "image sum -c -q SUMS"] {
            let zero = if options.contains(&"-z") { " -z" } else { "" };
            folder.verisum(&format!("{check}{zero}")).clean();
        }
        let json =
            folder.verisum(&format!("check --json SUMS{}", if options.contains(&"-z") { " -z" } else { "" }));
        let lines: Vec<Value> = json.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[5]["verified"]), (6, &5.into()), "{json:?}");
        assert_eq!(lines[0]["tag"], "BLKHASH-SHA256-64K");
    }
}

#[test]
fn standard_input_is_an_image_too() {
    let folder = Folder::new();
    let bytes = fs::read(folder.path("a")).unwrap();
    let sum = with_pipe(command(VERISUM).args(["image", "sum", "-"]), &bytes);
    assert!(sum.out().starts_with("BLKHASH-SHA256-64K (-) = "), "{sum:?}");
    fs::write(folder.path("SUMS"), sum.out()).unwrap();
    for arguments in [&["check", "SUMS"][..], &["image", "sum", "-c", "SUMS"]] {
        let ended = with_pipe(command(VERISUM).args(arguments).current_dir(folder.0.path()), &bytes);
        assert_eq!((ended.code, ended.out()), (Some(0), "-: OK\n"), "{ended:?}");
    }
    // The list itself is no image.
    let ended = with_pipe(command(VERISUM).args(["check"]), sum.out().as_bytes());
    assert_eq!(ended.code, Some(1));
}

#[test]
fn lines_and_options_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let hex = "0".repeat(64);
    for (tag, code, words) in [
        ("BLKHASH-GOST-64K", 3, "unknown digest: BLKHASH-GOST-64K"),
        ("BLKHASH-SHA256-512", 3, "unknown digest: BLKHASH-SHA256-512"),
        ("BLKHASH-SHA256-64K/PLAN9", 3, "a: unknown view of an image: PLAN9"),
        ("BLKHASH-SHA256-3B", 3, "block size"),
        ("BLKHASH-SHA512-64K", 1, "no properly formatted checksum lines found"),
    ] {
        fs::write(folder.path("SUMS"), format!("{tag} (a) = {hex}\n")).unwrap();
        let ended = folder.verisum("check SUMS");
        assert_eq!(ended.code, Some(code), "{tag}: {ended:?}");
        assert!(ended.stderr.contains(words), "{tag}: {ended:?}");
    }
    // Programs of other names know none of it.
    fs::write(folder.path("SUMS"), folder.verisum("image sum a").clean()).unwrap();
    let ended = folder.verisum("links .");
    assert_eq!(ended.code, Some(0));
    let program = folder.path("sha256sum");
    assert_eq!(folder.run(program.to_str().unwrap(), "-c SUMS").code, Some(1));
    folder.verisum("image sum --quiet a").failed(2, "verisum: --quiet is for --check only");
    assert_eq!(folder.verisum("image sum -c --untagged a").code, Some(2));
}

#[test]
fn qcow2_its_snapshots_and_devices() {
    let folder = Folder::new();
    let Some(qemu_img) = require_tool("qemu-img") else { return };
    let qemu = |words: &str| folder.run(qemu_img.to_str().unwrap(), words).clean();
    qemu("convert -f raw -O qcow2 a a.qcow2");
    qemu("snapshot -c monday a.qcow2");
    let guest = folder.list(VERISUM, "image sum a a.qcow2");
    assert_eq!(values(&guest)[0], values(&guest)[1]);
    assert_eq!(folder.verisum("check SUMS").out(), "a: OK\na.qcow2: OK\n");
    let raw = folder.list(VERISUM, "image sum --format raw a.qcow2");
    assert!(raw.starts_with("BLKHASH-SHA256-64K/RAW (a.qcow2) = "), "{raw}");
    assert_ne!(values(&raw)[0], values(&guest)[0]);
    assert_eq!(folder.verisum("check SUMS").code, Some(0));

    let snapshot = folder.list(VERISUM, "image sum --snapshot monday a.qcow2");
    assert!(snapshot.starts_with("BLKHASH-SHA256-64K/SNAPSHOT (a.qcow2) = "), "{snapshot}");
    let ended = folder.verisum("check SUMS");
    assert_eq!((ended.code, ended.out()), (Some(3), "a.qcow2: FAILED open or read\n"));
    assert!(ended.stderr.contains("verisum image sum -c --snapshot NAME"), "{ended:?}");
    assert_eq!(folder.verisum("image sum -c --snapshot monday SUMS").code, Some(0));
    folder.list(BLKSUM, "a.qcow2");
    assert_eq!(folder.verisum("image sum -c SUMS").out(), "a.qcow2: OK\n");

    if require_root().is_none() {
        return;
    }
    let Some(device) = LoopDevice::new(&folder.path("a")) else { return };
    let name = device.path().display().to_string();
    let list = folder.list(VERISUM, &format!("image sum {name}"));
    assert_eq!(values(&list)[0], values(&guest)[0]);
    assert_eq!(folder.verisum("check SUMS").out(), format!("{name}: OK\n"));
}

#[test]
fn addresses_of_nbd_servers_are_names() {
    let folder = Folder::new();
    let Some(nbdkit) = Server::nbdkit(["file", folder.path("a").to_str().unwrap()]) else { return };
    let uri = nbdkit.uri();
    folder.list(VERISUM, &format!("image sum {uri}"));
    for check in ["check SUMS", "check -C / SUMS", "image sum -c SUMS"] {
        let ended = folder.verisum(check);
        assert_eq!((ended.code, ended.out()), (Some(0), &*format!("{uri}: OK\n")), "{ended:?}");
    }
    drop(nbdkit);
    let ended = folder.verisum("check SUMS");
    assert_eq!((ended.code, ended.out()), (Some(3), &*format!("{uri}: FAILED open or read\n")), "{ended:?}");
}
