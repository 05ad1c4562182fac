//! Colours of outcomes on terminals, so that bad ones stand out.

use std::io::stdout;
use std::sync::OnceLock;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use verisum::catalog::store::State;
use verisum::files::{Verdict, VerdictClass};

use crate::ui::exit::Exit;

/// What somebody typed.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Whether the terminal is for colours. Lists of a million files ask at each.
static AUTO: OnceLock<bool> = OnceLock::new();

/// Takes the choice of the command line.
pub(crate) fn choose(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// Whether standard output gets colour: as was chosen, else if it is a terminal that has colours and `NO_COLOR` is
/// not set.
pub(crate) fn is_wanted() -> bool {
    match CHOICE.get() {
        Some(ColorChoice::Always) => true,
        Some(ColorChoice::Never) => false,
        _ => *AUTO.get_or_init(|| AutoStream::choice(&stdout()) != anstream::ColorChoice::Never),
    }
}

/// What an outcome means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Changed,
    Doubtful,
    Bad,
}

impl Paint {
    /// How a word of it looks.
    pub(crate) fn style(self) -> Style {
        let style = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        match self {
            Paint::Good => style(AnsiColor::Green),
            Paint::Changed => style(AnsiColor::Cyan),
            Paint::Doubtful => style(AnsiColor::Yellow),
            Paint::Bad => style(AnsiColor::Red).bold(),
        }
    }
}

impl From<Verdict> for Paint {
    fn from(verdict: Verdict) -> Paint {
        match verdict {
            // Nobody can say yet whether it is meant to be gone.
            Verdict::Missing => Paint::Doubtful,
            verdict => verdict.class().into(),
        }
    }
}

impl From<State> for Paint {
    fn from(state: State) -> Paint {
        if state == State::MISSING { Paint::Doubtful } else { state.class().into() }
    }
}

impl From<VerdictClass> for Paint {
    fn from(class: VerdictClass) -> Paint {
        match class {
            VerdictClass::Clean => Paint::Good,
            VerdictClass::Change => Paint::Changed,
            VerdictClass::Unchecked => Paint::Doubtful,
            VerdictClass::Corrupt => Paint::Bad,
        }
    }
}

impl From<Exit> for Paint {
    fn from(exit: Exit) -> Paint {
        match exit {
            Exit::Clean => Paint::Good,
            Exit::Mismatch => Paint::Bad,
            _ => Paint::Doubtful,
        }
    }
}
