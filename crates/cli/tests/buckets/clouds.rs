//! Buckets of stores other than S3, on servers that speak as theirs do, and single objects on the web.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::cloud::Cloud;
use common::{Ended, VERISUM, command};
use serde_json::Value;
use tempfile::TempDir;

/// More than one part of an upload, and not a multiple of any.
const LARGE: usize = (33 << 20) + 12_345;

fn tree() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("sub/deeper")).unwrap();
    for number in 0..70 {
        fs::write(folder.path().join(format!("sub/{number}")), format!("content {number}")).unwrap();
    }
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("a b+c%\u{e9}"), "odd").unwrap();
    let large: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    fs::write(folder.path().join("sub/deeper/large"), large).unwrap();
    folder
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_string();
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

#[track_caller]
fn expect(ended: &Ended, code: i32, part: &str) {
    let text = format!("{}{}", ended.out(), ended.stderr);
    assert!(ended.code == Some(code) && text.contains(part), "{:?}: {text}", ended.code);
}

/// All verbs over a bucket of this server.
fn verbs(cloud: &Cloud) {
    let (folder, scratch) = (tree(), tempfile::tempdir().unwrap());
    let here = folder.path().to_str().unwrap();
    let there = &format!("{}/data", cloud.url);
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_string();

    let copied = cloud.run(&["copy", here, there]);
    expect(&copied, 0, "73 files copied");
    assert!(copied.stderr.contains("cost: ") && copied.stderr.contains(" put"), "{}", copied.stderr);
    expect(&cloud.run(&["compare", here, there]), 0, "");
    expect(&cloud.run(&["compare", "--read", here, there]), 0, "");
    // Also of what was written in parts the store knows a digest.
    let compared = cloud.run(&["compare", "--json", here, there]).clean();
    let summary: Value = serde_json::from_str(compared.lines().last().unwrap()).unwrap();
    assert_eq!(summary["settled"]["read"], 0, "{summary}");
    let requests = &summary["costs"]["requests"];
    assert!(requests["list"].as_u64() > Some(0) && requests["get"].is_null(), "{summary}");

    let sums = cloud.run(&["sum", "--quiet", "--relative", there]).clean();
    let mut local = command(VERISUM);
    let local = Ended::of(local.args(["sum", "--recursive", here]).output().unwrap());
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    let local = local.out().replace(&format!("{here}/"), "");
    assert!(sorted(&sums) == sorted(&local), "{}: {sums}{local}", cloud.url);
    let list = &path("sums");
    fs::write(list, &sums).unwrap();
    expect(&cloud.run(&["check", list, there]), 0, "");

    let catalog = &path("catalog");
    let scrub = |more: &[&str]| cloud.run(&[&["scrub", "--catalog", catalog][..], more, &[there]].concat());
    expect(&scrub(&[]), 0, "new 73");
    expect(&scrub(&[]), 0, "ok 73");

    expect(&cloud.run(&["copy", there, &path("back")]), 0, "73 files copied");
    assert_eq!(files(Path::new(&path("back"))), files(folder.path()));

    fs::write(folder.path().join("sub/7"), "cOntent 7").unwrap();
    expect(&cloud.run(&["compare", here, there]), 1, "sub/7");
    expect(&cloud.run(&["copy", "--quiet", here, there]), 0, "");
    expect(&cloud.run(&["compare", here, there]), 0, "");
    expect(&cloud.run(&["check", list, there]), 1, "sub/7");

    expect(&cloud.run(&["sum", &format!("{there}/none")]), 3, "No such file or directory");
    let nowhere = cloud.url.replace("places", "nowhere");
    expect(&cloud.run(&["sum", &nowhere]), 3, "no such bucket");
}

#[test]
fn all_verbs_work_on_buckets_of_google() {
    let Some(cloud) = Cloud::google() else { return };
    verbs(&cloud);

    // The same server gives objects to everybody, as a server of the web.
    let url = format!("{}/places/data/a%20b%2Bc%25%C3%A9", cloud.server);
    let sum = cloud.run(&["sum", "-a", "md5", "--quiet", &url]).clean();
    assert!(sum.starts_with("a2b6f2a6066ed8700d83335fc50a2b8e  "), "{sum}");
    expect(&cloud.run(&["sum", &format!("{}/places/none", cloud.server)]), 3, "No such file or directory");
    let refused = cloud.run(&["sum", &format!("{}/places/x?signature=secret", cloud.server)]);
    expect(&refused, 2, "must be without ?");
    assert!(!refused.stderr.contains("=secret"), "{}", refused.stderr);
}

#[test]
fn all_verbs_work_on_containers_of_azure() {
    let Some(cloud) = Cloud::azure() else { return };
    verbs(&cloud);
}
