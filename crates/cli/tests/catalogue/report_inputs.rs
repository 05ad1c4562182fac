//! `verisum report` of trees with tags and of images with block maps, beside catalogues.

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use common::{Ended, VERISUM, change_and_restore_time, command};
use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::require_tool;

struct Place {
    _folder: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        // Attributes need a file system that has them.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().canonicalize().unwrap();
        for tree in ["tagged", "copy"] {
            fs::create_dir_all(path.join(tree).join("below")).unwrap();
            for name in ["a", "b", "below/c"] {
                fs::write(path.join(tree).join(name), format!("content of {name}")).unwrap();
            }
        }
        Place { _folder: folder, path }
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.args(words).current_dir(&self.path).env("HOME", &self.path).env_remove("XDG_STATE_HOME");
        Ended::of(command.output().unwrap())
    }

    fn report(&self, words: &[&str], code: i32) -> Value {
        let ended = self.run(&[&["report", "--json"], words].concat());
        assert_eq!(ended.code, Some(code), "{words:?}: {} {}", ended.stderr, ended.out());
        serde_json::from_str(ended.out()).unwrap()
    }
}

fn rows<'a>(report: &'a Value, title: &str) -> &'a [Value] {
    let tables = report["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["title"] == title);
    table.unwrap_or_else(|| panic!("{title}: {report}"))["rows"].as_array().unwrap()
}

fn first_line(report: &Value) -> String {
    report["lines"][0].as_str().unwrap().to_string()
}

#[test]
fn trees_are_told_of_by_their_tags() {
    let place = Place::new();
    let untagged = place.report(&["tagged"], 3);
    let nothing =
        format!("UNCHECKED: {}: nothing in it is tagged (3 files).", place.path.join("tagged").display());
    assert_eq!(first_line(&untagged), nothing);
    assert_eq!(rows(&untagged, "Trees by their tags")[0]["untagged"], 3, "{untagged}");
    assert_eq!(place.run(&["tag", "tagged"]).code, Some(0));
    let report = place.report(&["tagged"], 0);
    // Tags do not say what was found, so that nothing is said of that.
    let told = [
        "Tags of 3 files (42 bytes): by their times, nobody wrote to any of them since.",
        "Tags do not say what the last `verisum verify` found.",
    ];
    assert_eq!(report["lines"].as_array().unwrap()[..2], told, "{report}");
    assert_eq!(rows(&report, "Trees")[0]["catalogue"], "tags");
    let new = &rows(&report, "How old the verifications are")[0];
    assert_eq!((&new["verified"], &new["files"]), (&"less than a day".into(), &3.into()), "{new}");
    assert_eq!(rows(&report, "Trees by their tags")[0]["tagged"], 3);

    // Some tools leave no time with their tags, and then nobody knows whether somebody wrote since.
    if let Some(setfattr) = require_tool("setfattr") {
        assert_eq!(place.run(&["tag", "--family", "shatag", "tagged"]).code, Some(0));
        let untimed = |name: &str| {
            let file = place.path.join("tagged").join(name);
            let removed = Command::new(&setfattr).args(["-x", "user.shatag.ts"]).arg(file).status().unwrap();
            assert!(removed.success(), "{name}");
        };
        untimed("a");
        let told = |since: &str| format!("Tags of 3 files (42 bytes): {since}.");
        let some = place.report(&["--family", "shatag", "tagged"], 0);
        let since = "by their times, nobody wrote to 2 of them since; the tags of 1 have no time";
        assert_eq!(first_line(&some), told(since), "{some}");
        untimed("b");
        untimed("below/c");
        let none = place.report(&["--family", "shatag", "tagged"], 0);
        let since = "they have no times that could say whether somebody wrote to a file since";
        assert_eq!(first_line(&none), told(since), "{none}");
    }

    // One that somebody wrote to, and one of another length at the same time.
    fs::write(place.path.join("tagged/b"), "written").unwrap();
    change_and_restore_time(&place.path.join("tagged/below/c"), "rotten");
    assert_eq!(place.run(&["scrub", "--catalog", "copy.db", "copy"]).code, Some(0));
    let report = place.report(&["tagged", "copy.db"], 1);
    assert!(first_line(&report).starts_with("BAD: 1 of 6 files ("), "{report}");
    let bad = rows(&report, "Bad, missing and unchecked files");
    let outcomes: Vec<&str> = bad.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["suspicious", "unverifiable"], "{report}");
    let copy = place.path.join("copy/below/c").display().to_string();
    assert_eq!(bad[0]["good copy"], copy, "{}", bad[0]);
    // The command that is named mends it.
    let mend = bad[0]["mend with"].as_str().unwrap().replace("DIR", "kept");
    let ended = sh(&place, &mend);
    assert_eq!(ended.code, Some(0), "{mend}: {} {}", ended.stderr, ended.out());
    assert_eq!(fs::read(place.path.join("tagged/below/c")).unwrap(), b"content of below/c");
    let ended = sh(&place, bad[1]["mend with"].as_str().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report = place.report(&["tagged", "copy.db"], 0);
    assert!(first_line(&report).starts_with("All of 3 files"), "{report}");
    assert!(report["lines"][1].as_str().unwrap().starts_with("Tags of 3 files"), "{report}");

    // What a catalogue has would be a copy of itself.
    let twice = place.run(&["report", "-o", "page.html", "copy", "copy.db"]);
    assert!(twice.code == Some(2) && twice.stderr.contains("has it too"), "{}", twice.stderr);
    let twice = place.run(&["report", "-o", "page.html", "tagged", "tagged/below"]);
    assert!(twice.code == Some(2) && twice.stderr.contains("named twice"), "{}", twice.stderr);
    let page = place.run(&["report", "-o", "page.html", "tagged"]);
    assert_eq!(page.code, Some(0), "{}", page.stderr);
    let about = fs::metadata(place.path.join("page.html")).unwrap();
    assert!(about.len() > 1000 && about.permissions().mode() & 0o077 == 0);
}

#[test]
fn images_are_told_of_by_their_maps() {
    let place = Place::new();
    for image in ["one.img", "two.raw"] {
        fs::write(place.path.join(image), vec![7; 300_032]).unwrap();
    }
    let sum = place.run(&["image", "map", "-o", "one.map", "one.img"]).clean();
    place.run(&["image", "map", "-o", "two.raw.map", "two.raw"]).clean();
    let report = place.report(&["one.map", "two.raw"], 0);
    assert!(first_line(&report).contains("2 images"), "{report}");
    let images = rows(&report, "Disk images");
    let path = |name: &str| Value::from(place.path.join(name).display().to_string());
    assert_eq!((&images[0]["image"], &images[0]["block map"]), (&path("one.img"), &path("one.map")));
    assert_eq!((&images[1]["image"], &images[1]["block map"]), (&path("two.raw"), &path("two.raw.map")));
    assert!(sum.contains(images[0]["block hash"].as_str().unwrap()), "{sum}");
    assert_eq!(rows(&report, "How old the verifications are")[0]["files"], 2);
    assert_eq!(sh(&place, images[0]["check with"].as_str().unwrap()).code, Some(0));

    // Written to since, and gone.
    let later = fs::metadata(place.path.join("one.map")).unwrap().modified().unwrap();
    let file = fs::File::options().append(true).open(place.path.join("one.img")).unwrap();
    file.set_modified(later + std::time::Duration::from_secs(10)).unwrap();
    fs::remove_file(place.path.join("two.raw")).unwrap();
    let report = place.report(&["one.map", "two.raw.map"], 3);
    let lines = report["lines"].to_string();
    assert!(lines.contains("MISSING: 1 image") && lines.contains("UNCHECKED: 1 image"), "{lines}");
    let states: Vec<&str> =
        rows(&report, "Disk images").iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["written to since", "missing"]);
    // It may be elsewhere.
    let check = rows(&report, "Disk images")[1]["check with"].as_str().unwrap();
    assert!(
        check.contains("two.raw.map")
            && check.ends_with(" IMAGE")
            && lines.contains("If an image is elsewhere"),
        "{lines}"
    );
    // Nobody knows what is in them now.
    let ages: u64 =
        rows(&report, "How old the verifications are").iter().map(|row| row["files"].as_u64().unwrap()).sum();
    assert_eq!(ages, 0, "{report}");
    // A catalogue is none of these, and what is nothing says so.
    fs::write(place.path.join("text"), "text").unwrap();
    assert_eq!(place.run(&["report", "-o", "page.html", "text"]).code, Some(3));
    fs::write(place.path.join("moved.raw"), vec![7; 300_032]).unwrap();
    let bare = place.run(&["report", "-o", "page.html", "moved.raw"]);
    assert!(bare.code == Some(3) && bare.stderr.contains("without a block map"), "{}", bare.stderr);
}

fn sh(place: &Place, line: &str) -> Ended {
    let programs = std::path::Path::new(VERISUM).parent().unwrap().to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(programs).chain(std::env::split_paths(&path));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).current_dir(&place.path).env("HOME", &place.path);
    shell
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("VERISUM_CONFIG", "")
        .env_remove("XDG_STATE_HOME");
    Ended::of(shell.output().unwrap())
}
