//! Where the value of an option comes from that nobody typed: a file, a variable or the default.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What an option gets.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) values: Vec<String>,
    /// The file or the variable that says so.
    pub(crate) source: String,
    /// The line of the file.
    pub(crate) line: Option<usize>,
}

impl Setting {
    /// The file with the line, or the variable.
    pub(crate) fn place(&self) -> String {
        self.line.map_or(self.source.clone(), |line| format!("{}: line {line}", self.source))
    }
}

/// The options of this run whose values nobody typed.
static UNTYPED: OnceLock<BTreeMap<String, Setting>> = OnceLock::new();

/// Keeps them in mind.
pub(crate) fn note(untyped: BTreeMap<String, Setting>) {
    let _ = UNTYPED.set(untyped);
}

/// All of them, by what would be typed.
pub(crate) fn all() -> impl Iterator<Item = (&'static String, &'static Setting)> {
    UNTYPED.get().into_iter().flatten()
}

/// Whether the value of an option, as it would be typed, comes from the configuration: then it is passed over where it
/// does not fit.
pub(crate) fn is_untyped(option: &str) -> bool {
    UNTYPED.get().is_some_and(|untyped| untyped.contains_key(option))
}

/// Where the configuration gives the value of an option, as it would be typed, if it does: the file and the line.
pub(crate) fn place_of(option: &str) -> Option<String> {
    UNTYPED.get()?.get(option).map(Setting::place)
}

/// The same if one of its values, or of the words between commas in them, is this one.
pub(crate) fn place_of_value(option: &str, value: &str) -> Option<String> {
    let setting = UNTYPED.get()?.get(option)?;
    let mut words = setting.values.iter().flat_map(|text| text.split(',').chain([&**text]));
    words.any(|word| word == value).then(|| setting.place())
}
