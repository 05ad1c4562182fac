//! The verbs over buckets: a real server of S3, and servers that answer wrongly.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::bucket::{KEY, SECRET, Store, run_at};
use common::{Ended, change_and_restore_time, wait_until};
use serde_json::Value;
use verisum::digest::{Digest, Output};

use crate::stored_digests::{ask, content};

/// More than one range, and more than one batch.
const LARGE: usize = 5 << 20;

fn fill(folder: &Path) {
    fs::create_dir_all(folder.join("sub")).unwrap();
    for number in 0..150 {
        fs::write(folder.join(format!("sub/{number}")), format!("content {number}")).unwrap();
    }
    fs::write(folder.join("large"), (0..LARGE).map(|at| (at * 7 % 251) as u8).collect::<Vec<_>>()).unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join("a b+c%\u{e9}"), "odd").unwrap();
}

#[track_caller]
fn assert_one_line(ended: &Ended, code: i32, part: &str) {
    let about = format!("{:?} {}", ended.code, ended.stderr);
    assert_eq!(ended.code, Some(code), "{about}");
    assert!(ended.stderr.contains(part), "{about}");
    assert!(!ended.stderr.contains(SECRET) && !ended.stderr.contains(KEY), "{about}");
}

#[test]
fn a_bucket_is_summed_checked_and_compared_as_any_tree() {
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("backup"), store.path("here"));
    fill(&bucket.join("data"));
    fill(&here);
    let here = here.to_str().unwrap();
    let sum = store.run(&["sum", "--quiet", "--relative", "s3://backup/data"]).clean();
    let local = store.run(&["sum", "--recursive", here]).clean();
    let mut local: Vec<String> = local.lines().map(|line| line.replace(&format!("{here}/"), "")).collect();
    local.sort_by(|one, other| one[66..].cmp(&other[66..]));
    assert_eq!(sum.lines().collect::<Vec<_>>(), local);

    // JSON names no bucket either, and its line of costs is no file.
    let list = store.path("list.json");
    let list = list.to_str().unwrap();
    let json = store.run(&["sum", "--json", "--relative", "s3://backup/data"]).clean();
    assert!(json.contains("\"type\":\"costs\"") && !json.contains("\"host\""), "{json}");
    fs::write(list, &json).unwrap();
    for tree in ["s3://backup/data", here] {
        let checked = store.run(&["check", "--warn", list, tree]);
        assert_eq!(checked.code, Some(0), "{tree}: {}{}", checked.out(), checked.stderr);
        assert!(!checked.stderr.contains("improperly") && !checked.stderr.contains("WARNING"), "{tree}");
    }
    // What names it is checked where its name is given, and else says so.
    fs::write(list, store.run(&["sum", "--json", "s3://backup/data"]).clean()).unwrap();
    let checked = store.run(&["check", list]);
    let command = format!("verisum check '{list}' 's3://backup'");
    let hint = format!("{list}: if its files are on s3://backup, check them there: {command}\n");
    assert!(
        checked.code == Some(3) && checked.stderr.contains(&hint),
        "{:?} {}",
        checked.code,
        checked.stderr
    );
    assert_eq!(store.run(&["check", list, "s3://backup"]).code, Some(0));
    // With several, each key is a whole one.
    fill(&store.bucket("other").join("data"));
    let both = ["s3://backup/data", "s3://other/data"];
    for format in ["--json", "--format=gnu"] {
        let sum = store.run(&[&["sum", format, "--relative"], &both[..]].concat());
        assert_eq!(sum.code, Some(0), "{}", sum.stderr);
        fs::write(list, sum.stdout).unwrap();
        let checked = store.run(&[&["check", "--warn", list], &both[..]].concat());
        assert_eq!(checked.code, Some(0), "{format}: {}{}", checked.out(), checked.stderr);
        assert!(!checked.stderr.contains("improperly"), "{}", checked.stderr);
    }

    // A place of the configuration says where its bucket is, and whose keys to use.
    let home = store.path("home");
    fs::create_dir_all(home.join(".aws")).unwrap();
    fs::write(
        home.join(".aws/credentials"),
        format!("[archive]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"),
    )
    .unwrap();
    let endpoint = store.options().endpoint.unwrap();
    fs::write(
        home.join("places.toml"),
        format!("[places.offsite]\naddress = 's3://backup'\nprofile = 'archive'\nendpoint = '{endpoint}'\n"),
    )
    .unwrap();
    let mut command = common::command(common::VERISUM);
    command.args(["sum", "--quiet", "--relative", "s3://backup/data"]).env("HOME", &home);
    command.env("VERISUM_CONFIG", home.join("places.toml"));
    assert_eq!(Ended::of(command.output().unwrap()).clean(), sum);

    let list = store.path("list");
    fs::write(&list, &sum).unwrap();
    let list = list.to_str().unwrap();
    let checked = store.run(&["check", "--quiet", list, "s3://backup/data"]);
    assert_eq!((checked.code, checked.out()), (Some(0), ""), "{}", checked.stderr);
    let compared = store.run(&["compare", here, "s3://backup/data"]);
    assert_one_line(&compared, 0, "153 the same");

    // Rot behind the server's back, of which its listing tells nothing.
    change_and_restore_time(&bucket.join("data/sub/7"), "cOntent 7");
    fs::remove_file(bucket.join("data/sub/8")).unwrap();
    let checked = store.run(&["check", "--quiet", list, "s3://backup/data"]);
    assert_eq!(checked.out(), "sub/7: FAILED\nsub/8: FAILED open or read\n", "{}", checked.stderr);
    // Names are those below the address, so it is named as it was given.
    for line in [
        "verisum: s3://backup/data: sub/8: No such file or directory\n",
        "verisum: s3://backup/data: WARNING: 1 computed checksum did NOT match\n",
        "\ns3://backup/data/sub/7: failed\n",
    ] {
        assert!(checked.code == Some(1) && checked.stderr.contains(line), "{}", checked.stderr);
    }
    assert!(!checked.stderr.contains("151 verified"), "{}", checked.stderr);
    let compared = store.run(&["compare", "--quiet", here, "s3://backup/data"]);
    assert_eq!((compared.code, compared.out()), (Some(1), "sub/7: DIFFERS\nsub/8: MISSING\n"));
    let one = store.run(&["sum", "--quiet", "--relative", "s3://backup/data/empty"]).clean();
    assert_eq!(one, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n");
}

#[test]
fn a_scrub_of_a_bucket_tells_rot_from_a_new_object() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("backup");
    fill(&bucket);
    // A record of an ETag is verified by reading too.
    for (digest, rotten) in [("sha256", "cOntent 7"), ("s3-etag:8M", "coNtent 7")] {
        let catalog = store.path(digest);
        let scrub =
            || store.run(&["scrub", "--catalog", catalog.to_str().unwrap(), "-a", digest, "s3://backup"]);
        let first = scrub();
        assert_eq!(first.code, Some(0), "{}", first.stderr);
        assert_eq!(scrub().code, Some(0));
        change_and_restore_time(&bucket.join("sub/7"), rotten);
        let found = scrub();
        assert_eq!(found.code, Some(1), "{}", found.stderr);
        let lines = format!("{}{}", found.out(), found.stderr);
        assert!(lines.contains("sub/7") && lines.contains("rot"), "{lines}");
    }
}

#[test]
fn what_the_store_recorded_settles_a_comparison_without_reading_it() {
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("backup"), store.path("here"));
    fill(&here);
    // Uploaded in one part, and in three.
    for (name, length) in [("one part", 16 << 20), ("parts", 33 << 20)] {
        fs::write(here.join(name), (0..length).map(|at| (at * 5 % 253) as u8).collect::<Vec<_>>()).unwrap();
    }
    let here = here.to_str().unwrap();
    assert_eq!(store.run(&["copy", "--quiet", here, "s3://backup"]).clean(), "");
    let compare = |more: &[&str]| store.run(&[&["compare", "--json", here, "s3://backup"], more].concat());
    let settled = |ended: &Ended| {
        let last: Value = serde_json::from_str(ended.out().lines().last().unwrap()).unwrap();
        ["same", "differ"]
            .map(|name| last[name].as_u64().unwrap())
            .to_vec()
            .into_iter()
            .chain(["store", "read"].map(|name| last["settled"][name].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let compared = compare(&[]);
    assert_eq!((compared.code, settled(&compared)), (Some(0), vec![155, 0, 155, 0]), "{}", compared.stderr);
    assert_eq!(settled(&compare(&["--read"])), [155, 0, 0, 155]);
    // Of each object it can be told, how it is known, and how old the record is.
    for (more, evidence) in [(&["-v"][..], "recorded"), (&["-v", "--read"], "read")] {
        let compared = compare(more);
        let lines = compared.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let files: Vec<Value> = lines.filter(|line| line["type"] == "file").collect();
        let is_so = |file: &Value| {
            file["outcome"] == "same"
                && file["evidence"] == evidence
                && file["recorded_at"].is_string() == (evidence == "recorded")
        };
        assert!(files.len() == 155 && files.iter().all(is_so), "{}", compared.out());
    }
    let text = store.run(&["compare", here, "s3://backup"]);
    assert_one_line(&text, 0, "155 by digests that the store recorded");
    // A change here; and rot there, which only reading finds.
    change_and_restore_time(&Path::new(here).join("sub/7"), "cOntent 7");
    change_and_restore_time(&bucket.join("sub/8"), "cOntent 8");
    let compared = compare(&[]);
    assert_eq!((compared.code, settled(&compared)), (Some(1), vec![154, 1, 155, 0]), "{}", compared.stderr);
    let compared = store.run(&["compare", "--quiet", "--read", here, "s3://backup"]);
    let differ = "sub/7: DIFFERS\nsub/8: DIFFERS (A is as recorded)\n";
    assert_eq!((compared.code, compared.out()), (Some(1), differ));
}

#[test]
fn parts_of_any_usual_length_are_found_from_a_listing_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (md5, content) = (Digest::find("md5").unwrap(), vec![7; (22 << 20) + 5]);
    let mut keys = String::new();
    for (name, part) in [("5", 5), ("8", 8), ("even", 12), ("whole", 64)] {
        fs::write(folder.path().join(name), &content).unwrap();
        let parts: Vec<_> = content.chunks(part << 20).map(|part| md5.hash(part).unwrap()).collect();
        let joined: Vec<u8> = parts.iter().flat_map(Output::as_bytes).copied().collect();
        let etag = match parts.len() {
            1 => parts[0].to_string(),
            count => format!("{}-{count}", md5.hash(&joined).unwrap()),
        };
        keys.push_str(&format!(
            "<Contents><Key>{name}</Key><Size>{}</Size><ETag>&quot;{etag}&quot;</ETag></Contents>",
            content.len()
        ));
    }
    let (url, count) = server(move |asked| match asked.contains("list-type=2") {
        true => (200, format!("<ListBucketResult>{keys}</ListBucketResult>")),
        false => (403, String::new()),
    });
    let here = folder.path().to_str().unwrap();
    let compared = run_at(&url, &["compare", here, "s3://bucket"]);
    assert_one_line(&compared, 0, "4 by digests that the store recorded");
    assert_eq!(count.load(Ordering::Relaxed), 1);
    // No parts of so many bytes are as many as this says.
    let (odd, _) = server(|asked| match asked.contains("list-type=2") {
        true => {
            let etag = "00112233445566778899aabbccddeeff-4000000000";
            let key = format!("<Contents><Key>8</Key><Size>23068677</Size><ETag>{etag}</ETag></Contents>");
            (200, format!("<ListBucketResult>{key}</ListBucketResult>"))
        }
        false => (403, String::new()),
    });
    let compared = run_at(&odd, &["compare", &format!("{here}/8"), "s3://bucket/8"]);
    assert_eq!(compared.code, Some(3), "{}", compared.stderr);
    let compared = run_at(&odd, &["compare", "--quiet", here, "s3://bucket"]);
    assert!(compared.out().contains("8: UNREADABLE"), "{}", compared.out());
    // Another digest is no proof of another content: what decides is reading.
    fs::write(folder.path().join("8"), vec![8; content.len()]).unwrap();
    let compared = run_at(&url, &["compare", here, "s3://bucket"]);
    assert!(compared.code == Some(3) && compared.out().contains("8: UNREADABLE"), "{}", compared.out());
}

#[test]
fn what_is_not_there_is_named() {
    let Some(store) = Store::start() else { return };
    store.bucket("empty");
    assert_eq!(store.run(&["sum", "--quiet", "s3://empty"]).clean(), "");
    assert_one_line(&store.run(&["sum", "s3://empty/x"]), 3, "No such file or directory");
    assert_one_line(&store.run(&["sum", "s3://nowhere"]), 3, "no such bucket");
    // Of many files that have no place to go to, and of many that nothing is beside, one line says so.
    let here = store.path("many");
    fs::create_dir(&here).unwrap();
    (0..20).for_each(|number| fs::write(here.join(number.to_string()), "x").unwrap());
    let here = here.to_str().unwrap();
    let copied = store.run(&["copy", here, "s3://nowhere/x"]);
    assert_eq!(
        (copied.code, copied.stderr.matches("no such bucket").count()),
        (Some(3), 1),
        "{}",
        copied.stderr
    );
    let compared = store.run(&["compare", here, "s3://empty/x"]);
    assert_eq!((compared.code, compared.out()), (Some(3), ""), "{}", compared.stderr);
    assert_eq!(compared.stderr.matches("No such file or directory").count(), 1, "{}", compared.stderr);
    assert!(compared.stderr.contains("0 the same, 20 unknown\n"), "{}", compared.stderr);
    let all = store.run(&["compare", "-v", here, "s3://empty/x"]);
    assert_eq!(all.out().matches(": UNKNOWN\n").count(), 20, "{}", all.out());
    let wrong = run_at("http://127.0.0.1:1", &["sum", "s3://empty"]);
    assert_one_line(&wrong, 3, "cannot be reached: 127.0.0.1: Connection refused\n");
    let list = store.path("list");
    let lines = (0..20).map(|number| format!("{}  {number}\n{}  {number}\n", "0".repeat(64), "0".repeat(32)));
    fs::write(&list, lines.collect::<String>()).unwrap();
    let wrong = run_at("http://127.0.0.1:1", &["check", list.to_str().unwrap(), "s3://empty/x"]);
    assert_eq!((wrong.code, wrong.out()), (Some(3), ""), "{}", wrong.stderr);
    assert_eq!(wrong.stderr.matches("cannot be reached").count(), 1, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("0 verified, and 40 were not asked for\n"), "{}", wrong.stderr);
    let ended = store.run(&["sum", "--endpoint", "https://user:secret@host", "s3://empty"]);
    assert!(ended.code != Some(0) && !ended.stderr.contains("secret"), "{}", ended.stderr);
}

#[test]
fn a_key_that_the_store_does_not_know_is_no_missing_object() {
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("box"), store.path("here"));
    fs::create_dir(&here).unwrap();
    for folder in [&bucket, &here] {
        fs::write(folder.join("a"), "one").unwrap();
    }
    let here = here.to_str().unwrap();
    let words: [&[&str]; 6] = [
        &["sum", "s3://box"],
        &["sum", "s3://box/a"],
        &["image", "sum", "s3://box/a"],
        &["compare", here, "s3://box"],
        &["copy", here, "s3://box"],
        &["copy", "s3://box/nothing", here],
    ];
    for words in words {
        let run = |name: &str| Ended::of(store.verisum(words).env(name, "WRONG").output().unwrap());
        for (name, code) in [
            ("AWS_ACCESS_KEY_ID", "404 (XAdminUserNotFound)"),
            ("AWS_SECRET_ACCESS_KEY", "403 (SignatureDoesNotMatch)"),
        ] {
            let ended = run(name);
            assert_eq!(ended.code, Some(3), "{words:?} {}", ended.stderr);
            assert!(
                ended.stderr.contains(code) && !ended.stderr.contains("o such"),
                "{words:?} {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn an_object_that_was_deleted_is_uploaded_again() {
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("box"), store.path("here"));
    fs::create_dir(&here).unwrap();
    let on = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(ask(&store, "PUT", "box?versioning=", &[], on).0, 200);
    for (name, length) in [("a b", 3), ("large", 17 << 20), ("stays", 3)] {
        fs::write(here.join(name), content(length)).unwrap();
    }
    let catalog = store.path("catalog");
    let [here, catalog] = [&here, &catalog].map(|path| path.to_str().unwrap());
    assert_eq!(store.run(&["copy", "--quiet", here, "s3://box"]).code, Some(0));
    assert_eq!(store.run(&["scrub", "--catalog", catalog, "s3://box"]).code, Some(0));
    let repair = ["repair", "--catalog", catalog, "--from", here, "s3://box"];
    for words in [&repair[..], &["copy", here, "s3://box"]] {
        for name in ["a%20b", "large"] {
            assert_eq!(ask(&store, "DELETE", &format!("box/{name}"), &[], b"").0, 204);
            assert_eq!(ask(&store, "GET", &format!("box/{name}"), &[], b"").0, 404);
        }
        store.run(&["scrub", "--catalog", catalog, "s3://box"]);
        let ended = store.run(words);
        assert_eq!(ended.code, Some(0), "{words:?} {} {}", ended.out(), ended.stderr);
        for name in ["a b", "large"] {
            assert!(
                fs::read(bucket.join(name)).unwrap() == fs::read(Path::new(here).join(name)).unwrap(),
                "{name}"
            );
        }
    }
}

/// A server that gives one answer after the other by what was asked for. It counts.
fn server(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, counted) = (answer.clone(), counted.clone());
            std::thread::spawn(move || serve(stream.unwrap(), &*answer, &counted));
        }
    });
    (url, count)
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&str) -> (u16, String), count: &AtomicUsize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(asked)) = lines.next() else { return };
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    count.fetch_add(1, Ordering::Relaxed);
    let (status, body) = answer(&asked);
    let length = body.len();
    let body = if asked.starts_with("HEAD") { "" } else { &body };
    let _ =
        write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
}

fn listing(keys: &[(&str, u64)], next: Option<&str>) -> String {
    let objects =
        keys.iter().map(|(key, size)| format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>"));
    let next = next.map_or(String::new(), |next| {
        format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>")
    });
    format!("<ListBucketResult>{}{next}</ListBucketResult>", objects.collect::<String>())
}

#[test]
fn a_store_that_is_busy_for_ever_is_given_up() {
    let (url, count) = server(|_| (503, "<Error><Code>SlowDown</Code></Error>".to_string()));
    let ended = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&ended, 3, "the store answers 503 (SlowDown)");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!(count.load(Ordering::Relaxed), 5);
}

/// One rule for all stores, and for versions of objects.
#[test]
fn what_may_pass_is_asked_for_five_times_in_all_stores() {
    let google = r#"{"kind": "storage#objects", "items": [{"name": "a", "size": "1"}]}"#;
    let azure = "<EnumerationResults><Blobs><Blob><Name>a</Name><Properties><Content-Length>1</Content-Length>\
                 </Properties></Blob></Blobs></EnumerationResults>";
    let (one, none) = (listing(&[("a", 1)], None), listing(&[], None));
    for (address, list) in
        [("s3://box", &*one), ("s3://box/a?versionId=x", &none), ("gs://box", google), ("az://box", azure)]
    {
        for status in [503, 408, 429] {
            let list = list.to_string();
            let (url, count) = server(move |asked| match asked.contains("prefix=") {
                true => (200, list.clone()),
                false => (status, String::new()),
            });
            let mut command = common::command(common::VERISUM);
            command.args(["sum", "--quiet", "--no-sign-request", "--endpoint", &url, address]);
            let ended = Ended::of(command.env("AZURE_STORAGE_ACCOUNT_NAME", "box").output().unwrap());
            assert_one_line(&ended, 3, &format!("the store answers {status}"));
            assert_eq!(count.load(Ordering::Relaxed), 1 + 5, "{address} {status}");
        }
    }
}

#[test]
fn what_check_does_not_do_in_a_bucket_is_said_with_the_reason() {
    for (option, why) in [
        ("--strict-tree", "list none themselves"),
        ("--exclude", "leave lines out of it"),
        ("--base", "begin at the address"),
    ] {
        let refused = run_at("http://127.0.0.1:9", &["check", option, "x", "/dev/null", "s3://box"]);
        assert_one_line(&refused, 2, &format!("verisum: {option}: "));
        assert_one_line(&refused, 2, why);
    }
}

#[test]
fn credentials_that_expire_in_the_middle_end_the_run() {
    let secret = format!("<Error><Code>ExpiredToken</Code><Token>{SECRET}</Token></Error>");
    let (url, _) = server(move |asked| match asked.contains("list-type=2") {
        true => (200, listing(&[("a", 1), ("b", 1)], None)),
        false => (400, secret.clone()),
    });
    let ended = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&ended, 3, "the store answers 400 (ExpiredToken)");
    assert_eq!((ended.out(), ended.stderr.lines().count()), ("", 1), "{}", ended.stderr);
}

#[test]
fn keys_that_are_no_file_names_are_named_and_never_asked_for() {
    let keys = [("../x", 1), ("a", 1), ("a//b", 1), ("d/", 0), ("e/", 1), ("f&#x1b;[2J//", 1)];
    let (url, _) = server(move |asked| match asked.contains("list-type=2") {
        true => (200, listing(&keys, None)),
        false => {
            assert!(asked.starts_with("GET /bucket/a HTTP"), "{asked}");
            (200, "x".to_string())
        }
    });
    let ended = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&ended, 3, "a//b: the key is no file name");
    for part in ["../x: the", "e/: the"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    assert!(!ended.stderr.contains("d/") && !ended.stderr.contains('\x1b'), "{}", ended.stderr);
    assert_eq!(ended.out().lines().count(), 1);
}

#[test]
fn what_a_scrub_could_not_look_at_is_unchecked_afterwards() {
    let keys = [("a", 1), ("b//", 1)];
    let (url, _) = raw_server(move |asked| match asked.contains("list-type=2") {
        true => whole("200 OK", "", &listing(&keys, None)),
        false => {
            let headers = "ETag: \"v\"\r\nLast-Modified: Tue, 24 Nov 2026 09:12:44 GMT\r\n";
            whole("200 OK", headers, "x")
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("c.db");
    let run = |words: &[&str]| {
        let [verb, rest @ ..] = words else { panic!() };
        run_at(&url, &[&[*verb, "--catalog", catalog.to_str().unwrap()], rest].concat())
    };
    let scrub = run(&["scrub", "s3://bucket"]);
    let text = format!("{}{}", scrub.out(), scrub.stderr);
    assert!(scrub.code == Some(3) && text.contains("b//: the key is no file name"), "{text}");
    let report = run(&["report"]);
    assert_eq!(report.code, Some(3), "{}", report.out());
    let told = "UNCHECKED: the last run of s3://bucket/ could not look at 1 file or directory.";
    assert!(report.out().contains(told) && !report.out().contains("All of"), "{}", report.out());
    let mut status = common::command(common::VERISUM);
    status.args(["catalog", "status", "--nagios", "--catalog"]).arg(&catalog);
    let status = Ended::of(status.output().unwrap());
    assert!(
        status.code == Some(1) && status.out().contains("1 not looked at in s3://bucket"),
        "{}",
        status.out()
    );
}

#[test]
fn a_store_that_lies_is_never_taken_for_good() {
    let (url, _) = server(|_| (200, listing(&[("a", 1)], Some("again"))));
    let endless = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&endless, 3, "does not list keys in the order of their bytes");
    // New keys for ever, and always the same page.
    let pages = AtomicUsize::new(0);
    let (url, _) = server(move |asked| match asked.contains("list-type=2") {
        true => {
            let key = format!("k{:06}", pages.fetch_add(1, Ordering::Relaxed));
            (200, listing(&[(&key, 1)], Some("again")))
        }
        false => (200, "x".to_string()),
    });
    let endless = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&endless, 3, "a page of its list is followed by itself");
    let (url, _) = server(|asked| match asked.contains("list-type=2") {
        true => (200, listing(&[("a", 5 << 20)], None)),
        false => (206, "short".to_string()),
    });
    let short = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&short, 3, "the store's answer is wrong: it is no range");
}

/// A server that gives whole answers to the first lines of requests, with their headers.
fn raw_server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, counted, mut stream) = (answer.clone(), counted.clone(), stream.unwrap());
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let asked: Vec<String> =
                    lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                counted.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(answer(&asked.join("\n")).as_bytes());
            });
        }
    });
    (url, count)
}

fn whole(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

#[test]
fn a_signed_request_is_sent_nowhere_else() {
    let (other, count) = raw_server(|_| whole("200 OK", "", &listing(&[("a", 1)], None)));
    let (url, _) = raw_server(move |_| {
        whole("307 Temporary Redirect", &format!("Location: {other}/bucket?list-type=2\r\n"), "")
    });
    let ended = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&ended, 3, "the store answers 307");
    assert_eq!((ended.out(), count.load(Ordering::Relaxed)), ("", 0));
}

#[test]
fn a_page_of_something_else_is_no_empty_bucket() {
    let (url, _) = server(|_| (200, "<!DOCTYPE html><html><body>Log in here.</body></html>".to_string()));
    for verb in [&["sum", "--quiet"][..], &["compare", "/var/empty"]] {
        let ended = run_at(&url, &[verb, &["s3://bucket"]].concat());
        assert_eq!(ended.code, Some(3), "{verb:?} {} {}", ended.out(), ended.stderr);
    }
    let ended = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&ended, 3, "the store's answer is wrong: no list of objects");
}

#[test]
fn an_object_that_is_another_in_each_answer_has_no_digest() {
    let versions = AtomicUsize::new(0);
    let (url, _) = raw_server(move |asked| {
        if asked.contains("list-type=2") {
            return whole("200 OK", "", &listing(&[("a", 5 << 20), ("b", 1)], None));
        }
        // It recorded no checksum.
        if asked.starts_with("HEAD ") {
            return whole("404 Not Found", "", "");
        }
        let range = asked.to_lowercase().split("range: bytes=").nth(1).unwrap().to_string();
        let (start, end) = range.lines().next().unwrap().split_once('-').unwrap();
        let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
        let size = if asked.contains("/bucket/b ") { 1 } else { 5 << 20 };
        let end = (end + 1).min(size);
        let version = versions.fetch_add(1, Ordering::Relaxed);
        let headers = format!("ETag: \"v{version}\"\r\nContent-Range: bytes {start}-{}/{size}\r\n", end - 1);
        whole("206 Partial Content", &headers, &"x".repeat(end - start))
    });
    // Read in order, and in parts that do not wait for each other.
    for digest in ["sha256", "blake3", "s3-etag:1M"] {
        let ended = run_at(&url, &["sum", "--quiet", "--relative", "-a", digest, "s3://bucket"]);
        assert_one_line(&ended, 3, "a: it was replaced while it was read");
        assert!(
            ended.out().lines().count() == 1
                && ["  b\n", "(b) = "].iter().any(|name| ended.out().contains(name)),
            "{}",
            ended.out()
        );
    }
}

#[test]
fn parts_of_one_object_do_not_wait_for_each_other() {
    const SIZE: usize = 64 << 20;
    let content: String = (0..SIZE).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    // Many parts, few, and one: the pieces of a part are asked for side by side too.
    let sets = [["s3-etag:8M", "s3-crc32c:8M"], ["s3-etag:32M", "crc32c"], ["s3-etag:1G", "crc32c"]];
    let all = sets.map(|digests| {
        digests.map(|name| Digest::find(name).unwrap().hash(content.as_bytes()).unwrap().to_string())
    });
    let behind = Arc::new(AtomicUsize::new(0));
    let counted = behind.clone();
    let (url, _) = raw_server(move |asked| {
        let behind = &counted;
        if asked.contains("list-type=2") {
            return whole("200 OK", "", &listing(&[("a", SIZE as u64)], None));
        }
        // It recorded no checksum.
        if asked.starts_with("HEAD ") {
            return whole("404 Not Found", "", "");
        }
        let range = asked.to_lowercase().split("range: bytes=").nth(1).unwrap().to_string();
        let (start, end) = range.lines().next().unwrap().split_once('-').unwrap();
        let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
        let end = (end + 1).min(SIZE);
        if start >= SIZE / 2 {
            behind.fetch_add(end - start, Ordering::Relaxed);
        }
        // The second range of the first part comes last: all of the other half is read before.
        if start == 2 << 20 {
            wait_until("the other half is asked for", || behind.load(Ordering::Relaxed) == SIZE / 2);
        }
        let headers = format!("ETag: \"v\"\r\nContent-Range: bytes {start}-{}/{SIZE}\r\n", end - 1);
        whole("206 Partial Content", &headers, &content[start..end])
    });
    for (digests, expected) in sets.iter().zip(all) {
        behind.store(0, Ordering::Relaxed);
        let digests = digests.join(",");
        let ended = run_at(&url, &["sum", "--relative", "--timeout", "10m", "-a", &digests, "s3://bucket"]);
        let has_all = expected.iter().all(|digest| ended.out().contains(digest));
        assert!(has_all, "{digests}: {} {}", ended.out(), ended.stderr);
        assert!(
            ended.code == Some(0) && ended.stderr.contains("(32 get, 1 head, 1 list)"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn one_wrong_answer_is_told_of_its_object_and_the_others_are_read() {
    let (url, _) = server(|asked| match asked {
        _ if asked.contains("list-type=2") => (200, listing(&[("a", 1), ("b", 5), ("c", 1)], None)),
        _ if asked.starts_with("GET /bucket/b ") => (206, "short".to_string()),
        _ => (200, "x".to_string()),
    });
    let ended = run_at(&url, &["sum", "--quiet", "s3://bucket"]);
    assert_one_line(&ended, 3, "b: the store's answer is wrong");
    assert_eq!(ended.out().lines().count(), 2, "{}", ended.out());
}

#[test]
fn what_may_be_secret_in_an_address_or_a_setting_is_not_said() {
    for address in ["s3://key:topsecret@bucket/x", "https://user:topsecret@host/x", "https://h/x?k=topsecret"]
    {
        let ended = run_at("http://127.0.0.1:9", &["sum", address]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(!ended.stderr.contains("topsecret") && !ended.stderr.contains("key:"), "{}", ended.stderr);
    }
    let region = run_at("http://127.0.0.1:9", &["sum", "--region", "x\ny", "s3://bucket"]);
    assert_one_line(&region, 3, "the region has characters that it cannot have");
    let mut command = common::command(common::VERISUM);
    command.args(["sum", "s3://bucket"]).env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "s");
    let token = Ended::of(command.env("AWS_SESSION_TOKEN", "topsecret\r").output().unwrap());
    assert_one_line(&token, 3, "AWS_SESSION_TOKEN has characters");
    assert!(!token.stderr.contains("topsecret"), "{}", token.stderr);
}

#[test]
fn keys_that_are_no_file_names_do_not_end_a_copy() {
    let keys = ["a//b", "b//c", "c//d", "d//e", "e//f", "f//g", "g//h", "h//i", "i//j", "z"];
    let (url, _) = server(move |asked| match asked {
        _ if asked.contains("list-type=2") => (200, listing(&keys.map(|key| (key, 1)), None)),
        _ if asked.contains("attributes=") => (403, "<Error><Code>AccessDenied</Code></Error>".to_string()),
        _ => (200, "x".to_string()),
    });
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let ended = run_at(&url, &["copy", "s3://bucket", out.to_str().unwrap()]);
    assert_one_line(&ended, 3, "h//i: the key is no file name");
    assert_eq!(fs::read(out.join("z")).unwrap(), b"x", "{}", ended.stderr);
}

#[test]
fn what_is_left_out_is_not_read_and_the_rest_at_a_rate() {
    let Some(store) = Store::start() else { return };
    fill(&store.bucket("box"));
    let sum = store.run(&["sum", "--relative", "--exclude", "/sub/", "--exclude", "*+c*", "s3://box"]);
    let names: Vec<&str> = sum.out().lines().map(|line| &line[66..]).collect();
    assert_eq!((sum.code, names), (Some(0), vec!["empty", "large"]), "{}", sum.stderr);
    // Three ranges of one object, and two requests for an empty one.
    assert!(sum.stderr.contains("(4 get"), "{}", sum.stderr);
    let before = std::time::Instant::now();
    let words = ["sum", "--quiet", "--limit-iops", "20", "--exclude", "large", "s3://box"];
    let slow = store.run(&words);
    assert_eq!((slow.code, slow.out().lines().count()), (Some(0), 152), "{}", slow.stderr);
    // A second's worth is let through at once.
    assert!(before.elapsed() > std::time::Duration::from_secs(5), "{:?}", before.elapsed());
    // Also within one object, and where no listing told its length.
    let list = store.path("list");
    let sum = store.run(&["sum", "--quiet", "--relative", "--exclude", "/sub/", "s3://box"]).clean();
    fs::write(&list, sum.lines().filter(|line| line.ends_with("large")).collect::<String>()).unwrap();
    let list = list.to_str().unwrap();
    let here = store.path("here");
    fill(&here);
    let here = here.to_str().unwrap();
    for words in [
        &["sum", "--exclude", "/sub/"][..],
        &["check", list],
        &["sum", "--threads", "2"],
        &["compare", "--read", "--exclude", "/sub/", here],
    ] {
        let before = std::time::Instant::now();
        let limited = store.run(&[words, &["--quiet", "--limit", "1MB/s", "s3://box"]].concat());
        assert_eq!(limited.code, Some(0), "{words:?}: {}", limited.stderr);
        // What two requests bring may be let through at the begin.
        let least = (LARGE - 2 * (2 << 20)) as u64 / 1000;
        assert!(
            before.elapsed() > std::time::Duration::from_millis(least),
            "{words:?}: {:?}",
            before.elapsed()
        );
    }
    fs::remove_dir_all(Path::new(here).join("sub")).unwrap();
    let words = ["compare", "-v", "--read", "--threads", "3", "--exclude", "/sub/", here, "s3://box"];
    let compared = store.run(&words);
    let same = compared.out().lines().filter(|line| line.ends_with(": SAME (read)")).count();
    assert_eq!((compared.code, same), (Some(0), 3), "{}{}", compared.out(), compared.stderr);
    store.bucket("fresh");
    store.run(&["copy", "--quiet", here, "s3://fresh"]).clean();
    let compared = store.run(&["compare", "-v", here, "s3://fresh"]);
    assert!(compared.out().contains("large: SAME (recorded by the store at "), "{}", compared.out());
    let refused = store.run(&["compare", "--limit", "1MB/s", here, "host:x"]);
    assert_one_line(&refused, 2, "--limit: not for files on other machines");
    let host = store.run(&[
        "sum",
        "--exclude",
        "sub",
        "--relative",
        &format!("local:{}", store.path("root").display()),
    ]);
    assert!(host.code == Some(0) && !host.out().contains("sub/"), "{} {}", host.out(), host.stderr);
}
