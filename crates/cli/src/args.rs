//! The command line of `verisum`, as it is typed. Nothing here looks at files or digests.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use crate::blksum;
use crate::commands::bag::BagCommand;
use crate::commands::bench::BenchArgs;
use crate::commands::bench::recommend::RecommendArgs;
use crate::commands::compare::PlaceCompareArgs;
use crate::commands::complete::CompleteArgs;
use crate::commands::config::ConfigCommand;
use crate::commands::copy::CopyArgs;
use crate::commands::digests::DigestsArgs;
use crate::commands::dirhash::DirhashCommand;
use crate::commands::image::ImageCommand;
use crate::commands::notify::NotifyArgs;
use crate::commands::parity::ParityCommand;
use crate::commands::repair::RepairArgs;
use crate::commands::report::ReportArgs;
use crate::commands::scrub::ScrubCommand;
use crate::commands::sum::SumArgs;
use crate::commands::sum::links::LinksArgs;
use crate::commands::tags::TagsCommand;
use crate::ui::PROGRAM;
use crate::ui::config::Config;
use crate::ui::messages::MessageArgs;

/// Checksums for people who keep data for years
#[derive(Debug, Parser)]
#[command(name = "verisum", version)]
pub(crate) struct Verisum<C: Subcommand = Command> {
    #[command(subcommand)]
    pub(crate) command: C,

    #[command(flatten)]
    pub(crate) messages: MessageArgs,
}

/// All verbs.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it is moved once")]
pub(crate) enum AnyCommand {
    #[command(flatten)]
    Listed(Command),
    /// Print the reference of all commands as Markdown
    #[command(hide = true)]
    Reference,
    /// Print what the last word may become
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// Serve another verisum over standard input and output
    #[command(hide = true)]
    RemoteServe(crate::serve::ServeArgs),
}

/// The verbs that users are told of.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Image(ImageVerbs),
    #[command(flatten)]
    Sum(SumVerbs),
    #[command(flatten)]
    Tags(TagsCommand),
    #[command(flatten)]
    Check(CheckVerbs),
    #[command(flatten)]
    Scrub(ScrubCommand),
    /// Compare two or three trees, each on any machine, and say which copy is right
    #[command(
        long_about = "Compare two or three trees, each on any machine, and say which copy is right.\n\n\
            Names the files that differ, files that only A has (missing), and files that only B has (extra). \
            If two files differ, it says which of them has the content that the catalogue, their tags or a \
            list records; of three, which differs from the other two. If two files have different sizes, it \
            reads them only to find out which one is right. With --quick, it does not read files of the same \
            size and time, or files whose digests the catalogue has."
    )]
    Compare(Box<PlaceCompareArgs>),
    /// Restore bad and missing files to their recorded content, from other copies
    #[command(
        long_about = "Restore files that the catalogue calls bad or missing to their recorded content, from other \
            copies.\n\n\
            Run `verisum scrub` first: it finds the files that need a repair.\n\n\
            Looks for a copy of each file at the same path in every --from. If there is none, takes any file \
            there whose recorded content is the same. Without --from, looks in all trees of the \
            catalogue. Writes the new file beside the old one, reads it back past the page cache, and swaps \
            the two only if it has the recorded digest. Owner, mode, times and attributes stay.\n\n\
            Does not touch a file that changed since it was found bad. Files that are suspicious or held need \
            --keep-bad, because somebody may have written to them on purpose."
    )]
    Repair(Box<RepairArgs>),
    /// Write a page about the state of the whole archive
    #[command(long_about = "Write a page about the state of the whole archive.\n\n\
            The page is one HTML file that needs no network and no script. It shows the age of \
            verifications, bad and missing files and the commands that repair them, the runs, the forecast, \
            the largest and the stalest directories, how much room copies take, and how much data has no \
            copy. It comes from catalogues; no file is read. The exit code is that of `verisum catalog \
            status --max-age`.")]
    Report(ReportArgs),
    /// Run a command, and send a mail or a webhook if it fails
    #[command(long_about = "Run a command of verisum, and send a mail or a webhook if it fails.\n\n\
            Prints what the command prints. If the command fails, sends that output and the state of the \
            archive: by mail with the page of `verisum report`, to a webhook as JSON. Every exit code except \
            0 and 130 (ended by a signal) is a failure. Without a command, sends the state now, so that you \
            can try it. Mail goes through the machine's sendmail, which knows the server and the password. \
            The exit code is that of the command. If that is 0, but a recipient could not be reached or the \
            configuration has a mistake, it is 3.")]
    Notify(Box<NotifyArgs>),
    /// Make BagIt bags: directories with manifests of their files
    Bag {
        #[command(subcommand)]
        command: BagCommand,
    },
    /// Make, verify and use parity: repair damaged files without another copy
    Parity {
        #[command(subcommand)]
        command: ParityCommand,
    },
    /// Copy a tree or a file, and verify the copies
    #[command(long_about = "Copy a tree or a file, and verify the copies.\n\n\
            Hashes each file while it reads it, writes the copy to the disk, reads it back past the cache, \
            and only then gives it its name. If a file differs from its tag or the catalogue although \
            nobody wrote to it, the file is reported and not copied. TO gets all that FROM has, as with cp \
            -aT: owners, modes, times, links, holes, attributes. Does not read files that TO has with the \
            same size and time, so the next run continues an interrupted copy. Removes nothing at TO. FROM \
            or TO may be on another machine or in a bucket.")]
    Copy(Box<CopyArgs>),
    /// List the digests, and the implementation of each on this machine
    #[command(long_about = "List the digests, and the implementation of each on this machine.\n\n\
            STREAM is the implementation for one message after the other. shani (on ARM sha2, sha3) and \
            portable are verisum's own code, with the processor's SHA instructions and without them; \
            openssl is the libcrypto of the system; the others are Rust libraries. BATCH is verisum's own \
            code for many blocks of an image side by side: avx512 × 16 hashes 16 at once with AVX-512 \
            instructions. If it is -, blocks are hashed as streams. You can use OTHER SPELLINGS wherever \
            you name a digest.")]
    Digests(DigestsArgs),
    /// Compute, compare and attack hashes of directory indexes
    Dirhash {
        #[command(subcommand)]
        command: DirhashCommand,
    },
    /// Measure digests, programs and disks on this machine
    #[command(long_about = "Measure digests, programs and disks on this machine.\n\n\
            Without a command, it measures in less than a minute how fast each digest is computed here, and \
            how fast a file is read and hashed. Subjects run in turns and in random order. Values are \
            medians with 95% intervals. `no significant difference` means that chance may explain a \
            difference. Controls deliberately do less work, to show how much of a time is not hashing. A \
            time counts only if the digest is the same as verisum's own. The first SIGINT, SIGTERM or SIGHUP \
            ends it early: it keeps what it has measured, and ends with 130.")]
    Bench(Box<BenchArgs>),
    /// Measure files, disk and digests, and name the digest to use
    #[command(long_about = "Measure files, disk and digests, and name the digest to use.\n\n\
            Counts the files below DIR, and reads some of them from the disk to measure its speed. Then \
            hashes files of these sizes in memory with each candidate. Candidates that take at most 1.1 \
            times as long as the fastest count as equally fast; of these it recommends the one that suits \
            the purpose best. Writes only files that you ask for. The first SIGINT, SIGTERM or SIGHUP ends \
            it early, with exit code 130.")]
    Recommend(Box<RecommendArgs>),
    /// Show what verisum does, on a disk image that it makes
    Demo,
    /// Show which options get values from configuration files and the environment
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print the completions for a shell
    Completions {
        /// The program that is completed
        #[arg(long, value_name = "PROGRAM", default_value = PROGRAM, value_parser = [PROGRAM, blksum::PROGRAM])]
        program: String,

        /// The shell
        shell: Shell,
    },
    /// Write the manual pages
    Man {
        /// The folder to write them to
        #[arg(value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

/// The verb for images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerbs {
    /// Hash disk images of any format; map, compare, verify and repair them
    Image {
        #[command(subcommand)]
        command: ImageCommand,
    },
}

/// The verbs that print lists of checksums, or help to.
#[derive(Debug, Subcommand)]
pub(crate) enum SumVerbs {
    /// Print the digests of files
    #[command(long_about = "Print the digests of files, as md5sum and sha256sum do.\n\n\
            Reads and hashes many files at once. Lists them in the order in which you named them; with \
            --recursive, sorted by path unless --order says otherwise. Files on hosts may come in any order. \
            Computes several digests in one read. Does not read holes. `verisum check` verifies the list.")]
    Sum(Box<SumArgs>),
    /// Create links so that verisum replaces md5sum, sha256sum and the like
    Links(LinksArgs),
}

/// The verb that reads such lists.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckVerbs {
    /// Check files against lists of checksums
    #[command(long_about = "Check files against lists of checksums.\n\n\
            Reads lists of sha256sum and the like, OpenSSL, b3sum, xxhsum, RHash (SFV), hashdeep, mtree, \
            BagIt, `verisum sum --json` and `verisum image sum`, and recognizes their format. Without LIST, \
            or if it is -, reads standard input; a directory is a BagIt bag.")]
    Check(crate::commands::check::CheckArgs),
}

impl AnyCommand {
    /// Parses a command line, whose first word is the program's name.
    ///
    /// To build the definition of all verbs takes longer than to hash a small file. Where the first argument
    /// is a verb, only the definition of its group is built; all that clap says of a verb is the same then.
    pub(crate) fn parse(line: &[OsString], config: &Config) -> Result<Verisum<AnyCommand>, clap::Error> {
        let asked = (line, config);
        part(asked, Command::Sum)
            .or_else(|| part(asked, Command::Check))
            .or_else(|| part(asked, Command::Image))
            .or_else(|| part(asked, Command::Tags))
            .or_else(|| part(asked, Command::Scrub))
            .unwrap_or_else(|| parsed(asked))
    }
}

/// Parses a command line, with the values of the configuration where it gives none.
fn parsed<C: Subcommand>((line, config): (&[OsString], &Config)) -> Result<Verisum<C>, clap::Error> {
    if config.is_empty() {
        return Verisum::try_parse_from(line);
    }
    let configured = config.parse(Verisum::<C>::command, line)?;
    config.note(&configured);
    Verisum::from_arg_matches(&configured.matches)
}

/// Parses a command line whose verb is one of a group's, of which it makes a `whole` command.
fn part<C: Subcommand>(
    asked: (&[OsString], &Config),
    whole: impl Fn(C) -> Command,
) -> Option<Result<Verisum<AnyCommand>, clap::Error>> {
    let verb = asked.0.get(1)?.to_str()?;
    C::has_subcommand(verb).then(|| {
        let Verisum { command, messages } = parsed(asked)?;
        Ok(Verisum { command: AnyCommand::Listed(whole(command)), messages })
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use verisum::digest::ALGORITHMS;

    use super::*;
    use crate::commands::completions::with_digests;
    use crate::ui::examples;
    use crate::ui::help::GROUPS;

    #[test]
    fn the_definition_is_sound() {
        Verisum::<AnyCommand>::command().debug_assert();
        Verisum::<Command>::command().debug_assert();
    }

    #[test]
    fn a_group_of_verbs_says_what_the_whole_says() {
        let mut words =
            vec![String::new(), "help".to_string(), "--version".to_string(), "dgests".to_string()];
        words.extend(Verisum::<Command>::command().get_subcommands().map(|verb| verb.get_name().to_string()));
        assert!(words.len() > 20);
        for (word, option) in
            words.iter().flat_map(|word| [(word, "--help"), (word, "-h"), (word, "--thread")])
        {
            let line = ["verisum", word, option].map(OsString::from);
            let said = |parsed: Result<AnyCommand, clap::Error>| parsed.unwrap_err().render().to_string();
            let none = Config::default();
            let whole = Verisum::<AnyCommand>::try_parse_from(&line).map(|all| all.command);
            assert_eq!(
                said(AnyCommand::parse(&line, &none).map(|parsed| parsed.command)),
                said(whole),
                "{line:?}"
            );
        }
    }

    fn each(command: &clap::Command, name: &str, see: &mut impl FnMut(&clap::Command, &str)) {
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = format!("{name} {}", verb.get_name());
            see(verb, &name);
            each(verb, &name, see);
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Verisum::<Command>::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let mut verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    #[test]
    fn every_command_has_two_to_four_examples() {
        let mut wrong = Vec::new();
        each(&Verisum::<Command>::command(), "verisum", &mut |_, name| {
            let count = examples::of(name).len();
            if !(2..=4).contains(&count) {
                wrong.push(format!("{name} has {count}"));
            }
        });
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn options_of_one_name_have_one_letter() {
        let mut wrong = Vec::new();
        each(&Verisum::<Command>::command(), "verisum", &mut |verb, name| {
            for (long, letter) in [("dry-run", 'n'), ("quiet", 'q')] {
                let mut options = verb.get_arguments().filter(|option| option.get_long() == Some(long));
                if options.any(|option| option.get_short() != Some(letter)) {
                    wrong.push(format!("{name} --{long}"));
                }
            }
        });
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn arguments_stand_under_no_heading_of_options() {
        let mut wrong = Vec::new();
        each(&Verisum::<Command>::command(), "verisum", &mut |verb, name| {
            let under = verb.get_positionals().filter(|argument| argument.get_help_heading().is_some());
            wrong.extend(under.map(|argument| format!("{name} {argument}")));
        });
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn a_report_of_checksums_is_shown_where_it_is_taken() {
        let mut showing = Vec::new();
        each(&Verisum::<Command>::command(), "", &mut |verb, name| {
            let mut options = verb.get_arguments().filter(|option| !option.is_hide_set());
            if options.any(|option| option.get_long() == Some("checksum-report")) {
                showing.push(name.trim().to_string());
            }
        });
        assert_eq!(showing, ["scrub", "compare", "copy"]);
    }

    #[test]
    fn every_option_that_takes_a_digest_offers_them() {
        let whole = with_digests(Verisum::<Command>::command());
        let (mut taking, mut lack) = (0, Vec::new());
        each(&whole, "verisum", &mut |verb, name| {
            let takes_digest =
                |arg: &&clap::Arg| arg.get_value_names().is_some_and(|names| names[0].contains("DIGEST"));
            for arg in verb.get_arguments().filter(takes_digest) {
                taking += 1;
                if arg.get_possible_values().len() != ALGORITHMS.len() {
                    lack.push(format!("{name} {arg}"));
                }
            }
        });
        assert!(taking > 10 && lack.is_empty(), "{lack:?} of {taking}");
    }
}
