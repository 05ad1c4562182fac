//! Trees on hosts that lie, fall silent, or lose what they work with; and its end before theirs.

use crate::common;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::sshd::{RUN, Sshd, forced, sshd};
use common::{Ended, VERISUM, command, is_ignored, signal, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use verisum_testkit::{require_tool, skip, write_script};

/// What a script has to do to be taken for the shell that was asked for.
const GREETING: &str = "while IFS= read -r l; do [ \"$l\" = '#end' ] && break; done\n\
    printf '@verisum@\\n'; printf '@verisum@\\n' >&2\n";

/// A directory with some files, in which everybody may write.
fn tree() -> TempDir {
    let folder = tempfile::Builder::new().prefix("verisum-files-").tempdir().unwrap();
    open(folder.path());
    for name in ["a", "b", "c", "d", "e"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    folder
}

fn open(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
}

fn script(folder: &Path, name: &str, text: &str) {
    write_script(folder.join(name), &format!("#!/bin/sh\n{text}"));
}

/// The programs that the coreutils' way needs, and a `sha256sum` that does this when it is given files.
fn with_sum(instead: &str) -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path());
    for name in ["find", "xargs", "sleep", "cat"] {
        symlink(require_tool(name)?, folder.path().join(name)).unwrap();
    }
    let real = require_tool("sha256sum")?;
    let real = real.display();
    let text = format!("if [ $# -gt 2 ]; then\n{instead}\nfi\nexec {real} \"$@\"\n")
        .replace("REAL", &real.to_string());
    script(folder.path(), "sha256sum", &text);
    Some(folder)
}

/// `sum` of this machine with only these programs.
fn local(programs: &Path, more: &[&str], place: &Path) -> Command {
    let mut address = OsString::from("local:");
    address.push(place);
    let mut command = command(VERISUM);
    command.args(["sum"]).args(more).arg(address).env("PATH", programs);
    command
}

#[track_caller]
fn assert_fails(ended: &Ended, code: i32, what: &str) {
    assert!(ended.stderr.contains(what), "{what}: {}", ended.stderr);
    assert_eq!((ended.code, ended.out()), (Some(code), ""), "{}", ended.stderr);
}

/// The names of files in a directory, which are numbers of processes.
fn numbers(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Processes in whose words this stands.
fn with_word(word: &Path) -> Vec<PathBuf> {
    let word = word.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has = |path: &PathBuf| {
        fs::read(path.join("cmdline")).is_ok_and(|words| words.windows(word.len()).any(|part| part == word))
    };
    processes.filter(has).collect()
}

fn is_running(number: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{number}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

/// Runs a command at a terminal of its own.
fn at_terminal(server: &Sshd, words: &str) -> Option<Child> {
    let mut command = Command::new(require_tool("script")?);
    command.args(["-qc", words, "/dev/null"]).env("TMPDIR", server.path("tmp"));
    Some(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
}

/// A `sha256sum` that reads for ever once it is given files, and leaves its number in a directory.
fn endless(numbers: &Path) -> Option<TempDir> {
    with_sum(&format!(": > {}/$$\nexec sleep 1000", numbers.display()))
}

#[test]
fn nothing_is_left_here_or_there_when_the_program_is_ended() {
    let Some(server) = forced(RUN) else { return };
    let (folder, pids) = (tree(), tempfile::tempdir().unwrap());
    open(pids.path());
    let Some(programs) = endless(pids.path()) else { return };
    server.force(&format!("export PATH={}; {RUN}", programs.path().display()));
    let place = format!("web1:{}", folder.path().display());
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL];
    let mut over_ssh: Vec<Child> = Vec::new();
    for _ in signals {
        let mut command = server.remote("sum");
        over_ssh.push(command.arg(&place).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    let mut here = local(programs.path(), &[], folder.path());
    let mut here = here.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("all are read", || numbers(pids.path()).len() == signals.len() + 1);
    assert!(!with_word(&server.path("tmp")).is_empty());
    for (child, kind) in over_ssh.iter_mut().zip(signals) {
        signal(child, kind);
        child.wait().unwrap();
    }
    signal(&here, Signal::KILL);
    here.wait().unwrap();
    wait_until("ssh has ended", || with_word(&server.path("tmp")).is_empty());
    wait_until("the folders are gone", || fs::read_dir(server.path("tmp")).unwrap().count() == 0);
    wait_until("nobody reads", || !numbers(pids.path()).iter().any(|number| is_running(number)));
}

#[test]
fn another_signal_ends_a_scrub_that_waits_for_a_silent_host() {
    if is_ignored(Signal::INT) {
        return skip("SIGINT is ignored here");
    }
    let folder = tempfile::tempdir().unwrap();
    let called = folder.path().join("called");
    // It does not go with the first signal either.
    let text = format!("trap '' INT\necho $$ > {0}.new; mv {0}.new {0}\nexec sleep 1000", called.display());
    script(folder.path(), "ssh", &text);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut scrub = command(VERISUM);
    scrub.args(["scrub", "web1:/srv", "--catalog"]).arg(folder.path().join("c.db")).env("PATH", path);
    let mut child = scrub.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it waits for the host", || called.exists());
    signal(&child, Signal::INT);
    // Sooner, it would be taken for the same one.
    std::thread::sleep(Duration::from_millis(150));
    assert!(child.try_wait().unwrap().is_none());
    wait_until("it ends", || {
        signal(&child, Signal::INT);
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    let ssh = fs::read_to_string(&called).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(ssh).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn nothing_is_left_either_where_passwords_could_be_asked_for() {
    let Some(server) = forced(RUN) else { return };
    let (folder, pids) = (tree(), tempfile::tempdir().unwrap());
    open(pids.path());
    let Some(programs) = endless(pids.path()) else { return };
    server.force(&format!("export PATH={}; {RUN}", programs.path().display()));
    fs::create_dir(server.path("tmp")).unwrap();
    let (config, folder) = (server.path("config"), folder.path().display());
    let words = format!("exec {VERISUM} sum --ssh-config {} web1:{folder}", config.display());
    let Some(mut terminal) = at_terminal(&server, &words) else { return };
    wait_until("all are read", || numbers(pids.path()).len() == 1);
    let is_ours = |path: &PathBuf| fs::read_link(path.join("exe")).is_ok_and(|exe| exe == Path::new(VERISUM));
    let ours: Vec<PathBuf> = with_word(&config).into_iter().filter(is_ours).collect();
    let [ours] = &ours[..] else { panic!("{ours:?}") };
    let number = ours.file_name().unwrap().to_str().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
    wait_until("ssh has ended", || with_word(&server.path("tmp")).is_empty());
    wait_until("nobody reads", || !numbers(pids.path()).iter().any(|number| is_running(number)));
    terminal.wait().unwrap();
}

#[test]
fn names_that_were_not_asked_for_are_refused() {
    let folder = tree();
    let root = folder.path().display().to_string();
    let Some(programs) = with_sum(":") else { return };
    fs::remove_file(programs.path().join("find")).unwrap();
    script(
        programs.path(),
        "find",
        "case $* in *prune*) printf x ;; *) printf '3 5.5 %s\\0' \"$LIE\" ;; esac\n",
    );
    let lie = |name: &str| {
        Ended::of(
            local(programs.path(), &["--way", "coreutils"], folder.path()).env("LIE", name).output().unwrap(),
        )
    };
    for name in
        ["/etc/passwd", "a", "", "ROOT/../x", "ROOT/./a", "ROOT//a", "ROOT/", "ROOTx", "x\n/etc/passwd"]
    {
        assert_fails(&lie(&name.replace("ROOT", &root)), 3, "read its answers: unexpected from find: 3 5.5 ");
    }
    let ended = lie(&format!("{root}/a"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // The first ends the list, and the second comes after it.
    let twice = "case $* in *prune*) printf x ;; *) printf 'end 0\\0' ;; esac\n";
    script(programs.path(), "find", twice);
    assert_fails(&lie(""), 3, "read its answers: find goes on after its end");
    let twice = "case $* in *prune*) printf x ;; *) printf '3 5.5 %s\\0' \"$LIE\" \"$LIE\" ;; esac\n";
    script(programs.path(), "find", twice);
    let mut command = command(VERISUM);
    let place = format!("local:{root}");
    command.args(["compare", "--way", "coreutils", &place, &place]).env("PATH", programs.path());
    let ended = Ended::of(command.env("LIE", format!("{root}/a")).output().unwrap());
    assert_fails(&ended, 3, "/a is listed twice");
}

#[test]
fn a_server_that_lists_what_was_not_asked_for_is_refused() {
    let Some(python) = require_tool("python3") else { return };
    // What PATH leads to may be a script that needs other programs.
    let python = Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    let (folder, programs) = (tree(), tempfile::tempdir().unwrap());
    let root = folder.path().display().to_string();
    let program = "import hashlib, os, sys
def put(*a):
    sys.stdout.buffer.write(b'\\t'.join(a) + b'\\0'); sys.stdout.buffer.flush()
put(b'verisum-remote 1')
d = b''
while True:
    b = os.read(0, 65536)
    if not b: break
    d += b
    if d.startswith(b'test\\0') and d.count(b'\\0') == 2:
        put(b't', *[hashlib.sha256(v).hexdigest().encode() for v in (b'abc', bytes(range(256)), b'')])
    elif d.startswith(b'tree\\0') and d.count(b'\\0') == 4:
        for n in os.environb[b'LIE'].split(b' '): put(b'f', b'3', b'5', b'0' * 64, b'-', n)
    else: continue
    put(b'end'); d = b''
";
    fs::write(programs.path().join("program"), program).unwrap();
    let run = format!("exec {} {}/program\n", python.trim(), programs.path().display());
    script(programs.path(), "verisum", &run);
    let lie = |names: &str| {
        let mut command = local(programs.path(), &["--way", "verisum"], folder.path());
        Ended::of(command.env("LIE", names.replace("ROOT", &root)).output().unwrap())
    };
    for name in ["/etc/passwd", "ROOT/../x", "ROOT//a", ""] {
        assert_fails(&lie(name), 3, "read its answers: unexpected record: f\\t3\\t5\\t");
    }
    let ended = lie("ROOT/a ROOT/b ROOT/b");
    assert_eq!((ended.code, ended.out().lines().count()), (Some(3), 2), "{}", ended.stderr);
    assert!(ended.stderr.contains("unexpected record"), "{}", ended.stderr);
    assert_eq!(lie("ROOT/a ROOT/b").code, Some(0));
}

#[test]
fn a_probe_without_an_end_is_given_up() {
    let Some(server) = forced(&format!("{GREETING}while :; do echo rejected 1; done\n")) else { return };
    let ended = server.run(server.remote("sum").arg("web1:/etc"));
    assert_fails(&ended, 3, "web1: read its answers: the probe does not end");
}

#[test]
fn hosts_that_fall_silent_are_given_up() {
    let folder = tree();
    let silent = |what: &str| {
        let server = forced(&format!("{GREETING}{what}\n"))?;
        Some(server.run(server.remote("sum").args(["--timeout", "5s", "web1:/etc"])))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let Some(ended) = silent("exec sleep 300") else { return };
            assert_fails(&ended, 3, "web1: wait for its answers: nothing came for 20 s");
        });
        scope.spawn(|| {
            let Some(ended) = silent("while sleep 1; do echo still here >&2; done") else { return };
            assert_fails(&ended, 3, "web1: wait for its answers: nothing came for 20 s");
        });
        // Two files, and nothing more.
        let Some(programs) = with_sum("REAL \"$1\" \"$2\" \"$3\" \"$4\"; exec sleep 1000") else { return };
        let ended = Ended::of(local(programs.path(), &["--timeout", "1s"], folder.path()).output().unwrap());
        assert_eq!((ended.code, ended.out().lines().count()), (Some(3), 2), "{}", ended.stderr);
        assert!(ended.stderr.contains("wait for its answers: nothing came for 12 s"), "{}", ended.stderr);
    });
}

#[test]
fn places_that_are_neither_files_nor_directories_are_named() {
    let folder = tree();
    let path = |name: &str| folder.path().join(name);
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    symlink("nowhere", path("link")).unwrap();
    let Some(programs) = with_sum(":") else { return };
    let all = std::env::var_os("PATH").unwrap();
    for (way, programs) in
        [("coreutils", programs.path()), ("perl", Path::new(&all)), ("python", Path::new(&all))]
    {
        for (name, what) in
            [("pipe", "pipe: not a regular file"), ("link", "link: No such file or directory")]
        {
            let ended = Ended::of(local(programs, &["--way", way], &path(name)).output().unwrap());
            assert_fails(&ended, 3, what);
        }
    }
}

#[test]
fn a_tool_that_dies_is_asked_again_and_named_if_that_does_not_help() {
    let folder = tree();
    let dies = "REAL \"$1\" \"$2\" \"$3\" \"$4\"; kill -9 $$";
    let Some(programs) = with_sum(dies) else { return };
    let ended = Ended::of(local(programs.path(), &[], folder.path()).output().unwrap());
    // Two at first, and two in each further attempt. It dies in the last one too.
    assert_eq!((ended.code, ended.out().lines().count()), (Some(3), 5), "{}", ended.stderr);
    for what in
        ["sha256sum -z was killed: asked again for what is left, 3", "gave all digests, and was killed"]
    {
        assert!(ended.stderr.contains(what), "{what}: {}", ended.stderr);
    }
    let Some(programs) = with_sum("kill -9 $$") else { return };
    let ended = Ended::of(local(programs.path(), &[], folder.path()).output().unwrap());
    assert_fails(&ended, 3, "/a: sha256sum -z was killed\n");
    let Some(programs) = with_sum("REAL \"$@\"; exit 1") else { return };
    let ended = Ended::of(local(programs.path(), &[], folder.path()).output().unwrap());
    assert_eq!((ended.code, ended.out().lines().count()), (Some(3), 5), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("sha256sum -z gave all digests, and ended with an error"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_connection_that_breaks_in_the_probe_is_made_again() {
    let Some(server) = forced(RUN) else { return };
    let folder = tree();
    let marker = folder.path().join("a");
    // What greets has to arrive before all is over.
    let once = format!(
        "read -r a b c sshd rest </proc/$PPID/stat; case $b in '(sshd'*) sshd=$PPID ;; esac\n\
         if [ -e {0} ]; then rm {0}; {GREETING}sleep 10; kill -9 $sshd; fi\n{RUN}",
        marker.display()
    );
    server.force(&once);
    let ended = server.run(server.remote("sum").arg(format!("web1:{}", folder.path().display())));
    assert_eq!((ended.code, ended.out().lines().count()), (Some(0), 4), "{}", ended.stderr);
    assert!(ended.stderr.contains("connecting again"), "{}", ended.stderr);
}

#[test]
fn a_host_without_its_null_device_says_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
    // Only to see whether there can be a server.
    if sshd("").is_none() {
        return;
    }
    let before = format!("mount --bind {} /dev/null", file.path().display());
    let Some(server) = Sshd::start_after(&before, Path::new("/bin/sh"), "") else { return };
    let ended = server.run(server.remote("sum").arg("web1:/etc/passwd"));
    assert_fails(&ended, 3, "web1: find a way to hash: /dev/null there cannot be read and written");
}
