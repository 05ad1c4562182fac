//! `verisum`: parses the command line, runs a command, and reports how it ended.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use verisum::files::place::PlaceScheme;
use verisum::remote::without_secrets;

use crate::args::{AnyCommand, CheckVerbs, Command, ImageVerbs, SumVerbs, Verisum};
use crate::commands;
use crate::ui::config::{self, Config};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::help::one_line;
use crate::ui::hosts::takes_buckets;
use crate::ui::{self, Output, PROGRAM};
use crate::ui::{color, help, log, progress, verbosity};

/// The whole program.
pub fn main() -> ExitCode {
    // First, so that it stays small.
    if let Some(ended) = commands::bench::starter::called() {
        return ended;
    }
    ui::signals::survive_limits();
    verisum::files::hide_caught_panics();
    verisum::files::hash_in_page_cache();
    ui::secrets::learn_line(std::env::args_os());
    let mut output = Output::new();
    if let Some(personality) = commands::sum::called() {
        return personality.run(&mut output);
    }
    let begun = Instant::now();
    let mut config = Config::default();
    let result = run(&mut config, &mut output);
    // What was found before a failure is printed; a full disk is a failure of its own.
    let flushed = match result {
        Err(Failure::Output(_)) => Ok(()),
        _ => output.flush(),
    };
    let mut exit = *result.as_ref().unwrap_or(&output.worst());
    let mut said = String::new();
    for failure in result.err().into_iter().chain(flushed.err()) {
        let message = failure.message();
        ui::say(PROGRAM, &message);
        said += &message;
        exit = exit.then(failure.exit());
    }
    verbosity::end(begun.elapsed());
    if let Err(failure) = log::end(&format!("exit code {}", exit.code())) {
        ui::say(PROGRAM, &failure.message());
        exit = exit.then(failure.exit());
    }
    if exit == Exit::Usage && config.is_named_in(&said) {
        ui::say(PROGRAM, "some options have values of the configuration: `verisum config show` prints them");
    }
    exit.into()
}

fn run(config: &mut Config, output: &mut Output) -> Result<Exit, Failure> {
    let line: Vec<_> = std::env::args_os().collect();
    if !config::asks_for_help(&line, definition) {
        let read = Config::load(definition);
        // What a host answers is for a program, and shows nobody its configuration.
        if !line.iter().any(|word| word == "remote-serve") {
            ui::secrets::learn(read.values());
            read.endpoints().for_each(ui::secrets::learn_endpoint);
        }
        *config = read;
    }
    let Verisum { command, messages } = match parsed(&line, config)? {
        Ok(parsed) => parsed,
        Err(error) => return no_arguments(&line, &error, output),
    };
    // Nothing of it is told to anybody but the shell.
    if let AnyCommand::Complete(arguments) = &command {
        return commands::complete::run(arguments, config, definition(), output);
    }
    color::choose(messages.color);
    verbosity::choose(messages.verbose);
    if let Some(path) = messages.log_file {
        log::open(&path, &line)?;
    }
    config::tell_untyped();
    let command = match command {
        AnyCommand::Reference => return commands::reference::run(definition(), output),
        AnyCommand::RemoteServe(arguments) => return crate::serve::run(&arguments, output),
        AnyCommand::Complete(_) => return Ok(Exit::Clean),
        AnyCommand::Listed(command) => command,
    };
    if matches!(command, Command::Tags(_) | Command::Bag { .. } | Command::Recommend(_)) {
        refuse_buckets(&line)?;
    }
    // It asks the commands that hash many files for a status line. The others must not die of it.
    ui::signals::note_question(&Arc::default());
    // Manual pages are files.
    if !matches!(command, Command::Man { .. }) {
        output.ready()?;
    }
    let reads_trees = matches!(
        command,
        Command::Sum(SumVerbs::Sum(_))
            | Command::Tags(_)
            | Command::Check(_)
            | Command::Scrub(_)
            | Command::Repair(_)
            | Command::Copy(_)
    );
    if reads_trees {
        ui::reading::prepare_open_files()?;
    }
    match command {
        Command::Image(ImageVerbs::Image { command }) => commands::image::run(command, output),
        Command::Sum(SumVerbs::Sum(arguments)) => commands::sum::run(*arguments, output),
        Command::Sum(SumVerbs::Links(arguments)) => commands::sum::links::run(&arguments, output),
        Command::Tags(command) => commands::tags::run(command, output),
        Command::Check(CheckVerbs::Check(arguments)) => commands::check::run(arguments, output),
        Command::Scrub(command) => commands::scrub::run(command, config, output),
        Command::Repair(arguments) => progress::of_steps(arguments.progress.show(), "repairing", &[], || {
            commands::repair::run(&arguments, output)
        }),
        Command::Report(arguments) => {
            progress::of_steps(arguments.progress.show(), "reading", &commands::report::PASSES, || {
                commands::report::run(&arguments, output)
            })
        }
        Command::Notify(arguments) => commands::notify::run(&arguments, config, output),
        Command::Compare(arguments) => commands::compare::run(*arguments, output),
        Command::Bag { command } => commands::bag::run(&command, output),
        Command::Parity { command } => commands::parity::run(command, output),
        Command::Copy(arguments) => commands::copy::run(*arguments, output),
        Command::Digests(arguments) => commands::digests::run(&arguments, output),
        Command::Dirhash { command } => commands::dirhash::run(command, output),
        Command::Bench(arguments) => commands::bench::run(*arguments, output),
        Command::Recommend(arguments) => commands::bench::recommend::run(*arguments, output),
        Command::Demo => commands::demo::run(output),
        Command::Config { command } => commands::config::run(&command, (config, &definition()), output),
        Command::Completions { program, shell } => {
            let definition =
                if program == PROGRAM { definition() } else { commands::completions::of_blksum() };
            commands::completions::run(definition, shell, output)
        }
        Command::Man { folder } => commands::man::run(&mut definition(), &folder),
    }
}

/// Parses a command line, with what clap says of it. Fails if something is wrong in the configuration, unless that is
/// told of by the command itself.
fn parsed(
    line: &[OsString],
    config: &mut Config,
) -> Result<Result<Verisum<AnyCommand>, clap::Error>, Failure> {
    let mut parsed = AnyCommand::parse(line, config);
    while let Err(error) = &parsed
        && let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg)
        && let Some(option) = arg.strip_prefix("--").and_then(|option| option.split([' ', '=']).next())
        && config.take_back(line, option, &one_line(&error.render().to_string()))
    {
        parsed = AnyCommand::parse(line, config);
    }
    let is_notify = |command: &AnyCommand| matches!(command, AnyCommand::Listed(Command::Notify(_)));
    if !parsed.as_ref().is_ok_and(|parsed| is_notify(&parsed.command))
        && let Some(fault) = config.fault(line)
    {
        *config = Config::default();
        return Err(fault);
    }
    Ok(parsed)
}

/// Fails if a word is the address of something in a bucket, where a command takes paths of this machine only.
fn refuse_buckets(line: &[OsString]) -> Result<(), Failure> {
    let is_bucket = |word: &&OsString| {
        PlaceScheme::of(word.as_bytes()).is_some_and(|scheme| scheme.is_bucket)
            && Path::new(word).symlink_metadata().is_err()
    };
    match line.iter().skip(1).find(is_bucket) {
        Some(word) => {
            let verbs = takers_of_buckets(&definition()).join(", ");
            let must = format!("must be on this machine: only these commands take buckets: {verbs}");
            Err(Failure::value("PATH", without_secrets(word).to_string_lossy(), must))
        }
        None => Ok(()),
    }
}

/// The verbs that take addresses of buckets, in the order of the help.
fn takers_of_buckets(definition: &clap::Command) -> Vec<&'static str> {
    let verbs = help::GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied());
    verbs.filter(|verb| definition.find_subcommand(verb).is_some_and(takes_buckets)).collect()
}

/// The definition of the command line.
fn definition() -> clap::Command {
    Verisum::<Command>::command()
}

/// Help and version are printed; any other error becomes one line.
fn no_arguments(line: &[OsString], error: &clap::Error, output: &mut Output) -> Result<Exit, Failure> {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp => {
            let whole = help::whole(Verisum::<AnyCommand>::command());
            let said = whole.try_get_matches_from(line).map_or_else(|error| error.render(), |_| text);
            output.text(&help::fitted(&said.to_string()))?;
            Ok(Exit::Clean)
        }
        ErrorKind::DisplayVersion => {
            output.text(&text.to_string())?;
            Ok(Exit::Clean)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Err(Failure::Usage("a command is missing (--help lists them)".to_string()))
        }
        _ => {
            let said = || one_line(&text.to_string()) + hint_of_map(line, error).unwrap_or_default();
            Err(Failure::Usage(hint(error).unwrap_or_else(said)))
        }
    }
}

/// What to say to those who name no block map, or name one as if it were an image.
fn hint_of_map(line: &[OsString], error: &clap::Error) -> Option<&'static str> {
    let verb = line.get(2).filter(|_| line.get(1).is_some_and(|word| word == "image"))?;
    if !["verify", "repair", "update"].iter().any(|with_map| verb == with_map) {
        return None;
    }
    let is_map = |missing: &String| missing.starts_with("--map ");
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing)))
            if missing.iter().any(is_map) =>
        {
            Some(" (`verisum image map -o MAP IMAGE` makes a map while the image is good)")
        }
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) if !word.starts_with('-') => {
            Some(" (one image is named here: --map names its block map, and --from of `repair` a copy)")
        }
        _ => None,
    }
}

/// What to say to those who expect something that other tools have; clap would name what looks alike.
fn hint(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if option == "-c" || option == "--check" => {
            Some(format!("{option}: lists are checked by `verisum check`"))
        }
        _ => {
            let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
                return None;
            };
            let (_, meant) = MEANT.iter().find(|(typed, _)| typed == verb)?;
            Some(format!("unrecognized subcommand '{verb}' (did you mean `{meant}`?)"))
        }
    }
}

/// Verbs that are not, and those that they stand for.
const MEANT: [(&str, &str); 1] = [("digest", "verisum digests")];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Verisum;

    #[test]
    fn the_page_of_commands_is_what_the_parser_has() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == commands::reference::page(definition()),
            "docs/commands.md is not what the parser has; renew it: \
             cargo run -p verisum-cli -- reference > docs/commands.md"
        );
    }

    #[test]
    fn clap_is_brief() {
        let error = |arguments: &[&str]| {
            one_line(&Verisum::<AnyCommand>::try_parse_from(arguments).unwrap_err().render().to_string())
        };
        assert_eq!(
            error(&["verisum", "image", "sum", "--thread", "3"]),
            "unexpected argument '--thread' found (a similar argument exists: '--threads')"
        );
        assert_eq!(
            error(&["verisum", "image", "sum", "-a"]),
            "a value is required for '--algorithm <DIGEST>' but none was supplied"
        );
        assert_eq!(
            error(&["verisum", "dgests"]),
            "unrecognized subcommand 'dgests' (a similar subcommand exists: 'digests')"
        );
    }
}
