//! Inventories of buckets, in CSV and Parquet, and reports of checksums: no bytes make a reader fail otherwise than with an
//! error, and what is listed has names that files can have.

#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use verisum_files::place::{Place, PlaceEvent};
use verisum_object::{BucketPlace, Location, StoreOptions};

const SCHEMA: &str = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag, EncryptionStatus";
const REPORT: &str = "Bucket, Key, VersionId, TaskStatus, ErrorCode, HTTPStatusCode, ResultMessage";

fuzz_target!(|data: &[u8]| {
    let [choice, content @ ..] = data else { return };
    let folder = tempfile::tempdir().expect("there is room");
    let manifest = folder.path().join("manifest.json");
    let (format, name) = [("CSV", "x.csv"), ("CSV", "x.csv.gz"), ("Parquet", "x.parquet")][usize::from(choice % 3)];
    let text = match choice >> 7 {
        0 => format!(
            "{{\"sourceBucket\":\"b\",\"fileFormat\":\"{format}\",\"fileSchema\":\"{SCHEMA}\",\"files\":[{{\"key\":\"{name}\"}}]}}"
        ),
        _ => format!(
            "{{\"Results\":[{{\"TaskExecutionStatus\":\"succeeded\",\"Key\":\"{name}\"}}],\"ReportSchema\":\"{REPORT}\"}}"
        ),
    };
    fs::write(&manifest, text).expect("there is room");
    fs::write(folder.path().join(name), content).expect("there is room");
    let mut options = StoreOptions::default();
    options.unsigned = true;
    let place = BucketPlace::open("s3://b", &options).expect("it is a bucket");
    let location = Location::File(manifest);
    if choice >> 7 == 1 {
        let _ = place.with_checksums(location, ("s3://b", &options));
        return;
    }
    let Ok(mut place) = place.with_inventory(location, ("s3://b", &options), folder.path()) else { return };
    let listed = |event: PlaceEvent| {
        if let PlaceEvent::Answer(answer) = event {
            let path = answer.request.path;
            assert!(!path.contains(&0) && path.starts_with(b"/"));
            assert!(path[1..].split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..")));
        }
        true
    };
    let _ = place.list(b"/", &listed);
});
