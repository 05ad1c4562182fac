//! `--inventory` in CSV and Parquet, and `--checksum-report`: lists of objects that a store wrote.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::bucket::Store;
use common::repository;
use serde_json::Value;
use verisum::digest::Digest;
use verisum_testkit::require_tool;

fn md5(bytes: &[u8]) -> String {
    Digest::find("md5").unwrap().hash(bytes).unwrap().to_string()
}

fn summary(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

/// Writes the manifest of an inventory with one file beside it.
fn manifest(folder: &Path, format: &str, file: &str) -> PathBuf {
    let content = fs::read(folder.join(file)).unwrap();
    let (sum, size) = (md5(&content), content.len());
    let path = folder.join("manifest.json");
    let text = format!(
        "{{\"sourceBucket\":\"box\",\"fileFormat\":\"{format}\",\"fileSchema\":\"Bucket, Key, Size, ETag\",
        \"files\":[{{\"key\":\"inventory/data/{file}\",\"size\":{size},\"MD5checksum\":\"{sum}\"}}]}}"
    );
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn an_inventory_stands_for_listing_the_bucket() {
    let (Some(store), Some(gzip)) = (Store::start(), require_tool("gzip")) else { return };
    store.bucket("box");
    let here = store.path("here");
    fs::create_dir_all(&here).unwrap();
    let (mut rows, mut names) =
        (String::new(), (0..20).map(|number| format!("f {number}")).collect::<Vec<_>>());
    // In no order.
    names.sort_by_key(|name| name.bytes().rev().collect::<Vec<_>>());
    for name in &names {
        fs::write(here.join(name), name).unwrap();
        let md5 = md5(name.as_bytes());
        rows += &format!("\"box\",\"{}\",\"{}\",\"{md5}\"\n", name.replace(' ', "+"), name.len());
    }
    let inventories = store.bucket("inventories");
    for folder in ["box/all/2026-11-24T01-00Z", "box/all/data"] {
        fs::create_dir_all(inventories.join(folder)).unwrap();
    }
    let data = inventories.join("box/all/data/x.csv");
    fs::write(&data, rows).unwrap();
    assert!(Command::new(gzip).arg(&data).status().unwrap().success());
    let packed = fs::read(inventories.join("box/all/data/x.csv.gz")).unwrap();
    let (md5, size) = (md5(&packed), packed.len());
    let manifest = inventories.join("box/all/2026-11-24T01-00Z/manifest.json");
    let text = format!(
        "{{\"sourceBucket\":\"box\",\"fileFormat\":\"CSV\",\"fileSchema\":\"Bucket, Key, Size, ETag\",
        \"files\":[{{\"key\":\"box/all/data/x.csv.gz\",\"size\":{size},\"MD5checksum\":\"{md5}\"}}]}}"
    );
    fs::write(&manifest, &text).unwrap();
    let (here, manifest) = (here.to_str().unwrap(), manifest.to_str().unwrap());
    assert_eq!(store.run(&["copy", "--quiet", here, "s3://box"]).code, Some(0));

    let compare = |inventory: &str| {
        let ended = store.run(&["compare", "--json", "--inventory", inventory, here, "s3://box"]);
        let summary = summary(ended.out());
        (ended.code, summary["same"].as_u64(), summary["costs"]["requests"].clone())
    };
    assert_eq!(compare(manifest), (Some(0), Some(20), Value::Null));
    let (code, same, requests) = compare("s3://inventories/box/all/2026-11-24T01-00Z/manifest.json");
    assert_eq!((code, same, &requests["list"]), (Some(0), Some(20), &Value::Null), "{requests}");
    fs::write(Path::new(here).join("f 7"), "F 7").unwrap();
    let (code, same, requests) = compare(manifest);
    assert_eq!((code, same, &requests["head"]), (Some(1), Some(19), &1.into()), "{requests}");
    let catalog = store.path("catalog");
    let scrub = |more: &[&str]| {
        store.run(&[&["scrub", "--catalog", catalog.to_str().unwrap()], more, &["s3://box"]].concat())
    };
    let first = scrub(&["--inventory", manifest]);
    let told = format!("{}{}", first.out(), first.stderr);
    assert!(first.code == Some(0) && told.contains("new 20"), "{told}");
    // Without times nothing tells what is due: all is read.
    let again = scrub(&["--max-age", "1d", "--inventory", manifest]);
    let told = format!("{}{}", again.out(), again.stderr);
    assert!(again.code == Some(0) && told.contains("20 get"), "{told}");
    // What is newer than the inventory is not missing, because it is not in it.
    fs::write(store.bucket("box").join("newer"), "newer").unwrap();
    assert_eq!(scrub(&[]).code, Some(0));
    for (time, missing) in [("1000000000000", false), ("4000000000000", true)] {
        let dated = text.replace("\"files\"", &format!("\"creationTimestamp\":\"{time}\",\"files\""));
        fs::write(manifest, dated).unwrap();
        let again = scrub(&["--inventory", manifest]);
        let told = format!("{}{}", again.out(), again.stderr);
        assert_eq!((again.code, told.contains("missing 1")), (Some(0), missing), "{told}");
    }
    // Nor for a comparison, which asks for it. One object that is nowhere is missing.
    for name in ["newer", "nowhere"] {
        fs::write(Path::new(here).join(name), name).unwrap();
    }
    // And one was replaced since, and one removed.
    let [bucket, local]: [PathBuf; 2] = [store.bucket("box"), here.into()];
    for tree in [&bucket, &local] {
        fs::remove_file(tree.join("f 5")).unwrap();
    }
    fs::write(local.join("f 3"), "longer").unwrap();
    let copied = store.run(&["copy", "--quiet", local.join("f 3").to_str().unwrap(), "s3://box/f 3"]);
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    let words = ["compare", "--inventory", manifest, here, "s3://box"];
    let compared = store.run(&words);
    let told = format!("{}{}", compared.out(), compared.stderr);
    assert!(
        compared.code == Some(1) && told.contains("nowhere: MISSING") && !told.contains("newer:"),
        "{told}"
    );
    assert!(!told.contains("f 3:") && !told.contains("f 5:"), "{told}");
    assert!(told.contains("s3://box: listed by an inventory of 2096-10-02T07:06:40.000000000Z"), "{told}");
    let json = store.run(&[&words[..1], &["--json"], &words[1..]].concat());
    let told = summary(json.out());
    assert_eq!(
        (&told["missing"], &told["b"]["listed_at"]),
        (&1.into(), &"2096-10-02T07:06:40.000000000Z".into()),
        "{told}"
    );
    for name in ["newer", "nowhere"] {
        fs::remove_file(Path::new(here).join(name)).unwrap();
    }
    for name in ["f 3", "f 5"] {
        fs::write(local.join(name), name).unwrap();
        let copied =
            store.run(&["copy", "--quiet", local.join(name).to_str().unwrap(), &format!("s3://box/{name}")]);
        assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    }
    fs::write(manifest, &text).unwrap();
    let sum = store.run(&["sum", "--relative", "--inventory", manifest, "s3://box"]);
    assert_eq!((sum.code, sum.out().lines().count()), (Some(0), 20), "{}", sum.stderr);
    assert!(sum.stderr.contains("cost: 20 requests (20 get)"), "{}", sum.stderr);

    for (bad, why) in [
        (text.replace("Size", "Length"), "has no columns Key and Size"),
        (text.replace(&md5, &"0".repeat(32)), "not the one that the manifest names"),
        (text.replace("\"box\"", "\"other\""), "of another bucket"),
        (text.replace("x.csv.gz", "none.csv"), "No such file"),
    ] {
        fs::write(manifest, bad).unwrap();
        let ended = store.run(&["compare", "--quiet", "--inventory", manifest, here, "s3://box"]);
        assert!(
            ended.code.unwrap() >= 2 && ended.stderr.contains(why),
            "{why}: {:?} {}",
            ended.code,
            ended.stderr
        );
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
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
    let refused = store.run(&["sum", "--checksum-report", path, "s3://box"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--checksum-report: only for compare, copy and scrub"),
        "{}",
        refused.stderr
    );
    // A checksum proves another content too, and only of the version that it is of.
    fs::write(Path::new(here).join("f 3"), "F 3").unwrap();
    let compared = store.run(&words);
    assert_eq!(compared.code, Some(1), "{}", compared.stderr);
    assert_eq!(summary(compared.out())["costs"], Value::Null, "{}", compared.out());
    // Nobody asked the store about it.
    let dated = fs::read_to_string(inventory).unwrap();
    let date = "\"creationTimestamp\":\"1764000000000\",\"files\"";
    fs::write(inventory, dated.replace("\"files\"", date)).unwrap();
    let plain: Vec<&str> = words.iter().copied().filter(|word| *word != "--json").collect();
    let told = store.run(&plain).stderr;
    let but =
        "about each difference that the checksum report of 2026-11-24T17:48:39.000000000Z does not show\n";
    assert!(told.contains(but), "{told}");
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

#[test]
fn what_is_odd_in_an_inventory_is_said() {
    let Some(store) = Store::start() else { return };
    let (bucket, folder) = (store.bucket("box"), store.path("inventory"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(bucket.join("a"), "a").unwrap();
    let row = format!("box,a,1,{}\n", md5(b"a"));
    let sum = |rows: &str| {
        fs::write(folder.join("x.csv"), rows).unwrap();
        let manifest = manifest(&folder, "CSV", "x.csv");
        store.run(&["sum", "--inventory", manifest.to_str().unwrap(), "s3://box"])
    };
    for (rows, code, lines, part) in [
        (row.clone(), 0, 1, ""),
        (row.repeat(2), 0, 1, "the inventory: 1 row is there twice\n"),
        (row.repeat(3), 0, 1, "the inventory: 2 rows are there more than once\n"),
        (String::new(), 0, 0, "the inventory: it has no objects\n"),
        (format!("{row}box,x%00y%01,1,{}\n", md5(b"a")), 3, 1, "x\\000y\\001: the key is no file name\n"),
        (format!("{row}box,a,2,{}\n", md5(b"b")), 3, 0, "it has several rows of one object"),
    ] {
        let ended = sum(&rows);
        assert_eq!(
            (ended.code, ended.out().lines().count()),
            (Some(code), lines),
            "{rows}: {}",
            ended.stderr
        );
        assert!(ended.stderr.contains(part), "{rows}: {}", ended.stderr);
    }
    sum(&row);
    let manifest_of = manifest(&folder, "CSV", "x.csv");
    let ended = store.run(&["sum", "--inventory", manifest_of.to_str().unwrap(), "s3://box/none"]);
    assert_eq!(
        (ended.code, &ended.stderr[..]),
        (Some(3), "verisum: s3://box: none: the inventory lists nothing there\n")
    );
    fs::write(bucket.join("b"), "b").unwrap();
    for (times, part) in [
        (["2026-11-24T00:00:00.000Z", "yesterday"], "1 row has a time that cannot be read"),
        (["", "1"], "2 rows have times that cannot be read"),
        (["2026-11-24T00:00:00.000Z"; 2], ""),
    ] {
        let row = |(key, time): (&str, &str)| format!("box,{key},1,{},{time}\n", md5(key.as_bytes()));
        fs::write(folder.join("x.csv"), ["a", "b"].into_iter().zip(times).map(row).collect::<String>())
            .unwrap();
        let manifest = manifest(&folder, "CSV", "x.csv");
        let text = fs::read_to_string(&manifest).unwrap();
        fs::write(&manifest, text.replace("Size, ETag", "Size, ETag, LastModifiedDate")).unwrap();
        let ended = store.run(&["sum", "--quiet", "--inventory", manifest.to_str().unwrap(), "s3://box"]);
        assert_eq!((ended.code, ended.out().lines().count()), (Some(0), 2), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("cannot be read"), !part.is_empty(), "{}", ended.stderr);
    }
}

#[test]
fn a_report_of_checksums_stands_for_reading_and_is_no_verification() {
    let Some(store) = Store::start() else { return };
    store.bucket("box");
    let (here, folder) = (store.path("here"), store.path("report"));
    for folder in [&here, &folder.join("results")] {
        fs::create_dir_all(folder).unwrap();
    }
    // No name is a command for a terminal.
    let names = ["a", "b\x7f", "c", "d"];
    names.iter().for_each(|name| fs::write(here.join(name), format!("content of {name}")).unwrap());
    assert_eq!(store.run(&["copy", "--quiet", here.to_str().unwrap(), "s3://box"]).code, Some(0));
    // Of `b` the report has another checksum, of `c` that of another version, and of `d` none.
    let rows = names[..3].iter().map(|name| {
        let content = format!("content of {name}");
        let key = name.replace('\x7f', "%7F");
        let crc = if *name == "b\x7f" { "AAAAAAAAAAA=".to_string() } else { crc64(content.as_bytes()) };
        let etag = md5(if *name == "c" { b"other" } else { content.as_bytes() });
        format!(
            "box,{key},,succeeded,200,,\"{{\"\"checksum_base64\"\":\"\"{crc}\"\",\"\"etag\"\":\"\"{etag}\"\",\
             \"\"checksumAlgorithm\"\":\"\"CRC64NVME\"\",\"\"checksumType\"\":\"\"FULL_OBJECT\"\"}}\"\n"
        )
    });
    let rows: String = rows.collect();
    fs::write(folder.join("results/y.csv"), &rows).unwrap();
    let text = format!(
        "{{\"Format\":\"Report_CSV_20180820\",\"ReportCreationDate\":\"2026-11-24T17:48:39.725Z\",\"Results\":\
         [{{\"TaskExecutionStatus\":\"succeeded\",\"Bucket\":\"r\",\"MD5Checksum\":\"{}\",\"Key\":\"job/results/y.csv\"}}],\
         \"ReportSchema\":\"Bucket, Key, VersionId, TaskStatus, ErrorCode, HTTPStatusCode, ResultMessage\"}}",
        md5(rows.as_bytes())
    );
    let report = folder.join("report.json");
    fs::write(&report, text).unwrap();
    let catalog = store.path("c.db");
    let (catalog, report) = (catalog.to_str().unwrap(), report.to_str().unwrap());
    let scrub = |words: &[&str]| {
        let ended = store.run(&[&["scrub", "--json", "--catalog", catalog], words, &["s3://box"]].concat());
        let code = if words.contains(&"-a") && words.contains(&"--checksum-report") { 3 } else { 0 };
        assert_eq!(ended.code, Some(code), "{words:?}: {} {}", ended.out(), ended.stderr);
        let line = ended.out().lines().find(|line| line.contains("\"type\":\"summary\""));
        let line: Value = serde_json::from_str(line.unwrap()).unwrap();
        (line["read_files"].clone(), line["reported_files"].clone(), line)
    };
    // What is new is read, whatever a report says; it is not recorded where the report contradicts it.
    let (read, reported, first) = scrub(&["-a", "crc64-nvme", "--checksum-report", report]);
    assert_eq!((read, reported), (3.into(), 0.into()), "{first}");
    let (read, _, first) = scrub(&["-a", "crc64-nvme"]);
    assert_eq!(read, 4, "{first}");
    let (read, reported, line) = scrub(&["--checksum-report", report]);
    assert_eq!((read, reported), (3.into(), 1.into()), "{line}");
    assert_eq!(line["reported_at"], "2026-11-24T17:48:39.000000000Z", "{line}");
    // It was not verified by that.
    assert_eq!(line["stalest_verification"], first["stalest_verification"], "{line}");
    let text = store.run(&["scrub", "--catalog", catalog, "--checksum-report", report, "s3://box"]);
    let told = "1 file not read: recorded by the store at 2026-11-24T17:48:39";
    assert!(text.out().contains(told), "{} {}", text.out(), text.stderr);
    // What the report contradicts is read, and is as in the catalogue.
    let crc = Digest::find("crc64-nvme").unwrap().hash(b"content of b\x7f").unwrap();
    let why = format!("b\\177: crc64-nvme is {crc}, recorded by the store 0000000000000000");
    assert!(text.stderr.contains(&format!("{why}; it is as the catalogue has it\n")), "{}", text.stderr);
    let quiet =
        store.run(&["scrub", "--quiet", "--catalog", catalog, "--checksum-report", report, "s3://box"]);
    assert!(quiet.code == Some(0) && quiet.stderr.contains(&why), "{}", quiet.stderr);
    // The ETag of `b` is that of the file here, and yet nobody calls it the same for that.
    let here = here.to_str().unwrap();
    let compared = store.run(&["compare", "--checksum-report", report, here, "s3://box"]);
    assert_eq!(compared.code, Some(1), "{}", compared.stderr);
    let quoted = why.replace("b\\177", "$'b\\177'");
    assert!(compared.stderr.contains(&format!("s3://box: {quoted}\n")), "{}", compared.stderr);
    assert!(compared.stderr.contains("4 the same\n"), "{}", compared.stderr);
    assert!(compared.stderr.contains("cost: 2 requests (1 get, 1 list)"), "{}", compared.stderr);
    // A report that is not there is named by its own address.
    let none = "s3://reports/job/none.json";
    store.bucket("reports");
    let why = format!("verisum: s3://box: read the report {none}: No such file or directory\n");
    let scrubbed = store.run(&["scrub", "--catalog", catalog, "--checksum-report", none, "s3://box"]);
    assert!(scrubbed.code == Some(3) && scrubbed.stderr.starts_with(&why), "{}", scrubbed.stderr);
    let compared = store.run(&["compare", "--checksum-report", none, here, "s3://box"]);
    assert!(compared.code == Some(3) && compared.stderr.starts_with(&why), "{}", compared.stderr);
    let why = why.replace("the report", "the inventory");
    let summed = store.run(&["sum", "--inventory", none, "s3://box"]);
    assert!(summed.code == Some(3) && summed.stderr.starts_with(&why), "{}", summed.stderr);
    // A report that is older than verifications may be counts for nothing.
    let (read, reported, line) = scrub(&["--since", "2100-01-01", "--checksum-report", report]);
    assert_eq!((read, reported), (4.into(), 0.into()), "{line}");
    // Where the report contradicts what the store has of a new version, there is no verdict, but a way out.
    fs::write(format!("{here}/a"), "another a").unwrap();
    assert_eq!(store.run(&["copy", "--quiet", here, "s3://box"]).code, Some(0));
    let etag = |content: &[u8]| format!("\"{}\"", md5(content));
    let first = rows.lines().next().unwrap().replace(&crc64(b"content of a"), "AAAAAAAAAAA=");
    let other = first.replace(&etag(b"content of a"), &etag(b"another a")) + "\n";
    // Rows that tell nothing are counted.
    let other = format!(
        "{other}{}box,junk,,succeeded,200,,junk\nbox,failed,,failed,,,\n",
        other.replacen("box", "ox", 1)
    );
    fs::write(folder.join("results/y.csv"), &other).unwrap();
    let text = fs::read_to_string(report).unwrap();
    fs::write(report, text.replace(&md5(rows.as_bytes()), &md5(other.as_bytes()))).unwrap();
    let scrubbed = store.run(&["scrub", "--catalog", catalog, "--checksum-report", report, "s3://box"]);
    let told = format!("{}{}", scrubbed.out(), scrubbed.stderr);
    assert!(scrubbed.code == Some(3) && told.contains("unverifiable"), "{told}");
    let left_out =
        "the report: left out: 1 row of other buckets, 2 rows without a checksum of a whole object";
    assert!(told.contains(left_out), "{told}");
    let repaired = store.run(&["repair", "--catalog", catalog, "--from", here, "s3://box"]);
    let told = format!("{}{}", repaired.out(), repaired.stderr);
    assert!(told.contains("if that ends so too, `verisum accept` takes it as it is"), "{told}");
    assert_eq!(store.run(&["accept", "--catalog", catalog, "s3://box/a"]).code, Some(0));
    scrub(&[]);
}

/// A CRC of S3 in Base64.
fn crc64(bytes: &[u8]) -> String {
    data_encoding::BASE64.encode(Digest::find("crc64-nvme").unwrap().hash(bytes).unwrap().as_bytes())
}
