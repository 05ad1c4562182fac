//! `--inventory` with Parquet, and `--checksum-report`: lists of objects that a store wrote.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::bucket::Store;
use common::repository;
use serde_json::Value;
use verisum::digest::Digest;

fn md5(bytes: &[u8]) -> String {
    Digest::find("md5").unwrap().hash(bytes).unwrap().to_string()
}

fn summary(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

/// Writes the manifest of an inventory with one file beside it.
fn manifest(folder: &Path, format: &str, file: &str) -> PathBuf {
    let sum = md5(&fs::read(folder.join(file)).unwrap());
    let path = folder.join("manifest.json");
    let text = format!(
        "{{\"sourceBucket\":\"box\",\"fileFormat\":\"{format}\",\"fileSchema\":\"Bucket, Key, Size, ETag\",
        \"files\":[{{\"key\":\"inventory/data/{file}\",\"size\":5,\"MD5checksum\":\"{sum}\"}}]}}"
    );
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn an_inventory_in_parquet_stands_for_listing() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("box");
    let folder = store.path("inventory");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(repository().join("crates/object/testdata/inventory.parquet"), folder.join("x.parquet"))
        .unwrap();
    fs::create_dir(bucket.join("a b")).unwrap();
    fs::write(bucket.join("a b/c%2F\n"), "").unwrap();
    fs::write(bucket.join("z"), "12345").unwrap();
    let path = manifest(&folder, "Parquet", "x.parquet");
    let path = path.to_str().unwrap();
    let sum = store.run(&["sum", "--relative", "--inventory", path, "s3://box"]);
    assert_eq!((sum.code, sum.out().lines().count()), (Some(0), 2), "{} {}", sum.out(), sum.stderr);
    assert!(sum.stderr.contains("(2 get"), "{}", sum.stderr);
    assert!(!sum.stderr.contains("list)"), "{}", sum.stderr);
    fs::write(folder.join("x.parquet"), "PAR1").unwrap();
    let other = store.run(&["sum", "--inventory", path, "s3://box"]);
    assert!(
        other.code == Some(3) && other.stderr.contains("not the one that the manifest names"),
        "{}",
        other.stderr
    );
    manifest(&folder, "Parquet", "x.parquet");
    let none = store.run(&["sum", "--inventory", path, "s3://box"]);
    assert!(none.code == Some(3) && none.stderr.contains("no Parquet"), "{}", none.stderr);
    assert_eq!(none.stderr.lines().count(), 1, "{}", none.stderr);
}

#[test]
fn a_report_of_checksums_stands_for_asking() {
    let Some(store) = Store::start() else { return };
    store.bucket("box");
    let (here, folder) = (store.path("here"), store.path("report"));
    for folder in [&here, &folder] {
        fs::create_dir_all(folder).unwrap();
    }
    let names: Vec<String> = (0..10).map(|number| format!("f {number}")).collect();
    names.iter().for_each(|name| fs::write(here.join(name), name).unwrap());
    let here = here.to_str().unwrap();
    assert_eq!(store.run(&["copy", "--quiet", here, "s3://box"]).code, Some(0));
    // The inventory has the ETags of objects that a key encrypts: they say nothing of the content.
    let (mut rows, mut report) = (String::new(), String::new());
    for name in &names {
        let key = name.replace(' ', "+");
        let etag = md5(name.as_bytes());
        rows += &format!("\"box\",\"{key}\",\"{}\",\"{etag}\",\"SSE-KMS\"\n", name.len());
        let crc = Digest::find("crc64-nvme").unwrap().hash(name.as_bytes()).unwrap();
        let crc = data_encoding::BASE64.encode(crc.as_bytes());
        let message = format!(
            "{{\"\"checksum_base64\"\":\"\"{crc}\"\",\"\"etag\"\":\"\"{etag}\"\",\
             \"\"checksumAlgorithm\"\":\"\"CRC64NVME\"\",\"\"checksumType\"\":\"\"FULL_OBJECT\"\"}}"
        );
        report += &format!("box,{key},,succeeded,200,,\"{message}\"\n");
    }
    fs::write(folder.join("x.csv"), rows).unwrap();
    let inventory = manifest(&folder, "CSV", "x.csv");
    let text = fs::read_to_string(&inventory).unwrap();
    fs::write(&inventory, text.replace("Size, ETag", "Size, ETag, EncryptionStatus")).unwrap();
    fs::create_dir(folder.join("results")).unwrap();
    fs::write(folder.join("results/y.csv"), &report).unwrap();
    let path = folder.join("report.json");
    let text = format!(
        "{{\"Format\":\"Report_CSV_20180820\",\"ReportCreationDate\":\"2026-11-24T17:48:39.725Z\",\"Results\":\
         [{{\"TaskExecutionStatus\":\"succeeded\",\"Bucket\":\"r\",\"MD5Checksum\":\"{}\",\"Key\":\"job/results/y.csv\"}}],\
         \"ReportSchema\":\"Bucket, Key, VersionId, TaskStatus, ErrorCode, HTTPStatusCode, ResultMessage\"}}",
        md5(report.as_bytes())
    );
    fs::write(&path, &text).unwrap();
    let (inventory, path) = (inventory.to_str().unwrap(), path.to_str().unwrap());
    let words = ["compare", "--json", "--inventory", inventory, "--checksum-report", path, here, "s3://box"];
    let compared = store.run(&words);
    let told = summary(compared.out());
    assert_eq!(
        (compared.code, &told["same"]),
        (Some(0), &10.into()),
        "{} {}",
        compared.out(),
        compared.stderr
    );
    assert_eq!((&told["settled"]["store"], &told["costs"]), (&10.into(), &Value::Null), "{told}");
    let refused = store.run(&["scrub", "--checksum-report", path, "s3://box"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("--checksum-report: only for compare and copy"), "{}", refused.stderr);
    // A checksum proves another content too, and only of the version that it is of.
    fs::write(Path::new(here).join("f 3"), "F 3").unwrap();
    let compared = store.run(&words);
    assert_eq!(compared.code, Some(1), "{}", compared.stderr);
    assert_eq!(summary(compared.out())["costs"], Value::Null, "{}", compared.out());
    let rows = fs::read_to_string(folder.join("x.csv")).unwrap();
    fs::write(folder.join("x.csv"), rows.replace(&md5(b"f 5"), &md5(b"other"))).unwrap();
    let old = manifest(&folder, "CSV", "x.csv");
    let text = fs::read_to_string(&old).unwrap();
    fs::write(&old, text.replace("Size, ETag", "Size, ETag, EncryptionStatus")).unwrap();
    let compared = store.run(&words);
    let told = summary(compared.out());
    assert_eq!((&told["same"], &told["costs"]["requests"]["head"]), (&9.into(), &1.into()), "{told}");
    fs::write(path, text.replace("box", "other")).unwrap();
    let wrong = store.run(&words);
    assert!(
        wrong.code == Some(3) && wrong.stderr.contains("the report's manifest is none"),
        "{}",
        wrong.stderr
    );
}
