//! `verisum scrub` and its catalogue: in use, not to be written, full, damaged; and nothing else is written over it.

use crate::common;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};

use common::scrubbing::{Tree, check, export, s, scrub};
use common::{VERISUM, change_and_restore_time, command, start, verisum, wait_until};
use rustix::process::Signal;
use verisum_testkit::{FsKind, Mount, require_tool};

#[test]
fn nothing_is_written_over_the_catalogue() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let catalog = tree.catalog();
    let before = export(&catalog);
    for end in ["", "-wal", "-shm", ".lock"] {
        let own = PathBuf::from(format!("{}{end}", catalog.display()));
        let exported =
            verisum([s("catalog"), s("export"), s("--catalog"), catalog.clone(), s("-o"), own.clone()]);
        let backup = verisum([s("catalog"), s("backup"), s("--catalog"), catalog.clone(), own.clone()]);
        let figures = tree.scrub(&["-q", &format!("--prometheus={}", own.display())]);
        for ended in [exported, backup, figures] {
            assert_eq!(ended.code, Some(3), "{}", ended.stderr);
            assert!(ended.stderr.contains("write: it belongs to the catalogue"), "{}", ended.stderr);
        }
    }
    assert_eq!(export(&catalog), before);
    let file = tree.folder.path().join("export");
    verisum([s("catalog"), s("export"), s("--catalog"), catalog.clone(), s("-o"), file.clone()]).clean();
    assert_eq!(fs::read_to_string(file).unwrap(), before);
    check(&catalog);
    // An emptied one is not sound, and not filled again.
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", catalog.display()));
    }
    File::create(&catalog).unwrap();
    let ended = verisum([s("catalog"), s("check"), s("--catalog"), catalog.clone()]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(tree.scrub(&[]).code, Some(3));
    assert_eq!(fs::metadata(&catalog).unwrap().len(), 0);
}

#[test]
fn a_catalogue_that_cannot_be_written_is_refused() {
    if verisum_testkit::require_root().is_none() {
        return;
    }
    let Some(mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    let tree = Tree::new();
    let catalog = mount.path().join("c.db");
    scrub(&catalog, &tree.root(), &[]).clean();
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(mount.path()).status();
    assert!(status.unwrap().success());
    let ended = scrub(&catalog, &tree.root(), &[]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("c.db"), "{}", ended.stderr);
}

#[test]
fn two_runs_never_overlap() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let lock = File::open(tree.folder.path().join("c.db.lock")).unwrap();
    lock.try_lock().unwrap();
    let name = tree.catalog().canonicalize().unwrap();
    let message = format!("verisum: {}: lock: another run uses this catalogue", name.display());
    tree.scrub(&[]).failed(3, &message);
}

#[test]
fn a_catalogue_of_two_names_is_not_written() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let other = tree.folder.path().join("other.db");
    fs::hard_link(tree.catalog(), &other).unwrap();
    let ended = scrub(&other, &tree.root(), &[]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("other.db: open: it has another name (a hard link)"), "{}", ended.stderr);
    check(&other);
    fs::remove_file(other).unwrap();
    tree.scrub(&[]).clean();
}

/// A scrub of some seconds that has recorded something.
fn begun(tree: &Tree) -> Child {
    for number in 0..400 {
        fs::write(tree.path(&format!("below/{number}")), format!("content {number}")).unwrap();
    }
    let mut command = command(VERISUM);
    command.args(["scrub", "-q", "--limit-iops", "100", "--catalog"]).arg(tree.catalog()).arg(tree.root());
    let child = start(&mut command);
    wait_until("it has committed", || export(&tree.catalog()).lines().count() > 50);
    child
}

#[test]
fn a_catalogue_that_goes_during_a_run_is_an_error() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let child = begun(&tree);
    fs::rename(tree.catalog(), tree.folder.path().join("renamed.db")).unwrap();
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("c.db: write: it is not the file any more that was opened"), "{stderr}");
    assert!(stderr.contains("c.db-wal and -shm are left over"), "{stderr}");
    // What is left would be worked into a new one.
    let ended = tree.scrub(&["-q"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("c.db-wal: open: it is the log of a catalogue that is gone"),
        "{}",
        ended.stderr
    );
    assert!(!tree.catalog().exists());
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", tree.catalog().display()));
    }
    tree.scrub(&["-q"]).clean();
    check(&tree.catalog());
}

#[test]
fn a_backup_is_restored_without_the_log_of_a_killed_run() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let (catalog, copy) = (tree.catalog(), tree.folder.path().join("copy.db"));
    verisum([s("catalog"), s("backup"), s("--catalog"), catalog.clone(), copy.clone()]).clean();
    let recorded = export(&copy);
    let restore = || verisum([s("catalog"), s("restore"), s("--catalog"), catalog.clone(), copy.clone()]);
    let mut child = begun(&tree);
    // It does not end meanwhile.
    common::signal(&child, Signal::STOP);
    let ended = restore();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("another run uses this catalogue"), "{}", ended.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
    restore().clean();
    assert_eq!(export(&catalog), recorded);
    check(&catalog);
    tree.scrub(&["-q"]).clean();
    // A bad backup takes nobody's place.
    fs::write(&copy, &fs::read(&copy).unwrap()[..8192]).unwrap();
    let before = export(&catalog);
    assert_eq!(restore().code, Some(1));
    assert_eq!(export(&catalog), before);
}

#[test]
fn a_full_disk_under_the_catalogue_stops_the_run_and_harms_nothing() {
    let Some(mount) = Mount::new(FsKind::Tmpfs, 1 << 20) else { return };
    let tree = Tree::new();
    for number in 0..20_000 {
        fs::write(tree.path(&format!("below/a-file-with-some-name-{number}")), "x").unwrap();
    }
    let catalog = mount.path().join("c.db");
    let ended = scrub(&catalog, &tree.root(), &[]);
    assert_eq!(ended.code, Some(3), "{}{}", ended.out(), ended.stderr);
    assert!(ended.stderr.contains("no space left on device"), "{}", ended.stderr);
    check(&catalog);
}

#[test]
fn damage_to_the_catalogue_is_said_and_never_a_panic() {
    let tree = Tree::new();
    for number in 0..300 {
        fs::write(tree.path(&format!("below/{number}")), "x").unwrap();
    }
    tree.scrub(&[]).clean();
    let good = fs::read(tree.catalog()).unwrap();
    let catalog = tree.folder.path().join("bad.db");
    let run = |bytes: &[u8]| {
        fs::write(&catalog, bytes).unwrap();
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(tree.folder.path().join(format!("bad.db{end}")));
        }
        let ended = scrub(&catalog, &tree.root(), &["--quiet"]);
        assert!(matches!(ended.code, Some(0 | 1 | 3)), "{:?} {}", ended.code, ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        ended
    };
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut bad = good.clone();
        bad[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0xa5);
        run(&bad);
    }
    let mut bad = good.clone();
    bad[..16].fill(0);
    let ended = run(&bad);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("bad.db: open: not a catalogue"), "{}", ended.stderr);
    let ended = run(&good[..good.len() / 2]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("damaged"), "{}", ended.stderr);
    let ended = verisum([s("catalog"), s("check"), s("--catalog"), catalog]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
}

/// Damages the catalogue that it is told of in a way of this name.
const DAMAGE: &str = r#"
import os, sqlite3, sys
path, kind = sys.argv[1:]
if kind == "truncated":
    os.truncate(path, os.path.getsize(path) // 2)
    sys.exit()
catalog = sqlite3.connect(path)
schema = "UPDATE sqlite_schema SET sql = ? WHERE name = 'file_in_trouble'"
if kind == "lost record":
    catalog.execute("DELETE FROM file WHERE name = x'6631'")
elif kind == "lost entries of an index":
    sql, = catalog.execute("SELECT sql FROM sqlite_schema WHERE name = 'file_in_trouble'").fetchone()
    for text in [sql.replace("state <> 0", "state > 99"), sql]:
        catalog.execute("PRAGMA writable_schema = ON")
        catalog.execute(schema, [text])
        catalog.commit()
        catalog.close()
        catalog = sqlite3.connect(path)
        if text != sql:
            catalog.execute("REINDEX file_in_trouble")
            catalog.commit()
else:
    size, = catalog.execute("PRAGMA page_size").fetchone()
    page, = catalog.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", [kind]).fetchone()
    catalog.close()
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x55" * size)
    sys.exit()
catalog.commit()
catalog.close()
"#;

#[test]
fn a_damaged_catalogue_tells_nothing_of_files() {
    let Some(python) = require_tool("python3") else { return };
    let tree = Tree::new();
    let figures = tree.folder.path().join("figures");
    let prometheus = format!("--prometheus={}", figures.display());
    tree.scrub(&[]).clean();
    change_and_restore_time(&tree.path("f4"), "CONTENT 4");
    assert_eq!(tree.scrub(&[&prometheus]).code, Some(1));
    let (catalog, sound) = (tree.catalog().canonicalize().unwrap(), tree.folder.path().join("sound.db"));
    fs::copy(&catalog, &sound).unwrap();
    let (name, root) = (catalog.display(), tree.root());
    let pages = ["finding", "directory_by_name", "file", "root", "run"];
    for kind in ["truncated", "lost record", "lost entries of an index"].iter().chain(&pages) {
        fs::copy(&sound, &catalog).unwrap();
        let damaged = Command::new(&python).args(["-c", DAMAGE]).arg(&catalog).arg(kind).status();
        assert!(damaged.unwrap().success(), "{kind}");
        let before = fs::read(&catalog).unwrap();
        for style in [&["-v", &prometheus][..], &["--json"], &["--repair"]] {
            let ended = tree.scrub(style);
            let said = format!("{kind}: {}{}", ended.out(), ended.stderr);
            assert_eq!((ended.code, ended.out(), ended.stderr.lines().count()), (Some(3), "", 1), "{said}");
            assert!(ended.stderr.starts_with(&format!("verisum: {name}: ")), "{said}");
            assert!(ended.stderr.contains("damaged") && ended.stderr.contains("catalog restore"), "{said}");
        }
        let nagios = tree.scrub(&["--nagios"]);
        assert_eq!((nagios.code, nagios.out().lines().count()), (Some(3), 1), "{}", nagios.out());
        assert!(nagios.out().starts_with(&format!("VERISUM UNKNOWN - {name}: ")), "{}", nagios.out());
        assert!(before == fs::read(&catalog).unwrap(), "{kind}");
        let told = fs::read_to_string(&figures).unwrap();
        let failure = format!("verisum_scrub_failure{{root=\"{}\",reason=\"catalog\"}} 1\n", root.display());
        assert!(told.contains("\nverisum_scrub_up 0\n") && told.contains(&failure), "{kind}: {told}");
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{name}{end}"));
        }
    }
}
