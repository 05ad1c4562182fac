//! A scrub that is killed at any moment: the catalogue stays sound, and the next run goes on.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{VERISUM, command, start, verisum};

/// How often it is killed; `TEST_KILLS` sets another number.
const KILLS: u32 = 60;

const FILES: u32 = 400;

#[test]
fn runs_that_are_killed_add_up_to_one_that_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    for number in 0..FILES {
        let parent = tree.join(format!("d{}", number % 7));
        fs::create_dir_all(&parent).unwrap();
        fs::write(parent.join(number.to_string()), vec![number as u8; 100_000 + number as usize]).unwrap();
    }
    let killed = folder.path().join("killed.db");
    let kills = std::env::var("TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut random = 12345_u32;
    for round in 0..kills {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Something happens to the tree between the runs.
        let path = tree.join(format!("d{}", round % 7)).join(format!("later{round}"));
        fs::write(&path, vec![round as u8; 5000]).unwrap();
        if round % 3 == 0 {
            fs::rename(&path, tree.join(format!("moved{round}"))).unwrap();
        }
        if round % 5 == 0 {
            let _ = fs::remove_file(tree.join(format!("d{}", round % 7)).join(round.to_string()));
        }
        let mut child = start(command(VERISUM).args(["scrub", "-t2", "--catalog"]).arg(&killed).arg(&tree));
        std::thread::sleep(Duration::from_micros(u64::from(random >> 15)));
        child.kill().unwrap();
        child.wait().unwrap();
        if killed.exists() {
            let check =
                verisum([PathBuf::from("catalog"), "check".into(), "--catalog".into(), killed.clone()]);
            assert_eq!(check.code, Some(0), "round {round}: {}", check.stderr);
        }
    }
    let scrub = |catalog: &Path| {
        let ended =
            verisum([PathBuf::from("scrub"), "--catalog".into(), catalog.to_path_buf(), tree.clone()]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    };
    scrub(&killed);
    // Files that are gone have a record only where they were seen.
    verisum([PathBuf::from("accept"), "--catalog".into(), killed.clone(), tree.clone()]);
    let whole = folder.path().join("whole.db");
    scrub(&whole);
    assert_eq!(records(&killed), records(&whole));
}

/// What is recorded of each file, without when.
fn records(catalog: &Path) -> Vec<String> {
    let export = [PathBuf::from("catalog"), "export".into(), "--catalog".into(), catalog.to_path_buf()];
    let export = verisum(export).clean();
    let mut records: Vec<String> = export
        .lines()
        .map(|line| {
            let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
            for time in ["first_seen", "last_changed", "last_verified"] {
                record.as_object_mut().unwrap().remove(time);
            }
            record.to_string()
        })
        .collect();
    records.sort();
    records
}
