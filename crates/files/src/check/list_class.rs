//! What the check of a list means as a whole: clean, unchecked or corrupt.

use super::CheckOutcome;
use crate::VerdictClass;
use crate::store::manifest::Bad;

impl CheckOutcome {
    /// What it means. A file that is not there was not compared; it need not be lost.
    pub const fn class(&self) -> VerdictClass {
        match self {
            CheckOutcome::Match
            | CheckOutcome::Present { .. }
            | CheckOutcome::Absent
            | CheckOutcome::LeftOut => VerdictClass::Clean,
            CheckOutcome::Mismatch(_) | CheckOutcome::Unlike(_) => VerdictClass::Corrupt,
            CheckOutcome::Missing(_) | CheckOutcome::Failed(_) => VerdictClass::Unchecked,
        }
    }
}

/// What was found in a list so far, of which [`ListClass::end`] says what it means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListClass {
    /// The worst so far.
    worst: Option<VerdictClass>,
    /// Whether a line was understood.
    is_list: bool,
    /// Whether a line has a digest that is not known here.
    is_unknown: bool,
    /// Whether content was compared and is the listed one, or could not be compared.
    is_tried: bool,
}

impl ListClass {
    /// Takes in what was found of a file.
    pub fn file(&mut self, outcome: &CheckOutcome) {
        let class = outcome.class();
        self.is_list = true;
        self.is_tried |= matches!(outcome, CheckOutcome::Match) || class == VerdictClass::Unchecked;
        self.worst = self.worst.max(Some(class));
    }

    /// Takes in a file that counts for nothing, because it may be missing.
    pub fn ignored(&mut self) {
        self.is_list = true;
    }

    /// Takes in a line that is no line of a list that is known here. Only what may name a file counts: the others
    /// may be text.
    pub fn bad(&mut self, bad: &Bad) {
        self.is_unknown |= matches!(bad, Bad::UnknownDigest(_));
        let class = match bad {
            Bad::UnknownDigest(_) | Bad::TooLong => VerdictClass::Unchecked,
            Bad::Damaged => VerdictClass::Corrupt,
            _ => return,
        };
        self.worst = self.worst.max(Some(class));
    }

    /// What was found so far.
    pub fn so_far(&self) -> VerdictClass {
        self.worst.unwrap_or(VerdictClass::Clean)
    }

    /// What the whole list means, which was read to its end or was not. A list by which nothing was verified is no
    /// proof of anything: it counts as corrupt, as for md5sum.
    pub fn end(&self, is_whole: bool) -> VerdictClass {
        let is_empty = !self.is_tried && (self.is_list || !self.is_unknown);
        match is_whole {
            true if is_empty => VerdictClass::Corrupt,
            true => self.so_far(),
            false => self.so_far().max(VerdictClass::Unchecked),
        }
    }
}
