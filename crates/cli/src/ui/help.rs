//! The parts that all help texts have: commands grouped by job, examples, exit codes, environment variables.
//!
//! It is put into the definition of the command line only where help is asked for: building it takes longer than
//! to hash a small file.

use clap::Command;

use verisum_bench::export::{Layout, columns};

use super::fact_line::filled;
use super::{config, examples, kernel, terminal};

/// What each exit code means, for help and manual; docs/exit-codes.md is their specification.
pub(crate) const EXIT_CODES: [(&str, &str); 4] = [
    ("0", "everything asked for was done, and nothing is wrong"),
    ("1", "a mismatch or corruption was found"),
    ("2", "bad usage: an unknown option, digest or value"),
    ("3", "something could not be checked, read or written, and nothing worse was found"),
];

/// The code after a signal, of what catches it.
const SIGNALLED: (&str, &str) =
    ("130", "ended by SIGINT, SIGTERM or SIGHUP; what was measured until then is kept");

/// The commands that keep what they measured when a signal ends them.
const MEASURING: [&str; 6] = [
    "verisum bench",
    "verisum bench digests",
    "verisum bench filesystem",
    "verisum bench files",
    "verisum bench image",
    "verisum recommend",
];

/// What the commands of examples begin with.
const COMMAND: &str = "      ";

/// What help begins with that has no room beside its option, and the least room for that.
const BELOW: &str = "          ";
const NARROW: usize = 20;

/// The environment variables, for help and manual.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] = [
    (
        kernel::VARIABLE,
        "the highest SIMD level: portable, shani, avx2 or avx512; on ARM portable, neon, sha2 or sha3; does not change the digests",
    ),
    (
        config::FILE_VARIABLE,
        "the configuration, in place of /etc/verisum.toml and ~/.config/verisum/config.toml; empty: none",
    ),
    (
        "VERISUM_<OPTION>",
        "the value of --<option> if the command line does not give it: VERISUM_CATALOG for --catalog",
    ),
];

/// The commands by the job that they do, in the order in which a newcomer needs them.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Start here", &["demo", "sum", "check", "scrub"]),
    (
        "Keep records in a catalogue, and verify for years",
        &["accept", "catalog", "report", "schedule", "notify"],
    ),
    ("Repair what is bad", &["repair", "parity"]),
    (
        "Keep checksums in the files' attributes",
        &["tag", "verify", "status", "tags", "retag", "untag", "adopt"],
    ),
    ("Compare and copy trees, bags, and disk images", &["compare", "copy", "bag", "image"]),
    ("Choose a digest, and measure", &["recommend", "digests", "bench", "dirhash"]),
    ("Set up", &["config", "links", "completions", "man"]),
];

/// Commands that somebody needs after each other for one catalogue, whatever job help lists them under.
const OF_CATALOGUES: [&str; 8] =
    ["scrub", "accept", "repair", "parity", "catalog", "report", "schedule", "notify"];

/// The definition of the command line with all that help says.
pub(crate) fn whole(command: Command) -> Command {
    let groups = groups(&command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\
         `verisum COMMAND --help` explains a command, with examples.\n\nOptions:\n{{options}}{{after-help}}"
    );
    complete(command.help_template(template), "verisum")
}

fn complete(command: Command, name: &str) -> Command {
    let codes = table("Exit codes", &exit_codes(name));
    let long = format!("{}{codes}\n\n{}", examples_of(name), table("Environment", &ENVIRONMENT));
    let command = command.after_help(codes).after_long_help(long);
    command.mut_subcommands(|verb| {
        let name = format!("{name} {}", verb.get_name());
        complete(verb, &name)
    })
}

/// The exit codes of a command, by its whole name.
pub(crate) fn exit_codes(name: &str) -> Vec<(&'static str, &'static str)> {
    EXIT_CODES.into_iter().chain(MEASURING.contains(&name).then_some(SIGNALLED)).collect()
}

/// The commands to read about next: the one above it, those that do the same job, and those for the same catalogue; of
/// the program, all.
pub(crate) fn related(name: &str) -> Vec<String> {
    let verb = name.split(' ').nth(1);
    let is_beside = |verbs: &[&str]| verb.is_none_or(|verb| verbs.contains(&verb));
    let groups = GROUPS.iter().map(|(_, verbs)| *verbs).chain([&OF_CATALOGUES[..]]);
    let beside = groups.filter(|verbs| is_beside(verbs)).flatten().map(|verb| format!("verisum {verb}"));
    let mut found: Vec<String> =
        name.rsplit_once(' ').map(|(above, _)| above.to_string()).into_iter().collect();
    for one in beside {
        if one != name && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn groups(command: &Command) -> String {
    let about = |verb: &str| {
        let found = command.find_subcommand(verb).and_then(Command::get_about);
        found.map(ToString::to_string).unwrap_or_default()
    };
    let rows = |verbs: &[&str]| -> String {
        verbs.iter().map(|verb| row(&format!("  {verb:<11}  "), &about(verb)) + "\n").collect()
    };
    GROUPS.iter().map(|(job, verbs)| format!("{job}:\n{}\n", rows(verbs))).collect()
}

fn examples_of(name: &str) -> String {
    let examples = examples::of(name);
    if examples.is_empty() {
        return String::new();
    }
    let mut text = "Examples:\n".to_string();
    for example in examples {
        text += &format!("  {}\n", example.purpose);
        text.extend(example.lines.iter().map(|line| format!("{COMMAND}{line}\n")));
    }
    text + "\n"
}

fn table(heading: &str, rows: &[(&str, &str)]) -> String {
    let rows = rows.iter().map(|(name, meaning)| row(&format!("  {name}  "), meaning));
    rows.fold(format!("{heading}:"), |text, row| format!("{text}\n{row}"))
}

/// Help as clap makes it, as wide as the terminal. The commands of examples are to be copied: nothing breaks them.
pub(crate) fn fitted(help: &str) -> String {
    let Layout { width, breaks_sentences: true, .. } = terminal::layout(false) else {
        return help.to_string();
    };
    let mut is_example = false;
    let mut lines = Vec::new();
    for line in help.lines() {
        is_example = line == "Examples:" || is_example && !line.is_empty();
        match is_example && line.starts_with(COMMAND) || columns(line) <= width {
            true => lines.push(line.to_string()),
            false => lines.extend(folded(line, width)),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A line in several: what follows an option stays beside it, where there is room.
fn folded(line: &str, width: usize) -> Vec<String> {
    let start = line.len() - line.trim_start().len();
    let is_name = (1..BELOW.len()).contains(&start);
    let gap = line[start..].find("  ").map(|at| start + at).filter(|_| is_name);
    let text = gap.map_or(start, |gap| line.len() - line[gap..].trim_start().len());
    let (name, words) = line.split_at(text);
    let words = |name: &str| {
        std::iter::once(name.to_string())
            .chain(words.split_inclusive(' ').map(String::from))
            .collect::<Vec<_>>()
    };
    if columns(name) + NARROW <= width {
        return filled(words(name).into_iter(), width, &" ".repeat(columns(name)));
    }
    let below = filled(words(BELOW).into_iter(), width, BELOW);
    std::iter::once(name.trim_end().to_string()).chain(below).collect()
}

/// A row of a table, as wide as the terminal.
fn row(name: &str, meaning: &str) -> String {
    let layout = terminal::layout(false);
    let width = if layout.breaks_sentences { layout.width } else { usize::MAX };
    let words = std::iter::once(name).chain(meaning.split_inclusive(' ')).map(String::from);
    filled(words, width, &" ".repeat(name.len())).join("\n")
}

/// The first paragraph of clap's message, and its advice.
pub(crate) fn one_line(text: &str) -> String {
    let mut paragraphs = text.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let mut line = words(first.strip_prefix("error: ").unwrap_or(first));
    for paragraph in paragraphs {
        if let Some(tip) = paragraph.trim_start().strip_prefix("tip: ") {
            line = format!("{line} ({})", words(tip));
        }
    }
    line
}

fn words(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_one_for_the_same_catalogue() {
        for name in ["verisum scrub", "verisum report", "verisum catalog list"] {
            let found = related(name);
            for next in ["verisum accept", "verisum repair", "verisum catalog", "verisum schedule"] {
                assert_eq!(found.iter().filter(|one| *one == next).count(), 1, "{name}: {found:?}");
            }
            assert!(!found.iter().any(|one| one == name), "{name}: {found:?}");
        }
        assert!(!related("verisum bench").iter().any(|one| one == "verisum repair"));
    }
}
