//! Commands that read a catalogue see one moment of it, whatever scrubs write meanwhile.

use crate::common;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::scrubbing::{Tree, export, s, scrub};
use common::verisum;

#[test]
fn reading_beside_scrubs_is_consistent() {
    let tree = Tree::new();
    let name = |number: u64| tree.path(&format!("churn{number}"));
    (0..300).for_each(|number| fs::write(name(number), format!("content {number}")).unwrap());
    tree.scrub(&[]).clean();
    let (catalog, root) = (tree.catalog(), tree.root());
    let run = |words: &[&str], more: &[PathBuf]| {
        let words = words.iter().map(PathBuf::from).chain([s("--catalog"), catalog.clone()]);
        verisum(words.chain(more.iter().cloned()))
    };
    let (is_over, scrubs) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        let (is_over, scrubs) = (&is_over, &scrubs);
        threads.spawn(move || {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                for number in (round % 3..300).step_by(3) {
                    match (number + round) % 4 {
                        0 => drop(fs::remove_file(name(number))),
                        1 => drop(fs::rename(name(number), name(number + 1000 * (round % 5)))),
                        _ => fs::write(name(number), format!("content {number} of {round}")).unwrap(),
                    }
                }
            }
        });
        threads.spawn({
            let (catalog, root) = (catalog.clone(), root.clone());
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    // Files go and change while they are read.
                    let ended = scrub(&catalog, &root, &["--foreground", "--quiet"]);
                    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{:?} {}", ended.code, ended.stderr);
                    assert!(!ended.stderr.contains("damaged"), "{}", ended.stderr);
                    scrubs.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let mut rounds = 0;
        while rounds < 3 || scrubs.load(Ordering::Relaxed) < 3 {
            rounds += 1;
            let exported = export(&catalog);
            // An export that is not of one moment has more or fewer lines than it says: no catalogue takes it.
            let (file, copy) = (tree.folder.path().join("export"), tree.folder.path().join("copy.db"));
            fs::write(&file, &exported).unwrap();
            verisum([s("catalog"), s("import"), s("--catalog"), copy.clone(), file]).clean();
            assert_eq!(export(&copy), exported);
            fs::remove_file(copy).unwrap();
            assert_eq!(run(&["catalog", "check"], &[]).code, Some(0));
            let status = run(&["catalog", "status", "--json"], &[]);
            assert!(matches!(status.code, Some(0 | 1 | 3)) && status.stderr.is_empty(), "{}", status.stderr);
            let status: serde_json::Value = serde_json::from_str(status.out().trim()).unwrap();
            assert!(status["files"].as_u64() > Some(0), "{status}");
            for list in ["--missing", "--duplicates"] {
                let listed = run(&["catalog", "list", list], &[]);
                assert!(matches!(listed.code, Some(0 | 1 | 3)), "{:?} {}", listed.code, listed.stderr);
                assert_eq!(listed.stderr, "", "{list}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
