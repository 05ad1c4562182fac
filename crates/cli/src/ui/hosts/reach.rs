//! The options by which hosts and buckets are reached (`--ssh-config`, `--endpoint` …). The catalogue keeps them for each
//! tree, because commands that are printed later have to ask the same server.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use verisum::remote::without_secrets;

use crate::ui::shell;

/// The options that are kept, and how a value of each begins; none for one without a value.
const KEPT: [(&str, Option<&[&str]>); 5] = [
    ("--ssh-config", Some(&["/"])),
    ("--endpoint", Some(&["https://", "http://"])),
    ("--profile", Some(&[""])),
    ("--region", Some(&[""])),
    ("--no-sign-request", None),
];

/// Options with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach(Vec<(&'static str, Option<OsString>)>);

impl Reach {
    pub(super) fn new(options: impl IntoIterator<Item = (&'static str, Option<OsString>)>) -> Reach {
        Reach(options.into_iter().collect())
    }

    /// Those that a catalogue kept. It may be from elsewhere: if it has anything that [`Reach::words`] does not give,
    /// there are none.
    pub(crate) fn of_words(words: &[OsString]) -> Reach {
        let mut words = words.iter();
        let mut options = Vec::new();
        while let Some(word) = words.next() {
            let Some((option, begins)) = KEPT.into_iter().find(|(option, _)| word == option) else {
                return Reach::default();
            };
            let one = (option, begins.and_then(|_| words.next().cloned()));
            if !is_kept(&one) || options.iter().any(|(known, _)| *known == option) {
                return Reach::default();
            }
            options.push(one);
        }
        Reach(options)
    }

    /// The words that a catalogue keeps: no secret is among them.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let kept = self.0.iter().filter(|one| is_kept(one));
        kept.flat_map(|(option, value)| [Some(OsString::from(option)), value.clone()]).flatten().collect()
    }

    /// Also reaches another tree, as far as one command can.
    pub(crate) fn add(&mut self, other: &Reach) {
        for one in &other.0 {
            if !self.0.iter().any(|(option, _)| *option == one.0) {
                self.0.push(one.clone());
            }
        }
    }

    /// As it is typed, with a space before each word.
    pub(crate) fn text(&self) -> String {
        let word = |word: &OsString| format!(" {}", shell::word(word.as_bytes()));
        self.0
            .iter()
            .map(|(option, value)| format!(" {option}{}", value.as_ref().map_or_else(String::new, word)))
            .collect()
    }
}

/// Whether a catalogue keeps an option with this value.
fn is_kept((option, value): &(&'static str, Option<OsString>)) -> bool {
    let Some((_, begins)) = KEPT.into_iter().find(|(kept, _)| kept == option) else { return false };
    match (begins, value) {
        (None, None) => true,
        (Some(begins), Some(value)) => {
            begins.iter().any(|begin| value.as_bytes().starts_with(begin.as_bytes()))
                && !value.as_bytes().contains(&b'\n')
                && without_secrets(value) == **value
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(words: &[&str]) -> String {
        Reach::of_words(&words.iter().map(OsString::from).collect::<Vec<_>>()).text()
    }

    #[test]
    fn what_a_catalogue_of_somebody_else_says_is_no_command_of_his() {
        let endpoint = ["--endpoint", "http://[::1]:9000"];
        assert_eq!(kept(&["--ssh-config", "/a b"]), " --ssh-config '/a b'");
        assert_eq!(
            kept(&[&endpoint[..], &["--no-sign-request"]].concat()),
            " --endpoint 'http://[::1]:9000' --no-sign-request"
        );
        // A shell takes each value for one word, and a terminal gets no control character.
        assert_eq!(kept(&["--region", "; rm -rf $HOME"]), " --region '; rm -rf $HOME'");
        assert_eq!(kept(&["--profile", "a\x1b[2J"]), " --profile \"$(printf 'a\\033[2J')\"");
        for bad in [
            &["--keep-bad", "/etc"][..],
            &["; reboot"],
            &["--ssh-config"],
            &["--ssh-config", "relative"],
            &["--ssh-config", "/a\nb"],
            &["--ssh-config", "/a", "--ssh-config", "/b"],
            &["--endpoint", "ftp://host"],
            &["--endpoint", "https://user:secret@host"],
            &["--no-sign-request", "value"],
        ] {
            assert_eq!(kept(bad), "", "{bad:?}");
            assert_eq!(kept(&[&["--region", "here"], bad].concat()), "", "{bad:?}");
        }
    }

    #[test]
    fn secrets_are_not_kept_and_two_trees_share_a_command() {
        let with = |option, value: &str| Reach::new([(option, Some(OsString::from(value)))]);
        assert_eq!(with("--endpoint", "https://user:secret@host").words(), Vec::<OsString>::new());
        let mut both = with("--ssh-config", "/a");
        both.add(&with("--ssh-config", "/b"));
        both.add(&with("--region", "here"));
        assert_eq!(both.text(), " --ssh-config '/a' --region here");
        assert_eq!(Reach::of_words(&both.words()), both);
    }
}
