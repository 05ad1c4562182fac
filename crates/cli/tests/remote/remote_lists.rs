//! Lists of several hosts: made by `verisum sum`, checked host by host by `verisum check`.

use crate::common;

use std::fs;
use std::path::Path;

use common::sshd::{Sshd, sshd};
use common::{Ended, VERISUM, command, verisum};

/// A tree that both hosts have, for they are one machine.
fn tree(server: &Sshd) -> String {
    let folder = server.path("tree");
    fs::create_dir_all(folder.join("sub")).unwrap();
    for (name, text) in [("a", "one"), ("sub/b", "two"), ("web1:c", "three")] {
        fs::write(folder.join(name), text).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn each_host_is_checked_against_its_own_lines() {
    let Some(server) = sshd("") else { return };
    let folder = tree(&server);
    let (hosts, all) = (server.path("hosts"), server.path("all"));
    fs::write(&hosts, "web1 # the first\n\nweb2\n").unwrap();
    for form in [&[][..], &["--json"], &["--tag"], &["-z"]] {
        let sum =
            server.run(server.remote("sum").args(form).arg("-q").arg("--hosts").arg(&hosts).arg(&folder));
        fs::write(&all, &sum.stdout).unwrap();
        let lines = sum.clean();
        assert_eq!(lines.matches("sub/b").count(), 2, "{lines}");
        let zero: &[&str] = if form == ["-z"] { &["-z"] } else { &[] };
        let check = |places: &[&str]| {
            let mut command = server.remote("check");
            server.run(command.arg("-q").args(zero).arg(&all).args(places))
        };
        let with_file = ["--hosts", hosts.to_str().unwrap(), "/"];
        assert_eq!(check(&with_file).clean(), "", "{form:?}");
        assert_eq!(check(&["web1:/", "web2:/"]).clean(), "", "{form:?}");

        // One line is of another file.
        let digest = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";
        let mut records: Vec<&str> = lines.split_inclusive(['\n', '\0']).collect();
        let last = records.iter().rposition(|record| record.contains(digest)).unwrap();
        let is_of = if records[last].contains("web1") { "web1" } else { "web2" };
        let wrong = records[last].replace(digest, &"0".repeat(64));
        records[last] = &wrong;
        fs::write(&all, records.concat()).unwrap();
        let ended = check(&with_file);
        assert_eq!(
            (ended.code, ended.out()),
            (Some(1), &*format!("{is_of}:{folder}/sub/b: FAILED\n")),
            "{form:?}"
        );
        let warning = format!("verisum: {is_of}:/: WARNING: 1 computed checksum did NOT match\n");
        assert!(ended.stderr.starts_with(&warning), "{}", ended.stderr);
        let alarm = format!("ssh://{is_of}{folder}/sub/b: failed\n");
        assert!(ended.stderr[warning.len()..].starts_with(&alarm), "{}", ended.stderr);
    }
}

#[test]
fn lines_of_hosts_that_are_not_asked_are_left_out_also_from_pipes() {
    let Some(server) = sshd("") else { return };
    let folder = tree(&server);
    let (hosts, all) = (server.path("hosts"), server.path("all"));
    fs::write(&hosts, "web1\nweb2\n").unwrap();
    let sum = server.run(server.remote("sum").arg("-q").arg("--hosts").arg(&hosts).arg(&folder));
    fs::write(&all, &sum.stdout).unwrap();
    let mut shell = command("/bin/sh");
    let config = server.path("config");
    shell.args(["-c", "cat \"$1\" | \"$2\" check --ssh-config \"$3\" /dev/stdin web2:/", "sh"]);
    shell.arg(&all).arg(VERISUM).arg(config);
    let ended = Ended::of(shell.output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.out().lines().count(), 3, "{}", ended.out());
    let said = "verisum: /dev/stdin: 3 lines are of hosts that are not asked\n";
    assert!(ended.stderr.starts_with(said), "{}", ended.stderr);
}

#[test]
fn a_list_that_has_only_other_hosts_is_not_checked() {
    let Some(server) = sshd("") else { return };
    let folder = tree(&server);
    let (all, only) = (server.path("all"), server.path("only"));
    let places = [format!("web1:{folder}"), format!("web2:{folder}")];
    fs::write(&all, server.run(server.remote("sum").arg("-q").args(places)).clean()).unwrap();
    let all = fs::read_to_string(all).unwrap();
    let of_one: String = all.split_inclusive('\n').filter(|line| line[66..].starts_with("web1:")).collect();
    fs::write(&only, of_one).unwrap();
    let check = |place: &str| server.run(server.remote("check").arg("-q").arg(&only).arg(place));
    let said = format!("verisum: {}: all its lines are of hosts that are not asked", only.display());
    check("web2:/").failed(3, &said);
    assert_eq!(check("web1:/").clean(), "");
    // A colon alone makes no host.
    let one = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    fs::write(server.path("tree/C:"), "one").unwrap();
    fs::write(server.path("tree/x:y"), "one").unwrap();
    fs::write(&only, format!("{one}  C:\n{one}  x:y\n")).unwrap();
    assert_eq!(check(&format!("web2:{folder}")).clean(), "");
}

#[test]
fn names_of_files_that_look_like_hosts_are_not_taken_for_any() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("tree")).unwrap();
    for name in ["f", "local:f"] {
        fs::write(path("tree").join(name), name).unwrap();
    }
    let run = |arguments: &[&str]| {
        Ended::of(command(VERISUM).args(arguments).current_dir(folder.path()).output().unwrap())
    };
    fs::write(path("list"), run(&["sum", "-r", "--relative", "tree"]).clean()).unwrap();
    let checked = |code| {
        let ended = run(&["check", "list", "local:tree"]);
        assert_eq!((ended.code, ended.out().lines().count()), (Some(code), 2), "{}", ended.out());
        ended
    };
    checked(0);
    fs::write(path("tree/local:f"), "rot").unwrap();
    assert!(checked(1).out().contains("local:f: FAILED\n"));
}

#[test]
fn files_of_this_machine_and_of_a_host_are_told_apart() {
    let Some(server) = sshd("") else { return };
    let folder = tree(&server);
    let (here, there) = (format!("{folder}/a"), format!("web1:{folder}/a"));
    let list = server.run(server.remote("sum").args(["-q", &here, &there])).clean();
    let names: Vec<&str> = list.lines().map(|line| &line[66..]).collect();
    assert_eq!(names, [&here, &there]);
    let (path, here) = (server.path("list"), format!("local:{here}"));
    let list = server.run(server.remote("sum").args(["-q", &here, &there])).clean();
    fs::write(&path, list).unwrap();
    let checked = server.run(server.remote("check").arg(&path).args(["local:/", "web1:/"]));
    assert_eq!((checked.code, checked.out().lines().count()), (Some(0), 2), "{}", checked.stderr);
}

#[test]
fn lines_without_a_host_are_for_all_of_them() {
    let Some(server) = sshd("") else { return };
    let folder = tree(&server);
    let list = server.path("list");
    fs::write(&list, verisum(["sum", "-r", &folder]).clean()).unwrap();
    let mut check = server.remote("check");
    let ended = server.run(check.arg("--json").arg(&list).args(["web1:/", "web2:/"]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.out().matches(r#""outcome":"ok""#).count(), 6, "{}", ended.out());
}

#[test]
fn names_are_told_as_the_list_has_them() {
    let Some(server) = sshd("") else { return };
    let folder = tree(&server);
    let list = server.path("list");
    let one = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    fs::write(&list, format!("{one}  a\n{one}  ./a\n{one}  {folder}/a\n")).unwrap();
    let ended = server.run(server.remote("check").arg(&list).arg(format!("web1:{folder}")));
    assert_eq!((ended.code, ended.out()), (Some(0), &*format!("a: OK\n./a: OK\n{folder}/a: OK\n")));
}

#[test]
fn nothing_is_said_of_what_is_right_and_a_host_that_fails_is_in_the_json() {
    let Some(server) = sshd("") else { return };
    let folder = tree(&server);
    let place = format!("web1:{folder}");
    let compared = server.run(server.remote("compare").arg("-q").args([&folder, &place]));
    assert_eq!(compared.clean(), "");
    let list = server.path("list");
    let listed = server.run(server.remote("sum").args(["-q", "-r", &place]));
    fs::write(&list, listed.clean()).unwrap();
    assert_eq!(server.run(server.remote("check").arg("--status").arg(&list).arg("web1:/")).clean(), "");
    let mut check = server.remote("check");
    let ended = server.run(check.arg("--json").arg(&list).args(["web1:/", "down:/"]));
    assert_eq!(ended.code, Some(3));
    let down = ended.out().lines().find(|line| line.contains(r#""host":"down""#)).unwrap();
    assert!(down.contains(r#""complete":false,"error":"connect: "#), "{down}");
}

/// What `check` prints of files here, and of the same ones in a place, without what only one of them has.
fn here_and_there(folder: &Path, options: &[&str]) -> [(Option<i32>, Vec<String>, Vec<String>); 2] {
    let run = |more: &[&str]| {
        let mut check = command(VERISUM);
        let ended = check.arg("check").args(options).args(["a.sums", "b.sums"]).args(more);
        let ended = Ended::of(ended.current_dir(folder).output().unwrap());
        let mut lines: Vec<String> = ended.out().lines().map(String::from).collect();
        lines.sort();
        let is_own =
            |line: &&str| ["mend", "sha256 by", "md5 by", "taken for"].iter().any(|word| line.contains(word));
        let said = ended.stderr.lines().filter(|line| !is_own(line));
        let mut said: Vec<String> = said.map(|line| line.replace("local:u: ", "")).collect();
        said.sort();
        (ended.code, lines, said)
    };
    [run(&["-C", "u"]), run(&["local:u"])]
}

#[test]
fn a_check_says_the_same_in_every_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("u")).unwrap();
    for name in ["good", "bad", "gone", "other"] {
        fs::write(path("u").join(name), name).unwrap();
    }
    let sum = |algorithm: &str| {
        let mut sum = command(VERISUM);
        sum.args(["sum", "-r", "--relative", "-a", algorithm, "u"]).current_dir(folder.path());
        Ended::of(sum.output().unwrap()).clean().to_string()
    };
    fs::write(path("a.sums"), sum("sha256") + "nonsense\nGOST (good) = 0123\n").unwrap();
    fs::write(path("b.sums"), sum("md5")).unwrap();
    fs::write(path("u/bad"), "b").unwrap();
    fs::remove_file(path("u/gone")).unwrap();
    let forms: [&[&str]; 7] =
        [&[], &["-w"], &["--quiet"], &["--status"], &["--strict"], &["--ignore-missing"], &["-w", "--quiet"]];
    for form in forms {
        let [here, there] = here_and_there(folder.path(), form);
        assert_eq!(here, there, "{form:?}");
    }
    let [here, there] = here_and_there(folder.path(), &["--json"]);
    assert_eq!((here.0, &here.2), (there.0, &there.2));
    let objects = |lines: &[String]| -> Vec<serde_json::Value> {
        let own = ["host", "way", "complete", "mend"];
        let object = |line: &String| {
            let mut object: serde_json::Value = serde_json::from_str(line).unwrap();
            own.iter().for_each(|key| drop(object.as_object_mut().unwrap().remove(*key)));
            object
        };
        let mut all: Vec<_> = lines.iter().map(object).collect();
        all.sort_by_key(ToString::to_string);
        all
    };
    assert_eq!(objects(&here.1), objects(&there.1));
    assert_eq!(there.1.iter().filter(|line| line.contains(r#""type":"alarm""#)).count(), 2, "{:?}", there.1);
}

#[test]
fn a_list_is_also_taken_from_standard_input_for_a_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "one").unwrap();
    let place = format!("local:{}", folder.path().display());
    let shell = format!("'{VERISUM}' sum --relative '{place}' | '{VERISUM}' check - '{place}'");
    let ended = Ended::of(command("/bin/sh").args(["-c", &shell]).output().unwrap());
    assert_eq!((ended.code, ended.out()), (Some(0), "a: OK\n"), "{}", ended.stderr);
}

#[test]
fn lists_of_hosts_are_understood_or_refused_with_the_line() {
    let Some(server) = sshd("") else { return };
    let folder = tree(&server);
    let hosts = server.path("hosts");
    let command = |place: &str| {
        let mut command = server.remote("sum");
        command.args(["-q", "--relative", "--hosts"]).arg(&hosts).arg(place);
        command
    };
    // A refusal would also say that some options are not typed.
    let refused = |place: &str| server.run(command(place).env_remove("VERISUM_TIMEOUT"));
    fs::write(&hosts, "# one\nweb1\nweb1\n").unwrap();
    let listed = server.run(&mut command(&folder));
    let names: Vec<String> = listed.clean().lines().map(|line| line[66..].to_string()).collect();
    assert!(names.len() == 3 && names.iter().all(|name| name.starts_with("web1:")), "{names:?}");
    refused("web1:/srv").failed(
        2,
        "verisum: PLACE: web1:/srv: must be a path where there is --hosts (./NAME for a name with a colon)",
    );
    for (line, why) in [
        ("web1:/etc", "a host is named here without a path"),
        ("ssh://web1/etc", "a host is named here without a path"),
        ("web 1", "the host's name has characters that no host's name has"),
    ] {
        fs::write(&hosts, format!("web1\n{line}\n")).unwrap();
        refused(&folder).failed(2, &format!("verisum: --hosts: {}:2: {line}: {why}", hosts.display()));
    }
}
