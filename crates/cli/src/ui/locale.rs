//! The locale's character set, for the quotes and names of imitated programs.

use std::env;

/// Whether the locale of characters is one with UTF-8, by its name: whether it is installed is not seen.
pub(crate) fn is_utf8() -> bool {
    let values = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| env::var_os(name).unwrap_or_default());
    let locale = values.iter().find(|value| !value.is_empty());
    locale.is_some_and(|value| {
        let name = value.to_string_lossy().to_ascii_lowercase();
        name.contains(".utf-8") || name.contains(".utf8")
    })
}

/// A text in the quotes of the locale, as the coreutils put it into messages.
pub(crate) fn quoted(text: &str) -> String {
    match is_utf8() {
        true => format!("\u{2018}{text}\u{2019}"),
        false => format!("'{text}'"),
    }
}
