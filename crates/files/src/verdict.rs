//! Verdicts: what a difference between a file and its record means.
//!
//! [`Evidence`] is what was seen; [`Evidence::verdict`] is a pure function of it. Gathering evidence
//! is the business of the callers, so that tags, lists and catalogues judge alike.

/// The state of one file beside its record.
///
/// It is exhaustive on purpose. Four matches name all verdicts, so the compiler asks each for a new one:
/// [`Verdict::name`], [`Verdict::class`] and [`Verdict::fate`], and the numbers that catalogues store. Exit codes and
/// most colours follow from the class. The compiler finds neither [`Verdict::ALL`] nor code that looks for certain
/// verdicts, such as what may be repaired.
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
pub enum VerdictClass {
    /// Nothing is wrong: exit code 0.
    Clean,
    /// Files are new, modified, moved or missing, as trees change: exit code 0.
    Change,
    /// The content was not compared: exit code 3.
    Unchecked,
    /// Data is not what it should be: exit code 1.
    Corrupt,
}

impl VerdictClass {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            VerdictClass::Clean => "clean",
            VerdictClass::Change => "change",
            VerdictClass::Unchecked => "unchecked",
            VerdictClass::Corrupt => "corrupt",
        }
    }
}

/// What becomes of the record of a file that has a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// There was none.
    Made,
    /// Its digest is right, and its times are those of the file from now on.
    Confirmed,
    /// It is that of the new content.
    Replaced,
    /// It goes with the file to its new name.
    Follows,
    /// It stays as it is, until the recorded content is there again or somebody accepts the file.
    Kept,
}

impl Fate {
    /// The words for it in documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Made => "made",
            Fate::Confirmed => "confirmed",
            Fate::Replaced => "replaced",
            Fate::Follows => "goes with it",
            Fate::Kept => "kept",
        }
    }
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
    pub const fn class(self) -> VerdictClass {
        match self {
            Verdict::Ok => VerdictClass::Clean,
            Verdict::New | Verdict::Touched | Verdict::Modified | Verdict::Moved | Verdict::Missing => {
                VerdictClass::Change
            }
            Verdict::Busy | Verdict::Unverifiable | Verdict::IoError | Verdict::RecordDamaged => {
                VerdictClass::Unchecked
            }
            Verdict::Suspicious | Verdict::Flaky | Verdict::Rot => VerdictClass::Corrupt,
        }
    }

    /// What becomes of the record.
    pub const fn fate(self) -> Fate {
        match self {
            Verdict::New => Fate::Made,
            Verdict::Ok | Verdict::Touched => Fate::Confirmed,
            Verdict::Modified => Fate::Replaced,
            Verdict::Moved => Fate::Follows,
            Verdict::Missing
            | Verdict::Busy
            | Verdict::Unverifiable
            | Verdict::IoError
            | Verdict::RecordDamaged
            | Verdict::Suspicious
            | Verdict::Flaky
            | Verdict::Rot => Fate::Kept,
        }
    }

    /// Whether its content could not be read as one state of the file: nothing new is known of it.
    pub const fn is_unread(self) -> bool {
        matches!(self, Verdict::Busy | Verdict::Unverifiable | Verdict::IoError)
    }

    /// Whether what was read may take the place of what is recorded. Of bad or unread data it may not.
    pub const fn may_replace_record(self) -> bool {
        !matches!(self.fate(), Fate::Kept)
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
    /// All of it was read twice, and it is not what the keeper of its place recorded when it was written there.
    /// Nothing else is recorded of what was written.
    NotAsWritten,
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
    /// The time of modification is the recorded one.
    pub same_mtime: bool,
    /// The time of the inode's last change is the recorded one, where that is recorded.
    pub same_ctime: Option<bool>,
    /// It is the file that was recorded, and none that took its name since, where that is known: by the inode's
    /// number, and when it was made.
    pub same_file: Option<bool>,
    /// The recorded time of modification tells the file from others: it is no whole second, and was not given to
    /// other files too.
    pub time_tells: bool,
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
    pub fn verdict(&self) -> Verdict {
        match *self {
            Evidence::Unrecorded { moved_here: true } | Evidence::Gone { moved_away: true } => Verdict::Moved,
            Evidence::Unrecorded { moved_here: false } => Verdict::New,
            Evidence::Gone { moved_away: false } => Verdict::Missing,
            Evidence::NotAsWritten => Verdict::Rot,
            Evidence::Unsettled => Verdict::Busy,
            Evidence::RecordDamaged => Verdict::RecordDamaged,
            Evidence::Unreadable { storage_failed: true } => Verdict::IoError,
            Evidence::Unreadable { storage_failed: false } => Verdict::Unverifiable,
            Evidence::Compared(seen) => seen.verdict(),
        }
    }
}

/// A row of the table from a file that was read and compared to its verdict. What is `None` does not matter.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The digest is the recorded one.
    same_digest: Option<bool>,
    /// Two reads agree.
    same_twice: Option<bool>,
    /// The time of modification is the recorded one.
    same_mtime: Option<bool>,
    /// As in [`Comparison`]; what is not known counts as the same file.
    same_file: Option<bool>,
    /// As in [`Comparison`].
    time_tells: Option<bool>,
    /// The time of the inode's last change is the recorded one; what is not known counts so.
    same_ctime: Option<bool>,
    /// What that means.
    verdict: Verdict,
}

impl Rule {
    const ANY: Rule = Rule {
        same_digest: Some(false),
        same_twice: None,
        same_mtime: None,
        same_file: None,
        time_tells: None,
        same_ctime: None,
        verdict: Verdict::Rot,
    };
}

/// What a difference between a file and its record means: the first row that fits. `docs/verdicts.md` has
/// the same table in words.
///
/// A time of modification that did not move, although the content is another, means that nobody wrote to the
/// file. That holds for the file itself. Another file that has its name now may have the time by chance, where
/// times are whole seconds or many files have the same; otherwise it was copied, with its time, from a file that
/// had gone bad.
const RULES: [Rule; 8] = [
    Rule { same_digest: Some(true), same_mtime: Some(true), verdict: Verdict::Ok, ..Rule::ANY },
    Rule { same_digest: Some(true), verdict: Verdict::Touched, ..Rule::ANY },
    Rule { same_twice: Some(false), verdict: Verdict::Flaky, ..Rule::ANY },
    Rule { same_mtime: Some(false), verdict: Verdict::Modified, ..Rule::ANY },
    Rule { same_file: Some(false), time_tells: Some(false), verdict: Verdict::Modified, ..Rule::ANY },
    Rule { same_file: Some(false), verdict: Verdict::Suspicious, ..Rule::ANY },
    Rule { same_ctime: Some(false), verdict: Verdict::Suspicious, ..Rule::ANY },
    Rule::ANY,
];

impl Comparison {
    fn verdict(&self) -> Verdict {
        if self.second == SecondRead::Failed {
            return Verdict::IoError;
        }
        let seen = [
            self.same_digest,
            self.second != SecondRead::Different,
            self.same_mtime,
            self.same_file.unwrap_or(true),
            self.time_tells,
            self.same_ctime.unwrap_or(true),
        ];
        let fits = |rule: &&Rule| {
            let wanted = [
                rule.same_digest,
                rule.same_twice,
                rule.same_mtime,
                rule.same_file,
                rule.time_tells,
                rule.same_ctime,
            ];
            wanted.iter().zip(seen).all(|(wanted, seen)| wanted.is_none_or(|wanted| wanted == seen))
        };
        RULES.iter().find(fits).map_or(Verdict::Rot, |rule| rule.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: Comparison = Comparison {
        same_digest: true,
        same_mtime: true,
        same_ctime: Some(true),
        same_file: Some(true),
        time_tells: true,
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
            (NotAsWritten, Verdict::Rot),
            (Unsettled, Verdict::Busy),
            (RecordDamaged, Verdict::RecordDamaged),
            (Unreadable { storage_failed: true }, Verdict::IoError),
            (Unreadable { storage_failed: false }, Verdict::Unverifiable),
            // The content is the recorded one.
            (Compared(SAME), Verdict::Ok),
            (Compared(Comparison { same_ctime: Some(false), ..SAME }), Verdict::Ok),
            (Compared(Comparison { same_file: Some(false), same_ctime: Some(false), ..SAME }), Verdict::Ok),
            (Compared(Comparison { same_mtime: false, ..SAME }), Verdict::Touched),
            (Compared(Comparison { same_mtime: false, same_ctime: Some(false), ..SAME }), Verdict::Touched),
            // It is another, and the time of modification says so.
            (Compared(Comparison { same_mtime: false, ..OTHER }), Verdict::Modified),
            (
                Compared(Comparison { same_mtime: false, second: SecondRead::NotMade, ..OTHER }),
                Verdict::Modified,
            ),
            // It is another, and the time of modification is silent.
            (Compared(OTHER), Verdict::Rot),
            (Compared(Comparison { same_ctime: None, same_file: None, ..OTHER }), Verdict::Rot),
            (Compared(Comparison { same_ctime: Some(false), ..OTHER }), Verdict::Suspicious),
            (Compared(Comparison { same_file: Some(false), ..OTHER }), Verdict::Suspicious),
            // Another file has its name.
            (Compared(Comparison { time_tells: false, ..OTHER }), Verdict::Rot),
            (Compared(Comparison { same_file: Some(false), time_tells: false, ..OTHER }), Verdict::Modified),
            (
                Compared(Comparison { same_file: Some(false), same_ctime: Some(false), ..OTHER }),
                Verdict::Suspicious,
            ),
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

    /// The rules as `docs/verdicts.md` has them.
    fn table() -> String {
        let word = |value: Option<bool>, yes, no| value.map_or("", |value| if value { yes } else { no });
        let recorded = |value| word(value, "the recorded one", "different");
        let row = |rule: &Rule| {
            format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
                recorded(rule.same_digest),
                word(rule.same_twice, "agree", "differ"),
                recorded(rule.same_mtime),
                word(rule.same_file, "yes", "no"),
                word(rule.time_tells, "no", "yes"),
                recorded(rule.same_ctime),
                rule.verdict,
                rule.verdict.fate().name(),
            )
        };
        let head = "| content | two reads | time of modification | same file? | do other files have this time? \
                    | time of the inode's change | verdict | its record |\n|---|---|---|---|---|---|---|---|\n";
        RULES.iter().fold(head.to_string(), |table, rule| table + &row(rule))
    }

    #[test]
    fn the_page_on_scrubs_has_the_table_that_decides() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verdicts.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&table()), "docs/verdicts.md must have this:\n{}", table());
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
            let is_good = matches!(verdict.class(), VerdictClass::Clean | VerdictClass::Change);
            assert_eq!(verdict.may_replace_record(), is_good && verdict != Verdict::Missing, "{verdict}");
        }
        assert!(Verdict::ALL.is_sorted_by_key(|verdict| verdict.class()));
        assert!(Verdict::ALL.is_sorted());
        assert_eq!(Verdict::find("bad"), None);
    }
}
