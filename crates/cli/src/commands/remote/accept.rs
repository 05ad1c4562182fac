//! Reading files of other machines for `verisum accept`.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_digest::Digest;
use verisum_tree::scrub::{self, Accept, Accepted, Asked, Condition, Told, Unread};
use verisum_tree::store::catalog::{Catalog, Seen};

use super::far::{Far, Sessions};
use super::hosts::{self, HostArgs};
use crate::failure::Failure;
use crate::remote::{Place, Reason};
use crate::render;
use crate::verisum::PROGRAM;

/// How many files are read at once.
const AT_ONCE: usize = 1024;

/// Accepts files of another machine, by their address or that of a directory.
pub(crate) fn accept(
    catalog: &Catalog,
    what: &Accept,
    hosts: &HostArgs,
    report: &mut dyn FnMut(Accepted),
) -> Result<u64, Failure> {
    let root = catalog.root_of(what.path)?.map_or_else(|| what.path.to_path_buf(), |root| root.path);
    let Some(place) = Place::of_address(root.as_os_str().as_bytes()) else {
        return Err(Failure::Usage(format!("{}: no address of a host", root.display())));
    };
    let folder = hosts::folder(std::iter::once(&place.host))?;
    let options = hosts.options(1)?;
    let host = place.host.name();
    let say = |message: &str| render::say(PROGRAM, &format!("{host}: {message}"));
    let mut sessions = Sessions::new(&place.host, &options, folder.as_ref(), &say);
    let mut read = |files: &[(PathBuf, Digest)]| {
        let mut found: HashMap<PathBuf, Result<Option<Seen>, String>> = HashMap::new();
        for (_, digest) in files {
            let of_digest = |(path, other): &&(PathBuf, Digest)| {
                other.name() == digest.name() && !found.contains_key(path)
            };
            let same: Vec<&PathBuf> = files.iter().filter(of_digest).map(|(path, _)| path).collect();
            if same.is_empty() {
                continue;
            }
            let mut far = Far { sessions: &mut sessions, place: &place, digest };
            let read = read_now(&mut far, digest, &same, &root);
            found.extend(same.into_iter().cloned().zip(read));
        }
        files
            .iter()
            .map(|(path, _)| found.remove(path).unwrap_or_else(|| Err("it was not read".to_string())))
            .collect()
    };
    Ok(scrub::accept_with(catalog, what, (AT_ONCE, &mut read), report)?)
}

/// What files are now; nothing where there is none, or something else.
fn read_now(
    far: &mut Far,
    digest: &Digest,
    paths: &[&PathBuf],
    root: &Path,
) -> Vec<Result<Option<Seen>, String>> {
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec();
    let asked: Vec<Asked> =
        paths.iter().map(|path| Asked { name: name(path), condition: Condition::default() }).collect();
    let told = match far.read_settled(digest, &asked) {
        Ok(told) => told,
        Err(Unread::Digest(why) | Unread::Machine(why)) => {
            return paths.iter().map(|_| Err(why.clone())).collect();
        }
    };
    let is_no_file = |error: &str| {
        [Reason::Directory, Reason::Special].iter().any(|reason| error.ends_with(&reason.message()))
    };
    let mut found: HashMap<Vec<u8>, Result<Option<Seen>, String>> = HashMap::new();
    for told in told {
        match told {
            Told::File(Asked { name, condition: Condition { size, mtime, .. } }, Some(digest)) => {
                found.insert(name, Ok(Some(Seen { size, mtime, ctime: 0, inode: 0, digest })));
            }
            Told::Changed(name) => {
                found.insert(name, Err("read: it changed while it was read".to_string()));
            }
            Told::Unread { name, error, .. } if is_no_file(&error) => {
                found.insert(name, Ok(None));
            }
            Told::Unread { name, error, .. } => {
                found.insert(name, Err(error));
            }
            Told::File(..) | Told::Unlisted(_) => {}
        }
    }
    // What has no answer is gone.
    asked.iter().map(|asked| found.remove(&asked.name).unwrap_or(Ok(None))).collect()
}
