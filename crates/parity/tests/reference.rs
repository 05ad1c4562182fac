//! The slow reader in Python, which knows nothing but docs/parity.md, recovers what this crate protected.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Tree, flip};
use verisum_testkit::require_python;

#[test]
fn the_reader_in_python_recovers_lost_files() {
    let Some(python) = require_python() else { return };
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reference/parity.py");
    let mut random = fastrand::Rng::with_seed(11);
    // One parity block and more, in one set and in several.
    for (redundancy, set_bytes) in [(1_000, None), (300_000, None), (80_000, Some(48 << 10))] {
        let tree = Tree::random(&mut random, 9, 40_000);
        let longest = |content: &common::Content| {
            content.iter().max_by_key(|(_, bytes)| bytes.len()).map(|(path, _)| path.clone()).unwrap()
        };
        let path = longest(&tree.content);
        tree.create(redundancy, set_bytes);
        let sets = tree.sets();
        flip(&tree.path().join(&path), 5_000);
        // A head, and where there are several parity blocks one of them.
        flip(&sets[0], 40);
        if redundancy == 300_000 {
            let head = fs::read(&sets[0]).unwrap();
            let start = u64::from_le_bytes(head[72..80].try_into().unwrap());
            flip(&sets[0], start + 9);
            let other = tree.content.keys().find(|other| **other != path).unwrap();
            fs::remove_file(tree.path().join(other)).unwrap();
        }
        let output = tree.path().join("recovered");
        let place = tree.path().join(verisum_parity::USUAL_PLACE);
        let ended = Command::new(&python)
            .arg(&reader)
            .args([place.as_path(), tree.path(), &path, &output])
            .output()
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        assert!(fs::read(&output).unwrap() == tree.content[&path], "{redundancy} {set_bytes:?}");
    }
}
