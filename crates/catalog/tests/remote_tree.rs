//! Scrubs of trees that somebody else reads: what each thing is called, and what becomes of its record.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::Errno;
use verisum_catalog::scrub::{
    Accept, Alarm, PlaceTree, ScrubError, ScrubOptions, ScrubReport, ScrubSummary, TooMuch, accept_tree,
    scrub_tree,
};
use verisum_catalog::store::{Catalog, Identity, Moment, Stamp, State};
use verisum_digest::Digest;
use verisum_files::place::{
    Capabilities, FileAnswer, FileIdentity, FileRequest, FileState, Files, Modified, Place, PlaceError,
    PlaceEvent, Sink,
};
use verisum_files::{Excludes, FileError, Operation, Stop, Timestamp, Verdict, VerdictClass};

const SECOND: i64 = 1_000_000_000;
const SRV: &str = "ssh://web/srv";

/// A file of another machine: its content at the first read and at the second.
#[derive(Clone)]
struct File {
    content: [String; 2],
    mtime: i64,
    is_exact: bool,
    /// That of its inode; 0 where the machine does not tell it.
    number: u64,
    error: Option<&'static str>,
}

/// What a machine tells besides its files.
#[derive(Clone)]
enum Told {
    Changed(&'static str),
    Denied(&'static str),
    Unlisted(&'static str),
}

/// Another machine.
#[derive(Clone)]
struct Machine {
    files: BTreeMap<String, File>,
    /// Something that is told besides.
    told: Vec<Told>,
    /// The only digest that it computes, if not all.
    only: Option<&'static str>,
    is_down: bool,
    /// How often files were read, by digest.
    reads: Vec<(String, usize)>,
    /// Which content a second read gives.
    again: usize,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            files: BTreeMap::new(),
            told: Vec::new(),
            only: None,
            is_down: false,
            reads: Vec::new(),
            again: 1,
        }
    }
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Machine {
        let mut machine = Machine::default();
        files.iter().for_each(|(name, content)| machine.put(name, content, 1));
        machine
    }

    fn put(&mut self, name: &str, content: &str, seconds: i64) {
        let content = [content.to_string(), content.to_string()];
        let file = File { content, mtime: seconds * SECOND + 5, is_exact: true, number: 0, error: None };
        self.files.insert(name.to_string(), file);
    }

    fn file(&mut self, name: &str) -> &mut File {
        self.files.get_mut(name).unwrap()
    }

    fn tell(&self, name: &str, turn: usize, digest: Option<&Digest>) -> PlaceEvent {
        let file = &self.files[name];
        if let Some(error) = file.error {
            let source = if error.contains("I/O") { Errno::IO.into() } else { std::io::Error::other(error) };
            return unread(name, FileError::io(&path_of(name), Operation::Read, source));
        }
        let content = &file.content[turn];
        let mtime = if file.is_exact { file.mtime } else { file.mtime / SECOND * SECOND };
        let time = Timestamp { seconds: mtime / SECOND, nanoseconds: (mtime % SECOND) as u32 };
        let modified = Some(Modified { time, is_exact: file.is_exact });
        let identity = (file.number > 0).then_some(FileIdentity { number: file.number, born: None });
        let seen = FileState { size: Some(content.len() as u64), modified, identity };
        let path = path_of(name).into_os_string().into_vec();
        let digest = digest.map(|digest| digest.hash(content.as_bytes()).unwrap());
        PlaceEvent::Answer(FileAnswer::read(
            FileRequest { path, seen, ..FileRequest::default() },
            digest,
            false,
        ))
    }

    fn check(&self, digest: &Digest) -> Result<(), PlaceError> {
        match self.only {
            Some(only) if only != digest.name() => {
                Err(PlaceError::Digest(format!("no {}", digest.name()).into()))
            }
            _ => Ok(()),
        }
    }

    fn tree(&mut self, digest: Option<&Digest>, sink: Sink) -> Result<(), PlaceError> {
        if self.is_down {
            return Err(PlaceError::Machine("connect: it is down".into()));
        }
        if let Some(digest) = digest {
            self.check(digest)?;
            self.reads.push((digest.name().to_string(), self.files.len()));
        }
        let mut told =
            self.files.keys().map(|name| self.tell(name, 0, digest)).chain(self.told.iter().map(|told| {
                match told {
                    Told::Changed(name) => {
                        let path = path_of(name).into_os_string().into_vec();
                        let request = FileRequest { path, ..FileRequest::default() };
                        PlaceEvent::Answer(FileAnswer::read(request, None, true))
                    }
                    Told::Denied(name) => {
                        unread(name, FileError::io(&path_of(name), Operation::Read, Errno::ACCESS))
                    }
                    Told::Unlisted(what) => PlaceEvent::Unlisted(what.to_string()),
                }
            }));
        told.all(sink);
        Ok(())
    }

    fn files(&self, digest: &Digest, files: &mut dyn Iterator<Item = FileRequest>, turn: usize, sink: Sink) {
        let name = |file: FileRequest| {
            String::from_utf8(file.path.strip_prefix(b"/srv/").unwrap().to_vec()).unwrap()
        };
        for file in files {
            if !sink(self.tell(&name(file), turn, Some(digest))) {
                break;
            }
        }
    }
}

impl Place for Machine {
    fn capabilities(&mut self, _: &[Digest], _: Sink) -> Result<Capabilities, PlaceError> {
        let mut capabilities = Capabilities::new("test");
        capabilities.tells_states = true;
        Ok(capabilities)
    }

    fn list(&mut self, _: &[u8], sink: Sink) -> Result<(), PlaceError> {
        self.tree(None, sink)
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        let digest = &digests[0];
        match files {
            Files::Trees(_) => self.tree(Some(digest), sink),
            Files::Named(files) => {
                self.check(digest)?;
                let files: Vec<FileRequest> = files.collect();
                self.reads.push((digest.name().to_string(), files.len()));
                self.files(digest, &mut files.into_iter(), 0, sink);
                Ok(())
            }
        }
    }

    fn hash_settled(
        &mut self,
        digest: &Digest,
        files: Vec<FileRequest>,
        sink: Sink,
    ) -> Result<(), PlaceError> {
        self.files(digest, &mut files.into_iter(), self.again, sink);
        Ok(())
    }
}

/// Where a file is on the machine.
fn path_of(name: &str) -> PathBuf {
    if name.is_empty() { PathBuf::from("/srv") } else { Path::new("/srv").join(name) }
}

fn unread(name: &str, error: FileError) -> PlaceEvent {
    let path = path_of(name).into_os_string().into_vec();
    let request = FileRequest { path, ..FileRequest::default() };
    PlaceEvent::Answer(FileAnswer { request, result: Err(error) })
}

/// A catalogue and the time.
struct Records {
    catalog: Catalog,
    now: i64,
    folder: tempfile::TempDir,
}

impl Records {
    fn new() -> Records {
        let folder = tempfile::tempdir().unwrap();
        Records { catalog: Catalog::open(&folder.path().join("c.db")).unwrap(), now: 1_000_000, folder }
    }

    fn options(&self) -> ScrubOptions {
        let mut options = ScrubOptions::new(Digest::find("sha256").unwrap());
        options.alarm = Alarm { share: 1.0, at_least: 100 };
        options.now = Some(Timestamp::of_milliseconds(self.now));
        options
    }

    fn run(
        &mut self,
        address: &str,
        machine: &mut Machine,
        options: &ScrubOptions,
    ) -> (Result<ScrubSummary, ScrubError>, Vec<ScrubReport>) {
        self.now += 1_000_000;
        let mut options = options.clone();
        options.now = Some(Timestamp::of_milliseconds(self.now));
        let mut reports = Vec::new();
        let mut tell = |report| reports.push(report);
        let address = Path::new(address);
        let turn = Mutex::new(());
        let mut tree = PlaceTree { place: machine, root: b"/srv", notes: &|_| true };
        let summary = scrub_tree(&mut self.catalog, address, (&options, &turn), &mut tree, &mut tell);
        assert_eq!(self.catalog.check().unwrap(), []);
        (summary, reports)
    }

    /// Scrubs, and asserts what was told: verdicts and names below the tree.
    #[track_caller]
    fn expect_with(
        &mut self,
        machine: &mut Machine,
        options: &ScrubOptions,
        expected: &[(Verdict, &str)],
    ) -> ScrubSummary {
        let (summary, reports) = self.run(SRV, machine, options);
        let mut found: Vec<(Verdict, String)> = reports
            .iter()
            .map(|report| {
                let name = report.path.strip_prefix(SRV).unwrap().to_str().unwrap().to_string();
                (report.verdict, name)
            })
            .collect();
        found.sort();
        let mut expected: Vec<(Verdict, String)> =
            expected.iter().map(|(verdict, name)| (*verdict, name.to_string())).collect();
        expected.sort();
        assert_eq!(found, expected, "{reports:?}");
        summary.unwrap()
    }

    #[track_caller]
    fn expect(&mut self, machine: &mut Machine, expected: &[(Verdict, &str)]) -> ScrubSummary {
        let options = self.options();
        self.expect_with(machine, &options, expected)
    }

    fn state(&self, name: &str) -> Option<State> {
        let root = self.catalog.root(Path::new(SRV)).unwrap().unwrap();
        let directory = self.catalog.directory(&root, Path::new(name).parent().unwrap()).unwrap().unwrap();
        let name = Path::new(name).file_name().unwrap();
        self.catalog.record(directory, name).unwrap().map(|record| record.state)
    }
}

fn first(files: &[(&str, &str)]) -> (Records, Machine) {
    let (mut records, mut machine) = (Records::new(), Machine::new(files));
    let new: Vec<(Verdict, &str)> = files.iter().map(|(name, _)| (Verdict::New, *name)).collect();
    // What is new in a new tree is only counted.
    let told: Vec<_> = records.run(SRV, &mut machine, &records.options()).1;
    assert_eq!(told.len(), new.len());
    machine.reads.clear();
    (records, machine)
}

const FILES: [(&str, &str); 5] = [
    ("one", "content one"),
    ("two", "content two"),
    ("a/three", "content three"),
    ("a/b/four", "content four"),
    ("a b/$five", "content five"),
];

#[test]
fn each_change_has_its_name_and_bad_data_replaces_no_record() {
    let (mut records, mut machine) = first(&FILES);
    assert_eq!(records.expect(&mut machine, &[]).count(Verdict::Ok), 5);
    machine.put("one", "CONTENT ONE", 1);
    machine.put("two", "longer content two", 1);
    machine.put("a/three", "other", 2);
    machine.put("a/b/four", "content four", 2);
    machine.put("six", "content six", 2);
    let bad = [(Verdict::Rot, "one"), (Verdict::Suspicious, "two")];
    let others = [(Verdict::Modified, "a/three"), (Verdict::Touched, "a/b/four"), (Verdict::New, "six")];
    records.expect(&mut machine, &[bad.to_vec(), others.to_vec()].concat());
    records.expect(&mut machine, &bad);
    // A new time forgives nothing, neither does a third content; but somebody may have written what is there.
    machine.put("one", "CONTENT ONE", 3);
    machine.put("two", "third content two", 3);
    records.expect(&mut machine, &[(Verdict::Suspicious, "one"), (Verdict::Suspicious, "two")]);
    // What was recorded is well.
    machine.put("one", "content one", 4);
    machine.put("two", "content two", 1);
    let well = [(Verdict::Touched, "one"), (Verdict::Ok, "two")];
    records.expect(&mut machine, &well);
    records.expect(&mut machine, &[]);
}

#[test]
fn what_two_reads_say_is_told_apart() {
    let (mut records, mut machine) = first(&FILES);
    machine.file("one").content = ["CONTENT ONE".to_string(), "content one".to_string()];
    machine.file("two").content = ["CONTENT TWO".to_string(), "CONTENT TWO".to_string()];
    let (_, reports) = records.run(SRV, &mut machine, &records.options());
    let found: Vec<_> = reports.iter().map(|r| (r.verdict, r.second.map(|second| second.same))).collect();
    assert!(found.contains(&(Verdict::Flaky, Some(false))) && found.contains(&(Verdict::Rot, Some(true))));
    // Somebody writes to it between the reads.
    machine.put("one", "content one", 1);
    machine.put("two", "content two", 1);
    records.run(SRV, &mut machine, &records.options()).0.unwrap();
    machine.file("one").content = ["CONTENT ONE".to_string(), "new content one".to_string()];
    machine.told = vec![Told::Changed("busy")];
    let found = records.expect(&mut machine, &[(Verdict::Suspicious, "one"), (Verdict::Busy, "busy")]);
    assert_eq!(found.count(Verdict::Busy), 1);
}

#[test]
fn missing_files_are_told_once_and_moved_ones_keep_their_history() {
    let (mut records, mut machine) = first(&FILES);
    machine.files.remove("one");
    let two = machine.files.remove("two").unwrap();
    machine.files.insert("c/moved".to_string(), two);
    records.expect(&mut machine, &[(Verdict::Missing, "one"), (Verdict::Moved, "c/moved")]);
    assert_eq!(records.expect(&mut machine, &[]).still_missing, 1);
    assert_eq!(records.state("one"), Some(State::MISSING));
    // A bad file is as bad under another name, and when it is gone.
    machine.put("a/three", "CONTENT THREE", 1);
    records.expect(&mut machine, &[(Verdict::Rot, "a/three")]);
    let three = machine.files.remove("a/three").unwrap();
    records.expect(&mut machine, &[(Verdict::Rot, "a/three")]);
    machine.files.insert("again".to_string(), three);
    records.expect(&mut machine, &[(Verdict::Rot, "again")]);
}

#[test]
fn nothing_is_missing_that_could_not_be_seen() {
    let (mut records, mut machine) = first(&FILES);
    let all = machine.clone();
    machine.files.retain(|name, _| !name.starts_with("a/") && name != "one");
    machine.told = vec![Told::Denied("a")];
    let summary = records.expect(&mut machine, &[(Verdict::Unverifiable, "a"), (Verdict::Missing, "one")]);
    assert!(!summary.complete && summary.unlisted == 1);
    // Somewhere, nobody knows where.
    machine.files.remove("two");
    machine.told = vec![Told::Unlisted("find: it failed")];
    records.expect(&mut machine, &[(Verdict::Unverifiable, "")]);
    // All of it.
    let mut machine = Machine::default();
    let (ended, reports) = records.run(SRV, &mut machine, &records.options());
    assert!(ended.unwrap_err().to_string().contains("is it mounted?") && reports.is_empty());
    machine.told = vec![Told::Unlisted("find: no such directory")];
    let (ended, reports) = records.run(SRV, &mut machine, &records.options());
    assert_eq!(ended.unwrap_err().to_string(), "ssh://web/srv: find: no such directory");
    assert!(reports.is_empty(), "{reports:?}");
    machine.told = vec![Told::Denied("")];
    assert!(records.run(SRV, &mut machine, &records.options()).0.is_err());
    assert_eq!(records.expect(&mut all.clone(), &[(Verdict::Ok, "one")]).files, 5);
    let mut machine = all;
    machine.file("one").error = Some("read: Permission denied");
    machine.file("two").error = Some("read: I/O");
    records.expect(&mut machine, &[(Verdict::Unverifiable, "one"), (Verdict::IoError, "two")]);
}

#[test]
fn each_file_is_verified_by_its_own_digest() {
    let (mut records, mut machine) = first(&FILES);
    machine.put("six", "content six", 1);
    let mut options = records.options();
    options.digest = Digest::find("md5").unwrap();
    records.expect_with(&mut machine, &options, &[(Verdict::New, "six")]);
    machine.reads.sort();
    assert_eq!(machine.reads, [("md5".to_string(), 1), ("sha256".to_string(), 5)]);
    machine.put("one", "CONTENT ONE", 1);
    machine.put("six", "CONTENT SIX", 1);
    let bad = [(Verdict::Rot, "one"), (Verdict::Rot, "six")];
    records.expect(&mut machine, &bad);
    // One that nobody there computes says nothing of the others.
    machine.put("one", "content one", 1);
    machine.only = Some("sha256");
    records.expect(&mut machine, &[(Verdict::Ok, "one"), (Verdict::Rot, "six")]);
}

#[test]
fn machines_that_are_down_have_failed_runs_and_names_that_are_none_leave_nothing() {
    let (mut records, mut machine) = first(&FILES);
    machine.is_down = true;
    let (ended, _) = records.run(SRV, &mut machine, &records.options());
    assert_eq!(ended.unwrap_err().to_string(), "ssh://web/srv: connect: it is down");
    let root = records.catalog.root(Path::new(SRV)).unwrap().unwrap();
    assert_eq!(
        records.catalog.runs(root.id, 1).unwrap()[0].error.as_deref(),
        Some("ssh://web/srv: connect: it is down")
    );
    assert!(records.run("ssh://wbe/srv", &mut machine, &records.options()).0.is_err());
    let mut file = Machine::new(&[("", "content")]);
    assert!(records.run("ssh://web/file", &mut file, &records.options()).0.is_err());
    assert_eq!(records.catalog.roots().unwrap().len(), 1);
    assert!(records.folder.path().exists());
}

#[test]
fn exports_have_addresses_that_can_be_imported() {
    let (mut records, mut machine) = first(&FILES);
    records.run("ssh://web/", &mut Machine::new(&FILES[..1]), &records.options()).0.unwrap();
    let mut export = Vec::new();
    records.catalog.export(&mut export).unwrap();
    let mut other = Records::new();
    let imported = other
        .catalog
        .import(&mut export.as_slice(), Path::new("export"), Timestamp::of_milliseconds(1))
        .unwrap();
    assert_eq!(imported.added, 6);
    other.now = records.now;
    assert_eq!(other.expect(&mut machine, &[]).count(Verdict::Ok), 5);
}

#[test]
fn too_many_changes_are_held() {
    let (mut records, mut machine) = first(&FILES);
    for (name, content) in FILES {
        machine.put(name, &content.replace("content", "encrypted"), 2);
    }
    let mut options = records.options();
    options.alarm = Alarm { share: 0.5, at_least: 1 };
    let modified: Vec<(Verdict, &str)> = FILES.iter().map(|(name, _)| (Verdict::Modified, *name)).collect();
    let summary = records.expect_with(&mut machine, &options, &modified);
    assert_eq!((summary.alarm, summary.held), (Some(TooMuch { files: 5, of: 5, unread: 0 }), 5));
    assert_eq!(records.expect(&mut machine, &modified).held, 5);
    let what = Accept {
        path: Path::new(SRV),
        dry: false,
        only_missing: false,
        cross_file_systems: false,
        now: Timestamp::of_milliseconds(1),
    };
    machine.again = 0;
    let mut tree = PlaceTree { place: &mut machine, root: b"/srv", notes: &|_| true };
    assert_eq!(accept_tree(&records.catalog, &what, &mut tree, &mut |_| {}).unwrap(), 5);
    records.expect(&mut machine.clone(), &[]);
}

#[test]
fn parts_and_what_is_left_out_are_only_themselves() {
    let (mut records, mut machine) = first(&FILES);
    let options = {
        let mut options = records.options();
        options.excludes = Some(Arc::new(Excludes::new(["/a", "*.tmp"]).unwrap()));
        options
    };
    machine.files.retain(|name, _| !name.starts_with("a/"));
    machine.put("x.tmp", "temporary", 1);
    records.expect_with(&mut machine, &options, &[]);
    // A directory in a recorded tree is a part of that.
    let mut part = Machine::new(&[("three", "CONTENT THREE"), ("b/four", "content four")]);
    let (summary, reports) = records.run("ssh://web/srv/a", &mut part, &records.options());
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(
        (reports[0].verdict, reports[0].path.as_path()),
        (Verdict::Rot, Path::new("ssh://web/srv/a/three"))
    );
    assert_eq!(summary.unwrap().count(Verdict::Ok), 1);
    assert_eq!(records.catalog.roots().unwrap().len(), 1);
    // A recorded tree in a directory is no part of that.
    let mut whole = Machine::new(&[("srv/one", "OTHER"), ("etc", "content")]);
    let (_, reports) = records.run("ssh://web/", &mut whole, &records.options());
    assert_eq!(reports.iter().map(|report| report.verdict).collect::<Vec<_>>(), [Verdict::New]);
}

#[test]
fn whole_seconds_and_lists_are_compared_as_far_as_they_go() {
    let (mut records, mut machine) = first(&FILES);
    machine.files.values_mut().for_each(|file| file.is_exact = false);
    records.expect(&mut machine, &[]);
    machine.files.values_mut().for_each(|file| file.is_exact = true);
    records.expect(&mut machine, &[]);
    // A list has no times: another content is bad all the same.
    let mut records = Records::new();
    let root = records.catalog.add_root(Path::new(SRV), Identity { device: 0, inode: 0 }).unwrap();
    let algorithm = records.catalog.algorithm("sha256").unwrap();
    let digest = Digest::find("sha256").unwrap().hash(b"content one").unwrap();
    let record = verisum_catalog::store::CatalogRecord {
        size: 0,
        mtime: Stamp::UNKNOWN,
        ctime: Stamp::UNKNOWN,
        inode: 0,
        algorithm,
        digest,
        first_seen: Moment::of_milliseconds(1),
        changed: Moment::of_milliseconds(1),
        verified: Moment::NEVER,
        state: State::Sound,
    };
    for name in ["one", "two"] {
        let change = verisum_catalog::store::RecordChange::Add(record);
        records.catalog.apply(root.id, root.directory, OsStr::from_bytes(name.as_bytes()), &change).unwrap();
    }
    let mut machine = Machine::new(&FILES[..2]);
    assert_eq!(records.expect(&mut machine, &[(Verdict::Rot, "two")]).bytes, 11);
}

#[test]
fn only_what_is_due_is_read_and_the_rest_is_there() {
    let (mut records, mut machine) = first(&FILES);
    let mut options = records.options();
    options.max_age = Some(Duration::from_secs(3600));
    let summary = records.expect_with(&mut machine, &options, &[]);
    assert_eq!((summary.read_files, summary.complete, machine.reads.len()), (0, true, 0));

    machine.put("one", "another one", 2);
    machine.put("new", "new", 2);
    machine.files.remove("two");
    let changes = [(Verdict::Modified, "one"), (Verdict::New, "new"), (Verdict::Missing, "two")];
    let summary = records.expect_with(&mut machine, &options, &changes);
    assert_eq!(
        (summary.read_files, std::mem::take(&mut machine.reads)),
        (2, vec![("sha256".to_string(), 2)])
    );

    // Without time nothing is read, and what changed waits.
    machine.put("a/three", "other three", 3);
    let mut hasty = records.options();
    hasty.budget = Some(Duration::ZERO);
    let summary = records.expect_with(&mut machine, &hasty, &[]);
    assert_eq!((summary.read_files, summary.waiting, summary.complete), (0, 1, false));
    assert!(summary.forecast.is_some() || summary.oldest.is_some());
    // The next run goes on with it.
    let summary = records.expect(&mut machine, &[(Verdict::Modified, "a/three")]);
    assert_eq!((summary.read_files, summary.complete), (5, true));

    let mut some = records.options();
    some.sample = 1e-9;
    assert_eq!(records.expect_with(&mut machine, &some, &[]).read_files, 0);
    let mut since = records.options();
    since.since = Some(Timestamp::of_milliseconds(records.now));
    assert_eq!(records.expect_with(&mut machine, &since, &[]).read_files, 5);
}

#[test]
fn bad_files_are_read_though_they_are_not_due() {
    let (mut records, mut machine) = first(&FILES);
    machine.put("one", "CONTENT ONE", 1);
    records.expect(&mut machine, &[(Verdict::Rot, "one")]);
    machine.reads.clear();
    let mut options = records.options();
    options.max_age = Some(Duration::from_secs(36_000));
    records.expect_with(&mut machine, &options, &[(Verdict::Rot, "one")]);
    assert_eq!(std::mem::take(&mut machine.reads), [("sha256".to_string(), 1)]);
}

#[test]
fn a_run_that_is_ended_calls_nothing_missing() {
    let (mut records, mut machine) = first(&FILES);
    let stop = Arc::new(Stop::when(Arc::new(AtomicBool::new(true))));
    let mut options = records.options();
    options.stop = stop;
    let (summary, reports) = records.run(SRV, &mut machine, &options);
    let summary = summary.unwrap();
    assert!(reports.is_empty() && summary.interrupted && !summary.complete, "{reports:?}");
    // The next one goes on.
    assert_eq!(records.expect(&mut machine, &[]).count(Verdict::Ok) + summary.read_files, 5);
}

#[test]
fn another_file_of_the_same_time_is_no_rot() {
    let (mut records, mut machine) = first(&FILES);
    for (number, (name, _)) in (1..).zip(FILES) {
        machine.file(name).number = number;
        machine.file(name).mtime = 5 * SECOND;
    }
    records.run(SRV, &mut machine, &records.options()).0.unwrap();
    // Two names change places, a file is replaced, and one rots.
    let two = machine.files["two"].clone();
    let three = std::mem::replace(machine.file("a/three"), two);
    *machine.file("two") = three;
    machine.file("a/b/four").content = ["CONTENT FOUR".to_string(), "CONTENT FOUR".to_string()];
    machine.file("a/b/four").number = 9;
    machine.file("one").content = ["CONTENT ONE".to_string(), "CONTENT ONE".to_string()];
    let (summary, reports) = records.run(SRV, &mut machine, &records.options());
    let bad: Vec<_> =
        reports.iter().filter(|report| report.verdict.class() >= VerdictClass::Unchecked).collect();
    assert!(
        matches!(&bad[..], [one] if one.path.ends_with("one") && one.verdict == Verdict::Rot),
        "{reports:?}"
    );
    assert_eq!(summary.unwrap().count(Verdict::Missing), 0);
    records.expect(&mut machine, &[(Verdict::Rot, "one")]);
}
