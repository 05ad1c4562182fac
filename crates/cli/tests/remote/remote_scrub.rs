//! `verisum scrub`, and `accept` and `catalog` of trees of other machines, against a real sshd.

use crate::common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use common::sshd::{Sshd, sshd};
use common::{Ended, verisum};

/// A host with a tree, and a catalogue here.
struct Host {
    server: Sshd,
}

impl Host {
    /// With files `f0` to `f9` and `a b/$c'`.
    fn new() -> Option<Host> {
        let host = Host { server: sshd("")? };
        fs::create_dir_all(host.path("a b")).unwrap();
        for number in 0..10 {
            host.put(&format!("f{number}"), &format!("content {number}"), 1);
        }
        host.put("a b/$c'", "odd content", 1);
        Some(host)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.server.path("srv").join(name)
    }

    /// Writes a file with this time of modification, in seconds.
    fn put(&self, name: &str, content: &str, seconds: u64) {
        fs::write(self.path(name), content).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_700_000_000 + seconds, 123_456_789);
        File::options().write(true).open(self.path(name)).unwrap().set_modified(time).unwrap();
    }

    fn address(&self, host: &str) -> String {
        format!("ssh://{host}{}", self.server.path("srv").display())
    }

    fn catalog(&self) -> String {
        self.server.path("c.db").display().to_string()
    }

    fn scrub_at(&self, place: &str, options: &[&str]) -> Ended {
        let mut command = self.server.remote("scrub");
        command.args(["--catalog", &self.catalog()]).args(options).arg(place);
        self.server.run(&mut command)
    }

    fn scrub(&self, options: &[&str]) -> Ended {
        self.scrub_at(&self.address("web1"), options)
    }

    /// `verisum VERB --catalog …`, as one that needs no host.
    fn verisum(&self, words: &[&str], options: &[&str]) -> Ended {
        let catalog = self.catalog();
        verisum(words.iter().chain(&["--catalog", &catalog]).chain(options).map(OsStr::new))
    }

    fn accept(&self, options: &[&str]) -> Ended {
        let mut command = common::command(common::VERISUM);
        fs::create_dir_all(self.server.path("tmp")).unwrap();
        command
            .args(["accept", "--catalog", &self.catalog(), "--ssh-config"])
            .arg(self.server.path("config"));
        self.server.run(command.args(options).env("TMPDIR", self.server.path("tmp")))
    }
}

/// Asserts the exit code, and the verdict and the last name of each line before the summary.
#[track_caller]
fn expect(ended: &Ended, code: i32, lines: &[(&str, &str)]) {
    let files = ended.out().lines().filter(|line| !line.starts_with(' ') && line.contains("  "));
    let mut found: Vec<(String, String)> = files
        .map(|line| {
            let (verdict, rest) = line.split_once(' ').unwrap();
            let path = rest.trim_start().split("  (").next().unwrap();
            (verdict.to_string(), path.rsplit('/').next().unwrap().to_string())
        })
        .collect();
    found.sort();
    let mut lines: Vec<(String, String)> =
        lines.iter().map(|(verdict, name)| (verdict.to_string(), name.to_string())).collect();
    lines.sort();
    assert_eq!(found, lines, "{}{}", ended.out(), ended.stderr);
    assert_eq!(ended.code, Some(code), "{}{}", ended.out(), ended.stderr);
}

#[test]
fn bad_files_of_hosts_stay_bad_until_they_are_restored_or_accepted() {
    let Some(host) = Host::new() else { return };
    let ended = host.scrub(&["--way", "coreutils"]);
    expect(&ended, 0, &[]);
    assert!(ended.out().contains("\n  new 11\n"), "{}", ended.out());
    host.put("f3", "CONTENT 3", 1);
    host.put("f4", "longer content 4", 1);
    host.put("f5", "modified", 2);
    fs::remove_file(host.path("f6")).unwrap();
    let bad = [("rot", "f3"), ("suspicious", "f4")];
    let ended = host.scrub(&["--way", "coreutils", "--verbose"]);
    expect(&ended, 1, &[bad[0], bad[1], ("modified", "f5"), ("missing", "f6")]);
    let rot = ended.out().lines().find(|line| line.starts_with("rot")).unwrap();
    assert!(rot.contains("sha256 ") && rot.contains("mtime as recorded; second read"), "{rot}");
    // In ways that know other things of times, and by their own protocol.
    for way in ["perl", "python", "coreutils"] {
        expect(&host.scrub(&["--way", way]), 1, &bad);
    }
    // Somebody may have written it by now.
    host.put("f3", "CONTENT 3", 3);
    expect(&host.scrub(&["--quiet"]), 1, &[("suspicious", "f3"), bad[1]]);
    host.put("f3", "content 3", 4);
    let address = host.address("web1");
    let f4 = format!("{address}/f4");
    let ended = host.accept(&["-n", &f4]);
    assert!(
        ended.code == Some(0) && ended.out().starts_with("would accept"),
        "{}{}",
        ended.out(),
        ended.stderr
    );
    let ended = host.accept(&[&f4.replace("ssh://web1", "web1:")]);
    assert!(ended.code == Some(0) && ended.out().starts_with("accepted"), "{}{}", ended.out(), ended.stderr);
    let ended = host.scrub(&[]);
    expect(&ended, 0, &[("touched", "f3")]);
    assert!(ended.out().contains("missing since earlier 1"), "{}", ended.out());
    // The whole tree: what is missing is forgotten.
    let ended = host.accept(&[&address]);
    assert!(ended.out().contains("gone now: forgotten"), "{}{}", ended.out(), ended.stderr);
    let quiet = host.scrub(&["--quiet"]);
    assert_eq!((quiet.code, quiet.out(), &quiet.stderr[..]), (Some(0), "", ""));
}

#[test]
fn catalogues_take_addresses() {
    let Some(host) = Host::new() else { return };
    expect(&host.scrub(&[]), 0, &[]);
    let (web1, web9) = (host.address("web1"), "ssh://web2/backup");
    let list = host.verisum(&["catalog", "export"], &["--format", "gnu", "--tree", &web1]).clean();
    assert!(list.lines().any(|line| line.ends_with("  f3")) && list.lines().count() == 11, "{list}");
    let failed = host.verisum(&["catalog", "export"], &["--format", "gnu", "--tree", "ssh://wbe/srv"]);
    failed.failed(3, "verisum: ssh://wbe/srv: export: it is in no tree of the catalogue");
    let scp = web1.replace("ssh://web1", "web1:");
    host.verisum(&["catalog", "relocate"], &[&scp, "web2:/backup/."]).clean();
    assert!(host.verisum(&["catalog", "status"], &[]).clean().starts_with("ssh://web2/backup: 11 files"));
    let forgotten = format!("11 records of {web9} forgotten; its files stay as they are\n");
    assert_eq!(host.verisum(&["catalog", "forget"], &[web9]).clean(), forgotten);
    assert_eq!(host.verisum(&["catalog", "status"], &[]).clean(), "");
    let file = host.server.path("export");
    let file = file.to_str().unwrap();
    // A list of the host, with whole names: each file is compared with it, whatever its time.
    fs::write(file, host.server.run(host.server.remote("sum").arg(&web1)).out()).unwrap();
    let imported = host.verisum(&["catalog", "import"], &["--tree", &web1, file]);
    assert_eq!((imported.code, imported.out()), (Some(0), "11 recorded, 0 known already\n"));
    // Nothing is read of a host to see whether it is so.
    assert!(imported.stderr.ends_with(": 64 digits were taken for sha256 (-a names a different digest)\n"));
    host.put("f3", "CONTENT 3", 9);
    expect(&host.scrub(&[]), 1, &[("rot", "f3")]);
    let mixed = host.verisum(&["catalog", "relocate"], &[&web1, "/tmp"]);
    assert_eq!(mixed.code, Some(3), "{}", mixed.stderr);
}

#[test]
fn one_tree_has_one_address() {
    let Some(host) = Host::new() else { return };
    expect(&host.scrub(&[]), 0, &[]);
    let path = host.server.path("srv").display().to_string();
    for place in [format!("web1:{path}/."), format!("web1:{path}//"), format!("ssh://web1{path}/./")] {
        let ended = host.scrub_at(&place, &[]);
        expect(&ended, 0, &[]);
        assert!(ended.out().contains("\n  ok 11\n"), "{place}: {}", ended.out());
    }
    let ended = host.scrub_at(&format!("web1:{path}/a b"), &[]);
    assert!(ended.out().contains("\n  ok 1\n"), "{}{}", ended.out(), ended.stderr);
    let status = || host.verisum(&["catalog", "status"], &[]).clean();
    assert_eq!(status().matches("ssh://").count(), 1, "{}", status());
    let ended = host.scrub_at(&format!("nobody@web1:{path}"), &[]);
    assert!(ended.stderr.contains(&format!("{} is recorded", host.address("web1"))), "{}", ended.stderr);
    // Without a place, all of them.
    let ended = host.scrub_all();
    assert_eq!(ended.out().matches("ok 11").count(), 2, "{}{}", ended.out(), ended.stderr);
    // The last looks like a URL, of a scheme that nobody knows.
    for place in [format!("web1:{path}/../srv"), format!("local:{path}"), format!("web1:/{path}")] {
        assert_eq!(host.scrub_at(&place, &[]).code, Some(2), "{place}");
    }
}

impl Host {
    fn scrub_all(&self) -> Ended {
        self.server.run(self.server.remote("scrub").args(["--catalog", &self.catalog()]))
    }
}

#[test]
fn hosts_that_are_down_have_failed_runs() {
    let Some(host) = Host::new() else { return };
    expect(&host.scrub(&[]), 0, &[]);
    host.verisum(&["catalog", "relocate"], &[&host.address("web1"), &host.address("down")]).clean();
    let down = host.address("down");
    let metrics = host.server.path("metrics");
    let ended = host.scrub_at(&down, &["--json", "--prometheus", metrics.to_str().unwrap()]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let line: serde_json::Value = serde_json::from_str(ended.out()).unwrap();
    assert_eq!(
        (&line["type"], &line["host"], &line["path"]),
        (&"failed".into(), &"down".into(), &down[..].into())
    );
    let metrics = fs::read_to_string(metrics).unwrap();
    assert!(metrics.contains("reason=\"host\""), "{metrics}");
    // What is known of it is told: no file is bad.
    for row in [format!("exit_code{{root=\"{down}\"}} 3"), format!("not_tried_files{{root=\"{down}\"}} 0")] {
        assert!(metrics.contains(&row), "{row}: {metrics}");
    }
    let nagios = host.scrub_at(&down, &["--nagios"]);
    assert!(nagios.out().starts_with("VERISUM UNKNOWN") && nagios.code == Some(3), "{}", nagios.out());
    let status = host.verisum(&["catalog", "status"], &[]).clean();
    assert_eq!(status.matches("failed (ssh://down").count(), 2, "{status}");
    // One that was never seen leaves no tree.
    assert_eq!(host.scrub_at("down:/typo", &[]).code, Some(3));
    for way in ["perl", "coreutils"] {
        let typo = host.scrub_at(&format!("{}/typo", host.address("web1")), &["--way", way]);
        assert_eq!((typo.code, typo.out()), (Some(3), ""), "{}", typo.stderr);
        assert_eq!(typo.stderr.matches("No such file or directory").count(), 1, "{}", typo.stderr);
    }
    assert_eq!(host.verisum(&["catalog", "status"], &[]).clean().matches("ssh://").count(), 3);
}

#[test]
fn what_is_told_is_that_of_local_scrubs() {
    let Some(host) = Host::new() else { return };
    expect(&host.scrub(&["--exclude", "f9"]), 0, &[]);
    // Records keep their digest, and new files get the one that is asked for.
    let ended = host.scrub(&["-a", "md5", "--json"]);
    let lines: Vec<serde_json::Value> =
        ended.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{}{}", ended.out(), ended.stderr);
    assert_eq!((&lines[0]["outcome"], &lines[0]["algorithm"]), (&"new".into(), &"md5".into()));
    assert_eq!((&lines[1]["type"], &lines[1]["counts"]["ok"]), (&"summary".into(), &10.into()));
    assert_eq!(lines[1]["host"], "web1");
    // What cannot be listed is not missing, and not all was seen.
    fs::set_permissions(host.path("a b"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(host.path("f1"), fs::Permissions::from_mode(0o600)).unwrap();
    // The second run knows it from the first.
    for (way, start) in [("coreutils", "/f1  ("), ("perl", "/f1  (since 2")] {
        let ended = host.scrub(&["--way", way]);
        assert_eq!(ended.code, Some(3), "{}", ended.out());
        let told = ended.out();
        assert!(
            told.contains("not looked at 1") && !told.contains("missing"),
            "{way}: {told}{}",
            ended.stderr
        );
        // The directory is the other.
        let line = told.lines().find(|line| line.contains("/f1  (")).unwrap_or_default();
        assert!(line.contains(start) && line.ends_with("read: Permission denied)"), "{told}");
        assert_eq!(line.contains("since"), way == "perl", "{told}");
        assert!(told.contains("unverifiable 2"), "{told}");
    }
    fs::set_permissions(host.path("a b"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(host.path("f1"), fs::Permissions::from_mode(0o644)).unwrap();
    for number in 0..8 {
        host.put(&format!("f{number}"), "encrypted", 8);
    }
    let ended = host.scrub(&["--alarm-changed", "50%"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("ALARM: 8 of 11 files"), "{}", ended.stderr);
    assert_eq!(host.accept(&[&host.address("web1")]).out().lines().count(), 8);
    let nagios = host.scrub(&["--nagios"]);
    assert!(nagios.out().starts_with("VERISUM OK - 11 files, 0 bad"), "{}", nagios.out());
}
