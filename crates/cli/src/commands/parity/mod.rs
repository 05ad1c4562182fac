//! `verisum parity`: parity of trees, and repair with it. One module for each of its verbs.

mod create;
mod repair;
mod report;
mod update;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use verisum::files::{Progress, Stop};
use verisum::parity::ParityLocation;
use verisum::remote::{Address, Host, without_secrets};

use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{BucketArgs, StoreArgs};
use crate::ui::progress::{self, ProgressArgs, Total};
use crate::ui::signals::Ending;
use crate::ui::{Output, parity, sizes};

/// The verbs of `verisum parity`.
#[derive(Debug, Subcommand)]
pub(crate) enum ParityCommand {
    /// Make parity of a tree
    #[command(
        long_about = "Make parity of all files below a directory, to repair damage without another copy.\n\n\
            Puts the files one after the other and cuts them into sets. Each set has a file with its parity \
            and the digest of every block. A set can be repaired if it has lost no more blocks than it has \
            parity blocks. Links, devices, pipes, owners and attributes have no parity."
    )]
    Create(create::ParityCreateArgs),
    /// Renew the parity of what was written to
    #[command(long_about = "Renew the parity of files that are new, changed (by size or time of \
        modification) or gone. Writes only the sets that these files are in.\n\n\
            Before it replaces a set, it verifies the unchanged files in the set. If one is damaged, it \
            keeps the set and ends with 1: repair first.")]
    Update(update::ParityUpdateArgs),
    /// Compare files and parity with the recorded digests
    #[command(
        long_about = "Read all files that have parity, and the parity itself, and name files that are \
            damaged (other bytes, or bytes that cannot be read, with the recorded time of modification), \
            missing, or changed (somebody wrote to them: run update). New files have no parity and are not \
            named.\n\n\
            With a PAR2 file instead of a directory, read its set: the files beside it, and all PAR2 files \
            of the set."
    )]
    Verify(verify::ParityVerifyArgs),
    /// Repair damaged and missing files, and damaged parity
    #[command(long_about = "Repair damaged and missing files, and damaged parity.\n\n\
            Writes a new file beside the bad one, reads it back from the disk, and compares it with every \
            recorded digest. Only then does the new file replace the bad one. Owner, permissions, times and \
            extended attributes stay. Does not touch a file that has too little parity, or, without \
            --changed, a file that somebody wrote to since its parity was made.\n\n\
            With a PAR2 file instead of a directory, repair the files beside it from the PAR2 files of its \
            set. PAR2 records no times, so every file that differs is repaired. Damaged PAR2 files stay as \
            they are.")]
    Repair(repair::ParityRepairArgs),
}

/// What all of them take.
#[derive(Args, Debug)]
struct ParityTreeArgs {
    /// Print a line of JSON for each finding, and one with the totals
    #[arg(long)]
    json: bool,

    /// Print only problems; nothing if all is well
    #[arg(short, long)]
    quiet: bool,

    /// The directory of the parity files, for instance on another disk, or a place in a bucket
    /// (s3://BUCKET/PREFIX); without it, DIR/.verisum-parity
    #[arg(long, value_name = "PLACE", value_hint = ValueHint::DirPath)]
    to: Option<PathBuf>,

    #[command(flatten)]
    stores: StoreArgs,

    #[command(flatten)]
    threads: sizes::ThreadArgs,

    #[command(flatten)]
    progress: ProgressArgs,

    /// The directory at the top of the tree
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    tree: PathBuf,
}

impl ParityTreeArgs {
    /// Fails for addresses of hosts and buckets.
    fn require_local(&self, keep_bad: Option<&PathBuf>) -> Result<(), Failure> {
        for (option, path) in [("--keep-bad", keep_bad), ("DIR", Some(&self.tree))] {
            let Some(path) = path.filter(|path| !matches!(Address::typed(path.as_os_str()), Ok(None))) else {
                continue;
            };
            return Err(elsewhere(option, path, "must be on this machine: only --to takes addresses"));
        }
        Ok(())
    }

    /// Where the parity is, and how buckets are reached.
    fn parity(&self) -> Result<(ParityLocation<'_>, BucketArgs), Failure> {
        let buckets = self.stores.buckets()?;
        let Some(to) = &self.to else { return Ok((ParityLocation::Usual, buckets)) };
        let (bucket, root) = match Address::typed(to.as_os_str()) {
            Ok(None) => return Ok((ParityLocation::Directory(to), buckets)),
            Ok(Some(Address { host: Host::Bucket(bucket), path, .. })) => (bucket, path),
            Ok(Some(_)) => {
                return Err(elsewhere("--to", to, "must be a directory of this machine, or in a bucket"));
            }
            Err(must) => return Err(elsewhere("--to", to, must)),
        };
        let place = buckets.open(&bucket)?;
        let root = root.strip_suffix(b"/").unwrap_or(&root).to_vec();
        Ok((ParityLocation::Place { place: Box::new(place), root, name: to.clone() }, buckets))
    }

    /// Fails for addresses, and if it is a file.
    fn require_directory(&self, verb: &str) -> Result<(), Failure> {
        self.require_local(None)?;
        match self.tree.is_file() {
            true => Err(parity::of_directory(&format!("parity {verb} DIR"))),
            false => Ok(()),
        }
    }

    /// Whether it is a PAR2 file. What else is no directory fails when it is opened.
    fn is_par2(&self) -> Result<bool, Failure> {
        let is_file = std::fs::metadata(&self.tree).is_ok_and(|metadata| metadata.is_file());
        match is_file && self.to.is_some() {
            true => Err(parity::of_directory("parity verify --to PLACE DIR")),
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
        let done = progress::of_files(self.progress.show(), Total::Unknown, progress, work);
        if done.is_err() {
            ending.obey();
        }
        Ok(done?)
    }
}

/// What an address is not taken for.
fn elsewhere(option: &'static str, path: &Path, must: impl ToString) -> Failure {
    Failure::value(option, without_secrets(path.as_os_str()).to_string_lossy(), must.to_string())
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
