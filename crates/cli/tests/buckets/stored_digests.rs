//! Digests that a real store recorded, images in it, and a network between that fails.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::bucket::{KEY, SECRET, Store, run_at};
use common::{change_and_restore_time, verisum};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpConnector, HttpRequest, ReqwestConnector};
use serde_json::Value;
use verisum::blockhash::{ImageProgress, Params, hash_image};
use verisum::digest::Digest;
use verisum::files::place::{FileRecord, FileRequest, Place};
use verisum::object::BucketPlace;
use verisum_testkit::require_tool;

/// The names of checksums in headers, and of ours.
const CHECKSUMS: [(&str, &str); 10] = [
    ("crc32", "crc32"),
    ("crc32c", "crc32c"),
    ("crc64nvme", "crc64-nvme"),
    ("sha1", "sha1"),
    ("sha256", "sha256"),
    ("md5", "md5"),
    ("sha512", "sha512"),
    ("xxhash64", "xxh64"),
    ("xxhash3", "xxh3-64"),
    ("xxhash128", "xxh3-128"),
];

/// Sends a signed request, as other programs do that upload. Returns status, ETag and body.
pub fn ask(
    store: &Store,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> (u16, String, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = format!("{}/{path}", store.options().endpoint.unwrap());
    // Which chooses what speaks TLS.
    drop(BucketPlace::open("s3://box", &store.options()).unwrap());
    runtime.block_on(async {
        let http = ReqwestConnector::default()
            .connect(&object_store::ClientOptions::new().with_allow_http(true))
            .unwrap();
        let mut request = HttpRequest::new(body.to_vec().into());
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = url.parse().unwrap();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let credential =
            AwsCredential { key_id: KEY.to_string(), secret_key: SECRET.to_string(), token: None };
        AwsAuthorizer::new(&credential, "s3", "us-east-1").try_authorize(&mut request, None).unwrap();
        let answer = http.execute(request).await.unwrap();
        let status = answer.status().as_u16();
        let etag = answer.headers().get("etag").map_or("", |etag| etag.to_str().unwrap()).to_string();
        let body = answer.into_body().bytes().await.unwrap();
        (status, etag, String::from_utf8_lossy(&body).into_owned())
    })
}

pub fn base64(name: &str, bytes: &[u8]) -> String {
    data_encoding::BASE64.encode(Digest::find(name).unwrap().hash(bytes).unwrap().as_bytes())
}

pub fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8).collect()
}

/// Uploads in parts of this length, with a checksum.
pub fn upload(store: &Store, path: &str, content: &[u8], part: usize, digests: (&str, &str), kind: &str) {
    upload_parts(store, path, &content.chunks(part).collect::<Vec<_>>(), digests, kind);
}

/// The same of these parts.
pub fn upload_parts(store: &Store, path: &str, content: &[&[u8]], (theirs, ours): (&str, &str), kind: &str) {
    let header = |name: &str, value: &str| (name.to_string(), value.to_string());
    let begin =
        [header("x-amz-checksum-algorithm", &theirs.to_uppercase()), header("x-amz-checksum-type", kind)];
    let (status, _, body) = ask(store, "POST", &format!("{path}?uploads="), &begin, b"");
    assert_eq!(status, 200, "{body}");
    let id = body.split("<UploadId>").nth(1).unwrap().split('<').next().unwrap().to_string();
    let mut parts = String::new();
    for (number, bytes) in content.iter().enumerate() {
        let (number, checksum) = (number + 1, base64(ours, bytes));
        let headers = [header(&format!("x-amz-checksum-{theirs}"), &checksum)];
        let path = format!("{path}?partNumber={number}&uploadId={id}");
        let (status, etag, body) = ask(store, "PUT", &path, &headers, bytes);
        assert_eq!(status, 200, "{body}");
        let name = format!("Checksum{}", theirs.to_uppercase());
        parts += &format!(
            "<Part><ETag>{}</ETag><PartNumber>{number}</PartNumber><{name}>{checksum}</{name}></Part>",
            etag.trim_matches('"')
        );
    }
    let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    let end = [header("x-amz-checksum-type", kind)];
    let (status, _, body) = ask(store, "POST", &format!("{path}?uploadId={id}"), &end, body.as_bytes());
    assert!(status == 200 && body.contains("<CompleteMultipartUploadResult"), "{body}");
}

fn record(store: &Store, bucket: &str, key: &str) -> FileRecord {
    let mut place = BucketPlace::open(&format!("s3://{bucket}"), &store.options()).unwrap();
    let request = FileRequest { path: format!("/{key}").into_bytes(), ..FileRequest::default() };
    place.records(&[request]).unwrap().pop().unwrap().unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_digest_that_a_store_keeps_settles_a_comparison() {
    let Some(store) = Store::start() else { return };
    store.bucket("box");
    let here = store.path("here");
    fs::create_dir_all(&here).unwrap();
    let bytes = content(100_000);
    for (theirs, ours) in CHECKSUMS {
        let header = [(format!("x-amz-checksum-{theirs}"), base64(ours, &bytes))];
        let (status, _, body) = ask(&store, "PUT", &format!("box/{ours}"), &header, &bytes);
        assert_eq!(status, 200, "{ours}: {body}");
        let wrong = [(format!("x-amz-checksum-{theirs}"), base64(ours, b"other"))];
        let (status, _, body) = ask(&store, "PUT", &format!("box/wrong-{ours}"), &wrong, &bytes);
        assert!(status == 400 && body.contains("<Code>BadDigest"), "{ours}: {body}");
        let record = record(&store, "box", ours);
        let of_it = record.digests.iter().find(|digest| digest.algorithm == ours && digest.is_certain);
        let of_it = of_it.unwrap_or_else(|| panic!("{ours}: {record:?}"));
        assert_eq!(of_it.digest, Digest::find(ours).unwrap().hash(&bytes).unwrap(), "{ours}");
        // Another content of the same length.
        fs::write(here.join(ours), [&bytes[1..], b"x"].concat()).unwrap();
    }
    let compared = store.run(&["compare", "--json", here.to_str().unwrap(), "s3://box"]);
    assert_eq!(compared.code, Some(1), "{}", compared.stderr);
    let lines = lines(compared.out());
    let (summary, files) = lines.split_last().unwrap();
    assert_eq!(files.len(), CHECKSUMS.len(), "{}", compared.out());
    for file in files {
        assert_eq!((&file["outcome"], &file["evidence"]), (&"differs".into(), &"recorded".into()), "{file}");
        assert!(file["recorded_at"].as_str().unwrap().ends_with("Z"), "{file}");
        assert_eq!(file["algorithm"], file["path"], "{file}");
    }
    let requests = &summary["costs"]["requests"];
    assert_eq!((&requests["list"], &requests["head"]), (&1.into(), &10.into()), "{summary}");
    assert_eq!(requests["get"], Value::Null, "{summary}");
    let text = store.run(&["compare", here.to_str().unwrap(), "s3://box"]);
    assert!(text.out().contains("sha256: DIFFERS (as the store recorded it at "), "{}", text.out());
    assert!(text.stderr.contains("cost: 11 requests (10 head, 1 list)"), "{}", text.stderr);
}

#[test]
fn parts_of_an_odd_length_are_told_by_the_store() {
    const PART: usize = 7_500_000;
    let Some(store) = Store::start() else { return };
    store.bucket("box");
    let here = store.path("here");
    fs::create_dir_all(&here).unwrap();
    let bytes = content(2 * PART + 1_234_567);
    for (theirs, ours) in [("sha256", "sha256"), ("crc32c", "crc32c"), ("sha1", "sha1")] {
        let name = format!("parts-{ours}");
        upload(&store, &format!("box/{name}"), &bytes, PART, (theirs, ours), "COMPOSITE");
        fs::write(here.join(&name), &bytes).unwrap();
        let record = record(&store, "box", &name);
        for algorithm in [format!("s3-{ours}:{PART}"), format!("s3-etag:{PART}")] {
            let found = record.digests.iter().find(|digest| digest.algorithm == algorithm);
            let found = found.unwrap_or_else(|| panic!("{algorithm}: {record:?}"));
            assert_eq!(found.digest, Digest::find(&algorithm).unwrap().hash(&bytes).unwrap(), "{algorithm}");
        }
    }
    upload(&store, "box/whole", &bytes, PART, ("crc64nvme", "crc64-nvme"), "FULL_OBJECT");
    fs::write(here.join("whole"), &bytes).unwrap();
    let whole = record(&store, "box", "whole");
    let crc = whole.digests.iter().find(|digest| digest.algorithm == "crc64-nvme").unwrap();
    assert_eq!(crc.digest, Digest::find("crc64-nvme").unwrap().hash(&bytes).unwrap());
    let compared = store.run(&["compare", "--json", here.to_str().unwrap(), "s3://box"]);
    assert_eq!(compared.code, Some(0), "{} {}", compared.out(), compared.stderr);
    let summary = lines(compared.out()).pop().unwrap();
    assert_eq!(
        (&summary["settled"]["store"], &summary["settled"]["read"]),
        (&4.into(), &0.into()),
        "{summary}"
    );
    assert_eq!(summary["costs"]["requests"]["get"], Value::Null, "{summary}");
    // A byte of the last part.
    let file = fs::File::options().write(true).open(here.join("whole")).unwrap();
    file.write_all_at(b"!", 2 * PART as u64 + 5).unwrap();
    let compared = store.run(&["compare", "--quiet", here.to_str().unwrap(), "s3://box"]);
    assert_eq!(compared.code, Some(1), "{}", compared.stderr);
    assert!(compared.out().starts_with("whole: DIFFERS (as the store recorded it"), "{}", compared.out());
}

#[test]
fn requests_are_paid_by_a_list_of_prices_and_sent_at_a_rate() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("box");
    for number in 0..5 {
        fs::write(bucket.join(number.to_string()), "content").unwrap();
    }
    let prices = store.path("prices");
    fs::write(&prices, "currency = \"EUR\"\n[per_1000_requests]\nlist = 5000\nget = 100\n").unwrap();
    let prices = prices.to_str().unwrap();
    let before = std::time::Instant::now();
    let sum = store.run(&["sum", "--prices", prices, "--requests-per-second", "10", "s3://box"]);
    // Six requests, of which none had to wait for one before it.
    assert!(before.elapsed() >= Duration::from_millis(500), "{:?}", before.elapsed());
    assert_eq!((sum.code, sum.out().lines().count()), (Some(0), 5), "{}", sum.stderr);
    assert!(sum.stderr.contains("cost: 6 requests (5 get, 1 list)"), "{}", sum.stderr);
    assert!(sum.stderr.contains(", 5.5000 EUR"), "{}", sum.stderr);
    let json = store.run(&["sum", "--json", "--prices", prices, "s3://box"]);
    let costs = lines(json.out()).pop().unwrap();
    assert_eq!((&costs["type"], &costs["money"]["amount"]), (&"costs".into(), &5.5.into()), "{costs}");
    let quiet = store.run(&["sum", "--quiet", "s3://box"]);
    assert_eq!(quiet.stderr, "");
    let wrong = store.run(&["sum", "--prices", "/nonexistent/x", "s3://box"]);
    assert_eq!((wrong.code, wrong.stderr.lines().count()), (Some(3), 1), "{}", wrong.stderr);
}

#[test]
fn recorded_digests_are_taken_and_told_from_what_was_read() {
    const PART: usize = 7_500_000;
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("box");
    let bytes = content(PART + 1000);
    let small = content(1000);
    let header = [("x-amz-checksum-sha256".to_string(), base64("sha256", &small))];
    for name in ["a", "rot"] {
        assert_eq!(ask(&store, "PUT", &format!("box/{name}"), &header, &small).0, 200);
    }
    upload(&store, "box/parts", &bytes, PART, ("sha256", "sha256"), "COMPOSITE");
    fs::write(bucket.join("unrecorded"), &small).unwrap();
    let plain = |words: &[&str]| {
        let ended = store.run(words);
        let lines = ended.out().lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let list = plain(&["sum", "--quiet", "--relative", "s3://box"]);
    // Behind the back of the server, which still tells what was uploaded.
    fs::write(bucket.join("rot"), content(2000).split_off(1000)).unwrap();
    let sum = store.run(&["sum", "--recorded", "--relative", "s3://box"]);
    assert_eq!(sum.code, Some(0), "{}", sum.stderr);
    assert_eq!(sum.out().lines().filter(|line| line.starts_with("# recorded by the store at 20")).count(), 2);
    assert_eq!(sum.out().lines().filter(|line| *line == "# read").count(), 2, "{}", sum.out());
    assert_eq!(plain(&["sum", "--quiet", "--recorded", "--relative", "s3://box"]), list);
    assert!(sum.stderr.contains("evidence: 2 recorded by the store, 2 read\n"), "{}", sum.stderr);
    assert!(sum.stderr.contains(" 6 head, 1 list)"), "{}", sum.stderr);

    let path = store.path("list");
    let path = path.to_str().unwrap();
    fs::write(path, sum.out()).unwrap();
    let read = store.run(&["check", path, "s3://box"]);
    assert!(read.code == Some(1) && read.out().contains("rot: FAILED\n"), "{} {}", read.out(), read.stderr);
    let recorded = store.run(&["check", "--recorded", path, "s3://box"]);
    assert_eq!(recorded.code, Some(0), "{} {}", recorded.out(), recorded.stderr);
    assert!(recorded.out().contains("rot: OK (recorded by the store at 20"), "{}", recorded.out());
    assert!(recorded.out().contains("parts: OK (read)\n"), "{}", recorded.out());
    fs::write(path, list.replace(list.split(' ').next().unwrap(), &"0".repeat(64))).unwrap();
    let wrong = store.run(&["check", "--recorded", "--json", path, "s3://box"]);
    assert_eq!(wrong.code, Some(1), "{} {}", wrong.out(), wrong.stderr);
    let told = lines(wrong.out());
    let of = |name: &str| told.iter().find(|line| line["path"] == name).unwrap();
    assert_eq!((&of("a")["outcome"], &of("a")["evidence"]), (&"failed".into(), &"recorded".into()));
    assert!(of("a")["recorded_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&of("parts")["outcome"], &of("parts")["evidence"]), (&"ok".into(), &"read".into()));
    let costs = told.iter().find(|line| line["type"] == "costs").unwrap();
    assert_eq!(
        (&costs["evidence"]["recorded"], &costs["evidence"]["read"]),
        (&2.into(), &2.into()),
        "{costs}"
    );

    // Of parts that the store knows, of the digest that it composed of theirs. It verified that, and not the ETag.
    let kinds = [(format!("s3-etag:{PART}"), "read"), (format!("s3-sha256:{PART}"), "recorded")];
    for (algorithm, evidence) in kinds {
        let words = ["sum", "--json", "-a", &algorithm, "s3://box/parts"];
        let [taken, read] = [&words[..], &[&words[..1], &["--recorded"], &words[1..]].concat()]
            .map(|words| lines(store.run(words).out()).remove(0));
        assert_eq!((&read["evidence"], &taken["evidence"]), (&evidence.into(), &Value::Null), "{read}");
        assert_eq!(taken["digests"], read["digests"]);
    }
    // Of more parts their lengths are asked for, which the first need not tell.
    for (name, lengths) in [("even", [6, 6, 5]), ("odd", [6, 5, 5])] {
        let parts: Vec<Vec<u8>> = lengths.iter().map(|length| content(length << 20)).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        upload_parts(&store, &format!("box/{name}"), &parts, ("crc32", "crc32"), "COMPOSITE");
        let address = format!("s3://box/{name}");
        let sum = store.run(&["sum", "--recorded", "--json", "-a", "s3-crc32:6M", &address]);
        let told = lines(sum.out());
        let evidence = if name == "even" { "recorded" } else { "read" };
        assert_eq!(told[0]["evidence"], evidence, "{}", sum.out());
        let downloads = &told.last().unwrap()["requests"]["get"];
        assert_eq!(downloads.is_null(), name == "even", "{}", sum.out());
        let read = lines(store.run(&["sum", "--json", "-a", "s3-crc32:6M", &address]).out());
        assert_eq!(told[0]["digests"], read[0]["digests"], "{name}");
    }
    // An ETag that differs from the list proves nothing.
    fs::write(path, format!("{}  a\n{}  unrecorded\n", "0".repeat(32), "0".repeat(32))).unwrap();
    let etags = store.run(&["check", "--recorded", "--json", "-a", "md5", path, "s3://box"]);
    assert_eq!(etags.code, Some(1), "{}", etags.stderr);
    for line in lines(etags.out()).iter().filter(|line| line["type"] == "file") {
        assert_eq!((&line["outcome"], &line["evidence"]), (&"failed".into(), &"read".into()), "{line}");
    }
    for words in
        [&["sum", "--recorded", path][..], &["sum", "--recorded", "local:x"], &["check", "--recorded", path]]
    {
        let refused = store.run(words);
        assert_eq!(refused.code, Some(2), "{words:?} {}", refused.stderr);
        assert!(refused.stderr.contains("--recorded: only for files in buckets"), "{}", refused.stderr);
    }
}

#[test]
fn what_a_store_does_not_have_as_it_recorded_it_is_not_copied() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("box");
    for (name, length) in [("good", 1000), ("rot", 1000), ("rot-large", 3 << 20)] {
        let bytes = content(length);
        let header = [("x-amz-checksum-crc64nvme".to_string(), base64("crc64-nvme", &bytes))];
        assert_eq!(ask(&store, "PUT", &format!("box/{name}"), &header, &bytes).0, 200);
    }
    for name in ["rot", "rot-large"] {
        let file = fs::File::options().write(true).open(bucket.join(name)).unwrap();
        file.write_all_at(b"!", 500).unwrap();
    }
    let out = store.path("out");
    let copied = store.run(&["copy", "s3://box", out.to_str().unwrap()]);
    assert_eq!(copied.code, Some(1), "{} {}", copied.out(), copied.stderr);
    let text = format!("{}{}", copied.out(), copied.stderr);
    for name in ["rot", "rot-large"] {
        assert!(text.contains(&format!("s3://box/{name}: rot: crc64-nvme is ")), "{text}");
        assert!(!out.join(name).exists());
    }
    assert!(text.contains("(store): not copied"), "{text}");
    assert_eq!(fs::read(out.join("good")).unwrap(), content(1000));
}

#[test]
fn what_a_catalogue_knows_as_rot_is_never_the_same_by_a_record() {
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("box"), store.path("here"));
    fs::create_dir_all(&here).unwrap();
    let bytes = content(1000);
    for name in ["a", "rot", "b"] {
        let header = [("x-amz-checksum-sha256".to_string(), base64("sha256", &bytes))];
        assert_eq!(ask(&store, "PUT", &format!("box/{name}"), &header, &bytes).0, 200);
        fs::write(here.join(name), &bytes).unwrap();
    }
    let (catalog, here) = (store.path("catalog"), here.to_str().unwrap());
    let catalog = catalog.to_str().unwrap();
    assert_eq!(store.run(&["scrub", "--catalog", catalog, "s3://box"]).code, Some(0));
    change_and_restore_time(&bucket.join("rot"), &"?".repeat(1000));
    assert_eq!(store.run(&["scrub", "--catalog", catalog, "s3://box"]).code, Some(1));
    for quick in [&[][..], &["--quick"]] {
        let words = [&["compare", "--json", "--catalog", catalog], quick, &[here, "s3://box"]].concat();
        let compared = store.run(&words);
        assert_eq!(compared.code, Some(1), "{quick:?} {} {}", compared.out(), compared.stderr);
        let told = lines(compared.out());
        assert_eq!((&told[0]["path"], &told[0]["evidence"]), (&"rot".into(), &"read".into()), "{}", told[0]);
        let summary = told.last().unwrap();
        assert_eq!((&summary["same"], &summary["differ"]), (&2.into(), &1.into()), "{summary}");
    }
}

#[test]
fn json_tells_digests_as_text_does_and_check_counts_the_parts() {
    let Some(store) = Store::start() else { return };
    let object = store.bucket("box").join("big");
    fs::write(&object, vec![7; 20 << 20]).unwrap();
    let here = object.to_str().unwrap();
    let digests = |place: &str| {
        let sum = store.run(&["sum", "--json", "-a", "s3-etag:8M,s3-sha256:8M,s3-crc32c:8M,ipfs", place]);
        lines(sum.out())[0]["digests"].clone()
    };
    let of = digests(here);
    let etag = of["s3-etag:8M"].as_str().unwrap();
    assert!(etag.ends_with("-3") && of["ipfs"].as_str().unwrap().starts_with('b'), "{of}");
    assert_eq!(digests("s3://box/big"), of);

    let list = store.path("list");
    let list = list.to_str().unwrap();
    let folder = object.parent().unwrap();
    for format in ["bare", "bsd", "s3", "json"] {
        let right = match format {
            "bare" => format!("{etag}  big\n"),
            _ => store
                .run(&["sum", "--relative", "--format", format, "-a", "s3-etag:8M", "s3://box/big"])
                .out()
                .to_string(),
        };
        for (text, code) in [(right.clone(), 0), (right.replace(etag, &format!("{}99", &etag[..33])), 1)] {
            fs::write(list, text).unwrap();
            for place in ["s3://box", folder.to_str().unwrap()] {
                let more: &[&str] = if format == "bare" { &["-a", "s3-etag:8M"] } else { &[] };
                let check = store.run(&[&["check", "--json", list, place], more].concat());
                assert_eq!(check.code, Some(code), "{format} {place}: {}{}", check.out(), check.stderr);
                let line = &lines(check.out())[0];
                if code == 0 {
                    let states = ["listed", "found"].map(|state| &line[state]["digests"]["s3-etag:8M"]);
                    assert_eq!(states, [etag, etag], "{format}: {line}");
                } else {
                    assert_eq!(line["error"], "is of 3 parts, listed with 99", "{format}: {line}");
                }
            }
        }
    }

    let catalog = store.path("catalog");
    let words = ["scrub", "--json", "-a", "s3-etag:8M", "--catalog", catalog.to_str().unwrap(), "s3://box"];
    store.run(&words).clean();
    change_and_restore_time(&object, &vec![b'7'; 20 << 20]);
    let scrub = store.run(&words);
    let found = &lines(scrub.out())[0];
    assert_eq!(found["recorded"]["digest"], etag, "{found}");
    assert_eq!(found["found"]["digest"], digests(here)["s3-etag:8M"], "{found}");
}

/// The ETag of such an object is the MD5 of its MD5, with a 1 behind it. So is a checksum that is composed.
#[test]
fn lists_with_uploads_in_one_part_are_checked() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("box");
    let bytes = content(100_000);
    upload_parts(&store, "box/one", &[&bytes], ("sha256", "sha256"), "COMPOSITE");
    let (_, etag, _) = ask(&store, "HEAD", "box/one", &[], b"");
    let etag = etag.trim_matches('"');
    assert!(etag.ends_with("-1"), "{etag}");
    let sha256 = Digest::find("sha256").unwrap();
    let twice = sha256.hash(sha256.hash(&bytes).unwrap().as_bytes()).unwrap();
    let composed = data_encoding::BASE64.encode(twice.as_bytes()) + "-1";
    let list = store.path("list.csv");
    let text = format!("Key,Size,s3-etag:8M,s3-sha256:8M\none,100000,{etag},{composed}\n");
    fs::write(&list, text).unwrap();
    let list = list.to_str().unwrap();
    let places = [&["s3://box"][..], &["--recorded", "s3://box"], &[bucket.to_str().unwrap()]];
    for place in places {
        let check = store.run(&[&["check", list], place].concat());
        assert_eq!(check.code, Some(0), "{place:?} {}{}", check.out(), check.stderr);
    }
    change_and_restore_time(&bucket.join("one"), &bytes.iter().map(|byte| byte ^ 1).collect::<Vec<_>>());
    for place in [places[0], places[2]] {
        let check = store.run(&[&["check", list], place].concat());
        assert_eq!((check.code, check.out()), (Some(1), "one: FAILED\n"), "{place:?} {}", check.stderr);
    }
}

#[test]
fn every_verb_tells_the_same_text_of_a_digest_of_parts() {
    let Some(store) = Store::start() else { return };
    let object = store.bucket("box").join("big");
    let [here, out, catalog, list] = ["here", "out", "catalog", "list"].map(|name| store.path(name));
    fs::create_dir(&here).unwrap();
    for path in [&object, &here.join("big")] {
        fs::write(path, vec![7; 20 << 20]).unwrap();
    }
    let [here, out, catalog, list] = [&here, &out, &catalog, &list].map(|path| path.to_str().unwrap());
    let digest = ["-a", "s3-etag:8M", "--json", "--verbose"];
    let first = |words: &[&str], code: i32| {
        let ended = store.run(words);
        assert_eq!(ended.code, Some(code), "{words:?}: {}{}", ended.out(), ended.stderr);
        lines(ended.out())[0].clone()
    };
    let etag = first(&["sum", "-a", "s3-etag:8M", "--json", "s3://box"], 0)["digests"]["s3-etag:8M"].clone();
    assert!(etag.as_str().unwrap().ends_with("-3"), "{etag}");
    let compared = first(&[&["compare", "--read", here, "s3://box"], &digest[..]].concat(), 0);
    assert_eq!([&compared["a"]["digest"], &compared["b"]["digest"]], [&etag, &etag], "{compared}");
    // A list of such digests is one to which a later copy adds.
    for from in ["s3://box", here] {
        let copied = first(&[&["copy", "--sums", list, from, out], &digest[..]].concat(), 0);
        assert_eq!(copied["digest"], etag, "{copied}");
        fs::remove_dir_all(out).unwrap();
    }
    assert!(fs::read_to_string(list).unwrap().ends_with(&format!(" = {}\n", etag.as_str().unwrap())));

    let scrub = ["scrub", "--catalog", catalog, "s3://box", "-a", "s3-etag:8M"];
    first(&[&scrub[..], &["--json"]].concat(), 0);
    change_and_restore_time(&object, &vec![b'7'; 20 << 20]);
    let alarm = lines(store.run(&[&scrub[..], &["--json"]].concat()).out());
    let alarm = alarm.iter().find(|line| line["type"] == "alarm").unwrap();
    assert_eq!(alarm["digest"], etag, "{alarm}");
    let listed = first(&["catalog", "list", "--bad", "--json", "--catalog", catalog], 1);
    assert_eq!(listed["recorded"]["digest"], etag, "{listed}");
    let bad = first(&["copy", "--json", "--catalog", catalog, "s3://box", out], 1);
    assert_eq!(bad["recorded"]["digest"], etag, "{bad}");
    assert!(bad["found"]["digest"].as_str().is_some_and(|found| found.ends_with("-3")), "{bad}");
    let told = store.run(&["copy", "--catalog", catalog, "s3://box", out]);
    assert!(
        told.out().contains(&format!("-3, recorded {} (catalogue)", etag.as_str().unwrap())),
        "{}",
        told.out()
    );
    let mended = first(&["repair", "--json", "--catalog", catalog, "--from", here, "s3://box"], 0);
    assert_eq!(mended["digest"], etag, "{mended}");
}

#[test]
fn all_digests_of_an_object_take_one_read() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("box");
    for name in ["a", "b"] {
        fs::write(bucket.join(name), name).unwrap();
    }
    let list = store.path("list.csv");
    let words = ["sum", "--relative", "--format", "s3", "-a", "s3-etag:8M,sha256", "s3://box"];
    let sum = store.run(&words);
    assert!(sum.code == Some(0) && sum.stderr.contains("(2 get, 1 list)"), "{}", sum.stderr);
    fs::write(&list, sum.out()).unwrap();
    let list = list.to_str().unwrap();
    let check = store.run(&["check", list, "s3://box"]);
    assert_eq!((check.code, check.out()), (Some(0), "a: OK\nb: OK\n"), "{}", check.stderr);
    assert!(check.stderr.contains("2 verified\n") && check.stderr.contains("(2 get)"), "{}", check.stderr);
    let json = store.run(&["sum", "--json", "-a", "md5,sha256", "s3://box/a"]);
    let digests = &lines(json.out())[0]["digests"];
    let of = |name: &str| Value::from(Digest::find(name).unwrap().hash(b"a").unwrap().to_string());
    assert_eq!((&digests["md5"], &digests["sha256"]), (&of("md5"), &of("sha256")), "{}", json.out());
    fs::write(bucket.join("b"), "x").unwrap();
    fs::remove_file(bucket.join("a")).unwrap();
    let check = store.run(&["check", list, "s3://box"]);
    assert!(check.stderr.contains("0 verified, 1 failed, 1 missing\n"), "{}", check.stderr);
    let one = store.run(&["sum", "-a", "md5,sha256", "local:/nonexistent"]);
    assert!(one.code == Some(2) && one.stderr.contains("compute one in a read"), "{}", one.stderr);
}

#[test]
fn a_version_of_an_object_is_read_and_never_written() {
    let Some(store) = Store::start() else { return };
    store.bucket("box");
    let on = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(ask(&store, "PUT", "box?versioning=", &[], on).0, 200);
    for content in ["old", "new"] {
        assert_eq!(ask(&store, "PUT", "box/a", &[], content.as_bytes()).0, 200);
    }
    let (_, _, listed) = ask(&store, "GET", "box?versions=", &[], b"");
    let old = listed.split("<Version>").find(|part| part.contains("<IsLatest>false"));
    let old = old.unwrap_or_else(|| panic!("{listed}")).split("<VersionId>").nth(1).unwrap();
    let address = format!("s3://box/a?versionId={}", old.split('<').next().unwrap());
    let sha = |content: &str| Digest::find("sha256").unwrap().hash(content.as_bytes()).unwrap().to_string();
    for (address, content) in [("s3://box/a", "new"), (&address, "old")] {
        let sum = store.run(&["sum", "--quiet", address]);
        assert!(sum.code == Some(0) && sum.out().starts_with(&sha(content)), "{} {}", sum.out(), sum.stderr);
        let list = store.path("list");
        fs::write(&list, sum.out()).unwrap();
        let check = store.run(&["check", list.to_str().unwrap(), "s3://box"]);
        assert_eq!(check.code, Some(0), "{} {}", check.out(), check.stderr);
    }
    let file = store.path("file");
    fs::write(&file, "x").unwrap();
    let copied = store.run(&["copy", file.to_str().unwrap(), &address]);
    assert_eq!(copied.code, Some(3), "{}", copied.stderr);
    for (version, why) in [
        ("01JNONE", "there is no such version of the object"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "there is no such version of the object"),
        ("x/y", "there is no such object, and what follows ?versionId= names no version"),
        ("", "there is no such object, and what follows ?versionId= names no version"),
    ] {
        let address = format!("s3://box/a?versionId={version}");
        for words in [&["sum", "--quiet"][..], &["image", "sum"]] {
            let none = store.run(&[words, &[&address]].concat());
            let lines: Vec<&str> = none.stderr.lines().filter(|line| !line.contains(" cost: ")).collect();
            assert_eq!((none.code, lines.len()), (Some(3), 1), "{words:?} {}", none.stderr);
            assert!(lines[0].contains("a?versionId=") && lines[0].contains(why), "{}", none.stderr);
        }
    }
    // A key that is like such an address can be named by nobody.
    assert_eq!(ask(&store, "PUT", "box/b%3FversionId%3Dx", &[], b"x").0, 200);
    let all = store.run(&["sum", "--quiet", "s3://box"]);
    assert_eq!((all.code, all.out().lines().count()), (Some(3), 1), "{}", all.stderr);
    assert!(all.stderr.contains("b?versionId=x: the key is like the address of a version"), "{}", all.stderr);
}

/// A sparse raw image of 256 MiB with data at these places.
fn image(path: &Path) {
    let file = fs::File::create(path).unwrap();
    file.set_len(256 << 20).unwrap();
    for (at, length) in [(0, 1 << 20), (100 << 20, 700_000), ((256 << 20) - 65536, 65536)] {
        file.write_all_at(&content(length), at as u64).unwrap();
    }
}

#[test]
fn images_are_hashed_where_they_are_without_their_holes() {
    let (Some(store), Some(qemu)) = (Store::start(), require_tool("qemu-img")) else { return };
    let (bucket, raw) = (store.bucket("box"), store.path("disk.raw"));
    image(&raw);
    let qcow2 = bucket.join("disk.qcow2");
    let convert = ["convert", "-O", "qcow2"];
    assert!(Command::new(&qemu).args(convert).arg(&raw).arg(&qcow2).status().unwrap().success());
    let bare = |out: &str| out.trim_end().rsplit(' ').next().unwrap().to_string();
    let here = bare(verisum(["image".as_ref(), "sum".as_ref(), raw.as_os_str()]).out());
    let sum = store.run(&["image", "sum", "s3://box/disk.qcow2"]);
    assert_eq!((sum.code, bare(sum.out())), (Some(0), here.clone()), "{}", sum.stderr);
    assert!(sum.stderr.contains("cost: "), "{}", sum.stderr);
    // What is not allocated is not asked for.
    let options = store.options();
    let mut place = BucketPlace::open("s3://box", &options).unwrap();
    let name = "s3://box/disk.qcow2".as_ref();
    let opened = verisum::open_image(&mut place, b"/disk.qcow2", name, &Default::default()).unwrap();
    let params = Params::new(Digest::find("sha256").unwrap()).threads(8).unwrap();
    let digest = hash_image(&*opened, &params, &ImageProgress::default()).unwrap();
    assert_eq!(digest.to_string(), here);
    let usage = options.meter.usage();
    assert!(usage.received < 3 << 20, "{usage:?}");
    assert!(usage.requests.iter().sum::<u64>() < 60, "{usage:?}");

    let map = store.path("map");
    let map = map.to_str().unwrap();
    let made = store.run(&["image", "map", "-o", map, "s3://box/disk.qcow2"]);
    assert_eq!((made.code, bare(made.out())), (Some(0), here), "{}", made.stderr);
    assert_eq!(store.run(&["image", "verify", "--map", map, "s3://box/disk.qcow2"]).code, Some(0));
    let raw = raw.to_str().unwrap();
    assert_eq!(store.run(&["image", "diff", raw, "s3://box/disk.qcow2"]).code, Some(0));
    let file = fs::File::options().write(true).open(raw).unwrap();
    file.write_all_at(b"!", 200 << 20).unwrap();
    let differ = store.run(&["image", "diff", raw, "s3://box/disk.qcow2"]);
    assert_eq!((differ.code, differ.out()), (Some(1), "209715200 65536\n"), "{}", differ.stderr);
    let list = store.path("list");
    fs::write(&list, sum.out()).unwrap();
    let checked = store.run(&["image", "sum", "-c", list.to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    // Names in an image are not those of files here.
    let child = bucket.join("child.qcow2");
    let create = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", raw];
    assert!(Command::new(&qemu).args(create).arg(&child).status().unwrap().success());
    let child = store.run(&["image", "sum", "--follow", "any", "s3://box/child.qcow2"]);
    let advice = "only images that need no other file are read there: copy both to this machine\n";
    let is_told = child.stderr.contains(": backing file ") && child.stderr.contains(advice);
    assert!(child.code == Some(3) && is_told, "{}", child.stderr);
    let missing = store.run(&["image", "sum", "s3://box/none"]);
    assert!(missing.code == Some(3) && missing.stderr.contains("No such file"), "{}", missing.stderr);
}

#[test]
fn lists_are_as_stores_show_digests_and_are_checked() {
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("box"), store.path("here"));
    for folder in [&bucket, &here] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("a b"), "abc").unwrap();
    }
    let sum = store.run(&["sum", "--quiet", "--relative", "--format", "s3", "s3://box"]);
    assert_eq!(
        sum.out(),
        "Key,Size,SHA256\na%20b,3,ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=\n",
        "{}",
        sum.stderr
    );
    let name = here.join("a b");
    let name = name.to_str().unwrap();
    let list = store.path("list");
    let several = verisum(["sum", "--format", "s3", "-a", "md5,s3-etag:8M,crc32c", name]).clean();
    let (md5, crc) = ("900150983cd24fb0d6963f7d28e17f72", base64("crc32c", b"abc"));
    assert!(several.starts_with("Key,Size,MD5,s3-etag:8M,CRC32C\n"), "{several}");
    assert!(several.ends_with(&format!("a%20b,3,{md5},{md5},{crc}\n")), "{several}");
    fs::write(&list, &several).unwrap();
    let check = || verisum(["check".as_ref(), list.as_os_str()]).code;
    assert_eq!(check(), Some(0));
    fs::write(name, "abd").unwrap();
    assert_eq!(check(), Some(1));
    fs::write(&list, sum.out()).unwrap();
    let list = list.to_str().unwrap();
    assert_eq!(store.run(&["check", "--quiet", list, "s3://box"]).code, Some(0));
    fs::write(bucket.join("a b"), "abd").unwrap();
    assert_eq!(store.run(&["check", "--quiet", list, "s3://box"]).code, Some(1));
}

#[test]
fn three_commands_go_from_nothing_to_a_verified_bucket() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("backup");
    let page = fs::read_to_string(common::repository().join("docs/buckets.md")).unwrap();
    let block = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let commands: Vec<Vec<&str>> = block.lines().map(|line| line.split(' ').skip(1).collect()).collect();
    assert_eq!(commands.len(), 3, "{block}");
    fs::create_dir_all(store.path("here/photos/2024")).unwrap();
    for name in ["a.jpg", "2024/b.jpg"] {
        fs::write(store.path("here/photos").join(name), name).unwrap();
    }
    let run = |words: &[&str]| {
        let mut command = common::command(common::VERISUM);
        command.args(words).current_dir(store.path("here"));
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.env("AWS_ENDPOINT_URL", store.options().endpoint.unwrap());
        common::Ended::of(command.output().unwrap())
    };
    for words in &commands {
        let ended = run(words);
        assert_eq!(ended.code, Some(0), "{words:?}: {} {}", ended.out(), ended.stderr);
    }
    // And it is verified: the next run of the last one finds rot. No secret is in the catalogue.
    change_and_restore_time(&bucket.join("photos/a.jpg"), "A.jpg");
    let rotten = run(&commands[2]);
    assert!(rotten.code == Some(1) && rotten.out().contains("a.jpg"), "{} {}", rotten.out(), rotten.stderr);
    let catalogue = fs::read(store.path("here/photos.db")).unwrap();
    assert!(!catalogue.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
}

/// What a network does to the answers with objects.
#[derive(Clone, Copy)]
enum Harm {
    Corrupts,
    Cuts,
    Stalls,
}

/// Stands between the program and the store. Returns its URL.
fn proxy(store: &Store, harm: Harm) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let upstream = store.options().endpoint.unwrap().replace("http://", "");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let upstream = upstream.clone();
            std::thread::spawn(move || pass(stream.unwrap(), &upstream, harm));
        }
    });
    url
}

fn pass(mut client: TcpStream, upstream: &str, harm: Harm) -> Option<()> {
    let mut head = Vec::new();
    let mut reader = BufReader::new(client.try_clone().ok()?);
    while !head.ends_with(b"\r\n\r\n") {
        if reader.read_until(b'\n', &mut head).ok()? == 0 {
            return None;
        }
    }
    head.truncate(head.len() - 2);
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    let mut server = TcpStream::connect(upstream).ok()?;
    server.write_all(&head).ok()?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).ok()?;
    let is_object = head.starts_with(b"GET ") && !String::from_utf8_lossy(&head).contains("list-type=2");
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    if is_object && body < answer.len() {
        match harm {
            Harm::Corrupts => answer[body] ^= 1,
            Harm::Cuts => answer.truncate(body + (answer.len() - body) / 2),
            Harm::Stalls => {
                client.write_all(&answer[..body + 1]).ok()?;
                // Until the other side gives up.
                let _ = reader.read_to_end(&mut Vec::new());
                return None;
            }
        }
    }
    client.write_all(&answer).ok()
}

#[test]
fn a_network_that_harms_is_never_taken_for_good() {
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("box"), store.path("here"));
    fs::create_dir_all(&here).unwrap();
    for folder in [&bucket, &here] {
        fs::write(folder.join("file"), content(100_000)).unwrap();
    }
    let here = here.to_str().unwrap();
    assert_eq!(store.run(&["compare", "--read", here, "s3://box"]).code, Some(0));
    let corrupt = run_at(&proxy(&store, Harm::Corrupts), &["compare", "--quiet", "--read", here, "s3://box"]);
    assert_eq!((corrupt.code, corrupt.out()), (Some(1), "file: DIFFERS\n"), "{}", corrupt.stderr);
    for harm in [Harm::Cuts, Harm::Stalls] {
        let sum = run_at(&proxy(&store, harm), &["sum", "--quiet", "--timeout", "1s", "s3://box"]);
        assert_eq!((sum.code, sum.out()), (Some(3), ""), "{}", sum.stderr);
        assert_eq!(sum.stderr.lines().count(), 1, "{}", sum.stderr);
        assert!(!sum.stderr.contains(SECRET) && !sum.stderr.contains(KEY), "{}", sum.stderr);
    }
}
