//! Lakes and catalogues: what one exports the other takes, again and again, and nothing half is left or read.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use verisum_catalog::store::{
    Catalog, CatalogRecord, Identity, Moment, RecordChange, RecordFinding, Repair, Root, Stamp, State,
};
use verisum_digest::Output;
use verisum_files::{Stop, Timestamp};
use verisum_lake::{Lake, LakeError, LakeExport, Newest, Part, PartWriter, Row, export, import};

/// A catalogue with a tree, and a lake that is not there yet.
struct Bench {
    _folder: tempfile::TempDir,
    catalog: Catalog,
    root: Root,
    lake: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
        let root = catalog.add_root(Path::new("/srv/a b"), Identity { device: 1, inode: 2 }).unwrap();
        let lake = folder.path().join("lake");
        Bench { _folder: folder, catalog, root, lake }
    }

    fn change(&self, path: &[u8], change: impl FnOnce(CatalogRecord) -> RecordChange) {
        let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b""[..], path),
        };
        self.catalog.begin().unwrap();
        let mut directory = self.root.directory;
        for part in folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            let known = self.catalog.directory_in(directory, OsStr::from_bytes(part)).unwrap();
            directory = known.unwrap_or_else(|| {
                let id = self.catalog.last_directory().unwrap() + 1;
                self.catalog.add_directory(id, directory, OsStr::from_bytes(part), 1).unwrap();
                id
            });
        }
        let name = OsStr::from_bytes(name);
        let known = self.catalog.record(directory, name).unwrap();
        let change = change(known.unwrap_or_else(|| record(&self.catalog, 1)));
        self.catalog.apply(self.root.id, directory, name, &change).unwrap();
        self.catalog.commit().unwrap();
    }

    fn export(&self, now: i64) -> LakeExport {
        export(&self.catalog, &self.lake, Timestamp::of_milliseconds(now), &Stop::default()).unwrap()
    }

    /// The present rows of the tree.
    fn rows(&self) -> Vec<Row> {
        let place = Lake::open(&self.lake).unwrap().place(&self.root.path);
        let mut rows = Vec::new();
        let mut newest = Newest::open(&place).unwrap();
        while let Some((row, _)) = newest.read().unwrap() {
            rows.push(row);
        }
        rows
    }

    fn parts(&self) -> Vec<PathBuf> {
        Lake::open(&self.lake).unwrap().place(&self.root.path).parts().unwrap()
    }
}

fn record(catalog: &Catalog, number: u8) -> CatalogRecord {
    CatalogRecord {
        size: u64::from(number),
        mtime: Stamp::of_nanoseconds(i64::MIN),
        ctime: Stamp::of_nanoseconds(2),
        inode: u64::MAX,
        algorithm: catalog.algorithm("sha256").unwrap(),
        digest: Output::from_bytes(&[number; 32]).unwrap(),
        first_seen: Moment::of_milliseconds(4),
        changed: Moment::of_milliseconds(5),
        verified: Moment::NEVER,
        state: State::Sound,
    }
}

#[test]
fn only_what_changed_is_exported() {
    let bench = Bench::new();
    let paths: [&[u8]; 5] = [b"a", b"a-b", b"d/e", b"d/\xff", b"gone"];
    for path in paths {
        bench.change(path, RecordChange::Add);
    }
    assert_eq!(bench.export(10), LakeExport { changed: 5, ..LakeExport::default() });
    assert_eq!(bench.export(20), LakeExport { unchanged: 5, ..LakeExport::default() });
    assert_eq!(bench.parts().len(), 1);
    bench.change(b"gone", RecordChange::Forget);
    bench.change(b"a", |old| {
        RecordChange::Confirm(CatalogRecord { verified: Moment::of_milliseconds(9), ..old })
    });
    bench.change(b"d/e", |_| {
        let detail = Some("why".to_string());
        let finding = RecordFinding {
            since: Moment::of_milliseconds(1),
            seen: Moment::of_milliseconds(1),
            read: None,
            detail,
        };
        RecordChange::Suspect(State::MISSING, finding)
    });
    // Another digest is in a part of its own.
    bench.change(b"a-b", |old| {
        let new = CatalogRecord {
            algorithm: bench.catalog.algorithm("md5").unwrap(),
            digest: Output::from_bytes(&[7; 16]).unwrap(),
            ..old
        };
        RecordChange::Replace { old, new }
    });
    // The clock went back.
    assert_eq!(bench.export(3), LakeExport { changed: 3, gone: 1, unchanged: 1, damaged: 0 });
    assert_eq!(bench.export(4), LakeExport { unchanged: 4, ..LakeExport::default() });
    assert_eq!(bench.parts().len(), 3);
    let rows = bench.rows();
    let times = rows
        .iter()
        .map(|row| (&row.path[..], row.exported.milliseconds(), row.replaces.map(Moment::milliseconds)));
    let expected: [(&[u8], i64, Option<i64>); 5] = [
        (b"a", 11, Some(10)),
        (b"a-b", 11, Some(10)),
        (b"d/e", 11, Some(10)),
        (b"d/\xff", 10, None),
        (b"gone", 11, Some(10)),
    ];
    assert_eq!(times.collect::<Vec<_>>(), expected);
    assert_eq!(
        (rows[0].verified, rows[0].mtime, rows[0].inode),
        (Some(Moment::of_milliseconds(9)), Some(Stamp::of_nanoseconds(i64::MIN)), Some(u64::MAX))
    );
    assert_eq!(rows[1].digest, Output::from_bytes(&[7; 16]));
    assert_eq!((rows[2].state, rows[4].state, rows[4].digest), (Some(State::MISSING), None, None));
    // What is back is a new row again.
    bench.change(b"gone", RecordChange::Add);
    assert_eq!(bench.export(30).changed, 1);
    assert_eq!(bench.rows()[4].replaces, Some(Moment::of_milliseconds(11)));
}

#[test]
fn a_lake_comes_back_as_a_catalogue() {
    let bench = Bench::new();
    for path in [&b"a"[..], b"d/e/f", b"d/\xff", b"gone"] {
        bench.change(path, RecordChange::Add);
    }
    bench.export(10);
    bench.change(b"gone", RecordChange::Forget);
    bench.change(b"a", |old| {
        RecordChange::Confirm(CatalogRecord { verified: Moment::of_milliseconds(9), ..old })
    });
    bench.change(b"d/e/f", |_| {
        let finding = RecordFinding {
            since: Moment::of_milliseconds(1),
            seen: Moment::of_milliseconds(1),
            read: None,
            detail: None,
        };
        RecordChange::Suspect(State::MISSING, finding)
    });
    bench.export(20);
    let folder = tempfile::tempdir().unwrap();
    let other = Catalog::open(&folder.path().join("other.db")).unwrap();
    let imported = import(&other, &bench.lake, Timestamp::of_milliseconds(40), &Stop::default()).unwrap();
    assert_eq!((imported.added, imported.known), (3, 0));
    assert_eq!(other.check().unwrap(), []);
    let again = import(&other, &bench.lake, Timestamp::of_milliseconds(50), &Stop::default()).unwrap();
    assert_eq!((again.added, again.known, again.differing), (0, 3, 0));
    // What came back goes out as the same.
    assert_eq!(
        export(&other, &bench.lake, Timestamp::of_milliseconds(60), &Stop::default()).unwrap().unchanged,
        3
    );
    let root = other.root(Path::new("/srv/a b")).unwrap().unwrap();
    let record = other.record(root.directory, "a".as_ref()).unwrap().unwrap();
    assert_eq!(
        (record.verified, record.mtime, record.state),
        (Moment::of_milliseconds(9), Stamp::of_nanoseconds(i64::MIN), State::Sound)
    );
}

#[test]
fn what_is_asked_to_stop_writes_no_part_and_imports_nothing() {
    let bench = Bench::new();
    for path in [&b"a"[..], b"b"] {
        bench.change(path, RecordChange::Add);
    }
    let (stop, now) = (Stop::default(), Timestamp::of_milliseconds(10));
    stop.request();
    let ended = export(&bench.catalog, &bench.lake, now, &stop);
    assert!(matches!(ended, Err(LakeError::Stopped)) && bench.rows().is_empty());
    bench.export(20);
    let other = Catalog::open(&bench.lake.with_file_name("other.db")).unwrap();
    assert!(matches!(import(&other, &bench.lake, now, &stop), Err(LakeError::Stopped)));
    assert!(other.roots().unwrap().is_empty());
}

#[test]
fn parts_are_as_open_as_the_lake() {
    for (mode, expected) in [(None, 0o600), (Some(0o750), 0o640), (Some(0o777), 0o644)] {
        let bench = Bench::new();
        if let Some(mode) = mode {
            fs::create_dir(&bench.lake).unwrap();
            fs::set_permissions(&bench.lake, fs::Permissions::from_mode(mode)).unwrap();
        }
        bench.change(b"a", RecordChange::Add);
        bench.export(10);
        let mode_of = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let part = bench.parts().remove(0);
        assert_eq!(mode_of(&part), expected);
        for folder in part.ancestors().skip(1).take(2) {
            assert_eq!(mode_of(folder), mode_of(&bench.lake), "{}", folder.display());
        }
    }
}

#[test]
fn what_is_no_whole_part_is_refused_by_name() {
    let bench = Bench::new();
    for number in 0..300 {
        let path = format!("d{}/f{number}", number % 7);
        bench.change(path.as_bytes(), |old| RecordChange::Add(CatalogRecord { size: number, ..old }));
    }
    bench.export(10);
    let part = bench.parts().remove(0);
    let whole = fs::read(&part).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&part, bytes).unwrap();
        let rows: Result<Vec<Row>, LakeError> = Part::open(&part).and_then(Iterator::collect);
        rows.map_err(|error| error.to_string())
    };
    assert_eq!(refused(&whole).unwrap().len(), 300);
    let name = format!("{}: read: not a part of a lake: ", part.display());
    for length in (0..whole.len()).step_by(509).chain([4, 8, whole.len() - 1]) {
        let error = refused(&whole[..length]).unwrap_err();
        assert!(error.starts_with(&name), "{length}: {error}");
    }
    for garbage in [vec![0; 1000], b"PAR1".repeat(100), whole.iter().rev().copied().collect()] {
        let error = refused(&garbage).unwrap_err();
        assert!(error.starts_with(&name), "{error}");
    }
    let pipe = part.with_file_name("pipe.parquet");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(Part::open(&pipe).map(drop).unwrap_err().to_string().ends_with(": it is no regular file"));
    fs::remove_file(pipe).unwrap();
    // A byte that is not what was written is refused or changes a value; it never ends the program.
    for at in (0..whole.len()).step_by(61).chain((whole.len() - 700..whole.len()).step_by(3)) {
        let mut changed = whole.clone();
        changed[at] ^= 0x55;
        if let Err(error) = refused(&changed) {
            assert!(error.starts_with(&name), "{at}: {error}");
        }
    }
    fs::write(&part, &whole[..whole.len() / 2]).unwrap();
    let ended = export(&bench.catalog, &bench.lake, Timestamp::of_milliseconds(20), &Stop::default())
        .unwrap_err()
        .to_string();
    assert!(ended.starts_with(&name), "{ended}");
    let ended = import(&bench.catalog, &bench.lake, Timestamp::of_milliseconds(20), &Stop::default())
        .unwrap_err()
        .to_string();
    assert!(ended.starts_with(&name), "{ended}");
}

#[test]
fn an_export_that_ends_early_is_completed_by_the_next() {
    let bench = Bench::new();
    for path in [&b"a"[..], b"b", b"c"] {
        bench.change(path, RecordChange::Add);
    }
    let lake = Lake::create(&bench.lake).unwrap();
    let place = lake.place(&bench.root.path);
    let mut parts = PartWriter::new(&place, Moment::of_milliseconds(5), &|_| None);
    let row = |path: &[u8]| Row {
        path: path.to_vec(),
        size: Some(1),
        mtime: None,
        ctime: None,
        inode: None,
        algorithm: "sha256".into(),
        digest: Output::from_bytes(&[1; 32]),
        state: Some(State::Sound),
        first_seen: None,
        changed: None,
        verified: None,
        exported: Moment::of_milliseconds(5),
        replaces: None,
    };
    parts.add(&row(b"b")).unwrap();
    let refused = parts.add(&row(b"a")).unwrap_err().to_string();
    assert!(refused.ends_with("rows do not come in the order of their paths"), "{refused}");
    drop(parts);
    assert!(bench.parts().is_empty());
    let left = walk(&bench.lake);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(bench.export(10).changed, 3);
}

#[test]
fn rows_of_many_pages_and_groups_come_back_as_they_were() {
    let bench = Bench::new();
    let lake = Lake::create(&bench.lake).unwrap();
    let place = lake.place(&bench.root.path);
    let rows = (0..130_000_u32).map(|number| {
        let mut path = format!("d/{number:06}").into_bytes();
        if number % 5 == 0 {
            path.push(0xff);
        }
        let is = |divisor: u32| !number.is_multiple_of(divisor);
        let time = |divisor| is(divisor).then(|| Moment::of_milliseconds(i64::from(number) - 50));
        Row {
            path,
            size: (is(2) || is(3)).then_some(u64::MAX - u64::from(number)),
            mtime: is(1000).then(|| Stamp::of_nanoseconds(-i64::from(number))),
            ctime: None,
            inode: Some(u64::from(number)),
            algorithm: "md5".into(),
            digest: is(3).then(|| Output::from_bytes(&u128::from(number).to_le_bytes()).unwrap()),
            state: is(7).then_some(State::Sound),
            first_seen: time(13),
            changed: time(11),
            verified: time(1024),
            exported: Moment::of_milliseconds(5),
            replaces: time(1025),
        }
    });
    let mut parts = PartWriter::new(&place, Moment::of_milliseconds(5), &|_| Some(16));
    for row in rows.clone() {
        parts.add(&row).unwrap();
    }
    parts.finish().unwrap();
    let part = Part::open(&place.parts().unwrap()[0]).unwrap();
    assert!(part.map(Result::unwrap).eq(rows));
}

/// All files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] });
    found.collect()
}

#[test]
fn other_files_are_no_parts_and_other_folders_no_places() {
    let bench = Bench::new();
    bench.change(b"a", RecordChange::Add);
    bench.export(10);
    let folder = bench.parts()[0].parent().unwrap().to_path_buf();
    for name in [".hidden.parquet", "_temporary.parquet", "x.parquet.new", "README"] {
        fs::write(folder.join(name), "not a part").unwrap();
    }
    fs::create_dir(bench.lake.join("_delta_log")).unwrap();
    assert_eq!(bench.export(20).unchanged, 1);
    fs::create_dir(bench.lake.join("place=%2")).unwrap();
    let error = import(&bench.catalog, &bench.lake, Timestamp::of_milliseconds(1), &Stop::default())
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("place=%2: read: not a part of a lake: its name is no place"), "{error}");
}

#[test]
fn a_tree_of_which_nothing_is_left_and_one_that_has_no_proper_path_are_not_imported() {
    let bench = Bench::new();
    bench.change(b"a", RecordChange::Add);
    bench.export(10);
    bench.change(b"a", RecordChange::Forget);
    assert_eq!(bench.export(20).gone, 1);
    let folder = tempfile::tempdir().unwrap();
    let other = Catalog::open(&folder.path().join("other.db")).unwrap();
    let take = || import(&other, &bench.lake, Timestamp::of_milliseconds(30), &Stop::default());
    assert_eq!(take().unwrap().added, 0);
    assert!(other.roots().unwrap().is_empty());
    bench.change(b"a", RecordChange::Add);
    bench.export(40);
    let mut place = Lake::open(&bench.lake).unwrap().place(&bench.root.path).path().to_path_buf();
    for name in ["/srv/..", "ssh://host/..", "srv", "/srv/", "/srv//a", "/srv/./a"] {
        let named = Lake::open(&bench.lake).unwrap().place(Path::new(name)).path().to_path_buf();
        fs::rename(std::mem::replace(&mut place, named.clone()), &named).unwrap();
        let error = take().unwrap_err().to_string();
        assert!(error.starts_with(&*named.to_string_lossy()) && error.ends_with("shortest form"), "{error}");
        assert!(other.roots().unwrap().is_empty());
    }
}

/// The repairs of a tree, the latest first, without the numbers of their algorithms.
fn repairs(catalog: &Catalog, path: &Path) -> Vec<(PathBuf, Repair)> {
    let mut found = Vec::new();
    let Some(root) = catalog.root(path).unwrap() else { return found };
    catalog
        .each_repair(&root, &mut |path, repair| {
            found.push((path, Repair { algorithm: 0, ..repair }));
            Ok::<_, LakeError>(())
        })
        .unwrap();
    found
}

#[test]
fn repairs_are_beside_the_parts_and_each_is_written_once() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let bench = Bench::new();
    bench.change(b"one", RecordChange::Add);
    bench.export(10);
    let folder = bench.lake.join("_repairs/%2Fsrv%2Fa%20b");
    assert!(!folder.exists());
    let repair = |repaired, source: &[u8]| Repair {
        repaired: Moment::of_milliseconds(repaired),
        state: State::MISSING,
        source: OsStr::from_bytes(source).into(),
        bytes: 7,
        algorithm: bench.catalog.algorithm("sha256").unwrap(),
        before: None,
        digest: Output::zeroed(32),
        ranges: None,
    };
    let add = |name: &[u8], repair: &Repair| {
        bench.catalog.add_repair(bench.root.id, &(bench.root.directory, name.to_vec()), repair).unwrap();
    };
    // Two sources had a part in the second, and a name and an address may be no text.
    add(b"one", &repair(12, b"/copy/one"));
    assert_eq!((bench.export(20).changed, walk(&folder).len()), (0, 1));
    let before = Some(Output::from_bytes(&[9; 32]).unwrap());
    add(b"\xff", &Repair { before, ranges: Some(vec![0..4096, 8192..8193]), ..repair(13, b"/copy/\xfe") });
    add(b"\xff", &Repair { ranges: Some(Vec::new()), ..repair(13, b"ssh://host/copy") });
    // An old one that comes late, from a list of another machine, is new too.
    add(
        b"one",
        &Repair {
            algorithm: bench.catalog.algorithm("sha512").unwrap(),
            digest: Output::zeroed(64),
            ..repair(11, b"/copy/one")
        },
    );
    for _ in 0..3 {
        bench.export(30);
    }
    let mut files = walk(&folder);
    files.sort();
    let times = files.iter().map(|file| {
        let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            let mut columns = row.get_column_iter();
            assert_eq!(columns.next(), Some((&"place".to_string(), &Field::Str("/srv/a b".to_string()))));
            let (_, Field::TimestampMillis(time)) = columns.find(|column| column.0 == "repaired").unwrap()
            else {
                panic!("a repair without a time")
            };
            *time
        });
        rows.collect::<Vec<i64>>()
    });
    assert_eq!(times.collect::<Vec<_>>(), [vec![12], vec![11, 13, 13]]);
    // They are no place, and no part of one.
    assert_eq!(Lake::open(&bench.lake).unwrap().places().unwrap().len(), 1);

    // All of them come back, once.
    let other = Catalog::open(&bench.lake.join("other.db")).unwrap();
    for added in [1, 0] {
        let imported = import(&other, &bench.lake, Timestamp::of_milliseconds(50), &Stop::default()).unwrap();
        assert_eq!(imported.added, added);
        assert_eq!(repairs(&other, &bench.root.path), repairs(&bench.catalog, &bench.root.path));
        assert_eq!(repairs(&other, &bench.root.path).len(), 4);
    }
    // What came back is not new.
    export(&other, &bench.lake, Timestamp::of_milliseconds(60), &Stop::default()).unwrap();
    assert_eq!(walk(&folder).len(), 2);

    // Damage is named, by exports and imports.
    fs::write(&files[0], "no repairs").unwrap();
    let name = format!("{}: read: not a part of a lake: ", files[0].display());
    let now = Timestamp::of_milliseconds(70);
    for error in [
        import(&other, &bench.lake, now, &Stop::default()).map(drop).unwrap_err(),
        export(&bench.catalog, &bench.lake, now, &Stop::default()).map(drop).unwrap_err(),
    ] {
        assert!(error.to_string().starts_with(&name), "{error}");
    }
}
