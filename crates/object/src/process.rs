//! Credentials from the program that a profile of the AWS tools names (`credential_process`).

use std::future::Future;
use std::io::Read;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, fs};

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

/// New ones are asked for so long before the old ones expire.
const EARLY: Duration = Duration::from_secs(300);

/// The most that such a program prints.
const MOST_PRINTED: u64 = 64 << 10;
/// How often it is looked whether it has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// What such a program prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u32,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

/// Credentials, and until when they hold.
type KnownCredentials = (Arc<AwsCredential>, Option<SystemTime>);

/// What the last run of the program brought, or why nothing, and when.
type State = Option<Result<KnownCredentials, (String, Instant)>>;

/// Runs a program for credentials, and again before they expire.
pub(crate) struct ProcessProvider {
    command: String,
    timeout: Duration,
    known: Arc<Mutex<State>>,
}

impl ProcessProvider {
    /// It must print them, and end, within this time.
    pub(crate) fn new(command: &str, timeout: Duration) -> ProcessProvider {
        ProcessProvider { command: command.to_string(), timeout, known: Arc::default() }
    }
}

impl fmt::Debug for ProcessProvider {
    /// Without the command, which may have secrets in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessProvider")
    }
}

impl CredentialProvider for ProcessProvider {
    type Credential = AwsCredential;

    fn get_credential<'own, 'future>(
        &'own self,
    ) -> Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'future>>
    where
        'own: 'future,
        Self: 'future,
    {
        let (command, timeout, known) = (self.command.clone(), self.timeout, self.known.clone());
        Box::pin(async move {
            let ended = tokio::task::spawn_blocking(move || current(&command, timeout, &known)).await;
            let why = match ended {
                Ok(Ok(credential)) => return Ok(credential),
                Ok(Err(why)) => why,
                Err(error) => error.to_string(),
            };
            Err(object_store::Error::Generic { store: "S3", source: why.into() })
        })
    }
}

/// The credentials that hold now; one program runs at a time.
fn current(command: &str, timeout: Duration, known: &Mutex<State>) -> Result<Arc<AwsCredential>, String> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some(Ok((credential, until))) if until.is_none_or(|until| SystemTime::now() + EARLY < until) => {
            return Ok(credential.clone());
        }
        // Others waited for the same run.
        Some(Err((why, when))) if when.elapsed() < timeout => return Err(why.clone()),
        _ => {}
    }
    let found = ask(command, timeout).map_err(|why| (why, Instant::now()));
    let credential = found.as_ref().map(|(credential, _)| credential.clone());
    let credential = credential.map_err(|(why, _)| why.clone());
    *known = Some(found);
    credential
}

/// Runs the program. Nothing that it prints is repeated: it may be a secret.
fn ask(command: &str, timeout: Duration) -> Result<KnownCredentials, String> {
    let stdout = output(command, timeout)?;
    let printed: Option<Printed> = serde_json::from_slice(&stdout).ok();
    let printed = printed.filter(|printed| printed.version == 1);
    let printed = printed.ok_or("credential_process prints no credentials of version 1")?;
    let until = printed.expiration.as_deref().map(|time| {
        let time = chrono::DateTime::parse_from_rfc3339(time);
        time.map(|time| SystemTime::UNIX_EPOCH + Duration::from_secs(time.timestamp().max(0).unsigned_abs()))
    });
    let until = until.transpose().map_err(|_| "credential_process prints no time of expiration")?;
    let credential = AwsCredential {
        key_id: printed.access_key_id,
        secret_key: printed.secret_access_key,
        token: printed.session_token,
    };
    Ok((Arc::new(credential), until))
}

/// What a command prints. It is killed if it does not end in time, or prints more than credentials are.
fn output(command: &str, timeout: Duration) -> Result<Vec<u8>, String> {
    let failed = |_| "credential_process cannot be run".to_string();
    let until = Instant::now() + timeout;
    let mut program = Command::new("/bin/sh");
    program.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = program.spawn().map_err(failed)?;
    let (give, take) = mpsc::channel();
    let stdout = child.stdout.take();
    // It ends with the pipe, which a child of the command may hold open.
    thread::spawn(move || {
        let mut printed = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MOST_PRINTED + 1).read_to_end(&mut printed));
        let _ = give.send(read.transpose().map(|_| printed));
    });
    let ended = match take.recv_timeout(timeout) {
        Ok(Ok(printed)) if printed.len() as u64 > MOST_PRINTED => {
            Err(format!("credential_process prints more than {MOST_PRINTED} bytes"))
        }
        Ok(Ok(printed)) => ended(&mut child, until).map(|()| printed),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(not_ended(timeout)),
    };
    if ended.is_err() {
        // What the shell started may hold files open that somebody waits for.
        kill_below(child.id());
        let _ = child.kill();
        let _ = child.wait();
    }
    ended
}

/// Kills all that a process started. The number is of a process that nobody waited for yet.
fn kill_below(number: u32) {
    let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap_or_default();
    for child in children.split_ascii_whitespace().filter_map(|child| child.parse().ok()) {
        kill_below(child);
        let process = i32::try_from(child).ok().and_then(Pid::from_raw);
        let _ = process.map(|process| kill_process(process, Signal::KILL));
    }
}

/// Waits for a command that has closed its output.
fn ended(child: &mut Child, until: Instant) -> Result<(), String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                return Err(format!("credential_process failed ({status}): run it by hand to see why"));
            }
            Ok(None) if Instant::now() < until => thread::sleep(PAUSE),
            Ok(None) | Err(_) => return Err("credential_process does not end".to_string()),
        }
    }
}

fn not_ended(timeout: Duration) -> String {
    format!("credential_process does not end within {} s", timeout.as_secs())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Longer than any command here takes.
    const LONG: Duration = Duration::from_secs(600);

    fn printing(folder: &Path, expiration: &str) -> String {
        let count = folder.join("count").display().to_string();
        let json = format!(
            r#"{{"Version": 1, "AccessKeyId": "K", "SecretAccessKey": "s", "Expiration": "{expiration}"}}"#
        );
        format!("echo >> '{count}'; echo '{json}'")
    }

    #[test]
    fn programs_are_asked_again_before_their_credentials_expire() {
        for (expiration, runs) in [("2999-01-01T00:00:00Z", 1), ("2001-01-01T00:00:00Z", 2)] {
            let folder = tempfile::tempdir().unwrap();
            let (command, known) = (printing(folder.path(), expiration), Mutex::default());
            for _ in 0..2 {
                let credential = current(&command, LONG, &known).unwrap();
                assert_eq!((&credential.key_id[..], &credential.secret_key[..]), ("K", "s"));
            }
            assert_eq!(fs::read(folder.path().join("count")).unwrap().len(), runs, "{expiration}");
        }
    }

    #[test]
    fn what_a_program_prints_is_not_repeated() {
        let failed = "credential_process failed (exit status: 3): run it by hand to see why";
        let wrong = "credential_process prints no credentials of version 1";
        for (command, error) in [
            ("echo secret", wrong),
            ("echo '{\"Version\": 2, \"SecretAccessKey\": \"secret\"}'", wrong),
            ("echo secret; echo 'the password is secret' >&2; exit 3", failed),
            ("KEY=secret sh -c 'exit 3'", failed),
        ] {
            assert_eq!(current(command, LONG, &Mutex::default()).unwrap_err(), error, "{command}");
        }
    }

    #[test]
    fn a_program_that_does_not_end_or_prints_without_end_is_ended() {
        let short = Duration::from_secs(1);
        let ended = |command: &str, timeout| current(command, timeout, &Mutex::default()).unwrap_err();
        for command in ["sleep 1000", "sleep 1000; true", "exec >&-; sleep 1000"] {
            let error = ended(command, short);
            assert!(error.starts_with("credential_process does not end"), "{command}: {error}");
        }
        for command in ["yes x", "yes x; true"] {
            assert_eq!(ended(command, LONG), "credential_process prints more than 65536 bytes");
        }
    }
}
