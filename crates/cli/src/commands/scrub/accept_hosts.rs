//! Reading files of other machines for `verisum accept`.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum::catalog::scrub::{self, Accept, Accepted, Condition, ReaderError, Request, Response};
use verisum::catalog::store::{Catalog, Seen};
use verisum::digest::Digest;

use super::host_tree::{RemoteReader, Sessions};
use crate::ui;
use crate::ui::PROGRAM;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HostArgs};
use verisum::remote::{Place, Reason};

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
    let say = |message: &str| ui::say(PROGRAM, &format!("{host}: {message}"));
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
            let mut reader = RemoteReader { sessions: &mut sessions, place: &place, digest };
            let read = read_now(&mut reader, digest, &same, &root);
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
    reader: &mut RemoteReader,
    digest: &Digest,
    paths: &[&PathBuf],
    root: &Path,
) -> Vec<Result<Option<Seen>, String>> {
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec();
    let requests: Vec<Request> =
        paths.iter().map(|path| Request { name: name(path), condition: Condition::default() }).collect();
    let responses = match reader.read_settled(digest, &requests) {
        Ok(responses) => responses,
        Err(ReaderError::Digest(why) | ReaderError::Machine(why)) => {
            return paths.iter().map(|_| Err(why.clone())).collect();
        }
    };
    let is_no_file = |error: &str| {
        [Reason::Directory, Reason::Special].iter().any(|reason| error.ends_with(&reason.message()))
    };
    let mut found: HashMap<Vec<u8>, Result<Option<Seen>, String>> = HashMap::new();
    for response in responses {
        match response {
            Response::File(Request { name, condition: Condition { size, mtime, .. } }, Some(digest)) => {
                found.insert(name, Ok(Some(Seen { size, mtime, ctime: 0, inode: 0, digest })));
            }
            Response::Changed(name) => {
                found.insert(name, Err("read: it changed while it was read".to_string()));
            }
            Response::Unread { name, error, .. } if is_no_file(&error) => {
                found.insert(name, Ok(None));
            }
            Response::Unread { name, error, .. } => {
                found.insert(name, Err(error));
            }
            Response::File(..) | Response::Unlisted(_) => {}
        }
    }
    // What has no answer is gone.
    requests.iter().map(|request| found.remove(&request.name).unwrap_or(Ok(None))).collect()
}
