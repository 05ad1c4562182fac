//! `verisum repair` of trees on a host, against a real sshd: every command that is printed for such a tree mends it.

use crate::common;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::sshd::{BUSY, Sshd, sshd};
use common::{Ended, VERISUM, verisum};
use serde_json::Value;

/// The user that the server lets in.
const USER: u32 = 65_534;

/// A host with a tree, a mirror of it here, and a catalogue here.
struct Archive {
    server: Sshd,
}

impl Archive {
    fn new() -> Option<Archive> {
        let archive = Archive { server: sshd("")? };
        for tree in ["srv", "mirror"] {
            fs::create_dir_all(archive.path(tree).join("a b")).unwrap();
            for number in 0..4 {
                archive.put(tree, &format!("f{number}"), &format!("content {number}"));
            }
            archive.put(tree, "a b/it's $HOME", "odd content");
            archive.put(tree, "empty", "");
        }
        for folder in ["srv", "srv/a b"] {
            std::os::unix::fs::chown(archive.path(folder), Some(USER), Some(USER)).unwrap();
        }
        Some(archive)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.server.path(name)
    }

    fn put(&self, tree: &str, name: &str, content: &str) {
        let path = self.path(tree).join(name);
        fs::write(&path, content).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 123_456_789);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        if tree == "srv" {
            std::os::unix::fs::chown(&path, Some(USER), Some(USER)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
    }

    fn address(&self) -> String {
        format!("ssh://web1{}", self.path("srv").display())
    }

    fn catalog(&self) -> String {
        self.path("c.db").display().to_string()
    }

    fn run(&self, verb: &str, words: &[&str]) -> Ended {
        let mut command = self.server.remote(verb);
        self.server.run(command.args(["--catalog", &self.catalog()]).args(words))
    }

    fn scrub(&self, words: &[&str]) -> Ended {
        self.run("scrub", &[words, &[&self.address()]].concat())
    }

    fn catalog_verb(&self, words: &[&str]) -> Ended {
        let catalog = self.catalog();
        verisum(["catalog"].iter().chain(words).chain(&["--catalog", &catalog]).map(OsStr::new))
    }

    /// Runs a line as it was printed, in a directory of its own.
    fn sh(&self, line: &str) -> Ended {
        let programs = Path::new(VERISUM).parent().unwrap().to_path_buf();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(programs).chain(std::env::split_paths(&path));
        fs::create_dir_all(self.path("cwd")).unwrap();
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(line).current_dir(self.path("cwd")).env("TMPDIR", self.path("tmp"));
        shell.env("PATH", std::env::join_paths(path).unwrap()).env("VERISUM_CONFIG", "");
        self.server.run(shell.env("VERISUM_TIMEOUT", BUSY))
    }

    #[track_caller]
    fn assert_restored(&self, names: &[&str]) {
        for name in names {
            let [there, here] = ["srv", "mirror"].map(|tree| self.path(tree).join(name));
            assert_eq!(fs::read_to_string(&there).unwrap(), fs::read_to_string(&here).unwrap(), "{name}");
            let about = there.metadata().unwrap();
            assert_eq!(about.mtime(), 1_700_000_000, "{name}");
            assert_eq!(about.uid(), USER, "{name}");
        }
        let left = fs::read_dir(self.path("srv")).unwrap().flatten();
        let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".verisum"));
        assert_eq!(left.count(), 0);
        let again = self.scrub(&["--missing", "fail"]);
        assert_eq!(again.code, Some(0), "{}{}", again.out(), again.stderr);
    }
}

/// The first command in a text that begins so.
fn command_in(said: &str, start: &str) -> String {
    let (_, command) = said.split_once(start).unwrap_or_else(|| panic!("{start}: {said}"));
    let verb = start.rsplit_once("verisum").unwrap().1;
    format!("verisum{verb}{}", command.split(['\n', '`']).next().unwrap())
}

#[test]
fn what_is_named_for_a_bad_file_of_a_host_mends_it() {
    let Some(archive) = Archive::new() else { return };
    let mirror = archive.path("mirror").display().to_string();
    assert_eq!(archive.run("scrub", &[&mirror]).code, Some(0));
    assert_eq!(archive.scrub(&[]).code, Some(0));
    let odd = "a b/it's $HOME";
    let rot = || {
        archive.put("srv", "f1", "CONTENT 1");
        archive.put("srv", odd, "ODD content");
        archive.scrub(&[])
    };
    let ended = rot();
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    // The command of a file.
    let line = command_in(&ended.stderr, "mend it: verisum repair");
    let mended = archive.sh(&line);
    assert_eq!(mended.code, Some(0), "{line}: {}{}", mended.out(), mended.stderr);
    // That of the tree.
    let line = command_in(&ended.stderr, "`verisum repair");
    let mended = archive.sh(&line);
    assert_eq!(mended.code, Some(0), "{line}: {}{}", mended.out(), mended.stderr);
    assert!(mended.out().contains("repaired"), "{}", mended.out());
    archive.assert_restored(&["f1", odd]);
    assert_eq!(archive.path("srv/f1").metadata().unwrap().mode() & 0o777, 0o640);
    // By the same catalogue all else names it, too.
    rot();
    let list = archive.catalog_verb(&["list", "--bad"]);
    assert!(list.out().contains("mend it: verisum repair"), "{}", list.out());
    let lines = archive.catalog_verb(&["list", "--bad", "--json"]);
    for line in lines.out().lines() {
        let file: Value = serde_json::from_str(line).unwrap();
        assert!(file["mend"].as_str().unwrap().starts_with("verisum repair "), "{file}");
    }
    let status = archive.catalog_verb(&["status", "--json"]);
    let trees = status.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let tree = trees.into_iter().find(|tree| tree["path"].as_str().unwrap().starts_with("ssh:")).unwrap();
    assert_eq!((&tree["repair"]["files"], &tree["repair"]["mendable"]), (&2.into(), &2.into()), "{tree}");
    let nagios = archive.catalog_verb(&["status", "--nagios"]);
    assert_eq!(nagios.out().matches("; mend it: verisum repair").count(), 2, "{}", nagios.out());
    assert_eq!(archive.scrub(&["--quiet", "--repair"]).code, Some(1));
    archive.assert_restored(&["f1", odd]);
    let repairs = archive.catalog_verb(&["list", "--repaired"]);
    assert!(repairs.out().contains(&format!("from {mirror}/f1")), "{}", repairs.out());
}

/// Whoever reads the catalogue later has not typed how its trees are reached.
#[test]
fn what_is_named_for_a_tree_of_a_host_later_reaches_it_as_the_scrub_did() {
    let Some(archive) = Archive::new() else { return };
    let mirror = archive.path("mirror").display().to_string();
    let catalog = archive.catalog();
    let scrub_here = || verisum(["scrub", "--catalog", &catalog, &mirror].map(OsStr::new));
    assert_eq!(scrub_here().code, Some(0));
    assert_eq!(archive.scrub(&["--way", "coreutils"]).code, Some(0));
    let config = format!(" --ssh-config '{}' ", archive.path("config").display());
    let repairs = |said: &str| {
        let commands: Vec<String> = said
            .match_indices("verisum repair --catalog")
            .map(|(at, _)| said[at..].split(['\n', '`', '"', ')', ';']).next().unwrap().to_string())
            .collect();
        assert!(!commands.is_empty(), "{said}");
        for command in &commands {
            assert!(command.contains(&config) && !command.contains("--way"), "{command} in {said}");
        }
        commands
    };
    let report = ["report", "--json", &catalog];
    let looks = || {
        let looks = [
            &["list", "--bad", "--missing"][..],
            &["list", "--json", "--bad", "--missing"],
            &["status"],
            &["status", "--nagios"],
        ];
        let looks = looks.into_iter().map(|words| archive.catalog_verb(words));
        looks.chain([verisum(report.map(OsStr::new))]).map(|look| look.out().to_string())
    };
    // A file of the host is mended from here, and one of this machine from the host.
    let rot = |tree: &str| {
        archive.put(tree, "f1", "CONTENT 1");
        assert_eq!(if tree == "srv" { archive.scrub(&[]) } else { scrub_here() }.code, Some(1));
    };
    for tree in ["srv", "mirror"] {
        rot(tree);
        for command in looks().flat_map(|said| repairs(&said)).collect::<BTreeSet<_>>() {
            let mended = archive.sh(&command);
            assert_eq!(mended.code, Some(0), "{command}: {}{}", mended.out(), mended.stderr);
            let content = fs::read_to_string(archive.path(tree).join("f1")).unwrap();
            assert_eq!(content, "content 1", "{command}");
            rot(tree);
        }
        archive.put(tree, "f1", "content 1");
        assert_eq!(if tree == "srv" { archive.scrub(&[]) } else { scrub_here() }.code, Some(0));
    }
    // What takes a file as it is asks the host, too.
    for number in 0..4 {
        fs::write(archive.path(&format!("srv/f{number}")), "encrypted").unwrap();
    }
    let alarm = archive.scrub(&["--alarm-changed", "50%"]);
    assert!(alarm.stderr.contains("ALARM: 4 of 6 files"), "{}", alarm.stderr);
    let status = archive.catalog_verb(&["status"]);
    let accept = format!("verisum accept --catalog '{catalog}'{config}");
    assert!(status.out().contains(&accept), "{}", status.out());
}

#[test]
fn missing_and_empty_files_of_a_host_come_back_from_a_place() {
    let Some(archive) = Archive::new() else { return };
    assert_eq!(archive.scrub(&[]).code, Some(0));
    fs::remove_file(archive.path("srv/f2")).unwrap();
    fs::remove_dir_all(archive.path("srv/a b")).unwrap();
    archive.put("srv", "empty", "no more");
    archive.put("srv", "empty", "");
    fs::remove_file(archive.path("srv/empty")).unwrap();
    assert_eq!(archive.scrub(&[]).code, Some(0));
    let mirror = archive.path("mirror").display().to_string();
    let address = archive.address();
    let repair = |words: &[&str]| archive.run("repair", words);
    let dry = repair(&["--dry-run", "--from", &mirror, &address]);
    assert!(dry.code == Some(0) && dry.out().contains("could be repaired"), "{}{}", dry.out(), dry.stderr);
    assert!(!archive.path("srv/f2").exists());
    let left = repair(&["--except-missing", "--from", &mirror, &address]);
    assert!(left.code == Some(0) && left.out().contains("nothing to repair"), "{}", left.out());
    // One file, from the copy of its tree.
    let one = repair(&["--from", &mirror, &format!("{address}/f2")]);
    assert_eq!(one.code, Some(0), "{}{}", one.out(), one.stderr);
    let all = repair(&["--from", &mirror, &address.replace("ssh://web1", "web1:")]);
    assert_eq!(all.code, Some(0), "{}{}", all.out(), all.stderr);
    assert!(all.out().contains("2 files repaired"), "{}", all.out());
    for name in ["f2", "a b/it's $HOME", "empty"] {
        assert_eq!(
            fs::read_to_string(archive.path("srv").join(name)).unwrap(),
            fs::read_to_string(archive.path("mirror").join(name)).unwrap()
        );
    }
    assert_eq!(archive.scrub(&["--missing", "fail"]).code, Some(0));
    // What only files of this machine have.
    let refused = repair(&["--sums", "list", &address]);
    assert!(refused.code == Some(2) && refused.stderr.contains("--sums: not for a PATH on another machine"));
    let unknown = repair(&["--from", &mirror, &format!("{address}/nothing")]);
    assert!(unknown.code == Some(3) && unknown.stderr.contains("scrub its tree first"), "{}", unknown.stderr);
}

#[test]
fn what_somebody_may_have_written_on_a_host_is_kept_here() {
    let Some(archive) = Archive::new() else { return };
    let mirror = archive.path("mirror").display().to_string();
    assert_eq!(archive.run("scrub", &[&mirror]).code, Some(0));
    assert_eq!(archive.scrub(&[]).code, Some(0));
    archive.put("srv", "f3", "another length");
    let ended = archive.scrub(&[]);
    let line = command_in(&ended.stderr, "mend it: verisum repair");
    assert!(line.contains(" --keep-bad srv.bad"), "{line}");
    let address = archive.address();
    let refused = archive.run("repair", &[&address]);
    assert!(refused.code == Some(1) && refused.out().contains("--keep-bad DIR"), "{}", refused.out());
    assert_eq!(fs::read_to_string(archive.path("srv/f3")).unwrap(), "another length");
    let mended = archive.sh(&line);
    assert_eq!(mended.code, Some(0), "{line}: {}{}", mended.out(), mended.stderr);
    assert_eq!(fs::read_to_string(archive.path("cwd/srv.bad/f3")).unwrap(), "another length");
    archive.assert_restored(&["f3"]);
}

#[test]
fn what_changed_since_it_was_found_bad_on_a_host_stays() {
    let Some(archive) = Archive::new() else { return };
    let mirror = archive.path("mirror").display().to_string();
    let address = archive.address();
    let repair = || archive.run("repair", &["--from", &mirror, &address]);
    assert_eq!(archive.scrub(&[]).code, Some(0));
    archive.put("srv", "f0", "CONTENT 0");
    archive.put("srv", "f1", "CONTENT 1");
    assert_eq!(archive.scrub(&["--quiet"]).code, Some(1));
    fs::write(archive.path("srv/f0"), "written by somebody").unwrap();
    archive.put("srv", "f1", "content 1");
    let ended = repair();
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().contains("it changed since it was found bad"), "{}", ended.out());
    assert!(ended.out().contains("it is as recorded now"), "{}", ended.out());
    assert_eq!(fs::read_to_string(archive.path("srv/f0")).unwrap(), "written by somebody");
    // A link is somebody's, too.
    archive.put("srv", "f0", "CONTENT 0");
    fs::rename(archive.path("srv/f0"), archive.path("srv/target")).unwrap();
    std::os::unix::fs::symlink("target", archive.path("srv/f0")).unwrap();
    let ended = repair();
    assert_ne!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    assert!(archive.path("srv/f0").is_symlink());
    // A link that leads nowhere is what somebody left in the place of a file that is missing.
    fs::remove_file(archive.path("srv/f2")).unwrap();
    std::os::unix::fs::symlink("nowhere", archive.path("srv/f2")).unwrap();
    archive.scrub(&[]);
    let ended =
        archive.run("repair", &["--from", &archive.path("mirror").display().to_string(), &archive.address()]);
    assert_ne!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    assert!(archive.path("srv/f2").is_symlink(), "{}{}", ended.out(), ended.stderr);
    assert_eq!(fs::read_to_string(archive.path("srv/target")).unwrap(), "CONTENT 0");
    // Where nothing is there, its file system may not be mounted.
    fs::remove_dir_all(archive.path("srv")).unwrap();
    fs::create_dir(archive.path("srv")).unwrap();
    let ended = repair();
    assert!(ended.out().contains("is it mounted?"), "{}{}", ended.out(), ended.stderr);
    assert_eq!(fs::read_dir(archive.path("srv")).unwrap().count(), 0);
}

#[test]
fn what_a_list_told_no_length_of_comes_back_on_a_host() {
    let Some(archive) = Archive::new() else { return };
    let mirror = archive.path("mirror");
    let sums = verisum(["sum", "-r", "-a", "sha256", mirror.to_str().unwrap()].map(OsStr::new)).clean();
    fs::write(archive.path("SUMS"), sums.replace(&format!("{}/", mirror.display()), "")).unwrap();
    let list = archive.path("SUMS").display().to_string();
    archive.catalog_verb(&["import", "-a", "sha256", "--tree", &archive.address(), &list]).clean();
    fs::remove_file(archive.path("srv/f2")).unwrap();
    archive.scrub(&[]);
    let ended = archive.run("repair", &["--json", "--from", mirror.to_str().unwrap(), &archive.address()]);
    assert!(ended.code == Some(0) && ended.out().contains("\"size\":9"), "{}{}", ended.out(), ended.stderr);
    archive.assert_restored(&["f2"]);
}
