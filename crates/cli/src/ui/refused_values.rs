//! Finds values of the configuration that their options refuse, before a command does.
//!
//! Non-goals: values that only a file, a host or another option shows to be wrong.

use clap::error::ErrorKind;
use clap::{Arg, Command};
use verisum::catalog::store::Moment;

use super::failure::Failure;
use super::help::one_line;
use super::{digests, kernel, names, recipients, sizes, values};

/// Why an option of a command, or of one below it, refuses a value; none if it takes it.
pub(crate) fn why_refused(
    definition: &Command,
    words: &[String],
    option: &str,
    value: &str,
) -> Option<String> {
    let command = words.iter().try_fold(definition, |above, word| above.find_subcommand(word))?;
    let mut line: Vec<String> = std::iter::once("verisum".to_string()).chain(words.iter().cloned()).collect();
    let arg = find(command, option, &mut line)?;
    if !arg.get_action().takes_values() {
        return None;
    }
    if let Some(failure) = read(arg, value).err() {
        return Some(match failure {
            Failure::Value { must, .. } => format!("{}: {must}", names::quoted(value.as_ref())),
            other => other.message(),
        });
    }
    line.push(format!("--{option}={value}"));
    let error = definition.clone().try_get_matches_from(line).err()?;
    let is_of_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue);
    is_of_value.then(|| one_line(&error.render().to_string()))
}

/// An option of a command, or of one below it, to whose words it is added.
fn find<'c>(command: &'c Command, option: &str, words: &mut Vec<String>) -> Option<&'c Arg> {
    if let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(option)) {
        return Some(arg);
    }
    command.get_subcommands().find_map(|below| {
        words.push(below.get_name().to_string());
        let found = find(below, option, words);
        if found.is_none() {
            words.pop();
        }
        found
    })
}

/// Reads a value as the commands do that have the option, by what its value is called in help texts.
fn read(arg: &Arg, value: &str) -> Result<(), Failure> {
    let kind = arg.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    match (arg.get_long().unwrap_or_default(), kind) {
        ("since", _) => values::moment("", value, Moment::now()).map(drop),
        ("threads", _) => sizes::threads(value).map(drop),
        ("mail", _) => recipients::check_address(value),
        (_, "DURATION") => values::duration("", value).map(drop),
        (_, "RATE") => sizes::rate(value).map(drop),
        ("alarm-changed" | "sample", _) => values::share("", value).map(drop),
        ("block-size", _) | (_, "SIZE") if sizes::parse(value).is_none() => {
            Err(Failure::value("", value, sizes::SIZE))
        }
        (_, "DIGEST") => {
            let policy = kernel::policy()?;
            value.split(',').try_for_each(|name| digests::find(name, &policy).map(drop))
        }
        _ => Ok(()),
    }
}
