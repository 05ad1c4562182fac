//! What other users can read, hold, lead elsewhere or leave behind.

use crate::common;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use common::scrubbing::{Tree, check, export, refused, s, scrub};
use common::tagging::attribute;
use common::{Ended, VERISUM, command, signal, start, verisum, wait_until};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::process::Signal;
use verisum_testkit::{copy_program, require_root, require_tool};

/// A user without any right.
const NOBODY: u32 = 65534;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn beside(path: &Path, end: &str) -> PathBuf {
    format!("{}{end}", path.display()).into()
}

fn catalog(verb: &str, catalog: &Path, rest: &[&Path]) -> Command {
    let mut command = command(VERISUM);
    command.args(["catalog", verb, "--catalog"]).arg(catalog).args(rest);
    command
}

fn run(command: &mut Command) -> Ended {
    Ended::of(command.output().unwrap())
}

#[test]
fn a_catalogue_and_its_copies_are_closed_to_others() {
    let tree = Tree::new();
    let (path, copy, list) =
        (tree.catalog(), tree.folder.path().join("copy.db"), tree.folder.path().join("list"));
    tree.scrub(&[]).clean();
    let lock = beside(&path, ".lock");
    assert_eq!((mode(&path), mode(&lock)), (0o600, 0o600));
    let copied = |expected: u32| {
        run(&mut catalog("backup", &path, &[&copy])).clean();
        assert_eq!(mode(&copy), expected);
        run(&mut catalog("restore", &path, &[&copy])).clean();
        assert_eq!(mode(&path), expected);
    };
    copied(0o600);
    run(&mut catalog("export", &path, &[&list])).clean();
    assert_eq!(mode(&list), 0o600);
    // What the owner gives to the group stays.
    set_mode(&path, 0o640);
    tree.scrub(&[]).clean();
    copied(0o640);
    assert_eq!((mode(&path), mode(&lock)), (0o640, 0o640));
    // As earlier versions made them.
    for file in [&path, &lock, &copy, &list] {
        set_mode(file, 0o644);
    }
    copied(0o600);
    run(&mut catalog("export", &path, &[&list])).clean();
    set_mode(&path, 0o644);
    tree.scrub(&[]).clean();
    assert_eq!([&path, &lock, &list].map(|file| mode(file)), [0o600; 3]);
    // While a run goes on.
    for number in 0..100 {
        fs::write(tree.path(&format!("more{number}")), "text").unwrap();
    }
    let mut command = command(VERISUM);
    command.args(["scrub", "-q", "--limit-iops", "5", "--catalog"]).arg(&path).arg(tree.root());
    let mut child = start(&mut command);
    wait_until("the run has begun", || beside(&path, "-wal").metadata().is_ok_and(|log| log.len() > 0));
    assert_eq!(["-wal", "-shm"].map(|end| mode(&beside(&path, end))), [0o600; 2]);
    child.kill().unwrap();
    child.wait().unwrap();
    check(&path);
}

#[test]
fn what_is_made_of_a_catalogue_is_of_its_group() {
    let Some(()) = require_root() else { return };
    let tree = Tree::new();
    let (path, copy) = (tree.catalog(), tree.folder.path().join("copy.db"));
    tree.scrub(&[]).clean();
    chown(&path, None, Some(NOBODY)).unwrap();
    set_mode(&path, 0o640);
    let group = |file: &Path| (file.metadata().unwrap().gid(), mode(file));
    run(&mut catalog("backup", &path, &[&copy])).clean();
    assert_eq!(group(&copy), (NOBODY, 0o640));
    run(&mut catalog("restore", &path, &[&copy])).clean();
    assert_eq!(group(&path), (NOBODY, 0o640));
    for number in 0..100 {
        fs::write(tree.path(&format!("more{number}")), "text").unwrap();
    }
    let mut command = command(VERISUM);
    command.args(["scrub", "-q", "--limit-iops", "5", "--catalog"]).arg(&path).arg(tree.root());
    let mut child = start(&mut command);
    wait_until("the run has begun", || beside(&path, "-wal").metadata().is_ok_and(|log| log.len() > 0));
    for end in ["-wal", "-shm", ".lock"] {
        wait_until("the group has it", || group(&beside(&path, end)) == (NOBODY, 0o640));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_lock_that_is_a_pipe_keeps_nobody_waiting() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let lock = beside(&tree.catalog(), ".lock");
    fs::remove_file(&lock).unwrap();
    mknodat(CWD, &lock, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    refused(&tree.scrub(&[]), 3, "it is a link or no regular file; remove it");
    run(&mut catalog("status", &tree.catalog(), &[])).clean();
}

#[test]
fn a_journal_of_another_user_is_not_obeyed() {
    let Some(()) = require_root() else { return };
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let journal = beside(&tree.catalog(), ".in-place");
    fs::write(&journal, [b'j'; 100]).unwrap();
    chown(&journal, Some(NOBODY), None).unwrap();
    refused(&tree.scrub(&[]), 3, "another user could have written it");
}

#[test]
fn the_folder_of_the_usual_catalogue_is_closed_to_others() {
    let tree = Tree::new();
    let state = tree.folder.path().join("state/of/mine");
    let mut command = command(VERISUM);
    run(command.arg("scrub").arg(tree.root()).env("XDG_STATE_HOME", &state)).clean();
    let modes = [&state, &state.join("verisum")].map(|folder| mode(folder));
    assert_eq!((modes, mode(&state.join("verisum/catalog.db"))), ([0o700; 2], 0o600));
}

/// A process of a user that holds a file's lock.
fn holder(flock: &Path, file: &Path, user: u32) -> Child {
    let mut command = Command::new(flock);
    command.arg("--no-fork").arg(file).args(["sleep", "600"]).uid(user).gid(user);
    let child = start(&mut command);
    wait_until_held(file);
    child
}

fn wait_until_held(file: &Path) {
    wait_until("the lock is held", || {
        matches!(File::open(file).unwrap().try_lock_shared(), Err(TryLockError::WouldBlock))
    });
}

#[test]
fn who_may_not_write_a_catalogue_cannot_hold_its_lock() {
    let (Some(()), Some(flock)) = (require_root(), require_tool("flock")) else { return };
    let tree = Tree::new();
    set_mode(tree.folder.path(), 0o755);
    tree.scrub(&[]).clean();
    let lock = beside(&tree.catalog(), ".lock");
    let mut opened = Command::new("cat");
    assert!(!opened.arg(&lock).uid(NOBODY).gid(NOBODY).output().unwrap().status.success());
    // An earlier version's, and one that the owner lets others read.
    set_mode(&lock, 0o644);
    let mut stranger = holder(&flock, &lock, NOBODY);
    tree.scrub(&[]).clean();
    assert_eq!(mode(&lock), 0o600);
    assert_eq!(fs::read_dir(tree.folder.path()).unwrap().count(), 3, "the old lock is gone");
    // Who may write to it counts, whatever the mode of the lock.
    set_mode(&lock, 0o644);
    let mut run_of_ours = holder(&flock, &lock, 0);
    refused(&tree.scrub(&[]), 3, "another run uses this catalogue");
    for child in [&mut stranger, &mut run_of_ours] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    tree.scrub(&[]).clean();
    // The program that took it has ended, and left it to the shell that has the file open.
    let mut heir = Command::new("bash");
    heir.args(["-c", "exec 9<>\"$1\"; flock 9; read -r", "bash"]).arg(&lock).stdin(Stdio::piped());
    let mut heir = heir.spawn().unwrap();
    wait_until_held(&lock);
    refused(&tree.scrub(&[]), 3, "another run uses this catalogue");
    drop(heir.stdin.take());
    heir.wait().unwrap();
    tree.scrub(&[]).clean();
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let tree = Tree::new();
    let victim = tree.folder.path().join("victim");
    symlink(&victim, beside(&tree.catalog(), ".lock")).unwrap();
    refused(&tree.scrub(&[]), 3, "it is a link or no regular file; remove it");
    assert!(!victim.exists());
}

/// A catalogue of so many files.
fn large(tree: &Tree, files: usize) -> PathBuf {
    let list = tree.folder.path().join("list");
    let mut to = std::io::BufWriter::new(File::create(&list).unwrap());
    writeln!(to, "{{\"type\":\"root\",\"version\":1,\"path\":\"/srv\",\"device\":1,\"inode\":1}}").unwrap();
    let time = "\"1970-01-01T00:00:00.001000000Z\"";
    for number in 0..files {
        writeln!(
            to,
            "{{\"type\":\"file\",\"version\":1,\"path\":\"d/f{number}\",\"size\":1,\"mtime\":{time},\"ctime\":{time},\
             \"inode\":1,\"algorithm\":\"md5\",\"digest\":\"{number:032x}\",\"first_seen\":{time},\
             \"last_changed\":{time},\"last_verified\":null,\"outcome\":\"ok\"}}"
        )
        .unwrap();
    }
    drop(to);
    assert_eq!(run(&mut catalog("import", &tree.catalog(), &[&list])).code, Some(0));
    fs::remove_file(list).unwrap();
    tree.catalog()
}

#[test]
fn signals_leave_nothing_of_a_backup_behind() {
    let tree = Tree::new();
    let path = large(&tree, 30_000);
    let (copy, folder) = (tree.folder.path().join("copy.db"), tree.folder.path());
    run(&mut catalog("backup", &path, &[&copy])).clean();
    let recorded = export(&path);
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let mut ended_by_it = 0;
    for verb in ["backup", "restore"] {
        for sent in [Signal::TERM, Signal::INT, Signal::HUP, Signal::TERM] {
            let mut child = start(&mut catalog(verb, &path, &[&copy]));
            wait_until("a copy is begun, or made", || {
                names().len() > before.len() || child.try_wait().unwrap().is_some()
            });
            if child.try_wait().unwrap().is_none() {
                signal(&child, sent);
            }
            let ended = Ended::of(child.wait_with_output().unwrap());
            assert!(ended.code == Some(0) || ended.signal == Some(sent.as_raw()), "{ended:?}");
            ended_by_it += usize::from(ended.signal.is_some());
            assert_eq!(names(), before, "{verb} {sent:?}");
        }
    }
    assert!(ended_by_it > 0);
    assert!(export(&path) == recorded && export(&copy) == recorded);
}

#[test]
fn signals_leave_nothing_of_a_new_catalogue_behind() {
    let tree = Tree::new();
    let (list, folder) = (tree.folder.path().join("list"), tree.folder.path().join("new"));
    fs::write(&list, format!("{}  f\n", "0".repeat(32))).unwrap();
    for round in 0..20 {
        fs::create_dir(&folder).unwrap();
        let path = folder.join("m.db");
        let begun = || fs::read_dir(&folder).unwrap().any(|found| found.unwrap().file_name() != "m.db.lock");
        let mut command = match round % 2 {
            0 => catalog("import", &path, &[&list]),
            _ => command(VERISUM),
        };
        if round % 2 == 1 {
            command.args(["scrub", "-q", "--catalog"]).arg(&path).arg(tree.root());
        }
        let mut child = start(&mut command);
        wait_until("a catalogue is begun", || begun() || child.try_wait().unwrap().is_some());
        if child.try_wait().unwrap().is_none() {
            signal(&child, [Signal::TERM, Signal::INT, Signal::HUP][round % 3]);
        }
        child.wait().unwrap();
        if path.exists() {
            check(&path);
        }
        // The journal is one of a catalogue that is whole, and worked in by the check.
        for left in fs::read_dir(&folder).unwrap() {
            let name = left.unwrap().file_name().into_string().unwrap();
            let own = ["", ".lock", "-wal", "-shm", "-journal"].map(|end| format!("m.db{end}"));
            assert!(own.contains(&name) && (path.exists() || name == "m.db.lock"), "{name}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// A directory that cannot be listed may have the files below it, and no others.
#[test]
fn only_what_could_not_be_looked_at_is_unknown() {
    if require_root().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    for tree in ["one", "other"] {
        for name in ["closed/a", "gone", "same"] {
            let path = folder.path().join(tree).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "content").unwrap();
        }
    }
    fs::remove_file(folder.path().join("one/gone")).unwrap();
    set_mode(&folder.path().join("one/closed"), 0o700);
    let program = folder.path().join("verisum");
    copy_program(VERISUM, &program);
    let mut compare = Command::new(&program);
    compare.args(["compare", "one", "other"]).current_dir(folder.path()).uid(NOBODY).gid(NOBODY);
    let ended = run(compare.env("VERISUM_CONFIG", ""));
    assert!(ended.stderr.ends_with("1 the same, 1 extra, 1 unknown\n"), "{}", ended.stderr);
    assert_eq!(ended.out(), "closed/a: UNKNOWN\ngone: EXTRA\n", "{}", ended.stderr);
}

#[test]
fn who_may_not_read_a_catalogue_is_told_so() {
    if require_root().is_none() {
        return;
    }
    let tree = Tree::new();
    set_mode(tree.folder.path(), 0o755);
    tree.scrub(&[]).clean();
    let path = tree.catalog();
    // What runs as another user must be where it can be reached.
    let program = tree.folder.path().join("verisum");
    copy_program(VERISUM, &program);
    let status = || {
        let mut command = Command::new(&program);
        command.args(["catalog", "status", "--catalog"]).arg(&path).uid(NOBODY).gid(NOBODY);
        run(&mut command)
    };
    refused(&status(), 3, "c.db: open: Permission denied");
    set_mode(&path, 0o644);
    refused(&status(), 3, "c.db.lock: open: Permission denied");
    let log = beside(&path, "-wal");
    fs::write(&log, "log").unwrap();
    set_mode(&log, 0o600);
    refused(&status(), 3, "c.db-wal: open: Permission denied");
}

#[test]
fn every_reader_sees_one_moment() {
    let tree = Tree::new();
    tree.scrub(&["-q"]).clean();
    let path = tree.catalog();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0..12 {
                for number in 0..100 {
                    fs::write(tree.path(&format!("below/{round}-{number}")), "some text").unwrap();
                }
                tree.scrub(&["-q"]).clean();
            }
            is_over.store(true, Ordering::SeqCst);
        });
        while !is_over.load(Ordering::SeqCst) {
            for verb in ["export", "check", "status"] {
                run(&mut catalog(verb, &path, &[])).clean();
            }
            let list = catalog("export", &path, &[]).args(["--format", "bsd"]).output().unwrap();
            Ended::of(list).clean();
        }
    });
    assert_eq!(export(&path).lines().count(), 1 + 11 + 1200);
}

#[test]
fn links_of_others_lead_no_output_elsewhere() {
    if require_root().is_none() {
        return;
    }
    let tree = Tree::new();
    let (link, victim) = (tree.folder.path().join("figures"), tree.folder.path().join("victim"));
    fs::write(&victim, "important").unwrap();
    symlink(&victim, &link).unwrap();
    let figures = ["--prometheus", link.to_str().unwrap()];
    tree.scrub(&figures).clean();
    assert!(fs::read_to_string(&victim).unwrap().contains("verisum_scrub_"));
    fs::write(&victim, "important").unwrap();
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&tree.scrub(&figures), 3, "figures: create: it is a link of another user");
    for verb in ["export", "backup"] {
        refused(&run(&mut catalog(verb, &tree.catalog(), &[&link])), 3, "it is a link of another user");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
}

#[test]
fn links_of_others_on_the_way_lead_no_output_elsewhere() {
    if require_root().is_none() {
        return;
    }
    let tree = Tree::new();
    let path = |name: &str| tree.folder.path().join(name);
    for folder in ["theirs", "private"] {
        fs::create_dir(path(folder)).unwrap();
    }
    symlink("../private", path("theirs/d")).unwrap();
    let outputs = || {
        let figures = path("theirs/d/v.prom");
        let listed = |verb, name| run(&mut catalog(verb, &tree.catalog(), &[&path(name)]));
        [
            ("v.prom", tree.scrub(&["--prometheus", figures.to_str().unwrap()])),
            ("e", listed("export", "theirs/d/e")),
            ("b", listed("backup", "theirs/d/b")),
        ]
    };
    // Through a link of our own.
    for (name, ended) in outputs() {
        ended.clean();
        assert!(path("private").join(name).metadata().unwrap().len() > 0);
        fs::write(path("private").join(name), "important").unwrap();
    }
    for name in ["theirs", "theirs/d"] {
        lchown(path(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for (name, ended) in outputs() {
        refused(&ended, 3, &format!("theirs/d/{name}: create: a link of another user leads there"));
        assert_eq!(fs::read_to_string(path("private").join(name)).unwrap(), "important");
    }
    assert_eq!(fs::read_dir(path("private")).unwrap().count(), 3);
    let at = |name: &str| scrub(&path(name), &tree.root(), &[]);
    refused(&at("theirs/d/c.db"), 3, "theirs/d/c.db: open: a link of another user leads there");
    symlink(tree.catalog(), path("theirs.db")).unwrap();
    at("theirs.db").clean();
    lchown(path("theirs.db"), Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&at("theirs.db"), 3, "theirs.db: open: it is a link of another user");
    let restored = run(&mut catalog("restore", &path("theirs.db"), &[&tree.catalog()]));
    refused(&restored, 3, "theirs.db: open: it is a link of another user");
    let lake =
        run(catalog("export", &tree.catalog(), &[&path("theirs/d/lake")]).args(["--format", "parquet"]));
    refused(&lake, 3, "theirs/d/lake: create: a link of another user leads there");
    assert_eq!(fs::read_dir(path("private")).unwrap().count(), 3);
    let logged = verisum([s("digests"), s("--log-file"), path("theirs/d/log")]);
    refused(&logged, 3, "theirs/d/log: open: a link of another user leads there");
    assert_eq!(fs::read_dir(path("private")).unwrap().count(), 3);
}

/// Links to the directory itself, with a slash and without.
#[test]
fn links_of_others_lead_no_bag_pages_or_units_elsewhere() {
    if require_root().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("theirs")).unwrap();
    fs::create_dir(path("private")).unwrap();
    fs::write(path("private/f"), "important").unwrap();
    let link = path("theirs/d");
    symlink("../private", &link).unwrap();
    let lead = |owner: u32| {
        for name in ["theirs", "theirs/d"] {
            lchown(path(name), Some(owner), Some(owner)).unwrap();
        }
    };
    let with_slash = beside(&link, "/");
    let run = |verb: &[&str], name: &Path| verisum(verb.iter().map(OsStr::new).chain([name.as_os_str()]));
    let verbs = [
        (vec!["bag", "create"], "open"),
        (vec!["man"], "write"),
        (vec!["schedule", "--install", "/", "--root"], "create"),
    ];
    lead(NOBODY);
    for (verb, operation) in &verbs {
        for name in [&link, &with_slash] {
            refused(&run(verb, name), 3, &format!(": {operation}: a link of another user leads there"));
            assert_eq!(fs::read_dir(path("private")).unwrap().count(), 1, "{verb:?}");
            assert_eq!(fs::read_to_string(path("private/f")).unwrap(), "important");
        }
    }
    // A page that is a link of another user, in the directory itself.
    symlink("../private/f", path("theirs/verisum.1")).unwrap();
    lchown(path("theirs/verisum.1"), Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&run(&["man"], &path("theirs")), 3, ": write: it is a link of another user");
    assert_eq!(fs::read_to_string(path("private/f")).unwrap(), "important");
    // Through a link of our own.
    lead(0);
    for (verb, _) in verbs.iter().rev() {
        run(verb, &with_slash).clean();
    }
    assert!(path("private/data/etc/systemd/system").is_dir() && path("private/data/verisum.1").is_file());
}

#[test]
fn a_named_file_is_not_tagged_through_a_link_of_another_user() {
    if require_root().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
    for name in ["theirs", "outside"] {
        fs::create_dir(path(name)).unwrap();
        fs::write(path(name).join("f1"), name).unwrap();
    }
    let (file, outside) = (path("theirs/f1"), path("outside/f1"));
    symlink(path("outside"), path("link")).unwrap();
    lchown(path("link"), Some(NOBODY), Some(NOBODY)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                renameat_with(CWD, path("theirs"), CWD, path("link"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut refused = 0;
        for _ in 0..60 {
            let ended = verisum([s("tag"), file.clone()]);
            refused += usize::from(ended.code == Some(3));
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(refused > 0);
    });
    assert_eq!(attribute(&outside, "user.verisum"), None);
    if path("link").symlink_metadata().unwrap().is_dir() {
        renameat_with(CWD, path("theirs"), CWD, path("link"), RenameFlags::EXCHANGE).unwrap();
    }
    // By its owner's will, and through a link of the caller's own.
    let said = "a link of another user leads there (--follow-links follows it)";
    let through = path("link/f1");
    refused(&verisum([s("tag"), through.clone()]), 3, said);
    refused(&verisum([s("tag"), path("link/")]), 3, said);
    assert_eq!(attribute(&outside, "user.verisum"), None);
    verisum([s("tag"), s("-q"), s("--follow-links"), through.clone()]).clean();
    assert!(attribute(&outside, "user.verisum").is_some());
    lchown(path("link"), Some(0), Some(0)).unwrap();
    verisum([s("untag"), s("-q"), through.clone()]).clean();
    verisum([s("tag"), s("-q"), path("link/")]).clean();
    let ended = verisum([s("verify"), s("-v"), path("link/")]);
    assert!(ended.out().contains(&format!("{}", through.display())), "{}", ended.out());
}

/// URLs are always addresses, also where a local path is spelled like one.
#[test]
fn commands_of_this_machine_refuse_urls_before_they_open_anything() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["s3:/b", "ssh:/b"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("k"), "1").unwrap();
    }
    let own = folder.path().join("s3:/b/k");
    let run = |words: &str, place: &str| {
        run(command(VERISUM).args(words.split(' ')).arg(place).current_dir(folder.path()))
    };
    let both = ["tag", "verify", "status", "untag", "retag --from sha256 --to md5", "adopt", "tags list"];
    let both = both.into_iter().chain(["bag create", "image info", "check -C"]);
    let both = both.chain(["repair --tags . --parity", "scrub . --parity", "scrub . --repair --keep-bad"]);
    let only_ssh = ["image sum", "image map --output m", "image diff s3:/b/k"];
    let all = both.flat_map(|words| [(words, "s3://b/k"), (words, "ssh://b/k")]);
    for (words, place) in all.chain(only_ssh.map(|words| (words, "ssh://b/k"))) {
        let ended = run(words, place);
        assert_eq!(ended.code, Some(2), "{words} {place}: {}{}", ended.out(), ended.stderr);
        let why = format!("verisum: PLACE: {place}: must be on this machine: ");
        assert!(ended.stderr.starts_with(&why), "{words}: {}", ended.stderr);
    }
    // What no command takes is no file that is missing.
    for words in ["report", "schedule --catalog c.db", "scrub --catalog c.db", "sum"] {
        let ended = run(words, "s4://b/k");
        let why = "verisum: PLACE: s4://b/k: no place has this scheme";
        assert!(ended.code == Some(2) && ended.stderr.starts_with(why), "{words}: {}", ended.stderr);
    }
    assert_eq!(attribute(&own, "user.verisum.sha256"), None);
    assert_eq!(run("tag", "./s3:/b/k").code, Some(0));
    // Other programs' names take what they always took.
    let sum = run("sum --files0-from", "/dev/null");
    assert_eq!(sum.code, Some(0), "{}", sum.stderr);
}
