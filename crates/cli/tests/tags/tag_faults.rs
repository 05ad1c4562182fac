//! Tags where they cannot be written, and where writing them is cut short.

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Ended, VERISUM, change_and_restore_time, command, flip, verisum};
use tempfile::TempDir;
use verisum_testkit::{FsKind, Mount, copy_program, require_root, require_tool};

fn tag(folder: &Path) -> Ended {
    verisum(["tag".as_ref(), folder.as_os_str()])
}

fn write(folder: &Path, names: &[&str]) {
    for name in names {
        fs::write(folder.join(name), name).unwrap();
    }
}

fn system(program: &str, arguments: &[&str], path: &Path) {
    let program = require_tool(program).unwrap();
    assert!(Command::new(program).args(arguments).arg(path).status().unwrap().success());
}

#[test]
fn every_file_system_keeps_tags() {
    for kind in FsKind::ALL {
        let Some(mut mount) = Mount::new(kind, 0) else { continue };
        let folder = mount.path();
        write(&folder, &["a", "b"]);
        let run = |words: &[&str]| {
            let ended = verisum(words.iter().map(|word| word.as_ref()).chain([folder.as_os_str()]));
            (ended.code, ended.out().to_string(), ended.stderr)
        };
        assert_eq!(
            run(&["tag", "-q", "-a", "md5", "--family", "plain"]),
            (Some(0), String::new(), String::new())
        );
        assert_eq!(run(&["tag", "-q", "--family", "shatag"]), (Some(0), String::new(), String::new()));
        assert_eq!(
            run(&["retag", "-q", "--from", "plain:md5", "--to", "sha256"]).0,
            Some(0),
            "{}",
            kind.name()
        );
        if kind != FsKind::Tmpfs {
            mount.edit_image(|_| {});
        }
        for family in ["verisum", "shatag"] {
            assert_eq!(run(&["verify", "-q", "--family", family]).0, Some(0), "{}", kind.name());
        }
        assert_eq!(run(&["untag", "-q"]).0, Some(0));
        assert_eq!(run(&["verify", "-q"]).0, Some(3));
    }
}

#[test]
fn a_read_only_file_system_is_one_line() {
    let Some(mount) = Mount::new(FsKind::Ext4, 0) else { return };
    write(&mount.path(), &["a", "b", "c"]);
    assert_eq!(tag(&mount.path().join("a")).code, Some(0));
    system("mount", &["-o", "remount,ro"], &mount.path());
    let ended = tag(&mount.path());
    assert_eq!((ended.code, ended.out()), (Some(3), ""));
    let (before, after) = ended.stderr.split_once(": set attribute: Read-only file system").unwrap();
    assert!(!before.contains('\n'), "{}", ended.stderr);
    assert!(after.starts_with(" (as for all files of this file system; with --catalog"), "{}", ended.stderr);
    // Nothing is read in vain, nor is there a word of what backup tools would do.
    assert!(after.contains("3 files: 1 current, 2 not-written; 0 bytes read"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("note:"), "{}", ended.stderr);
    // What is there can be verified.
    assert_eq!(verisum(["verify".as_ref(), "-q".as_ref(), mount.path().as_os_str()]).code, Some(0));
    let untag = verisum(["untag".as_ref(), "-q".as_ref(), mount.path().as_os_str()]);
    assert_eq!(untag.code, Some(3));
    assert!(untag.stderr.contains("a: remove attribute: Read-only file system"), "{}", untag.stderr);
    system("mount", &["-o", "remount,rw"], &mount.path());
}

#[test]
fn a_full_file_system_loses_nothing() {
    let Some(mount) = Mount::new(FsKind::Ext4, 0) else { return };
    let folder = mount.path();
    let names: Vec<String> = (0..20).map(|i| format!("file{i}")).collect();
    names.iter().for_each(|name| fs::write(folder.join(name), name).unwrap());
    let run = |words: &[&str]| verisum(words.iter().map(|word| word.as_ref()).chain([folder.as_os_str()]));
    assert_eq!(run(&["tag", "-q", "-a", "md5"]).code, Some(0));
    let mut filler = fs::File::create(folder.join("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[7; 4096]).is_ok() {}
    drop(filler);
    fs::remove_file(folder.join("file0")).unwrap();
    // A long digest does not fit the inode beside the rest and needs a block.
    let ended = run(&["retag", "--from", "md5", "--to", "sha512", "--exclude", "filler"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains(": set attribute: No space left on device"), "{}", ended.stderr);
    // Every file has one good tag, the old or the new.
    let verified = run(&["verify", "-q", "--exclude", "filler"]);
    assert_eq!((verified.code, verified.stderr.as_str()), (Some(0), ""));
    let status = run(&["status", "--json", "--exclude", "filler"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["current"], 19);
    fs::remove_file(folder.join("filler")).unwrap();
    assert_eq!(run(&["retag", "-q", "--from", "md5", "--to", "sha512"]).code, Some(0));
    assert_eq!(run(&["verify", "-q"]).code, Some(0));
}

#[test]
fn a_file_system_without_attributes_is_one_line() {
    let (Some(()), Some(_)) = (require_root(), require_tool("mount")) else { return };
    /// Unmounts when dropped.
    struct Ramfs(TempDir);
    impl Drop for Ramfs {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.0.path()).status();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    system("mount", &["-t", "ramfs", "ramfs"], folder.path());
    let folder = Ramfs(folder);
    write(folder.0.path(), &["a", "b", "c"]);
    let ended = tag(folder.0.path());
    assert_eq!(ended.code, Some(3));
    assert_eq!(ended.stderr.matches("Operation not supported").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("3 files: 3 not-written; 0 bytes read"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("note:"), "{}", ended.stderr);
    let status = verisum(["status".as_ref(), folder.0.path().as_os_str()]);
    assert_eq!(status.code, Some(0));
    // Their records are in a catalogue: what repairs by tags would find none.
    let beside = tempfile::tempdir().unwrap();
    let catalog = beside.path().join("c.db");
    let [tree, catalog] = [folder.0.path(), &catalog].map(|path| path.to_str().unwrap());
    verisum(["tag", "--quiet", "--catalog", catalog, tree]).clean();
    change_and_restore_time(&folder.0.path().join("a"), "A");
    let ended = verisum(["verify", "--quiet", "--catalog", catalog, tree]);
    let mend = format!("verisum scrub --catalog '{catalog}' --repair '{tree}'");
    assert!(ended.code == Some(1) && ended.stderr.contains(&mend), "{}", ended.stderr);
    assert!(!ended.stderr.contains("repair --tags"), "{}", ended.stderr);
}

#[test]
fn immutable_files_are_reported() {
    let Some(mount) = Mount::new(FsKind::Ext4, 0) else { return };
    let Some(_) = require_tool("chattr") else { return };
    write(&mount.path(), &["a", "b"]);
    system("chattr", &["+i"], &mount.path().join("a"));
    let ended = tag(&mount.path());
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("/a: set attribute: Operation not permitted\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("2 files: 1 tagged, 1 not-written"), "{}", ended.stderr);
    system("chattr", &["-i"], &mount.path().join("a"));
}

#[test]
fn files_of_others_are_reported() {
    let (Some(()), Some(setpriv)) = (require_root(), require_tool("setpriv")) else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, owner, mode) in
        [("own", 65534, 0o644), ("own-readonly", 65534, 0o444), ("other", 0, 0o644), ("secret", 0, 0o600)]
    {
        let path = folder.path().join(name);
        fs::write(&path, name).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
    }
    // A copy that everybody may run, wherever this program was built.
    let program = folder.path().join("program");
    copy_program(VERISUM, &program);
    let mut nobody = command(setpriv.to_str().unwrap());
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    let ended = Ended::of(nobody.args(["tag", "--exclude", "program"]).arg(folder.path()).output().unwrap());
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    for (name, operation) in
        [("own-readonly", "set attribute"), ("other", "set attribute"), ("secret", "open")]
    {
        let line = format!("{}/{name}: {operation}: Permission denied\n", folder.path().display());
        assert!(ended.stderr.contains(&line), "{}", ended.stderr);
    }
    assert!(ended.stderr.contains("4 files: 1 tagged, 2 not-written, 1 unverifiable"), "{}", ended.stderr);
}

/// How often each verb is killed; `TEST_KILLS` sets another number.
const KILLS: u32 = 30;

/// The time over which the kills are spread, in microseconds.
const SPREAD: u64 = 36_000;

#[test]
fn killed_at_any_moment_tag_and_retag_are_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..400).map(|i| folder.path().join(format!("file{i:03}"))).collect();
    files.iter().enumerate().for_each(|(i, path)| fs::write(path, vec![i as u8; i * 37]).unwrap());
    let run = |words: &[&str]| {
        let ended = verisum(words.iter().map(|word| word.as_ref()).chain([folder.path().as_os_str()]));
        assert!(ended.stderr.is_empty(), "{}", ended.stderr);
        ended.code
    };
    let kills = std::env::var("TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let verbs: [&[&str]; 2] = [&["tag", "-q"], &["retag", "-q", "--from", "plain:md5", "--to", "sha256"]];
    for verb in verbs {
        let prepare = || {
            assert_eq!(run(&["untag", "-q"]), Some(0));
            if verb[0] == "retag" {
                assert_eq!(run(&["tag", "-q", "-a", "md5", "--family", "plain"]), Some(0));
            }
        };
        prepare();
        assert_eq!(run(verb), Some(0));
        let uninterrupted = state(&files);
        for kill in 0..kills {
            prepare();
            let mut child =
                command(VERISUM).args(verb).arg(folder.path()).stderr(Stdio::null()).spawn().unwrap();
            // Spread over the time that a run takes.
            std::thread::sleep(Duration::from_micros(
                u64::from(kill * 7919 % kills) * SPREAD / u64::from(kills),
            ));
            child.kill().unwrap();
            child.wait().unwrap();
            // Each file has a right tag or, before its first, none.
            let mut half = [0; 3];
            for path in &files {
                let (new, old) = tags(path);
                assert!(new.is_none() || new.as_ref().is_some_and(|tag| tag.len() == 64));
                assert!(verb[0] == "tag" || new.is_some() || old.is_some(), "{}", path.display());
                half[usize::from(new.is_some()) + usize::from(old.is_some())] += 1;
            }
            if half != [400, 0, 0] {
                let ended = verisum(["verify".as_ref(), "-q".as_ref(), folder.path().as_os_str()]);
                let none = ended.stderr.contains("no file has a tag");
                assert!(ended.code == Some(0) || none, "{half:?} {}", ended.stderr);
            }
            assert_eq!(run(verb), Some(0));
            assert_eq!(state(&files), uninterrupted);
            assert_eq!(run(&["verify", "-q"]), Some(0));
        }
    }
}

#[test]
fn files_that_take_no_attributes_are_in_the_catalogue() {
    let Some(mut mount) = Mount::new(FsKind::Ext4, 0) else { return };
    let folder = mount.path();
    let elsewhere = tempfile::tempdir().unwrap();
    let catalog = elsewhere.path().join("c.db");
    let run = |words: &[&str]| {
        let paths = ["--catalog".as_ref(), catalog.as_os_str(), folder.as_os_str()];
        let ended = verisum(words.iter().map(|word| word.as_ref()).chain(paths));
        (ended.code, format!("{}{}", ended.out(), ended.stderr))
    };
    let expect = |words: &[&str], code, told: &str| {
        let (ended, text) = run(words);
        assert!(ended == Some(code) && text.contains(told), "{words:?}: {ended:?} {text}");
    };
    fs::create_dir_all(folder.join("sub/folder")).unwrap();
    fs::write(folder.join("tagged"), "tagged").unwrap();
    assert_eq!(tag(&folder).code, Some(0));
    let fixed = folder.join("sub/folder/immutable");
    fs::write(&fixed, [&MARKER[..], &[7; 5000]].concat()).unwrap();
    system("chattr", &["+i"], &fixed);
    expect(&["tag", "-a", "md5"], 0, "2 files: 1 catalogued, 1 current;");
    expect(&["tag"], 0, "2 files: 2 current; 0 bytes read");
    expect(&["status"], 0, "in the catalogue               1");
    expect(&["retag", "--from", "md5", "--to", "sha256"], 0, "2 files: 1 retagged, 1 current;");
    expect(&["verify"], 0, "2 files: 2 ok;");
    expect(&["verify", "--stamp"], 0, "2 files: 1 refreshed, 1 catalogued;");
    let alone = verisum(["verify".as_ref(), folder.as_os_str()]);
    assert!(alone.stderr.contains("2 files: 1 ok, 1 untagged;"), "{}", alone.stderr);
    mount.edit_image(|image| flip(image, MARKER));
    expect(&["verify"], 1, "sub/folder/immutable: rot: sha256 is ");
    mount.edit_image(|image| flip(image, &flipped()));
    // It is a record for scrubs as any other.
    expect(&["scrub"], 0, "");
    // Once the file takes a tag it gets that of the catalogue, unread.
    system("chattr", &["-i"], &fixed);
    expect(&["tag"], 0, "2 files: 1 tagged, 1 current; 0 bytes read");
    // A tag that is out of date and cannot be replaced counts less than a record of the file as it is.
    fs::write(&fixed, "written").unwrap();
    system("chattr", &["+i"], &fixed);
    expect(&["tag"], 0, "2 files: 1 catalogued, 1 current;");
    expect(&["verify"], 0, "2 files: 2 ok;");
    system("mount", &["-o", "remount,ro"], &folder);
    expect(&["tag"], 0, "2 files: 2 current; 0 bytes read");
    system("mount", &["-o", "remount,rw"], &folder);
    system("chattr", &["-i"], &fixed);
    // The catalogue follows, so that the same again has nothing to do.
    expect(&["retag", "--from", "sha256", "--to", "plain:md5"], 0, "2 files: 2 retagged;");
    expect(&["retag", "--from", "sha256", "--to", "plain:md5"], 0, "2 files: 2 current; 0 bytes read");
    let check = verisum(["catalog".as_ref(), "check".as_ref(), "--catalog".as_ref(), catalog.as_os_str()]);
    assert_eq!(check.code, Some(0), "{}", check.stderr);
}

#[test]
fn rot_of_a_tagged_file_on_a_disk_is_found() {
    let Some(mut mount) = Mount::new(FsKind::Ext4, 0) else { return };
    let folder = mount.path();
    fs::write(folder.join("file"), [&MARKER[..], &[7; 100_000]].concat()).unwrap();
    assert_eq!(tag(&folder).code, Some(0));
    let mut image = PathBuf::new();
    mount.edit_image(|path| {
        flip(path, MARKER);
        image = path.to_path_buf();
    });
    let verify = |found: &str| {
        let ended = verisum(["verify".as_ref(), "-q".as_ref(), folder.as_os_str()]);
        let is_found = ended.out().contains(&format!("/file: {found}: sha256 is "));
        assert!(ended.code == Some(1) && is_found, "{found}: {:?} {}", ended.code, ended.out());
    };
    verify("rot");
    // `tag` leaves the good tag, and the file is not even read.
    assert_eq!(tag(&folder).code, Some(0));
    // Good on the disk, bad in the page cache: the second read tells.
    fs::read(folder.join("file")).unwrap();
    flip(&image, &flipped());
    verify("flaky");
    assert_eq!(verisum(["verify".as_ref(), "-q".as_ref(), folder.as_os_str()]).code, Some(0));
}

const MARKER: &[u8; 37] = b"verisum: these bytes are going to rot";

fn flipped() -> [u8; 37] {
    let mut flipped = *MARKER;
    flipped[0] ^= 0x55;
    flipped
}

/// What is recorded in each file, but for the time of verification and the check over it.
fn state(files: &[PathBuf]) -> Vec<Tags> {
    let timeless = |tag: Vec<u8>| [&tag[..2], &tag[4..24], &tag[32..]].concat();
    files.iter().map(|path| tags(path)).map(|(new, old)| (new.map(timeless), old)).collect()
}

/// A file's tags of the families verisum and plain, with MD5.
type Tags = (Option<Vec<u8>>, Option<Vec<u8>>);

fn tags(path: &Path) -> Tags {
    let get = |name: &str| {
        let mut value = vec![0; 512];
        let len = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
        value.truncate(len);
        Some(value)
    };
    (get("user.verisum"), get("user.checksum.md5"))
}
