//! `verisum notify`: mail through a real server of SMTP, webhooks to a server of HTTP, and what goes wrong with
//! both.

use crate::common;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::webhook::answering;
use common::{Ended, VERISUM, change_and_restore_time, command, wait_until};
use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::{Port, require_tool, write_script};

/// An archive with a catalogue, in which one file is rotten that was sound when it was recorded.
struct Archive(TempDir);

impl Archive {
    fn new() -> Archive {
        let archive = Archive(tempfile::tempdir().unwrap());
        fs::create_dir(archive.path("photos")).unwrap();
        for name in ["a", "b"] {
            fs::write(archive.path("photos").join(name), format!("content of {name}")).unwrap();
        }
        let catalog = archive.text("c.db");
        common::verisum(["scrub", "--quiet", "--catalog", &catalog, &archive.text("photos")]).clean();
        change_and_restore_time(&archive.path("photos/a"), "Content of a");
        archive
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Runs `verisum notify`, with a scrub as its command.
    fn notify(&self, options: &[&str]) -> Ended {
        let (catalog, photos) = (self.text("c.db"), self.text("photos"));
        let scrub = ["scrub", "--quiet", "--catalog", &catalog, &photos];
        self.run(&[&["--catalog", &catalog][..], options, &["--"], &scrub].concat())
    }

    fn run(&self, options: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        Ended::of(command.arg("notify").args(options).env("HOME", self.0.path()).output().unwrap())
    }

    /// A program in place of sendmail, which keeps the mail and who it is for.
    fn sendmail(&self, script: &str) -> String {
        let path = self.path("sendmail");
        let text = format!("#!/bin/sh\ncd '{}'\n{script}\n", self.0.path().display());
        write_script(&path, &text);
        path.display().to_string()
    }

    fn url(&self, url: &str) -> String {
        fs::write(self.path("url"), format!("{url}\n")).unwrap();
        fs::set_permissions(self.path("url"), fs::Permissions::from_mode(0o600)).unwrap();
        self.text("url")
    }
}

const KEEP: &str = "printf '%s\\n' \"$@\" > to; cat > mail";

/// A server of SMTP that keeps mails as files.
struct Smtp {
    child: Child,
    port: Port,
}

impl Smtp {
    fn start(folder: &Path) -> Option<Smtp> {
        let server = require_tool("aiosmtpd")?;
        let port = Port::take();
        let address = format!("127.0.0.1:{}", port.number());
        let mut command = Command::new(server);
        command.args(["-n", "-l", &address, "-c", "aiosmtpd.handlers.Mailbox"]).arg(folder);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let smtp = Smtp { child, port };
        wait_until("the server listens", || TcpStream::connect(("127.0.0.1", smtp.port.number())).is_ok());
        Some(smtp)
    }
}

impl Drop for Smtp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_failure_is_mailed_by_way_of_a_real_server() {
    let (archive, Some(msmtp)) = (Archive::new(), require_tool("msmtp")) else { return };
    let Some(server) = Smtp::start(&archive.path("mail")) else { return };
    let settings =
        format!("account default\nhost 127.0.0.1\nport {}\nfrom archive@here\n", server.port.number());
    fs::write(archive.path(".msmtprc"), settings).unwrap();
    let ended = archive.notify(&["--mail", "admin@example.org", "--sendmail", msmtp.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().contains("photos/a"), "{}", ended.out());
    let mails: Vec<_> = fs::read_dir(archive.path("mail/new")).unwrap().collect();
    assert_eq!(mails.len(), 1);
    // An independent reader of mails takes it apart.
    let script = "import email, email.policy, sys
mail = email.message_from_binary_file(open(sys.argv[1], 'rb'), policy=email.policy.default)
print(mail['to'], '|', mail['subject'], '|', mail['auto-submitted'])
print(mail.get_body(('plain',)).get_content())
page, = mail.iter_attachments()
print(page.get_filename(), page.get_content_type(), '<html' in page.get_content())";
    let path = mails[0].as_ref().unwrap().path();
    let read = Command::new("python3").args(["-c", script]).arg(path).output().unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    let lines: Vec<&str> = read.lines().collect();
    assert!(lines[0].starts_with("admin@example.org | verisum on "), "{read}");
    assert!(lines[0].ends_with(" | auto-generated") && lines[0].contains("scrub ended with 1"), "{read}");
    // A telephone shows no more than the subject.
    assert!(lines[0].contains(": ") && lines[0].contains("/photos/a"), "{read}");
    assert!(read.contains("What it said:\n") && read.contains("photos/a"), "{read}");
    assert!(read.contains("State of the archive:\n"), "{read}");
    assert_eq!(lines.last(), Some(&"report.html text/html True"), "{read}");

    // A server that is away is seen.
    drop(server);
    let ended = archive.notify(&["--mail", "admin@example.org", "--sendmail", msmtp.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("verisum: mail to admin@example.org: "), "{}", ended.stderr);
}

#[test]
fn what_is_well_is_not_told() {
    let archive = Archive::new();
    change_and_restore_time(&archive.path("photos/a"), "content of a");
    let sendmail = archive.sendmail(KEEP);
    let ended = archive.notify(&["--mail", "root", "--sendmail", &sendmail]);
    assert_eq!((ended.code, ended.out()), (Some(0), ""), "{}", ended.stderr);
    assert!(!archive.path("mail").exists());
    // Without a command the state is sent, to see that it arrives.
    let ended = archive.run(&["--catalog", &archive.text("c.db"), "--mail", "root", "--sendmail", &sendmail]);
    assert_eq!((ended.code, ended.out()), (Some(0), ""), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(archive.path("to")).unwrap(), "-i\n--\nroot\n");
    let mail = fs::read_to_string(archive.path("mail")).unwrap();
    assert!(mail.contains("state of the archive") && !mail.contains('\r'), "{mail}");
    // What is bad then stands in the mail itself, as the report says it.
    change_and_restore_time(&archive.path("photos/a"), "Content of a");
    let photos = archive.text("photos");
    let scrub = common::verisum(["scrub", "--quiet", "--catalog", &archive.text("c.db"), &photos]);
    assert_eq!(scrub.code, Some(1), "{}", scrub.stderr);
    archive.run(&["--catalog", &archive.text("c.db"), "--mail", "root", "--sendmail", &sendmail]);
    let mail = fs::read_to_string(archive.path("mail")).unwrap().replace("=\n", "").replace("=3D", "=");
    let told = [
        "What is bad:\n",
        "photos/a: suspicious since ",
        "  last good ",
        ": 12 bytes, ",
        "mend it from a copy: verisum repair ",
    ];
    for told in told {
        assert!(mail.contains(told), "{told}: {mail}");
    }
}

#[test]
fn a_mail_that_is_not_taken_is_an_error_and_takes_no_longer_than_it_may() {
    let archive = Archive::new();
    change_and_restore_time(&archive.path("photos/a"), "content of a");
    let catalog = archive.text("c.db");
    for (script, why) in [
        ("echo 'relay denied' >&2; exit 75", "relay denied"),
        ("sleep 600", "not done within 1 s"),
        ("kill -9 $$", "signal: 9"),
    ] {
        let sendmail = archive.sendmail(script);
        let ended = archive.run(&[
            "--catalog",
            &catalog,
            "--timeout",
            "1s",
            "--mail",
            "root",
            "--sendmail",
            &sendmail,
        ]);
        assert_eq!(ended.code, Some(3), "{script}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{script}: {}", ended.stderr);
    }
    // What is found ranks above.
    change_and_restore_time(&archive.path("photos/a"), "Content of a");
    let ended = archive.notify(&["--mail", "root", "--sendmail", &archive.sendmail("exit 75")]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    // No program and a wrong address are told before.
    let ended = archive.notify(&["--mail", "root", "--sendmail", &archive.text("none")]);
    assert!(ended.stderr.contains("No such file or directory"), "{}", ended.stderr);
    assert_eq!(archive.notify(&["--mail", "-oQ/tmp"]).code, Some(2));
    assert_eq!(archive.run(&["--", "scrub"]).code, Some(2));
}

#[test]
fn a_failure_goes_to_a_webhook_as_json() {
    let archive = Archive::new();
    let (url, served) = answering("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    let ended = archive.notify(&["--webhook-file", &archive.url(&url)]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let (head, body) = served.join().unwrap();
    assert!(head.starts_with("POST /hook?token=secret HTTP/1.1"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
    let notice: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&notice["outcome"], &notice["exit_code"]), (&"mismatch".into(), &1.into()), "{notice}");
    let text = notice["text"].as_str().unwrap();
    assert!(text.contains("scrub ended with 1") && text.contains("/photos/a"), "{notice}");
    assert!(notice["said"].to_string().contains("photos/a"), "{notice}");
    assert!(!notice["lines"].as_array().unwrap().is_empty(), "{notice}");
}

#[test]
fn a_chat_is_told_why_nothing_could_be_checked() {
    let archive = Archive::new();
    let (url, served) = answering("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    let (catalog, file, nowhere) = (archive.text("c.db"), archive.url(&url), archive.text("nowhere"));
    // As it is typed in a shell, with the name of the program.
    let scrub = ["--", "verisum", "scrub", "--quiet", &nowhere];
    let ended = archive.run(&[&["--catalog", &catalog, "--webhook-file", &file][..], &scrub].concat());
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let notice: Value = serde_json::from_slice(&served.join().unwrap().1).unwrap();
    assert!(notice["command"].as_str().unwrap().starts_with("verisum scrub --quiet "), "{notice}");
    let text = notice["text"].as_str().unwrap();
    assert!(text.contains("scrub ended with 3: ") && text.contains("/nowhere: stat: No such file"), "{text}");
}

/// Codes for Nagios mean something else: what is critical there is no wrong option.
#[test]
fn what_a_plug_in_finds_goes_to_a_webhook_as_what_it_is() {
    let archive = Archive::new();
    let (url, served) = answering("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    let (catalog, photos, file) = (archive.text("c.db"), archive.text("photos"), archive.url(&url));
    let scrub = ["scrub", "--nagios", &photos];
    let ended = archive.run(&[&["--catalog", &catalog, "--webhook-file", &file, "--"][..], &scrub].concat());
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let notice: Value = serde_json::from_slice(&served.join().unwrap().1).unwrap();
    assert_eq!((&notice["outcome"], &notice["exit_code"]), (&"mismatch".into(), &2.into()), "{notice}");
}

#[test]
fn webhooks_that_fail_are_told_in_time_and_without_their_secret() {
    let archive = Archive::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}/hook?token=secret", silent.local_addr().unwrap());
    let (refusing, served) =
        answering("HTTP/1.1 500 No\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsecret");
    let (moving, moved) = answering(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    );
    let port = Port::take();
    let away = format!("http://127.0.0.1:{}/hook?token=secret", port.number());
    for (url, why) in [
        (&silent_url[..], "no answer within 1 s"),
        (&refusing, "the server answered 500"),
        (&moving, "the server answered 302"),
        (&away, "no connection: "),
        ("ftp://secret.example.org/", "its first line is no URL of http or https"),
    ] {
        let ended = archive.notify(&["--timeout", "1s", "--webhook-file", &archive.url(url)]);
        assert_eq!(ended.code, Some(1), "{url}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{url}: {}", ended.stderr);
        assert!(!ended.stderr.contains("secret"), "{url}: {}", ended.stderr);
    }
    served.join().unwrap();
    moved.join().unwrap();
}

#[test]
fn a_schedule_tells_whom_it_is_to_tell() {
    let archive = Archive::new();
    let catalog = archive.text("c.db");
    let root = archive.text("root");
    fs::create_dir(&root).unwrap();
    let secret = "https://example.org/hook?token=secret";
    let schedule = |options: &[&str]| {
        let photos = archive.text("photos");
        let words = [&["schedule", "--catalog", &catalog][..], options, &[&photos]].concat();
        common::verisum(words)
    };
    schedule(&[
        "--install",
        "--root",
        &root,
        "--mail",
        "root",
        "--webhook",
        secret,
        "--on-failure",
        "tell@%n.service",
    ])
    .clean();
    let units = archive.path("root/etc/systemd/system");
    let service = fs::read_to_string(units.join("verisum-scrub.service")).unwrap();
    assert!(service.contains("OnFailure=tell@%n.service\n"), "{service}");
    assert!(service.contains(" notify --catalog ") && service.contains(" --mail root "), "{service}");
    let file = "/etc/systemd/system/verisum-scrub.webhook";
    assert!(service.contains(&format!(" --webhook-file {file} -- scrub ")), "{service}");
    assert!(!service.contains("secret"), "{service}");
    let kept = archive.path("root").join(&file[1..]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), format!("{secret}\n"));
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);

    // A line of cron tells too; a URL is not to stand in one.
    let line = schedule(&["--cron", "0 4 * * *", "--mail", "root"]);
    assert!(line.out().contains(" notify --catalog ") && line.code == Some(0), "{}", line.stderr);
    assert_eq!(schedule(&["--cron", "0 4 * * *", "--webhook", secret]).code, Some(2));
    assert_eq!(schedule(&["--mail", "a b"]).code, Some(2));
    assert_eq!(schedule(&["--on-failure", "a b.service"]).code, Some(2));
    let open = archive.url(secret);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = schedule(&["--webhook-file", &open]);
    assert!(refused.code == Some(2) && refused.stderr.contains("others may read it"), "{}", refused.stderr);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(schedule(&["--webhook-file", &open]).clean().contains(&format!(" --webhook-file {open} ")));
}

/// What is set for those who read the command's output themselves changes nothing of what is sent.
#[test]
fn a_message_is_the_same_whatever_output_is_configured() {
    let archive = Archive::new();
    let sendmail = archive.sendmail(KEEP);
    let mut command = command(VERISUM);
    let (catalog, photos) = (archive.text("c.db"), archive.text("photos"));
    command.args(["notify", "--mail=root", "--sendmail", &sendmail, "--catalog", &catalog]);
    command.args(["--", "scrub", "--quiet", &photos]).current_dir(archive.0.path());
    for (variable, value) in [("NAGIOS", "true"), ("COLOR", "always"), ("JSON", "true"), ("OUTPUT", "page")] {
        let variable = format!("VERISUM_{variable}");
        let ended = Ended::of(command.env(&variable, value).output().unwrap());
        command.env_remove(&variable);
        assert_eq!(ended.code, Some(1), "{variable}: {}", ended.stderr);
        let mail = fs::read_to_string(archive.path("mail")).unwrap();
        assert!(mail.contains("scrub ended with 1") && !mail.contains('\u{1b}'), "{variable}: {mail}");
        assert!(mail.contains("<!doctype html>") && !archive.path("page").exists(), "{variable}: {mail}");
    }
    // A report that is refused says why.
    let ended = Ended::of(command.env("VERISUM_MAX_AGE", "35x").output().unwrap());
    let mail = fs::read_to_string(archive.path("mail")).unwrap();
    assert!(
        ended.code == Some(2) && mail.contains("VERISUM_MAX_AGE: --max-age: 35x: "),
        "{}{mail}",
        ended.stderr
    );
}

#[test]
fn what_cannot_be_printed_or_read_is_no_success_and_keeps_nobody_waiting() {
    let archive = Archive::new();
    fs::write(archive.path("photos/a"), "content of a").unwrap();
    let sendmail = archive.sendmail(KEEP);
    let mut command = command(VERISUM);
    command.args(["notify", "--mail=root", "--sendmail", &sendmail]).current_dir(archive.0.path());
    command
        .args(["--", "sum", "photos/b"])
        .stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    let ended = Ended::of(command.output().unwrap());
    let mail = fs::read_to_string(archive.path("mail")).unwrap();
    assert!(
        ended.code == Some(3) && mail.contains("No space left"),
        "{:?} {}{mail}",
        ended.code,
        ended.stderr
    );
    // A pipe holds no URL.
    let fifo = archive.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    let ended =
        archive.notify(&["--sendmail", &sendmail, "--mail=root", "--webhook-file", fifo.to_str().unwrap()]);
    assert!(ended.stderr.contains("fifo: read: it is no regular file"), "{}", ended.stderr);
    assert_eq!(ended.code, Some(3));
}

/// A typing error in the configuration is told of, and the scrub is made.
#[test]
fn what_is_wrong_in_the_configuration_keeps_nobody_from_being_told() {
    let archive = Archive::new();
    let (catalog, photos) = (archive.text("c.db"), archive.text("photos"));
    let sendmail = archive.sendmail(KEEP);
    let notify = |configuration: &str| {
        let _ = fs::remove_file(archive.path("mail"));
        fs::write(archive.path("config.toml"), configuration).unwrap();
        let mut command = command(VERISUM);
        command.args(["notify", "--catalog", &catalog, "--sendmail", &sendmail, "--", "scrub", "--quiet"]);
        let ended = Ended::of(
            command.arg(&photos).env("VERISUM_CONFIG", archive.path("config.toml")).output().unwrap(),
        );
        let mail = fs::read_to_string(archive.path("mail")).unwrap_or_default();
        let text = mail.split("<!doctype").next().unwrap().replace("=\n", "").replace("=3D", "=");
        (ended, text)
    };
    change_and_restore_time(&archive.path("photos/a"), "content of a");
    for (configuration, said) in [
        (
            "[notify]\nmail = 'root'\ntimeuot = '1m'\n",
            "config.toml: line 3: notify.timeuot: there is no such option",
        ),
        ("[notify]\nmail = 'root'\ntimeout = '1 minuet'\n", "config.toml: line 3: --timeout: "),
        ("[notify]\nmail = ['root', 'a b']\n", "config.toml: line 2: --mail: "),
        ("color = 'blue'\n[notify]\nmail = 'root'\n", "config.toml: line 1: color: invalid value 'blue'"),
        ("[scrub]\nlimit = '1G'\n[notify]\nmail = 'root'\ntimeout = '1m\n", "config.toml: line 5: "),
        ("[notify]\nmail = 'root'\njson = 'no'\n", "config.toml: line 3: notify.json: must be true or false"),
        ("[image]\nlimit = 3 MB\n[notify]\nmail = 'root'\n", "config.toml: line 2: "),
        (
            "[notify]\nmail = 'root'\n[image]\nmail = 'x'\n",
            "config.toml: line 4: image.mail: there is no such",
        ),
        ("[notify]\nmail = 'root'\n[notify]\n", "config.toml: line 3: "),
    ] {
        let (ended, mail) = notify(configuration);
        // The command does not use `color`: nobody sees what it prints.
        let concerns_all = configuration.matches("[notify]").count() == 2;
        let code = if concerns_all { 2 } else { 3 };
        assert_eq!(ended.code, Some(code), "{configuration}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(said) && mail.contains(said),
            "{configuration}: {}\n{mail}",
            ended.stderr
        );
        let ending = if code == 3 { "scrub ended with 0" } else { "scrub ended with 2" };
        assert!(mail.contains(ending), "{configuration}: {mail}");
    }
    // A file that is not read at all is told to those who are typed.
    let configuration = archive.path("config.toml");
    let refused = |why: &str| {
        let _ = fs::remove_file(archive.path("mail"));
        let mut command = command(VERISUM);
        command.args(["notify", "--mail=root", "--catalog", &catalog, "--sendmail", &sendmail]);
        command.args(["--", "scrub", "--quiet", &photos]).env("VERISUM_CONFIG", &configuration);
        let ended = Ended::of(command.output().unwrap());
        let mail = fs::read_to_string(archive.path("mail")).unwrap();
        assert!(ended.code == Some(3) && mail.contains(why), "{}{mail}", ended.stderr);
        assert!(mail.contains("scrub ended with 3"), "{mail}");
    };
    fs::set_permissions(&configuration, fs::Permissions::from_mode(0o666)).unwrap();
    refused("another user may write it");
    fs::remove_file(&configuration).unwrap();
    refused("No such file");
    fs::create_dir(&configuration).unwrap();
    refused("it is no regular file");
    fs::remove_dir(&configuration).unwrap();
    // Nobody is to be told; the scrub's own table is what it may not pass over.
    let (ended, mail) = notify("[notify]\nmial = 'root'\n");
    assert_eq!((ended.code, &*mail), (Some(3), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("nobody would be told"), "{}", ended.stderr);
    let (ended, mail) = notify("[notify]\nmail = 'root'\n[scrub]\nexclud = '*.tmp'\n");
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(mail.contains("scrub ended with 2") && mail.contains("line 4: scrub.exclud: "), "{mail}");
    change_and_restore_time(&archive.path("photos/a"), "Content of a");
    let (ended, mail) = notify("[notify]\nmail = 'root'\nwebhok = 'x'\n");
    assert!(ended.code == Some(1) && mail.contains("photos/a: suspicious"), "{}\n{mail}", ended.stderr);
}

#[test]
fn what_an_earlier_run_found_missing_is_named_too() {
    let archive = Archive::new();
    let (catalog, photos) = (archive.text("c.db"), archive.text("photos"));
    fs::remove_file(archive.path("photos/b")).unwrap();
    fs::write(archive.path("photos/a"), "content of a, and more").unwrap();
    common::verisum(["scrub", "--quiet", "--catalog", &catalog, &photos]);
    change_and_restore_time(&archive.path("photos/a"), "Content of a, and more");
    let ended = archive.notify(&["--mail", "root", "--sendmail", &archive.sendmail(KEEP)]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    let mail = fs::read_to_string(archive.path("mail")).unwrap().replace("=\n", "").replace("=3D", "=");
    assert!(mail.contains("What is bad:\n") && mail.contains("photos/b: missing since "), "{mail}");
    // What the scrub says is not said twice.
    assert_eq!(mail.matches("photos/a: suspicious since ").count(), 1, "{mail}");
}

#[test]
fn the_catalogue_is_that_of_the_command_too() {
    let archive = Archive::new();
    let (catalog, other, photos) = (archive.text("c.db"), archive.text("other.db"), archive.text("photos"));
    let sendmail = archive.sendmail(KEEP);
    let notify = |scrub: &[&str]| {
        let options = ["--catalog", &catalog, "--mail", "root", "--sendmail", &sendmail, "--"];
        archive.run(&[&options[..], &["scrub", "--quiet"], scrub, &[&photos]].concat())
    };
    let ended = notify(&[]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().contains("photos/a"), "{}", ended.out());
    // The command may name another.
    assert_eq!(notify(&["--catalog", &other]).code, Some(0));
    assert!(archive.path("other.db").exists());
}

#[test]
fn a_file_whose_name_ends_that_of_another_is_named_too() {
    a_missing_file_is_named_beside("copy", "b");
}

#[test]
fn a_file_whose_name_is_a_word_of_another_is_named_too() {
    a_missing_file_is_named_beside("copy ", "b");
    a_missing_file_is_named_beside("copy ", "b again");
    a_missing_file_is_named_beside("", "b again");
}

/// Loses `photos/b`, and is told of it beside a bad file of a copy of the tree.
fn a_missing_file_is_named_beside(folder: &str, bad: &str) {
    let archive = Archive::new();
    let (catalog, photos) = (archive.text("c.db"), archive.text("photos"));
    // A copy of the tree at its whole path, as some backups make it; or the tree itself.
    let (copy, copy_root) = match folder {
        "" => (archive.path("photos"), photos.clone()),
        _ => (archive.path(folder).join(photos.trim_start_matches('/')), archive.text(folder)),
    };
    fs::create_dir_all(&copy).unwrap();
    fs::write(copy.join(bad), "content of b").unwrap();
    common::verisum(["scrub", "--quiet", "--catalog", &catalog, &copy_root]);
    fs::remove_file(archive.path("photos/b")).unwrap();
    common::verisum(["scrub", "--quiet", "--catalog", &catalog, &photos]);
    change_and_restore_time(&copy.join(bad), "Content of b");
    let options = ["--catalog", &catalog, "--mail", "root", "--sendmail", &archive.sendmail(KEEP)];
    // Both trees, of which messages then tell; or the one, once.
    let scrub = ["--", "scrub", "--quiet", "--catalog", &catalog, &photos, &copy_root];
    let scrub = if folder.is_empty() { &scrub[..6] } else { &scrub[..] };
    let ended = archive.run(&[&options[..], scrub].concat());
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    let mail = fs::read_to_string(archive.path("mail")).unwrap().replace("=\n", "").replace("=3D", "=");
    assert!(mail.contains(&format!("{photos}/b: missing since ")), "{mail}");
}

#[test]
fn a_catalogue_that_cannot_be_read_is_told_of() {
    let archive = Archive::new();
    let catalog = archive.text("c.db");
    fs::write(&catalog, "no catalogue").unwrap();
    let (url, served) = answering("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    let ended = archive.run(&["--catalog", &catalog, "--webhook-file", &archive.url(&url)]);
    let notice: Value = serde_json::from_slice(&served.join().unwrap().1).unwrap();
    let why = notice["error"].as_str().unwrap();
    assert!(why.starts_with(&format!("verisum report: {catalog}: ")), "{why}");
    assert_eq!((ended.code, ended.stderr), (Some(3), format!("verisum: {why}\n")));
    let text = notice["text"].as_str().unwrap();
    assert!(text.ends_with(&format!(": state of the archive\n{why}")), "{text}");
}

/// Of other trees the state of the archive tells, and a message without a scrub.
#[test]
fn a_failed_scrub_tells_of_its_own_trees_only() {
    let archive = Archive::new();
    let (catalog, other) = (archive.text("c.db"), archive.path("an older tree"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("c"), "content of b").unwrap();
    let scrub = ["scrub", "--quiet", "--catalog", &catalog, other.to_str().unwrap()];
    common::verisum(scrub).clean();
    change_and_restore_time(&other.join("c"), "Content of b");
    assert_eq!(common::verisum(scrub).code, Some(1));
    let notice = |is_scrub: bool| -> Value {
        let (url, served) = answering("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
        let file = archive.url(&url);
        match is_scrub {
            true => archive.notify(&["--webhook-file", &file]),
            false => archive.run(&["--catalog", &catalog, "--webhook-file", &file]),
        };
        serde_json::from_slice(&served.join().unwrap().1).unwrap()
    };
    let after_scrub = notice(true);
    let text = after_scrub["text"].as_str().unwrap();
    assert!(text.lines().next().unwrap().contains("; suspicious: "), "{text}");
    assert!(text.contains("/photos/a") && !text.contains("older tree"), "{text}");
    let [alarm] = after_scrub["alarms"].as_array().unwrap().as_slice() else { panic!("{after_scrub}") };
    assert!(alarm["path"].as_str().unwrap().ends_with("/photos/a"), "{alarm}");
    assert_eq!((&alarm["outcome"], &alarm["size"]), (&"suspicious".into(), &12.into()), "{alarm}");
    for fact in ["since", "verified", "digest", "mend"] {
        assert!(alarm[fact].is_string(), "{fact}: {alarm}");
    }
    // Both, and the copy that one of them has.
    let state = notice(false);
    let alarms = state["alarms"].as_array().unwrap();
    assert_eq!(alarms.len(), 2, "{state}");
    assert!(alarms.iter().any(|alarm| alarm["copy"]["path"].as_str().is_some()), "{state}");
}

/// Who may write the URL would choose who gets the names of files.
#[test]
fn a_url_that_others_may_write_is_refused() {
    let archive = Archive::new();
    let file = archive.url("http://localhost:1/hook");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let ended = archive.notify(&["--webhook-file", &file]);
    let told = format!("verisum: {file}: read: another user may write it\n");
    assert!(ended.stderr.starts_with(&told) && !ended.stderr.contains(": send: "), "{}", ended.stderr);
    // Who may only read it gets the secret in it, which is told; the message is sent.
    for (mode, is_told) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let ended = archive.notify(&["--timeout", "1s", "--webhook-file", &file]);
        let told = format!("verisum: --webhook-file: {file}: others may read it");
        assert_eq!(ended.stderr.contains(&told), is_told, "{}", ended.stderr);
        assert!(ended.stderr.contains(": send: "), "{}", ended.stderr);
    }
}

#[test]
fn damaged_parity_is_told_of() {
    let archive = Archive::new();
    let photos = archive.text("photos");
    common::verisum(["parity", "create", "--redundancy", "50%", &photos]).clean();
    let (sendmail, catalog) = (archive.sendmail(KEEP), archive.text("c.db"));
    let verify = || {
        let options = ["--catalog", &catalog, "--mail", "root", "--sendmail", &sendmail, "--"];
        archive.run(&[&options[..], &["parity", "verify", &photos]].concat())
    };
    assert_eq!(verify().code, Some(0));
    assert!(!archive.path("mail").exists());
    let set = archive.path("photos/.verisum-parity/set-00000001.parity");
    let mut bytes = fs::read(&set).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&set, bytes).unwrap();
    let ended = verify();
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    let mail = fs::read_to_string(archive.path("mail")).unwrap().replace("=\n", "").replace("=3D", "=");
    assert!(mail.contains("set-00000001.parity: damaged (1 of "), "{mail}");
}
