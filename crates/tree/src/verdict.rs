//! What a difference between a file and its record means.
//!
//! [`Evidence`] is what was seen; [`Evidence::verdict`] is a pure function of it. Gathering evidence
//! is the business of the callers, so that tags, lists and catalogues judge alike.

/// The state of one file beside its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The content is the recorded one, and its time too.
    Ok,
    /// Nothing was recorded of it.
    New,
    /// The content is the recorded one, the time of modification another.
    Touched,
    /// The content is another, and the time of modification says so.
    Modified,
    /// The content of a name that is gone is at another name, or the other way round.
    Moved,
    /// The name is gone, and the content is at no other name.
    Missing,
    /// It changed while it was read, twice.
    Busy,
    /// It cannot be read, and it is not the disk that fails: permission, or something unsupported.
    Unverifiable,
    /// The system reported an error of the device or of the file system's own checksum.
    IoError,
    /// What was recorded of it is not what was written into the catalogue: nothing can be compared with it.
    RecordDamaged,
    /// The content is another, the inode changed, and the time of modification is the recorded one:
    /// somebody, or some program, set it back.
    Suspicious,
    /// Two reads of the same state gave different bytes: memory, cable or controller.
    Flaky,
    /// The content is another, two reads agree on it, and nobody has written to the file.
    Rot,
}

/// What verdicts mean for the end of a run, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nothing is wrong.
    Clean,
    /// The tree changed as trees change.
    Change,
    /// The content was not compared: exit code 3.
    Unchecked,
    /// Data is not what it should be: exit code 1.
    Corrupt,
}

impl Verdict {
    /// All of them, from the most harmless to the worst.
    pub const ALL: [Verdict; 13] = [
        Verdict::Ok,
        Verdict::New,
        Verdict::Touched,
        Verdict::Modified,
        Verdict::Moved,
        Verdict::Missing,
        Verdict::Busy,
        Verdict::Unverifiable,
        Verdict::IoError,
        Verdict::RecordDamaged,
        Verdict::Suspicious,
        Verdict::Flaky,
        Verdict::Rot,
    ];

    /// The word used in reports and records.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::New => "new",
            Verdict::Touched => "touched",
            Verdict::Modified => "modified",
            Verdict::Moved => "moved",
            Verdict::Missing => "missing",
            Verdict::Busy => "busy",
            Verdict::Unverifiable => "unverifiable",
            Verdict::IoError => "io-error",
            Verdict::RecordDamaged => "record-damaged",
            Verdict::Suspicious => "suspicious",
            Verdict::Flaky => "flaky",
            Verdict::Rot => "rot",
        }
    }

    /// The verdict of this name.
    pub fn find(name: &str) -> Option<Verdict> {
        Verdict::ALL.into_iter().find(|verdict| verdict.name() == name)
    }

    /// What it means for the end of a run.
    pub const fn class(self) -> Class {
        match self {
            Verdict::Ok => Class::Clean,
            Verdict::New | Verdict::Touched | Verdict::Modified | Verdict::Moved | Verdict::Missing => {
                Class::Change
            }
            Verdict::Busy | Verdict::Unverifiable | Verdict::IoError | Verdict::RecordDamaged => {
                Class::Unchecked
            }
            Verdict::Suspicious | Verdict::Flaky | Verdict::Rot => Class::Corrupt,
        }
    }

    /// Whether what was read may take the place of what is recorded. Of bad or unread data it may not.
    pub const fn may_replace_record(self) -> bool {
        matches!(self, Verdict::Ok | Verdict::New | Verdict::Touched | Verdict::Modified | Verdict::Moved)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What was seen of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// All of it was read, in one state, and nothing is recorded under its name.
    Unrecorded {
        /// Whether the content is recorded under a name that is gone.
        moved_here: bool,
    },
    /// All of it was read, in one state, and compared with its record.
    Compared(Comparison),
    /// It is recorded and no longer at its name.
    Gone {
        /// Whether its content is now at another name.
        moved_away: bool,
    },
    /// It changed during each of two reads.
    Unsettled,
    /// There is a record, but it is damaged itself.
    RecordDamaged,
    /// It could not be read.
    Unreadable {
        /// Whether the system reported `EIO`, or what else says that the storage failed.
        storage_failed: bool,
    },
}

/// A file beside its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The digest is the recorded one.
    pub same_digest: bool,
    /// The length is the recorded one.
    pub same_size: bool,
    /// The time of modification is the recorded one.
    pub same_mtime: bool,
    /// The time of the inode's last change is the recorded one, where that is recorded.
    pub same_ctime: Option<bool>,
    /// The inode's number is the recorded one, where that is recorded.
    pub same_inode: Option<bool>,
    /// What a second read gave.
    pub second: SecondRead,
}

/// What a second read of the same state gave, past the page cache if the system lets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondRead {
    /// There was none.
    NotMade,
    /// The digest of the first read.
    Same,
    /// Another digest, be it the recorded one or a third.
    Different,
    /// The storage failed.
    Failed,
}

impl Comparison {
    /// Whether a second read must be made before this can be judged: the content is another, and
    /// the time of modification does not say that anybody wrote to the file.
    pub const fn needs_second_read(&self) -> bool {
        !self.same_digest && self.same_mtime
    }
}

impl Evidence {
    /// What it means.
    ///
    /// A length that moved while the time of modification did not is a change if nothing more is
    /// recorded; where the inode's time is recorded, that tells who did it: somebody who set the time
    /// of modification back, or, if that did not move either, nobody.
    pub const fn verdict(&self) -> Verdict {
        match *self {
            Evidence::Unrecorded { moved_here: true } | Evidence::Gone { moved_away: true } => Verdict::Moved,
            Evidence::Unrecorded { moved_here: false } => Verdict::New,
            Evidence::Gone { moved_away: false } => Verdict::Missing,
            Evidence::Unsettled => Verdict::Busy,
            Evidence::RecordDamaged => Verdict::RecordDamaged,
            Evidence::Unreadable { storage_failed: true } => Verdict::IoError,
            Evidence::Unreadable { storage_failed: false } => Verdict::Unverifiable,
            Evidence::Compared(seen) => seen.verdict(),
        }
    }
}

impl Comparison {
    const fn verdict(&self) -> Verdict {
        if self.same_digest {
            return if self.same_mtime { Verdict::Ok } else { Verdict::Touched };
        }
        match self.second {
            SecondRead::Different => return Verdict::Flaky,
            SecondRead::Failed => return Verdict::IoError,
            SecondRead::Same | SecondRead::NotMade => {}
        }
        if !self.same_mtime {
            return Verdict::Modified;
        }
        match (self.same_ctime, self.same_inode, self.same_size) {
            (Some(false), _, _) | (_, Some(false), _) => Verdict::Suspicious,
            (None, _, false) => Verdict::Modified,
            _ => Verdict::Rot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: Comparison = Comparison {
        same_digest: true,
        same_size: true,
        same_mtime: true,
        same_ctime: Some(true),
        same_inode: Some(true),
        second: SecondRead::NotMade,
    };
    const OTHER: Comparison = Comparison { same_digest: false, second: SecondRead::Same, ..SAME };

    #[test]
    fn each_evidence_has_its_verdict() {
        use Evidence::*;
        let table = [
            (Unrecorded { moved_here: false }, Verdict::New),
            (Unrecorded { moved_here: true }, Verdict::Moved),
            (Gone { moved_away: false }, Verdict::Missing),
            (Gone { moved_away: true }, Verdict::Moved),
            (Unsettled, Verdict::Busy),
            (RecordDamaged, Verdict::RecordDamaged),
            (Unreadable { storage_failed: true }, Verdict::IoError),
            (Unreadable { storage_failed: false }, Verdict::Unverifiable),
            // The content is the recorded one.
            (Compared(SAME), Verdict::Ok),
            (Compared(Comparison { same_ctime: Some(false), ..SAME }), Verdict::Ok),
            (Compared(Comparison { same_inode: Some(false), same_ctime: Some(false), ..SAME }), Verdict::Ok),
            (Compared(Comparison { same_mtime: false, ..SAME }), Verdict::Touched),
            (Compared(Comparison { same_mtime: false, same_ctime: Some(false), ..SAME }), Verdict::Touched),
            // It is another, and the time of modification says so.
            (Compared(Comparison { same_mtime: false, ..OTHER }), Verdict::Modified),
            (Compared(Comparison { same_mtime: false, same_size: false, ..OTHER }), Verdict::Modified),
            (
                Compared(Comparison { same_mtime: false, second: SecondRead::NotMade, ..OTHER }),
                Verdict::Modified,
            ),
            // It is another, and the time of modification is silent.
            (Compared(OTHER), Verdict::Rot),
            (Compared(Comparison { same_ctime: None, same_inode: None, ..OTHER }), Verdict::Rot),
            (Compared(Comparison { same_size: false, ..OTHER }), Verdict::Rot),
            (Compared(Comparison { same_ctime: Some(false), ..OTHER }), Verdict::Suspicious),
            (Compared(Comparison { same_inode: Some(false), ..OTHER }), Verdict::Suspicious),
            (
                Compared(Comparison { same_ctime: Some(false), same_size: false, ..OTHER }),
                Verdict::Suspicious,
            ),
            (Compared(Comparison { same_ctime: None, same_size: false, ..OTHER }), Verdict::Modified),
            // Two reads do not agree.
            (Compared(Comparison { second: SecondRead::Different, ..OTHER }), Verdict::Flaky),
            (
                Compared(Comparison { second: SecondRead::Different, same_ctime: Some(false), ..OTHER }),
                Verdict::Flaky,
            ),
            (Compared(Comparison { second: SecondRead::Failed, ..OTHER }), Verdict::IoError),
        ];
        for (evidence, verdict) in table {
            assert_eq!(evidence.verdict(), verdict, "{evidence:?}");
        }
        for verdict in Verdict::ALL {
            assert!(table.iter().any(|row| row.1 == verdict), "no evidence gives {verdict}");
        }
    }

    #[test]
    fn a_second_read_is_made_before_anything_is_called_bad() {
        assert!(OTHER.needs_second_read());
        assert!(Comparison { same_ctime: Some(false), ..OTHER }.needs_second_read());
        assert!(!Comparison { same_mtime: false, ..OTHER }.needs_second_read());
        assert!(!SAME.needs_second_read());
    }

    #[test]
    fn verdicts_are_a_sound_table() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::find(verdict.name()), Some(verdict));
            let is_good = matches!(verdict.class(), Class::Clean | Class::Change);
            assert_eq!(verdict.may_replace_record(), is_good && verdict != Verdict::Missing, "{verdict}");
        }
        assert!(Verdict::ALL.is_sorted_by_key(|verdict| verdict.class()));
        assert!(Verdict::ALL.is_sorted());
        assert_eq!(Verdict::find("bad"), None);
    }
}
