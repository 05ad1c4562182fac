//! The result of a report, in a few lines and an exit code.

use std::path::Path;

use verisum::catalog::overview::TreeOverview;
use verisum::catalog::store::{Moment, Run, State, Trouble, UNLISTED};
use verisum::files::{Verdict, VerdictClass};

use super::{Subject, images, tagged};
use crate::ui::exit::Exit;
use crate::ui::names;
use crate::ui::repair_commands::{self, Remedy};
use crate::ui::sizes::human;
use crate::ui::values::{self, UNFINISHED, counted};

/// The code that the command ends with, that of `catalog status`.
pub(super) fn exit(subject: &Subject) -> Exit {
    let of_catalogs = match subject.overview.class() {
        VerdictClass::Clean if empty(subject).next().is_some() => Exit::Unchecked,
        class => class.into(),
    };
    of_catalogs.max(tagged::exit(&subject.tagged)).max(images::exit(&subject.images, &subject.options))
}

/// The catalogues without files, which say nothing.
fn empty(subject: &Subject) -> impl Iterator<Item = Option<&Path>> {
    let has_files =
        |tree: &TreeOverview| tree.root.files > 0 || !tree.troubles.is_empty() || tree.has_failed();
    let is_told = move |number: usize| {
        subject.overview.trees.iter().any(|tree| tree.catalog == number && has_files(tree))
    };
    let named = subject.named.iter().enumerate();
    named.filter(move |(number, _)| !is_told(*number)).map(|(_, path)| path.as_deref())
}

/// The lines that are read first.
pub(super) fn lines(subject: &Subject) -> Vec<String> {
    let overview = &subject.overview;
    let mut lines = Vec::new();
    let sum = |of: fn(&TreeOverview) -> u64| overview.trees.iter().map(of).fold(0, u64::saturating_add);
    let (files, bytes) = (sum(|tree| tree.root.files), sum(|tree| tree.root.bytes));
    let all = format!("{} ({})", counted(files, "file"), human(bytes));
    let bad = overview.count(State::is_corrupt);
    let missing = overview.count(|state| state == State::MISSING);
    let held = overview.count(|state| state == State::Trouble(Trouble::Held));
    let unchecked = overview.count(|state| repair_commands::exit(state) == Exit::Unchecked);
    let of_images = images::lines(&subject.images, &subject.options);
    if overview.trees.is_empty() {
        let nothing = vec!["Nothing is recorded: `verisum scrub DIR` begins.".to_string()];
        return if of_images.is_empty() { nothing } else { of_images };
    }
    lines.extend(tagged::lines(&subject.tagged));
    if bad > 0 {
        lines.push(format!("BAD: {bad} of {all} {} not what was recorded.", are(bad)));
    }
    if missing > 0 {
        lines.push(format!("MISSING: {} {} no longer there.", counted(missing, "file"), are(missing)));
    }
    if unchecked > 0 {
        let unchecked = counted(unchecked, "file");
        lines.push(format!("UNCHECKED: {unchecked} could not be read or compared."));
    }
    for tree in &overview.trees {
        let unlisted = Run::of_last(&tree.runs, UNLISTED);
        if unlisted == 0 {
            continue;
        }
        let path = names::quoted(tree.root.path.as_os_str());
        lines.push(format!("UNCHECKED: the last run of {path} could not look at {}.", entries(unlisted)));
        // Among those, or among the files that could not be read: which, the run does not say.
        let io_error = Verdict::IoError.name();
        let failed = Run::of_last(&tree.runs, io_error);
        if let Some(advice) = repair_commands::storage_advice(io_error).filter(|_| failed > 0) {
            lines.push(format!("IO-ERROR: at {} of {path} {advice}.", entries(failed)));
        }
    }
    if held > 0 {
        let files = counted(held, "changed file");
        let (are, their) = if held == 1 { ("is", "its record stays") } else { ("are", "their records stay") };
        lines.push(format!("HELD: {files} {are} held: {their} until you accept or repair."));
    }
    let damaged = overview.count(|state| state == State::DAMAGED);
    if damaged > 0 {
        lines.push(format!("UNCHECKED: {}.", values::damaged_records(damaged)));
    }
    for path in empty(subject).flatten() {
        lines.push(format!("UNCHECKED: nothing is recorded in {}.", names::quoted(path.as_os_str())));
    }
    for tree in &overview.trees {
        if let Some(error) = tree.runs.first().and_then(|run| run.error.as_ref()) {
            let path = names::quoted(tree.root.path.as_os_str());
            lines.push(format!("FAILED: the last run of {path}: {}", names::plain(error)));
        }
        if tree.is_unfinished {
            let path = names::quoted(tree.root.path.as_os_str());
            lines.push(format!("UNCHECKED: {path}: {UNFINISHED}."));
        }
    }
    let stale = overview.stale;
    if let (Some(most), 1..) = (subject.options.max_age, stale.files) {
        lines.push(format!(
            "LATE: {}, {}, {} not verified within {}.",
            counted(stale.files, "file"),
            human(stale.bytes),
            if stale.files == 1 { "was" } else { "were" },
            values::rough(most),
        ));
    }
    if lines.is_empty() {
        lines.extend(all_well(subject));
    }
    lines.extend(of_images);
    lines.extend(sources(subject));
    let future = sum(|tree| tree.future);
    if future > 0 {
        lines.push(format!("V{}.", &values::verified_in_future(future)[1..]));
    }
    lines.extend(overview.oldest().map(|oldest| match oldest {
        Moment::NEVER => "Some files were never verified.".to_string(),
        oldest => {
            format!("The stalest verification is of {}, {}.", values::written(oldest), subject.age(oldest))
        }
    }));
    lines
}

/// What is known of the content of files that are wanted again: copies and parity.
fn sources(subject: &Subject) -> Option<String> {
    let overview = &subject.overview;
    let sum = |of: fn(&TreeOverview) -> u64| overview.trees.iter().map(of).sum::<u64>();
    let (wanted, mendable) = (sum(|tree| tree.wanted), sum(|tree| tree.mendable));
    let elsewhere = sum(|tree| tree.elsewhere);
    let with_parity: u64 = subject.remedies.iter().flatten().map(Remedy::with_parity).sum();
    if wanted == 0 {
        return None;
    }
    let is_wanted =
        |is_it: fn(State) -> bool| overview.count(|state| is_it(state) && state.wants_content()) > 0;
    let is_unchecked = |state: State| repair_commands::exit(state) == Exit::Unchecked;
    let is_held = |state: State| state == State::Trouble(Trouble::Held);
    let what: Vec<&str> = [
        (is_wanted(State::is_corrupt), "bad"),
        (is_wanted(|state| state == State::MISSING), "missing"),
        (is_wanted(is_held), "held"),
        (is_wanted(is_unchecked), "unchecked"),
    ]
    .into_iter()
    .filter_map(|(is_there, word)| is_there.then_some(word))
    .collect();
    let what = match what.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        last => last.map_or(String::new(), |(last, _)| last.to_string()),
    };
    let empty: u64 = subject.remedies.iter().flatten().map(Remedy::empty).sum();
    let mut known = Vec::new();
    known.extend((mendable > 0).then(|| repair_commands::from_copies(mendable, wanted)));
    known.extend((elsewhere > 0).then(|| {
        let copies = if elsewhere == 1 { "a copy" } else { "copies" };
        format!("{elsewhere} can be repaired from {copies} in another catalogue")
    }));
    known.extend((with_parity > 0).then(|| format!("parity may mend {with_parity}")));
    known.extend((empty > 0).then(|| repair_commands::needs_none(empty)));
    if known.is_empty() {
        known.push("no copy is known".to_string());
    }
    let (files, known) = (counted(wanted, &format!("{what} file")), known.join(", "));
    Some(format!("{files}: {known}. The page lists the commands."))
}

/// What is said where nothing is wrong. Tags hold no verdict, so that of their files less is known.
fn all_well(subject: &Subject) -> Vec<String> {
    let all = |is_of_tags: bool| {
        let trees = subject.overview.trees.iter();
        let roots =
            trees.filter(|tree| subject.is_of_tags(tree.catalog) == is_of_tags).map(|tree| &tree.root);
        let (files, bytes) =
            roots.fold((0, 0), |(files, bytes), root| (files + root.files, bytes + root.bytes));
        (files, format!("{} ({})", counted(files, "file"), human(bytes)))
    };
    let ((recorded, of_catalogs), (tagged, of_tags)) = (all(false), all(true));
    let mut lines = Vec::new();
    if recorded > 0 || tagged == 0 {
        lines.push(format!("All of {of_catalogs} {} as recorded when last looked at.", are(recorded)));
    }
    if tagged > 0 {
        let timeless: u64 = subject.tagged.iter().map(|tree| tree.timeless).sum();
        let since = match (tagged.saturating_sub(timeless), timeless) {
            (_, 0) => "by their times, nobody wrote to any of them since".to_string(),
            (0, _) => "they have no times that could say whether somebody wrote to a file since".to_string(),
            (timed, timeless) => {
                format!(
                    "by their times, nobody wrote to {timed} of them since; the tags of {timeless} have no time"
                )
            }
        };
        lines.push(format!("Tags of {of_tags}: {since}."));
        lines.push("Tags do not say what the last `verisum verify` found.".to_string());
    }
    lines
}

fn entries(count: u64) -> String {
    match count {
        1 => "1 file or directory".to_string(),
        many => format!("{many} files or directories"),
    }
}

fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
