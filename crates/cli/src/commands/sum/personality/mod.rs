//! The programs that `verisum` imitates under their names: `md5sum` and others.

mod decimal_sums;
mod options;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use verisum::digest::cksum::Checksum;
use verisum::files::Plan;
use verisum::files::place::LocalPlace;
use verisum::files::store::manifest::{Dialect, ListFormat, Writer};

use super::hash;
use super::inputs::NameSource;
use super::report::SumLines;
use crate::list_check;
use crate::ui::exit::Exit;
use crate::ui::failure::{self, Failure};
use crate::ui::hosts::PlaceReport;
use crate::ui::{self, Output, locale, names, progress, shell};
use crate::ui::{digests, kernel, sizes};

use options::{Asked, PersonalityOptions, Refusal};

/// A program to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Personality {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its digest or checksum if no option says another.
    algorithm: &'static str,
    /// Whether it writes tags unless told otherwise.
    tagged: bool,
    /// What it calls standard input.
    stdin: &'static str,
    /// Whose options and messages it has.
    kind: ProgramFamily,
}

/// The families of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramFamily {
    /// md5sum and its likes.
    Sum,
    /// b2sum, which has digests of many lengths.
    B2sum,
    /// cksum, which has many digests.
    Cksum,
    /// sum, which has two checksums and nothing else.
    Sum16,
    B3sum,
    Xxhsum,
}

const fn program(kind: ProgramFamily, name: &'static str, algorithm: &'static str) -> Personality {
    Personality { name, algorithm, tagged: false, stdin: "-", kind }
}

const fn sum(name: &'static str, algorithm: &'static str) -> Personality {
    program(ProgramFamily::Sum, name, algorithm)
}

const fn xxhsum(name: &'static str, algorithm: &'static str) -> Personality {
    Personality { stdin: "stdin", ..program(ProgramFamily::Xxhsum, name, algorithm) }
}

/// All of them.
pub(crate) const NAMES: &[Personality] = &[
    sum("md5sum", "md5"),
    sum("sha1sum", "sha1"),
    sum("sha224sum", "sha224"),
    sum("sha256sum", "sha256"),
    sum("sha384sum", "sha384"),
    sum("sha512sum", "sha512"),
    program(ProgramFamily::B2sum, "b2sum", "blake2b512"),
    Personality { tagged: true, ..program(ProgramFamily::Cksum, "cksum", "crc") },
    program(ProgramFamily::Sum16, "sum", "bsd"),
    program(ProgramFamily::B3sum, "b3sum", "blake3"),
    xxhsum("xxhsum", "xxh64"),
    xxhsum("xxh32sum", "xxh32"),
    xxhsum("xxh64sum", "xxh64"),
    xxhsum("xxh128sum", "xxh3-128"),
    xxhsum("xxh3sum", "xxh3-64"),
];

/// Why a program did not do what it was asked for.
enum Stopped {
    /// It does not take its options.
    Refused(Refusal),
    Failed(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(failure)
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Refused(refusal)
    }
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
            && !matches!(result, Err(Stopped::Failed(Failure::Output(_))))
        {
            result = Err(failure.into());
        }
        match &result {
            Ok(_) => {}
            Err(Stopped::Failed(failure)) => ui::say(self.name, &message(self.name, failure)),
            Err(Stopped::Refused(refusal)) => refusal.say(self.name),
        }
        // These programs know one code for everything that is not well; only b3sum has one for its options.
        ExitCode::from(match result {
            Ok(Exit::Clean) => 0,
            Err(Stopped::Refused(refusal)) if self.kind == ProgramFamily::B3sum && refusal.hint => 2,
            _ => 1,
        })
    }

    fn try_run(self, output: &mut Output) -> Result<Exit, Stopped> {
        let options = match PersonalityOptions::parse(self.kind, std::env::args_os().skip(1))? {
            Asked::Help => {
                output.text(&options::help(self.kind, self.name))?;
                return Ok(Exit::Clean);
            }
            Asked::Version => {
                output.line(&format!("{} (verisum) {}", self.name, env!("CARGO_PKG_VERSION")))?;
                return Ok(Exit::Clean);
            }
            Asked::Work(options) => options,
        };
        options.refused(self.kind)?;
        match options.check {
            true => self.check(&options, output),
            false => self.sum(options, output),
        }
    }

    fn sum(self, options: PersonalityOptions, output: &mut Output) -> Result<Exit, Stopped> {
        let name = options.digest().unwrap_or(self.algorithm.to_string());
        output.ready()?;
        if let Some(checksum) = Checksum::find(&name) {
            let end = if options.zero { 0 } else { b'\n' };
            return Ok(decimal_sums::print(self.name, checksum, &options.files, end, output)?);
        }
        let mut digest = digests::find(&name, &kernel::policy()?)?;
        if let Some(longer) = options.bytes.and_then(|bytes| digest.extended_to(bytes)) {
            digest = longer;
        }
        let has_tags = options.tag.unwrap_or(self.tagged) && !options.raw && !options.no_names;
        let format = if has_tags { ListFormat::Bsd } else { ListFormat::Gnu };
        let writer = Writer::new(format, std::slice::from_ref(&digest))
            .map_err(|error| Failure::Usage(error.to_string()))?
            .zero(options.zero)
            .binary(options.binary == Some(true))
            .little_endian(options.little_endian)
            .nameless(options.no_names)
            .raw(options.raw);
        let writer = Mutex::new(writer);
        let threads = options.threads.unwrap_or_else(sizes::usable_cores);
        let report = PlaceReport::new(output).called(self.name);
        let lines =
            SumLines { program: self.name, imitates: true, writer, stdin: self.stdin, below: None, report };
        let place = LocalPlace::new(Plan::new(Vec::new(), threads));
        let inputs = NameSource::new(options.files);
        hash(place, inputs, &[digest], (false, progress::ShowProgress::Never), &lines)?;
        Ok(lines.report.end()?)
    }

    fn check(self, options: &PersonalityOptions, output: &mut Output) -> Result<Exit, Stopped> {
        output.ready()?;
        // Lists of BLAKE2b have digests of any length, whatever --length says; those of xxhsum tell.
        let said = match self.kind {
            ProgramFamily::Xxhsum => None,
            ProgramFamily::Cksum => options.algorithm.clone(),
            _ => Some(options.algorithm.clone().unwrap_or(self.algorithm.to_string())),
        };
        let algorithm = digests::optional_name(said.as_deref())?;
        let dialect = match self.kind {
            ProgramFamily::Sum | ProgramFamily::B2sum | ProgramFamily::Cksum | ProgramFamily::Sum16 => {
                Dialect::Coreutils
            }
            ProgramFamily::B3sum => Dialect::B3sum,
            ProgramFamily::Xxhsum => Dialect::Xxhsum { little_endian: options.little_endian },
        };
        let checking = list_check::ListCheckOptions {
            program: self.name.into(),
            dialect,
            algorithm,
            ignore_missing: options.ignore_missing,
            quiet: options.quiet,
            status: options.status,
            strict: options.strict,
            warn: options.warn,
            threads: options.threads,
            ..list_check::ListCheckOptions::default()
        };
        Ok(list_check::lists_of(&options.files, &checking, output)?)
    }
}

/// A failure in the words of the imitated program: without the operation.
pub(super) fn message(program: &str, failure: &Failure) -> String {
    match failure {
        Failure::Tree(verisum::files::FileError::Io { path, source, .. }) if program == "b3sum" => {
            format!("{}: {source}", names::plain(&path.to_string_lossy()))
        }
        Failure::Tree(verisum::files::FileError::Io { path, source, .. }) => {
            format!("{}: {}", shell::quoted(path.as_os_str(), locale::is_utf8()), failure::cause(source))
        }
        // Lines were written one by one there, and the cause is lost by the end.
        Failure::Output(_) => "write error".to_string(),
        other => other.message(),
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
            let name = personality.algorithm;
            let is_digest = verisum::digest::Algorithm::find(name).is_some();
            assert_ne!(is_digest, Checksum::find(name).is_some(), "{name}");
        }
    }
}
