//! The configuration: files, the environment, and which of them holds.

use crate::common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Ended, VERISUM, command};
use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::require_root;

/// A home with these lines as the user's file.
fn home(lines: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".config/verisum")).unwrap();
    fs::write(file(home.path()), lines).unwrap();
    fs::write(home.path().join("data"), "data").unwrap();
    home
}

fn file(home: &Path) -> std::path::PathBuf {
    home.join(".config/verisum/config.toml")
}

fn run(home: &TempDir, variables: &[(&str, &str)], words: &[&str]) -> Ended {
    let mut command = command(VERISUM);
    command.args(words).current_dir(home.path()).env("HOME", home.path()).env_remove("XDG_CONFIG_HOME");
    command.env_remove("VERISUM_CONFIG").env_remove("VERISUM_FOREGROUND").envs(variables.iter().copied());
    Ended::of(command.output().unwrap())
}

#[test]
fn places_are_shown_and_looked_at() {
    let place = "[places.offsite]\naddress = 's3://backup/data'\nprofile = 'archive'\n";
    let shown = run(&home(place), &[], &["config", "show"]);
    let lines: Vec<&str> = shown.out().lines().map(|line| line.split("  (").next().unwrap()).collect();
    assert_eq!(lines, ["places.offsite.address = s3://backup/data", "places.offsite.profile = archive"]);
    for right in [
        "[places.x]\naddress = 'gs://b'\nendpoint = 'http://localhost:1'\ncredentials = '/etc/key.json'\n",
        "[places.x]\naddress = 'az://b'\nendpoint = 'http://localhost:1'\naccount = 'acme'\n",
        "[places.x]\naddress = 'https://example.org/data'\n",
        "[places.x]\naddress = 'nas:/srv'\nssh-config = '/etc/ssh/nas'\n",
        "[places.x]\naddress = 'ssh://me@nas:22/srv'\n",
        "[places.x]\naddress = 'nas:/a'\n[places.y]\naddress = 'nas:/b'\n",
    ] {
        let shown = run(&home(right), &[], &["config", "show"]);
        let shown = shown.out();
        assert_eq!(shown.lines().count(), right.matches(" = ").count(), "{shown}");
    }
    for (wrong, why) in [
        ("[places.x]\nprofile = 'a'\n", "places.x: address is missing: HOST:PATH, ssh://HOST/PATH, s3://"),
        ("[places.x]\naddress = '/b'\n", "s3://BUCKET, gs://BUCKET, az://CONTAINER or https://HOST/PATH"),
        (
            "[places.x]\naddress = 's3://b'\npassword = 'a'\n",
            "places.x: password: such a place has address, endpoint, profile, region",
        ),
        ("[places.x]\naddress = 'nas:/a'\nprofile = 'a'\n", "profile: such a place has address, ssh-config"),
        ("[places.x]\naddress = 'ftp://b'\n", "places.x: address: no place has this scheme"),
        ("[places.x]\naddress = 'local:/b'\n", "places.x: address: must be that of a bucket or another"),
        ("[places]\nx = 's3://b'\n", "places.x: must be a table"),
        (
            "[places.x]\naddress = 's3://b'\n[places.y]\naddress = 's3://b/'\nregion = 'eu'\n",
            "line 3: places.y: places.x is the same bucket or host: keep one",
        ),
        (
            "[places.x]\naddress = 'nas:/a'\n[places.y]\naddress = 'nas:/a'\n",
            "line 3: places.y: places.x is the same bucket or host: keep one",
        ),
    ] {
        let ended = run(&home(wrong), &[], &["sum", "data"]);
        assert!(ended.code == Some(2) && ended.stderr.contains(why), "{wrong}: {}", ended.stderr);
    }
}

const MD5: &str = "8d777f385d3dfec8815d20f7496026dc  data\n";
const CRC32: &str = "adf3f363  data\n";

#[test]
fn what_is_nearer_to_the_command_holds() {
    let home = home("algorithm = 'sha512'\ntag = false\n[sum]\nalgorithm = 'md5'\n");
    let sum = |variables: &[(&str, &str)], more: &[&str]| run(&home, variables, &[&["sum"], more].concat());
    assert_eq!(sum(&[], &["data"]).clean(), MD5);
    assert_eq!(sum(&[("VERISUM_ALGORITHM", "crc32")], &["data"]).clean(), CRC32);
    assert_eq!(sum(&[("VERISUM_ALGORITHM", "sha256")], &["-a", "crc32", "data"]).clean(), CRC32);
    assert_eq!(sum(&[("VERISUM_CONFIG", "")], &["data"]).clean().len(), 64 + 7);
    fs::write(home.path().join("other.toml"), "[sum]\nalgorithm = 'crc32'\ntag = true\n").unwrap();
    let tagged = sum(&[("VERISUM_CONFIG", "other.toml")], &["data"]).clean();
    assert_eq!(tagged, "CRC32 (data) = adf3f363\n");
    let shown =
        run(&home, &[("VERISUM_CONFIG", "other.toml"), ("VERISUM_TAG", "false")], &["config", "show"]);
    let lines =
        "sum.algorithm = crc32  (other.toml)\nsum.tag = true  (other.toml)\ntag = false  (VERISUM_TAG)\n";
    assert_eq!((shown.code, shown.out()), (Some(0), lines), "{}", shown.stderr);
    let shown = run(&home, &[], &["config", "show", "--json"]);
    let first: Value = serde_json::from_str(shown.out().lines().next().unwrap()).unwrap();
    assert_eq!((first["key"].as_str(), first["values"][0].as_str()), (Some("algorithm"), Some("sha512")));
    // What is no text is not passed over in silence: another catalogue would be written to.
    let mut status = command(VERISUM);
    status.args(["catalog", "status"]).current_dir(home.path()).env("HOME", home.path());
    status.env("VERISUM_CATALOG", OsStr::from_bytes(b"\xff.db"));
    let ended = Ended::of(status.output().unwrap());
    assert!(
        ended.code == Some(2) && ended.stderr.contains("VERISUM_CATALOG: must be UTF-8"),
        "{}",
        ended.stderr
    );
    // Under the names of other programs it has no effect.
    std::os::unix::fs::symlink(VERISUM, home.path().join("sha256sum")).unwrap();
    let mut command = command(home.path().join("sha256sum").to_str().unwrap());
    command.arg("data").current_dir(home.path()).env("HOME", home.path()).env_remove("VERISUM_CONFIG");
    let out = command.output().unwrap();
    assert_eq!(out.stdout.len(), 64 + 7);
}

/// As one who types wants it; of two values of the configuration, the one that counts first.
#[test]
fn what_excludes_an_option_takes_the_place_of_its_value() {
    let kind = |text: &str| match text {
        text if text.starts_with('{') => "json",
        text if text.starts_with("VERISUM ") => "nagios",
        text if text.starts_with("outcome,") => "csv",
        text if text.starts_with("SHA256 (") => "bsd",
        text if text.ends_with("  data\n") => "gnu",
        _ => "text",
    };
    let home = home("");
    run(&home, &[], &["scrub", "--quiet", "--catalog=c.db", "."]).clean();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let status = ["catalog", "status", "--catalog=c.db"];
    let list = ["catalog", "list", "--catalog=c.db", "--stale=1s"];
    for (lines, variables, words, format) in [
        ("['catalog list']\njson = true\n", &[][..], [&list[..], &["--csv"]].concat(), "csv"),
        ("['catalog list']\njson = true\n", &[], list.to_vec(), "json"),
        ("['catalog status']\nnagios = true\n", &[], [&status[..], &["--json"]].concat(), "json"),
        ("['catalog status']\nnagios = true\n", &[], status.to_vec(), "nagios"),
        ("json = true\n['catalog status']\nnagios = true\n", &[], status.to_vec(), "nagios"),
        ("json = true\n['catalog status']\nnagios = true\n", &[], list.to_vec(), "json"),
        ("nagios = true\n['catalog status']\njson = true\n", &[], status.to_vec(), "json"),
        ("nagios = true\n", &[("VERISUM_JSON", "true")], status.to_vec(), "json"),
        ("nagios = true\n", &[("VERISUM_JSON", "false")], status.to_vec(), "nagios"),
        ("nagios = true\njson = true\n", &[], status.to_vec(), "json"),
        ("json = true\n", &[], vec!["sum", "--tag", "data"], "bsd"),
        ("format = 'bsd'\n", &[], vec!["sum", "data"], "bsd"),
        ("format = 'bsd'\n", &[], vec!["sum", "--json", "data"], "json"),
        ("tag = true\n", &[], vec!["sum", "--format", "gnu", "data"], "gnu"),
        ("zero = true\nbase64 = true\n", &[], vec!["sum", "--json", "data"], "json"),
    ] {
        fs::write(file(home.path()), lines).unwrap();
        let ended = run(&home, variables, &words);
        assert_eq!(ended.code, Some(0), "{lines} {words:?}: {}", ended.stderr);
        assert_eq!(kind(ended.out()), format, "{lines} {words:?}: {}", ended.out());
    }
    // Names and values ask for no help.
    fs::write(file(home.path()), "tag = true\n").unwrap();
    for name in ["-h", "help"] {
        fs::write(home.path().join(name), "data").unwrap();
    }
    for words in [&["sum", "--", "-h"][..], &["sum", "help"], &["sum", "--exclude", "help", "data"]] {
        assert_eq!(kind(run(&home, &[], words).out()), "bsd", "{words:?}");
    }
    // What does not hold is not told as what does.
    fs::write(file(home.path()), "json = true\n").unwrap();
    let told = run(&home, &[], &["-vv", "sum", "--tag", "data"]);
    assert!(!told.stderr.contains("--json"), "{}", told.stderr);
}

#[test]
fn values_are_those_that_options_take() {
    let home =
        home("[sum]\nexclude = ['*.tmp', 'b c']\nrecursive = true\n['catalog status']\nmax-age = '35d'\n");
    for name in ["a.tmp", "b c", "d"] {
        fs::write(home.path().join(name), "").unwrap();
    }
    let out = run(&home, &[], &["sum", "."]).clean();
    let names: Vec<&str> = out.lines().map(|line| &line[66..]).collect();
    assert_eq!(names, [".config/verisum/config.toml", "d", "data"].map(|name| format!("./{name}")));
    // What does not fit files of other machines is passed over, unless it is typed.
    let place = format!("local:{}", home.path().display());
    assert_eq!(run(&home, &[("VERISUM_THREADS", "2")], &["sum", &place]).code, Some(0));
    assert_eq!(run(&home, &[], &["sum", "--threads", "2", &place]).code, Some(2));
    // A list that is typed takes the place of the other.
    assert!(run(&home, &[], &["sum", "--exclude", "d", "."]).clean().contains("a.tmp"));
    fs::write(file(home.path()), "[scrub]\nmax-age = 'soon'\n").unwrap();
    let ended = run(&home, &[], &["scrub", "--catalog", "c.db", "."]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("soon") && ended.stderr.contains("verisum config show"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_page_says_what_is_shown() {
    let page = fs::read_to_string(common::repository().join("docs/configuration.md")).unwrap();
    let block = |kind: &str| {
        let (_, rest) = page.split_once(&format!("```{kind}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_string()
    };
    let home = home("");
    fs::write(home.path().join("verisum.toml"), block("toml")).unwrap();
    let variables = [("VERISUM_CONFIG", "verisum.toml"), ("VERISUM_LIMIT", "50M")];
    let shown = run(&home, &variables, &["config", "show"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert_eq!(shown.stderr, "verisum: /srv/verisum/archive.db: there is no catalogue yet\n");
    assert_eq!(shown.out().replace("(verisum.toml)", "(/etc/verisum.toml)"), block("text"));
}

#[test]
fn what_is_wrong_names_file_and_key() {
    let home = home("");
    for (lines, said) in [
        ("algorithm = md5", "line 1: "),
        ("\n\n[sum\n", "line 3: "),
        ("limit = '1M'\nlimit = '2M'", "line 2: duplicate key"),
        ("algorthm = 'md5'", "algorthm: there is no such option"),
        ("[sums]\nalgorithm = 'md5'", "sums.algorithm: there is no such command"),
        ("[catalog.status]\nmax-age = '3d'", "catalog.status: write this table as [\"catalog status\"]"),
        ("[catalog.stat]\nmax-age = '3d'", "catalog.stat: there is no such command"),
        ("verbose = true", "verbose: must be how often it is given: 0, 1 or 2"),
        ("[sum]\nmax-age = '3d'", "sum.max-age: there is no such option"),
        ("[sum]\ntag = 'yes'", "sum.tag: must be true or false"),
        ("[sum]\nalgorithm = true", "sum.algorithm: needs a value, as on the command line"),
        ("[sum]\nalgorithm = [['md5']]", "algorithm: no value of an option"),
        ("algorithm = 2026-11-23", "algorithm: no value of an option"),
        ("\nlimit = ['1M']", "line 2: limit: must be one value, and no list"),
        ("[sum]\nrecursive = [true]", "line 2: sum.recursive: must be one value, and no list"),
        (
            "catalog = ['a.db', 'b.db']",
            "line 1: catalog: must be one value: not every command takes several, as report does",
        ),
        ("[scrub]\ncatalog = 5", "line 2: scrub.catalog: must be a name, in quotes"),
        ("trees = ['a', 7]", "line 1: trees: must be a name, in quotes"),
        ("a = '\u{1b}[2J'\u{1b}", "line 1: "),
    ] {
        fs::write(file(home.path()), lines).unwrap();
        let ended = run(&home, &[], &["sum", "data"]);
        assert_eq!((ended.code, ended.out()), (Some(2), ""), "{lines}: {}", ended.stderr);
        assert!(ended.stderr.contains("config.toml: ") && ended.stderr.contains(said), "{}", ended.stderr);
        assert!(ended.stderr.lines().count() == 1 && !ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
        assert_eq!(run(&home, &[], &["sum", "--help"]).code, Some(0));
    }
    // The one command that takes several.
    fs::write(file(home.path()), "[report]\ncatalog = ['a.db', 'b.db']\n").unwrap();
    assert_eq!(run(&home, &[], &["config", "show"]).code, Some(0));
    // Somebody made a link to what is not there any more.
    fs::remove_file(file(home.path())).unwrap();
    run(&home, &[], &["sum", "data"]).clean();
    std::os::unix::fs::symlink("nowhere", file(home.path())).unwrap();
    let path = file(home.path()).display().to_string();
    let told = format!("verisum: {path}: it is a link to a file that is not there");
    run(&home, &[], &["sum", "data"]).failed(2, &told);
    // The message is sent all the same.
    let notify = ["notify", "--mail", "root", "--sendmail", "/bin/true", "--", "digests"];
    let ended = run(&home, &[], &notify);
    assert!(ended.code == Some(2) && ended.stderr.starts_with(&told), "{}", ended.stderr);
    fs::remove_file(file(home.path())).unwrap();
    let missing = run(&home, &[("VERISUM_CONFIG", "nowhere.toml")], &["sum", "data"]);
    assert_eq!(missing.code, Some(3), "{}", missing.stderr);
    assert_eq!(run(&home, &[("VERISUM_CONFIG", "/dev/null")], &["sum", "data"]).code, Some(0));
    assert_eq!(run(&home, &[("VERISUM_CONFIG", "/dev/zero")], &["sum", "data"]).code, Some(3));
    let pipe = home.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let ended = run(&home, &[("VERISUM_CONFIG", pipe.to_str().unwrap())], &["sum", "data"]);
    assert!(ended.code == Some(3) && ended.stderr.contains("it is no regular file"), "{}", ended.stderr);
    fs::write(file(home.path()), "catalog = \"a\\u001b[2Jb\"\n").unwrap();
    let shown = run(&home, &[], &["config", "show"]);
    let told = format!("{}{}", shown.out(), shown.stderr);
    assert!(shown.out().contains("[2Jb") && !told.contains('\u{1b}'), "{told}");
    fs::write(file(home.path()), vec![b'#'; 2 << 20]).unwrap();
    assert!(run(&home, &[], &["sum", "data"]).stderr.contains("longer than 1 MiB"));
    fs::write(file(home.path()), b"# a\n# \xff\nalgorithm = 'md5'\n").unwrap();
    let ended = run(&home, &[], &["sum", "data"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.ends_with("config.toml: line 2: must be UTF-8\n"), "{}", ended.stderr);
}

#[test]
fn what_commands_refuse_is_shown_so_and_told_with_its_place() {
    let lines = "limit = '12 parsecs'\n[sum]\nalgorithm = 'sha257'\nrequests-per-second = 'many'\n\
                 [scrub]\nmax-age = 'x'\n['image sum']\nfollow = 'some'\n[bag]\nalgorithm = 'md5,sha256'\n";
    let home = home(lines);
    let path = file(home.path()).display().to_string();
    let shown = run(&home, &[("VERISUM_SAMPLE", "all")], &["config", "show"]);
    assert_eq!((shown.code, shown.out().lines().count()), (Some(2), 7), "{}{}", shown.out(), shown.stderr);
    let refused: Vec<&str> = shown.stderr.lines().filter(|line| line.contains(": line ")).collect();
    let told = [
        "line 8: image sum.follow: invalid value 'some' for '--follow",
        "line 1: limit: 12 parsecs: must be a number of bytes a second",
        "line 6: scrub.max-age: x: must be a number and s, m, h, d, w or y",
        "line 3: sum.algorithm: unknown digest: sha257 (did you mean",
        "line 4: sum.requests-per-second: invalid value 'many'",
    ];
    assert_eq!(refused.len(), told.len(), "{}", shown.stderr);
    for (line, told) in refused.iter().zip(told) {
        assert!(line.starts_with(&format!("verisum: {path}: {told}")), "{line}: {told}");
    }
    let sample = "verisum: VERISUM_SAMPLE: sample: all: must be a share";
    assert!(shown.stderr.contains(sample) && !shown.stderr.contains("are of the"), "{}", shown.stderr);
    assert_eq!(run(&home, &[], &["config", "show", "scrub"]).code, Some(2));
    fs::write(file(home.path()), lines.replace("12 parsecs", "12M")).unwrap();
    assert_eq!(run(&home, &[], &["config", "show", "bag", "create"]).code, Some(0));
    // Commands say the same, unless the value was typed.
    for (words, told) in [
        (&["scrub", "."][..], "line 6: --max-age: x: must be"),
        (&["sum", "data"], "line 4: requests-per-second: invalid value 'many'"),
        (&["image", "sum", "data"], "line 8: follow: invalid value 'some'"),
    ] {
        let ended = run(&home, &[], words);
        let told = format!("verisum: {path}: {told}");
        assert!(ended.code == Some(2) && ended.stderr.starts_with(&told), "{}", ended.stderr);
    }
    let ended = run(&home, &[], &["scrub", "--max-age", "y", "."]);
    assert!(ended.code == Some(2) && ended.stderr.starts_with("verisum: --max-age: y: "), "{}", ended.stderr);
    let ended = run(&home, &[("VERISUM_MAX_AGE", "z")], &["scrub", "."]);
    assert!(ended.stderr.starts_with("verisum: VERISUM_MAX_AGE: --max-age: z: must be"), "{}", ended.stderr);
    fs::write(file(home.path()), "algorithm = 'sha257'\n").unwrap();
    let ended = run(&home, &[], &["sum", "data"]);
    let told = format!("verisum: {path}: line 1: --algorithm: unknown digest: sha257 (");
    assert!(ended.code == Some(2) && ended.stderr.starts_with(&told), "{}", ended.stderr);
    let ended = run(&home, &[], &["sum", "-a", "sha255", "data"]);
    assert!(ended.stderr.starts_with("verisum: unknown digest: sha255 ("), "{}", ended.stderr);
}

#[test]
fn what_is_wrong_in_a_place_names_its_line() {
    for (lines, told) in [
        ("[places.x]\naddress = 's3://b'\npassword = 'a'\n", "line 3: places.x: password: such a place has"),
        ("[places.x]\nregion = 'eu'\naddress = 'ftp://b'\n", "line 3: places.x: address: no place has"),
        ("[places]\n\nx = { address = 's3://b', region = 7 }\n", "line 3: places.x: region: must be a text"),
        ("[places.x]\nregion = 'eu'\n", "line 1: places.x: address is missing"),
    ] {
        let ended = run(&home(lines), &[], &["sum", "data"]);
        let is_told = ended.stderr.contains(&format!("config.toml: {told}"));
        assert!(ended.code == Some(2) && is_told, "{lines}: {}", ended.stderr);
    }
    // Lines that are right one by one are no places.
    let broken = home("[places.x]\naddress = 's3://b'\nregion = = 'eu'\nprofile = 'a'\n");
    let all = run(&broken, &[], &["notify", "--mail", "root", "--sendmail", "/bin/true", "--", "digests"]);
    assert!(
        all.stderr.contains("config.toml: line 3: ") && !all.stderr.contains("places.x"),
        "{}",
        all.stderr
    );
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let home = home("algorithm = 'md5'\n");
    let assert_refused = || {
        let ended = run(&home, &[], &["sum", "data"]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains("another user may write it"), "{}", ended.stderr);
    };
    fs::set_permissions(file(home.path()), fs::Permissions::from_mode(0o666)).unwrap();
    assert_refused();
    fs::set_permissions(file(home.path()), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(run(&home, &[], &["sum", "data"]).clean(), MD5);
    if require_root().is_none() {
        return;
    }
    // A group that others may be in.
    std::os::unix::fs::chown(file(home.path()), None, Some(1234)).unwrap();
    assert_eq!(run(&home, &[], &["sum", "data"]).clean(), MD5);
    fs::set_permissions(file(home.path()), fs::Permissions::from_mode(0o664)).unwrap();
    assert_refused();
    std::os::unix::fs::chown(file(home.path()), None, Some(0)).unwrap();
    assert_eq!(run(&home, &[], &["sum", "data"]).clean(), MD5);
    // The home of another user: its file is not ours, unless it is named.
    std::os::unix::fs::chown(file(home.path()), Some(1234), None).unwrap();
    assert_eq!(run(&home, &[], &["sum", "data"]).clean().len(), 64 + 7);
    let named = file(home.path());
    let ended = run(&home, &[("VERISUM_CONFIG", named.to_str().unwrap())], &["sum", "data"]);
    assert!(ended.code == Some(3) && ended.stderr.contains("another user may write it"), "{}", ended.stderr);
}

#[test]
fn trees_and_the_catalogue_need_not_be_typed() {
    let home = home("catalog = 'all.db'\ntrees = ['one', 'two']\n");
    for tree in ["one", "two"] {
        fs::create_dir(home.path().join(tree)).unwrap();
        fs::write(home.path().join(tree).join("file"), tree).unwrap();
    }
    run(&home, &[], &["scrub", "--quiet"]).clean();
    let listed = run(&home, &[], &["catalog", "status", "--json"]).clean();
    assert_eq!(listed.matches("\"path\"").count(), 2, "{listed}");
    // What is typed takes their place; the report is of the catalogue that is set.
    let one = run(&home, &[], &["scrub", "--json", "one"]).clean();
    assert!(one.contains("/one") && !one.contains("/two"), "{one}");
    let report = run(&home, &[], &["report", "--json"]).clean();
    assert!(report.contains("/one") && report.contains("all.db"), "{report}");
    let cron = run(&home, &[], &["schedule", "--cron", "@daily"]).clean();
    assert!(
        cron.contains("/one ") && cron.trim_end().ends_with("/two") && cron.contains("/all.db"),
        "{cron}"
    );
    fs::write(file(home.path()), "[sum]\ntrees = ['one']\n").unwrap();
    let wrong = run(&home, &[], &["sum", "data"]);
    assert!(wrong.stderr.contains("sum.trees: there is no such option"), "{}", wrong.stderr);
}

#[test]
fn who_hears_of_failures_can_be_set() {
    let home = home(
        "[schedule]\nmail = ['a@example.org', 'b@example.org']\nwebhook-file = 'hook'\nmax-age = '30d'\n",
    );
    fs::write(home.path().join("hook"), "http://localhost:1/hook\n").unwrap();
    fs::set_permissions(home.path().join("hook"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(home.path().join("tree")).unwrap();
    let cron = run(&home, &[], &["schedule", "--cron", "@daily", "tree"]);
    assert_eq!(cron.code, Some(0), "{}", cron.stderr);
    for part in ["--mail a@example.org --mail b@example.org", "/hook -- scrub", "--max-age 30d"] {
        assert!(cron.out().contains(part), "{part}: {}", cron.out());
    }
    // A webhook that is kept in a file is, where there is one.
    fs::write(file(home.path()), "[schedule]\nwebhook = 'http://localhost:1/hook'\n").unwrap();
    let units = run(&home, &[], &["schedule", "tree"]);
    assert!(units.code == Some(2) && units.stderr.contains("--install"), "{}", units.stderr);
    let installed = run(&home, &[], &["schedule", "--install", "--root", "image", "/tree"]);
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    // The command that tells takes them too; nobody to tell is an error.
    fs::write(file(home.path()), "[notify]\nmail = 'a@example.org'\nsendmail = '/bin/true'\n").unwrap();
    let told = run(&home, &[], &["notify", "--catalog", "none.db", "--", "sum", "data"]);
    assert_eq!((told.code, told.out().len()), (Some(0), 64 + 7), "{}", told.stderr);
    fs::write(file(home.path()), "").unwrap();
    let nobody = run(&home, &[], &["notify", "--", "sum", "data"]);
    assert!(
        nobody.code == Some(2) && nobody.stderr.contains("--mail or --webhook-file"),
        "{}",
        nobody.stderr
    );
}

#[test]
fn each_value_of_a_command_says_where_it_comes_from() {
    let home = home("limit = '50M'\n['catalog status']\nmax-age = '40d'\n[scrub]\nmissing = 'fail'\n");
    let shown = run(&home, &[("VERISUM_ALGORITHM", "md5")], &["config", "show", "scrub"]);
    let shown = shown.out();
    for line in [
        "algorithm = md5  (VERISUM_ALGORITHM)",
        "color = auto  (default)",
        &format!("limit = 50M  ({})", file(home.path()).display()),
        &format!("missing = fail  ({})", file(home.path()).display()),
        "order = auto  (default)",
        "stop-after = 100  (default)",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    assert!(!shown.contains("max-age"), "{shown}");
    let status = run(&home, &[], &["config", "show", "catalog", "status"]);
    let status = status.out();
    assert!(status.contains("max-age = 40d") && !status.contains("limit"), "{status}");
    let table = run(&home, &[], &["config", "show", "catalog status"]);
    assert_eq!((table.code, table.out()), (Some(0), status));
    let wrong = run(&home, &[], &["config", "show", "catalog", "nothing"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("catalog nothing"), "{}", wrong.stderr);
}

#[test]
fn a_catalogue_that_is_not_there_is_said() {
    let home = home("catalog = 'none.db'\n[scrub]\ncatalog = 'data'\n");
    for words in [&["config", "show"][..], &["config", "show", "copy"]] {
        let shown = run(&home, &[], words);
        let said: Vec<&str> = shown.stderr.lines().filter(|line| line.contains("catalogue")).collect();
        assert_eq!(said, ["verisum: none.db: there is no catalogue yet"], "{}", shown.stderr);
    }
}

#[test]
fn a_catalogue_that_is_not_there_yet_is_no_reason_not_to_copy() {
    let home = home("");
    let variable = [("VERISUM_CATALOG", "new.db")];
    let ended = run(&home, &variable, &["copy", "--quiet", "data", "copied"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.out());
    assert!(home.path().join("copied").exists() && !home.path().join("new.db").exists());
    // Who asks for more is told that it counts as none.
    let told = run(&home, &variable, &["copy", "--verbose", "data", "told"]);
    let note = "new.db: the configured catalogue is not there yet: working without one";
    assert!(told.code == Some(0) && told.stderr.matches(note).count() == 1, "{}", told.stderr);
    // Who types it means it.
    let ended = run(&home, &[], &["copy", "--catalog", "new.db", "data", "again"]);
    assert_eq!(ended.code, Some(3), "{}", ended.out());
}

#[test]
fn tags_are_read_where_the_catalogue_is_not_there_yet() {
    let home = home("");
    run(&home, &[], &["tag", "--quiet", "data"]).clean();
    for verb in ["verify", "status"] {
        let ended = run(&home, &[("VERISUM_CATALOG", "new.db")], &[verb, "data"]);
        assert_eq!(ended.code, Some(0), "{verb}: {}", ended.stderr);
        let ended = run(&home, &[], &[verb, "--catalog", "new.db", "data"]);
        assert_eq!(ended.code, Some(3), "{verb}: {}", ended.out());
    }
    assert!(!home.path().join("new.db").exists());
}

#[test]
fn the_secret_of_an_endpoint_is_nowhere() {
    let places = "[places.store]\naddress = 's3://store'\nendpoint = 'https://user:SECRET@store'\n";
    for endpoint in [
        "https://user:SECRET@127.0.0.1:1",
        "user:SECRET@127.0.0.1:1",
        "https://127.0.0.1:1/?SECRET",
        "https://user%3ASECRET%40127.0.0.1:1",
    ] {
        let home = home(&format!("[scrub]\nendpoint = '{endpoint}'\n{places}"));
        let joined = format!("--endpoint={endpoint}");
        for words in [
            &["config", "show"][..],
            &["config", "show", "--json"],
            &["scrub", "-vv", "--log-file", "log", "s3://bucket"],
            &["scrub", "-vv", "--json", "--log-file", "log", "--endpoint", endpoint, "s3://bucket"],
            &["sum", "-vv", "--log-file", "log", &joined, "s3://bucket"],
            &["sum", "-vv", "--log-file", "log", "s3://store"],
        ] {
            let ended = run(&home, &[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")], words);
            let said = [ended.out(), ended.stderr.as_str()].concat();
            assert!(!said.contains("SECRET"), "{words:?}: {said}");
        }
        let shown = run(&home, &[("VERISUM_ENDPOINT", endpoint)], &["config", "show"]);
        let shown = [shown.out(), &shown.stderr].concat();
        assert!(shown.contains("(VERISUM_ENDPOINT)") && !shown.contains("SECRET"), "{shown}");
        let log = fs::read_to_string(home.path().join("log")).unwrap();
        assert!(log.contains("127.0.0.1:1") && !log.contains("SECRET"), "{log}");
    }
}

#[test]
fn the_configuration_is_named_where_it_may_be_the_cause() {
    let home = home("threads = 1\n");
    let other = run(&home, &[], &["sum", "-r", "--exclude", "[z-a]", "."]);
    other.failed(2, "verisum: --exclude: [z-a]: invalid range; 'z' > 'a'");
    let own = run(&home, &[("VERISUM_EXCLUDE", "[z-a]")], &["sum", "-r", "."]);
    assert_eq!(own.code, Some(2));
    assert!(own.stderr.ends_with("`verisum config show` prints them\n"), "{}", own.stderr);
}
