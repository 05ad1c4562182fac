//! What a terminal is shown: tables that are no wider than it, and outcomes in colour.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, VERISUM, change_and_restore_time, command, data_file};
use tempfile::TempDir;
use verisum_testkit::require_tool;

struct Trial {
    _folder: TempDir,
    path: PathBuf,
}

impl Trial {
    /// A tree that is recorded in a catalogue, in tags and in a list, and in which a file has rotted since.
    fn new() -> Trial {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::create_dir(path.join("tree")).unwrap();
        for number in 0..3 {
            fs::write(path.join(format!("tree/f{number}")), format!("content {number}")).unwrap();
        }
        let trial = Trial { _folder: folder, path };
        trial.run("scrub --quiet --catalog c.db tree", &[]).clean();
        trial.run("tag --quiet tree", &[]).clean();
        let list = trial.run("sum --recursive tree", &[]).clean();
        fs::write(trial.path.join("list"), list).unwrap();
        change_and_restore_time(&trial.path.join("tree/f1"), "CONTENT 1");
        trial
    }

    fn command(&self, words: &str) -> Command {
        let mut command = command(VERISUM);
        command.args(words.split(' ')).current_dir(&self.path).env_remove("COLUMNS").env_remove("NO_COLOR");
        command.env("HOME", &self.path).env("XDG_STATE_HOME", self.path.join("state"));
        command
    }

    fn run(&self, words: &str, environment: &[(&str, &str)]) -> Ended {
        Ended::of(self.command(words).envs(environment.iter().copied()).output().unwrap())
    }

    /// What a terminal gets of a command.
    fn on_terminal(&self, script: &Path, words: &str, environment: &[(&str, &str)]) -> String {
        let mut terminal = command(script.to_str().unwrap());
        terminal.args(["-q", "-e", "-c", &format!("{VERISUM} {words}"), "/dev/null"]);
        terminal.current_dir(&self.path).env_remove("NO_COLOR").env("TERM", "xterm");
        terminal.env("HOME", &self.path).env("XDG_STATE_HOME", self.path.join("state"));
        terminal.envs(environment.iter().copied());
        String::from_utf8(terminal.output().unwrap().stdout).unwrap()
    }
}

/// All commands that print tables, with little to do.
const TABLES: [&str; 14] = [
    "digests",
    "digests --measure",
    "bench digests --runs 2 -a md5 --only process --message 1k",
    "bench digests --runs 2 -a md5 --details --export-json r.json data",
    "bench files --runs 2 --way md5sum --way verisum --details tree/f0 data",
    "bench image --runs 1 --only commands --size 1M --image 50 --details",
    "bench compare r.json r.json --details",
    "recommend --on . --for 1s --details",
    // The table is the same whatever the number of samples.
    "dirhash cost --samples 5",
    "dirhash quality -n 1000",
    "dirhash names -n 1000",
    "dirhash bakeoff -n 1000",
    "dirhash steady -n 1000 --cycles 2",
    "dirhash attack -n 10",
];

#[test]
fn no_table_is_wider_than_the_terminal() {
    let trial = Trial::new();
    data_file(&trial.path, "data", 100_000);
    for words in TABLES {
        for width in ["40", "80"] {
            let ended = trial.run(words, &[("COLUMNS", width)]);
            assert!(
                matches!(ended.code, Some(0 | 3)) && !ended.stdout.is_empty(),
                "{words}: {}",
                ended.stderr
            );
            let most: usize = width.parse().unwrap();
            for line in ended.out().lines() {
                assert!(
                    line.chars().count() <= most,
                    "{words}: wider than {width}: {line:?}\n{}",
                    ended.out()
                );
            }
        }
    }
    // Where there is no terminal: 80 columns.
    let ended = trial.run("bench digests --runs 2 -a md5 --details data", &[]);
    let is_row = |line: &&str| line.starts_with("verisum  ") || line.starts_with("what ");
    assert!(ended.out().lines().filter(is_row).all(|line| line.len() <= 80), "{}", ended.out());
}

/// But for the commands of examples, which are to be copied.
#[test]
fn help_fits_the_terminal() {
    let trial = Trial::new();
    let page = fs::read_to_string(common::repository().join("docs/commands.md")).unwrap();
    let commands: Vec<&str> = page
        .lines()
        .filter_map(|line| {
            line.trim_start_matches('#').strip_prefix(" verisum ").filter(|_| line.starts_with("##"))
        })
        .collect();
    assert!(commands.len() > 40, "{commands:?}");
    let words_of = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    for command in std::iter::once("").chain(commands) {
        for (option, widths) in [("--help", &[60, 80, 120][..]), ("-h", &[80])] {
            let words = format!("{command} {option}");
            let words = words.trim_start();
            let piped = words_of(&trial.run(words, &[]).clean());
            for width in widths {
                let help = trial.run(words, &[("COLUMNS", &width.to_string())]).clean();
                let (before, examples) = help.split_once("Examples:").unwrap_or((&help, ""));
                let examples = examples.lines().filter(|line| !line.starts_with("      "));
                let wide = before.lines().chain(examples).find(|line| line.chars().count() > *width);
                assert_eq!(wide, None, "{words} at {width}");
                assert_eq!(words_of(&help), piped, "{words} at {width}: it says the same");
            }
        }
    }
    let piped = trial.run("sum --help", &[]).clean();
    assert!(
        piped.contains("avx512; on ARM portable, neon, sha2 or sha3; does not change the digests\n"),
        "{piped}"
    );
}

/// On a terminal the facts of a file come below its name where there is no room beside. Only names and commands, which
/// are to be copied, may be wider than the terminal.
#[test]
fn lines_about_files_fit_the_terminal_but_for_names_and_commands() {
    let Some(script) = require_tool("script") else { return };
    let trial = Trial::new();
    trial.run("scrub --catalog c.db tree", &[]);
    for words in [
        "catalog status --catalog c.db",
        "catalog list --catalog c.db",
        "catalog list --bad --catalog c.db",
        "scrub --catalog c.db tree",
        "accept --dry-run --catalog c.db tree",
        "repair --dry-run --catalog c.db tree",
        "tags list tree",
    ] {
        for width in [40, 80] {
            let columns = ("COLUMNS", &*width.to_string());
            let shown = trial.on_terminal(&script, words, &[columns, ("NO_COLOR", "1")]);
            // Names in this tree have a slash, and commands begin like this.
            let lines = shown.lines().map(|line| line.rsplit('\r').next().unwrap_or_default());
            let is_whole = |line: &str| line.contains('/') || line.contains("`verisum ");
            let digest = |line: &str| line.split(' ').any(|word| word.len() == 64);
            let mut wide = lines.filter(|line| line.chars().count() > width && !is_whole(line));
            let too_wide = wide.find(|line| width >= 80 || !digest(line));
            assert_eq!(too_wide, None, "{words} at {width}:\n{shown}");
            assert!(shown.contains("tree"), "{words}: {shown}");
        }
        // Programs get a line for each file.
        let piped = trial.run(words, &[("COLUMNS", "40")]);
        let mut of_files = piped.out().lines().filter(|line| line.contains("tree/"));
        assert!(words.contains("list") || of_files.all(|line| !line.starts_with("  ")), "{}", piped.out());
        assert!(!words.contains("list") || of_files.all(|line| line.len() > 80), "{}", piped.out());
    }
}

#[test]
fn what_mends_a_tree_fits_the_terminal_but_for_the_command() {
    let Some(script) = require_tool("script") else { return };
    let trial = Trial::new();
    let shown =
        trial.on_terminal(&script, "scrub --catalog c.db tree", &[("COLUMNS", "60"), ("NO_COLOR", "1")]);
    let lines: Vec<&str> =
        shown.lines().map(|line| line.rsplit(['\r', '\x1b']).next().unwrap_or_default()).collect();
    assert!(lines.iter().any(|line| line.starts_with("    `verisum repair ")), "{shown}");
    // It stands below the counts.
    let at =
        |part: &str| lines.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{shown}"));
    assert!(at("  ok 2, suspicious 1") < at("1 file is bad"), "{shown}");
}

/// A terminal breaks sentences, also messages and what a command came to; a pipe gets each as one line.
#[test]
fn every_sentence_fits_the_terminal() {
    let Some(script) = require_tool("script") else { return };
    let trial = Trial::new();
    fs::create_dir(trial.path.join("untagged")).unwrap();
    fs::write(trial.path.join("untagged/file"), "content").unwrap();
    for (command, said) in [
        ("catalog check --catalog c.db", "have no check values)"),
        ("verify untagged", "has those of files that take none)"),
        ("verify --foo tree", "unexpected argument '--foo' found"),
        ("sum --prefix-of-nothing-that-is-known tree", "unexpected argument '--prefix-of-nothing"),
    ] {
        let shown = trial.on_terminal(&script, command, &[("COLUMNS", "50"), ("NO_COLOR", "1")]);
        let lines = shown.lines().map(|line| line.rsplit('\r').next().unwrap_or_default());
        let wide = lines.into_iter().find(|line| line.chars().count() > 50 && !line.contains('/'));
        assert_eq!(wide, None, "{command}: {shown}");
        let shown = words(&shown);
        assert!(shown.contains(&words(said)), "{command}: {shown}");
        let piped = trial.run(command, &[]);
        let whole = |text: &str| text.lines().any(|line| line.contains(said));
        assert!(whole(piped.out()) || whole(&piped.stderr), "{command}: {}{}", piped.out(), piped.stderr);
    }
}

/// Such a terminal shows escape sequences as they are.
#[test]
fn a_dumb_terminal_gets_no_escape_sequences() {
    let Some(script) = require_tool("script") else { return };
    let trial = Trial::new();
    data_file(&trial.path, "data", 3 << 20);
    let command = "sum --progress --limit 6MiB/s data";
    let shown = |term| trial.on_terminal(&script, command, &[("TERM", term)]);
    assert!(shown("xterm").contains('\x1b'));
    let dumb = shown("dumb");
    assert!(dumb.contains("  data") && !dumb.contains('\x1b'), "{dumb:?}");
}

#[test]
fn what_is_written_to_a_file_needs_one() {
    let trial = Trial::new();
    for command in [
        "scrub --catalog c.db --prometheus - tree",
        "catalog status --catalog c.db --prometheus -",
        "schedule --catalog c.db --prometheus - tree",
        "sum --log-file - tree/f0",
    ] {
        let ended = trial.run(command, &[]);
        assert_eq!(ended.code, Some(2), "{command}: {}", ended.stderr);
        assert!(ended.stderr.contains("must be a file, and no standard stream"), "{}", ended.stderr);
        assert!(!trial.path.join("-").exists(), "{command}");
    }
}

#[test]
fn what_tags_are_worth_fits_the_terminal() {
    let Some(script) = require_tool("script") else { return };
    let trial = Trial::new();
    let shown = trial.on_terminal(&script, "status tree", &[("COLUMNS", "40"), ("NO_COLOR", "1")]);
    assert!(shown.contains("current") && shown.contains("recorded"), "{shown}");
    let lines = shown.lines().map(|line| line.rsplit('\r').next().unwrap_or_default());
    assert!(lines.into_iter().all(|line| line.chars().count() <= 40), "{shown}");
}

/// The commands that say an outcome, the word, and its colour when it is bad.
const OUTCOMES: [(&str, &str); 5] = [
    ("scrub --catalog c.db tree", "\x1b[1m\x1b[31m"),
    ("catalog list --bad --catalog c.db", "\x1b[1m\x1b[31m"),
    ("verify tree", "\x1b[1m\x1b[31m"),
    ("check list", "\x1b[1m\x1b[31mFAILED\x1b[0m"),
    ("compare tree other", "\x1b[1m\x1b[31mDIFFERS\x1b[0m"),
];

#[test]
fn outcomes_have_colour_on_a_terminal_and_nowhere_else() {
    let trial = Trial::new();
    fs::create_dir(trial.path.join("other")).unwrap();
    for file in ["f0", "f1", "f2"] {
        fs::write(trial.path.join("other").join(file), "of another kind").unwrap();
    }
    for (words, red) in OUTCOMES {
        let plain = trial.run(words, &[]);
        assert_eq!(plain.code, Some(1), "{words}: {}", plain.stderr);
        assert!(!plain.out().contains('\x1b'), "{words}: {}", plain.out());
        let always = trial.run(&format!("{words} --color always"), &[("NO_COLOR", "1")]);
        assert!(always.out().contains(red), "{words}: {:?}", always.out());
        // The same but for the colours.
        let mut text = always.out().to_string();
        for code in ["\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[0m"] {
            text = text.replace(code, "");
        }
        assert!(!text.contains('\x1b'), "{words}: {text:?}");
    }
    let Some(script) = require_tool("script") else { return };
    for (words, red) in OUTCOMES {
        let shown = trial.on_terminal(&script, words, &[]);
        assert!(shown.contains(red), "{words}: {shown:?}");
        for (words, environment) in
            [(words.to_string(), ("NO_COLOR", "1")), (format!("{words} --color never"), ("X", ""))]
        {
            let shown = trial.on_terminal(&script, &words, &[environment]);
            assert!(!shown.contains("\x1b[3") && !shown.is_empty(), "{words}: {shown:?}");
        }
    }
    // A name has no say in colours.
    fs::write(trial.path.join("tree/\x1b[31mred"), "x").unwrap();
    let shown = trial.on_terminal(&script, "scrub --verbose --catalog c.db tree", &[]);
    assert!(shown.contains("\\033[31mred"), "{shown:?}");
}

#[test]
fn what_is_bad_is_a_paragraph_on_a_terminal_and_a_line_elsewhere() {
    let trial = Trial::new();
    assert_eq!(trial.run("scrub --quiet --catalog c.db tree", &[]).code, Some(1));
    let words = "catalog list --bad --catalog c.db";
    let plain = trial.run(words, &[]);
    assert_eq!((plain.code, plain.out().lines().count()), (Some(1), 1), "{}", plain.out());
    let Some(script) = require_tool("script") else { return };
    let shown = trial.on_terminal(&script, words, &[("NO_COLOR", "1")]);
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert!(lines[0].ends_with("/tree/f1") && lines[1].starts_with("  since 20"), "{shown}");
    let command = lines.last().unwrap();
    assert!(command.starts_with("  mend it from a copy: verisum repair "), "{shown}");
    // The same in other lines.
    assert_eq!(self::words(&shown), self::words(plain.out()));
}

/// The words of a text, however they are set.
fn words(text: &str) -> String {
    text.replace([';', '(', ')'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The bytes of `1.5 MiB` and the like.
fn bytes(number: &str, unit: &str) -> f64 {
    let power = ["bytes", "KiB", "MiB", "GiB"].iter().position(|known| *known == unit.trim_end_matches("/s"));
    number.parse::<f64>().unwrap() * 1024_f64.powi(power.unwrap_or_else(|| panic!("{unit}")) as i32)
}

#[test]
fn a_first_scrub_knows_how_much_there_is_and_reads_no_holes() {
    let Some(script) = require_tool("script") else { return };
    let trial = Trial::new();
    fs::create_dir(trial.path.join("images")).unwrap();
    for name in ["a", "b", "c"] {
        data_file(&trial.path.join("images"), name, 2 << 20);
    }
    let holes = fs::File::create(trial.path.join("images/holes")).unwrap();
    holes.set_len(256 << 20).unwrap();
    let words = "scrub --threads 1 --limit 2MiB/s --catalog new.db images";
    let drawn = trial.on_terminal(&script, words, &[("COLUMNS", "120")]);
    let lines: Vec<Vec<&str>> = drawn.split("\x1b[K").map(|line| line.split_whitespace().collect()).collect();
    let mut wholes = Vec::new();
    for line in &lines {
        // `1.5 MiB of 6 MiB  2 MiB/s  0:02 left`
        if let Some(at) = line.windows(3).position(|words| words[0].ends_with("iB") && words[1] == "of") {
            wholes.push(bytes(line[at + 2], line[at + 3]));
        }
        for rate in line.windows(2).filter(|words| words[1].ends_with("iB/s")) {
            assert!(bytes(rate[0], rate[1]) < 4.0 * 1024.0 * 1024.0, "{line:?}");
        }
    }
    assert!(!wholes.is_empty() && drawn.contains(" of 4 files "), "{drawn:?}");
    // It does not grow with what is read, and gets less where a hole is met.
    assert!(wholes.is_sorted_by(|one, next| one >= next), "{wholes:?}");
}

#[test]
fn work_on_a_catalogue_says_how_far_it_is() {
    let Some(script) = require_tool("script") else { return };
    let trial = Trial::new();
    let exported = trial.run("catalog export --catalog c.db", &[]).clean();
    let (last, others) = exported.lines().next_back().zip(exported.lines().next()).unwrap();
    let more = (0..5000).map(|number| last.replace("\"f2\"", &format!("\"many-{number}\"")) + "\n");
    fs::write(trial.path.join("many.json"), format!("{others}\n") + &more.collect::<String>()).unwrap();
    trial.run("catalog import --catalog many.db many.json", &[]).clean();
    // Nobody takes what it writes for a while.
    let words = "catalog export --progress --catalog many.db | (sleep 1; cat > out)";
    let drawn = trial.on_terminal(&script, words, &[]);
    let mut lines = drawn.split("\x1b[K").map(|line| line.trim_end_matches('\r'));
    let line = lines.find(|line| line.contains(" of 5000 files  "));
    let line = line.unwrap_or_else(|| panic!("{drawn:?}"));
    assert!(line.starts_with("at work on the catalogue  ") && line.contains('%'), "{line:?}");
    assert!(line.contains("/s  0:") && line.ends_with(" left") && line.chars().count() < 80, "{line:?}");
}

#[test]
fn a_comparison_says_how_much_it_reads() {
    let Some(script) = require_tool("script") else { return };
    let trial = Trial::new();
    for tree in ["a", "b"] {
        fs::create_dir(trial.path.join(tree)).unwrap();
        fs::File::create(trial.path.join(tree).join("long")).unwrap().set_len(256 << 20).unwrap();
    }
    let drawn = trial.on_terminal(&script, "compare --progress a b", &[]);
    assert!(drawn.contains(" of 512 MiB  ") && drawn.contains(" left"), "{drawn:?}");
}
