//! `verisum parity`: parity of trees, and repair with it. One module for each of its verbs.

mod create;
mod repair;
mod report;
mod update;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use verisum::files::{Progress, Stop};

use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::progress::{self, ProgressArgs, Total};
use crate::ui::signals::Ending;
use crate::ui::{Output, sizes};

/// The verbs of `verisum parity`.
#[derive(Debug, Subcommand)]
pub(crate) enum ParityCommand {
    /// Make parity of a tree
    #[command(
        long_about = "Make parity of all files below a directory, so that damage can be mended without another \
            copy.\n\n\
            Files are laid one after the other and cut into sets; each set has its parity in a file of its own \
            with the digest of every block. A set can be mended as long as no more of its blocks are lost than \
            it has parity blocks. Links, devices and pipes have no parity. What belongs to names (owner, \
            attributes) has none."
    )]
    Create(create::ParityCreateArgs),
    /// Renew the parity of what was written to
    #[command(long_about = "Renew the parity of files that are new, were written to (their size or time of \
            modification moved) or are gone. Only sets that have some of them are written again.\n\n\
            Before a set is given up, the files in it that nobody wrote to are compared with their digests. If \
            one is damaged, the set is kept, and the exit code is 1: repair first.")]
    Update(update::ParityUpdateArgs),
    /// Compare files and parity with the recorded digests
    #[command(
        long_about = "Read all files that have parity, and the parity itself, and print what is not as it was: \
            damaged (other bytes, or bytes that cannot be read, with the recorded time of modification), \
            missing, changed (somebody wrote to it: run update). Files that are new have no parity and are not \
            named.\n\n\
            With a PAR2 file instead of a directory, its set is read: the files beside it, and all PAR2 files \
            of the set."
    )]
    Verify(verify::ParityVerifyArgs),
    /// Mend damaged and missing files, and damaged parity
    #[command(long_about = "Mend damaged and missing files, and damaged parity.\n\n\
            A file is written anew beside the bad one, brought to the disk, read back and compared with every \
            recorded digest; only then does it take the bad one's place. Owner, permissions, times and \
            extended attributes stay. A file for which there is not parity enough is left as it is, and so is \
            one that somebody wrote to since, unless --changed says otherwise.\n\n\
            With a PAR2 file instead of a directory, the files beside it are mended from the PAR2 files of its \
            set. PAR2 records no times, so all that differs is mended; damaged PAR2 files stay as they are.")]
    Repair(repair::ParityRepairArgs),
}

/// What all of them take.
#[derive(Args, Debug)]
struct ParityTreeArgs {
    /// Print a line of JSON for each finding, and one with the totals
    #[arg(long)]
    json: bool,

    /// The directory of the parity files, for instance on another disk; without it, DIR/.verisum-parity
    #[arg(long, value_name = "PLACE", value_hint = ValueHint::DirPath)]
    to: Option<PathBuf>,

    /// Number of threads; without it, one for each core that this process may use
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<String>,

    #[command(flatten)]
    progress: ProgressArgs,

    /// The directory at the top of the tree; of verify and repair also a PAR2 file
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    tree: PathBuf,
}

impl ParityTreeArgs {
    /// The number of threads, if one was named.
    fn threads(&self, usual: usize) -> Result<usize, Failure> {
        Ok(self.threads.as_deref().map(sizes::threads).transpose()?.unwrap_or(usual))
    }

    /// Whether it is a PAR2 file. What else is no directory fails when it is opened.
    fn is_par2(&self) -> Result<bool, Failure> {
        let is_file = std::fs::metadata(&self.tree).is_ok_and(|metadata| metadata.is_file());
        match is_file && self.to.is_some() {
            true => Err(Failure::Usage("--to is for a directory, not for a PAR2 file".to_string())),
            false => Ok(is_file),
        }
    }

    /// Lets signals ask for the end of a run, so that it leaves nothing half done.
    fn ending(&self, stop: &mut Arc<Stop>) -> Result<Ending, Failure> {
        let ending = Ending::new()?;
        *stop = Arc::new(Stop::when(ending.asked().clone()));
        Ok(ending)
    }

    /// Does `work`, and shows the progress that it makes.
    fn watch<T>(
        &self,
        (progress, ending): (&Arc<Progress>, &Ending),
        work: impl FnOnce() -> Result<T, verisum::parity::ParityError>,
    ) -> Result<T, Failure> {
        let done = progress::of_files(self.progress.wanted(), Total::Unknown, progress, work);
        if done.is_err() {
            ending.obey();
        }
        Ok(done?)
    }
}

/// Does what one of them says.
pub(crate) fn run(command: ParityCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        ParityCommand::Create(arguments) => create::run(&arguments, output),
        ParityCommand::Update(arguments) => update::run(&arguments, output),
        ParityCommand::Verify(arguments) => verify::run(&arguments, output),
        ParityCommand::Repair(arguments) => repair::run(arguments, output),
    }
}
