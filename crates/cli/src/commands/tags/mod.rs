//! `verisum tag` and its like: checksums in extended attributes. One module for each verb.

mod adopt;
mod lists;
mod options;
mod report;
mod retag;
mod status;
mod tag;
mod untag;
mod verify;

use clap::Subcommand;

use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::help::{exit_codes, with_environment};

/// The verbs that deal with tags.
#[derive(Debug, Subcommand)]
pub(crate) enum TagsCommand {
    /// Record the checksum of each file in an extended attribute of it
    #[command(
        long_about = "Record the checksum of each file in an extended attribute of it: attach a tag.\n\n\
            New files are tagged, and those that were written to since they were tagged, which the time of \
            modification tells. A file whose tag is up to date by length and time is not read. A tag is \
            never replaced because the data went bad: where the time of modification does not say that \
            the file was written to, another content is reported and the tag stays. Files that change \
            while they are read get no tag.",
        after_help = exit_codes(),
        after_long_help = with_environment()
    )]
    Tag(tag::TagArgs),
    /// Read tagged files and compare them with their tags
    #[command(
        long_about = "Read tagged files and compare them with their tags.\n\n\
            What is found is called: touched (same content, another time), modified (written to), rot \
            (other content, nobody wrote), suspicious (other content, the inode was changed, and the time \
            of modification is the old one), flaky (two reads differ), busy (changes while it is read). \
            What looks bad is read a second time past the page cache first.",
        after_help = exit_codes(),
        after_long_help = with_environment()
    )]
    Verify(verify::VerifyArgs),
    /// Remove tags
    #[command(after_help = exit_codes(), after_long_help = with_environment())]
    Untag(untag::UntagArgs),
    /// Replace tags of one digest by tags of another, verifying each file in the same read
    #[command(
        long_about = "Replace tags of one digest by tags of another, verifying each file in the same read.\n\n\
            The old tag goes only after the new one is durable. The command may be interrupted at any time \
            and run again: it goes on where it was. A file that is not as recorded keeps its old tag and is \
            reported.",
        after_help = exit_codes(),
        after_long_help = with_environment()
    )]
    Retag(retag::RetagArgs),
    /// Count tagged, outdated and untagged files without reading their data
    #[command(after_help = exit_codes(), after_long_help = with_environment())]
    Status(status::StatusArgs),
    /// Make tags of the checksums that other tools left in attributes or lists
    #[command(
        long_about = "Make tags of the checksums that other tools left, in attributes first of all: plain user.checksum.*, \
            shatag, cshatag and their forks, hashrat, checkit, XRootD. With --from they come from a manifest or an \
            index, with --indexes from those of chkbit and bitrot in the tree. Theirs stay. Adopted is not verified: \
            the next `verisum verify` compares the files with what was adopted.",
        after_help = exit_codes(),
        after_long_help = with_environment()
    )]
    Adopt(adopt::AdoptArgs),
}

/// Does what one of them says.
pub(crate) fn run(command: TagsCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        TagsCommand::Tag(arguments) => tag::run(arguments, output),
        TagsCommand::Verify(arguments) => verify::run(arguments, output),
        TagsCommand::Untag(arguments) => untag::run(arguments, output),
        TagsCommand::Retag(arguments) => retag::run(arguments, output),
        TagsCommand::Status(arguments) => status::run(arguments, output),
        TagsCommand::Adopt(arguments) => adopt::run(arguments, output),
    }
}
