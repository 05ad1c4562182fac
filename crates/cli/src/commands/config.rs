//! `verisum config`: prints the values that options get from files and the environment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Subcommand;
use serde::Serialize;

use crate::ui::config::Config;
use crate::ui::exit::Exit;
use crate::ui::fact_line::FactLine;
use crate::ui::failure::Failure;
use crate::ui::untyped::Setting;
use crate::ui::{self, Output, PROGRAM, names, refused_values, secrets};

/// What `verisum config` takes.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print what is set, and where
    #[command(long_about = "Print what is set, and where.\n\n\
            The keys of /etc/verisum.toml and of ~/.config/verisum/config.toml are the long options of \
            commands. A key at the top of a file applies to every command that has the option; a key in a \
            table such as [scrub] or [\"catalog status\"] applies to that command. The user's file overrides \
            the machine's, VERISUM_OPTION in the environment overrides both, and the command line overrides \
            all. With COMMAND, prints every option of the command that has a value, defaults too.")]
    Show {
        /// Print a line of JSON for each value
        #[arg(long)]
        json: bool,

        /// The words of a command: catalog status
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
}

#[derive(Serialize)]
struct ConfigLine<'a> {
    key: &'a str,
    values: &'a [String],
    source: &'a str,
}

/// Does what `verisum config` was asked for.
pub(crate) fn run(
    command: &ConfigCommand,
    (config, definition): (&Config, &clap::Command),
    output: &mut Output,
) -> Result<Exit, Failure> {
    let ConfigCommand::Show { json, command: words } = command;
    // As a table of a file has them, too: in one word.
    let words: Vec<String> = words.iter().flat_map(|word| word.split(' ').map(String::from)).collect();
    let settings = match &words[..] {
        [] => config.settings(definition),
        words => {
            let mut whole = definition.clone();
            // With the options that all commands have.
            whole.build();
            let found = words.iter().try_fold(&whole, |above, word| above.find_subcommand(word));
            let found = found.ok_or_else(|| {
                Failure::value("COMMAND", words.join(" "), "must be a command, such as catalog status")
            })?;
            config.settings_of(found, words)
        }
    };
    for (key, setting) in &settings {
        let source = &setting.source;
        let shown = |value: &String| String::from_utf8_lossy(&secrets::hidden(value.as_bytes())).into_owned();
        let values: Vec<String> = setting.values.iter().map(shown).collect();
        match json {
            true => output.json("value", &ConfigLine { key, values: &values, source })?,
            false => {
                let what = format!("{key} = {}", names::plain(&values.join(", ")));
                output.told(&FactLine { what, facts: vec![source.clone()] }, 0..0, Exit::Clean)?;
            }
        }
    }
    let is_refused = tell_refused(&settings, &words, definition);
    // Commands that can do without a catalogue do not say so.
    let catalogs = settings.iter().filter(|(key, _)| key.rsplit('.').next() == Some("catalog"));
    for catalog in catalogs.flat_map(|(_, setting)| &setting.values).collect::<BTreeSet<_>>() {
        if !Path::new(catalog).exists() {
            let catalog = names::quoted(catalog.as_ref());
            ui::say(PROGRAM, &format!("{catalog}: there is no catalogue yet"));
        }
    }
    for (path, _) in config.files.iter().filter(|(_, is_there)| !is_there) {
        ui::say(PROGRAM, &format!("{}: not there, or not yours", names::quoted(path.as_os_str())));
    }
    Ok(if is_refused { Exit::Usage } else { Exit::Clean })
}

/// Says which values no command takes, and whether there are any. The keys are those of a file, or of a command.
fn tell_refused(settings: &BTreeMap<String, Setting>, words: &[String], definition: &clap::Command) -> bool {
    let mut is_refused = false;
    for (key, setting) in settings {
        let (of, option) = key.rsplit_once('.').unwrap_or(("", key));
        let words: Vec<String> = match words {
            [] => of.split(' ').filter(|word| !word.is_empty()).map(String::from).collect(),
            words => words.to_vec(),
        };
        for value in &setting.values {
            if let Some(why) = refused_values::why_refused(definition, &words, option, value) {
                is_refused = true;
                ui::say(PROGRAM, &format!("{}: {key}: {why}", setting.place()));
            }
        }
    }
    is_refused
}
