//! Sends messages as JSON to a URL. The URL may be secret, so only the name of its file is ever printed.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use reqwest::blocking::Client;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;

use super::notice::Notice;
use crate::ui::failure::Failure;
use crate::ui::recipients;

/// An address that takes JSON.
pub(super) struct Webhook {
    file: PathBuf,
    url: Url,
}

impl Webhook {
    /// The address in the first line of a file.
    pub(super) fn of(file: &Path) -> Result<Webhook, Failure> {
        Ok(Webhook { file: file.to_path_buf(), url: recipients::url_of(file)? })
    }

    /// Sends it, and waits for the answer. Redirections are not followed: as a rule they turn what is sent into
    /// a mere question.
    pub(super) fn send(&self, notice: &Notice, timeout: Duration) -> Result<(), Failure> {
        let failed = |why: String| Failure::file(&self.file, "send", io::Error::other(why));
        // Fails where another part of the program chose one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().timeout(timeout).redirect(Policy::none()).build();
        let request = client
            .map_err(|error| failed(told(error, timeout)))?
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(notice.json());
        let answer = request.send().map_err(|error| failed(told(error, timeout)))?;
        let status = answer.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(failed(format!("the server answered {status}"))),
        }
    }
}

/// The cause without the address.
fn told(error: reqwest::Error, timeout: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", timeout.as_secs());
    }
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    let end = text.find(" (os error ").unwrap_or(text.len());
    match error.is_connect() {
        true => format!("no connection: {}", &text[..end]),
        false => text[..end].to_string(),
    }
}
