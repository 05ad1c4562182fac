//! At three in the morning: what an administrator does who has nothing but the output of a scrub of real file systems
//! with rot, a deletion and storage that fails.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::webhook::answering;
use common::{Ended, VERISUM, command, flip};
use serde_json::Value;
use verisum_testkit::fault::SwitchedFile;
use verisum_testkit::{FsKind, Mount, require_root, require_tool, skip, write_script};

const MARKER: &[u8] = b"verisum: these bytes are going to rot";

fn run(folder: &Path, words: &[&str]) -> Ended {
    Ended::of(command(VERISUM).current_dir(folder).args(words).output().unwrap())
}

/// Runs a command line as it was printed.
fn typed(folder: &Path, line: &str) -> Ended {
    let programs = Path::new(VERISUM).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    Ended::of(shell.args(["-c", line]).current_dir(folder).env("PATH", path).output().unwrap())
}

/// Text after these words, in each line that begins with them.
fn after<'a>(text: &'a str, words: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(words)).collect()
}

/// A disk of this kind rots; the mirror is on another one.
fn mended_by_what_is_said(kind: FsKind, outcome: &str, code: i32) {
    let Some(mut mount) = Mount::new(kind, 32 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap();
    let archive = mount.path().canonicalize().unwrap().join("it's an archive");
    let mut content = vec![7; 100_000];
    content[..MARKER.len()].copy_from_slice(MARKER);
    let files: [(&str, &[u8]); 3] = [("bad", &content), ("gone", b"soon gone"), ("sound", b"sound")];
    for tree in [&archive, &here.join("mirror")] {
        fs::create_dir(tree).unwrap();
        for (name, content) in files {
            fs::write(tree.join(name), content).unwrap();
        }
    }
    let scrub = |more: &[&str]| {
        let words = ["scrub", "--catalog", "c.db", "--quiet"];
        run(&here, &[&words[..], more, &[archive.to_str().unwrap(), "mirror"]].concat())
    };
    scrub(&[]).clean();
    mount.edit_image(|image| flip(image, MARKER));
    fs::remove_file(archive.join("gone")).unwrap();

    let ended = scrub(&["--json"]);
    let alarm = ended.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let alarms: Vec<Value> = alarm.filter(|line| line["type"] == "alarm").collect();
    let is_of = |alarm: &Value, name: &str| alarm["path"] == archive.join(name).to_str().unwrap();
    assert!(alarms.len() == 2 && is_of(&alarms[0], "bad") && is_of(&alarms[1], "gone"), "{}", ended.out());
    let copy = here.join("mirror/bad");
    assert_eq!(
        (&alarms[0]["outcome"], &alarms[0]["copy"]["path"]),
        (&outcome.into(), &copy.to_str().unwrap().into())
    );

    let ended = scrub(&[]);
    assert_eq!(ended.code, Some(code), "{}{}", ended.out(), ended.stderr);
    let said = &ended.stderr;
    assert_eq!(after(said, "a good copy is "), [copy.to_str().unwrap()], "{said}");
    assert!(said.contains(&format!(": {outcome} since 20")) && said.contains("last good 20"), "{said}");
    assert!(said.contains("97.7 KiB, sha256 "), "{said}");
    let [mend] = after(said, "mend it: ")[..] else { panic!("{said}") };
    let mended = typed(&here, mend);
    assert_eq!(mended.code, Some(0), "{mend}\n{}{}", mended.out(), mended.stderr);
    assert_eq!(fs::read(archive.join("bad")).unwrap(), content);
    // What is missing may be meant to be gone: one line says how to have it back.
    let all = said.split('`').find(|part| part.starts_with("verisum repair ")).unwrap();
    assert_eq!(typed(&here, all).code, Some(0), "{all}");
    assert_eq!(fs::read(archive.join("gone")).unwrap(), b"soon gone");
    scrub(&["--max-age", "90d"]).clean();
}

#[test]
fn rot_and_a_deletion_are_mended_by_what_is_said() {
    mended_by_what_is_said(FsKind::Ext4, "rot", 1);
}

#[test]
fn storage_that_fails_is_mended_by_what_is_said() {
    mended_by_what_is_said(FsKind::Btrfs, "io-error", 3);
}

/// A disk that is mounted to read while it lives.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// The storage of every file fails: the alarm says so, and what it names works on the disk that takes the place of it.
#[test]
fn a_dead_disk_is_mended_on_the_next_one_by_what_is_said() {
    let (Some(()), Some(mke2fs)) = (require_root(), require_tool("mke2fs")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap();
    let files = [("first", vec![1; 70_000]), ("second", vec![2; 90_000])];
    for tree in ["mirror", "disk"] {
        fs::create_dir(here.join(tree)).unwrap();
    }
    for (name, content) in &files {
        fs::write(here.join("mirror").join(name), content).unwrap();
    }
    let image = here.join("image");
    let mut make = Command::new(mke2fs);
    make.args(["-q", "-t", "ext4", "-d"]).arg(here.join("mirror")).arg(&image).arg("16M");
    assert!(make.status().unwrap().success());
    let Some(disk) = SwitchedFile::new(&fs::read(&image).unwrap()) else { return };
    let archive = here.join("disk");
    let mounted = Mounted(archive.clone());
    let mount =
        Command::new("mount").args(["-o", "loop,ro"]).arg(disk.path()).arg(&archive).status().unwrap();
    if !mount.success() {
        return skip("a file of FUSE cannot be mounted");
    }
    let scrub = |more: &[&str]| {
        let words = [&["scrub", "--catalog", "c.db", "--quiet"], more, &["disk", "mirror"]].concat();
        run(&here, &words)
    };
    scrub(&[]).clean();
    disk.fail(true);
    for path in files.iter().map(|(name, _)| archive.join(name)).chain([disk.path()]) {
        verisum_testkit::cache::forget(&path).unwrap();
    }
    let ended = scrub(&[]);
    let said = &ended.stderr;
    assert_eq!(ended.code, Some(3), "{}{said}", ended.out());
    let advice = "the storage failed: first copy what can be read to a new disk (verisum copy), and mount \
                  that in its place";
    assert_eq!(after(said, advice).len(), 2, "{said}");
    let copies: Vec<String> =
        files.iter().map(|(name, _)| here.join("mirror").join(name).display().to_string()).collect();
    assert_eq!(after(said, "a good copy is "), copies, "{said}");
    let mends: Vec<String> = after(said, "mend it: ").into_iter().map(str::to_string).collect();
    assert_eq!(mends.len(), 2, "{said}");
    let list = run(&here, &["catalog", "list", "--catalog", "c.db", "--bad"]);
    assert_eq!(list.out().matches(advice).count(), 2, "{}", list.out());
    // Programs, the page and its tables say the same before the command.
    let json = run(&here, &["catalog", "list", "--catalog", "c.db", "--bad", "--json"]);
    let csv = run(&here, &["catalog", "list", "--catalog", "c.db", "--bad", "--csv"]);
    let report = run(&here, &["report", "--json", "-o", "r.html", "--csv", "tables", "c.db"]);
    let alarms = scrub(&["--json"]);
    let page = fs::read_to_string(here.join("r.html")).unwrap();
    let table = fs::read_to_string(here.join("tables/bad-missing-and-unchecked-files.csv")).unwrap();
    for (said, count) in [(json.out(), 2), (csv.out(), 2), (report.out(), 2), (&table, 2), (&page, 2)] {
        assert_eq!(said.matches(advice).count(), count, "{said}");
    }
    assert_eq!(alarms.out().matches(&format!("\"advice\":\"{advice}\"")).count(), 2, "{}", alarms.out());
    assert!(
        report.out().contains("2 unchecked files: all can be repaired from known copies."),
        "{}",
        report.out()
    );
    let status = run(&here, &["catalog", "status", "--catalog", "c.db", "--nagios"]);
    let first = status.out().lines().next().unwrap();
    assert!(status.code == Some(2) && first.contains("io-error "), "{first}");
    assert_eq!(status.out().matches(advice).count(), 2, "{}", status.out());
    // So does who is told at home.
    let sendmail = here.join("sendmail");
    write_script(&sendmail, &format!("#!/bin/sh\ncat > '{}/mail'\n", here.display()));
    let (url, served) = answering("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    fs::write(here.join("url"), url).unwrap();
    let told = ["--mail", "root", "--sendmail", sendmail.to_str().unwrap(), "--webhook-file", "url"];
    assert_eq!(run(&here, &[&["notify", "--catalog", "c.db"][..], &told].concat()).code, Some(0));
    let mail = fs::read_to_string(here.join("mail")).unwrap().replace("=\n", "");
    let text = mail.split("What is bad:").nth(1).and_then(|text| text.split("\n--").next()).unwrap();
    assert_eq!(text.matches(advice).count(), 2, "{text}");
    let notice: Value = serde_json::from_slice(&served.join().unwrap().1).unwrap();
    let alarms = notice["alarms"].as_array().unwrap();
    assert!(alarms.len() == 2 && alarms.iter().all(|alarm| alarm["advice"] == advice), "{notice}");
    assert!(notice["text"].as_str().unwrap().contains(advice), "{notice}");

    // An empty disk takes its place.
    drop(mounted);
    disk.fail(false);
    let refused = scrub(&[]);
    assert!(refused.code == Some(3) && refused.stderr.contains("--replaced-root"), "{}", refused.stderr);
    assert_eq!(scrub(&["--replaced-root"]).code, Some(0));
    for mend in &mends {
        let mended = typed(&here, mend);
        assert_eq!(mended.code, Some(0), "{mend}\n{}{}", mended.out(), mended.stderr);
    }
    for (name, content) in &files {
        assert_eq!(fs::read(archive.join(name)).unwrap(), *content, "{name}");
    }
    scrub(&["--max-age", "90d"]).clean();
    let status = run(&here, &["catalog", "status", "--catalog", "c.db", "--nagios"]);
    assert_eq!(status.code, Some(0), "{}", status.out());
}

#[test]
fn tags_and_lists_name_the_copy_that_the_catalogue_knows() {
    let folder = tempfile::tempdir().unwrap();
    let here: PathBuf = folder.path().canonicalize().unwrap();
    let run = |words: &str| {
        let mut verisum = command(VERISUM);
        verisum.current_dir(&here).args(words.split(' ')).env("XDG_STATE_HOME", here.join("state"));
        Ended::of(verisum.output().unwrap())
    };
    for tree in ["tree", "mirror"] {
        fs::create_dir(here.join(tree)).unwrap();
        for name in ["a", "b"] {
            fs::write(here.join(tree).join(name), format!("content of {name}")).unwrap();
        }
    }
    run("tag --quiet tree").clean();
    fs::write(here.join("list"), run("sum -r tree").clean().replace("  tree/", "  ")).unwrap();
    // The catalogue may hold the bad file for sound, as it may not have been scrubbed since.
    for trees in ["mirror", "tree mirror"] {
        let _ = fs::remove_dir_all(here.join("state"));
        run(&format!("scrub --quiet {trees}")).clean();
        for verb in ["verify --quiet tree", "check --quiet --base tree list"] {
            common::change_and_restore_time(&here.join("tree/a"), "Content of a");
            let ended = run(verb);
            assert_eq!(ended.code, Some(1), "{verb}: {}", ended.stderr);
            let said = &ended.stderr;
            assert_eq!(
                after(said, "a good copy is "),
                [here.join("mirror/a").to_str().unwrap()],
                "{verb}: {said}"
            );
            let [mend] = after(said, "mend it: ")[..] else { panic!("{said}") };
            // A list records no time. By a tag, what is written to seconds after it was verified is no certain rot.
            let may_be_meant = verb.starts_with("check") || ended.out().contains(": suspicious");
            assert_eq!(mend.contains(" --keep-bad "), may_be_meant, "{mend}\n{}", ended.out());
            let mended = typed(&here, mend);
            assert_eq!(mended.code, Some(0), "{mend}\n{}{}", mended.out(), mended.stderr);
            assert_eq!(fs::read_to_string(here.join("tree/a")).unwrap(), "content of a", "{verb}");
            run(verb).clean();
        }
    }
}
