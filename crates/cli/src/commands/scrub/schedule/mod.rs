//! `verisum schedule`: prints or installs a timer or a cron line that runs scrubs.

mod calendar;
mod notify_command;
mod quote;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, FromArgMatches, ValueHint};
use rustix::io::Errno;
use verisum::files::{Replacement, trusted_path};

use super::run::ScrubArgs;
use crate::ui::PROGRAM;
use crate::ui::catalog::{CatalogArgs, absolute};
use crate::ui::config::Config;
use crate::ui::exit::Exit;
use crate::ui::export::{NO_STREAM, file};
use crate::ui::failure::Failure;
use crate::ui::help::one_line;
use crate::ui::hosts;
use crate::ui::messages::MessageArgs;
use crate::ui::{self, Output, names};

/// The name of units that get no other.
const NAME: &str = "verisum-scrub";

/// How much a scrub prints: what is typed holds before what is configured.
const LOUDNESS: [&str; 5] = ["-q", "--quiet", "-v", "-vv", "--verbose"];

/// What `verisum schedule` takes.
#[derive(Args, Debug)]
pub(crate) struct ScheduleArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    /// When systemd runs the scrub: a calendar event, such as 'Sun 03:00'
    #[arg(long, value_name = "EVENT", default_value = calendar::DEFAULT)]
    on: String,

    /// Print a line for crontab instead of systemd units: five fields, such as '0 4 1 */2 *', or @weekly
    #[arg(long, value_name = "FIELDS", conflicts_with = "on")]
    cron: Option<String>,

    /// Write the units to systemd's directory
    #[arg(long, conflicts_with = "cron")]
    install: bool,

    /// Use the user's own systemd instead of the system's
    #[arg(long)]
    user: bool,

    /// With --install, write below this directory, for packages and images
    #[arg(long, value_name = "DIR", requires = "install", value_hint = ValueHint::DirPath)]
    root: Option<PathBuf>,

    /// Name of the units; without it verisum-scrub, if no units of that name scrub other directories
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// As in `verisum scrub`
    #[arg(long, value_name = "DURATION")]
    max_age: Option<String>,

    /// As in `verisum scrub`
    #[arg(long = "for", value_name = "DURATION")]
    budget: Option<String>,

    /// As in `verisum scrub`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        value_parser = file(NO_STREAM))]
    prometheus: Option<PathBuf>,

    /// As in `verisum scrub`
    #[arg(long)]
    archive: bool,

    /// Send a mail through sendmail to this address if the scrub fails; may be given several times
    #[arg(long = "mail", value_name = "ADDRESS")]
    mails: Vec<String>,

    /// Send JSON to this URL if the scrub fails. Needs --install, which keeps the URL in a file that others
    /// cannot read
    #[arg(long, value_name = "URL", requires = "install", conflicts_with = "cron")]
    webhook: Option<String>,

    /// The same, with the URL in this file; may be given several times
    #[arg(long = "webhook-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    webhook_files: Vec<PathBuf>,

    /// Let systemd start this unit if the scrub fails
    #[arg(long, value_name = "UNIT", conflicts_with = "cron")]
    on_failure: Option<String>,

    /// The directories
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    directories: Vec<PathBuf>,

    /// Any other options of `verisum scrub`
    #[arg(value_name = "SCRUB-OPTION", last = true)]
    options: Vec<OsString>,
}

/// Prints or installs.
pub(crate) fn run(arguments: &ScheduleArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name = arguments.name();
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_part) {
        return Err(Failure::value("--name", name, "must be letters, digits, -, _ and ."));
    }
    notify_command::check(arguments)?;
    let command = notify_command::wrapped(arguments, command(arguments, config)?)?;
    if let Some(fields) = &arguments.cron {
        calendar::check_cron(fields)?;
        let mut line = fields.trim().as_bytes().to_vec();
        for argument in &command {
            line.push(b' ');
            line.extend(quote::cron(argument).ok_or_else(|| {
                Failure::Usage(format!("--cron: {}: no cron line can hold it", names::quoted(argument)))
            })?);
        }
        line.push(b'\n');
        output.bytes(&line)?;
        return Ok(Exit::Clean);
    }
    if let Some(remark) = calendar::check_calendar(&arguments.on)? {
        ui::say(PROGRAM, &format!("--on: {}: {remark}", names::quoted(arguments.on.as_ref())));
    }
    let units = [
        (format!("{name}.service"), service(arguments, &command)),
        (format!("{name}.timer"), timer(&arguments.on)),
    ];
    if !arguments.install {
        for (file, text) in &units {
            output.text(&format!("# {file}\n{text}\n"))?;
        }
        return Ok(Exit::Clean);
    }
    let folder = folder(arguments)?;
    trusted_path(&folder).map_err(|error| failed(&folder, "create")(error.into_io()))?;
    if arguments.name.is_none() {
        refuse_others(&folder.join(&units[0].0), &units[0].1)?;
    }
    fs::create_dir_all(&folder).map_err(failed(&folder, "create"))?;
    notify_command::keep_url(arguments, &folder)?;
    for (file, text) in &units {
        let unit = Replacement::new(&folder.join(file))?;
        unit.file().write_all(text.as_bytes()).map_err(failed(&folder.join(file), "write"))?;
        unit.place()?;
        output.line(&format!("wrote {}", names::quoted(folder.join(file).as_os_str())))?;
    }
    let user = if arguments.user { " --user" } else { "" };
    output.line(&format!(
        "start it with: systemctl{user} daemon-reload && systemctl{user} enable --now {name}.timer"
    ))?;
    Ok(Exit::Clean)
}

impl ScheduleArgs {
    /// The name of the units.
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(NAME)
    }
}

/// Fails if a unit is there that scrubs other directories than a new one: nobody would scrub these any more.
fn refuse_others(path: &Path, new: &str) -> Result<(), Failure> {
    let directories = |unit: &str| -> Option<String> {
        let command = unit.lines().find(|line| line.starts_with("ExecStart="))?;
        command.rsplit_once(" -- ").map(|(_, directories)| directories.to_string())
    };
    match fs::read_to_string(path) {
        Ok(old) if directories(&old) != directories(new) => Err(Failure::Usage(format!(
            "--install: {} scrubs other directories: --name NAME makes units beside it, --name {NAME} replaces it",
            names::quoted(path.as_os_str())
        ))),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, "read")(error)),
        _ => Ok(()),
    }
}

/// The command that is scheduled. All that depends on who runs it is spelled out.
fn command(arguments: &ScheduleArgs, config: &Config) -> Result<Vec<OsString>, Failure> {
    let program = env::current_exe().map_err(failed(Path::new("/proc/self/exe"), "find"))?;
    // It may have been replaced or removed since it was started.
    fs::metadata(&program).map_err(failed(&program, "find"))?;
    let mut command: Vec<OsString> = vec![program.into(), "scrub".into(), "--catalog".into()];
    command.push(arguments.catalog.path()?.into());
    if let Some(age) = &arguments.max_age {
        command.extend(["--max-age".into(), age.into()]);
    }
    if let Some(budget) = &arguments.budget {
        command.extend(["--for".into(), budget.into()]);
    }
    if let Some(path) = &arguments.prometheus {
        command.extend(["--prometheus".into(), absolute(path)?.into()]);
    }
    if arguments.archive {
        command.push("--archive".into());
    }
    if !arguments.options.iter().any(|option| LOUDNESS.iter().any(|known| option == known)) {
        command.push("--quiet".into());
    }
    command.extend(arguments.options.iter().cloned());
    command.push("--".into());
    for directory in &arguments.directories {
        if hosts::is_remote(&directory.clone().into_os_string()) {
            let place = directory.display();
            let why = "is not on this machine: a schedule takes directories of this machine";
            return Err(Failure::Usage(format!("DIR: {place} {why}")));
        }
        hosts::refuse_urls([directory])?;
        let path = absolute(directory)?;
        // An image's directories are not here.
        if arguments.root.is_none() {
            let found = fs::metadata(&path).map_err(failed(directory, "open"))?;
            if !found.is_dir() {
                return Err(failed(directory, "open")(io::Error::from(Errno::NOTDIR)));
            }
        }
        command.push(path.into());
    }
    let directories = arguments.directories.len();
    understood(&command[2..], directories)?;
    taken_with(config, &command)?;
    with_configured(command, directories, config)
}

/// Fails as this scrub would with the configuration of the one who asks.
fn taken_with(config: &Config, command: &[OsString]) -> Result<(), Failure> {
    let definition = || clap::Command::new(PROGRAM).subcommand(scrub_command());
    let parsed =
        config.parse(definition, command).and_then(|configured| match configured.matches.subcommand() {
            Some((_, found)) => ScrubArgs::from_arg_matches(found),
            None => ScrubArgs::from_arg_matches(&configured.matches),
        });
    let parsed = parsed.map_err(|error| {
        let why = one_line(&error.render().to_string());
        let option = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(arg)) => arg.strip_prefix("--").and_then(|arg| arg.split(' ').next()),
            _ => None,
        };
        let fault = option.and_then(|option| config.fault_of(&["scrub".to_string()], option, &why));
        Failure::Usage(fault.unwrap_or(why))
    })?;
    parsed.check().map_err(|failure| with_place(failure, config, command))
}

/// The same failure, after the place in the configuration of the refused value, if nobody typed it.
fn with_place(failure: Failure, config: &Config, command: &[OsString]) -> Failure {
    let said = match &failure {
        Failure::UnknownDigest { .. } => format!("--algorithm: {}", failure.message()),
        _ => failure.message(),
    };
    let Some((option, _)) = said.split_once(": ") else { return failure };
    let is_typed = command.iter().any(|word| word.as_encoded_bytes().starts_with(option.as_bytes()));
    match config.place_of(&["scrub".to_string()], option.trim_start_matches('-')) {
        Some(place) if !is_typed => Failure::Usage(format!("{place}: {said}")),
        _ => failure,
    }
}

/// With the options that a scrub gets from the configuration of the one who asks, which may not be that of the one who
/// runs the schedule, and is not where he is. What does not fit is passed over, and told if it conflicts with what is
/// typed: a scrub would heed both.
fn with_configured(
    mut command: Vec<OsString>,
    directories: usize,
    config: &Config,
) -> Result<Vec<OsString>, Failure> {
    let definition = scrub_command();
    for (option, words) in config.own_options(&definition, &["scrub".to_string()]) {
        let is_it = |word: &OsString| {
            let rest = word.as_encoded_bytes().strip_prefix(option.as_bytes());
            rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'=')))
        };
        if command.iter().any(is_it) {
            continue;
        }
        let arg = definition.get_arguments().find(|arg| arg.get_long() == option.strip_prefix("--"));
        let is_path =
            arg.is_some_and(|arg| matches!(arg.get_value_hint(), ValueHint::FilePath | ValueHint::DirPath));
        let word = |word: String| {
            let Some((option, path)) = word.split_once('=').filter(|_| is_path) else {
                return Ok(word.into());
            };
            let mut whole = OsString::from(format!("{option}="));
            whole.push(absolute(Path::new(path))?);
            Ok(whole)
        };
        let mut longer = command.clone();
        let at = longer.len() - directories - 1;
        longer.splice(at..at, words.into_iter().map(word).collect::<Result<Vec<_>, Failure>>()?);
        let parsed = definition.clone().no_binary_name(true).try_get_matches_from(&longer[2..]);
        match parsed {
            Err(error) if error.kind() == ErrorKind::ArgumentConflict && !LOUDNESS.contains(&&*option) => {
                let why = format!("left out of the schedule: {}", one_line(&error.render().to_string()));
                let key = option.trim_start_matches('-');
                let told = config.fault_of(&["scrub".to_string()], key, &why);
                ui::say(PROGRAM, &told.unwrap_or(why));
            }
            _ if understood(&longer[2..], directories).is_ok() => command = longer,
            _ => {}
        }
    }
    Ok(command)
}

/// The definition of `verisum scrub`.
fn scrub_command() -> clap::Command {
    MessageArgs::augment_args(ScrubArgs::augment_args(clap::Command::new("scrub")))
}

/// Fails unless `verisum scrub` takes these arguments, wherever it is started.
fn understood(arguments: &[OsString], directories: usize) -> Result<(), Failure> {
    let parsed = scrub_command()
        .no_binary_name(true)
        .try_get_matches_from(arguments)
        .and_then(|found| Ok((ScrubArgs::from_arg_matches(&found)?, MessageArgs::from_arg_matches(&found)?)));
    let (parsed, messages) = parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp => Failure::Usage("--help: a schedule has no use for it".to_string()),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Failure::Usage(format!("after --: {}", line.strip_prefix("error: ").unwrap_or(line)))
        }
    })?;
    if parsed.directories.len() != directories {
        return Err(Failure::Usage("after -- there may be options, but no directories".to_string()));
    }
    let log = messages.log_file.as_ref();
    if let Some(file) = parsed.files().chain(log).find(|file| !file.is_absolute()) {
        let name = names::quoted(file.as_os_str());
        let why = "a schedule needs an absolute path, wherever it is started";
        return Err(Failure::Usage(format!("{name}: {why}")));
    }
    parsed.check()
}

fn service(arguments: &ScheduleArgs, command: &[OsString]) -> String {
    let command: Vec<String> = command.iter().map(|argument| quote::systemd(argument)).collect();
    format!(
        "[Unit]\n\
         Description=Verify recorded checksums\n\
         {}\n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart={}\n\
         Nice=19\n\
         IOSchedulingClass=idle\n\
         {}",
        notify_command::unit_lines(arguments),
        command.join(" "),
        notify_command::service_lines(arguments),
    )
}

fn timer(event: &str) -> String {
    format!(
        "[Unit]\n\
         Description=Verify recorded checksums on a schedule\n\
         \n\
         [Timer]\n\
         OnCalendar={event}\n\
         Persistent=true\n\
         \n\
         [Install]\n\
         WantedBy=timers.target\n"
    )
}

/// Where systemd looks for units.
fn folder(arguments: &ScheduleArgs) -> Result<PathBuf, Failure> {
    let system = match (arguments.user, &arguments.root) {
        (false, _) => PathBuf::from("/etc/systemd/system"),
        // Of all users of an image: nobody's home is known there.
        (true, Some(_)) => PathBuf::from("/etc/systemd/user"),
        (true, None) => {
            let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
            let config =
                folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
            let config = config.ok_or_else(|| {
                Failure::Usage("--user: neither HOME nor XDG_CONFIG_HOME says where units are".to_string())
            })?;
            config.join("systemd/user")
        }
    };
    Ok(match &arguments.root {
        Some(root) => root.join(system.strip_prefix("/").unwrap_or(&system)),
        None => system,
    })
}

fn failed(path: &Path, operation: &'static str) -> impl Fn(io::Error) -> Failure {
    let name = OsStr::to_os_string(path.as_os_str());
    move |error| Failure::File { name: PathBuf::from(&name), operation, error }
}
