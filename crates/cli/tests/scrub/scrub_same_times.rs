//! Scrubs of trees on hosts whose files share one time of modification: ordinary work is no rot, and rot is found.

use crate::common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use common::sshd::sshd;
use verisum::catalog::scrub::{PlaceTree, ScrubOptions, ScrubReport, scrub_tree};
use verisum::catalog::store::Catalog;
use verisum::digest::Digest;
use verisum::files::Verdict;
use verisum::files::place::Place;
use verisum::remote::{Address, Host, HostOptions, Hosts, Program};

/// Writes a file with the time that all of them have.
fn put(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    let time = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Puts a new file in the place of one, with the same time.
fn replace(path: &Path, content: &str) {
    let passing = path.with_file_name("passing");
    put(&passing, content);
    fs::rename(&passing, path).unwrap();
}

fn scrub(catalog: &mut Catalog, place: &mut dyn Place, folder: &Path) -> Vec<(Verdict, String)> {
    let mut found = Vec::new();
    let mut tell = |report: ScrubReport| {
        let name = report.path.file_name().unwrap().to_str().unwrap().to_string();
        found.push((report.verdict, name));
    };
    let root = folder.to_str().unwrap().as_bytes();
    let address = PathBuf::from(format!("ssh://host{}", folder.display()));
    let options = ScrubOptions::new(Digest::find("sha256").unwrap());
    let mut tree = PlaceTree { place, root, notes: &|_| true };
    scrub_tree(catalog, &address, (&options, &Mutex::new(())), &mut tree, &mut tell).unwrap();
    found.sort();
    found
}

fn scenario(what: &str, place: &mut dyn Place, folder: &Path) {
    let data = folder.join("data");
    fs::create_dir(&data).unwrap();
    let path = |number: usize| data.join(format!("f{number}"));
    for number in 0..20 {
        put(&path(number), &format!("content {number:02}"));
    }
    let records = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(&records.path().join("c.db")).unwrap();
    assert_eq!(scrub(&mut catalog, place, &data).len(), 20, "{what}");
    assert_eq!(scrub(&mut catalog, place, &data), [], "{what}");

    // Two change places, one is replaced by one of its length, one by a longer one, and one gets another name.
    fs::rename(path(1), data.join("passing")).unwrap();
    fs::rename(path(2), path(1)).unwrap();
    fs::rename(data.join("passing"), path(2)).unwrap();
    replace(&path(3), "CONTENT 03");
    replace(&path(4), "longer content 04");
    fs::rename(path(5), data.join("g5")).unwrap();
    let found = scrub(&mut catalog, place, &data);
    let names: Vec<&str> = found.iter().map(|(_, name)| &name[..]).collect();
    let ordinary = [Verdict::Modified, Verdict::Moved];
    assert!(found.iter().all(|(verdict, _)| ordinary.contains(verdict)), "{what}: {found:?}");
    for name in ["f1", "f2", "f3", "f4", "g5"] {
        assert!(names.contains(&name), "{what}: {found:?}");
    }
    assert_eq!(scrub(&mut catalog, place, &data), [], "{what}");

    // The bytes of a file change, and it stays the same file.
    put(&path(6), "CONTENT 06");
    put(&path(7), "CONTENT 07");
    let rot = [(Verdict::Rot, "f6".to_string()), (Verdict::Rot, "f7".to_string())];
    assert_eq!(scrub(&mut catalog, place, &data), rot, "{what}");
    fs::remove_dir_all(&data).unwrap();
}

fn hosts(way: &str, config: Option<PathBuf>, scratch: &Path) -> Hosts {
    let mut options = HostOptions::default();
    options.ssh.config = config;
    options.required = vec![way.to_string()];
    if way == "verisum" {
        options.push = Some(Arc::new(vec![Program::open(Path::new(common::VERISUM)).unwrap()]));
    }
    Hosts::new(options, scratch)
}

#[test]
fn this_machine_by_the_programs_of_a_host() {
    let folder = tempfile::tempdir().unwrap();
    for way in ["coreutils", "perl", "python"] {
        let mut place = hosts(way, None, folder.path()).place(&Host::Local).unwrap();
        scenario(way, place.as_mut(), folder.path());
    }
}

#[test]
fn a_host_behind_ssh() {
    let Some(server) = sshd("") else { return };
    let (scratch, folder) = (server.path("scratch"), server.path("srv"));
    fs::create_dir(&scratch).unwrap();
    fs::create_dir_all(&folder).unwrap();
    let host = Address::parse("web1:".as_ref(), false).unwrap().host;
    for way in ["coreutils", "perl", "verisum"] {
        let hosts = hosts(way, Some(server.path("config")), &scratch);
        scenario(&format!("ssh, {way}"), hosts.place(&host).unwrap().as_mut(), &folder);
    }
}
