//! S3 Inventory: lists of all objects of a bucket that the store writes once a day or a week. They replace a
//! listing of the bucket.
//!
//! A manifest names data files, whose rows are objects in any order. Data files are CSV, with gzip or
//! without, or Parquet, which waits in an unlinked temporary file while it is read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use csv_core::ReadRecordResult;
use flate2::read::MultiGzDecoder;
use rustix::fs::OFlags;
use serde::Deserialize;
use verisum_digest::{Digest, DigestStream, Output};
use verisum_files::place::{FileState, Modified, Sorted};
use verisum_files::{Timestamp, text};

use crate::error::{ManifestError, OpenError};
use crate::inventory_parquet;
use crate::listing::{self, Listed};

/// The longest manifest, in bytes: it names each data file, of which one has about a million objects.
pub(crate) const MOST_MANIFEST: u64 = 16 << 20;
/// The longest row, and the most columns.
const MOST_ROW: usize = 64 << 10;
const MOST_COLUMNS: usize = 64;
/// The longest key, ETag or other word of a row; S3 has no longer keys.
const MOST_WORD: usize = 1024;

/// An inventory, of which the manifest was read.
#[derive(Debug)]
pub(crate) struct Inventory {
    /// Where its data files are.
    pub(crate) location: Location,
    /// When it was made.
    pub(crate) created: Option<Timestamp>,
    /// The bucket that it is of.
    bucket: String,
    files: Vec<DataFile>,
    /// Of CSV; Parquet tells its own.
    columns: Option<Columns>,
    scratch: PathBuf,
}

/// Where a manifest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a file of this machine. Data files are beside it, or in the folder `data` beside its own, as in the bucket.
    File(PathBuf),
    /// In a bucket.
    Object {
        /// The URL of the bucket.
        bucket: String,
        /// The key.
        key: String,
    },
}

impl Location {
    /// That the manifest, or a file that it names, cannot be read.
    pub(crate) fn unread(&self, list: &'static str, file: Option<&DataFile>, why: String) -> OpenError {
        let name = match (self, file) {
            (Location::File(manifest), None) => manifest.display().to_string(),
            (Location::Object { bucket, key }, None) => format!("{bucket}/{}", key.trim_start_matches('/')),
            (Location::File(_), Some(file)) => file.key.clone(),
            (Location::Object { bucket, .. }, Some(file)) => format!("{bucket}/{}", file.key),
        };
        OpenError::Unread { list, name: text::printable(&name), why }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InventoryManifest {
    source_bucket: String,
    file_format: String,
    file_schema: String,
    /// In milliseconds since 1970.
    creation_timestamp: Option<String>,
    files: Vec<DataFile>,
}

/// A file with rows.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct DataFile {
    /// Its key in the bucket of the manifest.
    pub(crate) key: String,
    #[serde(rename = "MD5checksum")]
    pub(crate) md5: Option<String>,
    /// Its length in bytes.
    pub(crate) size: Option<u64>,
}

/// Which column has what.
#[derive(Debug)]
struct Columns {
    bucket: Option<usize>,
    key: usize,
    size: usize,
    modified: Option<usize>,
    etag: Option<usize>,
    is_latest: Option<usize>,
    is_marker: Option<usize>,
    encryption: Option<usize>,
}

impl Columns {
    fn of(schema: &str) -> Option<Columns> {
        let names: Vec<&str> = schema.split(',').map(str::trim).collect();
        let of = |name: &str| names.iter().position(|known| known.eq_ignore_ascii_case(name));
        Some(Columns {
            bucket: of("Bucket"),
            key: of("Key")?,
            size: of("Size")?,
            modified: of("LastModifiedDate"),
            etag: of("ETag"),
            is_latest: of("IsLatest"),
            is_marker: of("IsDeleteMarker"),
            encryption: of("EncryptionStatus"),
        })
    }

    /// What a row says.
    fn object(&self, row: &[&[u8]]) -> io::Result<Object> {
        let of = |column: Option<usize>| std::str::from_utf8(row.get(column?)?).ok();
        let key = row.get(self.key).and_then(|key| listing::decoded(key));
        let modified = of(self.modified).and_then(listing::time_of_listing);
        Ok(Object {
            bucket: of(self.bucket).map(str::to_string),
            key: Some(key.ok_or_else(|| bad("a row has no key"))?),
            size: of(Some(self.size)).and_then(|size| size.parse().ok()),
            modified,
            is_untimed: self.modified.is_some() && modified.is_none(),
            etag: of(self.etag).map(str::to_string),
            is_old: of(self.is_latest) == Some("false"),
            is_marker: of(self.is_marker) == Some("true"),
            encryption: of(self.encryption).filter(|how| !how.is_empty()).map(str::to_string),
        })
    }
}

impl Inventory {
    /// Reads a manifest of the inventory of this bucket.
    pub(crate) fn new(
        manifest: &[u8],
        bucket: &str,
        location: Location,
        scratch: &Path,
    ) -> Result<Inventory, OpenError> {
        let read: InventoryManifest =
            serde_json::from_slice(manifest).map_err(|_| OpenError::Manifest(ManifestError::None))?;
        if read.source_bucket != bucket {
            return Err(OpenError::Manifest(ManifestError::OtherBucket));
        }
        let columns = match &read.file_format[..] {
            "CSV" => {
                Some(Columns::of(&read.file_schema).ok_or(OpenError::Manifest(ManifestError::NoColumns))?)
            }
            "Parquet" => None,
            _ => return Err(OpenError::Manifest(ManifestError::OtherFormat)),
        };
        if read.files.iter().any(|file| file.md5.is_none()) {
            return Err(OpenError::Manifest(ManifestError::NoMd5));
        }
        let created =
            read.creation_timestamp.and_then(|text| text.parse::<i64>().ok()).map(|time| Timestamp {
                seconds: time.div_euclid(1000),
                nanoseconds: time.rem_euclid(1000) as u32 * 1_000_000,
            });
        let (bucket, files, scratch) = (bucket.to_string(), read.files, scratch.to_path_buf());
        Ok(Inventory { location, created, bucket, files, columns, scratch })
    }

    pub(crate) fn files(&self) -> &[DataFile] {
        &self.files
    }

    /// An empty listing of it.
    pub(crate) fn rows(&self) -> Rows<'_> {
        let columns = self.columns.as_ref();
        let (sorted, scratch) = (Sorted::new(&self.scratch), &*self.scratch);
        Rows { bucket: &self.bucket, columns, untimed: 0, sorted, scratch }
    }

    /// Opens a data file on this machine.
    pub(crate) fn open(manifest: &Path, file: &DataFile) -> io::Result<File> {
        // Only the last name counts: a manifest cannot lead elsewhere.
        let name = file.key.rsplit('/').next().filter(|name| !matches!(*name, "" | "." | ".."));
        let name = name.ok_or_else(|| bad("a data file has no name"))?;
        let folder = manifest.parent().unwrap_or(Path::new("."));
        let beside = folder.join(name);
        // As in the bucket: beside the folder of an inventory's manifest, below that of a report's.
        for folder in [folder.join("..").join("data"), folder.join("results")] {
            match regular(&folder.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
        regular(&beside)
    }
}

/// Opens a file of this machine. To open a pipe would wait for somebody who writes to it.
fn regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(bad("a data file is no regular file")),
    }
}

/// The rows of an inventory on their way to become a listing in order, in bounded memory.
pub(crate) struct Rows<'a> {
    bucket: &'a str,
    /// None where data files tell them.
    columns: Option<&'a Columns>,
    /// How many objects have a time that cannot be read.
    pub(crate) untimed: u64,
    sorted: Sorted,
    scratch: &'a Path,
}

/// What a row says of an object.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub(crate) bucket: Option<String>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) modified: Option<Modified>,
    /// Whether there is a column of times, and none that can be read in it.
    pub(crate) is_untimed: bool,
    pub(crate) etag: Option<String>,
    pub(crate) is_old: bool,
    pub(crate) is_marker: bool,
    pub(crate) encryption: Option<String>,
}

/// What stands before ETags that tell of the content, and before others.
const PLAIN: &[u8] = b"p";
const OPAQUE: &[u8] = b"o";

/// How a NUL in a key is written. What stands before an ETag is less, so that the order of keys stays.
const NUL: &[u8] = b"\0\xff";

/// The key, and what follows the NUL at its end.
fn key_of(text: &[u8]) -> (Vec<u8>, &[u8]) {
    let (mut key, mut rest) = (Vec::new(), text);
    while let Some(place) = rest.iter().position(|byte| *byte == 0) {
        key.extend_from_slice(&rest[..place]);
        match rest[place..].strip_prefix(NUL) {
            Some(more) => {
                key.push(0);
                rest = more;
            }
            None => return (key, &rest[place + 1..]),
        }
    }
    (key, rest)
}

impl Rows<'_> {
    /// Adds the rows of a data file whose keys are below this root, or are it.
    pub(crate) fn add(&mut self, root: &[u8], file: &DataFile, content: impl Read) -> io::Result<()> {
        let Some(columns) = self.columns else {
            // Its end tells where what is.
            let mut kept = tempfile::tempfile_in(self.scratch)?;
            hashed_whole(file, content, |content| io::copy(content, &mut kept).map(drop))?;
            return inventory_parquet::read(self, root, kept);
        };
        hashed(file, content, |content| each_row(content, |row| self.object(root, columns.object(row)?)))
    }

    /// Adds an object, unless it is elsewhere, or no current version.
    pub(crate) fn object(&mut self, root: &[u8], object: Object) -> io::Result<()> {
        if object.bucket.as_deref().is_some_and(|bucket| bucket != self.bucket) {
            return Err(bad("a row is of another bucket"));
        }
        let words = [&object.etag, &object.encryption].into_iter().flatten().map(String::len);
        if words.chain(object.key.as_ref().map(Vec::len)).any(|length| length > MOST_WORD) {
            return Err(bad("a row is too long"));
        }
        if object.is_old || object.is_marker {
            return Ok(());
        }
        let key = object.key.filter(|key| !key.is_empty()).ok_or_else(|| bad("a row has no key"))?;
        let is_below = root.is_empty()
            || key.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        if !is_below {
            return Ok(());
        }
        let size = object.size.ok_or_else(|| bad("a row has no size"))?;
        self.untimed += u64::from(object.is_untimed);
        // The ETag of an object that a key encrypts says nothing of its content.
        let is_plain = object.encryption.is_none_or(|how| how == "SSE-S3" || how == "NOT-SSE");
        let etag = object.etag.unwrap_or_default();
        // A NUL in it must not hide where a key ends, nor change the order.
        let key = key.split(|byte| *byte == 0).collect::<Vec<_>>().join(NUL);
        self.sorted.add(
            [&key[..], b"\0", if is_plain { PLAIN } else { OPAQUE }, etag.as_bytes()].concat(),
            FileState { size: Some(size), modified: object.modified, ..FileState::default() },
        )
    }

    /// Calls `each` with all objects in the order of their keys, until it returns false. Returns how many rows said the same
    /// as another; of two that do not, nobody knows which is of the current version.
    pub(crate) fn each(self, mut each: impl FnMut(Listed) -> bool) -> io::Result<u64> {
        let (mut last, mut repeated, mut is_ambiguous) = (None, 0, false);
        self.sorted.each(|text, seen| {
            let (key, rest) = key_of(&text);
            let etag = String::from_utf8_lossy(rest.get(1..).unwrap_or_default());
            let recorded = listing::recorded(&etag).filter(|_| rest.starts_with(PLAIN));
            let seen = FileState { identity: listing::identity(&key, &etag), ..seen };
            let listed = Listed { key, seen, recorded };
            let before = last.replace(listed.clone());
            if let Some(before) = before.filter(|before: &Listed| before.key == listed.key) {
                repeated += 1;
                is_ambiguous = before != listed;
                return !is_ambiguous;
            }
            each(listed)
        })?;
        match is_ambiguous {
            true => Err(bad(
                "it has several rows of one object, and does not say which version is the current one",
            )),
            false => Ok(repeated),
        }
    }
}

/// Reads a file, which may be packed, to its end, and fails unless it is the one that the manifest names.
pub(crate) fn hashed(
    file: &DataFile,
    content: impl Read,
    read: impl FnOnce(&mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    hashed_whole(file, content, |content| match file.key.ends_with(".gz") {
        true => read(&mut MultiGzDecoder::new(content)),
        false => read(content),
    })
}

/// The same of one that is not packed.
fn hashed_whole(
    file: &DataFile,
    content: impl Read,
    read: impl FnOnce(&mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let md5 = Digest::find("md5").and_then(|md5| md5.stream()).map_err(io::Error::other)?;
    let mut hashed = Hashed { content, md5, length: 0 };
    read(&mut hashed)?;
    // What stands behind the end counts too.
    io::copy(&mut hashed, &mut io::sink())?;
    let mut found = Output::zeroed(16);
    hashed.md5.finish(found.as_mut_bytes()).map_err(io::Error::other)?;
    let has_its_md5 = file.md5.as_ref().is_none_or(|md5| md5.eq_ignore_ascii_case(&found.to_string()));
    match has_its_md5 && file.size.is_none_or(|size| size == hashed.length) {
        true => Ok(()),
        false => Err(bad("a data file is not the one that the manifest names")),
    }
}

/// Calls `each` with the fields of each row of CSV.
pub(crate) fn each_row(
    content: &mut dyn Read,
    mut each: impl FnMut(&[&[u8]]) -> io::Result<()>,
) -> io::Result<()> {
    let mut reader = csv_core::Reader::new();
    let (mut fields, mut ends) = (vec![0; MOST_ROW], [0; MOST_COLUMNS]);
    let (mut text, mut count) = (0, 0);
    let mut buffer = vec![0; MOST_ROW];
    let (mut start, mut end, mut is_end, mut number) = (0, 0, false, 0_u64);
    loop {
        if start == end && !is_end {
            (start, end) = (0, content.read(&mut buffer)?);
            is_end = end == 0;
        }
        let (result, taken, written, found) =
            reader.read_record(&buffer[start..end], &mut fields[text..], &mut ends[count..]);
        (start, text, count) = (start + taken, text + written, count + found);
        match result {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                return Err(of_row(number + 1, &bad("a row is too long")));
            }
            ReadRecordResult::Record => {
                let starts = std::iter::once(0).chain(ends[..count].iter().copied());
                let row: Vec<&[u8]> =
                    starts.zip(&ends[..count]).filter_map(|(start, end)| fields.get(start..*end)).collect();
                number += 1;
                each(&row).map_err(|error| of_row(number, &error))?;
                (text, count) = (0, 0);
            }
            ReadRecordResult::End => return Ok(()),
        }
    }
}

/// Hashes what is read.
struct Hashed<R> {
    content: R,
    md5: Box<dyn DigestStream>,
    /// So many bytes were read.
    length: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.md5.update(&buffer[..count]).map_err(io::Error::other)?;
        self.length += count as u64;
        Ok(count)
    }
}

/// What is wrong with the first row that cannot be used.
fn of_row(number: u64, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("row {number}: {error}"))
}

pub(crate) fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const SCHEMA: &str =
        "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag, EncryptionStatus";

    fn inventory(files: &str) -> Inventory {
        let manifest = format!(
            "{{\"sourceBucket\":\"b\",\"fileFormat\":\"CSV\",\"fileSchema\":\"{SCHEMA}\",\"files\":[{files}]}}"
        );
        Inventory::new(manifest.as_bytes(), "b", Location::File("m".into()), &std::env::temp_dir()).unwrap()
    }

    fn read(root: &str, rows: &[u8]) -> io::Result<Vec<Listed>> {
        let inventory = inventory("");
        let mut found = inventory.rows();
        found.add(root.as_bytes(), &DataFile { key: "x.csv".to_string(), md5: None, size: None }, rows)?;
        let mut all = Vec::new();
        found.each(|listed| {
            all.push(listed);
            true
        })?;
        Ok(all)
    }

    const ROWS: &str = "\"b\",\"z\",\"\",\"true\",\"false\",\"5\",\"2026-11-23T02:50:00.000Z\",\"00112233445566778899aabbccddeeff\",\"SSE-S3\"\n\
        \"b\",\"a+b%2Fc%0A\",\"\",\"true\",\"false\",\"0\",\"2026-11-23T02:50:00.000Z\",\"00112233445566778899aabbccddeeff-3\",\"SSE-KMS\"\n\
        \"b\",\"gone\",\"\",\"true\",\"true\",\"\",\"2026-11-23T02:50:00.000Z\",\"\",\"\"\n\
        \"b\",\"z\",\"old\",\"false\",\"false\",\"4\",\"2026-11-22T02:50:00.000Z\",\"x\",\"SSE-S3\"\n";

    #[test]
    fn rows_are_objects_in_order() {
        let found = read("", ROWS.as_bytes()).unwrap();
        let keys: Vec<&[u8]> = found.iter().map(|listed| &listed.key[..]).collect();
        assert_eq!(keys, [&b"a b/c\n"[..], b"z"]);
        assert_eq!((found[0].recorded, found[1].seen.size), (None, Some(5)));
        assert!(found[1].recorded.is_some() && found[1].seen.modified.is_some());
        assert_eq!(read("a b", ROWS.as_bytes()).unwrap().len(), 1);
        assert_eq!(read("a", ROWS.as_bytes()).unwrap().len(), 0);
    }

    #[test]
    fn rows_that_cannot_be_are_refused() {
        let error = read("", b"b,k,,true,false,5\nb,l,,true,false,x\n").unwrap_err();
        assert!(error.to_string().starts_with("row 2: "), "{error}");
        let endless = vec![b'x'; 1 << 20];
        for bad in [&b"b\n"[..], b"b,k,,true,false,x\n", b"b,%G0,,true,false,5\n", &endless, &[b','; 1000]] {
            assert!(read("", bad).is_err(), "{}", String::from_utf8_lossy(&bad[..bad.len().min(30)]));
        }
        let key = |key: &str| format!("b,{key},,true,false,5\n");
        assert!(read("", key(&"k".repeat(1025)).as_bytes()).is_err());
        assert!(read("", key("k").replacen('b', "c", 1).as_bytes()).is_err());
        // A key that no file has does not become one that is a file's.
        let keys = ["x", "x!", "x%00", "x%00%FF", "x%00y", "y"];
        let rows: String = keys.iter().rev().map(|name| key(name)).collect();
        let found = read("", rows.as_bytes()).unwrap();
        let all: Vec<&[u8]> = found.iter().map(|listed| &listed.key[..]).collect();
        assert_eq!(all, [&b"x"[..], b"x\0", b"x\0y", b"x\0\xff", b"x!", b"y"]);
        assert_eq!(all.iter().filter(|key| listing::is_name(key)).count(), 3);
        // An open quote ends with the file.
        assert!(read("", b"\"b").is_err());
    }

    #[test]
    fn data_files_are_those_that_the_manifest_names() {
        let inventory = inventory("");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(ROWS.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let md5 = Digest::find("md5").unwrap().hash(&packed).unwrap().to_string();
        let file =
            DataFile { key: "p/x.csv.gz".to_string(), md5: Some(md5), size: Some(packed.len() as u64) };
        inventory.rows().add(b"", &file, &packed[..]).unwrap();
        assert!(inventory.rows().add(b"", &file, &packed[..packed.len() - 1]).is_err());
        let longer = DataFile { size: Some(packed.len() as u64 + 1), ..file.clone() };
        let other = DataFile { md5: Some("0".repeat(32)), ..file };
        for wrong in [other, longer] {
            assert!(inventory.rows().add(b"", &wrong, &packed[..]).is_err());
        }
    }

    #[test]
    fn manifests_that_cannot_be_are_refused() {
        let new =
            |text: &str| Inventory::new(text.as_bytes(), "b", Location::File("m".into()), Path::new("/tmp"));
        for bad in [
            "",
            "{}",
            "{\"sourceBucket\":\"c\",\"fileFormat\":\"CSV\",\"fileSchema\":\"Key, Size\",\"files\":[]}",
            "{\"sourceBucket\":\"b\",\"fileFormat\":\"ORC\",\"fileSchema\":\"Key, Size\",\"files\":[]}",
            "{\"sourceBucket\":\"b\",\"fileFormat\":\"CSV\",\"fileSchema\":\"Key\",\"files\":[]}",
            "{\"sourceBucket\":\"b\",\"fileFormat\":\"CSV\",\"fileSchema\":\"Key, Size\",\"files\":[{\"key\":\"x\"}]}",
        ] {
            assert!(new(bad).is_err(), "{bad}");
        }
        let named = |key: &str| DataFile { key: key.to_string(), md5: None, size: None };
        assert!(Inventory::open(Path::new("/m/x/manifest.json"), &named("../..")).is_err());
        // The folder of the bucket comes before the one of the manifest.
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("day/manifest.json");
        for (place, text) in [("day", "beside"), ("data", "data")] {
            std::fs::create_dir(folder.path().join(place)).unwrap();
            std::fs::write(folder.path().join(place).join("x"), text).unwrap();
            let opened = Inventory::open(&manifest, &named("inventory/data/x")).unwrap();
            assert_eq!(io::read_to_string(opened).unwrap(), text);
        }
        // Nobody writes to the pipe.
        let folder = tempfile::tempdir().unwrap();
        let (pipe, mode) = (folder.path().join("pipe"), Mode::from_raw_mode(0o600));
        mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        let error = Inventory::open(&folder.path().join("manifest.json"), &named("pipe")).unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
    }
}
