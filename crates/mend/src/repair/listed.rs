//! Repairs files by the records in a list or in their own tags.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum_blockhash::is_block_hash;
use verisum_catalog::store::{Stamp, State, Trouble};
use verisum_digest::{Digest, Output};
use verisum_files::place::LocalPlace;
use verisum_files::store::xattr::Family;
use verisum_files::{Entry, Kind, Misjudged, SecondRead, Standing, Stat, Stop, Verdict, Walk, WalkOptions};

use super::damaged::{ANY_LENGTH, Damaged};
use super::keep::require_room;
use super::mend::{Done, MendedTree, Tree, is_of_nothing};
use super::{
    CopyFault, RepairError, RepairOptions, RepairOutcome, RepairRefusal, RepairSummary, Repaired, Source,
};

/// How many files are compared and repaired together.
const PAGE: usize = 1024;

/// So many files that have another digest than a list says are hashed as images, too.
const LOOKED_AT: usize = 16;

/// What the content of a file should be.
#[derive(Clone, Debug)]
pub struct ExpectedContent {
    /// The path below the tree.
    pub below: PathBuf,
    /// The digest.
    pub digest: Digest,
    /// Its value.
    pub value: Output,
    /// Whether nobody wrote to the file since, as its times tell. Where that is not known, a file with other content may
    /// be what somebody wants it to be.
    pub is_unwritten: bool,
    /// The list that it is from, if it is from one. Its number may be the block hash of an image.
    pub list: Option<Arc<Path>>,
    /// The first files with this content in the list, by their paths below the tree, if there are several.
    pub copies: Option<Arc<[PathBuf]>>,
}

/// What the tags of the files in a tree record, where nobody seems to have written to the file since. What cannot be
/// looked at is passed over: it has no record.
pub fn tagged(tree: &Path) -> impl Iterator<Item = ExpectedContent> {
    let root = tree.to_path_buf();
    Walk::new(vec![root.clone()], WalkOptions::default()).flatten().filter_map(move |entry| {
        if entry.kind() != Kind::File {
            return None;
        }
        let below = entry.path().strip_prefix(&root).ok()?.to_path_buf();
        let file = entry.open_regular().ok()?;
        let stat = Stat::of(&file).ok()?;
        let mut found = Vec::new();
        for family in Family::ALL {
            let _ = family.read(&file, &mut found);
        }
        let records = found.into_iter().flatten();
        let mut current =
            records.filter(|record| matches!(record.standing(&stat), Standing::Current | Standing::Resized));
        let (record, digest) =
            current.find_map(|record| Some((record, Digest::find(record.algorithm.id).ok()?)))?;
        Some(ExpectedContent {
            below,
            digest,
            value: record.digest,
            // As `verify` judges it.
            is_unwritten: record.compare(&stat, &record.digest, SecondRead::Same).same_ctime != Some(false),
            list: None,
            copies: None,
        })
    })
}

/// Gives files of a tree their recorded content again, where they have another or are missing: from the files at the
/// same paths in the sources. All of them are read first. Nothing is recorded.
///
/// # Errors
/// The tree cannot be opened, a directory for bad files cannot be used, or a list holds block hashes.
pub fn repair_recorded(
    tree: &Path,
    records: &mut dyn Iterator<Item = ExpectedContent>,
    sources: &mut [Source],
    options: &RepairOptions,
    report: &mut dyn FnMut(&Repaired),
) -> Result<RepairSummary, RepairError> {
    if let Some(keep) = &options.keep_bad {
        require_room(keep, tree)?;
    }
    let mut opened = Tree::open(tree, options).map_err(verisum_catalog::scrub::ScrubError::from)?;
    let mut own = Source::new(tree, Box::new(LocalPlace::default()));
    own.place.end_by(&options.stop);
    let mut summary = RepairSummary::default();
    let mut looked_at = 0;
    loop {
        if options.stop.is_due() {
            summary.interrupted = true;
            break;
        }
        let page: Vec<ExpectedContent> = records.take(PAGE).collect();
        if page.is_empty() {
            break;
        }
        let (mut damaged, mut states) = (Vec::new(), Vec::new());
        let compared = compare(&mut own, page, &options.stop);
        require_digests(tree, &compared, &mut looked_at, &options.stop)?;
        // What was not read any more is not bad.
        if options.stop.is_due() {
            summary.interrupted = true;
            break;
        }
        for (recorded, found) in compared {
            let path = tree.join(&recorded.below);
            let state = match (found, std::fs::symlink_metadata(&path)) {
                (_, Err(error)) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    State::MISSING
                }
                (Ok(found), _) if found == recorded.value => continue,
                (Ok(_), _) if recorded.is_unwritten => State::Trouble(Trouble::Verdict(Verdict::Rot)),
                (Ok(_), _) => State::Trouble(Trouble::Verdict(Verdict::Suspicious)),
                (Err(_), _) => State::Trouble(Trouble::Verdict(Verdict::IoError)),
            };
            if state == State::MISSING && options.except_missing {
                continue;
            }
            // What cannot be read may be newer than the list, too.
            let is_meant = state != State::MISSING && !recorded.is_unwritten;
            let file = damaged_file(tree, path, recorded, is_meant);
            if is_meant && options.keep_bad.is_none() && !options.dry {
                let refused = RepairOutcome::Refused(RepairRefusal::MayBeMeant);
                tell(&file, state, refused.into(), &mut summary, report);
                continue;
            }
            damaged.push(file);
            states.push(state);
        }
        for source in sources.iter_mut() {
            source.look_for(&damaged)?;
        }
        opened.mend(&damaged, sources, &mut |at, done| {
            tell(&damaged[at], states[at], done, &mut summary, report);
        });
    }
    Ok(summary)
}

/// Fails for a list whose numbers are block hashes of images, which are not bad for that.
fn require_digests(
    tree: &Path,
    compared: &[(ExpectedContent, Result<Output, CopyFault>)],
    looked_at: &mut usize,
    stop: &Stop,
) -> Result<(), RepairError> {
    for (recorded, found) in compared {
        let (Some(list), Ok(found)) = (&recorded.list, found) else { continue };
        if *found == recorded.value || *looked_at == LOOKED_AT {
            continue;
        }
        *looked_at += 1;
        let (path, is_over) = (tree.join(&recorded.below), || stop.is_due());
        if is_block_hash(&path, &recorded.digest, recorded.value, &is_over) {
            let source = std::io::Error::other(Misjudged::BlockHashes);
            return Err(RepairError::List { path: list.to_path_buf(), operation: "read", source });
        }
    }
    Ok(())
}

fn damaged_file(tree: &Path, path: PathBuf, recorded: ExpectedContent, may_be_meant: bool) -> Damaged {
    let stat = Entry::named(&path).and_then(|entry| entry.stat()).ok();
    // Nothing is below a file that is repaired alone.
    let own = path.file_name().filter(|_| recorded.below.as_os_str().is_empty());
    Damaged {
        kept: own.map_or_else(|| recorded.below.clone(), PathBuf::from),
        path,
        below: recorded.below,
        digest: recorded.digest,
        recorded: recorded.value,
        size: ANY_LENGTH,
        modified: None,
        found: stat.iter().map(|stat| (stat.size, Stamp::from(stat.modified))).collect(),
        inode: None,
        may_be_meant,
        copies: recorded
            .copies
            .iter()
            .flat_map(|copies| copies.iter())
            .map(|below| tree.join(below))
            .collect(),
    }
}

fn tell(
    file: &Damaged,
    state: State,
    done: Done,
    summary: &mut RepairSummary,
    report: &mut dyn FnMut(&Repaired),
) {
    let Done { outcome, now, before, ranges, taken, kept_unread, bad_copies } = done;
    // Lists and tags tell no lengths. That of nothing is known.
    let size = match is_of_nothing(&file.digest, &file.recorded) {
        true => Some(0),
        false => now.map(|now| now.size),
    };
    let file = Repaired {
        path: file.path.clone(),
        state,
        size,
        algorithm: file.digest.name().to_string(),
        recorded: file.recorded,
        outcome,
        before,
        ranges,
        taken,
        kept_unread,
        bad_copies,
    };
    summary.count(&file);
    report(&file);
}

/// The digests that files of the tree have now, side by side where the processor can.
fn compare(
    own: &mut Source,
    page: Vec<ExpectedContent>,
    stop: &Stop,
) -> Vec<(ExpectedContent, Result<Output, CopyFault>)> {
    let mut of_digest: HashMap<String, Vec<ExpectedContent>> = HashMap::new();
    for recorded in page {
        of_digest.entry(recorded.digest.name().to_string()).or_default().push(recorded);
    }
    let mut compared = Vec::new();
    for records in of_digest.into_values() {
        let digest = records[0].digest.clone();
        let paths = records.iter().map(|recorded| own.path_of(&recorded.below)).collect();
        let found = own.digests(&digest, paths, stop);
        let found = found.into_iter().map(|found| found.map(|copy| copy.digest));
        compared.extend(records.into_iter().zip(found));
    }
    compared.sort_by(|(one, _), (other, _)| one.below.cmp(&other.below));
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_ends_the_search_for_block_hashes() {
        let tree = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(tree.path().join("image"), &content).unwrap();
        let digest = Digest::find("sha256").unwrap();
        let params = verisum_blockhash::Params::new(digest.clone()).block_size(1 << 12).unwrap();
        let mut hasher = verisum_blockhash::Hasher::new(&params).unwrap();
        hasher.update(&content).unwrap();
        let value = hasher.finish().unwrap();
        let found = digest.hash(&content).unwrap();
        let list = Some(Path::new("SUMS").into());
        let below = "image".into();
        let recorded = ExpectedContent { below, digest, value, is_unwritten: false, list, copies: None };
        let compared = [(recorded, Ok(found))];
        let stop = Stop::default();
        assert!(require_digests(tree.path(), &compared, &mut 0, &stop).is_err());
        stop.request();
        assert!(require_digests(tree.path(), &compared, &mut 0, &stop).is_ok());
    }
}
