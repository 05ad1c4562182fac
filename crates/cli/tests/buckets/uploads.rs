//! What is said to a store with an upload: what it may replace, and what stays of that.

use crate::common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::answers::{Answer, Asked, Server, assert_said};
use common::bucket::Store;
use common::{Ended, VERISUM, command};
use verisum::digest::Digest;

/// An object as its store tells of it.
fn object(etag: &str, prefix: &str) -> Answer {
    let named = |name: &str| format!("{prefix}{name}");
    Answer::new(200, "old")
        .header("ETag", &format!("\"{etag}\""))
        .header("Content-Type", "text/html")
        .header("Cache-Control", "no-cache")
        .header("x-goog-generation", "17")
        .header(&named("color"), "blue")
        .header(&named("mtime"), "1000000000")
        .header(&named("md5chksum"), "ABEiM0RVZneImaq7zN3u/w==")
}

/// Copies a file with the content `new` to an address.
fn copy(server: &Server, address: &str) -> Ended {
    copy_verified(server, address, "none")
}

/// The same, verified so.
fn copy_verified(server: &Server, address: &str, verify: &str) -> Ended {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "new").unwrap();
    let mut command = command(VERISUM);
    command.args(["copy", "--verify", verify, "--no-sign-request", "--endpoint", &server.url]);
    command.env("AZURE_STORAGE_ACCOUNT_NAME", "acme").arg(file.path()).arg(address);
    Ended::of(command.output().unwrap())
}

fn uploads(server: &Server) -> Vec<Asked> {
    let mut asked = server.asked();
    asked.retain(|asked| matches!(&asked.method[..], "PUT" | "POST"));
    asked
}

#[test]
fn an_object_that_is_replaced_keeps_its_type_and_metadata() {
    for (address, prefix, kept) in [
        ("s3://bucket/x", "x-amz-meta-", ["content-type", "cache-control"]),
        ("az://bucket/x", "x-ms-meta-", ["x-ms-blob-content-type", "x-ms-blob-cache-control"]),
    ] {
        let server = Server::start(move |asked| match &asked.method[..] {
            "HEAD" => object("one", prefix),
            _ => Answer::new(200, ""),
        });
        assert_said(&copy(&server, address), 0, "1 file copied");
        let [upload] = &uploads(&server)[..] else { panic!("one upload") };
        let header = |name: &str| upload.headers.get(name).map(String::as_str);
        assert_eq!(header("if-match"), Some("\"one\""), "{upload:?}");
        assert_eq!(kept.map(header), [Some("text/html"), Some("no-cache")], "{upload:?}");
        assert_eq!(header(&format!("{prefix}color")), Some("blue"), "{upload:?}");
        // What tells of the old content does not stay.
        assert_eq!(header(&format!("{prefix}md5chksum")), None, "{upload:?}");
        let time = header(&format!("{prefix}mtime")).unwrap();
        assert!(!time.starts_with("1000000000") && !time.contains(','), "{upload:?}");
    }

    let server = Server::start(|asked| match &asked.method[..] {
        "HEAD" => object("one", "x-goog-meta-"),
        _ => Answer::new(200, "{}"),
    });
    assert_said(&copy(&server, "gs://bucket/x"), 0, "1 file copied");
    let [upload] = &uploads(&server)[..] else { panic!("one upload") };
    assert!(upload.target.ends_with("&ifGenerationMatch=17"), "{upload:?}");
    let body = String::from_utf8_lossy(&upload.body);
    for part in [r#""contentType":"text/html""#, r#""cacheControl":"no-cache""#, r#""color":"blue""#] {
        assert!(body.contains(part), "{body}");
    }
    assert!(!body.contains("md5chksum") && !body.contains("1000000000"), "{body}");
}

#[test]
fn a_store_without_conditions_is_looked_at_before_an_upload() {
    for (later, code, part) in [("one", 0, "1 file copied"), ("two", 3, "somebody else wrote it meanwhile")] {
        let uploads_seen = AtomicUsize::new(0);
        let server = Server::start(move |asked| match &asked.method[..] {
            "HEAD" if uploads_seen.load(Ordering::Relaxed) > 0 => object(later, "x-amz-meta-"),
            "HEAD" => object("one", "x-amz-meta-"),
            _ if asked.headers.contains_key("if-match") => {
                uploads_seen.fetch_add(1, Ordering::Relaxed);
                Answer::new(501, "<Error><Code>NotImplemented</Code></Error>")
            }
            _ => Answer::new(200, ""),
        });
        assert_said(&copy(&server, "s3://bucket/x"), code, part);
        let with_condition =
            uploads(&server).iter().filter(|asked| asked.headers.contains_key("if-match")).count();
        assert_eq!(with_condition, 1, "what a store does not know is sent once");
    }
}

#[test]
fn what_somebody_else_writes_before_an_upload_is_read_back_is_no_mismatch() {
    for (read, code, part) in [
        ("\"ours\"", 1, ": differs: sha256 read back is "),
        ("\"theirs\"", 3, "s3://bucket/x: somebody else wrote it meanwhile"),
    ] {
        let server = Server::start(move |asked| match &asked.method[..] {
            "HEAD" => Answer::new(404, ""),
            "GET" => asked.part(b"other").header("ETag", read),
            _ => Answer::new(200, "").header("ETag", "\"ours\""),
        });
        let copied = copy_verified(&server, "s3://bucket/x", "reread");
        let told = format!("{}{}", copied.out(), copied.stderr);
        assert!(copied.code == Some(code) && told.contains(part), "{:?} {told}", copied.code);
    }
}

#[test]
fn an_upload_whose_answer_was_lost_is_known_again() {
    for (content, code, part) in
        [("new", 0, "1 file copied"), ("other", 3, "somebody else wrote it meanwhile")]
    {
        let digest = Digest::find("sha256").unwrap().hash(content.as_bytes()).unwrap();
        let checksum = data_encoding::BASE64.encode(digest.as_bytes());
        let tries = AtomicUsize::new(0);
        let server = Server::start(move |asked| match &asked.method[..] {
            "HEAD" if tries.load(Ordering::Relaxed) == 0 => Answer::new(404, ""),
            "HEAD" => object("one", "x-amz-meta-").header("x-amz-checksum-sha256", &checksum),
            _ => match tries.fetch_add(1, Ordering::Relaxed) {
                0 => Answer::new(500, ""),
                _ => Answer::new(412, "<Error><Code>PreconditionFailed</Code></Error>"),
            },
        });
        assert_said(&copy(&server, "s3://bucket/x"), code, part);
        assert!(uploads(&server).iter().all(|asked| asked.headers["if-none-match"] == "*"));
    }
}

#[test]
fn names_that_no_list_of_keys_can_have_are_refused_before_any_upload() {
    let Some(store) = Store::start() else { return };
    let here = store.path("here");
    store.bucket("box");
    fs::create_dir(&here).unwrap();
    // More than a store may fail for in a row.
    let bad: Vec<Vec<u8>> = (b'0'..=b'9').map(|number| vec![b'a', number, 0xff]).collect();
    let others = [&b"b\x01"[..], "c\u{fffe}".as_bytes(), b"d\n\r\t\x7f", "e\u{85}".as_bytes(), b"f"];
    for name in bad.iter().map(|name| &name[..]).chain(others) {
        fs::write(here.join(OsStr::from_bytes(name)), "lorem").unwrap();
    }
    let ended = store.run(&["copy", here.to_str().unwrap(), "s3://box"]);
    assert_said(&ended, 3, "3 files copied");
    let said = ": create: the store takes no such name: ";
    assert_eq!(ended.stderr.matches(&format!("{said}it is not UTF-8")).count(), 10, "{}", ended.stderr);
    let said = format!("{said}it has characters that lists of keys cannot have");
    assert_said(&ended, 3, &format!("$'s3://box/b\\001'{said}"));
    assert_eq!(ended.stderr.matches(&said).count(), 2, "{}", ended.stderr);
    let listed = store.run(&["sum", "--quiet", "s3://box"]);
    assert_eq!((listed.code, listed.out().lines().count()), (Some(0), 3), "{}", listed.stderr);
}
