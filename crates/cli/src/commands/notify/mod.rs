//! `verisum notify`: runs a command of verisum, and sends a message if it fails.

mod limited_program;
mod mail;
mod notice;
mod watched_command;
mod webhook;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use serde::Serialize;
use serde_json::{Value, json};
use verisum::catalog::store::Moment;

use crate::ui::catalog::CatalogArgs;
use crate::ui::config::Config;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{self, Output, PROGRAM, config, names, recipients, values};

use mail::Mail;
use notice::{ArchiveState, Notice};
use watched_command::{Said, Watched};
use webhook::Webhook;

/// What `verisum notify` takes.
#[derive(Args, Debug)]
pub(crate) struct NotifyArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    /// Send a mail to this address; may be given several times
    #[arg(long = "mail", value_name = "ADDRESS")]
    mails: Vec<String>,

    /// Send JSON to the URL in this file; may be given several times
    #[arg(long = "webhook-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    webhooks: Vec<PathBuf>,

    /// The program that takes mail, with sendmail's options; without it, sendmail
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath)]
    sendmail: Option<PathBuf>,

    /// Time limit for each recipient
    #[arg(long, value_name = "DURATION", default_value = TIMEOUT)]
    timeout: String,

    /// At the end, print a line of JSON: how the command ended, and who was told
    #[arg(long)]
    json: bool,

    /// The command of verisum to run, with its options, as in `-- scrub --quiet DIR`; you may begin it with
    /// `verisum`. If it fails, a message is sent. Without a command, a message is sent now. It uses the catalogue
    /// of --catalog, unless the command gives --catalog too
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<OsString>,
}

impl NotifyArgs {
    /// The words of the command, without the name of the program.
    fn words(&self) -> &[OsString] {
        match self.command.split_first() {
            Some((first, rest)) if Path::new(first).file_name() == Some(PROGRAM.as_ref()) => rest,
            _ => &self.command,
        }
    }
}

/// How long a recipient has, unless it is told.
const TIMEOUT: &str = "1m";

/// Runs the command, sends what is to be sent, and ends as the command did, or with 3 if somebody who should
/// hear of it could not be told, or something is wrong in the configuration.
pub(crate) fn run(arguments: &NotifyArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let (mut said, mut exit) = (Said::default(), Exit::Clean);
    let command = arguments.words();
    // What is wrong here must not keep the command from its work.
    for fault in config.faults() {
        said.remark(fault);
        exit = Exit::Unchecked;
    }
    // Here, as clap takes values of the configuration for none.
    if arguments.mails.is_empty() && arguments.webhooks.is_empty() {
        let nobody = "--mail or --webhook-file is missing: nobody would be told";
        if exit == Exit::Clean {
            return Err(Failure::Usage(nobody.to_string()));
        }
        said.remark(nobody);
    }
    let timeout = match values::duration("--timeout", &arguments.timeout) {
        Ok(timeout) => timeout,
        Err(failure) => {
            exit = exit.max(of_configuration("--timeout", failure, &mut said)?);
            values::duration("--timeout", TIMEOUT)?
        }
    };
    let mut recipients = Vec::new();
    let mut mails = Vec::new();
    for to in &arguments.mails {
        match recipients::check_address(to) {
            Ok(()) => mails.push(to.clone()),
            Err(failure) => {
                recipients.push(Recipient { to: to.clone(), error: Some(failure.message()) });
                exit = exit.max(of_configuration("--mail", failure, &mut said)?);
            }
        }
    }
    // Found out before it is needed.
    let mut targets = targets((arguments, &mails), &mut |to, failure| {
        said.remark(&failure.message());
        exit = exit.max(Exit::Unchecked);
        recipients.push(Recipient { to, error: Some(failure.message()) });
    });
    let started = Moment::now();
    let watched = match command.is_empty() {
        true => None,
        false => Some(Watched::run(command, catalog_of_command(arguments)?, &mut said, output)?),
    };
    let ended = notice::ended(command, watched.as_ref(), [started, Moment::now()]);
    if let Some(watched) = &watched {
        exit = exit.max(watched.exit());
        if matches!(exit, Exit::Clean | Exit::Interrupted) {
            print(arguments, ended, &recipients, output)?;
            return Ok(exit);
        }
    }
    let is_scrub = command.first().is_some_and(|verb| verb == "scrub");
    let state = ArchiveState::of(&arguments.catalog, is_scrub.then_some(started), timeout);
    if watched.is_none()
        && let Some(why) = &state.trouble
    {
        ui::say(PROGRAM, why);
        exit = exit.max(Exit::Unchecked);
    }
    let notice = Notice::new(command, watched, started, said, state);
    for (to, target) in &mut targets {
        let error = target.send(&notice, timeout).err().map(|failure| failure.message());
        if let Some(error) = &error {
            ui::say(PROGRAM, error);
            exit = exit.max(Exit::Unchecked);
        }
        recipients.push(Recipient { to: to.clone(), error });
    }
    print(arguments, ended, &recipients, output)?;
    Ok(exit)
}

/// Says what is wrong with a value of the configuration; one that is typed ends the run.
fn of_configuration(option: &str, failure: Failure, said: &mut Said) -> Result<Exit, Failure> {
    if !config::is_untyped(option) {
        return Err(failure);
    }
    said.remark(&failure.message());
    Ok(Exit::Unchecked)
}

/// Somebody who was to be told.
#[derive(Serialize)]
struct Recipient {
    /// The address of a mail, or the file that has the URL.
    to: String,
    error: Option<String>,
}

/// Prints how the command ended and who was told, if that is asked for.
fn print(
    arguments: &NotifyArgs,
    mut ended: Value,
    recipients: &[Recipient],
    output: &mut Output,
) -> Result<(), Failure> {
    ended["recipients"] = json!(recipients);
    output.summary(arguments.json, None, &ended)
}

/// The catalogue that is typed, which is that of the command too. What the configuration says, the command reads itself.
fn catalog_of_command(arguments: &NotifyArgs) -> Result<Option<&str>, Failure> {
    let typed = arguments.catalog.catalog.as_deref().filter(|_| !config::is_untyped("--catalog"));
    let Some(path) = typed else { return Ok(None) };
    path.to_str().map(Some).ok_or_else(|| {
        let name = names::quoted(path.as_os_str());
        Failure::Usage(format!("--catalog: {name} is no UTF-8, and cannot be passed to the command"))
    })
}

/// Where word is sent to.
enum Target {
    Mail(Mail),
    Webhook(Webhook),
}

impl Target {
    fn send(&mut self, notice: &Notice, timeout: Duration) -> Result<(), Failure> {
        match self {
            Target::Mail(mail) => mail.send(notice, timeout),
            Target::Webhook(webhook) => webhook.send(notice, timeout),
        }
    }
}

/// All targets that can be used, by their names; why others cannot is told.
fn targets(
    (arguments, mails): (&NotifyArgs, &[String]),
    tell: &mut dyn FnMut(String, Failure),
) -> Vec<(String, Target)> {
    let mut found = Vec::new();
    if !mails.is_empty() {
        match recipients::sendmail(arguments.sendmail.as_deref()) {
            Ok(program) => {
                let mail = |to: &String| Target::Mail(Mail { program: program.clone(), to: to.clone() });
                found.extend(mails.iter().map(|to| (to.clone(), mail(to))));
            }
            Err(failure) => tell(mails.join(", "), failure),
        }
    }
    for file in &arguments.webhooks {
        let name = names::quoted(file.as_os_str());
        match Webhook::of(file) {
            Ok(webhook) => {
                // The message matters more.
                if let Ok(Some(why)) = recipients::told_if_open_to_others(file) {
                    ui::say(PROGRAM, &format!("--webhook-file: {name}: {why}"));
                }
                found.push((name, Target::Webhook(webhook)));
            }
            Err(failure) => tell(name, failure),
        }
    }
    found
}
