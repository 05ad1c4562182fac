//! `verisum scrub` and what belongs to it: `accept`, `catalog` and `schedule`.

mod accept;
mod accept_hosts;
mod catalog;
mod host_tree;
mod hosts;
pub(crate) mod metrics;
pub(crate) mod report;
mod results;
pub(crate) mod run;
mod schedule;
mod status;

use clap::Subcommand;

use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::help::{exit_codes, with_environment};

/// Verbs that keep trees true for years.
#[derive(Debug, Subcommand)]
pub(crate) enum ScrubCommand {
    /// Compare directories with what the catalogue remembers, and verify what is due
    #[command(
        long_about = "Compare directories with what the catalogue remembers, and verify what is due.\n\n\
            New files are recorded, changed ones too, and the others are read again, stalest first, \
            without regard to the page cache where anything is wrong. A record of good data is never \
            replaced by bad data: `verisum accept` does that. Without DIR, all directories that the \
            catalogue knows.\n\n\
            Durations are numbers with s, m, h, d, w or y. The next run continues where a \
            stopped or killed one ended.",
        after_help = exit_codes(),
        after_long_help = with_environment()
    )]
    Scrub(Box<run::ScrubArgs>),
    /// Take bad or missing files as they are now
    #[command(
        long_about = "Take bad or missing files as they are now: what is there becomes the record, and \
            what is gone is forgotten. Shows what was recorded and what is there. A directory stands for \
            all files in trouble below it.",
        after_help = exit_codes(),
        after_long_help = with_environment()
    )]
    Accept(accept::AcceptArgs),
    /// Export, import, check, copy or move the catalogue
    Catalog {
        #[command(subcommand)]
        command: catalog::CatalogCommand,
    },
    /// Print or install a systemd timer or a cron line for scrubs
    #[command(
        long_about = "Print or install a systemd service and timer, or print a cron line, that scrubs \
            directories in a rhythm.\n\n\
            The rhythm is a systemd calendar event, such as weekly or 'Sun 03:00', or the five fields of \
            cron, such as '0 4 1 */2 *': the first of every second month at 04:00, or @daily and its likes. \
            systemd-analyze says whether an event is one, where it is installed. After -- there may be any \
            other options of `verisum scrub`. Two scrubs with one catalogue never run at the same time.",
        after_help = exit_codes(),
        after_long_help = with_environment()
    )]
    Schedule(schedule::ScheduleArgs),
}

/// Runs one of the verbs.
pub(crate) fn run(command: ScrubCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        ScrubCommand::Scrub(arguments) => run::run(&arguments, output),
        ScrubCommand::Accept(arguments) => accept::run(&arguments, output),
        ScrubCommand::Catalog { command } => catalog::run(&command, output),
        ScrubCommand::Schedule(arguments) => schedule::run(&arguments, output),
    }
}
