//! Completion reports of *Compute checksum* jobs of S3 Batch Operations: checksums that the store computed
//! for many objects at once.
//!
//! A report tells no lengths and no times. Its checksum is that of the version with its ETag, and of no other.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::io::{self, Read};

use data_encoding::BASE64;
use serde::Deserialize;
use verisum_digest::{Digest, Output};
use verisum_files::Timestamp;
use verisum_files::place::{FileIdentity, FileRecord, FileRequest, FileState, RecordedDigest};

use crate::attributes::CHECKSUMS;
use crate::error::{ManifestError, OpenError};
use crate::inventory::{self, DataFile, Location, bad};
use crate::keys::key;
use crate::listing;

/// What the columns of a report are, in order.
const SCHEMA: [&str; 7] =
    ["Bucket", "Key", "VersionId", "TaskStatus", "ErrorCode", "HTTPStatusCode", "ResultMessage"];

/// A report, of which the manifest was read.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) location: Location,
    pub(crate) files: Vec<DataFile>,
    pub(crate) created: Option<Timestamp>,
    bucket: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReportManifest {
    report_schema: String,
    report_creation_date: Option<String>,
    results: Vec<Results>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Results {
    task_execution_status: String,
    key: String,
    #[serde(rename = "MD5Checksum")]
    md5: Option<String>,
}

/// What a job says of an object, in the last column.
#[derive(Deserialize)]
struct Message {
    etag: Option<String>,
    #[serde(rename = "checksum_base64")]
    base64: Option<String>,
    #[serde(rename = "checksumAlgorithm")]
    algorithm: Option<String>,
    #[serde(rename = "checksumType")]
    kind: Option<String>,
}

/// The checksum of one version of an object.
#[derive(Debug, PartialEq)]
struct Computed {
    version: FileIdentity,
    /// Its place in the table of checksums.
    algorithm: usize,
    digest: Output,
}

/// The checksums of a report, by keys. They take about 150 bytes each.
#[derive(Debug, Default)]
pub(crate) struct ReportChecksums {
    /// When the report was made.
    pub(crate) created: Option<Timestamp>,
    hasher: RandomState,
    found: HashMap<u64, Computed>,
    /// Rows that tell nothing: of other buckets, without a checksum of a whole object, and with another one of an object
    /// that had one.
    pub(crate) left_out: [u64; 3],
}

impl Report {
    /// Reads a manifest of a report.
    pub(crate) fn new(manifest: &[u8], bucket: &str, location: Location) -> Result<Report, OpenError> {
        let read: ReportManifest =
            serde_json::from_slice(manifest).map_err(|_| OpenError::Report(ManifestError::None))?;
        if !read.report_schema.split(',').map(str::trim).eq(SCHEMA) {
            return Err(OpenError::Report(ManifestError::OtherColumns));
        }
        let succeeded = read.results.into_iter().filter(|one| one.task_execution_status == "succeeded");
        let files = succeeded.map(|one| DataFile { key: one.key, md5: one.md5, size: None }).collect();
        let created = read.report_creation_date.and_then(|text| listing::time_of_listing(&text));
        let created = created.map(|modified| modified.time);
        Ok(Report { location, files, created, bucket: bucket.to_string() })
    }

    /// Adds what a file of the report says of the objects of the bucket.
    pub(crate) fn read(
        &self,
        all: &mut ReportChecksums,
        file: &DataFile,
        content: impl Read,
    ) -> io::Result<()> {
        inventory::hashed(file, content, |content| {
            inventory::each_row(content, |row| {
                let text = |at: usize| row.get(at).and_then(|field| std::str::from_utf8(field).ok());
                // The first row may name the columns.
                if text(0) == Some(SCHEMA[0]) && text(1) == Some(SCHEMA[1]) {
                    return Ok(());
                }
                if text(0) != Some(&self.bucket) {
                    all.left_out[0] += 1;
                    return Ok(());
                }
                let key = row.get(1).and_then(|key| listing::decoded(key));
                let key = key.ok_or_else(|| bad("a row has no key"))?;
                let message = text(6).and_then(|text| serde_json::from_str::<Message>(text).ok());
                let message = message.filter(|_| text(3) == Some("succeeded"));
                // A job may have done something else.
                match message.and_then(|message| Computed::of(&key, &message)) {
                    Some(computed) => all.add(&key, computed),
                    None => all.left_out[1] += 1,
                }
                Ok(())
            })
        })
    }
}

impl Computed {
    fn of(key: &[u8], message: &Message) -> Option<Computed> {
        // One that is made of those of parts does not tell how long the parts are.
        if message.kind.as_deref() != Some("FULL_OBJECT") {
            return None;
        }
        let theirs = message.algorithm.as_deref()?;
        let algorithm = CHECKSUMS.iter().position(|(name, _)| name.eq_ignore_ascii_case(theirs))?;
        let digest = Output::from_bytes(&BASE64.decode(message.base64.as_deref()?.as_bytes()).ok()?)?;
        let is_one = digest.as_bytes().len() == Digest::find(CHECKSUMS[algorithm].1).ok()?.len();
        let version = listing::identity(key, message.etag.as_deref()?)?;
        is_one.then_some(Computed { version, algorithm, digest })
    }
}

impl ReportChecksums {
    fn add(&mut self, key: &[u8], computed: Computed) {
        match self.found.entry(self.hasher.hash_one(key)) {
            Entry::Vacant(entry) => drop(entry.insert(computed)),
            Entry::Occupied(entry) if *entry.get() == computed => {}
            Entry::Occupied(mut entry) => {
                self.left_out[2] += 1;
                // One of the two is wrong. No version has this number.
                entry.get_mut().version.number = 0;
            }
        }
    }

    /// Which rows tell nothing, in words, if there are any.
    pub(crate) fn note(&self) -> Option<String> {
        let what = [
            "of other buckets",
            "without a checksum of a whole object",
            "besides another of the same object",
        ];
        let rows = |(count, what): (&u64, &str)| {
            let row = if *count == 1 { "row" } else { "rows" };
            (*count > 0).then(|| format!("{count} {row} {what}"))
        };
        let left_out: Vec<String> = self.left_out.iter().zip(what).filter_map(rows).collect();
        (!left_out.is_empty()).then(|| format!("the report: left out: {}", left_out.join(", ")))
    }

    /// What the report says of a file, if that is the version that it is of.
    pub(crate) fn of(&self, file: &FileRequest) -> Option<FileRecord> {
        let of = FileState { modified: None, ..file.seen };
        Some(FileRecord { digests: vec![self.digest(file)?], of })
    }

    /// The digest alone.
    pub(crate) fn digest(&self, file: &FileRequest) -> Option<RecordedDigest> {
        let computed = self.found.get(&self.hasher.hash_one(key(&file.path)))?;
        if file.seen.identity? != computed.version {
            return None;
        }
        let algorithm = CHECKSUMS[computed.algorithm].1.to_string();
        Some(RecordedDigest { algorithm, digest: computed.digest, is_certain: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "{\"Format\":\"Report_CSV_20180820\",\"Results\":[\
        {\"TaskExecutionStatus\":\"succeeded\",\"Bucket\":\"r\",\"Key\":\"x.csv\"},\
        {\"TaskExecutionStatus\":\"failed\",\"Bucket\":\"r\",\"Key\":\"y.csv\"}],\"ReportSchema\":\
        \"Bucket, Key, VersionId, TaskStatus, ErrorCode, HTTPStatusCode, ResultMessage\"}";

    fn row(key: &str, status: &str, kind: &str, base64: &str) -> String {
        let message = format!(
            "{{\"\"checksum_base64\"\":\"\"{base64}\"\",\"\"etag\"\":\"\"e\"\",\
             \"\"checksumAlgorithm\"\":\"\"CRC32C\"\",\"\"checksumType\"\":\"\"{kind}\"\"}}"
        );
        format!("b,{key},,{status},200,,\"{message}\"\n")
    }

    #[test]
    fn checksums_are_those_of_the_version_that_was_listed() {
        let report = Report::new(MANIFEST.as_bytes(), "b", Location::File("m".into())).unwrap();
        assert_eq!(report.files.len(), 1);
        let rows = [
            row("a+b", "succeeded", "FULL_OBJECT", "AAAAAA=="),
            row("parts", "succeeded", "COMPOSITE", "AAAAAA=="),
            row("failed", "failed", "FULL_OBJECT", "AAAAAA=="),
            row("short", "succeeded", "FULL_OBJECT", "AAAA"),
        ];
        let mut all = ReportChecksums::default();
        assert_eq!(all.note(), None);
        let file = DataFile { key: "x.csv".to_string(), md5: None, size: None };
        report.read(&mut all, &file, rows.concat().as_bytes()).unwrap();
        let of = |key: &str, etag: &str| {
            let seen =
                FileState { identity: listing::identity(key.as_bytes(), etag), ..FileState::default() };
            let path = format!("/{key}").into_bytes();
            all.of(&FileRequest { path, seen, ..FileRequest::default() })
        };
        let found = of("a b", "\"e\"").unwrap();
        assert_eq!(
            (&found.digests[0].algorithm[..], found.digests[0].digest.as_bytes()),
            ("crc32c", &[0; 4][..])
        );
        for (key, etag) in [("a b", "other"), ("parts", "e"), ("failed", "e"), ("short", "e"), ("none", "e")]
        {
            assert_eq!(of(key, etag), None, "{key}");
        }
        let other = Report::new(MANIFEST.as_bytes(), "c", Location::File("m".into())).unwrap();
        let mut none = ReportChecksums::default();
        other.read(&mut none, &file, rows.concat().as_bytes()).unwrap();
        assert!(none.found.is_empty());
        assert_eq!(none.note().unwrap(), "the report: left out: 4 rows of other buckets");
        // The same twice is no contradiction, and what is one counts for nothing.
        let again = [&rows[0][..], &row("a+b", "succeeded", "FULL_OBJECT", "AAAAAQ==")];
        report.read(&mut all, &file, again.concat().as_bytes()).unwrap();
        let note = "the report: left out: 3 rows without a checksum of a whole object, 1 row besides another of the same object";
        assert_eq!(all.note().unwrap(), note);
        let seen = FileState { identity: listing::identity(b"a b", "e"), ..FileState::default() };
        assert_eq!(all.of(&FileRequest { path: b"/a b".to_vec(), seen, ..FileRequest::default() }), None);
        for bad in ["", "{}", &MANIFEST.replace("TaskStatus", "Status")] {
            assert!(Report::new(bad.as_bytes(), "b", Location::File("m".into())).is_err(), "{bad}");
        }
    }
}
