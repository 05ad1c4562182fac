//! Every name hash against its verification code, the reference's vectors, and the tools of the file
//! systems that use it, on thousands of random names.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use verisum_digest::{Digest, MAX_DIGEST_LEN};
use verisum_dirhash::Level;
use verisum_dirhash::namehash::{NAME_HASHES, NameHash, NameValue, Seed};
use verisum_testkit::require_tool;

#[test]
fn verification_codes_hold() {
    let sha256 = Digest::find("sha256").unwrap();
    for row in NAME_HASHES {
        let mut results = Vec::new();
        for n in 0..256usize {
            let name: Vec<u8> = (0..n).map(|i| (7 * i + n) as u8).collect();
            let seed = match n % 2 {
                0 => Seed::ZERO,
                _ => Seed(std::array::from_fn(|i| (5 * i + n) as u8)),
            };
            let value = row.hash(&name, &seed);
            results.extend(value.hash.to_le_bytes());
            results.extend(value.minor.to_le_bytes());
        }
        let mut digest = [0; MAX_DIGEST_LEN];
        let mut stream = sha256.stream().unwrap();
        stream.update(&results).unwrap();
        stream.finish(&mut digest[..32]).unwrap();
        let code = u32::from_be_bytes(digest[..4].try_into().unwrap());
        assert_eq!(format!("{code:08x}"), format!("{:08x}", row.verification), "{}", row.id);
    }
}

#[test]
fn the_references_vectors_hold() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/dirhash.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let rows = file["hashes"].as_array().unwrap();
    assert_eq!(rows.len(), NAME_HASHES.len());
    for (stored, row) in rows.iter().zip(NAME_HASHES) {
        assert_eq!(stored["hash"], row.id);
        assert_eq!(stored["bits"], row.bits);
        assert_eq!(stored["seed_bits"], row.seed_bits);
        assert_eq!(stored["verification_code"], format!("{:08x}", row.verification));
    }
    let vectors = file["vectors"].as_array().unwrap();
    assert!(vectors.len() > 2000);
    for vector in vectors {
        let row = NameHash::find(vector["hash"].as_str().unwrap()).unwrap();
        let text = |field: &str| vector[field].as_str().unwrap();
        let number = |field| u64::from_str_radix(text(field), 16).unwrap();
        let seed = Seed::parse(text("seed")).unwrap();
        let found = row.hash(&unhex(text("name")), &seed);
        assert_eq!(found.hash, number("value"), "{vector}");
        assert_eq!(u64::from(found.minor), number("minor"), "{vector}");
    }
}

/// Every length from 0 to 255, all bytes, names that end where their memory does.
#[test]
fn batches_are_as_single_names_at_every_level() {
    let mut state = 1u32;
    let mut bytes = |length: usize| -> Box<[u8]> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    };
    let of_one_length: Vec<Vec<Box<[u8]>>> =
        (0..=255).map(|length| (0..19).map(|_| bytes(length)).collect()).collect();
    let mut batches = of_one_length;
    // Mixed lengths, in one batch longer than what is looked at together; short batches; one long name.
    batches.push((0..3000usize).map(|n| bytes(n * 7 % 256)).collect());
    batches.push((0..700usize).map(|n| bytes(n % 20)).collect());
    batches.extend((0..18usize).map(|count| (0..count).map(|n| bytes(n * 5)).collect()));
    batches.push([3, 70_000, 5, 7, 0].map(&mut bytes).into());
    batches.push([3, 65_535, 5, 7, 0].map(&mut bytes).into());
    let seeds = [Seed::ZERO, Seed(std::array::from_fn(|i| 0x11 * i as u8))];
    for row in NAME_HASHES {
        for (batch, names) in batches.iter().enumerate() {
            let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
            let seed = &seeds[batch % 2];
            let expected: Vec<NameValue> = names.iter().map(|name| row.hash(name, seed)).collect();
            for &level in Level::ALL {
                let mut values = vec![NameValue { hash: 7, minor: 7 }; names.len()];
                row.hash_batch_at(level, &names, seed, &mut values);
                assert_eq!(values, expected, "{} {level:?} batch {batch}", row.id);
            }
            let mut keys = vec![7; names.len()];
            row.index_keys(&names, seed, &mut keys);
            assert!(keys.iter().zip(&expected).all(|(key, value)| *key == row.key_of(value.hash)));
        }
    }
}

/// Names that debugfs's command line can take: no NUL, slash, quote or white space; else any bytes.
fn names(count: usize) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    let words: Vec<Vec<u8>> = ["größe", "日本語", "Ω", "naïve", "🙂"].map(|w| w.as_bytes().to_vec()).into();
    let mut names: Vec<Vec<u8>> = Vec::new();
    for index in 0..count {
        let length = if index < 255 { index + 1 } else { next() as usize % 255 + 1 };
        let mut name = Vec::new();
        while name.len() < length {
            match index % 3 {
                0 => name.push(b'a' + (next() % 26) as u8),
                1 => name.extend(&words[next() as usize % words.len()]),
                // Invalid UTF-8 among the rest.
                _ => name.push((next() % 255 + 1) as u8),
            }
        }
        name.truncate(length);
        for byte in &mut name {
            if matches!(*byte, 1..=32 | b'/' | b'"' | b'\\' | b'\'' | b'-' | b'#' | 0x7f) {
                *byte = b'_';
            }
        }
        names.push(name);
    }
    names
}

/// The third seed's first half is zero and its second is not: tea must not take that for no seed.
const SEEDS: [&str; 3] = [
    "00000000-0000-0000-0000-000000000000",
    "11223344-5566-7788-99aa-bbccddeeff00",
    "00000000-0000-0000-8000-000000000001",
];

#[test]
fn ext4_is_as_debugfs_prints_it() {
    let Some(debugfs) = require_tool("debugfs") else { return };
    let names = names(3000);
    for (version, row) in NAME_HASHES[..6].iter().enumerate() {
        for seed in SEEDS {
            let mut script = Vec::new();
            for name in &names {
                // A number: an unknown name of a hash silently is the legacy one.
                script.extend(format!("dx_hash -h {version} -s {seed} ").bytes());
                script.extend(name);
                script.push(b'\n');
            }
            let out = fed(Command::new(&debugfs).args(["-f", "-"]), &script);
            // It echoes each command.
            let found: Vec<&[u8]> =
                out.split(|&b| b == b'\n').filter(|line| line.starts_with(b"Hash of ")).collect();
            assert_eq!(found.len(), names.len());
            let seed = Seed::parse(seed).unwrap();
            for (name, line) in names.iter().zip(found) {
                let NameValue { hash, minor } = row.hash(name, &seed);
                let mut wanted = [b"Hash of ", name.as_slice()].concat();
                wanted.extend(format!(" is 0x{hash:x} (minor 0x{minor:x})").bytes());
                assert_eq!(line, wanted, "{}: {}", row.id, String::from_utf8_lossy(line));
            }
        }
    }
}

#[test]
fn xfs_is_as_xfs_db_prints_it() {
    let Some(xfs_db) = require_tool("xfs_db") else { return };
    let Some(mkfs) = require_tool("mkfs.xfs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(300 << 20).unwrap();
    assert!(Command::new(mkfs).args(["-q", "-f"]).arg(&image).status().unwrap().success());
    let names = names(2000);
    let mut out = String::new();
    // As arguments: its own command line loses bytes that are not UTF-8.
    for names in names.chunks(200) {
        let mut command = Command::new(&xfs_db);
        for name in names {
            command.arg("-c").arg(OsStr::from_bytes(&[b"hash ", name.as_slice()].concat()));
        }
        let printed = command.arg("-r").arg(&image).output().unwrap().stdout;
        out.push_str(&String::from_utf8(printed).unwrap());
    }
    let row = NameHash::find("xfs").unwrap();
    let found: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("0x")).collect();
    assert_eq!(found.len(), names.len(), "{}", &out[..out.len().min(500)]);
    for (name, found) in names.iter().zip(found) {
        let wanted = row.hash(name, &Seed::ZERO).hash;
        assert_eq!(u64::from_str_radix(found, 16).unwrap(), wanted, "{:?}", String::from_utf8_lossy(name));
    }
}

#[test]
fn btrfs_is_as_its_tree_has_it() {
    let Some(mkfs) = require_tool("mkfs.btrfs") else { return };
    let Some(btrfs) = require_tool("btrfs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let mut wanted: Vec<u64> = Vec::new();
    let row = NameHash::find("btrfs").unwrap();
    for name in names(2000) {
        let path = tree.join(OsStr::from_bytes(&name));
        if !path.exists() {
            std::fs::write(path, "").unwrap();
            wanted.push(row.hash(&name, &Seed::ZERO).hash);
        }
    }
    let image = folder.path().join("image");
    let made = Command::new(mkfs)
        .args(["-q", "-f", "--byte-count", "256M", "--rootdir"])
        .args([&tree, &image])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let out =
        Command::new(btrfs).args(["inspect-internal", "dump-tree", "-t", "5"]).arg(&image).output().unwrap();
    let out = String::from_utf8_lossy(&out.stdout);
    let mut found: Vec<u64> = out
        .lines()
        .filter(|line| line.contains("item ") && line.contains("key ("))
        .filter_map(|line| line.split("DIR_ITEM ").nth(1)?.split(')').next()?.parse().ok())
        .collect();
    found.sort_unstable();
    found.dedup();
    wanted.sort_unstable();
    wanted.dedup();
    assert!(wanted.len() > 1500);
    assert_eq!(found, wanted);
}

/// Runs a program with this on its standard input; returns its standard output.
fn fed(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(input).unwrap());
        child.wait_with_output().unwrap().stdout
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
