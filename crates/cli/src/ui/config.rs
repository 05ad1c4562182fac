//! The configuration: values for options that are not on the command line.
//!
//! The keys of a file are the long options. At the top they hold for every command that has the option; in the table
//! of a command, for that and for the commands below it. The deepest table that has a key holds. Of two files the one
//! that is read later holds, and a variable of the environment holds before all files. Two keys stand for what is
//! typed without an option: see [`OPERANDS`].

use std::cell::LazyCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, error};
use toml::de::DeValue;
use verisum::files::replace::is_trusted;

use super::config_file::{self, Key, WrongValue};
use super::configured_places::{self, Places};
use super::failure::Failure;
use super::kernel;
use super::untyped::{self, Setting};
use super::verbosity;

pub(crate) use super::untyped::is_untyped;

/// The file of the machine.
const SYSTEM: &str = "/etc/verisum.toml";

/// Names the only file, or none if it is empty.
pub(crate) const FILE_VARIABLE: &str = "VERISUM_CONFIG";

/// Names the catalogue of commands whose line names none.
pub(crate) const CATALOG_VARIABLE: &str = "VERISUM_CATALOG";

/// Is set for a command that `verisum notify` runs, and that passes over what is wrong in tables of other commands; to
/// [`REPORT`] for the report that it sends.
pub(crate) const WATCHED_VARIABLE: &str = "VERISUM_WATCHED";
pub(crate) const REPORT: &str = "report";

/// How the variables begin that give options their values.
const PREFIX: &str = "VERISUM_";

/// Options that are for those who read what a command prints, which `verisum notify` does for a command that it runs;
/// and more of them for the report that it asks for.
const FOR_READERS: [&str; 2] = ["color", "nagios"];
const OF_REPORT: [&str; 3] = ["csv", "json", "output"];

/// Operands that have keys: the key, the commands, and what the operand is called in them.
const OPERANDS: [(&str, &[&str], &str); 1] = [("trees", &["scrub", "schedule"], "directories")];

/// How many words the longest name of a command has.
const DEEPEST: usize = 3;

/// The longest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// What files and variables say.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// By the words of a command, then by option.
    tables: BTreeMap<Vec<String>, BTreeMap<String, Setting>>,
    /// Variables, which may be of other things than options.
    variables: BTreeMap<String, Setting>,
    places: Places,
    /// What is wrong, which gives no values.
    faults: Vec<Fault>,
    /// The files that were looked for, and whether each is there.
    pub(crate) files: Vec<(PathBuf, bool)>,
}

/// A command line, parsed with the configuration.
pub(crate) struct Configured {
    command: Command,
    pub(crate) matches: ArgMatches,
    /// The keys whose values do not hold in it.
    displaced: Vec<String>,
}

/// Something wrong in a file or a variable.
#[derive(Debug)]
struct Fault {
    /// The verb whose table has it; none if it may concern every command.
    verb: Option<String>,
    why: String,
    /// It is the file itself, which cannot be read or trusted.
    is_of_file: bool,
}

impl Fault {
    /// One that may concern every command.
    fn of(why: String) -> Fault {
        Fault { verb: None, why, is_of_file: false }
    }
}

impl Config {
    /// Reads the files and the environment, for the options of a definition.
    pub(crate) fn load(definition: fn() -> Command) -> Config {
        let definition = LazyCell::new(definition);
        let mut config = Config::default();
        let (files, is_named) = match std::env::var_os(FILE_VARIABLE) {
            Some(file) if file.is_empty() => (Vec::new(), false),
            Some(file) => (vec![PathBuf::from(file)], true),
            None => ([SYSTEM.into()].into_iter().chain(of_user()).collect(), false),
        };
        for path in files {
            let bytes = match read(&path, is_named) {
                Ok(bytes) => bytes,
                Err(failure) => {
                    config.faults.push(Fault { is_of_file: true, ..Fault::of(failure.message()) });
                    config.files.push((path, true));
                    continue;
                }
            };
            config.files.push((path.clone(), bytes.is_some()));
            let Some(bytes) = bytes else {
                if leads_nowhere(&path) {
                    let why = format!("{}: it is a link to a file that is not there", path.display());
                    config.faults.push(Fault::of(why));
                }
                continue;
            };
            let (text, broken) = decoded(&bytes);
            if let Some(line) = broken {
                let why = format!("{}: line {line}: must be UTF-8", path.display());
                config.faults.push(Fault::of(why));
            }
            let mut take = |words: &[String], key: Key, value: DeValue| {
                config.take((path.as_path(), words), key, value, &definition)
            };
            for fault in config_file::read(&text, &mut take) {
                let verb = fault.words.into_iter().next();
                let why = format!("{}: line {}: {}", path.display(), fault.line, fault.why);
                let verb = verb.filter(|verb| definition.find_subcommand(verb).is_some());
                config.faults.push(Fault { verb, ..Fault::of(why) });
            }
        }
        for (name, value) in std::env::vars_os() {
            let Some(option) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            if [FILE_VARIABLE, WATCHED_VARIABLE, kernel::VARIABLE].iter().any(|other| name == *other) {
                continue;
            }
            let source = format!("{PREFIX}{option}");
            let Some(value) = value.to_str() else {
                config.faults.push(Fault::of(format!("{source}: must be UTF-8")));
                continue;
            };
            if value.is_empty() {
                continue;
            }
            let option = option.to_ascii_lowercase().replace('_', "-");
            if find(&definition, &option).is_some_and(is_flag) && !["true", "false"].contains(&value) {
                config.faults.push(Fault::of(format!("{source}: must be true or false")));
                continue;
            }
            let setting = Setting { values: vec![value.to_string()], source, line: None };
            config.variables.insert(option, setting);
        }
        configured_places::know(&config.places);
        if let Some(watched) = std::env::var_os(WATCHED_VARIABLE) {
            let of_report = if watched == REPORT { &OF_REPORT[..] } else { &[] };
            for options in config.tables.values_mut().chain([&mut config.variables]) {
                options.retain(|option, _| !FOR_READERS.iter().chain(of_report).any(|other| option == other));
            }
        }
        config
    }

    /// Whether no option is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.variables.is_empty()
    }

    /// Whether a message names an option that has a value here.
    pub(crate) fn is_named_in(&self, message: &str) -> bool {
        let mut options = self.tables.values().chain([&self.variables]).flat_map(BTreeMap::keys);
        options.any(|option| message.contains(&format!("--{option}")))
    }

    /// The values of all options.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        let settings = self.tables.values().flat_map(BTreeMap::values).chain(self.variables.values());
        settings.flat_map(|setting| setting.values.iter().map(String::as_str))
    }

    /// The URLs of stores, also those of places.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &str> {
        let of_places = self.places.values().map(|place| &place.fields);
        let all = self.tables.values().chain([&self.variables]).chain(of_places);
        let settings = all.filter_map(|options| options.get("endpoint"));
        settings.flat_map(|setting| setting.values.iter().map(String::as_str))
    }

    /// Takes a value of a file, if its key is an option of the command that its table is of, or of one below that, and a
    /// flag is true or false.
    fn take(
        &mut self,
        (path, words): (&Path, &[String]),
        key: Key,
        value: DeValue,
        definition: &Command,
    ) -> Result<(), WrongValue> {
        let (source, Key { name, line, .. }) = (path.display().to_string(), key);
        if words == [configured_places::TABLE] {
            let place = configured_places::place(&source, key, value).map_err(|wrong| WrongValue {
                why: format!("{}.{name}: {}", configured_places::TABLE, wrong.why),
                ..wrong
            })?;
            let same = self.places.iter().find(|(known, other)| *known != name && place.excludes(other));
            if let Some((known, other)) = same {
                if other.source() == source {
                    let table = configured_places::TABLE;
                    let why = format!("{table}.{name}: {table}.{known} is the same bucket or host: keep one");
                    return Err(why.into());
                }
                // As of two files with the same key, the one that is read later holds.
                let known = known.clone();
                self.places.remove(&known);
            }
            self.places.insert(name.to_string(), place);
            return Ok(());
        }
        let wrong = |why: &str| WrongValue::from(format!("{}: {why}", self::key(words, name)));
        if matches!(value, DeValue::Table(_)) {
            let words = [words, &config_file::split(name)].concat();
            return Err(wrong(&match command_of(definition, &words) {
                Some(_) => format!("write this table as [\"{}\"]", words.join(" ")),
                None => "there is no such command".to_string(),
            }));
        }
        let is_list = matches!(value, DeValue::Array(_));
        let has_number = has_number(&value);
        let values = match value {
            DeValue::Array(values) => values.into_iter().map(|value| text(value.into_inner())).collect(),
            value => text(value).map(|text| vec![text]),
        };
        let values: Vec<String> = values.ok_or_else(|| wrong("no value of an option"))?;
        let command = command_of(definition, words).ok_or_else(|| wrong("there is no such command"))?;
        let arg = find(command, name).ok_or_else(|| wrong("there is no such option"))?;
        let (list_taker, others) = (taker(command, name, true), taker(command, name, false));
        match list_taker {
            None if is_list => return Err(wrong("must be one value, and no list")),
            // The others would pass over all but the first.
            Some(taker) if values.len() > 1 && others.is_some() => {
                let why = format!("must be one value: not every command takes several, as {taker} does");
                return Err(wrong(&why));
            }
            _ => {}
        }
        if has_number && is_name(arg) {
            return Err(wrong("must be a name, in quotes"));
        }
        let is_boolean = matches!(&values[..], [one] if one == "true" || one == "false");
        match arg.get_action() {
            ArgAction::SetTrue if !is_boolean => return Err(wrong("must be true or false")),
            ArgAction::Count if is_boolean => return Err(wrong("must be how often it is given: 0, 1 or 2")),
            ArgAction::SetTrue | ArgAction::Count => {}
            _ if is_boolean => {
                return Err(wrong("needs a value, as on the command line, and not true or false"));
            }
            _ => {}
        }
        let setting = Setting { values, source, line: Some(line) };
        self.tables.entry(words.to_vec()).or_default().insert(name.to_string(), setting);
        Ok(())
    }

    /// What is wrong.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &str> {
        self.faults.iter().map(|fault| &*fault.why)
    }

    /// The first fault that concerns a command line: each, unless `verisum notify` runs it, and told of the others.
    pub(crate) fn fault(&self, line: &[OsString]) -> Option<Failure> {
        let is_watched = std::env::var_os(WATCHED_VARIABLE).is_some();
        let is_typed = |verb: &String| line.iter().any(|word| word == &**verb);
        let mut faults = self.faults.iter();
        let fault = faults.find(|fault| !is_watched || fault.verb.as_ref().is_none_or(is_typed))?;
        Some(match fault.is_of_file {
            true => Failure::Library(fault.why.clone().into()),
            false => Failure::Usage(fault.why.clone()),
        })
    }

    /// Takes out a value that is none of its option, as `why` says, unless it is typed; whether that is so.
    pub(crate) fn take_back(&mut self, line: &[OsString], option: &str, why: &str) -> bool {
        let is_typed = line.iter().any(|word| word.to_string_lossy().starts_with(&format!("--{option}")));
        let words = line.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.filter(|word| !word.starts_with('-')).take(DEEPEST).collect();
        let fault = self.fault_of(&words, option, why).filter(|_| !is_typed);
        let Some(why) = fault else { return false };
        for options in self.tables.values_mut().chain([&mut self.variables]) {
            options.remove(option);
        }
        self.faults.push(Fault::of(why));
        true
    }

    /// Says why the value that a command's option is set to is none of it.
    pub(crate) fn fault_of(&self, command: &[String], option: &str, why: &str) -> Option<String> {
        Some(format!("{}: {option}: {why}", self.place_of(command, option)?))
    }

    /// Where a command's option is set.
    pub(crate) fn place_of(&self, command: &[String], option: &str) -> Option<String> {
        Some(self.of(command, option)?.place())
    }

    /// What a command's option is set to.
    fn of(&self, command: &[String], option: &str) -> Option<&Setting> {
        let above = (0..=command.len()).rev();
        let mut tables = above.filter_map(|depth| self.tables.get(&command[..depth])?.get(option));
        self.variables.get(option).or_else(|| tables.next())
    }

    /// The first value that a command's option is set to.
    pub(crate) fn value(&self, command: &[String], option: &str) -> Option<&str> {
        Some(self.of(command, option)?.values.first()?)
    }

    /// The options of a command that others on this machine do not have from its file: each, and all of it as typed.
    pub(crate) fn own_options(&self, definition: &Command, words: &[String]) -> Vec<(String, Vec<String>)> {
        let typed = |arg: &Arg| {
            let option = format!("--{}", arg.get_long()?);
            let setting = self.of(words, arg.get_long()?).filter(|setting| setting.source != SYSTEM)?;
            let values = setting.values.iter();
            let typed = match arg.get_action() {
                ArgAction::SetTrue => {
                    values.filter(|value| *value == "true").map(|_| option.clone()).collect()
                }
                _ => values.map(|value| format!("{option}={value}")).collect(),
            };
            Some((option, typed))
        };
        definition.get_arguments().filter_map(typed).collect()
    }

    /// Parses a command line, with these values for options that it does not have.
    pub(crate) fn parse(
        &self,
        definition: impl Fn() -> Command,
        line: &[OsString],
    ) -> Result<Configured, clap::Error> {
        let mut command = self.applied(definition(), &[], &mut Vec::new());
        let mut matches = command.try_get_matches_from_mut(line)?;
        let displaced = self.displaced(&command, &matches);
        if !displaced.is_empty() {
            command = self.applied(definition(), &displaced, &mut Vec::new());
            matches = command.try_get_matches_from_mut(line)?;
        }
        Ok(Configured { command, matches, displaced })
    }

    fn applied(&self, command: Command, but: &[String], words: &mut Vec<String>) -> Command {
        if command.is_hide_set() {
            return command;
        }
        let name = command.get_name().to_string();
        let command = command.mut_args(|arg| {
            let key = key_of(&name, &arg).filter(|key| !but.iter().any(|other| other == key));
            match key.and_then(|key| self.of(words, key)) {
                // Definitions live as long as the program.
                Some(setting) => {
                    let values: Vec<&'static str> =
                        setting.values.iter().map(|value| &*value.clone().leak()).collect();
                    arg.required(false).default_values(values)
                }
                None => arg,
            }
        });
        command.mut_subcommands(|below| {
            words.push(below.get_name().to_string());
            let below = self.applied(below, but, words);
            words.pop();
            below
        })
    }

    /// The keys of options whose values do not hold in a command line, because it has options that exclude them; of two
    /// keys that exclude each other, the one whose value counts less, or that comes later in the help.
    fn displaced(&self, definition: &Command, matches: &ArgMatches) -> Vec<String> {
        let Some((command, found, words)) = asked(definition, matches) else { return Vec::new() };
        let rank = |arg: &Arg| {
            let key = key_of(command.get_name(), arg)?;
            self.of(&words, key).filter(|setting| setting.values != ["false"] && setting.values != ["0"])?;
            let has_it =
                |depth: &usize| self.tables.get(&words[..*depth]).is_some_and(|all| all.contains_key(key));
            let place = command.get_arguments().position(|other| other.get_id() == arg.get_id());
            Some((self.variables.contains_key(key), (0..=words.len()).rev().find(has_it), Reverse(place)))
        };
        let excludes = |one: &Arg, other: &Arg| {
            command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
        };
        let is_displaced = |arg: &&Arg| {
            let mut others =
                command.get_arguments().filter(|other| excludes(arg, other) || excludes(other, arg));
            !is_typed(found, arg)
                && rank(arg)
                    .is_some_and(|own| others.any(|other| is_typed(found, other) || rank(other) > Some(own)))
        };
        let displaced = command.get_arguments().filter(is_displaced);
        displaced.filter_map(|arg| key_of(command.get_name(), arg)).map(String::from).collect()
    }

    /// Keeps in mind which options of a line have values of these that nobody typed.
    pub(crate) fn note(&self, Configured { command, matches, displaced }: &Configured) {
        let Some((command, found, words)) = asked(command, matches) else { return };
        let is_untyped = |arg: &&Arg| !is_typed(found, arg);
        let options = command.get_arguments().filter(is_untyped).filter_map(Arg::get_long);
        let options = options.filter(|option| !displaced.iter().any(|key| key == option));
        let set =
            options.filter_map(|option| Some((format!("--{option}"), self.of(&words, option)?.clone())));
        untyped::note(set.collect());
    }

    /// The values that the options of a command have when it is called without them, by key.
    pub(crate) fn settings_of(&self, command: &Command, words: &[String]) -> BTreeMap<String, Setting> {
        let value = |arg: &Arg| {
            let key = key_of(command.get_name(), arg)?;
            let usual = || {
                let values = arg.get_default_values().iter();
                let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
                let is_flag = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count);
                (!is_flag && !values.is_empty()).then(|| Setting {
                    values,
                    source: "default".to_string(),
                    line: None,
                })
            };
            Some((key.to_string(), self.of(words, key).cloned().or_else(usual)?))
        };
        command.get_arguments().filter_map(value).collect()
    }

    /// All that is set, by key, the one that goes first of several.
    pub(crate) fn settings(&self, definition: &Command) -> BTreeMap<String, Setting> {
        let tables = self.tables.iter().flat_map(|(words, options)| {
            options.iter().map(move |(option, setting)| (key(words, option), setting.clone()))
        });
        let variables = self.variables.iter().filter(|(option, _)| find(definition, option).is_some());
        let places = self.places.iter().flat_map(|(name, place)| {
            place.fields.iter().map(move |(key, setting)| {
                (format!("{}.{name}.{key}", configured_places::TABLE), setting.clone())
            })
        });
        let variables = variables.map(|(option, setting)| (option.clone(), setting.clone()));
        tables.chain(variables).chain(places).collect()
    }
}

/// Tells which options have values that nobody typed, if that is wanted.
pub(crate) fn tell_untyped() {
    for (option, Setting { values, source, .. }) in untyped::all() {
        verbosity::how(|| format!("{option} {} ({source})", values.join(", ")));
    }
}

/// The command with these words.
fn command_of<'c>(definition: &'c Command, words: &[String]) -> Option<&'c Command> {
    words.iter().try_fold(definition, |above, word| above.find_subcommand(word))
}

/// The command that a line asks for, its options, and its words.
fn asked<'a>(
    definition: &'a Command,
    matches: &'a ArgMatches,
) -> Option<(&'a Command, &'a ArgMatches, Vec<String>)> {
    let (mut command, mut found, mut words) = (definition, matches, Vec::new());
    while let Some((word, below)) = found.subcommand() {
        words.push(word.to_string());
        (command, found) = (command.find_subcommand(word)?, below);
    }
    Some((command, found, words))
}

/// Whether a line has an option.
fn is_typed(found: &ArgMatches, arg: &Arg) -> bool {
    found.value_source(arg.get_id().as_str()).is_some_and(|source| source != ValueSource::DefaultValue)
}

/// Whether an option has no value.
fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// A key as it stands in a file.
fn key(words: &[String], option: &str) -> String {
    match words {
        [] => option.to_string(),
        words => format!("{}.{option}", words.join(" ")),
    }
}

/// The key that gives an argument of a command its value.
fn key_of<'a>(command: &str, arg: &'a Arg) -> Option<&'a str> {
    let is_it = |(_, commands, id): &&(_, &[&str], &str)| arg.get_id() == *id && commands.contains(&command);
    arg.get_long().or_else(|| OPERANDS.iter().find(is_it).map(|(key, ..)| *key))
}

/// The argument that a key of a command, or of one below it, stands for.
fn find<'c>(command: &'c Command, option: &str) -> Option<&'c Arg> {
    let own = command.get_arguments().find(|arg| key_of(command.get_name(), arg) == Some(option));
    own.or_else(|| command.get_subcommands().find_map(|below| find(below, option)))
}

/// The name of a command, or of one below it, that has a key and takes several values of it, or only one.
fn taker<'c>(command: &'c Command, option: &str, several: bool) -> Option<&'c str> {
    let is_it = |arg: &Arg| key_of(command.get_name(), arg) == Some(option);
    let takes_so = |arg: &Arg| matches!(arg.get_action(), ArgAction::Append) == several;
    let own = command.get_arguments().any(|arg| is_it(arg) && takes_so(arg)).then(|| command.get_name());
    own.or_else(|| command.get_subcommands().find_map(|below| taker(below, option, several)))
}

/// Whether the value of an option is the name of something.
fn is_name(arg: &Arg) -> bool {
    matches!(arg.get_value_hint(), ValueHint::FilePath | ValueHint::DirPath | ValueHint::AnyPath)
}

fn has_number(value: &DeValue) -> bool {
    match value {
        DeValue::Array(values) => values.iter().any(|value| has_number(value.get_ref())),
        value => matches!(value, DeValue::Integer(_) | DeValue::Float(_)),
    }
}

/// The file of the user.
fn of_user() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
    Some(config.join("verisum/config.toml"))
}

/// The text of a file, with empty lines in place of those that are not UTF-8, and the first of these.
fn decoded(bytes: &[u8]) -> (String, Option<usize>) {
    let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').map(std::str::from_utf8).collect();
    let broken = lines.iter().position(Result::is_err).map(|at| at + 1);
    (lines.into_iter().map(Result::unwrap_or_default).collect::<Vec<_>>().join("\n"), broken)
}

/// The bytes of a file. One that nobody named is none of ours if it is not there, or in the home of another user, as
/// after a change of user that keeps `HOME`.
fn read(path: &Path, is_named: bool) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |error| Failure::File { name: path.to_path_buf(), operation: "read", error };
    let seen = std::fs::metadata(path);
    if !is_named && seen.as_ref().is_ok_and(|seen| !is_trusted(seen.uid())) {
        return Ok(None);
    }
    match seen {
        Ok(_) => {}
        Err(error) if !is_named && is_elsewhere(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    // A pipe that nobody writes to is no reason to wait until it is refused.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let stat = file.metadata().map_err(failed)?;
    require_own(&stat).map_err(failed)?;
    // /dev/null is one without settings.
    if !stat.is_file() && !stat.file_type().is_char_device() {
        return Err(failed(io::Error::other("it is no regular file")));
    }
    let mut bytes = Vec::new();
    if file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)? as u64 > MOST_BYTES {
        return Err(failed(io::Error::other("it is longer than 1 MiB")));
    }
    Ok(Some(bytes))
}

/// Whether somebody who may say what is done here made a link, and what it leads to is not there.
fn leads_nowhere(path: &Path) -> bool {
    let is_own = std::fs::symlink_metadata(path).is_ok_and(|link| is_trusted(link.uid()));
    is_own && path.try_exists().is_ok_and(|is_there| !is_there)
}

/// Fails if another user may write a file: who may says what is done here. The groups of root and of this process are
/// taken for theirs alone.
pub(crate) fn require_own(stat: &Metadata) -> io::Result<()> {
    let is_own_group = [0, rustix::process::getegid().as_raw()].contains(&stat.gid());
    let others = if is_own_group { 0o002 } else { 0o022 };
    match stat.is_file() && (!is_trusted(stat.uid()) || stat.mode() & others != 0) {
        true => Err(io::Error::other("another user may write it")),
        false => Ok(()),
    }
}

fn is_elsewhere(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
}

/// A value as it would be typed.
fn text(value: DeValue) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.into_owned()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Whether a command line asks for help or the version, which a broken file must not prevent.
pub(crate) fn asks_for_help(line: &[OsString], definition: fn() -> Command) -> bool {
    let is_help =
        |word: &OsString| ["-h", "--help", "-V", "--version", "help"].iter().any(|help| word == help);
    let shown = [error::ErrorKind::DisplayHelp, error::ErrorKind::DisplayVersion];
    // Each of these words may be the name of a file, or the value of an option.
    line.len() < 2
        || line.iter().skip(1).any(is_help)
            && definition().try_get_matches_from(line).is_err_and(|error| shown.contains(&error.kind()))
}
