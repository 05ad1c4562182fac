//! The state of trees for monitoring, by the catalogue: bad, missing and stale files, and runs that failed.
//! Reads no file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use verisum::catalog::store::{Catalog, Moment, Root, Run, State, TreeSurvey, Trouble, UNLISTED};
use verisum::files::Verdict;

use super::metrics::{catalog_up, figure, label, repairable};
use crate::ui::bad_file::{self, BadFile};
use crate::ui::exit::{Exit, Service};
use crate::ui::failure::Failure;
use crate::ui::repair_commands::{Remedy, RepairCommands};
use crate::ui::values::{counted, damaged_records, rough};
use crate::ui::{names, repair_commands};

/// How many bad files a line names.
pub(super) const NAMED: usize = 3;

/// The trees of a catalogue.
pub(super) struct Health {
    trees: Vec<Tree>,
    /// The first of the bad files, if the limits ask for them.
    bad: Vec<BadFile>,
    /// How many there are beyond them.
    more: u64,
    max_age: Option<Duration>,
    /// Whether a missing file is as bad as rot.
    missing_fails: bool,
    now: Moment,
}

/// A tree, and what a pass over all its records says of it.
pub(super) struct TreeStatus {
    pub(super) root: Root,
    /// The last ones, newest first.
    pub(super) runs: Vec<Run>,
    pub(super) survey: TreeSurvey,
    /// Whether its stalest verification is older than may be; none if it may be of any age.
    pub(super) is_late: Option<bool>,
    /// What mends it.
    pub(super) remedy: Option<Remedy>,
}

struct Tree {
    path: PathBuf,
    files: u64,
    bytes: u64,
    survey: TreeSurvey,
    is_late: bool,
    /// What mends it.
    remedy: Option<Remedy>,
    /// When the last run began, and why it failed.
    last: Option<(Moment, Option<String>)>,
    /// How many files and directories the last run could not look at.
    unlisted: u64,
    /// How many of them, or of files that it could not read, because their storage failed.
    failed_storage: u64,
}

impl Tree {
    /// Files and directories whose storage fails, by their states and by the last run.
    fn storage_errors(&self) -> u64 {
        let is_one =
            |(state, _): &&(State, u64)| *state == State::Trouble(Trouble::Verdict(Verdict::IoError));
        let recorded = self.survey.troubles.iter().find(is_one).map_or(0, |(_, count)| *count);
        recorded.max(self.failed_storage)
    }
}

/// What a catalogue is judged by.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// No verification may be older.
    pub(super) max_age: Option<Duration>,
    /// Whether a missing file is as bad as rot.
    pub(super) missing_fails: bool,
    /// Whether bad files are named with their copies, which takes a pass over all records.
    pub(super) names_bad: bool,
}

impl Health {
    pub(super) fn of(
        catalog: &Catalog,
        commands: &RepairCommands,
        trees: Vec<TreeStatus>,
        limits: Limits,
    ) -> Result<Health, Failure> {
        let Limits { max_age, missing_fails, names_bad } = limits;
        let mut health = Health {
            trees: Vec::new(),
            bad: Vec::new(),
            more: 0,
            max_age,
            missing_fails,
            now: Moment::now(),
        };
        if names_bad {
            let roots: Vec<&Root> = trees.iter().map(|tree| &tree.root).collect();
            let named = bad_file::of_trees(catalog, commands, &roots, (missing_fails, None), NAMED)?;
            (health.bad, health.more) = named;
        }
        for TreeStatus { root, runs, survey, is_late, remedy } in trees {
            health.trees.push(Tree {
                path: root.path,
                files: root.files,
                bytes: root.bytes,
                survey,
                is_late: is_late == Some(true),
                remedy,
                last: runs.first().map(|run| (run.started, run.error.clone())),
                unlisted: Run::of_last(&runs, UNLISTED),
                failed_storage: Run::of_last(&runs, Verdict::IoError.name()),
            });
        }
        Ok(health)
    }

    fn sum(&self, is_one: impl Fn(State) -> bool) -> u64 {
        let troubles = self.trees.iter().flat_map(|tree| &tree.survey.troubles);
        troubles.filter(|(state, _)| is_one(*state)).map(|(_, count)| count).sum()
    }

    fn storage_errors(&self) -> u64 {
        self.trees.iter().map(Tree::storage_errors).sum()
    }

    fn oldest(&self) -> Option<Moment> {
        self.trees.iter().filter_map(|tree| tree.survey.oldest).min()
    }

    /// How old the stalest verification is; what was never verified is as old as time.
    fn age(&self) -> Option<Duration> {
        Some(self.now - self.oldest()?)
    }

    fn is_stale(&self) -> bool {
        self.trees.iter().any(|tree| tree.is_late)
    }

    /// Why the last run of a tree failed, if it did.
    fn failures(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.trees.iter().filter_map(|tree| {
            let (_, error) = tree.last.as_ref()?;
            Some((tree.path.as_path(), error.as_deref()?))
        })
    }

    /// Whether no file is recorded, though nothing went wrong: a file system may not have been mounted.
    fn is_empty(&self) -> bool {
        let is_empty =
            |tree: &Tree| tree.files == 0 && tree.survey.troubles.is_empty() && !tree.survey.is_unfinished;
        self.trees.iter().all(is_empty) && self.failures().next().is_none()
    }

    /// The code that all this ends with. An empty catalogue says nothing.
    pub(super) fn exit(&self) -> Exit {
        if self.is_empty() {
            return Exit::Unchecked;
        }
        let troubles = self.trees.iter().flat_map(|tree| &tree.survey.troubles);
        let exit = |state: State| match state {
            State::MISSING if self.missing_fails => Exit::Mismatch,
            state => repair_commands::exit(state),
        };
        let worst = troubles.map(|(state, _)| exit(*state)).max().unwrap_or(Exit::Clean);
        let is_partial = self.failures().next().is_some()
            || self.trees.iter().any(|tree| tree.unlisted > 0 || tree.survey.is_unfinished);
        match self.is_stale() || is_partial || self.storage_errors() > 0 {
            true => worst.max(Exit::Unchecked),
            false => worst,
        }
    }

    /// The same for Nagios. Storage that fails is as bad as what it did.
    pub(super) fn service(&self) -> Service {
        match self.exit() {
            _ if self.is_empty() => Service::Unknown,
            Exit::Mismatch => Service::Critical,
            _ if self.storage_errors() > 0 => Service::Critical,
            Exit::Clean => Service::Ok,
            _ => Service::Warning,
        }
    }

    /// The line for Nagios, and one for each bad file that it names: its long output.
    pub(super) fn nagios(&self) -> String {
        let files = self.trees.iter().map(|tree| tree.files).fold(0, u64::saturating_add);
        let bad = self.sum(State::is_corrupt);
        let missing = self.sum(|state| state == State::MISSING);
        let unchecked = self.sum(|state| repair_commands::exit(state) == Exit::Unchecked);
        let held = self.sum(|state| state == State::Trouble(Trouble::Held));
        let mut line = format!("VERISUM {} - ", self.service().name());
        if self.is_empty() {
            line.push_str("nothing is recorded");
        } else {
            let files = counted(files, "file");
            let _ = write!(line, "{files}, {bad} bad, {unchecked} unchecked");
            let errors = self.storage_errors();
            if errors > 0 {
                let _ = write!(line, " ({errors} because storage fails)");
            }
            let _ = write!(line, ", {missing} missing");
            if held > 0 {
                let _ = write!(line, ", {held} held");
            }
            for tree in self.trees.iter().filter(|tree| tree.unlisted > 0) {
                let path = names::quoted_without_pipes(tree.path.as_os_str());
                let _ = write!(line, ", {} not looked at in {path}", tree.unlisted);
            }
            for tree in self.trees.iter().filter(|tree| tree.survey.is_unfinished) {
                let path = names::quoted_without_pipes(tree.path.as_os_str());
                let _ = write!(line, ", no scrub of {path} has come to its end yet");
            }
            let damaged = self.sum(|state| state == State::DAMAGED);
            if damaged > 0 {
                let _ = write!(line, ", {}", damaged_records(damaged));
            }
            let future: u64 = self.trees.iter().map(|tree| tree.survey.future).sum();
            if future > 0 {
                let _ = write!(line, ", {future} verified in the future");
            }
        }
        for bad in &self.bad {
            let path = names::quoted_without_pipes(bad.path.as_os_str());
            let _ = write!(line, ", {} {path}", bad.outcome);
        }
        if self.more > 0 {
            let _ = write!(line, " and {} more", self.more);
        }
        match (self.oldest(), self.age()) {
            (Some(Moment::NEVER), _) => line.push_str(", some never verified"),
            (_, Some(age)) => {
                let _ = write!(line, ", stalest verification {} ago", rough(age));
                if let Some(most) = self.max_age.filter(|_| self.is_stale()) {
                    let _ = write!(line, ", more than {} (--max-age)", rough(most));
                    let late = self.trees.iter().filter(|tree| tree.is_late);
                    for (number, tree) in late.enumerate() {
                        let path = names::quoted_without_pipes(tree.path.as_os_str());
                        let _ = write!(line, "{}{path}", if number == 0 { " in " } else { ", " });
                    }
                }
            }
            _ => {}
        }
        for (path, error) in self.failures() {
            let path = names::quoted(path.as_os_str());
            line.push_str(&format!(", last run of {path} failed: {}", names::plain(error)).replace('|', "_"));
        }
        let _ =
            write!(line, " | files={files} bad={bad} unchecked={unchecked} missing={missing} held={held}");
        let _ = match self.age() {
            Some(age) if self.oldest() != Some(Moment::NEVER) => match self.max_age {
                Some(most) => write!(line, " oldest={}s;{}", age.as_secs(), most.as_secs()),
                None => write!(line, " oldest={}s", age.as_secs()),
            },
            _ => write!(line, " oldest=U"),
        };
        for bad in &self.bad {
            let _ = write!(line, "\n{}", bad.line_without_pipes());
        }
        line
    }

    /// The text for Prometheus.
    pub(super) fn prometheus(&self) -> String {
        let mut text = catalog_up(true);
        let mut of_trees = |name: &str, help: &str, value: &dyn Fn(&Tree) -> Option<f64>| {
            figure(&mut text, name, help, |text, name| {
                for tree in &self.trees {
                    if let Some(value) = value(tree) {
                        let _ = writeln!(text, "{name}{{root=\"{}\"}} {value}", label(&tree.path));
                    }
                }
            });
        };
        of_trees("verisum_catalog_files", "Files in the catalogue.", &|tree| Some(tree.files as f64));
        of_trees("verisum_catalog_bytes", "Sum of their lengths.", &|tree| Some(tree.bytes as f64));
        of_trees(
            "verisum_catalog_oldest_verification_timestamp_seconds",
            "When the stalest file was verified; 0 for never.",
            &|tree| tree.survey.oldest.map(Moment::seconds),
        );
        of_trees("verisum_catalog_last_run_timestamp_seconds", "When the last run began.", &|tree| {
            tree.last.as_ref().map(|(started, _)| started.seconds())
        });
        of_trees("verisum_catalog_last_run_failed", "Whether the last run failed.", &|tree| {
            tree.last.as_ref().map(|(_, error)| f64::from(error.is_some()))
        });
        let help = "Whether scrubs have begun, and none came to its end.";
        of_trees("verisum_catalog_unfinished", help, &|tree| Some(f64::from(tree.survey.is_unfinished)));
        let help = "Directories and files that the last run could not look at.";
        of_trees("verisum_catalog_unlisted", help, &|tree| Some(tree.unlisted as f64));
        let help = "Files that are not as recorded, by what the last run thought of them.";
        figure(&mut text, "verisum_catalog_troubled_files", help, |text, name| {
            for tree in &self.trees {
                for state in State::troubles() {
                    let count =
                        tree.survey.troubles.iter().find(|(found, _)| *found == state).map_or(0, |row| row.1);
                    let (root, state) = (label(&tree.path), state.name());
                    let _ = writeln!(text, "{name}{{root=\"{root}\",state=\"{state}\"}} {count}");
                }
            }
        });
        let remedies = self.trees.iter().map(|tree| (&*tree.path, tree.remedy.as_ref()));
        repairable(&mut text, "verisum_catalog_repairable_files", remedies);
        text
    }
}
