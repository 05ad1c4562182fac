//! Errors of the command line: each is one line for the user and one exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum::blockhash::MapError;
use verisum::digest::Level;
use verisum::files::place::PlaceError;
use verisum::mend::repair;

use crate::ui::exit::Exit;
use crate::ui::kernel;
use crate::ui::names;
use crate::ui::untyped;

/// Why something that was asked for was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line cannot be understood.
    Usage(String),
    /// The value of an option is not one that it takes.
    Value { option: &'static str, value: String, must: String },
    /// No digest has this name.
    UnknownDigest { name: String, similar: Vec<String> },
    /// The environment asks for a SIMD level that nobody knows.
    LevelUnknown(String),
    /// The environment asks for a SIMD level that this processor lacks.
    LevelMissing(Level),
    /// A digest cannot be computed here.
    Digest(verisum::digest::DigestError),
    /// An image cannot be opened or read.
    Image(Arc<verisum::image::ImageError>),
    /// A file of a tree cannot be found, opened or read.
    Tree(verisum::files::FileError),
    /// Hashing failed for a reason other than the image.
    Hash { name: PathBuf, error: verisum::blockhash::BlockHashError },
    /// A block map cannot be read, written or compared.
    Map(MapError),
    /// A catalogue cannot be used.
    Catalog(verisum::catalog::store::CatalogError),
    /// A directory cannot be scrubbed.
    Scrub(verisum::catalog::scrub::ScrubError),
    /// Parity cannot be made, read or used.
    Parity(verisum::parity::ParityError),
    /// Another thing cannot be done, of which the text of the error says all.
    Library(Box<dyn std::error::Error + Send + Sync>),
    /// A file that is not an image cannot be made, read or written.
    File { name: PathBuf, operation: &'static str, error: io::Error },
    /// Another program failed.
    Program { name: String, why: String },
    /// Standard output cannot be written.
    Output(io::Error),
}

impl Failure {
    /// An option does not take this value.
    pub(crate) fn value(option: &'static str, value: impl ToString, must: impl Into<String>) -> Failure {
        Failure::Value { option, value: value.to_string(), must: must.into() }
    }

    /// Something could not be done with a file.
    pub(crate) fn file(name: impl Into<PathBuf>, operation: &'static str, error: io::Error) -> Failure {
        Failure::File { name: name.into(), operation, error }
    }

    /// What a program that has ended says, in one line, if it did not succeed.
    pub(crate) fn of_program(program: &str, ended: &std::process::Output) -> Result<(), Failure> {
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; ");
        Err(Failure::Program { name: program.to_string(), why: format!("{}: {said}", ended.status) })
    }

    /// What the text of a library's error says.
    pub(crate) fn of_library(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
        Failure::Library(Box::new(error))
    }

    /// Signals cannot be caught, for want of a thread or a descriptor.
    pub(crate) fn of_signals(error: io::Error) -> Failure {
        Failure::Program { name: "signal handler".to_string(), why: cause(&error) }
    }

    /// The place of this failure among the exit codes of `verisum`.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_)
            | Failure::Value { .. }
            | Failure::UnknownDigest { .. }
            | Failure::Digest(verisum::digest::DigestError::PartLength { .. })
            | Failure::LevelUnknown(_)
            | Failure::LevelMissing(_)
            | Failure::Map(MapError::Digest(_))
            | Failure::Parity(
                verisum::parity::ParityError::Redundancy | verisum::parity::ParityError::SetSize,
            ) => Exit::Usage,
            Failure::Map(MapError::Corrupt { .. }) => Exit::Mismatch,
            _ => Exit::Unchecked,
        }
    }

    /// Whether the catalogue is damaged.
    pub(crate) fn is_damaged_catalog(&self) -> bool {
        use verisum::catalog::scrub::ScrubError;
        matches!(self, Failure::Catalog(error) | Failure::Scrub(ScrubError::Catalog(error)) if error.is_damage())
    }

    /// What happened, in one line: the name, the operation, the cause.
    pub(crate) fn message(&self) -> String {
        match self {
            Failure::Usage(what) => {
                let said = names::plain(what);
                let option = said.split_once(": ").map(|(option, _)| option.to_string());
                placed(option.and_then(|option| untyped::place_of(&option)), said)
            }
            Failure::Value { option, value, must } => placed(
                untyped::place_of(option),
                format!("{option}: {}: {must}", names::quoted(value.as_ref())),
            ),
            Failure::UnknownDigest { name, similar } => {
                let hint =
                    if name.contains(',') { " (one name for each -a)".to_string() } else { hint(similar) };
                let said = format!("unknown digest: {}{hint}", names::quoted(name.as_ref()));
                match untyped::place_of_value("--algorithm", name) {
                    Some(place) => format!("{place}: --algorithm: {said}"),
                    None => said,
                }
            }
            Failure::LevelUnknown(value) => {
                let known: Vec<&str> = Level::ALL.iter().map(|level| level.name()).collect();
                format!(
                    "{}: {}: must be one of {}",
                    kernel::VARIABLE,
                    names::quoted(value.as_ref()),
                    known.join(", ")
                )
            }
            Failure::LevelMissing(level) => {
                format!("{}: {}: this processor does not have it", kernel::VARIABLE, level.name())
            }
            Failure::Digest(error) => names::plain(&error.to_string()),
            Failure::Image(error) => image_message(error),
            Failure::Tree(error) => tree_message(error),
            Failure::Hash { name, error } => {
                format!("{}: hash: {}", names::quoted(name.as_os_str()), names::plain(&error.to_string()))
            }
            Failure::Map(error) => map_message(error),
            Failure::Catalog(error) => names::plain(&error.to_string()),
            Failure::Scrub(verisum::catalog::scrub::ScrubError::Tree(error)) => tree_message(error),
            Failure::Scrub(error) => names::plain(&error.to_string()),
            Failure::Library(error) => names::plain(&error.to_string()),
            Failure::Parity(error) => parity_message(error),
            Failure::File { name, operation, error } => {
                format!("{}: {operation}: {}", names::quoted(name.as_os_str()), cause(error))
            }
            Failure::Program { name, why } => {
                format!("{}: {}", names::quoted(name.as_ref()), names::plain(why))
            }
            Failure::Output(error) => format!("standard output: write: {}", cause(error)),
        }
    }
}

/// What is said of a value of the configuration, with the place that has it.
fn placed(place: Option<String>, said: String) -> String {
    place.map_or(said.clone(), |place| format!("{place}: {said}"))
}

/// Says as what each error of a library ends a command.
macro_rules! from_errors {
    ($($error:ty => $failure:path,)*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                $failure(error)
            }
        })*
    };
}

from_errors! {
    verisum::digest::DigestError => Failure::Digest,
    verisum::files::FileError => Failure::Tree,
    verisum::catalog::store::CatalogError => Failure::Catalog,
    verisum::catalog::scrub::ScrubError => Failure::Scrub,
    verisum::parity::ParityError => Failure::Parity,
    verisum::lake::LakeError => Failure::of_library,
}

impl From<verisum::image::ImageError> for Failure {
    fn from(error: verisum::image::ImageError) -> Failure {
        Failure::Image(Arc::new(error))
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Failure {
        match error {
            PlaceError::File(error) => Failure::Tree(error),
            PlaceError::Write(error) => error.into(),
            other => Failure::Program { name: "place".to_string(), why: other.to_string() },
        }
    }
}

impl From<verisum::files::ReplaceError> for Failure {
    fn from(error: verisum::files::ReplaceError) -> Failure {
        Failure::File { name: error.path, operation: error.operation, error: error.source }
    }
}

impl From<verisum::mend::image::ImageRepairError> for Failure {
    fn from(error: verisum::mend::image::ImageRepairError) -> Failure {
        match error {
            verisum::mend::image::ImageRepairError::Journal(error) => error.into(),
            other => Failure::of_library(other),
        }
    }
}

impl From<repair::RepairError> for Failure {
    fn from(error: repair::RepairError) -> Failure {
        match error {
            repair::RepairError::Catalog(error) => Failure::Catalog(error),
            repair::RepairError::Tree(error) => Failure::Scrub(error),
            repair::RepairError::List { path, operation, source } => {
                Failure::File { name: path, operation, error: source }
            }
            other => Failure::of_library(other),
        }
    }
}

/// What a library says of a file that its text begins with, the name made fit for one line.
fn said_of(path: &Path, error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let Some(rest) = text.strip_prefix(&*path.to_string_lossy()) else { return names::plain(&text) };
    format!("{}{}", names::quoted(path.as_os_str()), names::plain(without_number(rest)))
}

fn image_message(error: &verisum::image::ImageError) -> String {
    use verisum::image::ImageError;
    let said = said_of(error.path(), error);
    match error {
        ImageError::Unsupported { .. } | ImageError::Piped { .. } => said + AS_RAW,
        ImageError::Behind { path, role, source } => {
            format!("{}: {role} {}", names::quoted(path.as_os_str()), image_message(source))
        }
        ImageError::Reference { .. } => said + " (--follow any opens it)",
        _ => said,
    }
}

fn map_message(error: &MapError) -> String {
    match error {
        MapError::Io { path, .. } | MapError::NotAMap { path, .. } | MapError::Corrupt { path, .. } => {
            said_of(path, error)
        }
        other => names::plain(&other.to_string()),
    }
}

fn parity_message(error: &verisum::parity::ParityError) -> String {
    use verisum::parity::ParityError;
    match error {
        ParityError::Tree(error) => tree_message(error),
        ParityError::Io { path, .. } | ParityError::Damaged { path, .. } => said_of(path, error),
        other => names::plain(&other.to_string()),
    }
}

/// What to do with an image that is not decoded.
const AS_RAW: &str = " (--format raw hashes the bytes of the file itself)";

/// What went wrong with a file of a tree.
pub(crate) fn tree_message(error: &verisum::files::FileError) -> String {
    said_of(error.path(), error)
}

/// An error's text without Rust's ` (os error 2)` tail, as other tools print it.
pub(crate) fn cause(error: &io::Error) -> String {
    names::plain(without_number(&error.to_string()))
}

fn without_number(text: &str) -> &str {
    text.find(" (os error ").map_or(text, |end| &text[..end])
}

fn hint(similar: &[String]) -> String {
    match similar {
        [] => " (`verisum digests` lists them)".to_string(),
        [one] => format!(" (did you mean {one}?)"),
        [most @ .., last] => format!(" (did you mean {} or {last}?)", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum::image::{ImageError, ImageOperation};

    #[test]
    fn messages_are_one_line() {
        let path = Path::new("a\nb");
        let errors = [
            ImageError::io(path, ImageOperation::Open, io::Error::from_raw_os_error(2)),
            ImageError::NotAnImage { path: path.into(), what: "Is a directory" },
            ImageError::Changed { path: path.into(), before: 5, after: 4 },
        ];
        let messages = errors.map(|error| Failure::from(error).message());
        assert_eq!(
            messages,
            [
                r"$'a\nb': open: No such file or directory",
                r"$'a\nb': open: Is a directory",
                r"$'a\nb': read: the file changed while it was read (5 bytes, then 4)",
            ]
        );
    }

    #[test]
    fn what_this_machine_refuses_is_no_bad_usage() {
        let failure = Failure::of_signals(io::Error::from_raw_os_error(11));
        assert_eq!(failure.message(), "signal handler: Resource temporarily unavailable");
        assert_eq!(failure.exit(), Exit::Unchecked);
    }

    #[test]
    fn unknown_digests_come_with_hints() {
        let message = |similar: &[&str]| {
            let similar = similar.iter().map(ToString::to_string).collect();
            Failure::UnknownDigest { name: "x".to_string(), similar }.message()
        };
        assert_eq!(message(&["a"]), "unknown digest: x (did you mean a?)");
        assert_eq!(message(&["a", "b", "c"]), "unknown digest: x (did you mean a, b or c?)");
        assert_eq!(message(&[]), "unknown digest: x (`verisum digests` lists them)");
        let several = Failure::UnknownDigest { name: "sha256,md5".to_string(), similar: Vec::new() };
        assert_eq!(several.message(), "unknown digest: sha256,md5 (one name for each -a)");
    }
}
