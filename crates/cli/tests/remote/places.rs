//! One suite over each place: this machine, this machine by the programs of a host, a host behind a real
//! sshd, each way to hash in turn, and a bucket of a real server of S3, and of those that stand for Google and Azure.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::bucket::Store;
use common::cloud::Cloud;
use common::sshd::sshd;
use tempfile::TempDir;
use verisum::digest::Digest;
use verisum::files::place::{
    FileAnswer, FileRequest, FileState, Files, LocalPlace, MOST_WHOLE, Place, PlaceError, PlaceEvent, Reason,
    WholeFile,
};
use verisum::object::BucketPlace;
use verisum::remote::{Address, Host, HostOptions, Hosts, Program, SshOptions};

/// Names whose order as paths is another than that of directories one by one, and names that scripts may break.
const NAMES: [&str; 12] = [
    "a",
    "a b",
    "a-b/c",
    "a.b",
    "aa",
    "aa.b/c",
    "aab",
    "b/c/d/e",
    "b/c/d/f'\"$x",
    "b/line\nbreak",
    "z\\t",
    "\u{e9}",
];

/// The files of `NAMES`, of different lengths; everybody may read them.
fn tree() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fill(folder.path());
    folder
}

fn fill(folder: &Path) {
    for (number, name) in NAMES.iter().enumerate() {
        write(&folder.join(name), number);
    }
    for (number, name) in ["A/b", "A/b.c"].iter().enumerate() {
        write(&folder.join(name), 100 + number);
    }
}

fn write(path: &Path, number: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content(number)).unwrap();
}

fn content(number: usize) -> Vec<u8> {
    (0..number * 997).map(|at| (at * 7 + number) as u8).collect()
}

/// All files below a folder, in the order of their paths' bytes in a place where it is `root`, with their content.
fn files(folder: &Path, root: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let top = folder.as_os_str().as_bytes();
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let below = &path.as_os_str().as_bytes()[top.len()..];
                found.insert([root, below].concat(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn sha256() -> Digest {
    Digest::find("sha256").unwrap()
}

/// What a place answers until it has given so many answers.
fn answers(
    most: usize,
    ask: &mut dyn FnMut(verisum::files::place::Sink) -> Result<(), PlaceError>,
) -> Vec<FileAnswer> {
    let found = Mutex::new(Vec::new());
    ask(&|event| {
        if let PlaceEvent::Answer(answer) = event {
            let mut found = found.lock().unwrap();
            found.push(answer);
            return found.len() < most;
        }
        true
    })
    .unwrap();
    found.into_inner().unwrap()
}

/// Everything that all places have in common.
fn suite(what: &str, place: &mut dyn Place) {
    let folder = tree();
    suite_over(what, place, folder.path(), folder.path().as_os_str().as_bytes());
}

/// The same over the files of a folder, which the place calls `root`.
fn suite_over(what: &str, place: &mut dyn Place, folder: &Path, root: &[u8]) {
    let path = |name: &str| [root, b"/", name.as_bytes()].concat();
    let expected = files(folder, root);
    let digests = [sha256()];
    let can = place.capabilities(&digests, &|_| true).unwrap();
    assert!(!can.way.is_empty() && can.tells_states, "{what}");

    // In the order of paths, each once, with its length and time.
    let listed = answers(usize::MAX, &mut |sink| place.list(root, sink));
    let names: Vec<&[u8]> = listed.iter().map(|answer| &answer.request.path[..]).collect();
    assert_eq!(names, expected.keys().collect::<Vec<_>>(), "{what}");
    for answer in &listed {
        assert!(answer.result.as_ref().unwrap().digests.is_empty(), "{what}");
        assert_eq!(answer.request.seen.size, Some(expected[&answer.request.path].len() as u64), "{what}");
        assert!(answer.request.seen.modified.is_some(), "{what}");
    }
    assert_eq!(answers(3, &mut |sink| place.list(root, sink)).len(), 3, "{what}: it ends when told to");
    let one = answers(usize::MAX, &mut |sink| place.list(&path("aa"), sink));
    assert_eq!(one.iter().map(|answer| &answer.request.path).collect::<Vec<_>>(), [&path("aa")], "{what}");
    // Some programs only say in their own words what they cannot list.
    let told = Mutex::new(Vec::new());
    place
        .list(&path("none"), &|event| {
            told.lock().unwrap().push(match event {
                PlaceEvent::Answer(answer) => answer.result.unwrap_err().reason() == Reason::Missing,
                PlaceEvent::Unlisted(line) => line.contains("none"),
                other => panic!("{what}: {other:?}"),
            });
            true
        })
        .unwrap();
    assert_eq!(told.into_inner().unwrap(), [true], "{what}");

    // Digests of a tree, each once.
    let digest = |path: &[u8]| sha256().hash(&expected[path]).unwrap();
    let hashed = answers(usize::MAX, &mut |sink| {
        place.hash(&digests, Files::Trees(&mut std::iter::once(root.to_vec())), sink)
    });
    let mut found: Vec<&[u8]> = hashed.iter().map(|answer| &answer.request.path[..]).collect();
    if can.in_order {
        assert!(found.is_sorted(), "{what}");
    }
    found.sort();
    assert_eq!(found, expected.keys().collect::<Vec<_>>(), "{what}");
    for answer in &hashed {
        assert_eq!(answer.result.as_ref().unwrap().digest(), Some(digest(&answer.request.path)), "{what}");
    }

    // Of files by name, with what the asker knows them by, whether they are there or not.
    let mut wanted = vec!["a", "none", "b", "b/line\nbreak", "z\\t"];
    wanted.retain(|name| ["none", "b"].contains(name) || expected.contains_key(&path(name)));
    let requests = || {
        wanted.iter().enumerate().map(|(tag, name)| FileRequest {
            path: path(name),
            tag: tag as u64,
            ..FileRequest::default()
        })
    };
    let mut named =
        answers(usize::MAX, &mut |sink| place.hash(&digests, Files::Named(&mut requests()), sink));
    named.sort_by_key(|answer| answer.request.tag);
    assert_eq!(named.len(), wanted.len(), "{what}");
    for (answer, name) in named.iter().zip(wanted.iter().copied()) {
        match (&answer.result, name) {
            (Err(error), "none") => assert_eq!(error.reason(), Reason::Missing, "{what}"),
            // Where there are no directories, it is no object.
            (Err(error), "b") if root == b"/pre/fix" => assert_eq!(error.reason(), Reason::Missing, "{what}"),
            (Err(error), "b") => assert_eq!(error.reason(), Reason::Directory, "{what}"),
            (result, _) => {
                let read = result.as_ref().unwrap();
                assert_eq!((read.digest(), read.changed), (Some(digest(&path(name))), false), "{what}");
            }
        }
    }
    let mut settled = answers(usize::MAX, &mut |sink| {
        let requests =
            ["aa", "A/b"].iter().map(|name| FileRequest { path: path(name), ..FileRequest::default() });
        place.hash_settled(&digests[0], requests.collect(), sink)
    });
    settled.sort_by(|one, other| one.request.path.cmp(&other.request.path));
    for (answer, name) in settled.iter().zip(["A/b", "aa"]) {
        assert_eq!(answer.request.path, path(name), "{what}");
        assert_eq!(answer.result.as_ref().unwrap().digest(), Some(digest(&path(name))), "{what}");
        assert_ne!(answer.request.seen, FileState::default(), "{what}");
    }

    // The state of one, as listings tell it.
    for answer in listed.iter().take(3) {
        assert_eq!(place.state(&answer.request.path).unwrap().now, answer.request.seen, "{what}");
    }
    let missing = place.state(&path("none")).unwrap_err();
    assert!(
        matches!(&missing, PlaceError::File(error) if error.reason() == Reason::Missing),
        "{what}: {missing}"
    );

    // Small files whole, or none.
    let requests: Vec<FileRequest> = listed.iter().map(|answer| answer.request.clone()).collect();
    for (request, whole) in requests.iter().zip(place.read_whole(&requests).unwrap()) {
        let content = &expected[&request.path];
        let is_small = content.len() as u64 <= MOST_WHOLE;
        let is_whole = can.reads_ranges && !place.is_here() && is_small;
        assert_eq!(whole.is_some(), is_whole, "{what}: {}", String::from_utf8_lossy(&request.path));
        if let Some(WholeFile { content: found, known }) = whole {
            assert_eq!((&found, known.now), (content, request.seen), "{what}");
        }
    }

    // Ranges, where there are any.
    let mut range = |name: &str, from: u64, to: u64| {
        let mut bytes = Vec::new();
        place.read(&path(name), from..to)?.read_to_end(&mut bytes).unwrap();
        Ok::<_, PlaceError>(bytes)
    };
    if can.reads_ranges {
        let whole = &expected[&path("A/b.c")];
        assert_eq!(range("A/b.c", 0, 5).unwrap(), whole[..5], "{what}");
        assert_eq!(range("A/b.c", 70_000, 90_001).unwrap(), whole[70_000..90_001], "{what}");
        assert_eq!(
            range("A/b.c", whole.len() as u64 - 2, u64::MAX).unwrap(),
            whole[whole.len() - 2..],
            "{what}"
        );
        assert_eq!(range("A/b.c", whole.len() as u64, whole.len() as u64 + 9).unwrap(), b"", "{what}");
        let Err(PlaceError::File(error)) = range("none", 0, 1) else { panic!("{what}: it is not there") };
        assert_eq!(error.reason(), Reason::Missing, "{what}");
    } else {
        assert!(matches!(range("a", 0, 1), Err(PlaceError::Unsupported(_))), "{what}");
    }
    let about = FileState::default();
    let written = place.write(&path("written"), &mut &b"new"[..], &about, None);
    assert_eq!(written.is_ok(), can.writes, "{what}");
    if can.writes {
        let mut whole = || {
            let mut bytes = Vec::new();
            place.read(&path("written"), 0..100).unwrap().read_to_end(&mut bytes).unwrap();
            let there = place.state(&path("written")).unwrap().now;
            (bytes, place.write(&path("written"), &mut Breaks, &about, Some(&there)))
        };
        assert!(matches!(whole(), (bytes, Err(_)) if bytes == b"new"), "{what}");
        assert_eq!(whole().0, b"new", "{what}");
        place.remove(&path("written")).unwrap();
        let removed = place.state(&path("written")).unwrap_err();
        assert!(
            matches!(&removed, PlaceError::File(error) if error.reason() == Reason::Missing),
            "{what}: {removed}"
        );
    } else {
        assert!(matches!(place.remove(&path("a")), Err(PlaceError::Unsupported(_))), "{what}");
    }
}

/// What somebody else writes while a file is written stays, be the file long or short, new or not.
fn write_side_by_side(what: &str, place: &mut dyn Place, other: &mut dyn Place, folder: &[u8]) {
    for (number, length) in [1_000, 17 << 20].into_iter().enumerate() {
        let path = &[folder, b"/side", number.to_string().as_bytes()].concat();
        let content = vec![7; length];
        let about = FileState { size: Some(length as u64), ..FileState::default() };
        let state = |place: &mut dyn Place| place.state(path).ok().map(|known| known.now);
        for round in ["theirs", "theirs later"] {
            let seen = state(place);
            assert_eq!(seen.is_some(), round == "theirs later", "{what}");
            let mut theirs =
                || other.write(path, &mut round.as_bytes(), &FileState::default(), seen.as_ref()).map(drop);
            let mut interrupted = Interrupted { content: &content, once: Some(&mut theirs) };
            let written = place.write(path, &mut interrupted, &about, seen.as_ref());
            assert!(matches!(written, Err(PlaceError::Replaced)), "{what}: {length}: {written:?}");
            let mut bytes = Vec::new();
            place.read(path, 0..100).unwrap().read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, round.as_bytes(), "{what}: {length}");
        }
        // Who looked before may write, and who did not may not.
        let seen = state(place);
        let refused = place.write(path, &mut &content[..], &about, None);
        assert!(matches!(refused, Err(PlaceError::Replaced)), "{what}: {length}: {refused:?}");
        place.write(path, &mut &content[..], &about, seen.as_ref()).unwrap();
        assert_eq!(state(place).unwrap().size, about.size, "{what}");
    }
}

/// A source during which something happens.
struct Interrupted<'c> {
    content: &'c [u8],
    once: Option<&'c mut dyn FnMut() -> Result<(), PlaceError>>,
}

impl Read for Interrupted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.content.read(buffer)?;
        if let Some(once) = self.once.take_if(|_| self.content.is_empty()) {
            once().unwrap();
        }
        Ok(count)
    }
}

/// A source that fails after its first bytes.
struct Breaks;

impl Read for Breaks {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer[0] = b'x';
        Err(std::io::Error::other("broken"))
    }
}

fn reached(way: &str, config: Option<std::path::PathBuf>, push: bool, scratch: &Path) -> Hosts {
    let mut ssh = SshOptions::default();
    ssh.config = config;
    ssh.may_ask = false;
    let program = || Program::open(Path::new(common::VERISUM)).unwrap();
    let push = push.then(|| Arc::new(vec![program()]));
    Hosts::new(
        {
            let mut options = HostOptions::default();
            options.ssh = ssh;
            options.required = vec![way.to_string()];
            options.push = push;
            options
        },
        scratch,
    )
}

#[test]
fn this_machine() {
    suite("this machine", &mut LocalPlace::default());
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (LocalPlace::default(), LocalPlace::default());
    write_side_by_side("this machine", &mut one, &mut other, folder.path().as_os_str().as_bytes());
}

#[test]
fn this_machine_by_the_programs_of_a_host() {
    let scratch = tempfile::tempdir().unwrap();
    for way in ["coreutils", "perl", "python"] {
        let mut place = reached(way, None, false, scratch.path()).place(&Host::Local).unwrap();
        suite(way, place.as_mut());
    }
}

#[test]
fn a_host_behind_ssh() {
    let Some(server) = sshd("") else { return };
    let scratch = server.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let host = Address::parse("web1:".as_ref(), false).unwrap().host;
    for (way, push) in [("coreutils", false), ("perl", false), ("verisum", true)] {
        let hosts = reached(way, Some(server.path("config")), push, &scratch);
        suite(&format!("ssh, {way}"), hosts.place(&host).unwrap().as_mut());
    }
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "what was private is gone");
}

#[test]
fn a_bucket() {
    let Some(store) = Store::start() else { return };
    let folder = store.bucket("places");
    fill(&folder.join("pre/fix"));
    write(&folder.join("pre/fixed"), 7);
    let options = store.options();
    let mut place = BucketPlace::open("s3://places", &options).unwrap();
    suite_over("a bucket", &mut place, &folder.join("pre/fix"), b"/pre/fix");
    let mut other = BucketPlace::open("s3://places", &options).unwrap();
    write_side_by_side("a bucket", &mut place, &mut other, b"/sides");
}

#[test]
fn buckets_of_google_and_azure() {
    for cloud in [Cloud::google(), Cloud::azure()].into_iter().flatten() {
        let folder = tree();
        let mut place = BucketPlace::open(cloud.url, &cloud.options()).unwrap();
        if cloud.url.starts_with("az://") {
            // Azure takes a backslash for a slash.
            let refused = place.write(b"/pre/fix/z\\t", &mut &b"x"[..], &FileState::default(), None);
            assert!(refused.unwrap_err().to_string().contains("no such name"));
            fs::remove_file(folder.path().join("z\\t")).unwrap();
        }
        let outside = BTreeMap::from([(b"/pre/fixed".to_vec(), content(7))]);
        for (path, content) in files(folder.path(), b"/pre/fix").into_iter().chain(outside) {
            let about = FileState { size: Some(content.len() as u64), ..FileState::default() };
            place.write(&path, &mut &content[..], &about, None).unwrap();
        }
        suite_over(cloud.url, &mut place, folder.path(), b"/pre/fix");
        let mut other = BucketPlace::open(cloud.url, &cloud.options()).unwrap();
        write_side_by_side(cloud.url, &mut place, &mut other, b"/sides");
    }
}
