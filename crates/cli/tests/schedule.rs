//! `verisum schedule`: units that systemd takes, and lines that cron takes.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{VERISUM, command, verisum};
use verisum_testkit::require_tool;

#[test]
fn systemd_takes_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("50% of $HOME \"it's\" \\ größer");
    fs::create_dir(&data).unwrap();
    let arguments: Vec<PathBuf> = vec![
        "schedule".into(),
        "--on".into(),
        "0 4 1 */2 *".into(),
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
    ];
    verisum(arguments).clean();
    let units = folder.path().join("etc/systemd/system");
    let service = fs::read_to_string(units.join("verisum-scrub.service")).unwrap();
    assert!(service.contains("50%% of $$HOME \\\"it's\\\" \\\\ größer\""), "{service}");
    let timer = fs::read_to_string(units.join("verisum-scrub.timer")).unwrap();
    assert!(timer.contains("OnCalendar=*-01,03,05,07,09,11-01 04:00:00\n"), "{timer}");
    // Not every machine has systemd.
    if let Some(systemd_analyze) = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|p| p.join("systemd-analyze")).find(|p| p.exists()))
    {
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
        "--on".into(),
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
    let ended = verisum(["schedule", "--on", "99 4 1 * *", "--catalog", "c.db", "."]);
    ended.failed(2, "verisum: --on: 99 4 1 * *: its five fields are not those of cron");
    let ended = verisum(["schedule", "--cron", "--on", "Sun 03:00", "--catalog", "c.db", "."]);
    assert_eq!(ended.code, Some(2));
}
