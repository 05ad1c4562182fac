//! `verisum schedule`: units that systemd takes, and lines that cron takes.

use crate::common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{Ended, VERISUM, command, verisum};
use verisum_testkit::require_tool;

/// Not every machine has systemd.
fn systemd_analyze() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("systemd-analyze")).find(|path| path.exists())
}

#[test]
fn systemd_takes_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("50% of $HOME \"it's\" \\ größer");
    fs::create_dir(&data).unwrap();
    let lines = folder.path().join("two\nlines; -and ${X}");
    fs::create_dir(&lines).unwrap();
    let arguments: Vec<PathBuf> = vec![
        "schedule".into(),
        "--on".into(),
        "*-01,03 04:00".into(),
        "--install".into(),
        "--root".into(),
        folder.path().into(),
        "--catalog".into(),
        folder.path().join("c.db"),
        "--max-age".into(),
        "90d".into(),
        "--for".into(),
        "2h".into(),
        data.clone(),
        lines,
        "--".into(),
        "--stop-after=5".into(),
        "--exclude=*.tmp file".into(),
    ];
    Ended::of(command(VERISUM).args(arguments).env_remove("VERISUM_FOREGROUND").output().unwrap()).clean();
    let units = folder.path().join("etc/systemd/system");
    let service = fs::read_to_string(units.join("verisum-scrub.service")).unwrap();
    assert!(service.contains("50%% of $$HOME \\\"it's\\\" \\\\ größer\""), "{service}");
    assert!(service.contains("/two\\x0alines; -and $${X}\""), "{service}");
    assert!(service.contains(" --quiet --stop-after=5 \"--exclude=*.tmp file\" -- "), "{service}");
    let program = fs::canonicalize(VERISUM).unwrap();
    assert!(service.contains(&format!("ExecStart={} scrub ", program.display())), "{service}");
    let timer = fs::read_to_string(units.join("verisum-scrub.timer")).unwrap();
    assert!(timer.contains("OnCalendar=*-01,03 04:00\n"), "{timer}");
    if let Some(systemd_analyze) = systemd_analyze() {
        for unit in ["verisum-scrub.service", "verisum-scrub.timer"] {
            let output =
                Command::new(&systemd_analyze).args(["verify", "--man=no"]).arg(units.join(unit)).output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let ours: Vec<&str> = said.lines().filter(|line| line.contains("verisum-scrub")).collect();
            assert_eq!(ours, Vec::<&str>::new());
        }
    }
}

/// The system runs it as root, who has another configuration.
#[test]
fn a_schedule_has_what_the_configuration_gives_to_scrubs() {
    let folder = tempfile::tempdir().unwrap();
    let text = "limit = \"20MB/s\"\nfrom = [\"mirror\"]\n[scrub]\nmax-age = \"35d\"\nforeground = true\n\
                exclude = [\"*.tmp\", \"a b\"]\n[schedule]\nfor = \"2h\"\n[check]\nthreads = 3\n";
    fs::write(folder.path().join("config.toml"), text).unwrap();
    let planned = |options: &[&str]| {
        let mut schedule = command(VERISUM);
        schedule.args(["schedule", "--catalog", "c.db"]).current_dir(folder.path());
        schedule.env("VERISUM_CONFIG", folder.path().join("config.toml"));
        schedule.arg(folder.path()).args(options);
        let planned = Ended::of(schedule.output().unwrap()).clean();
        planned.lines().find(|line| line.starts_with("ExecStart=")).unwrap().to_string()
    };
    let line = planned(&[]);
    for option in [
        " --for 2h ",
        " --max-age=35d ",
        " --limit=20MB/s ",
        " --foreground ",
        " \"--exclude=*.tmp\" \"--exclude=a b\" ",
    ] {
        assert!(line.contains(option), "{option}: {line}");
    }
    assert!(!line.contains("threads") && !line.contains("mirror"), "{line}");
    // What is typed goes before.
    let line = planned(&["--max-age", "9d", "--", "--limit", "5MB/s", "--exclude=*.bak"]);
    assert!(line.contains(" --max-age 9d ") && line.contains(" --limit 5MB/s "), "{line}");
    assert!(!line.contains("35d") && !line.contains("20MB") && !line.contains("*.tmp"), "{line}");
}

/// It is started somewhere else, and what is typed for it is typed for the scrub.
#[test]
fn a_schedule_drops_nothing_of_the_configuration_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap();
    let text = "[scrub]\nprometheus = 'out.prom'\nexclude-from = ['names']\nsince = '2026-01-01'\n";
    fs::write(here.join("config.toml"), text).unwrap();
    fs::write(here.join("names"), "*.tmp\n").unwrap();
    let planned = |options: &[&str]| {
        let mut schedule = command(VERISUM);
        schedule.args(["schedule", "--catalog", "c.db", "--cron", "@daily", "."]).current_dir(&here);
        schedule.env("VERISUM_CONFIG", "config.toml").args(options);
        Ended::of(schedule.output().unwrap())
    };
    let whole = planned(&[]).clean();
    for option in ["--prometheus", "--exclude-from"] {
        assert!(whole.contains(&format!(" {option}={}/", here.display())), "{option}: {whole}");
    }
    assert!(whole.contains("--since=2026-01-01"), "{whole}");
    let conflict = planned(&["--max-age", "9d"]);
    let told = "verisum: config.toml: line 4: since: left out of the schedule: the argument '--max-age";
    assert!(conflict.code == Some(0) && conflict.stderr.starts_with(told), "{}", conflict.stderr);
    assert!(!conflict.out().contains("since"), "{}", conflict.out());
}

#[test]
fn what_the_configuration_gives_is_refused_as_a_scrub_refuses_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |verb: &str, options: &[&str]| {
        let mut program = command(VERISUM);
        program.current_dir(folder.path()).env("VERISUM_CONFIG", "config.toml");
        program.args([verb, "--catalog", "c.db", "."]).args(options);
        Ended::of(program.output().unwrap())
    };
    for (value, typed) in [
        ("for = '2 hours'", "--for=2h"),
        ("limit = 'fast'", "--limit=1MB/s"),
        ("stop-after = 'many'", "--stop-after=2"),
        ("algorithm = 'nonsense'", "--algorithm=md5"),
    ] {
        fs::write(folder.path().join("config.toml"), format!("[scrub]\n{value}\n")).unwrap();
        let (scrub, schedule) = (run("scrub", &[]), run("schedule", &[]));
        assert_eq!((schedule.code, schedule.out()), (Some(2), ""), "{value}: {}", schedule.stderr);
        assert_eq!((scrub.code, scrub.stderr.lines().next()), (Some(2), schedule.stderr.lines().next()));
        // What is typed goes before.
        assert!(run("schedule", &["--", typed]).clean().contains(typed), "{value}");
    }
}

#[test]
fn a_shell_takes_the_cron_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("50% it's");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("file"), "content").unwrap();
    let catalog = folder.path().join("c d.db");
    let line = verisum([
        PathBuf::from("schedule"),
        "--cron".into(),
        "0 4 1 */2 *".into(),
        "--catalog".into(),
        catalog.clone(),
        data,
    ])
    .clean();
    let commands = line.strip_prefix("0 4 1 */2 * ").unwrap();
    // What cron does before it calls the shell.
    let commands = commands.replace("\\%", "%");
    let Some(sh) = require_tool("sh") else { return };
    let status = Command::new(sh).args(["-c", &commands]).status().unwrap();
    assert!(status.success());
    let export = command(VERISUM).args(["catalog", "export", "--catalog"]).arg(&catalog).output().unwrap();
    assert!(String::from_utf8_lossy(&export.stdout).contains("50% it's"));
}

#[test]
fn bad_rhythms_are_bad_usage() {
    let cron = |fields: &str| verisum(["schedule", "--cron", fields, "--catalog", "/c.db", "/"]);
    cron("99 4 1 * *").failed(2, "verisum: --cron: 99 4 1 * *: 99 is no minute of cron");
    assert_eq!(cron("Sun 03:00").code, Some(2));
    assert!(cron("@daily").clean().starts_with("@daily /"));
    assert!(cron("0 4 31 2 *").clean().starts_with("0 4 31 2 * /"), "what never comes is cron's matter");
    let both = verisum(["schedule", "--cron", "@daily", "--on", "daily", "--catalog", "/c.db", "/"]);
    assert_eq!(both.code, Some(2));
    if systemd_analyze().is_some() {
        for event in ["often", "Sun 25:00", "2001-01-01", "0 4 1 * *"] {
            let ended = verisum(["schedule", "--on", event, "--catalog", "c.db", "."]);
            assert_eq!(ended.code, Some(2), "{event} {}", ended.stderr);
        }
    }
    // Without systemd an event is taken on trust, and that is said.
    let without = |event: &str| {
        let mut command = command(VERISUM);
        command.args(["schedule", "--on", event, "--catalog", "c.db", "/"]).env("PATH", "");
        Ended::of(command.output().unwrap())
    };
    without("weekly").clean();
    let ended = without("*:0/15");
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.stderr, "verisum: --on: *:0/15: not checked: systemd-analyze is not installed here\n");
}

#[test]
fn what_a_scrub_would_not_take_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let schedule = |directory: &std::path::Path, options: &[&str]| {
        let mut arguments: Vec<PathBuf> =
            vec!["schedule".into(), "--cron".into(), "@daily".into(), "--catalog".into(), "c.db".into()];
        arguments.push(directory.into());
        arguments.push("--".into());
        arguments.extend(options.iter().map(PathBuf::from));
        verisum(arguments)
    };
    let message = format!("verisum: {}: open: No such file or directory", missing.display());
    schedule(&missing, &[]).failed(3, &message);
    schedule(&file, &[]).failed(3, &format!("verisum: {}: open: Not a directory", file.display()));
    for (options, code) in [
        (&["--sample", "5%", "--shuffle", "-t2"][..], 0),
        (&["--verbose"], 0),
        (&["--json"], 0),
        (&["--wrong"], 2),
        (&["--sample", "0"], 2),
        (&["--max-age", "soon"], 2),
        (&["--help"], 2),
        (&["/"], 2),
        (&["--prometheus", "relative.prom"], 2),
        (&["--prometheus", "/run/absolute.prom"], 0),
        (&["--catalog", "/twice.db"], 2),
        (&["-a", "nonsense"], 2),
    ] {
        let ended = schedule(folder.path(), options);
        assert_eq!(ended.code, Some(code), "{options:?} {}{}", ended.out(), ended.stderr);
        assert_eq!(ended.stderr.lines().count(), usize::from(code != 0), "{}", ended.stderr);
    }
    schedule(folder.path(), &["--wrong"]).failed(2, "verisum: after --: unexpected argument '--wrong' found");
}

/// Nobody would notice that the first are scrubbed no more.
#[test]
fn a_schedule_of_other_directories_takes_the_place_of_none() {
    let folder = tempfile::tempdir().unwrap();
    let units = folder.path().join("etc/systemd/system");
    let install = |options: &[&str], directory: &str| {
        let mut schedule = command(VERISUM);
        schedule.args(["schedule", "--install", "--catalog", "/c.db", "--root"]).arg(folder.path());
        Ended::of(schedule.args(options).arg(directory).output().unwrap())
    };
    let service = |name: &str| fs::read_to_string(units.join(name)).unwrap();
    install(&[], "/srv/a").clean();
    install(&["--webhook", "http://localhost:1/hook", "--on", "daily"], "/srv/a").clean();
    let first = service("verisum-scrub.service");
    assert!(first.contains(" notify ") && first.contains(" -- /srv/a\n"), "{first}");
    let other = install(&["--webhook", "http://localhost:1/other"], "/srv/b");
    let unit = units.join("verisum-scrub.service");
    let told = format!(
        "verisum: --install: {} scrubs other directories: --name NAME makes units beside it, \
         --name verisum-scrub replaces it",
        unit.display()
    );
    other.failed(2, &told);
    assert_eq!(service("verisum-scrub.service"), first);
    assert_eq!(service("verisum-scrub.webhook"), "http://localhost:1/hook\n");
    install(&["--name", "verisum-b"], "/srv/b").clean();
    assert!(service("verisum-b.service").contains(" -- /srv/b\n"));
    install(&["--name", "verisum-scrub"], "/srv/b").clean();
    assert!(service("verisum-scrub.service").contains(" -- /srv/b\n"));
}

#[test]
fn what_is_not_on_this_machine_is_not_scheduled() {
    for place in ["s3://backup/data", "web1:/srv"] {
        let ended = verisum(["schedule", "--cron", "@daily", "--catalog", "/c.db", place]);
        let why = "is not on this machine: a schedule takes directories of this machine";
        ended.failed(2, &format!("verisum: DIR: {place} {why}"));
    }
}
