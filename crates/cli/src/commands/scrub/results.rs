//! Options for the results of a scrub in any place: what to print, and when to raise an alarm.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use verisum::catalog::scrub::{Alarm, ScrubOptions};
use verisum::catalog::store::{Catalog, Moment};

use super::metrics;
use super::report::ScrubStyle;
use crate::ui::PROGRAM;
use crate::ui::catalog::{CatalogArgs, refuse_own};
use crate::ui::exit::{Exit, Service};
use crate::ui::export::{NO_STREAM, file};
use crate::ui::failure::Failure;
use crate::ui::repair_commands::Remedy;
use crate::ui::{self, Output};
use crate::ui::{values, verbosity};

/// What missing files mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Missing {
    /// They are no failure; a scrub names them once
    Warn,
    /// They are a failure: each scrub names them, and the exit code is 1
    Fail,
}

/// Which changes are failures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failing {
    pub(crate) modified: bool,
    pub(crate) missing: bool,
}

/// What to tell, and of what to warn.
#[derive(Args, Debug)]
pub(crate) struct ScrubResultArgs {
    /// Raise an alarm, and keep all records, if more than this share of the files changed or is gone. Without this
    /// option, a run does so if more than half of the files, and at least 100, changed or are gone
    #[arg(long, value_name = "SHARE")]
    alarm_changed: Option<String>,

    /// For trees that never change: modified and missing files are failures until you accept them
    #[arg(long)]
    pub(crate) archive: bool,

    /// Whether missing files are failures until you accept them
    #[arg(long, value_enum, value_name = "HOW", default_value = "warn")]
    missing: Missing,

    /// Accept that the recorded tree is now on another file system, with other inodes
    #[arg(long)]
    pub(crate) replaced_root: bool,

    /// Print nothing if nothing is wrong and nothing went missing
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Print a line of JSON for each file that is not as recorded, and one for each directory
    #[arg(long, conflicts_with = "nagios")]
    json: bool,

    /// Print one line for Nagios, and one for each of the first bad files below it
    #[arg(long)]
    nagios: bool,

    /// Write figures to this file for Prometheus's textfile collector
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        value_parser = file(NO_STREAM))]
    pub(super) prometheus: Option<PathBuf>,
}

impl ScrubResultArgs {
    /// How much is printed, and for whom.
    pub(crate) fn style(&self) -> ScrubStyle {
        match self {
            ScrubResultArgs { json: true, .. } => ScrubStyle::Json,
            ScrubResultArgs { nagios: true, .. } => ScrubStyle::Nothing,
            ScrubResultArgs { quiet: true, .. } => ScrubStyle::Quiet,
            _ if verbosity::names_all() => ScrubStyle::Verbose,
            _ => ScrubStyle::Usual,
        }
    }

    /// Which changes are failures.
    pub(crate) fn failing(&self) -> Failing {
        let missing = self.archive || self.missing == Missing::Fail;
        Failing { modified: self.archive, missing }
    }

    /// How much may change.
    pub(crate) fn alarm(&self) -> Result<Alarm, Failure> {
        Ok(match &self.alarm_changed {
            Some(text) => Alarm { share: values::share("--alarm-changed", text)?, at_least: 1 },
            None => Alarm::default(),
        })
    }

    /// Fails if the figures would be written over the catalogue.
    pub(crate) fn refuse_own(&self, catalog: &Catalog) -> Result<(), Failure> {
        self.prometheus.as_ref().map_or(Ok(()), |path| refuse_own(catalog.path(), path))
    }

    /// Tells monitoring of the runs, and says how they ended: as what was found, `untold` if that could not be printed.
    pub(crate) fn tell(
        &self,
        (summaries, known): (&metrics::Summaries, &metrics::KnownTroubles),
        remedies: &dyn Fn() -> Result<Vec<(PathBuf, Option<Remedy>)>, Failure>,
        (mut worst, untold): (Exit, Exit),
        options: &ScrubOptions,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        // What was found counts more than that nobody can read of it.
        if let Some(path) = &self.prometheus
            && let Err(failure) = remedies().and_then(|remedies| {
                metrics::write(
                    path,
                    &metrics::prometheus(
                        (summaries, known),
                        &remedies,
                        (self.failing(), untold),
                        options.started(),
                    ),
                )
            })
        {
            ui::say(PROGRAM, &failure.message());
            worst = worst.max(failure.exit());
        }
        if self.nagios {
            let service = metrics::service(summaries, worst);
            output.found(Exit::Nagios(service));
            output.line(&metrics::nagios(
                (summaries, known.bad()),
                service,
                self.failing(),
                Moment::now(),
            ))?;
            return Ok(Exit::Nagios(service));
        }
        output.found(worst);
        Ok(worst)
    }

    /// Tells monitoring where no run could be made.
    pub(crate) fn ended(
        &self,
        ended: Result<Exit, Failure>,
        catalog: &CatalogArgs,
        roots: &dyn Fn() -> Result<Vec<PathBuf>, Failure>,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        if let (Err(failure), Some(path)) = (&ended, &self.prometheus)
            && failure.exit() != Exit::Usage
            // The run was made, and the figures are there.
            && !matches!(failure, Failure::Output(_))
        {
            tell_of_failure(catalog, roots, path, failure);
        }
        match ended {
            Err(failure @ Failure::Output(_)) => Err(failure),
            // Nagios reads the first line of standard output and a code of its own.
            Err(failure) if self.nagios => {
                output.line(&metrics::nagios_failure(&failure.message()))?;
                Ok(Exit::Nagios(Service::Unknown))
            }
            ended => ended,
        }
    }
}

/// Figures that nobody renews look as if all were well.
fn tell_of_failure(
    catalog: &CatalogArgs,
    roots: &dyn Fn() -> Result<Vec<PathBuf>, Failure>,
    path: &Path,
    failure: &Failure,
) {
    let told = catalog.path().and_then(|catalog| {
        refuse_own(&catalog, path)?;
        let mut roots = roots()?;
        if roots.is_empty() {
            // All that the catalogue has, which cannot be asked.
            roots.push(PathBuf::new());
        }
        metrics::write_failure(path, failure, &roots, Moment::now())
    });
    if let Err(error) = told
        && error.message() != failure.message()
    {
        ui::say(PROGRAM, &error.message());
    }
}
