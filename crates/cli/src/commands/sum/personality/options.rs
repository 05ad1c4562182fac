//! Parses the options of the imitated programs, and prints their messages about unknown options.

use std::ffi::{OsStr, OsString};

use verisum::digest::MAX_DIGEST_LEN;
use verisum::digest::cksum::Checksum;

use super::ProgramFamily;
use crate::ui;
use crate::ui::getopt::{self, Definition, ParsedOption};
use crate::ui::locale::quoted;

/// What a program was asked for.
#[derive(Debug)]
pub(super) enum Asked {
    Help,
    Version,
    Work(PersonalityOptions),
}

/// The options that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PersonalityOptions {
    pub(super) algorithm: Option<String>,
    /// Of the digest, in bits.
    length: Option<u64>,
    /// The length as it was typed.
    typed: OsString,
    /// The length of a digest of BLAKE3.
    pub(super) bytes: Option<usize>,
    pub(super) binary: Option<bool>,
    pub(super) check: bool,
    pub(super) tag: Option<bool>,
    pub(super) zero: bool,
    pub(super) ignore_missing: bool,
    pub(super) quiet: bool,
    pub(super) status: bool,
    pub(super) strict: bool,
    pub(super) warn: bool,
    pub(super) little_endian: bool,
    pub(super) no_names: bool,
    pub(super) raw: bool,
    pub(super) threads: Option<usize>,
    pub(super) files: Vec<OsString>,
}

/// What a program says when it does not take its options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    messages: Vec<String>,
    /// Lines after them, without the program's name.
    more: Vec<String>,
    /// Whether it names its help.
    pub(super) hint: bool,
}

/// A row of the table of options.
struct OptionRow {
    programs: &'static [ProgramFamily],
    definition: Definition,
    /// Its value in help.
    value: &'static str,
    help: &'static str,
}

/// The most bits of BLAKE2b.
const MOST_BITS: u64 = 512;

/// What cksum 9.1 takes, in the order in which it says so.
const BY_CKSUM: [&str; 11] =
    ["bsd", "sysv", "crc", "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "sm3"];

const GNU: &[ProgramFamily] = &[ProgramFamily::Sum, ProgramFamily::B2sum, ProgramFamily::Cksum];
const LONG_ONLY: &[ProgramFamily] =
    &[ProgramFamily::Sum, ProgramFamily::B2sum, ProgramFamily::Cksum, ProgramFamily::Sum16];
const NOT_CKSUM: &[ProgramFamily] = &[ProgramFamily::Sum, ProgramFamily::B2sum];
const ALL: &[ProgramFamily] = &[
    ProgramFamily::Sum,
    ProgramFamily::B2sum,
    ProgramFamily::Cksum,
    ProgramFamily::B3sum,
    ProgramFamily::Xxhsum,
];
const GNU_AND_XXHSUM: &[ProgramFamily] =
    &[ProgramFamily::Sum, ProgramFamily::B2sum, ProgramFamily::Cksum, ProgramFamily::Xxhsum];

const fn flag(
    programs: &'static [ProgramFamily],
    long: &'static str,
    short: u8,
    help: &'static str,
) -> OptionRow {
    let short = if short == 0 { None } else { Some(short) };
    OptionRow { programs, definition: Definition { long, short, takes_value: false }, value: "", help }
}

const fn value(
    programs: &'static [ProgramFamily],
    (long, short): (&'static str, u8),
    value: &'static str,
    help: &'static str,
) -> OptionRow {
    let definition = Definition { long, short: Some(short), takes_value: true };
    OptionRow { programs, definition, value, help }
}

static ROWS: &[OptionRow] = &[
    value(&[ProgramFamily::Cksum], ("algorithm", b'a'), "DIGEST", "the digest; an unknown name lists them"),
    value(
        &[ProgramFamily::Xxhsum],
        ("algorithm", b'H'),
        "N",
        "the digest: 0 is XXH32, 1 XXH64, 2 XXH128, 3 XXH3",
    ),
    value(
        &[ProgramFamily::B2sum, ProgramFamily::Cksum],
        ("length", b'l'),
        "BITS",
        "the length of the digest, of BLAKE2b",
    ),
    value(&[ProgramFamily::B3sum], ("length", b'l'), "BYTES", "the length of the digest, at most 64"),
    flag(NOT_CKSUM, "binary", b'b', "put the * of binary mode before names"),
    flag(ALL, "check", b'c', "read checksums from the files and check them"),
    flag(ALL, "tag", 0, "write tags before names"),
    flag(&[ProgramFamily::Cksum], "untagged", 0, "write no tags before names"),
    flag(NOT_CKSUM, "text", b't', "put a space before names"),
    flag(&[ProgramFamily::Xxhsum], "little-endian", 0, "checksums begin with their lowest byte"),
    flag(GNU, "zero", b'z', "end each line with NUL, and escape nothing in names"),
    flag(&[ProgramFamily::B3sum], "no-names", 0, "print digests alone"),
    flag(&[ProgramFamily::B3sum], "raw", 0, "print the bytes of the digest alone, of one file"),
    flag(&[ProgramFamily::B3sum], "no-mmap", 0, "accepted; the digests are the same"),
    OptionRow {
        programs: &[ProgramFamily::B3sum],
        definition: Definition { long: "num-threads", short: None, takes_value: true },
        value: "N",
        help: "threads; 0, or without it, as many as there are cores",
    },
    flag(&[ProgramFamily::Cksum], "debug", 0, "accepted; nothing more is said here"),
    flag(GNU, "ignore-missing", 0, "with -c: do not fail or report status for missing files"),
    flag(GNU, "quiet", 0, "with -c: do not print OK for each file that is verified"),
    flag(&[ProgramFamily::B3sum], "quiet", 0, "with -c: do not print OK for each file that is verified"),
    flag(&[ProgramFamily::Xxhsum], "quiet", b'q', "with -c: do not print OK for each file that is verified"),
    flag(GNU_AND_XXHSUM, "status", 0, "with -c: print nothing; the exit code shows success"),
    flag(GNU_AND_XXHSUM, "strict", 0, "with -c: fail also for lines that are improperly formatted"),
    flag(GNU, "warn", b'w', "with -c: warn about each line that is improperly formatted"),
    flag(&[ProgramFamily::Xxhsum], "warn", 0, "with -c: warn about each line that is improperly formatted"),
    flag(&[ProgramFamily::Sum16], "bsd", b'r', "the checksum of BSD, and blocks of 1 KiB, as without this"),
    flag(&[ProgramFamily::Sum16], "sysv", b's', "the checksum of System V, and blocks of 512 bytes"),
    flag(LONG_ONLY, "help", 0, "print this"),
    flag(&[ProgramFamily::B3sum, ProgramFamily::Xxhsum], "help", b'h', "print this"),
    flag(LONG_ONLY, "version", 0, "print the version"),
    flag(&[ProgramFamily::B3sum, ProgramFamily::Xxhsum], "version", b'V', "print the version"),
];

impl PersonalityOptions {
    /// Takes a command line, without the program's name, apart.
    pub(super) fn parse(
        kind: ProgramFamily,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Asked, Refusal> {
        let definitions: Vec<&'static Definition> = rows(kind).map(|row| &row.definition).collect();
        let found = getopt::parse(&definitions, arguments).map_err(|message| Refusal::with_hint(&message))?;
        let mut options = PersonalityOptions::default();
        for found in found {
            let (name, value) = match found {
                ParsedOption::Operand(file) => {
                    options.files.push(file);
                    continue;
                }
                ParsedOption::Option(name, value) => (name, value),
            };
            let text = value.to_string_lossy();
            match name {
                "help" => return Ok(Asked::Help),
                "version" => return Ok(Asked::Version),
                "algorithm" => options.algorithm = Some(algorithm(kind, &value)?),
                "length" if kind == ProgramFamily::B3sum => options.bytes = Some(bytes(&text)?),
                "length" => {
                    options.length = Some(length(&value)?);
                    options.typed = value;
                }
                "bsd" | "sysv" => options.algorithm = Some(name.to_string()),
                "num-threads" => options.threads = threads(&text)?,
                "binary" => options.binary = Some(true),
                "text" => options.binary = Some(false),
                "check" => options.check = true,
                "tag" => {
                    options.tag = Some(true);
                    // The last of this and -t counts there.
                    if NOT_CKSUM.contains(&kind) {
                        options.binary = Some(true);
                    }
                }
                "untagged" => options.tag = Some(false),
                "zero" => options.zero = true,
                "little-endian" => options.little_endian = true,
                "no-names" => options.no_names = true,
                "raw" => options.raw = true,
                "ignore-missing" => options.ignore_missing = true,
                "strict" => options.strict = true,
                // Each of these takes the place of the others.
                "quiet" | "status" | "warn" => {
                    options.quiet = name == "quiet";
                    options.status = name == "status";
                    options.warn = name == "warn";
                }
                _ => {}
            }
        }
        Ok(Asked::Work(options))
    }

    /// What the program does not do together, in the order in which the coreutils look.
    pub(super) fn refused(&self, kind: ProgramFamily) -> Result<(), Refusal> {
        let is_blake2b = kind == ProgramFamily::B2sum || self.algorithm.as_deref() == Some("blake2b");
        if self.length.is_some_and(|bits| bits > 0) && !is_blake2b {
            return Err(Refusal::new(["--length is only supported with --algorithm=blake2b"]));
        }
        if self.length.is_some_and(|bits| bits > MOST_BITS) {
            let typed = format!("invalid length: {}", quoted(&self.typed));
            let most = format!("maximum digest length for {} is {MOST_BITS} bits", quoted("BLAKE2b"));
            return Err(Refusal::new([typed, most]));
        }
        let is_counted = self.algorithm.as_deref().is_some_and(|name| Checksum::find(name).is_some());
        if self.check && is_counted {
            return Err(Refusal::new(["--check is not supported with --algorithm={bsd,sysv,crc}"]));
        }
        if kind == ProgramFamily::B3sum {
            return self.refused_by_b3sum();
        }
        if !GNU.contains(&kind) {
            return Ok(());
        }
        let is_tagged = self.tag == Some(true) && kind != ProgramFamily::Cksum;
        let refusals = [
            (is_tagged && self.binary == Some(false), "--tag does not support --text mode"),
            (self.zero && self.check, "the --zero option is not supported when verifying checksums"),
            (is_tagged && self.check, "the --tag option is meaningless when verifying checksums"),
            (
                self.binary.is_some() && self.check,
                "the --binary and --text options are meaningless when verifying checksums",
            ),
        ];
        if let Some((_, message)) = refusals.iter().find(|(refused, _)| *refused) {
            return Err(Refusal::with_hint(message));
        }
        let only_checking = [
            (self.ignore_missing, "ignore-missing"),
            (self.status, "status"),
            (self.warn, "warn"),
            (self.quiet, "quiet"),
            (self.strict, "strict"),
        ];
        match only_checking.iter().find(|(given, _)| *given && !self.check) {
            Some((_, option)) => Err(Refusal::with_hint(&format!(
                "the --{option} option is meaningful only when verifying checksums"
            ))),
            None => Ok(()),
        }
    }

    fn refused_by_b3sum(&self) -> Result<(), Refusal> {
        if self.quiet && !self.check {
            return Err(Refusal::with_hint("--quiet must be used with --check"));
        }
        let not_checking = [
            (self.raw, "--raw"),
            (self.no_names, "--no-names"),
            (self.tag == Some(true), "--tag"),
            (self.bytes.is_some(), "--length"),
        ];
        for (given, option) in not_checking {
            if given && self.check {
                return Err(Refusal::with_hint(&format!("{option} cannot be used with --check")));
            }
        }
        if self.raw && self.files.len() > 1 {
            let only_one = "Error: Only one filename can be provided when using --raw";
            return Err(Refusal { more: vec![only_one.to_string()], ..Refusal::default() });
        }
        Ok(())
    }

    /// The digest that the options choose, if they do.
    pub(super) fn digest(&self) -> Option<String> {
        match self.length.filter(|bits| *bits > 0) {
            Some(bits) => Some(format!("blake2b-{bits}")),
            None => self.algorithm.clone(),
        }
    }
}

impl Refusal {
    fn new<S: Into<String>>(messages: impl IntoIterator<Item = S>) -> Refusal {
        Refusal { messages: messages.into_iter().map(Into::into).collect(), ..Refusal::default() }
    }

    /// Says this, and where help is.
    pub(super) fn with_hint(message: &str) -> Refusal {
        Refusal { hint: true, ..Refusal::new([message]) }
    }

    /// Says it.
    pub(super) fn say(&self, program: &str) {
        for message in &self.messages {
            ui::say(program, &ui::names::plain(message));
        }
        for line in &self.more {
            ui::advise(line);
        }
        if self.hint {
            ui::advise(&format!("Try '{program} --help' for more information."));
        }
    }
}

/// What `--help` prints.
pub(super) fn help(kind: ProgramFamily, program: &str) -> String {
    let mut text = format!(
        "Usage: {program} [OPTION]... [FILE]...\nPrint or check checksums, as {program} does.\n\n\
         Without FILE, or where FILE is -, standard input is read.\n\n"
    );
    for row in rows(kind) {
        let short = row.definition.short.map_or("    ".to_string(), |c| format!("-{}, ", char::from(c)));
        let equals = if row.value.is_empty() { "" } else { "=" };
        let option = format!("  {short}--{}{equals}{}", row.definition.long, row.value);
        text.push_str(&format!("{option:<28}  {}\n", row.help));
    }
    text
}

fn rows(kind: ProgramFamily) -> impl Iterator<Item = &'static OptionRow> {
    ROWS.iter().filter(move |row| row.programs.contains(&kind))
}

fn algorithm(kind: ProgramFamily, value: &OsStr) -> Result<String, Refusal> {
    let text = value.to_string_lossy();
    let named = match (kind, &*text) {
        (ProgramFamily::Xxhsum, "0" | "32") => "xxh32",
        (ProgramFamily::Xxhsum, "1" | "64") => "xxh64",
        (ProgramFamily::Xxhsum, "2" | "128") => "xxh3-128",
        (ProgramFamily::Xxhsum, "3") => "xxh3-64",
        (ProgramFamily::Xxhsum, _) => {
            return Err(Refusal::with_hint(&format!("-H: {text}: must be 0, 1, 2 or 3")));
        }
        (_, known) if BY_CKSUM.contains(&known) => known,
        _ => {
            let invalid = format!("invalid argument {} for {}", quoted(value), quoted("--algorithm"));
            let valid = BY_CKSUM.iter().map(|name| format!("  - {}", quoted(name)));
            let more = ["Valid arguments are:".to_string()].into_iter().chain(valid).collect();
            return Err(Refusal { more, ..Refusal::with_hint(&invalid) });
        }
    };
    Ok(named.to_string())
}

/// A number of bits as the coreutils take it, a multiple of 8.
fn length(value: &OsStr) -> Result<u64, Refusal> {
    let text = value.to_string_lossy();
    let digits = text.trim_start();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let invalid = format!("invalid length: {}", quoted(value));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::new([invalid]));
    }
    match digits.parse::<u64>() {
        Err(_) => Err(Refusal::new([invalid + ": Value too large for defined data type"])),
        Ok(bits) if !bits.is_multiple_of(8) => {
            Err(Refusal::new([invalid, "length is not a multiple of 8".to_string()]))
        }
        Ok(bits) => Ok(bits),
    }
}

/// A number of bytes of a digest.
fn bytes(text: &str) -> Result<usize, Refusal> {
    let bytes = text.parse().ok().filter(|bytes| *bytes <= MAX_DIGEST_LEN);
    bytes.ok_or_else(|| {
        Refusal::with_hint(&format!("--length: {text}: must be a number up to {MAX_DIGEST_LEN}"))
    })
}

/// A number of threads; none for 0.
fn threads(text: &str) -> Result<Option<usize>, Refusal> {
    match text.parse::<usize>() {
        Ok(threads) => Ok((threads > 0).then(|| threads.min(128))),
        Err(_) => Err(Refusal::with_hint(&format!("--num-threads: {text}: must be a number"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: ProgramFamily, arguments: &[&str]) -> Result<PersonalityOptions, Refusal> {
        match PersonalityOptions::parse(kind, arguments.iter().map(OsString::from))? {
            Asked::Work(options) => options.refused(kind).map(|()| options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_option_is_known_once_by_its_program() {
        for kind in ALL.iter().chain(&[ProgramFamily::Sum16]) {
            let mut names: Vec<&str> = rows(*kind).map(|row| row.definition.long).collect();
            let mut letters: Vec<u8> = rows(*kind).filter_map(|row| row.definition.short).collect();
            let counts = (names.len(), letters.len());
            names.sort_unstable();
            names.dedup();
            letters.sort_unstable();
            letters.dedup();
            assert_eq!((names.len(), letters.len()), counts, "{kind:?}");
            assert!(help(*kind, "sum").contains("--version"));
        }
    }

    #[test]
    fn the_last_of_three_counts() {
        let options = parse(ProgramFamily::Sum, &["-c", "--status", "--warn"]).unwrap();
        assert_eq!((options.status, options.warn, options.quiet), (false, true, false));
        let options = parse(ProgramFamily::Sum, &["-cw", "--status", "--qui"]).unwrap();
        assert_eq!((options.status, options.warn, options.quiet), (false, false, true));
    }

    #[test]
    fn lengths_are_those_of_blake2b() {
        assert_eq!(parse(ProgramFamily::B2sum, &["-l", " 8"]).unwrap().digest().unwrap(), "blake2b-8");
        assert_eq!(parse(ProgramFamily::B2sum, &["-l0"]).unwrap().digest(), None);
        let options = parse(ProgramFamily::Cksum, &["-a", "blake2b", "-l128"]).unwrap();
        assert_eq!(options.digest().unwrap(), "blake2b-128");
        for length in ["7", "520", "-8", "x", "0x8", "8k", "99999999999999999999999"] {
            assert!(parse(ProgramFamily::B2sum, &["-l", length]).is_err(), "{length}");
        }
        assert!(parse(ProgramFamily::Cksum, &["-a", "md5", "-l128"]).is_err());
    }
}
