//! Options and units for messages about a failed scrub.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use verisum::files::Replacement;

use super::{ScheduleArgs, failed, folder};
use crate::ui::catalog::absolute;
use crate::ui::failure::Failure;
use crate::ui::names;
use crate::ui::recipients;
use crate::ui::{self, PROGRAM};

/// Fails if somebody could not be told, as far as that is known now.
pub(super) fn check(arguments: &ScheduleArgs) -> Result<(), Failure> {
    for address in &arguments.mails {
        recipients::check_address(address)?;
    }
    if !arguments.mails.is_empty()
        && arguments.root.is_none()
        && let Err(failure) = recipients::sendmail(None)
    {
        ui::say(PROGRAM, &format!("--mail: {}", failure.message()));
    }
    if arguments.webhook.is_some() && !arguments.install {
        return Err(Failure::Usage(
            "--webhook: needs --install, which keeps it where others cannot read it; --webhook-file does not"
                .to_string(),
        ));
    }
    // The URL may hold a secret, and is not repeated.
    if arguments.webhook.as_deref().is_some_and(|url| recipients::url(url).is_none()) {
        return Err(Failure::Usage("--webhook: must be a URL of http or https".to_string()));
    }
    for file in arguments.webhook_files.iter().filter(|_| arguments.root.is_none()) {
        if let Some(why) = recipients::told_if_open_to_others(file).map_err(failed(file, "open"))? {
            let name = names::quoted(file.as_os_str());
            return Err(Failure::Usage(format!("--webhook-file: {name}: {why}")));
        }
        recipients::url_of(file)?;
    }
    match &arguments.on_failure {
        Some(unit) if !is_unit(unit) => {
            Err(Failure::value("--on-failure", unit, "must be the name of a unit, as in tell@%n.service"))
        }
        _ => Ok(()),
    }
}

fn is_unit(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.@%\\".contains(&byte);
    let kinds = ["service", "target", "socket", "path", "timer"];
    name.bytes().all(is_plain)
        && name.rsplit_once('.').is_some_and(|(stem, kind)| !stem.is_empty() && kinds.contains(&kind))
}

/// The command, run by `verisum notify` where that is to tell somebody.
pub(super) fn wrapped(arguments: &ScheduleArgs, command: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    if !is_told(arguments) {
        return Ok(command);
    }
    let mut whole: Vec<OsString> = vec![command[0].clone(), "notify".into(), "--catalog".into()];
    whole.push(arguments.catalog.path()?.into());
    for address in &arguments.mails {
        whole.extend(["--mail".into(), address.into()]);
    }
    let mut files =
        arguments.webhook_files.iter().map(|file| absolute(file)).collect::<Result<Vec<_>, _>>()?;
    if arguments.webhook.is_some() {
        // Where it will be found by whoever runs the unit, who does not know of another root.
        let folder = folder(arguments)?;
        let folder = match &arguments.root {
            Some(root) => Path::new("/").join(folder.strip_prefix(root).unwrap_or(&folder)),
            None => folder,
        };
        files.push(url_file(arguments, &folder));
    }
    for file in files {
        whole.extend(["--webhook-file".into(), file.into()]);
    }
    whole.push("--".into());
    whole.extend(command.into_iter().skip(1));
    Ok(whole)
}

fn is_told(arguments: &ScheduleArgs) -> bool {
    let webhooks = arguments.webhook_files.len() + usize::from(arguments.webhook.is_some());
    arguments.mails.len() + webhooks > 0
}

/// Where a URL is kept. systemd passes over files of this kind.
fn url_file(arguments: &ScheduleArgs, folder: &Path) -> PathBuf {
    folder.join(format!("{}.webhook", arguments.name()))
}

/// Writes the URL into a file that nobody else can read.
pub(super) fn keep_url(arguments: &ScheduleArgs, folder: &Path) -> Result<(), Failure> {
    let Some(url) = &arguments.webhook else { return Ok(()) };
    let path = url_file(arguments, folder);
    let file = Replacement::private(&path)?;
    writeln!(file.file(), "{}", url.trim()).map_err(failed(&path, "write"))?;
    file.place()?;
    Ok(())
}

/// Lines of the unit's first section, each with its end.
pub(super) fn unit_lines(arguments: &ScheduleArgs) -> String {
    arguments.on_failure.as_ref().map_or(String::new(), |unit| format!("OnFailure={unit}\n"))
}

/// Lines of the service's section.
pub(super) fn service_lines(arguments: &ScheduleArgs) -> &'static str {
    // Else both it and the scrub would get the signal that it passes on, and a second one ends a scrub at once.
    if is_told(arguments) { "KillMode=mixed\n" } else { "" }
}
