//! The copies from which files are repaired, for the commands: the named ones, or those that a catalogue knows.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use verisum::catalog::store::Catalog;
use verisum::files::place::{LocalPlace, join};
use verisum::mend::repair::{Source, SourceCatalog};
use verisum::remote::{Address, Host};

use crate::ui::catalog::{absolute, open_shared};
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HostArgs};
use crate::ui::{self, PROGRAM};

/// The copies that were named; without any, all trees of the catalogue that knows the path. The tree itself may have
/// copies under other names, and comes last.
pub(crate) fn sources(
    from: &[OsString],
    hosts: &HostArgs,
    known: Option<(&Catalog, &Path)>,
) -> Result<Vec<Source<'static>>, Failure> {
    let remote = from.iter().filter(|text| hosts::is_remote(text)).count();
    let reached = hosts.hosts(remote)?;
    let mut sources: Vec<Source> = Vec::new();
    let names = names_in_copies(known)?;
    for text in from {
        let (address, mut place) = hosts::tree(text, &reached)?;
        let is_local = matches!(address.host, Host::Local);
        let shown = match is_local {
            true => absolute(Path::new(OsStr::from_bytes(&address.path)))?,
            false => OsString::from_vec(address.address()).into(),
        };
        let root = if is_local { shown.as_os_str().as_bytes().to_vec() } else { address.path };
        let mut is_there = |name: &&PathBuf| match is_local {
            true => shown.join(name).is_file(),
            false => place.state(&join(&root, name.as_os_str().as_bytes())).is_ok(),
        };
        let (shown, root) = match names.iter().find(|name| is_there(name)) {
            Some(name) => (shown.join(name), join(&root, name.as_os_str().as_bytes())),
            None => (shown, root),
        };
        sources.push(Source { root, ..Source::new(&shown, place) });
    }
    let Some((catalog, path)) = known else { return Ok(sources) };
    let own = catalog.root_of(path)?.map(|root| root.path);
    let known = match sources.is_empty() {
        true => catalog
            .roots()?
            .into_iter()
            .map(|root| root.path)
            .filter(|root| Some(root) != own.as_ref())
            .collect(),
        false => Vec::new(),
    };
    for tree in known.into_iter().chain(own) {
        let place: Box<dyn verisum::files::place::Place> =
            match Address::from_recorded(tree.as_os_str().as_bytes()) {
                Some(address) => {
                    let place = hosts::place(&reached, &address.host)?;
                    let root = address.path;
                    sources.push(Source { root, is_counterpart: false, ..Source::new(&tree, place) });
                    continue;
                }
                None => Box::new(LocalPlace::default()),
            };
        sources.push(Source { is_counterpart: false, ..Source::new(&tree, place) });
    }
    Ok(sources)
}

/// Gives copies the catalogue that knows them, in which a renamed one is found: the one that was named, or else one of
/// the others that are there.
pub(crate) fn look_up(
    sources: &mut [Source],
    named: Option<&Path>,
    others: &[PathBuf],
) -> Result<(), Failure> {
    let mut knows_any = named.is_none();
    for source in sources.iter_mut().filter(|source| source.is_counterpart && !source.is_parity) {
        if let Some(path) = named {
            source.catalog = SourceCatalog::of(open_shared(path)?, source)?;
            knows_any |= source.catalog.is_some();
        }
        for path in others {
            if source.catalog.is_some() {
                break;
            }
            // It is not what was asked for: a usual one that cannot be used is passed over.
            match open_shared(path).and_then(|catalog| Ok(SourceCatalog::of(catalog, source)?)) {
                Ok(found) => source.catalog = found,
                Err(failure) => ui::say(PROGRAM, &format!("{}: repairing without it", failure.message())),
            }
        }
    }
    match named {
        Some(path) if !knows_any => {
            let error = std::io::Error::other("it knows none of the copies");
            Err(Failure::file(path.to_path_buf(), "look for copies", error))
        }
        _ => Ok(()),
    }
}

/// Where a single file that is to be repaired may be in a copy of its tree: by its path in the tree, or by its name.
fn names_in_copies(known: Option<(&Catalog, &Path)>) -> Result<Vec<PathBuf>, Failure> {
    let Some((catalog, path)) = known.filter(|(_, path)| !path.is_dir()) else { return Ok(Vec::new()) };
    let Some(root) = catalog.root_of(path)?.filter(|root| root.path != path) else { return Ok(Vec::new()) };
    let below = path.strip_prefix(&root.path).ok();
    Ok(below.into_iter().chain(path.file_name().map(Path::new)).map(Path::to_path_buf).collect())
}
