//! Lists of checksums as records of files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use verisum_digest::Digest;
use verisum_files::check::bag_of;
use verisum_files::store::manifest::{BlockHashes, Dialect, Line, ListOptions, Listed, Reader};
use verisum_files::{Kind, try_name};

use super::catalog::COPIES;
use super::{ExpectedContent, RepairError};

/// A line of a list that records nothing of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UselessLine {
    /// Its number, from 1.
    pub number: u64,
    /// Why it is of no use.
    pub why: String,
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
) -> Result<Vec<ExpectedContent>, RepairError> {
    let failed = |operation| move |source| RepairError::List { path: list.into(), operation, source };
    let file = File::open(list).map_err(failed("open"))?;
    let mut options = ListOptions::default();
    options.algorithm = algorithm.map(|name| name.to_string().into());
    options.name = list.file_name().unwrap_or_default().as_bytes().to_vec();
    options.block_hashes = BlockHashes::Tagged;
    if bag_of(list).is_some() {
        options.dialect = Dialect::Bag;
    } else if let Some(tree) = trees.first() {
        // What no file tells the repair finds out: it takes nothing that has another digest.
        let _ = try_name(list, tree, &mut options);
    }
    let unreadable = |error: &dyn std::fmt::Display| failed("read")(std::io::Error::other(error.to_string()));
    let named: Arc<Path> = list.into();
    let mut reader = Reader::new(file, &options).map_err(|error| unreadable(&error))?;
    let mut found: BTreeMap<PathBuf, ExpectedContent> = BTreeMap::new();
    let length = |content: &ExpectedContent| content.value.as_bytes().len();
    while let Some(line) = reader.line().map_err(|error| unreadable(&error))? {
        let number = reader.number();
        let recorded = match line {
            // What is no file has no content.
            Line::File(listed) if listed.kind.is_some_and(|kind| kind != Kind::File) => continue,
            Line::File(listed) => recorded(&listed, &named, trees),
            Line::Bad(bad) => Err(bad.to_string()),
        };
        let recorded = recorded.and_then(|recorded| match found.get(&recorded.below) {
            Some(other) if other.digest.name() == recorded.digest.name() && other.value != recorded.value => {
                Err("another line has another digest of it".to_string())
            }
            _ => Ok(recorded),
        });
        match recorded {
            // Of several digests the longest is the hardest to forge.
            Ok(recorded) => {
                let longest = found.entry(recorded.below.clone()).or_insert_with(|| recorded.clone());
                if length(longest) < length(&recorded) {
                    *longest = recorded;
                }
            }
            Err(why) => useless(UselessLine { number, why }),
        }
    }
    let content = |one: &&ExpectedContent| (one.digest.name().to_string(), one.value.as_bytes().to_vec());
    let mut by_content: Vec<&ExpectedContent> = found.values().collect();
    by_content.sort_by_cached_key(content);
    let groups = by_content.chunk_by(|one, other| content(one) == content(other));
    let copies = groups.filter(|group| group.len() > 1).flat_map(|group| {
        let first: Arc<[PathBuf]> = group.iter().take(COPIES).map(|one| one.below.clone()).collect();
        group.iter().map(move |one| (one.below.clone(), first.clone()))
    });
    for (below, copies) in copies.collect::<Vec<_>>() {
        found.entry(below).and_modify(|one| one.copies = Some(copies));
    }
    Ok(found.into_values().collect())
}

/// What a line says of a file; why it is of no use.
fn recorded(listed: &Listed, list: &Arc<Path>, trees: &[PathBuf]) -> Result<ExpectedContent, String> {
    let name = Path::new(OsStr::from_bytes(&listed.name));
    let below = match name.is_absolute() {
        true => {
            let mut below = trees.iter().filter_map(|tree| name.strip_prefix(tree).ok());
            below.next().ok_or("the file is outside the directory")?
        }
        false => name,
    };
    let steps = below.components().filter(|step| *step != Component::CurDir);
    let below: PathBuf = steps.clone().collect();
    if !steps.clone().all(|step| matches!(step, Component::Normal(_))) || steps.count() == 0 {
        return Err("the file is outside the directory".to_string());
    }
    if listed.block_hash.is_some() {
        return Err("this is a block hash (`verisum image repair` mends images)".to_string());
    }
    let mut why = "it has no digest".to_string();
    let mut claims: Vec<_> = listed.claims.iter().collect();
    claims.sort_by_key(|claim| Reverse(claim.digest.as_bytes().len()));
    for claim in claims {
        match Digest::find(&claim.algorithm) {
            Ok(digest) => {
                let list = Some(list.clone());
                let value = claim.digest;
                return Ok(ExpectedContent { below, digest, value, is_unwritten: false, list, copies: None });
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
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
            let found = recorded_in(&list, None, &trees, &mut |line| panic!("{line:?}")).unwrap();
            assert_eq!(found.iter().map(|content| content.digest.name()).collect::<Vec<_>>(), ["sha256"]);
        }
    }

    #[test]
    fn names_of_a_bag_are_read_as_bags_write_them() {
        let bag = tempfile::tempdir().unwrap();
        let list = bag.path().join("manifest-md5.txt");
        std::fs::write(&list, format!("{}  data/a%0Ab\n", "0".repeat(32))).unwrap();
        let below = || {
            let trees = [bag.path().to_path_buf()];
            let found = recorded_in(&list, None, &trees, &mut |line| panic!("{line:?}")).unwrap();
            found.into_iter().map(|content| content.below).collect::<Vec<_>>()
        };
        assert_eq!(below(), [Path::new("data/a%0Ab")]);
        std::fs::write(bag.path().join("bagit.txt"), "").unwrap();
        assert_eq!(below(), [Path::new("data/a\nb")]);
    }
}
