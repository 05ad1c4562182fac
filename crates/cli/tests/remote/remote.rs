//! Trees on other machines, against a real sshd on this machine that lets in a user without rights.

use crate::common;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::sshd::{RUN, Sshd, forced, sshd};
use common::trees::{assert_lists, expected, place, tree};
use common::{Ended, VERISUM, command, verisum, wait_until, with_pipe};
use tempfile::TempDir;
use verisum_testkit::{require_python, require_tool, write_script};

/// `sum -z` of this machine by one way, with only these programs to be found.
fn local(way: &str, path: &OsStr, folder: &Path) -> Ended {
    let mut command = command(VERISUM);
    command.args(["sum", "-z", "--way", way]).arg(place("local:", folder)).env("PATH", path);
    Ended::of(command.output().unwrap())
}

/// A folder that has only these programs.
fn programs(names: &[(&str, &Path)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, target) in names {
        symlink(target, folder.path().join(name)).unwrap();
    }
    folder
}

/// The same with the tools that list and give names to programs.
fn with_find(program: &str, target: &Path) -> Option<TempDir> {
    let (find, xargs) = (require_tool("find")?, require_tool("xargs")?);
    Some(programs(&[("find", &find), ("xargs", &xargs), (program, target)]))
}

#[test]
fn each_way_alone_gives_the_digests_of_all_files() {
    let folder = tree();
    let expected = expected(folder.path());
    let tool = |program: &str| with_find(program, &require_tool(program)?);
    let busybox = || {
        let busybox = require_tool("busybox")?;
        Some(programs(&["find", "xargs", "stat", "sha256sum", "cat"].map(|name| (name, busybox.as_path()))))
    };
    let python = || Some(programs(&[("python3", &require_python()?)]));
    let ways: [(&str, Option<TempDir>); 6] = [
        ("coreutils", tool("sha256sum")),
        ("busybox", busybox()),
        (
            "shasum",
            require_tool("perl").and_then(|perl| {
                let folder = tool("shasum")?;
                symlink(perl, folder.path().join("perl")).unwrap();
                Some(folder)
            }),
        ),
        ("openssl", tool("openssl")),
        ("perl", require_tool("perl").map(|perl| programs(&[("perl", &perl)]))),
        ("python", python()),
    ];
    for (way, path) in ways {
        let Some(path) = path else { continue };
        let ended = local(way, path.path().as_os_str(), folder.path());
        assert_lists(&ended, 0, &expected, way);
        assert!(ended.stderr.starts_with(&format!("verisum: local: sha256 by {way}")), "{}", ended.stderr);
    }
    let own = programs(&[("verisum", Path::new(VERISUM))]);
    let ended = local("verisum", own.path().as_os_str(), folder.path());
    assert_lists(&ended, 0, &expected, "verisum");
    assert!(!folder.path().join("made").exists() && !Path::new("made").exists());
}

#[test]
fn programs_of_the_bsds_and_solaris_are_understood() {
    let folder = tree();
    let expected = expected(folder.path());
    let sum = require_tool("sha256sum").unwrap();
    let sum = sum.display();
    // As FreeBSD, macOS and OpenBSD write; and Solaris with -v; and OpenSSL before 1.1.
    let bsd = format!(
        "#!/bin/sh\nif [ $# -eq 0 ]; then r=$({sum}); echo \"${{r%% *}}\"; exit; fi\n\
         for f do r=$({sum} <\"$f\") || continue; printf 'SHA256 (%s) = %s\\n' \"$f\" \"${{r%% *}}\"; done\n"
    );
    let digest = format!(
        "#!/bin/sh\nif [ \"$1\" = -v ]; then shift 3; else r=$({sum}); echo \"${{r%% *}}\"; exit; fi\n\
         for f do r=$({sum} <\"$f\") || continue; printf 'sha256 (%s) = %s\\n' \"$f\" \"${{r%% *}}\"; done\n"
    );
    let openssl = format!(
        "#!/bin/sh\n[ \"$2\" = -r ] && exit 1\nshift 2\n\
         if [ $# -eq 0 ]; then r=$({sum}); echo \"(stdin)= ${{r%% *}}\"; exit; fi\n\
         for f do r=$({sum} <\"$f\") || continue; printf 'SHA256(%s)= %s\\n' \"$f\" \"${{r%% *}}\"; done\n"
    );
    for (way, program, text) in
        [("bsd", "sha256", bsd), ("digest", "digest", digest), ("openssl", "openssl", openssl)]
    {
        let Some(path) = with_find("cat", &require_tool("cat").unwrap()) else { return };
        write_script(path.path().join(program), &text);
        let ended = local(way, path.path().as_os_str(), folder.path());
        assert_lists(&ended, 0, &expected, way);
    }
}

#[test]
fn the_way_is_said_once_if_files_are_left_out() {
    let folder = tree();
    let ended = verisum(
        ["sum", "--exclude", "none", "-a", "md5"]
            .map(OsStr::new)
            .into_iter()
            .chain([&*place("local:", folder.path())]),
    );
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(0), 1), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("verisum: local: md5 by "), "{}", ended.stderr);
}

#[test]
fn a_way_that_lies_is_not_used() {
    let folder = tree();
    let Some(path) = with_find("openssl", &require_tool("openssl").unwrap()) else { return };
    // Right for "abc" alone, and a constant for all else.
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    write_script(path.path().join("sha256sum"), &format!("#!/bin/sh\necho '{known}  -'\n"));
    let mut command = command(VERISUM);
    command.args(["sum", "-z"]).arg(place("local:", folder.path())).env("PATH", path.path());
    let ended = Ended::of(command.output().unwrap());
    assert_lists(&ended, 0, &expected(folder.path()), "");
    assert!(
        ended.stderr.contains("coreutils (sha256sum -z) is not used: it gives wrong digests"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("sha256 by openssl"), "{}", ended.stderr);
    let ended = local("coreutils", path.path().as_os_str(), folder.path());
    assert_eq!((ended.code, ended.stdout.len()), (Some(3), 0));
    assert!(ended.stderr.contains("nothing there computes sha256 among coreutils"), "{}", ended.stderr);
}

#[test]
fn a_program_that_turns_bad_is_noticed() {
    let folder = tree();
    let Some(path) = with_find("cat", &require_tool("cat").unwrap()) else { return };
    let sum = require_tool("sha256sum").unwrap();
    // Right in the probe, and for nothing but an empty file afterwards.
    let text = format!(
        "#!/bin/sh\ncase $# in 0) exec {sum} ;; 1 | 2) exec {sum} \"$@\" ;; esac\nprintf 'nonsense\\n'\n",
        sum = sum.display()
    );
    write_script(path.path().join("sha256sum"), &text);
    let ended = local("coreutils", path.path().as_os_str(), folder.path());
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("unexpected"), "{}", ended.stderr);
}

#[test]
fn lists_are_checked_and_each_trouble_has_its_word() {
    let folder = tree();
    let path = |name: &str| folder.path().join(name);
    let list = path("list");
    let mut text = verisum([OsStr::new("sum"), OsStr::new("-r"), folder.path().as_os_str()]).stdout;
    fs::write(path("file-3"), "other").unwrap();
    fs::remove_file(path("file-4")).unwrap();
    fs::remove_file(path("file-5")).unwrap();
    fs::create_dir(path("file-5")).unwrap();
    fs::remove_file(path("file-6")).unwrap();
    assert!(Command::new("mkfifo").arg(path("file-6")).status().unwrap().success());
    text.extend_from_slice(b"nonsense\n");
    fs::write(&list, &text).unwrap();
    for way in ["coreutils", "perl", "python", "openssl"] {
        let ended = verisum([
            OsStr::new("check"),
            OsStr::new("--way"),
            OsStr::new(way),
            OsStr::new("--quiet"),
            list.as_os_str(),
            &place("local:", Path::new("/")),
        ]);
        assert_eq!(ended.code, Some(1), "{way}: {}", ended.stderr);
        let results = String::from_utf8_lossy(&ended.stdout);
        let mut results: Vec<&str> = results.lines().map(|line| line.rsplit('/').next().unwrap()).collect();
        results.sort_unstable();
        let unread = "FAILED open or read";
        let wanted = [
            "file-3: FAILED".to_string(),
            format!("file-4: {unread}"),
            format!("file-5: {unread}"),
            format!("file-6: {unread}"),
        ];
        assert_eq!(results, wanted, "{way}: {}", ended.stderr);
        for what in [
            "file-4: No such file or directory",
            "file-5: Is a directory",
            "file-6: not a regular file",
            "1 line is improperly formatted",
        ] {
            assert!(ended.stderr.contains(what), "{way}: {what}: {}", ended.stderr);
        }
    }
}

#[test]
fn named_files_are_hashed_and_json_is_a_list_that_can_be_checked() {
    let folder = tree();
    let mut child = command(VERISUM)
        .args(["sum", "--json", "--files0-from=-", "--relative"])
        .arg(place("local:", folder.path()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"file-1\0./a b/$c'/\xff\xfe\0none\0").unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("none: No such file or directory"), "{}", ended.stderr);
    let lines: Vec<serde_json::Value> =
        ended.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{}", ended.out());
    assert_eq!((&lines[0]["host"], &lines[0]["path"]), (&"local".into(), &"file-1".into()));
    // A list that can be opened and not read.
    let mut unread = command(VERISUM);
    unread.args(["sum", "--files0-from"]).arg(folder.path()).arg(place("local:", folder.path()));
    let unread = Ended::of(unread.output().unwrap());
    assert_eq!((unread.code, unread.out()), (Some(3), ""));
    assert!(unread.stderr.ends_with(": read: Is a directory\n"), "{}", unread.stderr);
    let list = folder.path().join("list.json");
    fs::write(&list, &ended.stdout).unwrap();
    let checked = command(VERISUM).arg("check").arg(&list).current_dir(folder.path()).output().unwrap();
    assert_eq!(Ended::of(checked).code, Some(0));
}

#[test]
fn files_of_a_host_are_hashed_over_one_connection() {
    let Some(server) = forced(&format!("printf Welcome; echo Hello >&2; {RUN}")) else { return };
    let folder = tree();
    let ended = server.run(server.remote("sum").arg("-z").arg(place("web1:", folder.path())));
    assert_lists(&ended, 0, &expected(folder.path()), &server.log());
    assert!(ended.stderr.starts_with("verisum: web1: sha256 by "), "{}", ended.stderr);
    assert_eq!(server.log().matches("Accepted publickey").count(), 1, "{}", server.log());
}

#[test]
fn several_hosts_have_their_names_before_those_of_files() {
    let Some(server) = sshd("") else { return };
    let folder = tree();
    let file = folder.path().join("file-1");
    let hosts = server.path("hosts");
    fs::write(&hosts, "web1 # the first\n\nweb2\ndown\n").unwrap();
    let ended = server.run(server.remote("sum").arg("--hosts").arg(&hosts).arg(&file));
    assert_eq!(ended.code, Some(3));
    let mut lines: Vec<&str> = ended.out().lines().map(|line| line.split_once("  ").unwrap().1).collect();
    lines.sort_unstable();
    let name = file.display();
    assert_eq!(lines, [format!("web1:{name}"), format!("web2:{name}")]);
    assert!(ended.stderr.contains("verisum: down: connect: "), "{}", ended.stderr);
}

#[test]
fn hosts_that_do_not_let_in_are_told_apart() {
    let Some(server) = sshd("") else { return };
    let sum = |address: &str| server.run(server.remote("sum").arg(address));
    // A name with a colon may be of a file here that was mistyped.
    let (refused, no_file) = ("Connection refused", "; no file is called down:30:00.txt here");
    for (address, why) in [
        ("down:30:00.txt", format!("{refused}{no_file}\n")),
        ("down:/30:00.txt", format!("{refused}\n")),
        ("ssh://down/~/30:00.txt", format!("{refused}\n")),
    ] {
        let ended = sum(address);
        assert!(ended.stderr.ends_with(&why) && ended.code == Some(3), "{address}: {}", ended.stderr);
    }
    let ended = |host: &str| sum(&format!("{host}:/etc/passwd"));
    for (host, what) in [
        ("stranger", "log in: nobody@127.0.0.1: Permission denied"),
        ("new", "log in: Host key verification failed"),
        ("down", "connect: ssh: connect to host 127.0.0.1 port 1: Connection refused"),
    ] {
        let ended = ended(host);
        assert_eq!((ended.code, ended.out()), (Some(3), ""));
        assert!(ended.stderr.starts_with(&format!("verisum: {host}: {what}")), "{}", ended.stderr);
    }
}

#[test]
fn what_the_user_may_not_read_is_named_and_nothing_looks_clean() {
    let Some(server) = sshd("") else { return };
    let folder = tree();
    fs::set_permissions(folder.path().join("file-1"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(folder.path().join("closed")).unwrap();
    fs::set_permissions(folder.path().join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut expected = expected(folder.path());
    expected.remove(folder.path().join("file-1").to_str().unwrap());
    for way in ["coreutils", "perl"] {
        let ended =
            server.run(server.remote("sum").args(["-z", "--way", way]).arg(place("web1:", folder.path())));
        assert_lists(&ended, 3, &expected, way);
        assert!(ended.stderr.contains("file-1: Permission denied"), "{}", ended.stderr);
        assert!(ended.stderr.contains("closed"), "{}", ended.stderr);
    }
}

#[test]
fn a_lost_connection_is_made_again_and_no_file_is_lost_or_listed_twice() {
    let folder = tree();
    // The commands that are cut off, with the whole connection: a server is the first that is started, and
    // tools come after the probe.
    for (way, cut) in [("coreutils", "1 | 2"), ("perl", "0 | 1"), ("verisum", "0 | 1")] {
        let Some(server) = forced(RUN) else { return };
        let marker = server.path("cut");
        let forced = format!(
            "read -r a b c sshd rest </proc/$PPID/stat; case $b in '(sshd'*) sshd=$PPID ;; esac\n\
             n=$(ls {0} | wc -l); : > {0}/$n\n\
             case $n in\n{cut}) /bin/sh -c \"$SSH_ORIGINAL_COMMAND\" |\n\
             {{ dd bs=1 count=3000 2>/dev/null; kill -9 $sshd; }} ;;\n*) {RUN} ;;\nesac\n",
            marker.display()
        );
        fs::create_dir(&marker).unwrap();
        fs::set_permissions(&marker, fs::Permissions::from_mode(0o777)).unwrap();
        server.force(&forced);
        let mut command = server.remote("sum");
        command.args(["-z", "--push", "--way", way]).arg(place("web1:", folder.path()));
        let ended = server.run(&mut command);
        assert!(ended.stderr.contains("connection lost"), "{way}: {}", ended.stderr);
        assert_lists(&ended, 0, &expected(folder.path()), way);
    }
}

#[test]
fn a_connection_that_is_lost_again_before_any_file_is_made_again() {
    let folder = tree();
    let Some(server) = forced(RUN) else { return };
    let marker = server.path("cut");
    fs::create_dir(&marker).unwrap();
    fs::set_permissions(&marker, fs::Permissions::from_mode(0o777)).unwrap();
    // Of each connection the probe is the first command, and the listing, of which nothing comes, the second.
    let lost_by = |listings: &str| {
        server.force(&format!(
            "read -r a b c sshd rest </proc/$PPID/stat; case $b in '(sshd'*) sshd=$PPID ;; esac\n\
             n=$(ls {0} | wc -l); : > {0}/$n\n\
             case $n in\n{listings}) kill -9 $sshd ;;\n*) {RUN} ;;\nesac\n",
            marker.display()
        ));
        let mut command = server.remote("sum");
        command.args(["-z", "--way", "coreutils"]).arg(place("web1:", folder.path()));
        let ended = server.run(&mut command);
        fs::read_dir(&marker).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
        ended
    };
    let ended = lost_by("1 | 3");
    assert_eq!(ended.stderr.matches("connecting again").count(), 2, "{}", ended.stderr);
    assert_lists(&ended, 0, &expected(folder.path()), "");
    let ended = lost_by("1 | 3 | 5 | 7");
    assert_eq!((ended.code, ended.out()), (Some(3), ""), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("connecting again").count(), 2, "{}", ended.stderr);
}

#[test]
fn a_pushed_verisum_leaves_nothing_behind() {
    let Some(server) = forced(RUN) else { return };
    let folder = tree();
    let there = server.path("there");
    fs::create_dir(&there).unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o777)).unwrap();
    let forced = format!(
        "export TMPDIR={} PATH=/usr/bin:/bin; exec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
        there.display()
    );
    server.force(&forced);
    let ended = server.run(
        server.remote("sum").args(["-z", "--push", "--way", "verisum"]).arg(place("web1:", folder.path())),
    );
    assert_lists(&ended, 0, &expected(folder.path()), "");
    assert!(ended.stderr.contains("sha256 by verisum (pushed)"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
    // Cut off while it is copied.
    let forced = format!(
        "export TMPDIR={} PATH=/usr/bin:/bin\ndd bs=1 count=100000 2>/dev/null | /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"; kill -9 $PPID\n",
        there.display()
    );
    server.force(&forced);
    let ended = server
        .run(server.remote("sum").args(["--push", "--way", "verisum"]).arg(place("web1:", folder.path())));
    assert_eq!(ended.code, Some(3));
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
}

#[test]
fn digests_of_blocks_have_one_text_wherever_the_file_is() {
    let Some(server) = forced(RUN) else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, vec![7; (5 << 19) + 1]).unwrap();
    let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let there = place("web1:", folder.path());
    for digest in ["s3-etag:1M", "s3-sha256:1M", "ipfs"] {
        let list = verisum(["sum", "--tag", "-a", digest, file.to_str().unwrap()]).clean();
        let text = list.trim_end().rsplit(' ').next().unwrap();
        assert!(text.ends_with("-3") || digest == "ipfs" && text.starts_with('b'), "{text}");
        let run = |verb: &str, words: &[&str]| {
            let pushed = ["--push", "--way", "verisum", "-a", digest];
            let ended = server.run(server.remote(verb).args(pushed).args(words).arg(&there));
            assert_eq!(ended.code, Some(0), "{digest} {verb}: {}{}", ended.out(), ended.stderr);
            ended.out().to_string()
        };
        assert_eq!(run("sum", &["--tag"]), list);
        let json = run("sum", &["--json"]);
        assert_eq!(of(json.lines().next().unwrap())["digests"][digest], text, "{json}");
        let json = run("compare", &["--json", "--verbose", folder.path().to_str().unwrap()]);
        let line = of(json.lines().next().unwrap());
        assert_eq!([&line["a"]["digest"], &line["b"]["digest"]], [text, text], "{json}");
    }
}

#[test]
fn a_host_whose_shell_hangs_is_given_up() {
    let Some(server) = forced("exec sleep 300\n") else { return };
    // As long as ssh may take to connect, and as long again for the shell.
    let ended = server.run(server.remote("sum").args(["--timeout", "5s", "web1:/etc"]));
    assert_eq!((ended.code, ended.out()), (Some(3), ""));
    assert_eq!(ended.stderr, "verisum: web1: connect: it does not answer\n");
}

#[test]
fn sockets_go_also_when_the_program_is_killed() {
    let Some(server) = forced("exec sleep 300\n") else { return };
    let mut child = server.remote("sum").arg("web1:/etc").stderr(Stdio::null()).spawn().unwrap();
    let temporary = server.path("tmp");
    let count = || fs::read_dir(&temporary).unwrap().count();
    // Between making the folder and starting the shell that removes it is a moment in which it would stay.
    let is_connected = || {
        let folders = fs::read_dir(&temporary).unwrap();
        folders
            .flatten()
            .any(|folder| fs::read_dir(folder.path()).is_ok_and(|mut within| within.next().is_some()))
    };
    wait_until("there is a socket", is_connected);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("its folder is gone", || count() == 0);
}

#[test]
fn only_addresses_are_taken_for_places_on_hosts() {
    // No host has such a name: these are files that are not here.
    for name in ["-oProxyCommand=x:/", "a b:/", "./web:/"] {
        let ended = verisum(["sum", "--", name]);
        assert_eq!((ended.code, ended.out()), (Some(3), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("No such file or directory"), "{}", ended.stderr);
    }
    let ended = verisum(["sum", "--", "ssh://h:0/"]);
    assert_eq!((ended.code, ended.out()), (Some(2), ""), "{}", ended.stderr);
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("10:30:00.txt");
    fs::write(&name, "abc").unwrap();
    let mut here = command(VERISUM);
    let ended = here.args(["sum", "10:30:00.txt"]).current_dir(folder.path()).output().unwrap();
    assert!(Ended::of(ended).clean().ends_with("  10:30:00.txt\n"));
    // Names from a list are never addresses.
    let ended = with_pipe(command(VERISUM).args(["sum", "--files0-from=-"]), b"web:/etc/passwd\0");
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("No such file or directory"), "{}", ended.stderr);
    let ended = verisum(["sum", "--way", "magic", "local:."]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn login_shells_of_all_kinds_do() {
    let folder = tree();
    let expected = expected(folder.path());
    for shell in ["bash", "dash", "csh", "fish"] {
        let Some(shell) = require_tool(shell) else { continue };
        let Some(server) = Sshd::start(&shell, "") else { return };
        let ended = server.run(server.remote("sum").arg("-z").arg(place("web1:", folder.path())));
        assert_lists(&ended, 0, &expected, &shell.display().to_string());
    }
}

#[test]
fn two_trees_are_compared_by_what_is_in_them() {
    let (one, other) = (tree(), tree());
    let compare = |more: &[&str], a: &Path, b: &Path| {
        let mut command = command(VERISUM);
        command.args(["compare"]).args(more).arg(a).arg(place("local:", b));
        Ended::of(command.output().unwrap())
    };
    let ended = compare(&[], one.path(), other.path());
    assert_eq!((ended.code, ended.out()), (Some(0), ""), "{}", ended.stderr);
    assert!(ended.stderr.ends_with("verisum: 213 the same\n"), "{}", ended.stderr);
    fs::write(other.path().join("file-7"), vec![8; 7 * 37]).unwrap();
    fs::write(other.path().join("file-8"), "short").unwrap();
    fs::remove_file(other.path().join("file-9")).unwrap();
    fs::write(other.path().join("more"), "").unwrap();
    let expected = "file-7: DIFFERS\nfile-8: DIFFERS\nfile-9: MISSING\nmore: EXTRA\n";
    for way in ["coreutils", "busybox", "python", "perl"] {
        let ended = compare(&["--way", way], one.path(), other.path());
        assert_eq!((ended.code, ended.out()), (Some(1), expected), "{way}: {}", ended.stderr);
    }
    let time = fs::metadata(one.path().join("file-7")).unwrap().modified().unwrap();
    fs::File::options().write(true).open(other.path().join("file-7")).unwrap().set_modified(time).unwrap();
    let ended = compare(&["--quick", "--json"], one.path(), other.path());
    assert_eq!(ended.code, Some(1));
    let names: Vec<_> = ended
        .out()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["path"].clone())
        .collect();
    assert_eq!(names, ["file-8".into(), "file-9".into(), "more".into(), serde_json::Value::Null]);
}

#[test]
fn files_here_and_on_hosts_are_summed_in_one_run() {
    let folder = tree();
    let file = folder.path().join("file-1");
    let there = place("local:", &folder.path().join("file-2"));
    let ended = verisum([OsStr::new("sum"), file.as_os_str(), &there]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let names: Vec<&str> = ended.out().lines().filter_map(|line| line.rsplit('/').next()).collect();
    assert_eq!(names, ["file-1", "file-2"], "{}", ended.out());
    let ended = verisum([OsStr::new("sum"), OsStr::new("--follow-links"), &there]);
    ended.failed(2, "verisum: --follow-links: not for files on other machines");
    // Also of the order that files have here without it: there they have it only by some programs.
    let ended = verisum([OsStr::new("sum"), OsStr::new("--order=name"), &there]);
    ended.failed(2, "verisum: --order: not for files on other machines");
}
