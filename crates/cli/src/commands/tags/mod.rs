//! `verisum tag` and its like: checksums in extended attributes. One module for each verb.

mod adopt;
mod list;
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

/// The verbs that deal with tags.
#[derive(Debug, Subcommand)]
pub(crate) enum TagsCommand {
    /// Record the checksum of each file in its extended attributes
    #[command(long_about = "Record the checksum of each file in its extended attributes: a tag.\n\n\
            Tags new files, and files that were written to since they were tagged, which the time of \
            modification tells. A file whose tag is up to date by length and time is not read. A tag is \
            never replaced because the data went bad: if the content differs and the time of \
            modification does not, that is reported and the tag stays. Files that change while they are \
            read get no tag.")]
    Tag(tag::TagArgs),
    /// Read tagged files and compare them with their tags
    #[command(long_about = "Read tagged files and compare them with their tags.\n\n\
            A finding is called touched (same content, different time), modified (written to), rot \
            (different content, nobody wrote), suspicious (different content, the old time of \
            modification, and the inode was changed), flaky (two reads differ) or busy (changes while it \
            is read). What looks bad is first read a second time, past the page cache.")]
    Verify(verify::TagsVerifyArgs),
    /// Remove tags
    Untag(untag::UntagArgs),
    /// Replace tags of one digest by tags of another, and verify each file in the same read
    #[command(
        long_about = "Replace tags of one digest by tags of another, and verify each file in the same read.\n\n\
            The old tag is removed only after the new one is durable. You may interrupt the command at \
            any time and run it again: it resumes. A file that is not as recorded keeps its old tag and \
            is reported."
    )]
    Retag(retag::RetagArgs),
    /// Count tagged, outdated and untagged files; reads no data
    Status(status::TagsStatusArgs),
    /// List the tags of files: digest, when it was verified, how long ago; reads no data
    Tags {
        #[command(subcommand)]
        command: ListCommand,
    },
    /// Make tags from checksums that other tools left in attributes or lists
    #[command(
        long_about = "Make tags from checksums that other tools left. Without --from and --indexes they come from \
            attributes: plain user.checksum.*, shatag, cshatag and their forks, hashrat, checkit, \
            XRootD. The other tools' attributes stay.\n\n\
            Adopted is not verified: the next `verisum verify` compares the files with what was adopted."
    )]
    Adopt(adopt::AdoptArgs),
}

/// What is done with tags as such.
#[derive(Debug, Subcommand)]
pub(crate) enum ListCommand {
    /// List the tags of files: digest, when it was verified, how long ago; reads no data
    #[command(
        long_about = "List the tags of files: digest, when it was verified, how long ago; reads no data.\n\n\
            A line has the digest, when the content was last found to have it and how long ago that was, how the tag \
            stands to the file (current; outdated if the file has another time; resized if it has another length; \
            untimed if the tag has no time), and the path. Files are listed as they are found."
    )]
    List(list::TagsListArgs),
}

/// Does what one of them says.
pub(crate) fn run(command: TagsCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        TagsCommand::Tag(arguments) => tag::run(arguments, output),
        TagsCommand::Verify(arguments) => verify::run(arguments, output),
        TagsCommand::Untag(arguments) => untag::run(arguments, output),
        TagsCommand::Retag(arguments) => retag::run(arguments, output),
        TagsCommand::Status(arguments) => status::run(arguments, output),
        TagsCommand::Tags { command: ListCommand::List(arguments) } => list::run(arguments, output),
        TagsCommand::Adopt(arguments) => adopt::run(arguments, output),
    }
}
