//! `verisum catalog export --format parquet` and back in: what changed, kills, full disks and wrong files.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use common::recording::{run, tree};
use common::{VERISUM, command, start};
use verisum_testkit::{FsKind, Mount};

fn export(catalog: &Path, lake: &Path) -> common::Ended {
    run(&["catalog", "export", "--format", "parquet"], catalog, &[lake])
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_changed_goes_out_and_all_comes_back() {
    let (folder, root, catalog) = tree();
    let lake = folder.path().join("lake");
    run(&["scrub"], &catalog, &[&root]).clean();
    assert_eq!(export(&catalog, &lake).clean(), "300 new or changed, 0 gone, 0 as before\n");
    assert_eq!(export(&catalog, &lake).clean(), "0 new or changed, 0 gone, 300 as before\n");
    fs::write(root.join("new"), "new").unwrap();
    run(&["scrub", "--max-age", "90d"], &catalog, &[&root]).clean();
    assert_eq!(export(&catalog, &lake).clean(), "1 new or changed, 0 gone, 300 as before\n");
    let other = folder.path().join("other.db");
    let imported = run(&["catalog", "import"], &other, &[&lake]).clean();
    assert_eq!(imported, "301 recorded, 0 known already\n");
    let text = |catalog: &Path| {
        let text = run(&["catalog", "export"], catalog, &[]).clean();
        let mut lines: Vec<String> =
            text.lines().filter(|line| line.contains("\"file\"")).map(ToString::to_string).collect();
        lines.sort();
        lines
    };
    assert_eq!(text(&other), text(&catalog));
    assert_eq!(run(&["scrub", "--max-age", "90d"], &other, &[&root]).code, Some(0));
}

#[test]
fn an_import_that_fails_leaves_no_new_catalogue() {
    let (folder, root, catalog) = tree();
    let lake = folder.path().join("lake");
    run(&["scrub"], &catalog, &[&root]).clean();
    export(&catalog, &lake).clean();
    let part = files(&lake).into_iter().find(|path| path.extension().is_some_and(|end| end == "parquet"));
    fs::write(part.unwrap(), "broken").unwrap();
    let new = folder.path().join("new");
    fs::create_dir(&new).unwrap();
    let broken = folder.path().join("broken");
    fs::write(&broken, "{\"type\":").unwrap();
    for lists in [&[&*lake][..], &[&broken], &[&lake, &broken]] {
        assert_eq!(run(&["catalog", "import"], &new.join("catalog.db"), lists).code, Some(3));
        assert_eq!(files(&new), [] as [PathBuf; 0]);
    }
    // One that was there stays.
    let known = fs::read(&catalog).unwrap();
    assert_eq!(run(&["catalog", "import"], &catalog, &[&lake]).code, Some(3));
    assert_eq!(fs::read(&catalog).unwrap(), known);
    run(&["catalog", "forget"], &catalog, &[&root]).clean();
    assert_eq!(run(&["catalog", "import"], &catalog, &[&lake]).code, Some(3));
    assert!(catalog.exists());
}

#[test]
fn a_killed_export_leaves_no_half_part() {
    let (folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    for wait in 0..8 {
        let lake = folder.path().join(format!("lake{wait}"));
        let mut words = command(VERISUM);
        let mut child = start(
            words.args(["catalog", "export", "--format", "parquet", "--catalog"]).arg(&catalog).arg(&lake),
        );
        std::thread::sleep(std::time::Duration::from_millis(4 * wait));
        child.kill().unwrap();
        child.wait().unwrap();
        // Killed before or after: what is there is a part that can be read, and all is there after the next.
        let told = export(&catalog, &lake).clean();
        assert!(
            told == "300 new or changed, 0 gone, 0 as before\n"
                || told == "0 new or changed, 0 gone, 300 as before\n"
        );
        assert_eq!(export(&catalog, &lake).clean(), "0 new or changed, 0 gone, 300 as before\n");
        assert!(files(&lake).iter().all(|path| path.extension().is_some_and(|end| end == "parquet")));
    }
}

#[test]
fn a_full_disk_is_one_line_and_leaves_nothing_half() {
    let Some(mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    let (_folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    let lake = mount.path().join("lake");
    fs::create_dir(&lake).unwrap();
    // All room but some pages for the folders.
    let filler = mount.path().join("filler");
    let fill = || {
        let mut size = 16 << 20;
        let file = fs::File::create(&filler).unwrap();
        while rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).is_err() {
            size -= 4096;
        }
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size - 3 * 4096).ok();
        file.set_len(size - 3 * 4096).unwrap();
    };
    fill();
    let ended = export(&catalog, &lake);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.ends_with("No space left on device\n"), "{}", ended.stderr);
    assert!(files(&lake).is_empty());
    fs::remove_file(&filler).unwrap();
    assert_eq!(export(&catalog, &lake).clean(), "300 new or changed, 0 gone, 0 as before\n");
}

#[test]
fn what_is_no_lake_is_refused() {
    let (folder, root, catalog) = tree();
    let lake = folder.path().join("lake");
    run(&["scrub"], &catalog, &[&root]).clean();
    export(&catalog, &lake).clean();
    let part = files(&lake).remove(0);
    let whole = fs::read(&part).unwrap();
    fs::write(&part, &whole[..whole.len() / 2]).unwrap();
    let name = part.display();
    for ended in [export(&catalog, &lake), run(&["catalog", "import"], &catalog, &[&lake])] {
        assert_eq!(ended.code, Some(3));
        assert!(
            ended.stderr.starts_with(&format!("verisum: {name}: read: not a part of a lake: ")),
            "{}",
            ended.stderr
        );
    }
    let ended = export(&catalog, &root.join("f1"));
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
    let told = run(
        &["catalog", "export", "--format", "parquet", "--json"],
        &catalog,
        &[&folder.path().join("told")],
    );
    let told: serde_json::Value = serde_json::from_str(&told.clean()).unwrap();
    assert_eq!((&told["outcome"], &told["gone"]), (&"exported".into(), &0.into()), "{told}");
    let ended = run(&["catalog", "export", "--json"], &catalog, &[]);
    assert!(
        ended.code == Some(2) && ended.stderr.contains("--json: only for --format parquet"),
        "{}",
        ended.stderr
    );
    let ended = run(&["catalog", "export", "--format", "parquet"], &catalog, &[]);
    assert_eq!((ended.code, &ended.stderr[..]), (Some(2), "verisum: --format parquet: needs a directory\n"));
}
