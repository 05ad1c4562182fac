//! Files whose digest is made of parts have it, whatever happens while several threads are at one of them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use verisum_digest::{Digest, Output};
use verisum_files::{
    Content, FileError, Job, Kind, Operation, Plan, Walk, WalkOptions, hash, hash_in_page_cache,
};
use verisum_testkit::{Run, fault, paint};

/// Those with long and with short parts, and with one part after the other.
const DIGESTS: [&str; 8] =
    ["blake3", "crc32", "fsverity", "glacier", "dropbox", "s3-etag:1M", "s3-sha256:300000", "sha256"];

/// Files may also be hashed in the page cache, if they are there, once reading them was timed.
fn plan(name: &str, threads: usize) -> Plan {
    hash_in_page_cache();
    Plan::new(vec![vec![Digest::find(name).unwrap()]], threads)
}

fn results(plan: &Plan, folder: &Path) -> BTreeMap<PathBuf, Result<Content, FileError>> {
    let results = Mutex::new(BTreeMap::new());
    let files = Walk::new(vec![folder.into()], WalkOptions::default()).map(Result::unwrap);
    let files = files.filter(|entry| entry.kind() == Kind::File);
    let mut jobs = files.map(|entry| Job { entry, set: 0, token: () });
    hash(plan, &mut jobs, &|hashed| {
        let twice = results.lock().unwrap().insert(hashed.entry.path(), hashed.result);
        assert!(twice.is_none());
        ControlFlow::Continue(())
    });
    results.into_inner().unwrap()
}

fn digest_of(plan: &Plan, bytes: &[u8]) -> Vec<Output> {
    vec![plan.sets[0][0].hash(bytes).unwrap()]
}

#[test]
fn every_length_on_any_number_of_threads() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    for length in [65_537, MIB - 1, MIB, MIB + 1, 3 * MIB + 4097, 4 * MIB, 17 * MIB + 5, 40 * MIB - 1] {
        paint(&folder.path().join(length.to_string()), &[Run::data(length)]).unwrap();
    }
    paint(&folder.path().join("holes"), &[Run::data(MIB), Run::hole(5 * MIB), Run::data(3)]).unwrap();
    for name in DIGESTS {
        for threads in [1, 2, 5] {
            let plan = plan(name, threads);
            let found = results(&plan, folder.path());
            assert_eq!(found.len(), 9);
            for (path, content) in &found {
                let (content, bytes) = (content.as_ref().unwrap(), fs::read(path).unwrap());
                assert_eq!(content.digests, digest_of(&plan, &bytes), "{name} of {}", path.display());
                assert_eq!(content.length, bytes.len() as u64);
            }
            let total = found.values().map(|content| content.as_ref().unwrap().length).sum::<u64>();
            assert_eq!((plan.progress.files(), plan.progress.bytes()), (9, total));
        }
    }
}

/// Pieces as long as one of them collects, and shorter ones.
#[test]
fn several_digests_in_one_read() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    paint(&folder.path().join("holes"), &[Run::data(40 * MIB), Run::hole(33 * MIB), Run::data(3)]).unwrap();
    for length in [3 * MIB + 5, 64 * MIB, 101 * MIB + 4097] {
        paint(&folder.path().join(length.to_string()), &[Run::data(length)]).unwrap();
    }
    let digests = ["s3-etag:1M", "glacier", "fsverity", "sha256"].map(|name| Digest::find(name).unwrap());
    let alone = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        digests.each_ref().map(|digest| digest.hash(&bytes).unwrap()).to_vec()
    };
    let plan = |threads| Plan::new(vec![digests.to_vec()], threads);
    let right: BTreeMap<PathBuf, Vec<Output>> =
        results(&plan(1), folder.path()).into_keys().map(|path| (path.clone(), alone(&path))).collect();
    assert_eq!(right.len(), 4);
    for threads in [1, 2, 5] {
        for (path, content) in results(&plan(threads), folder.path()) {
            assert_eq!(content.unwrap().digests, right[&path], "{} on {threads}", path.display());
        }
    }
}

#[test]
fn a_file_that_grows_or_shrinks_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for name in ["blake3", "s3-etag:1M"] {
        for after in [60 << 20, 20 << 20, 5 << 20, 0] {
            paint(&path, &[Run::data(40 << 20)]).unwrap();
            let mut whole = fs::read(&path).unwrap();
            let plan = plan(name, 2);
            let mut found = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while plan.progress.bytes() == 0 {
                        std::thread::yield_now();
                    }
                    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(after).unwrap();
                });
                results(&plan, folder.path())
            });
            let content = found.remove(&path).unwrap().unwrap();
            // Unless the change was still going on, which the states tell.
            if content.before.is_same_state(&content.after) {
                whole.resize(content.length as usize, 0);
                assert_eq!(content.digests, digest_of(&plan, &whole), "{name}, {after}");
            }
        }
    }
}

#[test]
fn a_stop_in_the_middle_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..4 {
        paint(&folder.path().join(at.to_string()), &[Run::data(40 << 20)]).unwrap();
    }
    for name in ["blake3", "dropbox"] {
        let plan = plan(name, 3);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                while plan.progress.bytes() == 0 {
                    std::thread::yield_now();
                }
                plan.stop.request();
            });
            results(&plan, folder.path())
        });
        // A job that nobody had taken is not reported.
        assert!((1..=4).contains(&found.len()), "{name}: {}", found.len());
        for (path, content) in found {
            match content {
                Ok(content) => {
                    assert_eq!(content.digests, digest_of(&plan, &fs::read(path).unwrap()));
                }
                Err(error) => assert!(matches!(error, FileError::Stopped { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn an_error_of_the_storage_is_that_of_the_first_bad_block() {
    let Some(bad) = fault::btrfs_bad_file() else { return };
    for name in DIGESTS {
        for threads in [1, 2, 4] {
            let mut found = results(&plan(name, threads), &bad.mount.path());
            match found.remove(&bad.path).unwrap() {
                Err(FileError::Io { operation: Operation::Read, offset, source, .. }) => {
                    assert_eq!(offset, Some(bad.bad_offset), "{name}");
                    assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
