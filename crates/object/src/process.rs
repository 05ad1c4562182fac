//! Credentials of a program that a profile of the AWS tools names (`credential_process`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use serde::Deserialize;

/// New ones are asked for so long before the old ones expire.
const EARLY: Duration = Duration::from_secs(300);

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
type Known = (Arc<AwsCredential>, Option<SystemTime>);

/// Runs a program for credentials, and again before they expire.
pub(crate) struct ProcessProvider {
    command: String,
    known: Arc<Mutex<Option<Known>>>,
}

impl ProcessProvider {
    pub(crate) fn new(command: &str) -> ProcessProvider {
        ProcessProvider { command: command.to_string(), known: Arc::default() }
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
        let (command, known) = (self.command.clone(), self.known.clone());
        Box::pin(async move {
            let ended = tokio::task::spawn_blocking(move || current(&command, &known)).await;
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
fn current(command: &str, known: &Mutex<Option<Known>>) -> Result<Arc<AwsCredential>, String> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((credential, until)) = &*known
        && until.is_none_or(|until| SystemTime::now() + EARLY < until)
    {
        return Ok(credential.clone());
    }
    let (credential, until) = ask(command)?;
    *known = Some((credential.clone(), until));
    Ok(credential)
}

/// Runs the program. What it says besides is its own; nothing of it is repeated.
fn ask(command: &str) -> Result<Known, String> {
    let mut program = Command::new("/bin/sh");
    program.args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let ended = program.output().map_err(|_| "credential_process cannot be run".to_string())?;
    if !ended.status.success() {
        return Err("credential_process failed".to_string());
    }
    let printed: Option<Printed> = serde_json::from_slice(&ended.stdout).ok();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn printing(folder: &std::path::Path, expiration: &str) -> String {
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
                let credential = current(&command, &known).unwrap();
                assert_eq!((&credential.key_id[..], &credential.secret_key[..]), ("K", "s"));
            }
            assert_eq!(std::fs::read(folder.path().join("count")).unwrap().len(), runs, "{expiration}");
        }
    }

    #[test]
    fn what_a_program_prints_is_not_repeated() {
        for command in ["echo secret", "echo '{\"Version\": 2, \"SecretAccessKey\": \"secret\"}'", "exit 3"] {
            let error = current(command, &Mutex::default()).unwrap_err();
            assert!(error.starts_with("credential_process") && !error.contains("secret"), "{error}");
        }
    }
}
