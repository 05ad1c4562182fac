//! Finds the catalogue, and the paths that it knows trees by.

use std::env;
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::Value;
use verisum::catalog::store::{Catalog, Lock, Root, default_catalog, is_address, own_files};

use crate::ui::failure::Failure;
use crate::ui::hosts::bad_place;
use crate::ui::names::{self, Name};
use crate::ui::{self, PROGRAM, config, progress, verbosity};
use verisum::files::replace::require_trusted;
use verisum::files::{trusted_name, trusted_path};
use verisum::remote::{Address, Host, is_url};

/// Which catalogue.
#[derive(Args, Debug)]
pub(crate) struct CatalogArgs {
    /// The catalogue; without it, verisum/catalog.db in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) catalog: Option<PathBuf>,
}

impl CatalogArgs {
    /// Its absolute path.
    pub(crate) fn path(&self) -> Result<PathBuf, Failure> {
        let path = match &self.catalog {
            Some(path) => absolute(path),
            None => default_path(),
        }?;
        verbosity::how(|| format!("catalogue {}", names::quoted(path.as_os_str())));
        Ok(path)
    }

    /// The same to write to. A link of another user does not say where that is.
    pub(crate) fn path_to_write(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.catalog {
            require_trusted(path).map_err(|error| Failure::file(path, "open", error))?;
        }
        self.path()
    }

    /// Opens it to write, or makes it, with the folder that it is in by default.
    pub(crate) fn open(&self) -> Result<(Lock, Catalog), Failure> {
        let path = self.path_to_write()?;
        if self.catalog.is_none()
            && let Some(folder) = path.parent()
        {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| Failure::file(folder, "create", error))?;
        }
        let lock = Lock::take(&path)?;
        Ok((lock, Catalog::open(&path)?))
    }

    /// Opens it to write if it is there.
    pub(crate) fn open_existing(&self) -> Result<(Lock, Catalog), Failure> {
        let path = self.path_to_write()?;
        // Before the lock, which would be a file beside nothing.
        require(&path)?;
        let lock = Lock::take(&path)?;
        let catalog = Catalog::open_existing(&path)?;
        progress::count_steps_of(&catalog);
        Ok((lock, catalog))
    }

    /// Opens it to write where it knows what a path of this machine leads to, or something below; none where it does
    /// not, or where nobody named one and none is in its usual place. One that is in use, or cannot be read, is told with
    /// `else_said`, and is no reason to end unless somebody named it.
    pub(crate) fn open_if_known(
        &self,
        path: &Path,
        else_said: &str,
    ) -> Result<Option<(Lock, Catalog)>, Failure> {
        let known = || -> Result<bool, Failure> {
            let Some(catalog) = self.open_if_there()? else { return Ok(false) };
            let knows = catalog.root_of(path)?.is_some()
                || catalog.roots()?.iter().any(|root| root.path.starts_with(path));
            Ok(knows)
        };
        let opened = match known() {
            Ok(false) => return Ok(None),
            Ok(true) => self.open_existing(),
            Err(failure) => Err(failure),
        };
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(failure) if self.catalog.is_none() => {
                ui::say(PROGRAM, &format!("{}: {else_said}", failure.message()));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Opens it to read; none where nobody named one and none is in its usual place.
    pub(crate) fn open_if_there(&self) -> Result<Option<Catalog>, Failure> {
        // What the configuration names need not be there yet, as the usual one.
        let is_named = self.catalog.is_some() && !config::is_untyped("--catalog");
        // One that cannot be reached is an error, or files would be taken for unrecorded ones.
        if !is_named && !self.path().is_ok_and(|path| path.try_exists().unwrap_or(true)) {
            if let Some(path) = &self.catalog {
                let path = names::quoted(path.as_os_str());
                verbosity::note(|| {
                    format!("{path}: the configured catalogue is not there yet: working without one")
                });
            }
            return Ok(None);
        }
        self.open_shared().map(Some)
    }

    /// Opens it to read while others may write.
    pub(crate) fn open_shared(&self) -> Result<Catalog, Failure> {
        open_shared(&self.path()?)
    }

    /// The paths of this one and of the usual one, as far as they are there.
    pub(crate) fn paths_there(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> =
            self.path().into_iter().chain(default_path()).filter(|path| path.exists()).collect();
        paths.dedup();
        paths
    }
}

/// Opens a catalogue to read while others may write.
pub(crate) fn open_shared(path: &Path) -> Result<Catalog, Failure> {
    require(path)?;
    let catalog = Catalog::open_to_read(path)?;
    progress::count_steps_of(&catalog);
    Ok(catalog)
}

/// Fails if no catalogue is there yet, and says how one is made.
fn require(path: &Path) -> Result<(), Failure> {
    let found = std::fs::metadata(path).map(drop).map_err(|error| match error.kind() {
        ErrorKind::NotFound => std::io::Error::new(
            ErrorKind::NotFound,
            "there is no catalogue yet (`verisum scrub DIR` makes it, --catalog FILE names another)",
        ),
        _ => error,
    });
    found.map_err(|error| Failure::file(path, "open", error))
}

/// Fails if a file that is to be written is one that this catalogue consists of, or another one.
pub(crate) fn refuse_own(catalog: &Path, file: &Path) -> Result<(), Failure> {
    let place = absolute(file)?;
    let refused = |why| Err(Failure::file(file, "write", std::io::Error::other(why)));
    if own_files(catalog).contains(&place) {
        return refused("it belongs to the catalogue");
    }
    if file.is_file() && begins_as_no_text(file) { refused(NO_TEXT) } else { Ok(()) }
}

/// Why nothing is written to a file that [`begins_as_no_text`].
pub(crate) const NO_TEXT: &str = "it is a database, or belongs to one";

/// Whether there are zero bytes at the beginning of a file, as in catalogues and what is beside them.
pub(crate) fn begins_as_no_text(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    read.is_ok() && head.contains(&0)
}

fn default_path() -> Result<PathBuf, Failure> {
    let (state, home) = (env::var_os("XDG_STATE_HOME"), env::var_os("HOME"));
    default_catalog(state.as_deref().map(Path::new), home.as_deref().map(Path::new)).ok_or_else(|| {
        Failure::Usage("--catalog: neither HOME nor XDG_STATE_HOME says where the catalogue is".to_string())
    })
}

/// A path from the root of the file system, without `.` and `..`, links resolved where they are there.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    Ok(verisum::catalog::store::absolute(path)?)
}

/// The path of a file that may itself be a link. With a slash at its end it is that of the directory to which
/// the link leads.
pub(crate) fn absolute_name(path: &Path) -> Result<PathBuf, Failure> {
    Ok(verisum::catalog::store::absolute_name(path)?)
}

/// Where what is to be changed is, and by what name, which may be that of a link, it was named. Fails if the way leads
/// through a link of another user, who may have put it there for root to follow: so nobody looks for it a second time.
pub(crate) fn own_way(path: &Path) -> Result<OwnWay, Failure> {
    let named =
        if path.as_os_str().as_bytes().ends_with(b"/") { trusted_path(path) } else { trusted_name(path) };
    Ok(OwnWay { named: named?, leads: trusted_path(path)? })
}

/// What [`own_way`] found.
pub(crate) struct OwnWay {
    /// The path, of which the last name may be that of a link.
    pub(crate) named: PathBuf,
    /// The path without links.
    pub(crate) leads: PathBuf,
}

/// The tree of the catalogue that a path names: one of another machine, or one here as it stands, for a link
/// may have taken the tree's place, or else as it leads there.
pub(crate) fn tree(catalog: &Catalog, path: &Path) -> Result<Option<Root>, Failure> {
    if let Some(address) = address(catalog, path, false)? {
        return Ok(catalog.root(&address)?);
    }
    match catalog.root(&absolute_name(path)?)? {
        Some(root) => Ok(Some(root)),
        None => Ok(catalog.root(&absolute(path)?)?),
    }
}

/// A path of this machine, or the address of something in a tree of another: what begins with `ssh://`, and
/// `HOST:PATH` where the catalogue has such a tree.
pub(crate) fn here_or_remote(catalog: &Catalog, path: &Path) -> Result<PathBuf, Failure> {
    address(catalog, path, false)?.map_or_else(|| absolute(path), Ok)
}

/// The address of something on another machine, if a path is one. Where it is `wanted`, `HOST:PATH` need be in
/// no tree yet.
pub(crate) fn address(catalog: &Catalog, path: &Path, wanted: bool) -> Result<Option<PathBuf>, Failure> {
    // As the catalogue lists it, with whatever is in its name.
    if is_address(path) && catalog.root_of(path)?.is_some() {
        return Ok(Some(path.to_path_buf()));
    }
    match Address::parse(path.as_os_str(), false) {
        Ok(place) if place.host != Host::Local => {
            let address = PathBuf::from(OsString::from_vec(place.address()));
            let is_meant = is_address(path)
                || wanted
                || path.symlink_metadata().is_err() && catalog.root_of(&address)?.is_some();
            Ok(is_meant.then_some(address))
        }
        Err(must) if is_url(path.as_os_str().as_bytes()) => Err(bad_place(path.as_os_str(), must)),
        _ => Ok(None),
    }
}

/// An object of JSON with a name.
pub(crate) fn with_name(mut object: Value, path: &Path) -> Value {
    if let (Value::Object(object), Ok(Value::Object(name))) =
        (&mut object, serde_json::to_value(Name::new(path)))
    {
        object.extend(name);
    }
    object
}
