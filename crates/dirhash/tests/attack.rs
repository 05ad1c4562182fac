//! Names that were made to collide, as debugfs hashes them.

use std::collections::HashSet;
use std::process::Command;

use verisum_dirhash::Hashing;
use verisum_dirhash::attack::collide;
use verisum_dirhash::namehash::{NAME_HASHES, NameHash, Seed};
use verisum_testkit::require_tool;

const SEEDS: [&str; 2] = ["00000000-0000-0000-0000-000000000000", "11223344-5566-7788-99aa-bbccddeeff00"];

/// The different values, hash and minor hash, that debugfs prints of the names.
fn values(debugfs: &std::path::Path, id: &str, seed: &str, names: &[Vec<u8>]) -> HashSet<Vec<u8>> {
    let version = NAME_HASHES.iter().position(|row| row.id == id).unwrap();
    let mut script = Vec::new();
    for name in names {
        script.extend(format!("dx_hash -h {version} -s {seed} ").bytes());
        script.extend(name);
        script.push(b'\n');
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    std::fs::write(&path, script).unwrap();
    let output = Command::new(debugfs).arg("-f").arg(path).output().unwrap();
    let printed: Vec<&[u8]> = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| line.starts_with(b"Hash of "))
        .map(|line| &line[line.windows(4).rposition(|word| word == b" is ").unwrap()..])
        .collect();
    assert_eq!(printed.len(), names.len(), "{}", String::from_utf8_lossy(&output.stdout));
    printed.into_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn forged_names_of_the_legacy_hash_collide() {
    let Some(debugfs) = require_tool("debugfs") else { return };
    for id in ["legacy", "legacy_unsigned"] {
        let hashing = Hashing { hash: NameHash::find(id).unwrap(), seed: Seed::ZERO };
        let mut names = collide(hashing, b"hello", 600, 0, &mut |_, _| ()).names;
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 600);
        names.push(b"hello".to_vec());
        assert_eq!(values(&debugfs, id, SEEDS[1], &names).len(), 1, "{id}");
    }
}

/// What a name lacks of a block is filled with its length: another name can have just that.
#[test]
fn padding_makes_names_collide_under_any_seed() {
    let Some(debugfs) = require_tool("debugfs") else { return };
    for (id, block) in [("half_md4", 32), ("tea", 16)] {
        let short = b"12345678".to_vec();
        let mut long = short.clone();
        long.resize(block, 8);
        for seed in SEEDS {
            let names = [short.clone(), long.clone()];
            assert_eq!(values(&debugfs, id, seed, &names).len(), 1, "{id} {seed}");
        }
    }
}
