//! `verisum parity`: what is printed, exit codes, and runs that are killed or have no room.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Ended, VERISUM, command, start, verisum};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use verisum_testkit::require_tool;

type Content = BTreeMap<PathBuf, Vec<u8>>;

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

fn write(folder: &Path, content: &Content) {
    for (name, bytes) in content {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn example() -> Content {
    [("a.jpg", 40_000), ("b/c.jpg", 90_000), ("b/d e", 300)]
        .map(|(name, length)| (PathBuf::from(name), bytes(length as u64, length)))
        .into()
}

/// Damages a byte, and leaves the time of modification alone.
fn rot(path: &Path, at: usize) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
    fs::File::options().append(true).open(path).unwrap().set_modified(modified).unwrap();
}

fn parity(verb: &str, folder: &Path, more: &[&str]) -> Ended {
    let mut arguments = vec!["parity".into(), verb.into(), folder.as_os_str().to_os_string()];
    arguments.extend(more.iter().map(Into::into));
    verisum(arguments)
}

#[test]
fn what_par2_files_lose_is_said_to_stay_lost() {
    let Some(par2) = require_tool("par2") else { return };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("a.bin".into(), bytes(1, 100_000)), ("b.bin".into(), bytes(2, 50_000))].into());
    let made = Command::new(par2)
        .args(["create", "-q", "-q", "-s4000", "-c10", "set.par2", "a.bin", "b.bin"])
        .current_dir(folder.path())
        .output();
    assert!(made.unwrap().status.success());
    let set = folder.path().join("set.par2");
    let volume = folder.path().join("set.vol00+1.par2");
    let said = |verb: &str, more: &[&str]| {
        let ended = parity(verb, &set, more);
        (ended.code, ended.out().to_string(), ended.stderr)
    };
    let mut content = fs::read(&volume).unwrap();
    content[500] ^= 1;
    fs::write(&volume, content).unwrap();
    let stays =
        "set.vol00+1.par2: damaged (1 of 1 recovery blocks; `repair` leaves PAR2 files as they are)\n";
    for (verb, more) in [("verify", &[][..]), ("repair", &["--dry-run"]), ("repair", &[])] {
        let (code, out, err) = said(verb, more);
        assert!(code == Some(1) && out.contains(stays) && !err.contains("mend it"), "{verb} {out} {err}");
    }
    // With what is bad, and can be repaired or not.
    rot(&folder.path().join("a.bin"), 5_000);
    let (_, out, err) = said("verify", &[]);
    assert!(out.contains("a.bin: damaged (3.91 KiB; can be repaired)\n"), "{out}");
    assert!(err.contains("mend it: verisum parity repair "), "{err}");
    fs::remove_file(folder.path().join("a.bin")).unwrap();
    let (_, out, err) = said("verify", &[]);
    assert!(
        out.contains("a.bin: missing (too much is lost to repair it)\n") && !err.contains("mend it"),
        "{out}{err}"
    );
    assert!(err.contains("copy some files back from elsewhere"), "{err}");
    let whole = fs::read(&set).unwrap();
    fs::write(&set, &whole[..whole.len() - 10]).unwrap();
    let (_, out, _) = said("verify", &[]);
    assert!(out.contains("set.par2: damaged (bytes in it are no part of PAR2; "), "{out}");
}

#[test]
fn damage_is_said_and_mended() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, content) = (folder.path(), example());
    write(tree, &content);
    let made = parity("create", tree, &["--redundancy", "10%"]).clean();
    assert!(made.starts_with("3 files, 127 KiB: 1 set written, "), "{made}");
    assert_eq!(parity("verify", tree, &[]).clean(), "3 files, 127 KiB: all as recorded\n");
    assert_eq!(parity("verify", tree, &["-q"]).clean(), "");
    rot(&tree.join("b/c.jpg"), 5_000);
    fs::remove_file(tree.join("b/d e")).unwrap();
    let found = parity("verify", tree, &[]);
    assert_eq!(
        (found.code, found.out(), found.stderr.as_str()),
        (
            Some(1),
            "b/c.jpg: damaged (1 KiB; can be repaired)\n\
             b/d e: missing (can be repaired)\n\
             3 files, 127 KiB: 1 damaged, 1 missing\n",
            format!("mend it: verisum parity repair '{}'\n", tree.display()).as_str()
        )
    );
    let quiet = parity("verify", tree, &["-q"]);
    let bad = "b/c.jpg: damaged (1 KiB; can be repaired)\nb/d e: missing (can be repaired)\n";
    assert_eq!((quiet.code, quiet.out(), quiet.stderr == found.stderr), (Some(1), bad, true));
    assert_eq!(parity("repair", tree, &["--dry-run"]).code, Some(0));
    assert_eq!(parity("repair", tree, &["-nq"]).clean(), "");
    assert!(!tree.join("b/d e").exists());
    let keep = tempfile::tempdir().unwrap();
    let done = parity("repair", tree, &["--keep-bad", keep.path().to_str().unwrap()]).clean();
    assert!(done.starts_with("b/c.jpg: repaired (1.95 KiB from parity)\nb/d e: repaired ("), "{done}");
    assert!(done.ends_with("1 set: 2 repaired\n"), "{done}");
    for (name, bytes) in &content {
        assert!(fs::read(tree.join(name)).unwrap() == *bytes);
    }
    assert_ne!(fs::read(keep.path().join("b/c.jpg")).unwrap(), content[Path::new("b/c.jpg")]);
    parity("verify", tree, &[]).clean();
}

#[test]
fn of_a_lost_set_is_said_what_the_others_can_still_do() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    let (file, good) = (tree.join("a"), bytes(7, 3_000_000));
    fs::write(&file, &good).unwrap();
    parity("create", tree, &["--set-size", "1M"]).clean();
    fs::remove_file(tree.join(".verisum-parity/set-00000001.parity")).unwrap();
    rot(&file, 2_900_000);
    let of_file = |ended: &Ended| -> String {
        ended.out().lines().find(|line| line.starts_with("a: ")).unwrap_or_default().to_string()
    };
    let found = parity("verify", tree, &[]);
    assert_eq!(of_file(&found), "a: damaged (1 KiB; can be repaired)", "{}", found.out());
    assert!(found.stderr.starts_with("mend it: verisum parity repair --in-place "), "{}", found.stderr);
    let told = parity("repair", tree, &["--dry-run"]);
    let done = parity("repair", tree, &[]);
    assert_eq!((told.code, of_file(&told)), (done.code, of_file(&done)));
    assert!(of_file(&done).starts_with("a: not repaired ("), "{}", done.out());
    assert!(of_file(&done).contains("--in-place repairs the rest"), "{}", done.out());
    assert!(of_file(&parity("repair", tree, &["--dry-run", "--in-place"])).contains("can be repaired"));
    assert!(of_file(&parity("repair", tree, &["--in-place"])).starts_with("a: repaired ("));
    assert!(fs::read(&file).unwrap() == good);
    // Of what is gone nothing can be made without all its sets.
    fs::rename(&file, tree.join("b")).unwrap();
    let found = parity("verify", tree, &[]);
    assert_eq!(of_file(&found), "a: missing (too much is lost to repair it)");
    fs::rename(tree.join("b"), &file).unwrap();
    let made = parity("update", tree, &[]);
    assert!(made.stderr.contains("1 lost set have new parity, and nothing was compared"), "{}", made.stderr);
    parity("verify", tree, &[]).clean();
    assert_eq!(parity("update", tree, &[]).stderr, "");
}

/// It opens the file before the repaired one takes its place, and writes to it then or later.
#[test]
fn what_somebody_appends_during_a_repair_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (path, content) = (folder.path().join("a"), bytes(1, 100_000));
    fs::write(&path, &content).unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(parity("create", folder.path(), &[]).code, Some(0));
    let is_begun = || {
        let names = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
        names.into_iter().any(|name| name.to_str().unwrap().starts_with(".verisum-repair-"))
    };
    let wait = |most: u64| std::thread::sleep(Duration::from_micros(fastrand::u64(..most)));
    for round in 0..30 {
        fs::write(&path, &content).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
        drop(file);
        rot(&path, 5_000);
        let mut child = start(command(VERISUM).args(["parity", "repair"]).arg(folder.path()));
        while !is_begun() && child.try_wait().unwrap().is_none() {}
        wait(3_000);
        let mut file = fs::File::options().append(true).open(&path).unwrap();
        wait(1_000);
        std::io::Write::write_all(&mut file, b"!").unwrap();
        drop(file);
        let ended = Ended::of(child.wait_with_output().unwrap());
        let now = fs::read(&path).unwrap();
        assert_eq!((now.len(), now.last()), (content.len() + 1, Some(&b'!')), "{round}: {ended:?}");
        let is_repaired = now[..content.len()] == content;
        assert_eq!(ended.code == Some(0), is_repaired, "{round}: {ended:?}");
    }
}

#[test]
fn what_changed_is_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    write(tree, &example());
    parity("create", tree, &[]).clean();
    fs::write(tree.join("a.jpg"), "new").unwrap();
    fs::write(tree.join("new"), "new").unwrap();
    let found = parity("verify", tree, &[]);
    assert_eq!(
        (found.code, found.out().lines().next()),
        (Some(3), Some("a.jpg: changed (`update` gives it new parity)"))
    );
    let made = parity("update", tree, &["--json"]).clean();
    let totals: Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&totals["changed"], &totals["new"], &totals["files"]), (&1.into(), &1.into(), &4.into()));
    parity("verify", tree, &[]).clean();
    rot(&tree.join("a.jpg"), 1);
    let found = parity("verify", tree, &["--json"]);
    let line: Value = serde_json::from_str(found.out().lines().next().unwrap()).unwrap();
    assert_eq!((&line["path"], &line["outcome"]), (&"a.jpg".into(), &"damaged".into()));
    assert_eq!((&line["type"], &line["can_be_repaired"]), (&"file".into(), &true.into()));
    parity("repair", tree, &["--only", "a.jpg"]).clean();
    assert_eq!(fs::read(tree.join("a.jpg")).unwrap(), b"new");
}

#[test]
fn mistakes_are_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    write(tree, &example());
    let place = tree.join(".verisum-parity").display().to_string();
    parity("verify", tree, &[])
        .failed(3, &format!("verisum: {place}: there is no parity (`verisum parity create` makes it)"));
    parity("create", tree, &["--redundancy", "5"])
        .failed(2, "verisum: --redundancy: 5: must be a share such as 5%, at most 100%");
    parity("create", tree, &["--set-size", "1k"]).failed(2, "verisum: --set-size: 1k: must be 4k to 256M");
    parity("create", tree, &[]).clean();
    parity("create", tree, &[])
        .failed(3, &format!("verisum: {place}: there is parity already (`verisum parity update` renews it)"));
    let nothing = format!("verisum: {}/no/such: there is no parity of it", tree.display());
    parity("repair", tree, &["--only", "no/such"]).failed(3, &nothing);
    let here = "must be on this machine: only --to takes addresses";
    for (option, address, must) in [
        ("--to", "h1:/x", "must be a directory of this machine, or in a bucket"),
        ("--keep-bad", "ssh://h1/x", here),
        ("--keep-bad", "s3://b/p", here),
    ] {
        let told = format!("verisum: {option}: {address}: {must}");
        parity("repair", tree, &[option, address]).failed(2, &told);
        verisum(["parity", "verify", address]).failed(2, &format!("verisum: DIR: {address}: {here}"));
    }
    // Parity is of a directory: for a file it is said what to type.
    let file = tree.join("small").display().to_string();
    fs::write(&file, "small").unwrap();
    for words in [
        &["parity", "create"][..],
        &["parity", "update"],
        &["parity", "verify", "--to", "place"],
        &["parity", "repair", "--to", "place"],
        &["repair", "--tags", "--parity", &place],
    ] {
        let ended = verisum(words.iter().copied().chain([file.as_str()]));
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        let told = "`verisum parity repair --only PATH DIR` repairs one file of it";
        assert!(ended.stderr.contains(told), "{words:?}: {}", ended.stderr);
    }
    verisum(["parity", "create", "/no/such"]).failed(3, "verisum: /no/such: open: No such file or directory");
}

#[test]
fn a_full_disk_leaves_files_and_parity_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    let content: Content = (0..4).map(|at| (format!("f{at}").into(), bytes(at, 300_000))).collect();
    write(tree, &content);
    let limited = |verb: &str, kib: u32, more: &str| {
        let script = format!("ulimit -f {kib}; exec '{VERISUM}' parity {verb} '{}' {more}", tree.display());
        Ended::of(command("bash").args(["-c", &script]).output().unwrap())
    };
    let ended = limited("create", 20, "--redundancy 20%");
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.ends_with(": write: File too large\n"), "{}", ended.stderr);
    assert!(!tree.join(".verisum-parity").exists(), "nothing is left");
    parity("create", tree, &["--redundancy", "20%"]).clean();
    rot(&tree.join("f1"), 1000);
    let bad = fs::read(tree.join("f1")).unwrap();
    let ended = limited("repair", 100, "");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.out().starts_with("f1: not repaired ("), "{}", ended.out());
    assert!(fs::read(tree.join("f1")).unwrap() == bad);
    assert_eq!(fs::read_dir(tree).unwrap().count(), 5, "nothing is left behind");
    let mut changed = content[Path::new("f2")].clone();
    changed[..1000].fill(7);
    fs::write(tree.join("f2"), changed).unwrap();
    // The set is damaged: it is kept, for it is all that can mend the file.
    assert_eq!(parity("update", tree, &[]).code, Some(1));
    parity("repair", tree, &["--only", "f1"]);
    assert!(fs::read(tree.join("f1")).unwrap() == content[Path::new("f1")]);
    assert_eq!(limited("update", 20, "").code, Some(3));
    rot(&tree.join("f3"), 1000);
    parity("repair", tree, &["--only", "f3"]);
    assert!(fs::read(tree.join("f3")).unwrap() == content[Path::new("f3")], "the old parity still counts");
}

/// Every run is killed at some moment; whatever that is, no file is worse than before, and the next run does it.
#[test]
fn an_index_of_which_one_copy_is_older_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    write(tree, &example());
    parity("create", tree, &[]).clean();
    let copies = ["index", "index.copy"].map(|name| tree.join(".verisum-parity").join(name));
    let old = fs::read(&copies[1]).unwrap();
    fs::write(tree.join("a.jpg"), b"new").unwrap();
    for mend in ["update", "repair"] {
        parity("update", tree, &[]).clean();
        // As a run leaves it that is killed after it has written the first copy.
        fs::write(&copies[1], &old).unwrap();
        parity("verify", tree, &[]).clean();
        parity(mend, tree, &[]).clean();
        let [one, other] = copies.each_ref().map(|copy| fs::read(copy).unwrap());
        assert!(one == other && one != old, "{mend}");
    }
}

/// Without any index the sets still mend, and what is named makes all well.
#[test]
fn where_both_copies_of_the_index_are_damaged_it_says_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    let content = example();
    write(tree, &content);
    parity("create", tree, &[]).clean();
    let has_bad_files = [false, true];
    for is_bad in has_bad_files {
        for name in ["index", "index.copy"] {
            rot(&tree.join(".verisum-parity").join(name), 30);
        }
        if is_bad {
            rot(&tree.join("b/c.jpg"), 5_000);
        }
        let found = parity("verify", tree, &[]);
        assert_eq!(found.code, Some(1));
        let told = "index: lost (both copies are damaged; all sets that are there count)";
        assert!(found.out().contains(told), "{}", found.out());
        let commands: Vec<&str> =
            found.stderr.lines().map(|line| line.split_once(": verisum ").unwrap().1).collect();
        let verbs: Vec<&str> = commands.iter().map(|command| command.split(' ').nth(1).unwrap()).collect();
        assert_eq!(verbs, if is_bad { &["repair", "update"][..] } else { &["update"] });
        let mut last = None;
        for advised in commands {
            let script = format!("exec '{VERISUM}' {advised}");
            last = Some(Ended::of(command("sh").args(["-c", &script]).output().unwrap()));
        }
        last.unwrap().clean();
        parity("verify", tree, &[]).clean();
        for (name, bytes) in &content {
            assert!(fs::read(tree.join(name)).unwrap() == *bytes);
        }
    }
}

#[test]
fn killed_runs_lose_nothing() {
    let kills: u64 = std::env::var("TEST_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    let mut content: Content = (0..12).map(|at| (format!("f{at}").into(), bytes(at, 700_000))).collect();
    write(tree, &content);
    let run = |verb: &str, kill: Option<Duration>| {
        let child = start(command(VERISUM).arg("parity").args(verb.split(' ')).arg(tree).args(["-j", "2"]));
        if let Some(time) = kill {
            std::thread::sleep(time);
            let pid = Pid::from_child(&child);
            let _ = kill_process(pid, Signal::KILL);
        }
        let ended = child.wait_with_output().unwrap();
        ended.status.code()
    };
    let time = |kill: u64| Duration::from_micros(500 + kill * 60_000 / kills);
    for kill in 0..kills {
        let _ = fs::remove_dir_all(tree.join(".verisum-parity"));
        run("create", Some(time(kill)));
        // Either it was made, or it can be.
        let made = run("create", None);
        assert!(made == Some(0) || run("verify", None) == Some(0), "{made:?}");
    }
    for kill in 0..kills {
        let (name, new) = (PathBuf::from(format!("f{}", kill % 12)), bytes(100 + kill, 650_000));
        fs::write(tree.join(&name), &new).unwrap();
        content.insert(name.clone(), new);
        run("update", Some(time(kill)));
        // What nobody wrote to can be mended, whatever the update came to.
        let other = PathBuf::from(format!("f{}", (kill + 5) % 12));
        rot(&tree.join(&other), 333_333);
        run("repair", None);
        let is_mended = fs::read(tree.join(&other)).unwrap() == content[&other];
        // A whole file that changed is more than a set's parity has.
        if !is_mended {
            rot(&tree.join(&other), 333_333);
        }
        assert_eq!(run("update", None), Some(0));
        assert_eq!(run("verify", None), Some(0));
    }
    for kill in 0..kills {
        let name = PathBuf::from(format!("f{}", kill % 12));
        rot(&tree.join(&name), 1000 + kill as usize);
        let bad = fs::read(tree.join(&name)).unwrap();
        let modified = fs::metadata(tree.join(&name)).unwrap().mtime_nsec();
        run("repair", Some(time(kill)));
        let now = fs::read(tree.join(&name)).unwrap();
        assert!(now == bad || now == content[&name], "a file is the old or the new one");
        assert_eq!(run("repair", None), Some(0));
        assert!(fs::read(tree.join(&name)).unwrap() == content[&name]);
        assert_eq!(fs::metadata(tree.join(&name)).unwrap().mtime_nsec(), modified);
        assert_eq!(run("verify", None), Some(0));
    }
    for kill in 0..kills {
        let name = PathBuf::from(format!("f{}", kill % 12));
        let places = [1000 + kill as usize, 300_000, 600_000];
        places.iter().for_each(|at| rot(&tree.join(&name), *at));
        let before = fs::metadata(tree.join(&name)).unwrap();
        run("repair --in-place", Some(time(kill)));
        let mut now = fs::read(tree.join(&name)).unwrap();
        let good = &content[&name];
        for at in places {
            assert!([good[at], good[at] ^ 1].contains(&now[at]), "a byte is the old or the new one");
            now[at] = good[at];
        }
        assert!(now == *good, "nothing else was written");
        // What was begun and is not through keeps its parity until it is.
        let update = run("update", None);
        assert!([Some(0), Some(1), Some(3)].contains(&update), "{update:?}");
        assert_eq!(run(["repair", "repair --in-place"][kill as usize % 2], None), Some(0));
        let now = fs::metadata(tree.join(&name)).unwrap();
        assert!(fs::read(tree.join(&name)).unwrap() == *good);
        assert_eq!((now.mtime(), now.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
        assert_eq!(run("verify", None), Some(0));
        assert_eq!(run("update", None), Some(0), "no note is left");
    }
    let hidden = fs::read_dir(tree).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(hidden.filter(|name| name.to_string_lossy().starts_with('.')).count() <= 1 + kills as usize);
}

#[test]
fn the_sets_that_verify_names_are_repaired_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    write(tree, &[("disk.raw".into(), bytes(5, 6_000_000))].into());
    parity("create", tree, &["--set-size", "1M"]).clean();
    let path = tree.join("disk.raw");
    let before = fs::metadata(&path).unwrap();
    rot(&path, 2_500_000);
    let found = parity("verify", tree, &[]);
    assert_eq!(found.code, Some(1));
    // Which set a piece is in depends on which was through first.
    let named = found.out().split("(with `--sets ").nth(1).and_then(|rest| rest.split('`').next());
    let set = named.unwrap_or_else(|| panic!("{}", found.out()));
    let others: Vec<&str> = ["1", "2", "3"].into_iter().filter(|other| *other != set).take(2).collect();
    let other = parity("repair", tree, &["--sets", &others.join(","), "--in-place"]).clean();
    assert_eq!(other, "2 sets: all as recorded\n");
    let unknown = parity("repair", tree, &["--sets", "1,99", "--in-place"]);
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
    assert!(unknown.stderr.contains("it has no set of a number that was given"), "{unknown:?}");
    let done = parity("repair", tree, &["--sets", set, "--in-place"]).clean();
    assert!(done.ends_with("1 set: 1 repaired\n"), "{done}");
    assert!(fs::read(&path).unwrap() == bytes(5, 6_000_000));
    let now = fs::metadata(&path).unwrap();
    assert_eq!((now.ino(), now.mtime_nsec()), (before.ino(), before.mtime_nsec()));
    parity("verify", tree, &[]).clean();
}

#[test]
fn a_file_that_stays_bad_in_a_set_that_was_not_named_is_not_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, catalog) = (folder.path().join("tree"), folder.path().join("c.db"));
    let (place, catalog) = (folder.path().join("parity"), catalog.to_str().unwrap());
    write(&tree, &[("disk.raw".into(), bytes(5, 6_000_000))].into());
    let to = ["--to", place.to_str().unwrap()];
    parity("create", &tree, &[&to[..], &["--set-size", "1M"]].concat()).clean();
    verisum([&["scrub", "--catalog", catalog, tree.to_str().unwrap()][..]].concat()).clean();
    let path = tree.join("disk.raw");
    rot(&path, 100);
    rot(&path, 5_000_000);
    let found = parity("verify", &tree, &[&to[..], &["--json"]].concat());
    let found: Value = serde_json::from_str(found.out().lines().last().unwrap()).unwrap();
    let [other, set] = &found["bad_sets"].as_array().unwrap()[..] else { panic!("{found}") };
    let (other, set) = (other.to_string(), set.to_string());
    let repair = |more: &[&str]| parity("repair", &tree, &[&to[..], more].concat());
    let repaired = || verisum(["catalog", "list", "--repaired", "--catalog", catalog]).clean();
    let (bad, modified) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    // A new file would be bad in the other set. The dry run says so, too.
    for dry in [&["--dry-run"][..], &[]] {
        let ended = repair(&[&["--sets", &set], dry].concat());
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let told =
            format!("disk.raw: bad in set {other} too, which --sets does not name)\n1 set: 1 not repaired");
        assert!(ended.out().contains(&told), "{ended:?}");
    }
    assert!(fs::read(&path).unwrap() == bad);
    // In place only the named sets are read: without a catalogue nobody knows of the others.
    let named = ["--in-place", "--sets", &set];
    let line = repair(&[&named[..], &["--json"]].concat()).clean();
    let line: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert!(line["outcome"] == "repaired" && line["unread_sets"].as_u64() > Some(0), "{line}");
    let spoil = || {
        fs::write(&path, &bad).unwrap();
        fs::File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
    };
    spoil();
    let line = repair(&named).clean();
    assert!(line.starts_with("disk.raw: repaired in the named sets ("), "{line}");
    assert!(line.contains(" more, which were not read)\n"), "{line}");
    spoil();
    for (sets, catalog_says) in [(&set, false), (&other, true)] {
        let named = ["--in-place", "--catalog", catalog, "--sets", sets];
        let would = repair(&[&named[..], &["--dry-run"]].concat());
        let ended = repair(&named);
        assert_eq!(ended.code, Some(i32::from(!catalog_says)), "{ended:?}");
        assert_eq!(would.code, ended.code, "{would:?}");
        let told = "disk.raw: repaired in the sets that --sets names, but still not as the catalogue recorded)\n\
            1 set: 1 not repaired";
        assert_eq!(ended.out().contains(told), !catalog_says, "{ended:?}");
        assert_eq!(repaired().is_empty(), !catalog_says);
    }
    assert!(fs::read(&path).unwrap() == bytes(5, 6_000_000));
}

/// What the dry run names is what the repair then repairs, with which options ever.
#[test]
fn a_dry_run_names_the_files_that_the_repair_repairs() {
    let worlds = std::env::var("TEST_WORLDS").map_or(25, |worlds| worlds.parse().unwrap());
    let seed = std::env::var("TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ends = BTreeMap::new();
    for world in 0..worlds {
        let folder = tempfile::tempdir().unwrap();
        let (tree, catalog) = (folder.path().join("tree"), folder.path().join("c.db"));
        let catalog = catalog.to_str().unwrap();
        let content: Content = (0..4)
            .map(|at| (format!("f{at}").into(), bytes(random.u64(..), random.usize(1..300_000))))
            .collect();
        write(&tree, &content);
        parity("create", &tree, &["--set-size", "64k", "--redundancy", "10%"]).clean();
        let mut options = vec![];
        if random.bool() {
            assert_eq!(verisum(["scrub", "--catalog", catalog, tree.to_str().unwrap()]).code, Some(0));
            options.extend(["--catalog", catalog]);
        }
        for _ in 0..random.usize(1..6) {
            let (name, bytes) = content.iter().nth(random.usize(..4)).unwrap();
            let path = tree.join(name);
            match random.u8(..8) {
                _ if !path.exists() => {}
                0 => fs::remove_file(&path).unwrap(),
                // More than the parity of a set gives.
                1 => (0..bytes.len().min(40_000)).step_by(500).for_each(|at| rot(&path, at)),
                _ => rot(&path, random.usize(..bytes.len())),
            }
        }
        let found = parity("verify", &tree, &["--json"]);
        let found: Value = serde_json::from_str(found.out().lines().last().unwrap()).unwrap();
        let sets = found["bad_sets"].as_array().unwrap();
        let some: Vec<String> =
            sets.iter().filter(|_| random.u8(..3) > 0).map(|set| set.to_string()).collect();
        let some = some.join(",");
        if random.u8(..4) > 0 && !some.is_empty() {
            options.extend(["--sets", &some]);
        }
        if random.u8(..4) > 0 {
            options.push("--in-place");
        }
        let run = |dry: &[&str]| {
            let ended = parity("repair", &tree, &[&options[..], &["--json"], dry].concat());
            let mut files = BTreeMap::new();
            for line in ended.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
                if line["type"] == "file" {
                    let is_good = line["outcome"] == "repaired" || line["can_be_repaired"] == true;
                    files.insert(line["path"].to_string(), is_good);
                }
            }
            (ended.code, files)
        };
        let (would, does) = (run(&["--dry-run"]), run(&[]));
        assert_eq!(would, does, "TEST_SEED={seed}, world {world}, {options:?}");
        does.1.into_values().for_each(|is_good| *ends.entry(is_good).or_insert(0) += 1);
    }
    assert!(ends.values().all(|count| *count > 3) && ends.len() == 2, "TEST_SEED={seed}: {ends:?}");
}

/// What somebody else has under the names of parity files is refused, and stays.
#[test]
fn files_of_somebody_else_are_no_parity() {
    for name in ["index", "index.copy", "index.new", "set-00000001.parity"] {
        let folder = tempfile::tempdir().unwrap();
        let (tree, place) = (folder.path().join("tree"), folder.path().join("place"));
        write(&tree, &example());
        fs::create_dir(&place).unwrap();
        fs::write(place.join(name), b"<h1>Index of /</h1>").unwrap();
        for verb in ["create", "update", "verify", "repair", "create"] {
            let ended = parity(verb, &tree, &["--to", place.to_str().unwrap()]);
            let is_refused = ended.stderr.contains(&format!("{name}: this is no parity of verisum"));
            assert!(ended.code == Some(3) && is_refused, "{verb} {name}: {}", ended.stderr);
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            assert_eq!(fs::read(place.join(name)).unwrap(), b"<h1>Index of /</h1>");
            assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
        }
    }
    // What a run leaves that was killed at once is no obstacle.
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &example());
    fs::create_dir(folder.path().join(".verisum-parity")).unwrap();
    fs::write(folder.path().join(".verisum-parity/index.new"), b"").unwrap();
    parity("create", folder.path(), &[]).clean();
    assert!(!folder.path().join(".verisum-parity/index.new").exists());
}

/// Only the parity files themselves have no parity, wherever they are.
#[test]
fn files_beside_the_parity_have_parity() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    write(tree, &example());
    let refused = parity("create", tree, &["--to", tree.to_str().unwrap()]);
    let said = "the parity needs a directory of its own";
    assert!(refused.code == Some(3) && refused.stderr.contains(said), "{}", refused.stderr);
    assert_eq!(fs::read_dir(tree).unwrap().count(), 2);
    let place = tree.join("b");
    let to = ["--to", place.to_str().unwrap()];
    parity("create", tree, &[&to[..], &["--redundancy", "50%"]].concat()).clean();
    fs::write(tree.join("b/new"), b"new").unwrap();
    parity("update", tree, &to).clean();
    let lost = ["a.jpg", "b/d e", "b/new"].map(|name| (tree.join(name), fs::read(tree.join(name)).unwrap()));
    for (path, bytes) in &lost {
        fs::remove_file(path).unwrap();
        parity("repair", tree, &to).clean();
        assert!(fs::read(path).unwrap() == *bytes, "{path:?}");
    }
    parity("update", tree, &to).clean();
    parity("verify", tree, &to).clean();
}
