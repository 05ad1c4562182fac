//! Trees whose files have their records in attributes. A report puts them into a temporary catalogue, so that
//! it treats them as it treats catalogues.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use verisum::catalog::store::{
    Catalog, ImportFault, Moment, RecordImport, RecordToImport, Stamp, State, Trouble,
};
use verisum::files::store::xattr::{Defect, Family, Stored};
use verisum::files::tags::{self, TaggedFile};
use verisum::files::{Record, Standing, Timestamp, Verdict, Walk, WalkOptions};
use verisum_bench::export::{Cell, Table};

use super::path;
use crate::ui::exit::Exit;
use crate::ui::failure::{Failure, tree_message};
use crate::ui::scratch::{Folder, Scratch};
use crate::ui::{self, PROGRAM, kernel, values};

/// How many files may wait to be recorded.
const WAITING: usize = 4096;

/// What the attributes of a tree say.
#[derive(Debug, Default)]
pub(super) struct TaggedTree {
    pub(super) path: PathBuf,
    tagged: u64,
    untagged: u64,
    outdated: u64,
    resized: u64,
    /// Those whose tag has no time.
    pub(super) timeless: u64,
    damaged: u64,
    unknown: u64,
    unreadable: u64,
}

/// A catalogue of what tags say, which is gone after the report.
pub(super) struct Tagged {
    folder: Folder,
    pub(super) trees: Vec<TaggedTree>,
}

impl Tagged {
    /// Reads the tags of these directories, and no data.
    pub(super) fn read(directories: &[PathBuf], family: Family) -> Result<(Tagged, Catalog), Failure> {
        let scratch = Scratch::default();
        scratch.watch(None)?;
        let folder = scratch.folder(None)?;
        let catalog = Catalog::open(&folder.file("tags.db"))?;
        let mut import = catalog.import_records(Timestamp::now())?;
        let mut trees = Vec::new();
        for directory in directories {
            refused(import.tree(directory)?, directory)?;
            trees.push(read_tree(&mut import, directory, family)?);
        }
        import.finish()?;
        Ok((Tagged { folder, trees }, catalog))
    }

    /// Removes the catalogue.
    pub(super) fn remove(self) -> Result<(), Failure> {
        self.folder.remove()
    }
}

fn refused(done: Result<(), ImportFault>, directory: &Path) -> Result<(), Failure> {
    done.map_err(|why| Failure::file(directory, "record", std::io::Error::other(why)))
}

/// A file that goes from the threads that look at files to the one that records.
struct TaggedRow {
    path: PathBuf,
    /// None for a file without tags.
    tag: Option<Stored>,
    standing: Option<Standing>,
    size: u64,
    mtime: Stamp,
    ctime: Stamp,
    inode: u64,
}

fn read_tree(import: &mut RecordImport, directory: &Path, family: Family) -> Result<TaggedTree, Failure> {
    let mut options = tags::TaggingOptions::default();
    options.family = family;
    options.policy = kernel::policy()?;
    let mut walk = Walk::new(vec![directory.to_path_buf()], WalkOptions::default());
    let (send, rows) = mpsc::sync_channel(WAITING);
    let mut tree = TaggedTree { path: directory.to_path_buf(), ..TaggedTree::default() };
    thread::scope(|scope| {
        let listing = scope.spawn(move || {
            let report = |finding: &tags::TagFinding| {
                if let Some(error) = finding.error {
                    ui::say(PROGRAM, &tree_message(error));
                }
            };
            // Who records may have failed: then the rest is for nobody.
            tags::list(&mut walk, &options, &report, &|file| drop(send.send(TaggedRow::of(file))))
        });
        let recorded = rows.into_iter().try_for_each(|row| take(import, &mut tree, &row));
        let counts = listing.join().map_err(|_| Failure::Usage("a thread failed".to_string()))?;
        tree.unreadable = counts.files();
        recorded
    })?;
    Ok(tree)
}

impl TaggedTree {
    /// Whether there is no tag that could say anything: the directory may be the wrong one.
    fn is_untagged(&self) -> bool {
        self.tagged + self.damaged + self.unknown + self.unreadable == 0
    }
}

impl TaggedRow {
    fn of(file: &TaggedFile) -> TaggedRow {
        // The one that tells most of the file as it is now.
        let rank = |tag: &&Stored| match tag {
            Ok(record) => (is_current(record, file), record.algorithm.bits),
            Err(_) => (false, 0),
        };
        let tag = file.tags.iter().max_by_key(rank);
        TaggedRow {
            path: file.path.to_path_buf(),
            standing: tag.and_then(|tag| Some(tag.as_ref().ok()?.standing(file.stat))),
            tag: tag.cloned(),
            size: file.stat.size,
            mtime: file.stat.modified.into(),
            ctime: file.stat.changed.into(),
            inode: file.stat.inode,
        }
    }
}

fn is_current(record: &Record, file: &TaggedFile) -> bool {
    matches!(record.standing(file.stat), Standing::Current | Standing::Unknown)
}

fn take(import: &mut RecordImport, tree: &mut TaggedTree, row: &TaggedRow) -> Result<(), Failure> {
    let record = match &row.tag {
        None => {
            tree.untagged += 1;
            return Ok(());
        }
        Some(Err(defect)) => {
            match defect {
                Defect::Damaged => tree.damaged += 1,
                Defect::Version(_) | Defect::Algorithm(_) => tree.unknown += 1,
            }
            let name = ui::names::quoted(row.path.as_os_str());
            ui::say(PROGRAM, &format!("{name}: {defect}"));
            return Ok(());
        }
        Some(Ok(record)) => record,
    };
    tree.tagged += 1;
    let state = match row.standing {
        Some(Standing::Outdated) => {
            tree.outdated += 1;
            State::Trouble(Trouble::Verdict(Verdict::Unverifiable))
        }
        Some(Standing::Resized) => {
            tree.resized += 1;
            State::Trouble(Trouble::Verdict(Verdict::Suspicious))
        }
        standing => {
            tree.timeless += u64::from(standing == Some(Standing::Unknown));
            State::Sound
        }
    };
    let path = row.path.strip_prefix(&tree.path).unwrap_or(&row.path);
    let changed = row.mtime.timestamp().into();
    let done = import.file(&RecordToImport {
        path,
        algorithm: record.algorithm.id,
        digest: record.digest,
        state,
        size: record.size.unwrap_or(row.size),
        mtime: row.mtime,
        ctime: row.ctime,
        inode: row.inode,
        first_seen: changed,
        changed,
        verified: record.verified.map_or(Moment::NEVER, Moment::from),
    })?;
    refused(done, &row.path)
}

/// What the tags alone say of a report's end.
pub(super) fn exit(trees: &[TaggedTree]) -> Exit {
    let worst = |tree: &TaggedTree| match (tree.damaged, tree.unknown + tree.unreadable) {
        (0, 0) if tree.is_untagged() => Exit::Unchecked,
        (0, 0) => Exit::Clean,
        (0, _) => Exit::Unchecked,
        _ => Exit::Mismatch,
    };
    trees.iter().map(worst).max().unwrap_or(Exit::Clean)
}

/// The first lines about tags that cannot be used.
pub(super) fn lines(trees: &[TaggedTree]) -> Vec<String> {
    let sum = |count: fn(&TaggedTree) -> u64| trees.iter().map(count).sum::<u64>();
    let mut lines = Vec::new();
    for tree in trees.iter().filter(|tree| tree.is_untagged()) {
        let (path, files) =
            (ui::names::quoted(tree.path.as_os_str()), values::counted(tree.untagged, "file"));
        lines.push(format!("UNCHECKED: {path}: nothing in it is tagged ({files})."));
    }
    let damaged = sum(|tree| tree.damaged);
    if damaged > 0 {
        lines.push(format!("BAD: {} not as written.", values::counted(damaged, "tag")));
    }
    let unseen = sum(|tree| tree.unknown + tree.unreadable);
    if unseen > 0 {
        lines.push(format!("UNCHECKED: the tags of {} could not be read.", values::counted(unseen, "file")));
    }
    lines
}

pub(super) fn table(trees: &[TaggedTree]) -> Table {
    let mut table = Table::new(
        "Trees by their tags",
        "tree; tagged; untagged; written to since; another length; damaged tags; unknown tags; unreadable",
    );
    for tree in trees {
        let counts = [
            tree.tagged,
            tree.untagged,
            tree.outdated,
            tree.resized,
            tree.damaged,
            tree.unknown,
            tree.unreadable,
        ];
        let cells = std::iter::once(path(&tree.path)).chain(counts.map(Cell::Count));
        table.row(cells.collect::<Vec<_>>());
    }
    table.note(
        "Tags do not remember runs, what these found, nor files that are gone. Growth is by the files' times of modification.",
    )
}
