//! Sends messages by mail, through the machine's sendmail.
//!
//! Whoever administrates a machine has told sendmail (Postfix, Exim, msmtp or another behind that name) once
//! where mail goes and with which password, for cron as well. A client of SMTP in here would need all that a
//! second time, would keep the password, and could not keep the mail while the server is away.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use mail_builder::MessageBuilder;

use super::limited_program;
use super::notice::Notice;
use crate::ui::failure::Failure;

/// The most that is kept of what it says.
const SAID: u64 = 16 << 10;

/// The longest report that is attached: many servers refuse mails of more than 10 MB.
const ATTACHED: usize = 6 << 20;

/// Somebody who gets mail.
pub(super) struct Mail {
    pub(super) program: PathBuf,
    pub(super) to: String,
}

impl Mail {
    /// Hands the mail over, and waits until it was taken.
    pub(super) fn send(&self, notice: &Notice, timeout: Duration) -> Result<(), Failure> {
        let to = &self.to;
        let failed = |why: String| Failure::Program { name: format!("mail to {to}"), why };
        let text = self.text(notice).map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(&self.program);
        command.args(["-i", "--"]).arg(to);
        let ended = limited_program::run(&mut command, text, SAID, timeout).map_err(|why| {
            let name = self.program.file_name().unwrap_or(OsStr::new("sendmail"));
            failed(format!("{}: {why}", name.to_string_lossy()))
        })?;
        match ended.status.success() {
            true => Ok(()),
            false => {
                let said = ended.said();
                let why = if said.is_empty() { "it says nothing" } else { &said };
                Err(failed(format!("{}: {why}", ended.status)))
            }
        }
    }

    /// The mail. Who it is from, sendmail knows.
    fn text(&self, notice: &Notice) -> std::io::Result<Vec<u8>> {
        let page = notice.state.page.as_ref().filter(|page| page.len() <= ATTACHED);
        let mut body = notice.text();
        body += match (page, &notice.state.page, &notice.state.trouble) {
            (Some(_), ..) => "\nThe whole report is attached.\n",
            (None, Some(_), _) => {
                "\nThe report is too long for a mail: `verisum report -o FILE` writes it.\n"
            }
            (None, None, _) => "",
        };
        let mut message = MessageBuilder::new()
            .to(self.to.as_str())
            .subject(notice.summary())
            .header("Auto-Submitted", mail_builder::headers::raw::Raw::new("auto-generated"))
            .text_body(body);
        if let Some(page) = page {
            message = message.attachment("text/html; charset=utf-8", "report.html", page.as_slice());
        }
        // Lines end as on this machine; sendmail makes of them what the server wants.
        let text = message.write_to_vec()?;
        let mut local = Vec::with_capacity(text.len());
        for (at, byte) in text.iter().enumerate() {
            if *byte != b'\r' || text.get(at + 1) != Some(&b'\n') {
                local.push(*byte);
            }
        }
        Ok(local)
    }
}
