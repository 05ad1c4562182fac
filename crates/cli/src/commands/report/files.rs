//! The tables of files: bad files, and content with several copies.

use std::path::Path;

use verisum::catalog::overview::Troubled;
use verisum::catalog::store::Seen;
use verisum::digest::Output;
use verisum_bench::export::{Cell, Table};

use super::{FOLDED, Subject, bytes, moment, path};
use crate::ui::bad_file::{self, BadFileRepair, GoodContent};
use crate::ui::parity::Beside;
use crate::ui::repair_commands::{keep_bad, of_catalog, repair_by_tags, with_source};
use crate::ui::shell;
use crate::ui::{digests, names};

/// How many letters the rows of files may have together: a page has to stay one that is mailed.
const LETTERS: usize = 600_000;

pub(super) fn troubled(subject: &Subject) -> Table {
    let mut table = Table::new(
        "Bad, missing and unchecked files",
        "outcome; file; advice; mend with; good copy; since; last good; size; digest then; found; parity",
    );
    let (mut letters, mut beside) = (0, Beside::default());
    for one in &subject.overview.troubled {
        let row = troubled_row(subject, one, &mut beside);
        letters += row
            .iter()
            .map(|cell| if let Cell::Text(text) | Cell::Command(text) = cell { text.len() } else { 0 })
            .sum::<usize>();
        if letters > LETTERS {
            break;
        }
        table.row(row);
    }
    let table = table.blocks_below(120).folded_after(FOLDED);
    let all = subject.overview.count(|_| true);
    let listed = table.rows.len() as u64;
    let mut command = "verisum catalog list --bad --missing".to_string();
    if let Some(catalog) = subject.catalog(0) {
        command += &of_catalog(catalog);
    }
    match all > listed {
        true => {
            table.note(format!("{} more: {command} lists all, --csv and --json for programs.", all - listed))
        }
        false if all == 0 && subject.tagged.is_empty() => table.note("There are none."),
        false if all == 0 => table.note("None is known. Tags do not say what the last verisum verify found."),
        false => table,
    }
}

fn troubled_row(subject: &Subject, one: &Troubled, beside: &mut Beside) -> Vec<Cell> {
    let Troubled { catalog, file, finding, copy } = one;
    let record = &file.record;
    let root = subject.root_of(*catalog, &file.path);
    let path_of_copy = copy.as_ref().map(|copy| copy.path.clone());
    let commands = subject.repair_commands(*catalog);
    let mut bad_file = bad_file::of_file(file, finding.as_ref(), path_of_copy, (&commands, root), beside);
    bad_file.mend = match bad_file.mend {
        // That of another catalogue has to be named.
        BadFileRepair::File(command) if copy.as_ref().is_some_and(|copy| copy.catalog != *catalog) => {
            BadFileRepair::FromCopy(command)
        }
        mend => mend,
    };
    let mend = match subject.is_of_tags(*catalog) {
        true => root.and_then(|root| by_tags(one, root, bad_file.parity.is_some())),
        false => bad_file.command(),
    };
    let recorded = |cell: Cell| if file.is_recorded() { cell } else { Cell::Missing };
    vec![
        Cell::text(record.state.name()),
        path(&file.path),
        bad_file.advice().map_or(Cell::Missing, Cell::text),
        mend.map_or(Cell::Missing, Cell::Command),
        match &bad_file.copy {
            Some(copy) => path(copy),
            None if bad_file.needs_none() => Cell::text(GoodContent::NEEDLESS),
            None if file.wants_content() => Cell::text(GoodContent::NO_COPY),
            None => Cell::Missing,
        },
        bad_file.since.map_or(Cell::Missing, moment),
        recorded(moment(record.verified)),
        recorded(bytes(record.size)),
        recorded(Cell::text(digest(&file.algorithm, &record.digest, record.size))),
        found(one),
        bad_file.parity.as_deref().map_or(Cell::Missing, path),
    ]
}

/// What mends a tree by its tags, from a tree that has the content at the same path: tags know of no other copies.
fn by_tags(one: &Troubled, root: &Path, has_parity: bool) -> Option<String> {
    let Troubled { file, copy, .. } = one;
    if !file.record.state.is_repairable() {
        return Some(format!("verisum tag {}", shell::word(root.as_os_str().as_encoded_bytes())));
    }
    let beside = copy
        .as_ref()
        .filter(|copy| file.path.strip_prefix(root).is_ok_and(|below| copy.path == copy.tree.join(below)));
    let command = match beside {
        Some(copy) => with_source(&repair_by_tags(root), &copy.tree),
        None if has_parity => repair_by_tags(root),
        None => format!("{} --from PLACE", repair_by_tags(root)),
    };
    // Somebody may have written to it.
    Some(command + &keep_bad(Some(root)))
}

/// A digest of a file of this length, after its name.
fn digest(algorithm: &str, digest: &Output, size: u64) -> String {
    format!("{algorithm} {}", digests::shown(algorithm, digest, Some(size)))
}

/// What was last seen of a file, in a few words.
fn found(one: &Troubled) -> Cell {
    let Some(finding) = &one.finding else { return Cell::Missing };
    let record = &one.file.record;
    let told = |read: &Seen| digest(&one.file.algorithm, &read.digest, read.size);
    match (&finding.detail, &finding.read) {
        (Some(detail), _) => Cell::text(names::plain(detail)),
        (None, Some(read)) if read.size != record.size => {
            Cell::text(format!("{} bytes, {}", read.size, told(read)))
        }
        (None, Some(read)) => Cell::text(told(read)),
        (None, None) => Cell::Missing,
    }
}

pub(super) fn copies(subject: &Subject) -> Table {
    let content = &subject.overview.content;
    let mut table = Table::new("Copies", "content; how many; size");
    let mut row = |what: &str, amount: verisum::catalog::overview::Amount| {
        table.row([Cell::text(what), Cell::Count(amount.files), bytes(amount.bytes)]);
    };
    row("that one file alone has: the only copies", content.only);
    row("that several files of one tree have, once", content.one_tree);
    row("that several trees have, once", content.several_trees);
    row("files beyond the first of each content", content.extra);
    table
        .note("Of sound files that are not empty, over all catalogues named. Names of one file are one.")
        .note("Records with different digests count as copies only if a rehash computed both digests of their content.")
}

pub(super) fn only(subject: &Subject) -> Table {
    let mut table = Table::new("Only copies by tree", "tree; files; size; size of the tree");
    for tree in &subject.overview.trees {
        let (only, root) = (tree.only, &tree.root);
        table.row([path(&root.path), Cell::Count(only.files), bytes(only.bytes), bytes(root.bytes)]);
    }
    table
}

pub(super) fn duplicates(subject: &Subject) -> Table {
    let mut table =
        Table::new("Most room in copies", "one of them; files; size of one; room of the others; digest");
    for one in &subject.overview.content.largest {
        table.row([
            path(Path::new(&one.path)),
            Cell::Count(one.files),
            bytes(one.size),
            bytes(one.size.saturating_mul(one.files - 1)),
            Cell::text(format!("{} {}", one.algorithm, one.digest)),
        ]);
    }
    table
}
