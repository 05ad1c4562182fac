//! The catalogue: who may read it, what its damage looks like, and what is told of its runs.

use crate::common;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::recording::{FILES, run, tree};
use common::{Ended, VERISUM, command, start, verisum};
use rustix::process::Signal;
use verisum_testkit::{FsKind, Mount, copy_program, require_root, require_tool};

/// The verbs that only read.
const READ: [&str; 4] = ["status", "check", "export", "list"];

#[test]
fn reading_needs_no_right_to_write() {
    let (folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    if require_root().is_none() {
        return;
    }
    // Another user's, who lets a group read it, in a folder that is closed to others, and none of SQLite's
    // files beside it.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&catalog, None, Some(65534)).unwrap();
    fs::set_permissions(&catalog, Permissions::from_mode(0o640)).unwrap();
    run(&["scrub"], &catalog, &[&root]).clean();
    let before = fs::read(&catalog).unwrap();
    // The other user need not reach the folder that the program was built in.
    let program = folder.path().join("verisum");
    copy_program(VERISUM, &program);
    let as_other = |verb: &str| {
        let mut command = command(program.to_str().unwrap());
        command.args(["catalog", verb, "--catalog"]).arg(&catalog).uid(65534).gid(65534);
        Ended::of(command.output().unwrap())
    };
    for verb in READ {
        let out = as_other(verb).clean();
        assert!(verb == "check" || out.contains("tree"), "{out}");
    }
    // A run of the owner goes on meanwhile.
    let mut child =
        start(command(VERISUM).args(["scrub", "--limit-iops", "1", "--catalog"]).arg(&catalog).arg(&root));
    common::wait_until("the run has begun", || as_other("status").out().contains(": in progress\n"));
    for verb in READ {
        as_other(verb).clean();
    }
    assert!(as_other("status").out().contains(": in progress\n"));
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = as_other("status");
    assert!(ended.out().contains(": was killed\n"), "{}{}", ended.out(), ended.stderr);
    run(&["scrub"], &catalog, &[&root]).clean();
    assert_ne!(before, fs::read(&catalog).unwrap());
}

#[test]
fn a_read_only_file_system_is_no_obstacle() {
    let Some(mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    let (_folder, root, _) = tree();
    // A name that is special in SQLite's own.
    let catalog = mount.path().join("c %41?mode=x#.db");
    run(&["scrub"], &catalog, &[&root]).clean();
    let remount = |options: &str| {
        let status = Command::new("mount").args(["-o", options]).arg(mount.path()).status();
        assert!(status.unwrap().success());
    };
    remount("remount,ro");
    for verb in READ {
        run(&["catalog", verb], &catalog, &[]).clean();
    }
    let tags = run(&["verify"], &catalog, &[&root]);
    assert!(!tags.stderr.contains("c %41"), "{}", tags.stderr);
    run(&["scrub"], &catalog, &[&root]).failed(
        3,
        &format!("verisum: {}.lock: open: Read-only file system", catalog.canonicalize().unwrap().display()),
    );
    // With a log that nobody has worked in yet.
    remount("remount,rw");
    let mut child =
        start(command(VERISUM).args(["scrub", "--limit-iops", "1", "--catalog"]).arg(&catalog).arg(&root));
    let log = PathBuf::from(format!("{}-wal", catalog.display()));
    common::wait_until("the run has begun", || fs::metadata(&log).is_ok_and(|log| log.len() > 0));
    child.kill().unwrap();
    child.wait().unwrap();
    remount("remount,ro");
    let ended = run(&["catalog", "status"], &catalog, &[]);
    match ended.code {
        Some(0) => assert!(ended.out().contains("was killed"), "{}", ended.out()),
        code => assert_eq!((code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr),
    }
}

#[test]
fn runs_are_called_what_they_were() {
    let (_folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    let how = || -> Vec<String> {
        let out = run(&["catalog", "status", "--json"], &catalog, &[]).clean();
        let line: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&line["path"], &line["files"]), (&root.to_str().unwrap().into(), &FILES.into()));
        line["runs"].as_array().unwrap().iter().map(|run| run["outcome"].as_str().unwrap().into()).collect()
    };
    let slow = || {
        let child = start(
            command(VERISUM).args(["scrub", "--limit-iops", "1", "--catalog"]).arg(&catalog).arg(&root),
        );
        let runs = how().len();
        common::wait_until("it goes on", || how()[0] == "in-progress");
        assert!(how().len() >= runs);
        child
    };
    for signal in [Signal::TERM, Signal::INT] {
        let child = slow();
        common::signal(&child, signal);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!((ended.code, how()[0].as_str()), (Some(130), "interrupted"));
    }
    let mut child = slow();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(how(), ["killed", "interrupted", "interrupted", "complete"]);
}

/// A tree with a rotten and a missing file, two with one content and a name that is no line, scrubbed twice.
fn troubled() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (folder, root, catalog) = tree();
    fs::write(root.join("twice\nand again"), fs::read(root.join("f1")).unwrap()).unwrap();
    run(&["scrub"], &catalog, &[&root]).clean();
    let bad = root.join("f2");
    let written = fs::metadata(&bad).unwrap().modified().unwrap();
    let mut bytes = fs::read(&bad).unwrap();
    bytes[0] ^= 1;
    fs::write(&bad, bytes).unwrap();
    File::options().write(true).open(&bad).unwrap().set_modified(written).unwrap();
    fs::remove_file(root.join("f3")).unwrap();
    assert_eq!(run(&["scrub"], &catalog, &[&root]).code, Some(1));
    (folder, root, catalog)
}

#[test]
fn files_are_listed_by_what_is_wrong() {
    let (_folder, root, catalog) = troubled();
    let list = |options: &[&str]| {
        let ended = run(&[&["catalog", "list", "--json"], options].concat(), &catalog, &[]);
        assert_eq!(ended.stderr, "");
        let lines = ended.out().lines().map(|line| serde_json::from_str(line).unwrap());
        (ended.code, lines.collect::<Vec<serde_json::Value>>())
    };
    let names = |lines: &[serde_json::Value]| -> Vec<String> {
        let top = format!("{}/", root.to_str().unwrap());
        lines.iter().map(|line| line["path"].as_str().unwrap().replace(&top, "")).collect()
    };
    let (code, bad) = list(&["--bad"]);
    assert_eq!((code, names(&bad)), (Some(1), vec!["f2".to_string()]));
    assert_eq!(bad[0]["outcome"], "suspicious");
    assert_ne!(bad[0]["recorded"]["digest"], bad[0]["found"]["digest"]);
    assert!(bad[0]["since"].as_str() > bad[0]["verified"].as_str(), "{}", bad[0]);
    assert_eq!(bad[0]["copy"], serde_json::Value::Null);
    let (code, missing) = list(&["--missing"]);
    assert_eq!((code, names(&missing)), (Some(0), vec!["f3".to_string()]));
    assert_eq!(names(&list(&["--bad", "--missing"]).1), ["f2", "f3"]);
    let (code, twice) = list(&["--duplicates"]);
    assert_eq!((code, names(&twice)), (Some(0), vec!["f1".to_string(), "twice\nand again".to_string()]));
    assert_eq!(names(&list(&["--stale", "1h"]).1), Vec::<String>::new());
    let (_, all) = list(&[]);
    assert_eq!(all.len() as u32, FILES + 1);
    assert_eq!(list(&["--tree", root.to_str().unwrap()]).1, all);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    // Nobody can verify what is gone.
    assert_eq!(list(&["--stale", "1s"]).1.len() as u32, FILES);
    let elsewhere = run(&["catalog", "list", "--tree", "/nowhere"], &catalog, &[]);
    elsewhere.failed(
        2,
        "verisum: --tree: /nowhere: not in the catalogue (`verisum catalog status` lists what is)",
    );
    // What is gone is somewhere else.
    fs::remove_file(root.join("f1")).unwrap();
    assert_eq!(run(&["scrub"], &catalog, &[&root]).code, Some(1));
    let (_, missing) = list(&["--missing"]);
    assert_eq!(names(&missing), ["f1", "f3"]);
    let copy = missing[0]["copy"]["path"].as_str().unwrap().to_string();
    assert!(copy.ends_with("/twice\nand again"), "{copy}");
    fs::write(root.join("f1"), fs::read(root.join("twice\nand again")).unwrap()).unwrap();
    assert_eq!(run(&["scrub"], &catalog, &[&root]).code, Some(1));
    // A name is a line, whatever it has in it.
    let text = run(&["catalog", "list", "--duplicates"], &catalog, &[]).clean();
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_bad_file_that_goes_is_missing_too() {
    let (folder, root, catalog) = troubled();
    let list = |option: &str| -> Vec<(String, String)> {
        let ended = run(&["catalog", "list", "--json", option], &catalog, &[]);
        let lines = ended.out().lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let name = |path: &str| path.rsplit('/').next().unwrap().to_string();
        lines.map(|line| (name(line["path"].as_str().unwrap()), line["error"].to_string())).collect()
    };
    let pair = |name: &str, error: &str| (name.to_string(), error.to_string());
    let gone = pair("f2", "\"it is gone\"");
    let missing = pair("f3", "null");
    let away = folder.path().join("away");
    fs::rename(root.join("f2"), &away).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&["scrub"], &catalog, &[&root]).code, Some(1));
        assert_eq!(
            (list("--missing"), list("--bad")),
            (vec![gone.clone(), missing.clone()], vec![gone.clone()])
        );
    }
    // Under another name it is here again.
    fs::rename(&away, root.join("g2")).unwrap();
    assert_eq!(run(&["scrub"], &catalog, &[&root]).code, Some(1));
    assert_eq!((list("--missing"), list("--bad")), (vec![missing.clone()], vec![pair("g2", "null")]));
    // As what is gone when an alarm holds it.
    for number in 100..200 {
        fs::remove_file(root.join(format!("f{number}"))).unwrap();
    }
    let alarm = run(&["scrub", "--alarm-changed", "20%"], &catalog, &[&root]);
    assert_eq!(alarm.code, Some(1), "{}", alarm.stderr);
    assert_eq!(list("--missing").len(), 101);
}

#[test]
fn what_is_wrong_is_summed_up() {
    let (folder, _root, catalog) = troubled();
    let sound = run(&["catalog", "check"], &catalog, &[]).clean();
    assert!(sound.contains(&format!(": sound: 1 tree, {} files, ", FILES + 1)), "{sound}");
    let unguarded = "the history of runs and repairs, and what was found of bad and missing files, have";
    assert!(sound.ends_with(&format!(" ({unguarded} no check values)\n")), "{sound}");
    assert!(!run(&["catalog", "status"], &catalog, &[]).clean().contains("in all"));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("one"), "1").unwrap();
    run(&["scrub"], &catalog, &[&other]).clean();
    let status = run(&["catalog", "status"], &catalog, &[]).clean();
    let last = status.lines().last().unwrap();
    assert!(last.starts_with(&format!("in all: 2 trees, {} files, ", FILES + 2)), "{status}");
    assert!(last.ends_with(", missing 1, suspicious 1"), "{status}");
}

/// Whoever reads only the figures sees that nobody knows how it is.
#[test]
fn figures_of_a_catalogue_that_cannot_be_read_say_so() {
    let (folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    let figures = folder.path().join("figures");
    let words = ["catalog", "status", "--prometheus", figures.to_str().unwrap()];
    let status = |code| {
        let ended = run(&words, &catalog, &[]);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        fs::read_to_string(&figures).unwrap()
    };
    let good = status(0);
    assert!(good.contains("\nverisum_catalog_up 1\n"), "{good}");
    let aside = folder.path().join("aside");
    fs::rename(&catalog, &aside).unwrap();
    for _ in 0..2 {
        assert_eq!(status(3), good.replace("verisum_catalog_up 1", "verisum_catalog_up 0"));
    }
    fs::write(&catalog, "no catalogue").unwrap();
    assert!(status(3).contains("\nverisum_catalog_up 0\n"));
    // It is never written over.
    let own = ["catalog", "status", "--prometheus", catalog.to_str().unwrap()];
    assert_eq!(run(&own, &catalog, &[]).code, Some(3));
    assert_eq!(fs::read_to_string(&catalog).unwrap(), "no catalogue");
    fs::rename(&aside, &catalog).unwrap();
    assert_eq!(status(0), good);
    // What is stale has a name.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let nagios = run(&["catalog", "status", "--nagios", "--max-age", "1s"], &catalog, &[]);
    let said = format!(" ago, more than 1.0 s (--max-age) in {}", root.display());
    assert!(nagios.code == Some(1) && nagios.out().contains(&said), "{}", nagios.out());
}

#[test]
fn monitoring_needs_no_scrub() {
    let (folder, root, catalog) = troubled();
    let figures = folder.path().join("figures");
    let status = |options: &[&str]| run(&[&["catalog", "status"], options].concat(), &catalog, &[]);
    assert_eq!(status(&[]).code, Some(0));
    assert_eq!(status(&["--max-age", "35d"]).code, Some(1));
    let nagios = status(&["--nagios"]);
    assert_eq!(nagios.code, Some(2));
    let expected =
        format!("VERISUM CRITICAL - {} files, 1 bad, 0 unchecked, 1 missing, suspicious ", FILES + 1);
    assert!(nagios.out().starts_with(&expected), "{}", nagios.out());
    assert!(nagios.out().contains("/f2, stalest verification ") && nagios.out().contains("| files="));
    assert_eq!(status(&["--prometheus", figures.to_str().unwrap()]).code, Some(1));
    let text = fs::read_to_string(&figures).unwrap();
    let row =
        format!("verisum_catalog_troubled_files{{root=\"{}\",state=\"suspicious\"}} 1\n", root.display());
    assert!(text.contains(&row), "{text}");
    assert_eq!(status(&["--prometheus", catalog.to_str().unwrap()]).code, Some(3));
    // All is well again, but for its age.
    run(&["accept"], &catalog, &[&root]).out();
    run(&["scrub"], &catalog, &[&root]).clean();
    let nagios = status(&["--nagios", "--max-age", "35d"]);
    assert_eq!((nagios.code, nagios.out().starts_with("VERISUM OK - ")), (Some(0), true), "{}", nagios.out());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let nagios = status(&["--nagios", "--max-age", "1s"]);
    assert_eq!(
        (nagios.code, nagios.out().starts_with("VERISUM WARNING - ")),
        (Some(1), true),
        "{}",
        nagios.out()
    );
    let late = status(&["--max-age", "1s"]);
    let told = "\n  late: the stalest verification is older than ";
    assert!(late.code == Some(3) && late.out().contains(told), "{}", late.out());
    for (options, told) in
        [(&["--max-age", "1s"][..], "true"), (&["--max-age", "35d"], "false"), (&[], "null")]
    {
        let line = status(&[&["--json"], options].concat());
        assert!(line.out().contains(&format!("\"late\":{told},")), "{}", line.out());
    }
    let nothing = run(&["catalog", "status", "--nagios"], &folder.path().join("none"), &[]);
    assert_eq!((nothing.code, nothing.out().starts_with("VERISUM UNKNOWN - ")), (Some(3), true));
}

#[test]
fn a_tree_is_not_well_before_a_scrub_came_to_its_end() {
    let (folder, root, catalog) = tree();
    let figures = folder.path().join("figures");
    let status = |options: &[&str]| run(&[&["catalog", "status"], options].concat(), &catalog, &[]);
    let with_file = ["--prometheus", figures.to_str().unwrap()];
    let report = || verisum(["report".as_ref(), "--json".as_ref(), catalog.as_os_str()]);
    for signal in [Signal::INT, Signal::KILL] {
        let mut scrub = command(VERISUM);
        scrub.args(["scrub", "--limit-iops", "1", "--catalog"]).arg(&catalog).arg(&root);
        let mut child = start(&mut scrub);
        common::wait_until("it goes on", || {
            catalog.exists() && status(&[]).out().contains(": in progress\n")
        });
        common::signal(&child, signal);
        child.wait().unwrap();
        let nagios = status(&["--nagios"]);
        let told = format!(", no scrub of {} has come to its end yet", root.display());
        assert!(nagios.code == Some(1) && nagios.out().contains(&told), "{}", nagios.out());
        let told = "no scrub has come to its end yet: some files may have no record";
        let text = status(&with_file);
        assert!(text.code == Some(3) && text.out().contains(&format!("\n  {told}\n")), "{}", text.out());
        let figures = fs::read_to_string(&figures).unwrap();
        let figure = format!("verisum_catalog_unfinished{{root=\"{}\"}} 1\n", root.display());
        assert!(figures.contains(&figure), "{figures}");
        assert!(status(&["--json"]).clean().contains("\"unfinished\":true"));
        let report = report();
        assert!(report.code == Some(3) && report.out().contains(told), "{}", report.out());
    }
    run(&["scrub"], &catalog, &[&root]).clean();
    assert_eq!(status(&["--nagios"]).code, Some(0));
    assert_eq!((status(&with_file).code, report().code), (Some(0), Some(0)));
    assert!(status(&["--json"]).clean().contains("\"unfinished\":false"));
    // What it counted cannot be read any more: nothing of that is zero.
    if !flip(&catalog, "UPDATE run SET counts = '{\"rot\":' WHERE complete") {
        return;
    }
    let told = "the record of this run is damaged (verisum catalog check)";
    for ended in [status(&["--nagios"]), status(&with_file), report()] {
        let code = if ended.out().starts_with("VERISUM WARNING - ") { 1 } else { 3 };
        assert!(ended.code == Some(code) && ended.out().contains(told), "{}", ended.out());
    }
    let check = run(&["catalog", "check"], &catalog, &[]);
    assert!(
        check.code == Some(1) && check.stderr.contains("runs whose counts are damaged"),
        "{}",
        check.stderr
    );
}

#[test]
fn what_a_report_cannot_say_it_ends_with() {
    let (_folder, _root, catalog) = troubled();
    let mut report = command(VERISUM);
    report.arg("report").arg(&catalog).stdout(File::options().write(true).open("/dev/full").unwrap());
    let ended = Ended::of(report.output().unwrap());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.stderr, "verisum: standard output: write: No space left on device\n");
}

#[test]
fn damage_to_a_record_is_no_rot_of_the_file() {
    let (_folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    // A bit of the recorded digest.
    let Some(sha256sum) = require_tool("sha256sum") else { return };
    let output = Command::new(sha256sum).arg(root.join("f3")).output().unwrap();
    let hex = String::from_utf8_lossy(&output.stdout)[..64].to_string();
    let digest: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let mut bytes = fs::read(&catalog).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 32).filter(|&at| bytes[at..at + 32] == digest).collect();
    assert!(!places.is_empty(), "a digest is kept as its bytes");
    // What SQLite moved from one page to another leaves bytes behind that count no more.
    places.iter().for_each(|place| bytes[place + 7] ^= 4);
    fs::write(&catalog, &bytes).unwrap();
    let path = root.join("f3");
    let ended = run(&["catalog", "check"], &catalog, &[]);
    let message = format!("verisum: {}: check: {}: its record is damaged", catalog.display(), path.display());
    ended.failed(1, &message);
    // Before a scrub meets it, too.
    let prometheus = root.with_file_name("prometheus");
    let with_file = ["catalog", "status", "--prometheus", prometheus.to_str().unwrap()];
    assert_eq!(run(&with_file, &catalog, &[]).code, Some(3));
    let figures = fs::read_to_string(&prometheus).unwrap();
    assert!(figures.contains("state=\"record-damaged\"} 1\n"), "{figures}");
    for (words, code, told) in [
        (
            &["status", "--nagios"][..],
            1,
            "VERISUM WARNING - 300 files, 0 bad, 1 unchecked, 0 missing, 1 damaged record",
        ),
        (&["status", "--max-age", "9d"], 3, "record-damaged: 1\n"),
        (&["list", "--bad"], 3, "record-damaged"),
        (&["list"], 3, "record-damaged"),
        (&["export"], 3, "\"record-damaged\""),
    ] {
        let ended = run(&[&["catalog"], words].concat(), &catalog, &[]);
        assert_eq!(ended.code, Some(code), "{words:?}: {}{}", ended.out(), ended.stderr);
        assert!(ended.out().contains(told), "{words:?}: {}", ended.out());
    }
    for _ in 0..2 {
        let ended = run(&["scrub"], &catalog, &[&root]);
        assert_eq!(ended.code, Some(3), "{}{}", ended.out(), ended.stderr);
        assert!(ended.out().starts_with(&format!("record-damaged  {}", path.display())), "{}", ended.out());
        assert!(ended.out().contains(&format!("ok {}, record-damaged 1", FILES - 1)), "{}", ended.out());
    }
    // Whoever looks is told what to do, and of which file.
    for words in [&["scrub"][..], &["catalog", "list", "--bad"], &["catalog", "status", "--nagios"]] {
        let ended = run(words, &catalog, &if words == ["scrub"] { vec![&*root] } else { vec![] });
        let told = format!("{}{}", ended.out(), ended.stderr);
        let remedy = format!(
            "restore a backup of the catalogue, whose record is damaged, or take the file as it is: verisum accept --catalog '{}' '{}'",
            catalog.display(),
            path.display()
        );
        assert!(told.replace("'", "").contains(&remedy.replace("'", "")), "{words:?}: {told}");
    }
    // It is kept, also if the file goes.
    fs::rename(&path, root.join("away")).unwrap();
    let ended = run(&["scrub"], &catalog, &[&root]);
    assert!(ended.code == Some(3) && ended.out().contains("record-damaged"), "{}", ended.out());
    fs::rename(root.join("away"), &path).unwrap();
    let export = run(&["catalog", "export"], &catalog, &[]);
    assert_eq!((export.code, export.out().matches("\"record-damaged\"").count()), (Some(3), 1));
    assert!(export.stderr.ends_with(": export: 1 damaged record (verisum catalog check names them)\n"));
    run(&["accept"], &catalog, &[&path]).clean();
    assert_eq!(run(&["scrub"], &catalog, &[&root]).code, Some(0));
    run(&["catalog", "check"], &catalog, &[]).clean();
}

/// Changes records without their check values.
fn flip(catalog: &Path, set: &str) -> bool {
    let Some(python) = require_tool("python3") else { return false };
    let script = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as db: db.execute(sys.argv[2])";
    Command::new(python).args(["-c", script]).arg(catalog).arg(set).status().unwrap().success()
}

/// The file of a lost record would be new, whatever became of its content.
#[test]
fn a_scrub_misses_records() {
    let (_folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    if !flip(&catalog, "DELETE FROM file WHERE name = CAST('f3' AS BLOB)") {
        return;
    }
    let scrub = run(&["scrub", "--quiet"], &catalog, &[&root]);
    let said = format!("{} of {FILES} records are found", FILES - 1);
    assert!(scrub.code == Some(3) && scrub.stderr.contains(&said), "{:?} {}", scrub.code, scrub.stderr);
    // The records are as they were: it is said again.
    assert_eq!(run(&["scrub", "--quiet"], &catalog, &[&root]).code, Some(3));
    let nagios = run(&["scrub", "--nagios"], &catalog, &[&root]);
    assert!(nagios.code == Some(3) && nagios.out().contains(&said), "{}", nagios.out());
}

#[test]
fn a_damaged_record_is_only_damaged() {
    let (_folder, root, catalog) = tree();
    fs::copy(root.join("f1"), root.join("twice")).unwrap();
    run(&["scrub"], &catalog, &[&root]).clean();
    // As if a run had found the file to be rotten.
    if !flip(&catalog, "UPDATE file SET state = 6 WHERE name = CAST('f3' AS BLOB)") {
        return;
    }
    let nagios = run(&["catalog", "status", "--nagios"], &catalog, &[]);
    let told = "VERISUM WARNING - 301 files, 0 bad, 1 unchecked, 0 missing, \
                1 damaged record (verisum catalog check names them)";
    assert!(nagios.code == Some(1) && nagios.out().starts_with(told), "{}", nagios.out());
    let status = run(&["catalog", "status", "--max-age", "9d"], &catalog, &[]);
    assert_eq!(status.code, Some(3), "{}", status.out());
    assert!(
        status.out().contains("record-damaged: 1\n") && !status.out().contains("rot: "),
        "{}",
        status.out()
    );
    // Its path is the only fact.
    for words in [&["--bad"][..], &["--bad", "--missing"]] {
        let list = run(&[&["catalog", "list"], words].concat(), &catalog, &[]);
        assert_eq!((list.code, list.out().lines().count()), (Some(3), 1), "{}", list.out());
        let facts = ["last good", "sha256", "never read"].map(|fact| list.out().contains(fact));
        assert!(list.out().starts_with("record-damaged") && facts == [false; 3], "{}", list.out());
    }
    let json = run(&["catalog", "list", "--bad", "--json"], &catalog, &[]);
    let line: serde_json::Value = serde_json::from_str(json.out()).unwrap();
    assert_eq!(line["path"], root.join("f3").to_str().unwrap());
    assert!(["algorithm", "recorded", "verified"].iter().all(|field| line[field].is_null()), "{line}");
    let csv = run(&["catalog", "list", "--bad", "--csv"], &catalog, &[]);
    assert!(csv.out().lines().count() == 2 && !csv.out().contains("sha256"), "{}", csv.out());
    let report = verisum(["report".as_ref(), "--json".as_ref(), catalog.as_os_str()]);
    assert_eq!(report.code, Some(3), "{}", report.stderr);
    let report: serde_json::Value = serde_json::from_str(report.out()).unwrap();
    let lines = report["lines"].to_string();
    assert!(lines.contains("\"UNCHECKED: 1 damaged record (verisum catalog check names them).\""), "{lines}");
    assert!(!lines.contains("BAD"), "{lines}");
    // No copy by a damaged record is told of.
    let duplicates = || run(&["catalog", "list", "--duplicates"], &catalog, &[]).out().lines().count();
    assert_eq!(duplicates(), 2);
    assert!(flip(&catalog, "UPDATE file SET inode = inode + 1 WHERE name = CAST('twice' AS BLOB)"));
    assert_eq!(duplicates(), 0);
    fs::remove_file(root.join("f1")).unwrap();
    assert_eq!(run(&["scrub"], &catalog, &[&root]).code, Some(3));
    let missing = run(&["catalog", "list", "--missing", "--json"], &catalog, &[]);
    assert!(missing.out().contains("/f1\"") && missing.out().contains("\"copy\":null"), "{}", missing.out());
}

#[test]
fn a_value_of_another_kind_is_damage_of_its_table() {
    let (folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    fs::remove_file(root.join("f1")).unwrap();
    fs::write(root.join("f2"), "other").unwrap();
    run(&["scrub"], &catalog, &[&root]);
    let good = fs::read(&catalog).unwrap();
    let bad = folder.path().join("bad.db");
    for (table, set, told_by) in [
        ("finding", "since = 'x'", &["catalog list --missing", "report", "scrub"][..]),
        ("finding", "detail = CAST(x'ff' AS TEXT)", &["catalog list --missing"]),
        ("run", "started = x'00'", &["report", "catalog status", "scrub"]),
        ("root", "files = 'x'", &["catalog list --missing", "report", "catalog status", "scrub"]),
        ("algorithm", "name = CAST(x'ff' AS TEXT)", &["catalog list --missing", "report", "scrub"]),
    ] {
        fs::write(&bad, &good).unwrap();
        if !flip(&bad, &format!("UPDATE {table} SET {set}")) {
            return;
        }
        let column = set.split(' ').next().unwrap();
        let told = format!("table {table}: damaged values in column {column}: ");
        let check = run(&["catalog", "check"], &bad, &[]);
        assert!(check.code == Some(1) && check.stderr.contains(&told), "{}", check.stderr);
        for words in told_by {
            let words: Vec<&str> = words.split(' ').collect();
            let ended = match words[0] {
                "report" => verisum(["report".as_ref(), bad.as_os_str()]),
                "scrub" => run(&words, &bad, &[&root]),
                _ => run(&words, &bad, &[]),
            };
            let all = format!("{}{}", ended.out(), ended.stderr);
            let is_told = all.contains(&told) && all.contains("verisum catalog check says more");
            assert!(ended.code == Some(3) && is_told && !all.contains("Invalid"), "{words:?}: {all}");
        }
    }
}

#[test]
fn a_verification_in_the_future_does_not_count() {
    let (folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    // Recorded by a clock that ran ahead.
    let export = run(&["catalog", "export"], &catalog, &[]).clean();
    let verified = "\"last_verified\":\"";
    let ahead = export.split(verified).collect::<Vec<_>>().join(&format!("{verified}3"));
    let ahead: String = ahead
        .lines()
        .map(|line| line.replace("\"last_verified\":\"32", "\"last_verified\":\"3") + "\n")
        .collect();
    let (lines, catalog) = (folder.path().join("lines"), folder.path().join("ahead.db"));
    fs::write(&lines, ahead).unwrap();
    run(&["catalog", "import"], &catalog, &[&lines]).clean();
    let status = |words: &[&str]| run(&[&["catalog", "status"], words].concat(), &catalog, &[]);
    let told = status(&["--nagios", "--max-age", "9d"]);
    assert_eq!(told.code, Some(1), "{}", told.out());
    assert!(told.out().contains(", 300 verified in the future, some never verified"), "{}", told.out());
    let told = status(&["--max-age", "9d"]);
    assert_eq!(told.code, Some(3), "{}", told.out());
    let line = "\n  stalest verification: never\n  verified in the future: 300 (";
    assert!(told.out().contains(line), "{}", told.out());
    assert!(status(&["--json"]).clean().contains("\"verified_in_future\":300"));
    let listed = || run(&["catalog", "list", "--stale", "9d"], &catalog, &[]).clean().lines().count();
    assert_eq!(listed(), 300);
    let page = folder.path().join("page.html");
    let report = verisum([
        "report".as_ref(),
        "--max-age".as_ref(),
        "9d".as_ref(),
        "-o".as_ref(),
        page.as_os_str(),
        catalog.as_os_str(),
    ]);
    assert_eq!(report.code, Some(3), "{}{}", report.out(), report.stderr);
    let told = "Verified in the future: 300 (a clock ran ahead: they count as never verified).\n";
    assert!(report.out().contains(told), "{}", report.out());
    let read = run(&["scrub", "--max-age", "9d"], &catalog, &[&root]).clean();
    assert!(read.contains("read 300 ("), "{read}");
    assert_eq!((listed(), status(&["--nagios", "--max-age", "9d"]).code), (0, Some(0)));
}

#[test]
fn what_is_no_catalogue_is_said_in_one_line() {
    let (folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    let good = fs::read(&catalog).unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("text"), "some text, and more of it\n".repeat(50)).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("short"), &good[..good.len() / 3]).unwrap();
    fs::write(path("beginning"), &good[..50]).unwrap();
    let mkfifo = Command::new("mkfifo").arg(path("pipe")).status();
    assert!(mkfifo.is_ok_and(|status| status.success()));
    let mut random = 4321_u32;
    let mut flipped = good.clone();
    for _ in 0..200 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let place = 100 + random as usize % (good.len() - 100);
        flipped[place] ^= 1 << (random % 8);
    }
    fs::write(path("flipped"), &flipped).unwrap();
    let verbs: [&[&str]; 6] = [
        &["catalog", "status"],
        &["catalog", "check"],
        &["catalog", "export"],
        &["accept"],
        &["scrub", "--quiet"],
        &["verify"],
    ];
    for name in ["folder", "text", "empty", "short", "beginning", "pipe", "missing/c.db", "flipped"] {
        for verb in verbs {
            let paths: &[&Path] = if verb[0] == "catalog" { &[] } else { &[&root] };
            let ended = run(verb, &path(name), paths);
            assert!(!ended.stderr.contains("panicked") && ended.signal.is_none(), "{}", ended.stderr);
            assert!(!ended.stderr.contains("(os error"), "{}", ended.stderr);
            if name == "flipped" || verb[0] == "verify" {
                continue;
            }
            let code = if verb == ["catalog", "check"] && ended.code == Some(1) { 1 } else { 3 };
            assert_eq!(
                (ended.code, ended.stderr.lines().count()),
                (Some(code), 1),
                "{name} {verb:?} {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn monitoring_is_told_why_nothing_was_done() {
    let (folder, root, catalog) = tree();
    let file = folder.path().canonicalize().unwrap().join("verisum.prom");
    let prometheus = format!("--prometheus={}", file.display());
    run(&["scrub", "--quiet", &prometheus], &catalog, &[&root]).clean();
    let value = |name: &str| -> Option<f64> {
        let text = fs::read_to_string(&file).unwrap();
        let line = text.lines().find(|line| line.starts_with(name))?.to_string();
        line.rsplit(' ').next().unwrap().parse().ok()
    };
    assert_eq!(
        (value("verisum_scrub_up "), value("verisum_scrub_recorded_files{")),
        (Some(1.0), Some(f64::from(FILES)))
    );
    let began = value("verisum_scrub_start_time_seconds{").unwrap();
    assert!(value("verisum_scrub_oldest_verification_timestamp_seconds{").unwrap() >= began.floor());
    let lock = File::open(folder.path().join("c.db.lock")).unwrap();
    lock.try_lock().unwrap();
    let ended = run(&["scrub", "--nagios", &prometheus], &catalog, &[&root]);
    assert_eq!(ended.code, Some(3));
    let said = format!("VERISUM UNKNOWN - {}: lock: another run uses this catalogue\n", catalog.display());
    assert_eq!(ended.out(), said);
    // The figures are those of the run before, and it is told that they are.
    assert_eq!(
        (value("verisum_scrub_up "), value("verisum_scrub_recorded_files{")),
        (Some(0.0), Some(f64::from(FILES)))
    );
    assert_eq!(value("verisum_scrub_start_time_seconds{"), Some(began));
    assert!(value("verisum_scrub_last_attempt_timestamp_seconds ").unwrap() > began);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(",reason=\"locked\"} 1\n"), "{text}");
    for name in ["verisum_scrub_up ", "# TYPE verisum_scrub_up ", "# HELP verisum_scrub_files "] {
        assert_eq!(text.lines().filter(|line| line.starts_with(name)).count(), 1, "{text}");
    }
    drop(lock);
    let nowhere = root.join("nowhere");
    let ended = run(&["scrub", "--nagios", &prometheus], &catalog, &[&root, &nowhere]);
    let reason = format!(", not scrubbed: {}: stat: No such file or directory", nowhere.display());
    assert!(ended.out().contains(&reason), "{}", ended.out());
    let seconds = |name: &str| -> Option<f64> {
        ended.out().split_once(name)?.1.split_whitespace().next()?.strip_suffix('s')?.parse().ok()
    };
    for name in [" time=", " oldest="] {
        assert!(seconds(name).is_some_and(|passed| (0.0..600.0).contains(&passed)), "{}", ended.out());
    }
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("/nowhere\",reason=\"directory\"} 1\n"), "{text}");
    assert_eq!(value("verisum_scrub_up "), Some(1.0));
}

#[test]
fn values_that_mean_nothing_are_bad_usage() {
    let (_folder, root, catalog) = tree();
    for options in [
        ["--sample", "0"],
        ["--sample", "0%"],
        ["--sample", "-5%"],
        ["--sample", "200%"],
        ["--alarm-changed", "0"],
        ["--alarm-changed", "-1"],
        ["--alarm-changed", "1000%"],
        ["--max-age", "0d"],
        ["--for", "-2h"],
        ["--stop-after", "-1"],
        ["--threads", "0"],
        ["--since", "tomorrow"],
    ] {
        let ended = run(&["scrub", options[0], options[1]], &catalog, &[&root]);
        assert_eq!(ended.code, Some(2), "{options:?} {}", ended.stderr);
    }
    assert!(!catalog.exists());
}

#[test]
fn what_cannot_be_relocated_is_named() {
    let (_folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    let relocate = |from: &Path, to: &Path| run(&["catalog", "relocate"], &catalog, &[from, to]);
    let other = root.with_file_name("other");
    let message = format!("verisum: {}: relocate: it is no tree of the catalogue", other.display());
    relocate(&other, &root).failed(3, &message);
    let message = format!(
        "verisum: {}: relocate: it is a tree of the catalogue already (`verisum catalog forget` removes one)",
        root.display()
    );
    relocate(&root, &root).failed(3, &message);
    let message = format!(
        "verisum: {}: relocate: no directory is there (--unmounted takes its place as it will be)",
        other.display()
    );
    relocate(&root, &other).failed(3, &message);
    run(&["catalog", "relocate", "--unmounted"], &catalog, &[&root, &other]).clean();
    fs::rename(&root, &other).unwrap();
    run(&["scrub", "--quiet"], &catalog, &[&other]).clean();
    fs::rename(&other, &root).unwrap();
    let moved = relocate(&other, &root).clean();
    let scrub = format!("`verisum scrub --catalog '{}' '{}'`", catalog.display(), root.display());
    assert!(moved.starts_with(&format!("{FILES} records moved to ")) && moved.contains(&scrub), "{moved}");
    // A link in its old place, as after a move to another disk, is not taken for the tree.
    fs::rename(&root, &other).unwrap();
    std::os::unix::fs::symlink(&other, &root).unwrap();
    relocate(&root, &other).clean();
    run(&["scrub", "--quiet"], &catalog, &[&root]).clean();
    fs::write(other.join("f1"), "x").unwrap();
    let time = std::time::UNIX_EPOCH;
    File::options().write(true).open(other.join("f1")).unwrap().set_modified(time).unwrap();
    assert_eq!(run(&["scrub", "--archive"], &catalog, &[&root]).code, Some(1));
    let accepted = run(&["accept"], &catalog, &[&root]).clean();
    assert!(accepted.starts_with(&format!("accepted  {}", other.join("f1").display())), "{accepted}");
    assert_eq!(
        run(&["catalog", "forget"], &catalog, &[&root]).clean(),
        format!("{FILES} records of {} forgotten; its files stay as they are\n", other.display())
    );
}

#[test]
fn a_full_file_system_of_small_blocks_is_an_error_and_no_signal() {
    let Some(mount) = Mount::formatted(FsKind::Ext4, 0, &["-b", "1024"]) else { return };
    let (_folder, root, _) = tree();
    let catalog = mount.path().join("c.db");
    run(&["scrub"], &catalog, &[&root]).clean();
    let filler = mount.path().join("filler");
    let mut file = File::create(&filler).unwrap();
    for length in [1 << 20, 1 << 10] {
        while std::io::Write::write_all(&mut file, &vec![7; length]).is_ok() {}
    }
    fs::write(root.join("f1"), "another content").unwrap();
    let full = file.metadata().unwrap().len();
    let end = "no space left on device\n";
    // With a little space there are files that are long enough and have holes.
    for kibibytes in [0, 8, 24, 33] {
        file.set_len(full - (kibibytes << 10)).unwrap();
        file.sync_all().unwrap();
        for verb in READ {
            let out = run(&["catalog", verb], &catalog, &[]).clean();
            assert!(verb == "check" || out.contains("tree"), "{out}");
        }
        let ended = run(&["scrub"], &catalog, &[&root]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
        let begin = format!("verisum: {}: ", catalog.display());
        assert!(ended.stderr.starts_with(&begin) && ended.stderr.ends_with(end), "{}", ended.stderr);
    }
    drop(file);
    fs::remove_file(&filler).unwrap();
    let out = run(&["scrub", "--verbose"], &catalog, &[&root]).clean();
    assert!(out.contains("modified 1"), "{out}");
    run(&["catalog", "check"], &catalog, &[]).clean();
}

/// Such a catalogue was made by an import that did not look, or by a later version.
#[test]
fn a_record_of_an_unknown_digest_stops_no_run() {
    let (_folder, root, catalog) = tree();
    run(&["scrub", "-q"], &catalog, &[&root]).clean();
    // A name of the same length, in the table and in its index.
    let mut bytes = fs::read(&catalog).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 6).filter(|at| &bytes[*at..*at + 6] == b"sha256").collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at..*at + 6].copy_from_slice(b"sha9z6"));
    fs::write(&catalog, bytes).unwrap();
    let ended = run(&["scrub", "-a", "md5"], &catalog, &[&root]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.out().contains("unknown digest: sha9z6"), "{}{}", ended.out(), ended.stderr);
    assert_eq!(run(&["catalog", "check"], &catalog, &[]).code, Some(1));
    run(&["accept"], &catalog, &[&root]).clean();
    run(&["scrub", "-a", "md5"], &catalog, &[&root]).clean();
    run(&["catalog", "check"], &catalog, &[]).clean();
}

#[test]
fn a_tree_is_forgotten() {
    let (_folder, root, catalog) = tree();
    let other = root.with_file_name("other");
    fs::create_dir_all(other.join("a/b")).unwrap();
    fs::write(other.join("a/b/c"), "abc").unwrap();
    run(&["scrub"], &catalog, &[&root, &other]).clean();
    let forget =
        |words: &[&str], tree: &Path| run(&[&["catalog", "forget"], words].concat(), &catalog, &[tree]);
    let message = format!("verisum: {}: forget: it is no tree of the catalogue", other.join("a").display());
    forget(&[], &other.join("a")).failed(3, &message);
    fs::remove_file(root.join("f1")).unwrap();
    run(&["scrub"], &catalog, &[&root]);
    let (of, list) = (root.display(), catalog.display());
    let message = format!(
        "verisum: {of}: forget: 1 file of it is bad, missing or waiting (`verisum catalog list --bad --missing \
         --catalog '{list}' --tree '{of}'` lists them, --yes forgets their records too)"
    );
    forget(&[], &root).failed(3, &message);
    assert_eq!(
        forget(&["--dry-run"], &root).clean(),
        format!(
            "{FILES} records of {of} would be forgotten, 1 of them of files that are bad, missing or waiting: that \
             needs --yes\n"
        )
    );
    assert_eq!(
        forget(&["--yes"], &root).clean(),
        format!("{FILES} records of {of} forgotten; its files stay as they are\n")
    );
    run(&["catalog", "check"], &catalog, &[]).clean();
    let export = run(&["catalog", "export"], &catalog, &[]).clean();
    assert!(export.contains("\"path\":\"a/b/c\"") && !export.contains("\"f2\""), "{export}");
    run(&["catalog", "relocate", "--unmounted"], &catalog, &[&other, &root]).clean();
    // The name is free again, and numbers that were used before bring nothing back.
    assert!(forget(&[], &root).clean().starts_with("1 record of "));
    run(&["scrub", "--quiet"], &catalog, &[&other]).clean();
    run(&["catalog", "check"], &catalog, &[]).clean();
}
