//! Places as Python names them: paths of this machine, and addresses of trees on others.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::files::Stop;
use verisum::files::place::{FileAnswer, LocalPlace, Place, PlaceError, StoppingPlace};
use verisum::remote::{Address, Host, OpenError, without_secrets};

use crate::arguments::{FsPath, Several};
use crate::errors::{Failure, Kind};
use crate::iterator::Done;

/// How many hosts are worked on at once.
pub(crate) const AT_ONCE: usize = 8;

/// What a user names.
#[derive(Clone)]
pub(crate) enum Named {
    /// A path of this machine.
    Here(PathBuf),
    /// Something on a host, or on this machine by the programs that a host would use.
    There(Address),
}

impl Named {
    /// Whether it is a path of this machine.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Named::Here(_))
    }

    /// Whether it is in a bucket.
    pub(crate) fn is_bucket(&self) -> bool {
        matches!(self, Named::There(address) if is_bucket(&address.host))
    }

    /// Text may be an address, as on the command line; bytes and objects of `pathlib` are paths of this machine.
    pub(crate) fn of(FsPath { path, is_text }: FsPath) -> PyResult<Named> {
        if !is_text {
            return Ok(Named::Here(path));
        }
        let address = Address::typed(path.as_os_str()).map_err(|must| {
            let shown = without_secrets(path.as_os_str());
            PyValueError::new_err(format!("{}: {must}", Path::new(&shown).display()))
        })?;
        Ok(address.map_or(Named::Here(path), Named::There))
    }

    pub(crate) fn several(named: Several<FsPath>) -> PyResult<Vec<Named>> {
        named.0.into_iter().map(Named::of).collect()
    }
}

/// Whether a host is a bucket.
pub(crate) fn is_bucket(host: &Host) -> bool {
    matches!(host, Host::Bucket(_))
}

/// Fails for the first option that was given and that files on other machines do not have.
pub(crate) fn refuse(options: &[(&str, bool)]) -> PyResult<()> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(PyValueError::new_err(format!("{option}: not for files on other machines"))),
        None => Ok(()),
    }
}

/// A host, which nobody calls yet.
pub(crate) fn host(hosts: &verisum::remote::Hosts, host: &Host) -> Result<Box<dyn Place>, Failure> {
    hosts.place(host).map_err(|error| {
        let failure = Failure::new(Kind::Host, &format!("{}: {error}", host.name()));
        match &error {
            OpenError::Folder(error) => failure.path(std::env::temp_dir()).system(Some(error)),
            _ => failure,
        }
    })
}

/// Why a tree of a place is not listed or read, as an exception.
pub(crate) fn failure(address: &Address, error: &PlaceError) -> Failure {
    let path = PathBuf::from(OsStr::from_bytes(address.shown(&address.path)));
    let (kind, operation) = match error {
        PlaceError::Digest(_) => (Kind::Digest, "find"),
        PlaceError::Machine(_) | PlaceError::Absent(_) => (Kind::Host, "connect"),
        PlaceError::Unlisted(_) | PlaceError::ListedTwice(_) => (Kind::Host, "list"),
        PlaceError::Unsupported(operation) => (Kind::Host, *operation),
        PlaceError::File(error) => return Failure::from(error),
        PlaceError::Write(_) | PlaceError::NotWritten { .. } => (Kind::File, "write"),
        PlaceError::InTheWay(_) => (Kind::File, "create"),
        PlaceError::Replaced => (Kind::File, "write"),
        _ => (Kind::Host, "read"),
    };
    let message = format!("{}: {error}", address.host.name());
    Failure::new(kind, &message).path(path).operation(operation)
}

/// A tree, and the place where it is.
pub(crate) struct Opened {
    pub(crate) address: Address,
    pub(crate) place: Box<dyn Place>,
}

/// Opens a place, which nobody calls yet. Its work ends when it is time to stop, and counts what is done.
pub(crate) fn open(
    named: Named,
    hosts: &verisum::remote::Hosts,
    stop: &Arc<Stop>,
    done: &Arc<Done>,
) -> Result<Opened, Failure> {
    let stop = stop.clone();
    Ok(match named {
        Named::Here(path) => {
            let mut place = LocalPlace::default();
            place.plan.stop = stop.clone();
            place.plan.progress = done.here.clone();
            let address = Address::new(Host::Local, path.as_os_str().as_bytes());
            // The engine counts by itself.
            Opened { address, place: Box::new(StoppingPlace::new(Box::new(place), stop)) }
        }
        Named::There(address) => {
            let (mut place, done) = (host(hosts, &address.host)?, done.clone());
            // A limit may have an object wait for minutes.
            place.end_by(&stop);
            let count = move |answer: &FileAnswer| {
                if answer.result.as_ref().is_ok_and(|read| !read.digests.is_empty()) {
                    done.add(answer.request.seen.size.unwrap_or(0));
                }
            };
            Opened { address, place: Box::new(StoppingPlace::new(place, stop).watched(count)) }
        }
    })
}
