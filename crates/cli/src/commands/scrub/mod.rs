//! `verisum scrub` and its companions: `accept`, `catalog` and `schedule`.

mod accept;
mod catalog;
mod dry_run;
mod health;
mod import;
mod lake;
mod list;
pub(crate) mod metrics;
mod parity;
mod rehash;
pub(crate) mod report;
mod results;
pub(crate) mod run;
mod schedule;
mod status;
mod trees;

use clap::Subcommand;
use verisum::catalog::store::Root;

use crate::ui::Output;
use crate::ui::config::Config;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::progress::of_steps;
use crate::ui::sizes::human;
use crate::ui::values::counted;

/// Verbs that keep trees true for years.
#[derive(Debug, Subcommand)]
pub(crate) enum ScrubCommand {
    /// Compare directories with their records in the catalogue, and verify what is due
    #[command(
        long_about = "Compare directories with their records in the catalogue, and verify what is due.\n\n\
            Records new and changed files, and reads the others again. On this machine it begins with the files \
            that were bad, and goes on directory by directory; with --for, --sample or --shuffle, it goes on with \
            new and changed files, and then the stalest. Reads a file that looks bad a second time, past the page \
            cache. Bad data never replaces the record of good data, unless you \
            run `verisum accept`. Without DIR, scrubs all directories of the catalogue.\n\n\
            Durations are numbers with s, m, h, d, w or y. If a run is interrupted, the next one continues \
            it."
    )]
    Scrub(Box<run::ScrubArgs>),
    /// Accept bad, missing or held files as they are now
    #[command(
        long_about = "Accept bad, missing or held files as they are now: records their present content, and \
            forgets files that are gone. A held file has changed and still has its old record. Shows what \
            was recorded and what is there now. A directory stands for all these files below it."
    )]
    Accept(accept::AcceptArgs),
    /// Show the state of the catalogue, list bad, missing and stale files, export, import, check, copy or move it
    Catalog {
        #[command(subcommand)]
        command: catalog::CatalogCommand,
    },
    /// Print or install a systemd timer, or print a cron line, for scrubs
    #[command(
        long_about = "Print or install a systemd service and timer, or print a cron line, that scrubs directories \
            on a schedule.\n\n\
            --on takes a systemd calendar event, such as weekly or 'Sun 03:00'; systemd-analyze checks it, \
            if it is installed. --cron takes the five fields of cron, such as '0 4 1 */2 *' for the first \
            of every second month at 04:00, or @daily and the like. Put other options of `verisum scrub` \
            after --: with `-- --missing fail`, deleted files are failures too, and --mail and the others \
            report them. Two scrubs with one catalogue never run at the same time."
    )]
    Schedule(schedule::ScheduleArgs),
}

/// Runs one of the verbs.
pub(crate) fn run(command: ScrubCommand, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        ScrubCommand::Scrub(arguments) => run::run(&arguments, output),
        ScrubCommand::Accept(arguments) => {
            of_steps(arguments.progress.show(), "accepting", &[], || accept::run(&arguments, output))
        }
        ScrubCommand::Catalog { command } => {
            let work = || catalog::run(&command, output);
            of_steps(command.progress().show(), "at work on the catalogue", command.passes(), work)
        }
        ScrubCommand::Schedule(arguments) => schedule::run(&arguments, config, output),
    }
}

/// What trees of a catalogue have, in words.
fn totals<'r>(roots: impl IntoIterator<Item = &'r Root>) -> String {
    let (mut trees, mut files, mut bytes) = (0, 0_u64, 0_u64);
    for root in roots {
        (trees, files, bytes) =
            (trees + 1, files.saturating_add(root.files), bytes.saturating_add(root.bytes));
    }
    format!("{}, {}, {}", counted(trees, "tree"), counted(files, "file"), human(bytes))
}
