//! The iterator over the digests of trees.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use verisum_digest::Digest;
use verisum_files::{FileDigests, HashOptions, Limits, ResultOrder, hash_files};

/// A tree of files in some directories, with a link and an empty file, and the paths of its files in order.
fn tree(folder: &std::path::Path, count: usize) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for number in 0..count {
        let directory = folder.join(format!("d{}", number % 7));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("f{number:05}"));
        fs::write(&path, vec![number as u8; number * 37 % 9000]).unwrap();
        paths.push(path);
    }
    std::os::unix::fs::symlink("d0", folder.join("link")).unwrap();
    paths.sort();
    paths
}

fn ordered() -> HashOptions {
    let mut options = HashOptions::default();
    options.order = ResultOrder::ByName;
    options.threads = 3;
    options
}

#[test]
fn each_file_comes_once_with_its_digests_and_by_name_if_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let paths = tree(folder.path(), 500);
    let mut options = ordered();
    options.digests = ["sha256", "md5"].map(|name| Digest::find(name).unwrap()).to_vec();
    let found: Vec<FileDigests> =
        hash_files(vec![folder.path().into()], &options).unwrap().map(Result::unwrap).collect();
    assert_eq!(found.iter().map(|file| file.path.clone()).collect::<Vec<_>>(), paths);
    for file in &found {
        let content = fs::read(&file.path).unwrap();
        for (digest, value) in options.digests.iter().zip(&file.digests) {
            assert_eq!(digest.hash(&content).unwrap(), *value, "{}", file.path.display());
        }
        assert_eq!((file.length, file.stat.size, file.changed), (content.len() as u64, file.length, false));
    }
    let mut unordered: Vec<PathBuf> = hash_files(vec![folder.path().into()], &HashOptions::default())
        .unwrap()
        .map(|file| file.unwrap().path)
        .collect();
    unordered.sort();
    assert_eq!(unordered, paths);
}

#[test]
fn who_waits_for_a_result_can_look_up_now_and_then() {
    let folder = tempfile::tempdir().unwrap();
    let paths = tree(folder.path(), 100);
    for mut options in [ordered(), HashOptions::default()] {
        // Slow enough that some waits end before a result comes.
        options.limits = Some(Arc::new(Limits::new(2_000_000, 0)));
        let mut results = hash_files(vec![folder.path().into()], &options).unwrap();
        let (mut found, mut waits) = (Vec::new(), 0);
        loop {
            match results.next_within(Duration::from_micros(100)) {
                Poll::Ready(Some(file)) => found.push(file.unwrap().path),
                Poll::Ready(None) => break,
                Poll::Pending => waits += 1,
            }
        }
        found.sort();
        assert_eq!(found, paths);
        assert!(waits > 0);
        assert!(matches!(results.next_within(Duration::ZERO), Poll::Ready(None)));
    }
}

#[test]
fn what_cannot_be_read_is_an_error_among_the_results() {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path(), 20);
    let roots = vec![folder.path().join("d1"), folder.path().join("none"), folder.path().join("d2")];
    let results: Vec<_> = hash_files(roots, &ordered()).unwrap().collect();
    let errors: Vec<String> =
        results.iter().filter_map(|result| result.as_ref().err()).map(ToString::to_string).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("none: stat: No such file"), "{errors:?}");
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 6);
}

/// Far more files than results may wait: without backpressure they would all be hashed before the file goes.
#[test]
fn what_nobody_takes_is_not_hashed() {
    const COUNT: usize = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "x").unwrap();
    let mut results = hash_files(vec![path.clone(); COUNT], &ordered()).unwrap();
    assert!(results.by_ref().take(10).all(|result| result.is_ok()));
    std::thread::sleep(Duration::from_secs(2));
    fs::remove_file(&path).unwrap();
    let (hashed, failed): (Vec<_>, Vec<_>) = results.partition(|result| result.is_ok());
    assert!(hashed.len() < COUNT / 2, "{} were hashed", hashed.len());
    assert_eq!(10 + hashed.len() + failed.len(), COUNT);
}

#[test]
fn dropping_the_results_ends_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "x").unwrap();
    let mut results = hash_files(vec![path; 100_000], &ordered()).unwrap();
    assert!(results.next().unwrap().is_ok());
    // It returns: those who wait to send do not wait for ever.
    drop(results);
}
