//! Parts of a lake: no bytes make a reader fail otherwise than with an error, and rows come in the order of paths that
//! files can have.

#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use verisum_lake::Part;

// The Parquet library panics at some damaged bytes, which is caught.
fuzz_target!(init: verisum_files::hide_caught_panics(), |data: &[u8]| {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("x.parquet");
    fs::write(&path, data).expect("there is room");
    let Ok(part) = Part::open(&path) else { return };
    let mut last = None;
    for row in part.map_while(Result::ok) {
        assert!(!row.path.contains(&0));
        assert!(row.path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b"..")));
        assert!(last.as_ref().is_none_or(|last| *last < row.path));
        last = Some(row.path);
    }
});
