//! `verisum tag` and its companions: checksums in extended attributes. One module for each verb.

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
    /// Write the checksum of each file into its extended attributes
    #[command(
        long_about = "Write the checksum of each file into its extended attributes: this is its tag.\n\n\
            Tags new files, and files whose time of modification changed since they were tagged. Does not \
            read a file that still has the length and time in its tag. Bad data never replaces a tag: if the \
            content differs but the time of modification is the same, the file is reported and keeps its \
            tag. Files that change while they are read get no tag."
    )]
    Tag(tag::TagArgs),
    /// Read tagged files and compare them with their tags
    #[command(long_about = "Read tagged files and compare them with their tags.\n\n\
            A file is touched (same content, different time), modified (somebody wrote to it), rot \
            (different content, nobody wrote), suspicious (different content and the old time of \
            modification, but the ctime changed), flaky (two reads differ) or busy (it changes while it is \
            read). A file that looks bad is read a second time, past the page cache.")]
    Verify(verify::TagsVerifyArgs),
    /// Remove tags
    Untag(untag::UntagArgs),
    /// Replace tags of one digest by tags of another, and verify each file in the same read
    #[command(
        long_about = "Replace tags of one digest by tags of another, and verify each file in the same read.\n\n\
            Removes the old tag only after the new one is on the disk. You may interrupt the command at any \
            time and run it again: it continues. A file that is not as recorded is reported and keeps its \
            old tag."
    )]
    Retag(retag::RetagArgs),
    /// Count tagged, outdated and untagged files; reads no data
    Status(status::TagsStatusArgs),
    /// List the tags of files: digest, when the file was verified, how long ago; reads no data
    Tags {
        #[command(subcommand)]
        command: ListCommand,
    },
    /// Make tags from checksums that other tools left in attributes or lists
    #[command(
        long_about = "Make tags from checksums of other tools. Without --from and --indexes, these come \
            from attributes: plain user.checksum.*, shatag, cshatag and their forks, hashrat, checkit, \
            XRootD. The attributes of the other tools stay.\n\n\
            An adopted digest is not verified: the next `verisum verify` compares the files with it."
    )]
    Adopt(adopt::AdoptArgs),
}

/// What is done with tags as such.
#[derive(Debug, Subcommand)]
pub(crate) enum ListCommand {
    /// List the tags of files: digest, when the file was verified, how long ago; reads no data
    #[command(
        long_about = "List the tags of files: digest, when the file was verified, how long ago; reads no data.\n\n\
            A line has the digest, when the content was last verified and how long ago that was, whether \
            the tag fits the file (current; outdated if the file has another time; resized if it has \
            another length; untimed if the tag has no time), and the path. Files are listed as they are \
            found."
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
