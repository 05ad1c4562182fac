//! `verisum man`: the manual pages, made from the definition of the command line. Packagers use it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use clap::Arg;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use verisum::files::replace::open_trusted;

use crate::ui::examples;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::help::{self, ENVIRONMENT};

/// Writes a page for `verisum` and one for each subcommand.
pub(crate) fn run(command: &mut clap::Command, folder: &Path) -> Result<Exit, Failure> {
    // What is printed about `verisum help` is said by `verisum --help`.
    let mut command = std::mem::take(command).disable_help_subcommand(true);
    command.build();
    pages(&command, folder).map_err(|error| Failure::file(folder, "write", error))?;
    Ok(Exit::Clean)
}

fn pages(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands() {
        pages(subcommand, folder)?;
    }
    // clap_mangen has no text for an option that the short help leaves out.
    let man = Man::new(command.clone().mut_args(|option| option.hide_short_help(false)));
    let name = folder.join(man.get_filename());
    let mut file = open_trusted(&name, File::options().write(true).create(true).truncate(true))?;
    file.write_all(ascii(&page(&man, command)?).as_bytes())
}

fn page(man: &Man, command: &clap::Command) -> io::Result<String> {
    // The date is empty, which clap_mangen leaves out: what follows it would be in the wrong place.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH {name} 1 \"\" \"verisum {version}\" \"User Commands\"\n").into_bytes();
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let examples = examples::of(name);
    if !examples.is_empty() {
        shown(&examples).to_writer(&mut page)?;
    }
    table("EXIT STATUS", &help::exit_codes(name)).to_writer(&mut page)?;
    table("ENVIRONMENT", &ENVIRONMENT).to_writer(&mut page)?;
    see_also(name).to_writer(&mut page)?;
    String::from_utf8(page).map_err(io::Error::other)
}

/// The command line with the values of its options, which that of clap_mangen lacks.
fn synopsis(command: &clap::Command) -> Roff {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = vec![bold(name)];
    for option in command.get_opts() {
        line.push(roman(" ["));
        line.extend(spellings(option));
        for value in option.get_value_names().unwrap_or_default() {
            line.extend([roman(" "), italic(value.as_str())]);
        }
        line.push(roman("]"));
    }
    for flag in command.get_arguments().filter(|one| !one.is_positional() && !takes_value(one)) {
        line.push(roman(" ["));
        line.extend(spellings(flag));
        line.push(roman("]"));
    }
    for operand in command.get_positionals() {
        let name = operand.get_value_names().unwrap_or_default().join(" ");
        let many = operand.get_num_args().is_some_and(|number| number.max_values() > 1);
        let (open, close) = if operand.is_required_set() { ("", "") } else { ("[", "]") };
        line.extend([roman(format!(" {open}")), italic(name)]);
        line.push(roman(format!("{close}{}", if many { "..." } else { "" })));
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
    roff
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|number| number.takes_values())
}

/// `-a|--algorithm`
fn spellings(option: &Arg) -> Vec<Inline> {
    let short = option.get_short().map(|short| bold(format!("-{short}")));
    let long = option.get_long().map(|long| bold(format!("--{long}")));
    match (short, long) {
        (Some(short), Some(long)) => vec![short, roman("|"), long],
        (short, long) => short.into_iter().chain(long).collect(),
    }
}

fn table(heading: &str, rows: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    for (name, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(*name)]);
        roff.text([roman(format!("{meaning}."))]);
    }
    roff
}

/// Each example: what it is for, and below that what to type.
fn shown(examples: &[examples::Example]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for example in examples {
        roff.control("PP", []);
        roff.text([roman(example.purpose)]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        for line in &example.lines {
            roff.text([bold(*line)]);
        }
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff
}

fn see_also(name: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let mut line = Vec::new();
    for (at, related) in help::related(name).iter().enumerate() {
        line.extend((at > 0).then(|| roman(", ")));
        line.extend([bold(related.replace(' ', "-")), roman("(1)")]);
    }
    roff.text(line);
    roff
}

/// The names of characters in place of those that not every formatter reads.
fn ascii(page: &str) -> String {
    page.chars().fold(String::with_capacity(page.len()), |mut text, c| {
        match c.is_ascii() {
            true => text.push(c),
            false => {
                let _ = write!(text, "\\[u{:04X}]", u32::from(c));
            }
        }
        text
    })
}
