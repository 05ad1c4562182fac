//! The programs that `verisum` is when it is called by their names: `md5sum` and its likes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use verisum_tree::Plan;
use verisum_tree::store::manifest::{Format, Writer};

use super::super::check;
use super::Task;
use super::inputs::Inputs;
use crate::exit::Exit;
use crate::failure::{self, Failure};
use crate::render::{self, Output, names, progress};
use crate::{digests, input, kernel};

/// A program to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Personality {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its digest if no option says another; none where an option must.
    algorithm: Option<&'static str>,
    /// Whether it writes tags unless told otherwise.
    tagged: bool,
    /// What it calls standard input.
    stdin: &'static str,
    /// Whether it is one of the coreutils.
    coreutils: bool,
}

const fn sum(name: &'static str, algorithm: &'static str) -> Personality {
    Personality { name, algorithm: Some(algorithm), tagged: false, stdin: "-", coreutils: true }
}

const fn other(name: &'static str, algorithm: &'static str) -> Personality {
    Personality { coreutils: false, ..sum(name, algorithm) }
}

const fn xxhsum(name: &'static str, algorithm: &'static str) -> Personality {
    Personality { stdin: "stdin", ..other(name, algorithm) }
}

/// All of them.
pub(crate) const NAMES: &[Personality] = &[
    sum("md5sum", "md5"),
    sum("sha1sum", "sha1"),
    sum("sha224sum", "sha224"),
    sum("sha256sum", "sha256"),
    sum("sha384sum", "sha384"),
    sum("sha512sum", "sha512"),
    sum("b2sum", "blake2b512"),
    Personality { name: "cksum", algorithm: None, tagged: true, stdin: "-", coreutils: true },
    other("b3sum", "blake3"),
    xxhsum("xxhsum", "xxh64"),
    xxhsum("xxh32sum", "xxh32"),
    xxhsum("xxh64sum", "xxh64"),
    xxhsum("xxh128sum", "xxh3-128"),
    xxhsum("xxh3sum", "xxh3-64"),
];

/// What they take.
#[derive(Debug, Parser)]
#[command(version, about = "Print or check checksums")]
struct Arguments {
    /// The digest, as for cksum
    #[arg(short, long, value_name = "DIGEST")]
    algorithm: Option<String>,

    /// The digest of xxhsum: 0 is xxh32, 1 xxh64, 2 xxh3-128, 3 xxh3-64
    #[arg(short = 'H', value_name = "N")]
    hash: Option<String>,

    /// The length of the digest in bits, as for b2sum
    #[arg(short, long, value_name = "BITS")]
    length: Option<u32>,

    /// Put the * of binary mode before names
    #[arg(short, long, overrides_with = "text")]
    binary: bool,

    /// Read checksums from the files and check them
    #[arg(short, long)]
    check: bool,

    /// Write tags before names
    #[arg(long, overrides_with = "untagged")]
    tag: bool,

    /// Write no tags before names
    #[arg(long, overrides_with = "tag")]
    untagged: bool,

    /// Put a space before names
    #[arg(short, long, overrides_with = "binary")]
    text: bool,

    /// End each line with NUL, and escape nothing in names
    #[arg(short, long)]
    zero: bool,

    /// Do not fail or report status for missing files
    #[arg(long)]
    ignore_missing: bool,

    /// Do not print OK for each file that is verified
    #[arg(short, long)]
    quiet: bool,

    /// Do not print anything; the exit code shows success
    #[arg(long)]
    status: bool,

    /// Fail also for lines that are improperly formatted
    #[arg(long)]
    strict: bool,

    /// Warn about each line that is improperly formatted
    #[arg(short, long)]
    warn: bool,

    /// Files; - , or none at all, is standard input
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
}

impl Personality {
    /// The program that somebody calls by this name.
    pub(crate) fn of(called: &OsStr) -> Option<Personality> {
        let name = Path::new(called).file_name()?;
        NAMES.iter().copied().find(|personality| name == personality.name)
    }

    /// Is that program.
    pub(crate) fn run(self, output: &mut Output) -> ExitCode {
        let mut result = self.try_run(output);
        if let Err(failure) = output.flush()
            && !matches!(result, Err(Failure::Output(_)))
        {
            result = Err(failure);
        }
        if let Err(failure) = &result {
            render::say(self.name, &message(failure));
        }
        // These programs know one code for everything that is not well.
        ExitCode::from(u8::from(!matches!(result, Ok(Exit::Clean))))
    }

    fn try_run(self, output: &mut Output) -> Result<Exit, Failure> {
        let matches = Arguments::command().name(self.name).try_get_matches();
        let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
            Ok(arguments) => arguments,
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
                output.text(&error.render().to_string())?;
                return Ok(Exit::Clean);
            }
            Err(error) => return Err(Failure::Usage(crate::verisum::one_line(&error.render().to_string()))),
        };
        output.ready()?;
        if arguments.check {
            return self.check(&arguments, output);
        }
        for (given, option) in [
            (arguments.ignore_missing, "--ignore-missing"),
            (arguments.status, "--status"),
            (arguments.warn, "--warn"),
            (arguments.quiet && self.stdin == "-", "--quiet"),
            (arguments.strict, "--strict"),
        ] {
            if given {
                let text = format!("the {option} option is meaningful only when verifying checksums");
                return Err(Failure::Usage(text));
            }
        }
        let name = self.digest_name(&arguments)?.ok_or_else(|| {
            Failure::Usage("a digest is needed: cksum's own CRC is not supported (-a sha256)".to_string())
        })?;
        let digest = digests::find(&name, &kernel::policy()?)?;
        if let Some(bits) = arguments.length
            && bits != 0
            && bits as usize != digest.len() * 8
        {
            return Err(Failure::Usage(format!(
                "--length: {bits}: {name} has only {} bits",
                digest.len() * 8
            )));
        }
        let tagged = (self.tagged || arguments.tag) && !arguments.untagged;
        let format = if tagged { Format::Bsd } else { Format::Gnu };
        let writer = Writer::new(format, std::slice::from_ref(&digest))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let task = Task {
            program: self.name,
            imitates: true,
            writer: writer.zero(arguments.zero).binary(arguments.binary),
            plan: Plan::new(vec![vec![digest]], input::usable_cores()),
            inputs: Inputs::new(arguments.files, None),
            stdin: self.stdin,
            progress: progress::Wanted::No,
        };
        super::hash(task, output)
    }

    fn digest_name(self, arguments: &Arguments) -> Result<Option<String>, Failure> {
        let by_number = match arguments.hash.as_deref() {
            None => None,
            Some("0" | "32") => Some("xxh32"),
            Some("1" | "64") => Some("xxh64"),
            Some("2" | "128") => Some("xxh3-128"),
            Some("3") => Some("xxh3-64"),
            Some(other) => return Err(Failure::Usage(format!("-H: {other}: must be 0, 1, 2 or 3"))),
        };
        Ok(arguments.algorithm.clone().or(by_number.or(self.algorithm).map(str::to_string)))
    }

    fn check(self, arguments: &Arguments, output: &mut Output) -> Result<Exit, Failure> {
        let policy = kernel::policy()?;
        let algorithm = match self.digest_name(arguments)? {
            Some(name) => Some(digests::find(&name, &policy)?.name().to_string()),
            None => None,
        };
        let options = check::Options {
            program: self.name.into(),
            coreutils: self.coreutils,
            algorithm,
            ignore_missing: arguments.ignore_missing,
            quiet: arguments.quiet,
            status: arguments.status,
            strict: arguments.strict,
            warn: arguments.warn,
            zero: arguments.zero,
            ..check::Options::default()
        };
        check::lists_of(&arguments.files, &options, output)
    }
}

/// A failure in the words of the coreutils: without the operation.
pub(super) fn message(failure: &Failure) -> String {
    match failure {
        Failure::Tree(verisum_tree::Error::Io { path, source, .. }) => {
            format!("{}: {}", quoted(path.as_os_str()), failure::cause(source))
        }
        other => other.message(),
    }
}

/// A name as the coreutils quote it in messages: for a shell, where it needs that.
fn quoted(name: &OsStr) -> String {
    let Some(text) = name.to_str() else { return names::quoted(name) };
    let plain = |c: char| c.is_alphanumeric() || "%+,-./:@_^{}]#~".contains(c);
    let leads = text.starts_with(['#', '~']);
    match text {
        "" => "''".to_string(),
        _ if text.chars().all(plain) && !leads => text.to_string(),
        _ if text.chars().any(char::is_control) => names::quoted(name),
        _ if text.contains('\'') && !text.contains(['"', '$', '`', '\\', '!']) => format!("\"{text}\""),
        _ => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The name by which this program was called.
pub(crate) fn called() -> Option<Personality> {
    std::env::args_os().next().as_deref().filter(|name| !name.as_bytes().is_empty()).and_then(Personality::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_last_name() {
        let of = |name: &str| Personality::of(OsStr::new(name)).map(|personality| personality.name);
        assert_eq!(of("/usr/bin/md5sum"), Some("md5sum"));
        assert_eq!(of("b3sum"), Some("b3sum"));
        assert_eq!((of("verisum"), of("/usr/bin/verisum"), of("")), (None, None, None));
    }

    #[test]
    fn every_program_has_a_digest_that_exists() {
        for personality in NAMES {
            if let Some(name) = personality.algorithm {
                assert!(verisum_digest::Algorithm::find(name).is_some(), "{name}");
            }
        }
        Arguments::command().debug_assert();
    }

    #[test]
    fn names_are_quoted_as_the_coreutils_do() {
        let quoted = |name: &str| quoted(OsStr::new(name));
        assert_eq!(quoted("/tmp/a-b_c.d"), "/tmp/a-b_c.d");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("it's $5"), r"'it'\''s $5'");
    }
}
