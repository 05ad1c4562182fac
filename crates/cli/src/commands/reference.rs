//! `verisum reference`: docs/commands.md, made from the definition of the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use clap::{Arg, Command};

use crate::ui::Output;
use crate::ui::examples;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::help::{ENVIRONMENT, GROUPS};

const HEAD: &str = "# Commands\n\n\
    The program makes this page: `cargo run -p verisum-cli -- reference > docs/commands.md`. The same texts are in \
    `verisum COMMAND --help` and in the manual pages. Every command takes `-h` and `--help`, and ends with one of \
    the [exit codes](exit-codes.md). Every command also takes `--log-file`, `--color`, and `-v` or `-vv` to [say \
    more](configuration.md#say-more).\n\n\
    Everywhere a size is a number of bytes (65536) or has a unit: `64k` and `64KiB` are 65536 bytes, `64KB` is 64000. A \
    rate is a size with its unit, `200MB/s`; a duration has units from seconds to years, `90s`, `1h30m`, `1.5h`, `35d`, `2y`.\n";

/// Prints the page.
pub(crate) fn run(command: Command, output: &mut Output) -> Result<Exit, Failure> {
    output.text(&page(command))?;
    Ok(Exit::Clean)
}

/// The text of the page.
pub(crate) fn page(command: Command) -> String {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let verbs: Vec<&Command> = command.get_subcommands().filter(|verb| !verb.is_hide_set()).collect();
    let mut page = HEAD.to_string();
    for (job, names) in GROUPS {
        let _ = writeln!(page, "\n| {} | what it does |\n|---|---|", job.to_lowercase());
        let of_job = names.iter().filter_map(|name| verbs.iter().find(|verb| verb.get_name() == *name));
        for verb in of_job {
            let name = verb.get_bin_name().unwrap_or_default();
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(page, "| [`{name}`](#{}) | {} |", name.replace(' ', "-"), cell(&about));
        }
    }
    let mut tables = SharedTables::new();
    verbs.iter().copied().for_each(|verb| collect(verb, &mut tables));
    tables.retain(|_, (commands, _)| *commands > 1);
    for verb in verbs {
        section(verb, 2, &tables, &mut page);
    }
    for (heading, (_, options)) in &tables {
        let _ =
            writeln!(page, "\n## {}\n\nEach command that takes some of these names them.", title(heading));
        table(heading, options.values().copied(), &mut page);
    }
    page.push_str("\n## Environment\n\n| variable | meaning |\n|---|---|\n");
    for (name, meaning) in ENVIRONMENT {
        let _ = writeln!(page, "| `{name}` | {} |", cell(meaning));
    }
    page
}

/// The tables of options that several commands have, by their headings: how many commands, and the options by name.
type SharedTables<'c> = BTreeMap<&'c str, (usize, BTreeMap<&'c str, &'c Arg>)>;

/// Adds the options of a command, and of those below it, that have a heading of their own.
fn collect<'c>(command: &'c Command, tables: &mut SharedTables<'c>) {
    let mut met = BTreeSet::new();
    for argument in listed(command).filter(|argument| !argument.is_positional()) {
        if let Some((heading, name)) = argument.get_help_heading().zip(argument.get_long()) {
            let (commands, options) = tables.entry(heading).or_default();
            *commands += usize::from(met.insert(heading));
            options.insert(name, argument);
        }
    }
    command.get_subcommands().filter(|verb| !verb.is_hide_set()).for_each(|verb| collect(verb, tables));
}

/// The arguments of a command that the page tells of. What all commands have is told of once, where configurations are.
fn listed(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_listed = |one: &&Arg| !one.is_hide_set() && !one.is_global_set();
    let is_own = |one: &&Arg| !matches!(one.get_id().as_str(), "help" | "version");
    command.get_arguments().filter(is_listed).filter(is_own)
}

/// The title of a table that several commands have.
fn title(heading: &str) -> String {
    let subject = heading.split(" (").next().unwrap_or_default();
    format!("Options for {}", subject.to_lowercase())
}

fn table<'a>(heading: &str, rows: impl IntoIterator<Item = &'a Arg>, page: &mut String) {
    let _ = writeln!(page, "\n| {} | meaning |\n|---|---|", heading.to_lowercase());
    for argument in rows {
        let _ = writeln!(page, "| `{}` | {} |", spelling(argument), meaning(argument));
    }
}

fn section(command: &Command, level: usize, shared: &SharedTables, page: &mut String) {
    let _ = writeln!(page, "\n{} {}", "#".repeat(level), command.get_bin_name().unwrap_or_default());
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let text = plain(&about.to_string());
        let end = if text.ends_with('.') { "" } else { "." };
        let _ = writeln!(page, "\n{text}{end}");
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let lines: Vec<&str> = usage.lines().map(str::trim).collect();
    let _ = writeln!(page, "\n```text\n{}\n```", lines.join("\n"));

    let mut tables: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for argument in listed(command) {
        let usual = if argument.is_positional() { "argument" } else { "option" };
        let heading = argument.get_help_heading().filter(|_| !argument.is_positional()).unwrap_or(usual);
        match tables.iter_mut().find(|(name, _)| *name == heading) {
            Some((_, rows)) => rows.push(argument),
            None => tables.push((heading, vec![argument])),
        }
    }
    tables.sort_by_key(|(heading, _)| (*heading != "argument", *heading != "option"));
    for (heading, rows) in tables {
        if !shared.contains_key(heading) {
            table(heading, rows, page);
            continue;
        }
        let names: Vec<String> =
            rows.iter().map(|one| format!("`--{}`", one.get_long().unwrap_or_default())).collect();
        let title = title(heading);
        let anchor = title.to_lowercase().replace(' ', "-");
        let _ = writeln!(page, "\n[{title}](#{anchor}): {}", names.join(", "));
    }
    let examples = examples::of(command.get_bin_name().unwrap_or_default());
    if !examples.is_empty() {
        page.push_str("\n```text\n");
        for example in examples {
            let _ = writeln!(page, "# {}\n{}", example.purpose, example.lines.join("\n"));
        }
        page.push_str("```\n");
    }
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        section(verb, level + 1, shared, page);
    }
}

/// `-a, --algorithm <DIGEST>`
fn spelling(argument: &Arg) -> String {
    // clap has the long name alone.
    let text = argument.to_string().replace('|', "\\|");
    match argument.get_short().filter(|_| argument.get_long().is_some()) {
        Some(short) => format!("-{short}, {text}"),
        None => text,
    }
}

/// The help of an argument, its values and the one that it has without it.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut text = cell(&help.map(ToString::to_string).unwrap_or_default());
    if !argument.is_hide_possible_values_set() && argument.get_action().takes_values() {
        let values = argument.get_possible_values();
        let values = values.iter().filter(|value| !value.is_hide_set()).map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), cell(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        });
        let values: Vec<String> = values.collect();
        if !values.is_empty() {
            let _ = write!(text, ". One of {}", values.join(", "));
        }
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        let _ = write!(text, " (default: `{}`)", defaults.join(" "));
    }
    text
}

/// A text for a cell of a table.
fn cell(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A text of which Markdown takes nothing but what stands between backticks.
fn plain(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => part.replace('*', "\\*").replace('<', "\\<").replace('_', "\\_"),
        _ => part.to_string(),
    });
    parts.collect::<Vec<_>>().join("`")
}
