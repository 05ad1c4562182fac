//! Lists of checksums as records of files.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use verisum_files::NamedDigest;
use verisum_files::check::{ListFile, UselessLine, listed_files};
use verisum_files::store::manifest::{BlockHashes, ListOptions, Listed, ReadError, Skipped};

use super::catalog::COPIES;
use super::{ExpectedContent, RepairError};

/// What a list records of files.
#[derive(Debug)]
#[non_exhaustive]
pub struct ListRecords {
    /// Of each file, the longest of the digests that lines have.
    pub contents: Vec<ExpectedContent>,
    /// What bare numbers are taken for, where that is not certain.
    pub named: Option<NamedDigest>,
    /// What of the list was skipped.
    pub skipped: Skipped,
}

/// What a list records of the files below one of these trees, by their paths below it. `useless` is told of the lines
/// that are of no use.
///
/// # Errors
/// The list cannot be read.
pub fn recorded_in(
    list: &Path,
    algorithm: Option<&str>,
    trees: &[PathBuf],
    useless: &mut dyn FnMut(UselessLine),
) -> Result<ListRecords, RepairError> {
    let failed = |operation| {
        move |error| {
            let (operation, source) = match error {
                ReadError::Io(source) => (operation, source),
                error => ("read", io::Error::other(error.to_string())),
            };
            RepairError::List { path: list.into(), operation, source }
        }
    };
    let mut options = ListOptions::default();
    options.algorithm = algorithm.map(|name| name.to_string().into());
    options.block_hashes = BlockHashes::Tagged;
    let base = trees.first().map_or(Path::new(""), PathBuf::as_path);
    // A list of this name is no standard input.
    let opened = ListFile::new(Path::new(".").join(list).as_os_str(), &options, base);
    let mut reader = opened.open(|| Err(io::ErrorKind::NotFound.into())).map_err(failed("open"))?;
    let named: Arc<Path> = list.into();
    let below = |listed: &Listed| below(listed, trees);
    let files = listed_files(&mut reader, &below, |_| true, useless).map_err(failed("read"))?;
    let mut contents: Vec<ExpectedContent> = Vec::new();
    for (below, file) in files {
        match file.contradicted {
            Some(number) => {
                useless(UselessLine { number, why: "another line has another digest of it".to_string() });
            }
            None => contents.push(ExpectedContent {
                below,
                digest: file.digest,
                value: file.value,
                is_unwritten: false,
                list: Some(named.clone()),
                copies: None,
            }),
        }
    }
    find_copies(&mut contents);
    Ok(ListRecords { contents, named: opened.named, skipped: reader.skipped().clone() })
}

/// Notes the files that have the same content.
fn find_copies(contents: &mut [ExpectedContent]) {
    let content = |one: &ExpectedContent| (one.digest.name().to_string(), one.value.as_bytes().to_vec());
    contents.sort_by_cached_key(content);
    for group in contents.chunk_by_mut(|one, other| content(one) == content(other)) {
        if group.len() > 1 {
            let first: Arc<[PathBuf]> = group.iter().take(COPIES).map(|one| one.below.clone()).collect();
            group.iter_mut().for_each(|one| one.copies = Some(first.clone()));
        }
    }
    contents.sort_by(|one, other| one.below.cmp(&other.below));
}

/// The path of a listed file below a tree; why it is of no use.
fn below(listed: &Listed, trees: &[PathBuf]) -> Result<PathBuf, String> {
    let name = listed.path(|name| trees.iter().any(|tree| tree.join(name).symlink_metadata().is_ok()));
    let below = match name.is_absolute() {
        true => trees.iter().find_map(|tree| name.strip_prefix(tree).ok()),
        false => Some(name.as_path()),
    };
    let below = below.filter(|below| below.as_os_str() != OsStr::new(""));
    let below = below.filter(|below| below.components().all(|step| matches!(step, Component::Normal(_))));
    below.map(Path::to_path_buf).ok_or_else(|| "the file is outside the directory".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_digest_of_a_file_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        let (short, long) =
            (format!("CRC32 (a) = {}\n", "0".repeat(8)), format!("SHA256 (a) = {}\n", "1".repeat(64)));
        for text in [format!("{short}{long}"), format!("{long}{short}")] {
            std::fs::write(&list, text).unwrap();
            let trees = [folder.path().to_path_buf()];
            let found = recorded_in(&list, None, &trees, &mut |line| panic!("{line:?}")).unwrap().contents;
            assert_eq!(found.iter().map(|content| content.digest.name()).collect::<Vec<_>>(), ["sha256"]);
        }
    }

    #[test]
    fn a_digest_of_parts_is_one_of_the_listed_length() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        for (parts, count) in [(3, 1), (99, 0)] {
            let etag = format!("{}-{parts}", "0".repeat(32));
            std::fs::write(&list, format!("Key,Size,s3-etag:8M\na,20971520,{etag}\n")).unwrap();
            let mut useless = Vec::new();
            let trees = [folder.path().to_path_buf()];
            let found =
                recorded_in(&list, None, &trees, &mut |line| useless.push(line.why)).unwrap().contents;
            assert_eq!((found.len(), useless.len()), (count, 1 - count), "{useless:?}");
            assert!(useless.iter().all(|why| why.ends_with(" 3 parts, its digest one of 99")), "{useless:?}");
        }
    }

    #[test]
    fn names_of_a_bag_are_read_as_bags_write_them() {
        let bag = tempfile::tempdir().unwrap();
        let list = bag.path().join("manifest-md5.txt");
        std::fs::write(&list, format!("{}  data/a%0Ab\n", "0".repeat(32))).unwrap();
        let below = || {
            let trees = [bag.path().to_path_buf()];
            let found = recorded_in(&list, None, &trees, &mut |line| panic!("{line:?}")).unwrap().contents;
            found.into_iter().map(|content| content.below).collect::<Vec<_>>()
        };
        assert_eq!(below(), [Path::new("data/a%0Ab")]);
        std::fs::write(bag.path().join("bagit.txt"), "").unwrap();
        assert_eq!(below(), [Path::new("data/a\nb")]);
    }
}
