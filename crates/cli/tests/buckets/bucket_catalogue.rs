//! `verisum catalog` and `accept` with a bucket: list, status, backup, and the commands that mend an object.

use crate::common;

use std::fs::{self, File};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use common::bucket::{Store, run_at};
use common::{Ended, change_and_restore_time, signal, wait_until};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn what_is_bad_in_a_bucket_is_listed_mended_and_accepted() {
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("box"), store.path("here"));
    fs::create_dir_all(&here).unwrap();
    for name in ["a", "rot", "wanted"] {
        fs::write(here.join(name), format!("content of {name}")).unwrap();
    }
    let (catalog, here) = (store.path("catalog"), here.to_str().unwrap().to_string());
    let catalog = catalog.to_str().unwrap();
    let run = |words: &[&str]| store.run(words);
    let scrub = |more: &[&str]| run(&[&["scrub", "--catalog", catalog], more, &["s3://box"]].concat());
    assert_eq!(run(&["copy", "--quiet", &here, "s3://box"]).code, Some(0));
    assert_eq!(scrub(&[]).code, Some(0));
    for name in ["rot", "wanted"] {
        change_and_restore_time(&bucket.join(name), &format!("CONTENT of {name}"));
    }
    let bad = scrub(&[]);
    let told = format!("{}{}", bad.out(), bad.stderr);
    assert_eq!(bad.code, Some(1), "{told}");
    let named = told.lines().find(|line| line.contains("mend it from a copy: verisum repair --catalog "));
    assert!(named.is_some_and(|line| line.ends_with(" 's3://box/rot' --from PLACE")), "{told}");
    let repaired = scrub(&["--repair"]);
    assert_eq!(repaired.code, Some(1), "{} {}", repaired.out(), repaired.stderr);
    assert_eq!(fs::read_to_string(bucket.join("rot")).unwrap(), "CONTENT of rot");
    let dry = run(&["repair", "--dry-run", "--catalog", catalog, "--from", &here, "s3://box"]);
    assert!(dry.code == Some(0) && dry.out().contains("2 files could be repaired"), "{}", dry.out());
    assert_eq!(fs::read_to_string(bucket.join("rot")).unwrap(), "CONTENT of rot");

    let list = run(&["catalog", "list", "--bad", "--catalog", catalog]);
    assert!(
        list.code == Some(1) && list.out().contains("s3://box/rot") && list.out().contains("s3://box/wanted"),
        "{} {}",
        list.out(),
        list.stderr
    );
    assert!(!list.out().contains("s3://box/a "), "{}", list.out());
    let status = run(&["catalog", "status", "--json", "--catalog", catalog]);
    let tree: Value = serde_json::from_str(status.out().lines().next().unwrap()).unwrap();
    assert_eq!((&tree["path"], &tree["repair"]["files"]), (&"s3://box/".into(), &2.into()), "{tree}");
    assert!(tree.to_string().contains("\"rot\":2"), "{tree}");

    let backup = store.path("backup");
    let backup = backup.to_str().unwrap();
    assert_eq!(run(&["catalog", "backup", "--catalog", catalog, backup]).code, Some(0));
    assert_eq!(run(&["catalog", "check", "--catalog", backup]).code, Some(0));
    let by_backup = run(&["catalog", "list", "--bad", "--catalog", backup]);
    assert_eq!(by_backup.out().replace(backup, catalog), list.out());

    // The object of one name is taken as it is; the other gets the content of a good copy again.
    let accepted = run(&["accept", "--catalog", catalog, "s3://box/wanted"]);
    assert_eq!(accepted.code, Some(0), "{} {}", accepted.out(), accepted.stderr);
    let mended = run(&["repair", "--catalog", catalog, "--from", &here, "s3://box"]);
    assert!(mended.code == Some(0) && mended.out().contains("1 file repaired"), "{}", mended.out());
    let clean = scrub(&[]);
    assert_eq!(clean.code, Some(0), "{} {}", clean.out(), clean.stderr);
    assert_eq!(fs::read_to_string(bucket.join("rot")).unwrap(), "content of rot");
    assert_eq!(fs::read_to_string(bucket.join("wanted")).unwrap(), "CONTENT of wanted");
    assert_eq!(run(&["catalog", "list", "--bad", "--catalog", catalog]).out(), "");
    // An object that is gone for good.
    fs::remove_file(bucket.join("a")).unwrap();
    assert_eq!(scrub(&["--missing", "fail"]).code, Some(1));
    assert_eq!(run(&["accept", "--catalog", catalog, "s3://box/a"]).code, Some(0));
    assert_eq!(scrub(&["--missing", "fail"]).code, Some(0));
}

#[test]
fn what_is_named_for_a_bucket_later_asks_the_store_that_the_scrub_asked() {
    let Some(store) = Store::start() else { return };
    let (bucket, here, catalog) = (store.bucket("box"), store.path("here"), store.path("catalog"));
    fs::create_dir_all(&here).unwrap();
    fs::write(here.join("a"), "content").unwrap();
    let [here, catalog] = [&here, &catalog].map(|path| path.to_str().unwrap());
    let endpoint = store.options().endpoint.unwrap();
    // Nobody listens where the environment says.
    let run = |words: &[&str]| run_at("http://127.0.0.1:1", words);
    let scrub =
        ["scrub", "--catalog", catalog, "--endpoint", &endpoint, "--region", "us-east-1", here, "s3://box"];
    assert_eq!(run(&["copy", "--quiet", "--endpoint", &endpoint, here, "s3://box"]).code, Some(0));
    let first = run(&scrub);
    assert_eq!(first.code, Some(0), "{}{}", first.out(), first.stderr);
    change_and_restore_time(&bucket.join("a"), "CONTENT");
    assert_eq!(run(&scrub).code, Some(1));
    let list = run(&["catalog", "list", "--bad", "--catalog", catalog]);
    let (_, command) = list.out().split_once("mend it: verisum ").unwrap_or_else(|| panic!("{}", list.out()));
    let command = command.lines().next().unwrap().trim_end_matches(')');
    let words: Vec<String> = command.split(' ').map(|word| word.replace('\'', "")).collect();
    assert_eq!(words[3..7], ["--endpoint", &endpoint, "--region", "us-east-1"], "{command}");
    let mended = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(mended.code, Some(0), "{command}: {}{}", mended.out(), mended.stderr);
    assert_eq!(fs::read_to_string(bucket.join("a")).unwrap(), "content");
}

#[test]
fn lists_of_stores_have_keys() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("box");
    fs::create_dir(bucket.join("t")).unwrap();
    fs::write(bucket.join("t/f1"), "content").unwrap();
    let (catalog, list) = (store.path("catalog"), store.path("list.csv"));
    let (catalog, list) = (catalog.to_str().unwrap(), list.to_str().unwrap());
    let export = || store.run(&["catalog", "export", "--format", "s3", "--catalog", catalog, list]);
    assert_eq!(store.run(&["scrub", "--catalog", catalog, "s3://box/t"]).code, Some(0));
    assert_eq!(export().code, Some(0));
    assert!(fs::read_to_string(list).unwrap().contains("\nt/f1,7,"), "{}", fs::read_to_string(list).unwrap());
    assert_eq!(store.run(&["check", list, "s3://box"]).code, Some(0));
    // No name would tell which of the places a file is in.
    assert_eq!(store.run(&["scrub", "--catalog", catalog, bucket.to_str().unwrap()]).code, Some(0));
    let ended = export();
    assert!(ended.code == Some(2) && ended.stderr.contains("name one by --tree"), "{}", ended.stderr);
}

#[test]
fn a_rotten_upload_takes_no_records_place() {
    let Some(store) = Store::start() else { return };
    let (bucket, catalog) = (store.bucket("box"), store.path("catalog"));
    let catalog = catalog.to_str().unwrap();
    let here = store.path("a");
    // All uploads have one time, so that only their ETags tell them apart.
    let time = SystemTime::now() + Duration::from_secs(3600);
    let date = || File::options().write(true).open(bucket.join("a")).unwrap().set_modified(time).unwrap();
    let put = |content: &str| {
        fs::write(&here, content).unwrap();
        let ended = store.run(&["copy", here.to_str().unwrap(), "s3://box/"]);
        assert_eq!(ended.code, Some(0), "{} {}", ended.out(), ended.stderr);
        assert_eq!(fs::read_to_string(bucket.join("a")).unwrap(), content);
        date();
    };
    let recorded = || {
        let exported = store.run(&["catalog", "export", "--catalog", catalog]);
        let mut lines = exported.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.find(|line| line["type"] == "file").unwrap()["digest"].clone()
    };
    put("first");
    assert_eq!(store.run(&["scrub", "--catalog", catalog, "s3://box"]).code, Some(0));
    let first = recorded();
    put("second version");
    fs::write(bucket.join("a"), "second vers!on").unwrap();
    date();
    // What the store recorded of it is its record.
    let second = verisum::digest::Digest::find("sha256").unwrap().hash(b"second version").unwrap();
    for _ in 0..2 {
        let scrub = store.run(&["scrub", "--catalog", catalog, "s3://box"]);
        let text = format!("{}{}", scrub.out(), scrub.stderr);
        assert!(scrub.code == Some(1) && text.contains("s3://box/a: rot since "), "{:?} {text}", scrub.code);
        assert_eq!(recorded(), second.to_string());
    }
    put("second version");
    let scrub = store.run(&["scrub", "--catalog", catalog, "s3://box"]);
    assert_eq!(scrub.code, Some(0), "{} {}", scrub.out(), scrub.stderr);
    assert_ne!(recorded(), first);
}

#[test]
fn an_upload_that_rotted_unseen_is_repaired_by_what_was_uploaded() {
    let Some(store) = Store::start() else { return };
    let (bucket, catalog, here) = (store.bucket("box"), store.path("catalog"), store.path("here"));
    let (old, new) = (store.path("old"), store.path("new"));
    for (folder, content) in [(&here, "first"), (&old, "first"), (&new, "other")] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("a"), content).unwrap();
    }
    let [catalog, here, old, new] = [&catalog, &here, &old, &new].map(|path| path.to_str().unwrap());
    let copy = || assert_eq!(store.run(&["copy", "--quiet", here, "s3://box"]).code, Some(0));
    let scrub = || store.run(&["scrub", "--catalog", catalog, "s3://box"]);
    let bad = || {
        let ended = scrub();
        let text = format!("{}{}", ended.out(), ended.stderr);
        assert_eq!(ended.code, Some(1), "{text}");
        text
    };
    copy();
    assert_eq!(scrub().code, Some(0));
    // Another version, and a new object, which nobody scrubs before they rot.
    for name in ["a", "b"] {
        fs::write(format!("{here}/{name}"), "other").unwrap();
        fs::write(format!("{new}/{name}"), "other").unwrap();
    }
    copy();
    for name in ["a", "b"] {
        change_and_restore_time(&bucket.join(name), "0ther");
    }
    for _ in 0..2 {
        let text = bad();
        for name in ["a", "b"] {
            assert!(text.contains(&format!("s3://box/{name}: rot")), "{text}");
            assert!(text.contains(&format!(" 's3://box/{name}' --from PLACE")), "{text}");
        }
    }
    let list = store.run(&["catalog", "list", "--bad", "--catalog", catalog]);
    assert_eq!((list.code, list.out().matches("s3://box/").count()), (Some(1), 4), "{}", list.out());
    // What was recorded of the version before is not what was uploaded.
    let repair = |from: &str| store.run(&["repair", "--catalog", catalog, "--from", from, "s3://box"]);
    let refused = repair(old);
    assert_ne!(refused.code, Some(0), "{} {}", refused.out(), refused.stderr);
    assert_eq!(fs::read_to_string(bucket.join("a")).unwrap(), "0ther");
    let mended = repair(new);
    assert!(
        mended.code == Some(0) && mended.out().contains("2 files repaired"),
        "{} {}",
        mended.out(),
        mended.stderr
    );
    for name in ["a", "b"] {
        assert_eq!(fs::read_to_string(bucket.join(name)).unwrap(), "other");
    }
    let clean = scrub();
    assert_eq!(clean.code, Some(0), "{} {}", clean.out(), clean.stderr);
    // What is wanted as it is, is accepted.
    fs::write(format!("{here}/c"), "third").unwrap();
    copy();
    change_and_restore_time(&bucket.join("c"), "Third");
    assert!(bad().contains("s3://box/c: rot"));
    assert_eq!(store.run(&["accept", "--catalog", catalog, "s3://box/c"]).code, Some(0));
    let clean = scrub();
    assert_eq!(clean.code, Some(0), "{} {}", clean.out(), clean.stderr);
    // An archive keeps the record that it has.
    fs::write(format!("{here}/a"), "newer").unwrap();
    copy();
    change_and_restore_time(&bucket.join("a"), "Newer");
    let archive = store.run(&["scrub", "--archive", "--catalog", catalog, "s3://box"]);
    let text = format!("{}{}", archive.out(), archive.stderr);
    assert!(archive.code == Some(1) && text.contains("s3://box/a: suspicious"), "{text}");
}

#[test]
fn what_is_replaced_within_a_second_is_a_change() {
    let Some(store) = Store::start() else { return };
    let (bucket, catalog, here) = (store.bucket("box"), store.path("catalog"), store.path("a"));
    let scrub = || store.run(&["scrub", "--verbose", "--catalog", catalog.to_str().unwrap(), "s3://box"]);
    // An upload with another ETag, which the store says was made at this time.
    let put = |content: &str, time: SystemTime| {
        fs::write(&here, content).unwrap();
        assert_eq!(store.run(&["copy", "--quiet", here.to_str().unwrap(), "s3://box/"]).code, Some(0));
        File::options().write(true).open(bucket.join("a")).unwrap().set_modified(time).unwrap();
    };
    // However slow this machine is, no record is made after the second of a time that is ahead.
    let ahead = SystemTime::now() + Duration::from_secs(3600);
    for (content, verdict) in [("one", "new"), ("two", "modified"), ("three", "modified")] {
        put(content, ahead);
        let ended = scrub();
        assert!(ended.code == Some(0) && ended.out().contains(verdict), "{} {}", ended.out(), ended.stderr);
    }
    // No upload after the record has a time so long before it: what is there now may be rot, with the ETag of it.
    let past = SystemTime::now() - Duration::from_secs(10);
    put("four", past);
    assert_eq!(scrub().code, Some(0));
    put("five", past);
    let ended = scrub();
    assert!(ended.code == Some(1) && ended.out().contains("suspicious"), "{} {}", ended.out(), ended.stderr);
}

#[test]
fn a_second_bucket_is_no_first_one_by_another_address() {
    let Some(store) = Store::start() else { return };
    let (catalog, here) = (store.path("catalog"), store.path("a"));
    fs::write(&here, "one").unwrap();
    for bucket in ["box", "crate"] {
        store.bucket(bucket);
        let to = format!("s3://{bucket}/");
        assert_eq!(store.run(&["copy", "--quiet", here.to_str().unwrap(), &to]).code, Some(0));
        let ended = store.run(&["scrub", "--catalog", catalog.to_str().unwrap(), &to]);
        assert_eq!((ended.code, ended.stderr.contains("another tree")), (Some(0), false), "{}", ended.stderr);
    }
}

#[test]
fn an_object_of_the_recorded_version_that_has_another_length_is_rot() {
    let Some(store) = Store::start() else { return };
    let (bucket, here, catalog) = (store.bucket("box"), store.path("here"), store.path("catalog"));
    fs::create_dir_all(&here).unwrap();
    let lengths = [("empty", 0), ("long", 5002), ("short", 100)];
    for (name, _) in lengths {
        fs::write(here.join(name), [7; 5000]).unwrap();
    }
    let (here, catalog) = (here.to_str().unwrap(), catalog.to_str().unwrap());
    assert_eq!(store.run(&["copy", "--quiet", here, "s3://box"]).code, Some(0));
    let scrub = || store.run(&["scrub", "--catalog", catalog, "s3://box"]);
    assert_eq!(scrub().code, Some(0));
    for (name, length) in lengths {
        change_and_restore_time(&bucket.join(name), &"x".repeat(length));
    }
    let ended = scrub();
    assert_eq!(ended.code, Some(1), "{} {}", ended.out(), ended.stderr);
    let to = store.path("to");
    let copied = store.run(&["copy", "--catalog", catalog, "s3://box", to.to_str().unwrap()]);
    assert_eq!(copied.code, Some(1), "{} {}", copied.out(), copied.stderr);
    for (name, _) in lengths {
        for ended in [&ended, &copied] {
            let told = format!("{}{}", ended.out(), ended.stderr);
            let is_told =
                told.lines().any(|line| line.contains(&format!("box/{name}")) && line.contains("rot"));
            assert!(is_told, "{name}: {told}");
        }
    }
}

#[test]
fn bad_objects_for_which_there_is_no_time_are_named() {
    let Some(store) = Store::start() else { return };
    let (bucket, catalog) = (store.bucket("box"), store.path("catalog"));
    let here = store.path("here");
    fs::create_dir_all(&here).unwrap();
    (0..12).for_each(|number| fs::write(here.join(format!("o{number}")), [7; 100]).unwrap());
    let (here, catalog) = (here.to_str().unwrap(), catalog.to_str().unwrap());
    assert_eq!(store.run(&["copy", "--quiet", here, "s3://box"]).code, Some(0));
    let scrub =
        |options: &[&str]| store.run(&[&["scrub", "--catalog", catalog], options, &["s3://box"]].concat());
    assert_eq!(scrub(&[]).code, Some(0));
    (0..5).for_each(|number| change_and_restore_time(&bucket.join(format!("o{number}")), &[8; 100]));
    let bad = |ended: &Ended| ended.out().lines().filter(|line| line.starts_with("rot ")).count();
    let ended = scrub(&[]);
    assert_eq!((ended.code, bad(&ended)), (Some(1), 5), "{} {}", ended.out(), ended.stderr);
    let ended = scrub(&["--for", "1s", "--limit-iops", "1"]);
    assert_eq!((ended.code, bad(&ended)), (Some(1), 5), "{} {}", ended.out(), ended.stderr);
    assert!(ended.out().contains("it was not tried again: there was no time"), "{}", ended.out());
    let ended = scrub(&["--exclude", "o[0-4]"]);
    assert_eq!((ended.code, bad(&ended)), (Some(0), 0), "{} {}", ended.out(), ended.stderr);
    assert!(!ended.stderr.contains("rot since"), "{}", ended.stderr);
}

#[test]
fn a_scrub_ends_within_a_large_object_when_it_is_asked_to() {
    let Some(store) = Store::start() else { return };
    let (bucket, catalog) = (store.bucket("box"), store.path("catalog"));
    fs::write(bucket.join("large"), vec![7; 80 << 20]).unwrap();
    let words =
        ["scrub", "--catalog", catalog.to_str().unwrap(), "--limit", "50kB/s", "--foreground", "s3://box"];
    let began = Instant::now();
    let scrub =
        store.verisum(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a program");
    let status = ["catalog", "status", "--catalog", catalog.to_str().unwrap()];
    wait_until("the run has begun", || store.run(&status).out().contains(": in progress\n"));
    signal(&scrub, Signal::TERM);
    let ended = Ended::of(scrub.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{} {}", ended.out(), ended.stderr);
    assert!(ended.out().contains("interrupted"), "{}", ended.out());
    // All of it would take nearly half an hour.
    assert!(began.elapsed() < Duration::from_secs(600), "{:?}", began.elapsed());
}
