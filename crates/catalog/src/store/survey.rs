//! One pass over all records, for monitors: what is wrong in each tree, and how old its verifications are.

use std::collections::{HashMap, HashSet};

use rusqlite::types::ValueRef;

use super::listing::FROM_UNREAD;
use super::record::{DAMAGED, MISSING};
use super::{Catalog, Moment, RecordName, Result, State, guard};

/// What guards a record, in the order of its check value, then that.
const GUARDED: &str = "directory, name, root, size, mtime, ctime, inode, algorithm, digest, first_seen, changed, \
    verified, state, guard";

/// Where these columns are in [`GUARDED`].
const ROOT: usize = 2;
const SIZE: usize = 3;
const VERIFIED: usize = 11;
const STATE: usize = 12;
const GUARD: usize = 13;

/// What the records of a tree say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeSurvey {
    /// How many files are in each trouble, also those that no run could read and that have no record. A record that is
    /// not as it was written counts as [`State::DAMAGED`] alone, whether a run has met it or not: nothing that it says is
    /// to be believed.
    pub troubles: Vec<(State, u64)>,
    /// How many files want their recorded content again.
    pub wanted: u64,
    /// When the stalest file was verified. What is missing cannot be verified.
    pub oldest: Option<Moment>,
    /// How many files were verified by a clock that ran ahead; they count as never verified.
    pub future: u64,
    /// Whether scrubs have begun and none came to its end: files that none has met yet have no record.
    pub is_unfinished: bool,
}

/// What is counted of a tree on the way.
#[derive(Default)]
struct SurveyCounts {
    survey: TreeSurvey,
    /// How many files are in each state, by its number.
    states: [u64; State::COUNT],
    files: u64,
    bytes: u64,
}

impl Catalog {
    /// Reads each record once, with its check value, and tells of each root by its number. Verifications after
    /// `until` [do not count](verisum_files::FUTURE).
    ///
    /// # Errors
    /// What keeps the catalogue from being read, and damage that hides records.
    pub fn survey(&self, until: Moment) -> Result<HashMap<i64, TreeSurvey>> {
        self.require_small_sound()?;
        let mut trees: HashMap<i64, SurveyCounts> = HashMap::new();
        self.each_guarded(&mut |values, is_intact| {
            let number = |column: usize| values[column].as_i64().unwrap_or_default();
            let (root, code) = (number(ROOT), number(STATE));
            let verified = Moment::of_milliseconds(number(VERIFIED));
            let SurveyCounts { survey, states, files, bytes } = trees.entry(root).or_default();
            (*files, *bytes) = (*files + 1, bytes.wrapping_add(number(SIZE) as u64));
            let state = usize::try_from(code).ok().filter(|code| is_intact && *code < states.len());
            states[state.unwrap_or(DAMAGED as usize)] += 1;
            if !is_intact || code == MISSING {
                return;
            }
            survey.future += u64::from(verified > until);
            let believed = if verified > until { Moment::NEVER } else { verified };
            survey.oldest = Some(survey.oldest.map_or(believed, |oldest| oldest.min(believed)));
        })?;
        self.require_sums(
            trees.iter().map(|(root, counts)| (*root, (counts.files, counts.bytes))).collect(),
        )?;
        let unfinished = self.unfinished()?;
        let mut told = HashMap::new();
        for root in self.roots()? {
            let SurveyCounts { mut survey, mut states, .. } = trees.remove(&root.id).unwrap_or_default();
            let wanted = State::troubles().filter(|state| state.wants_content());
            survey.wanted = wanted.map(|state| states[state.code() as usize]).sum();
            for (state, count) in self.count_troubles(root.id, &format!("SELECT state {FROM_UNREAD}"))? {
                states[state.code() as usize] += count;
            }
            let troubles = State::troubles().map(|state| (state, states[state.code() as usize]));
            survey.troubles = troubles.filter(|(_, count)| *count > 0).collect();
            survey.is_unfinished = unfinished.contains(&root.id);
            told.insert(root.id, survey);
        }
        Ok(told)
    }

    /// The numbers of the roots of which each run failed, was interrupted or killed, or goes on.
    fn unfinished(&self) -> Result<HashSet<i64>> {
        let sql = "SELECT root FROM run GROUP BY root
                   HAVING NOT max(finished NOTNULL AND NOT interrupted AND error IS NULL)";
        self.rows(sql, [], |row| row.get(0))
    }

    /// The files whose records are not as they were written, whether a run has met them or not.
    pub(super) fn damaged_names(&self) -> Result<Vec<RecordName>> {
        let mut found = Vec::new();
        self.each_guarded(&mut |values, is_intact| {
            if let (false, [ValueRef::Integer(directory), name, ..]) = (is_intact, values) {
                found.push((*directory, name.as_bytes().unwrap_or_default().to_vec()));
            }
        })?;
        Ok(found)
    }

    /// Calls `each` with the columns of [`GUARDED`] of every record, and whether it is as it was written. Computed here,
    /// check values take half the time that a function of SQL takes.
    fn each_guarded(&self, each: &mut dyn FnMut(&[ValueRef<'_>], bool)) -> Result<()> {
        let failed = || self.failed("read");
        let sql = format!("SELECT {GUARDED} FROM file");
        let mut statement = self.connection.prepare(&sql).map_err(failed())?;
        let mut rows = statement.query([]).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            let values: [_; GUARD + 1] =
                std::array::from_fn(|column| row.get_ref(column).unwrap_or(ValueRef::Null));
            let guard = guard::of(values[..GUARD].iter().copied());
            each(&values, values[GUARD] == ValueRef::Integer(guard));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::store::tests::{catalog, record};
    use crate::store::{CatalogRecord, RecordChange, RecordFinding, Run, Trouble};
    use verisum_files::Verdict;

    #[test]
    fn a_damaged_run_keeps_nothing_from_being_read() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        catalog.begin_run(root.id, Moment::of_milliseconds(1), Moment::of_milliseconds(1)).unwrap();
        catalog
            .connection
            .execute("UPDATE run SET counts = CAST(x'7bff' AS TEXT), error = x'ff'", [])
            .unwrap();
        let runs = catalog.runs(root.id, 9).unwrap();
        assert_eq!((runs.len(), runs[0].verdicts().len()), (1, 0));
        // A run that failed counted nothing.
        catalog.connection.execute("UPDATE run SET counts = '', error = NULL", []).unwrap();
        assert_eq!(catalog.runs(root.id, 9).unwrap()[0].error, None);
        assert_eq!(catalog.check().unwrap(), []);
        // Damage is told, as other damage is.
        catalog.connection.execute("UPDATE run SET counts = '{\"ok\":', error = NULL", []).unwrap();
        let run = &catalog.runs(root.id, 9).unwrap()[0];
        assert_eq!(run.error.as_deref(), Some("the record of this run is damaged (verisum catalog check)"));
        let problems = catalog.check().unwrap();
        assert!(
            problems.iter().any(|problem| problem.0 == "runs whose counts are damaged: run 1"),
            "{problems:?}"
        );
    }

    #[test]
    fn a_tree_is_unfinished_until_a_run_comes_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let is_unfinished = || catalog.survey(Moment::MAX).unwrap()[&root.id].is_unfinished;
        assert!(!is_unfinished(), "what was imported or copied needs no run");
        let ended = |interrupted, error: Option<&str>| {
            let at = Moment::of_milliseconds(1);
            let id = catalog.begin_run(root.id, at, at).unwrap();
            assert!(is_unfinished(), "killed");
            let (finished, error) = (Some(at), error.map(str::to_string));
            catalog.end_run(&Run { id, finished, interrupted, error, ..Run::default() }).unwrap();
            is_unfinished()
        };
        assert!(ended(true, None) && ended(false, Some("failed")));
        // A run that had no time for all has come to its end.
        assert!(!ended(false, None));
        catalog.begin_run(root.id, Moment::of_milliseconds(2), Moment::of_milliseconds(2)).unwrap();
        assert!(!is_unfinished());
    }

    #[test]
    fn a_survey_tells_what_a_check_finds() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let add = |name: &str, verified: i64| {
            let verified = Moment::of_milliseconds(verified);
            let new = RecordChange::Add(CatalogRecord { verified, ..record(1) });
            catalog.apply(root.id, root.directory, name.as_ref(), &new).unwrap();
        };
        let survey =
            || catalog.survey(Moment::of_milliseconds(1000)).map(|mut trees| trees.remove(&root.id).unwrap());
        assert_eq!(survey().unwrap(), TreeSurvey::default());
        for (number, name) in ["a", "digest", "verified", "state", "missing"].iter().enumerate() {
            add(name, 5 + number as i64);
        }
        assert!(catalog.lose(root.directory, "missing".as_ref(), &RecordFinding::default()).unwrap());
        let sound = survey().unwrap();
        assert_eq!(
            sound,
            TreeSurvey {
                troubles: vec![(State::MISSING, 1)],
                wanted: 1,
                oldest: Some(Moment::of_milliseconds(5)),
                future: 0,
                is_unfinished: false,
            }
        );
        add("future", 1001);
        assert_eq!(survey().unwrap(), TreeSurvey { oldest: Some(Moment::NEVER), future: 1, ..sound });
        let change = |set: &str| catalog.connection.execute(set, []).unwrap();
        change("UPDATE file SET digest = x'ff' WHERE name = CAST('digest' AS BLOB)");
        change("UPDATE file SET verified = 1 WHERE name = CAST('verified' AS BLOB)");
        change("UPDATE file SET size = size + 1 WHERE name = CAST('missing' AS BLOB)");
        change("UPDATE root SET bytes = bytes + 1");
        change("UPDATE file SET state = 77 WHERE name = CAST('state' AS BLOB)");
        let damaged = survey().unwrap();
        assert_eq!((damaged.troubles, damaged.wanted), (vec![(State::DAMAGED, 4)], 0));
        let names =
            || -> Vec<Vec<u8>> { catalog.damaged_names().unwrap().into_iter().map(|row| row.1).collect() };
        assert_eq!(names(), [&b"digest"[..], b"missing", b"state", b"verified"]);
        // What such a record says of the file is no more to be believed than the rest of it.
        let rot = State::Trouble(Trouble::Verdict(Verdict::Rot)).code();
        change(&format!("UPDATE file SET state = {rot} WHERE name = CAST('digest' AS BLOB)"));
        assert_eq!(survey().unwrap().troubles, [(State::DAMAGED, 4)]);
        assert_eq!(names().len(), 4);
        // The index knows nothing of check values, but of states.
        assert!(catalog.troubles(root.id).unwrap().contains(&(State::DAMAGED, 1)));
        let is_refused = || {
            [survey().map(drop), catalog.require_complete()].map(|done| done.is_err_and(|e| e.is_damage()))
        };
        assert_eq!(is_refused(), [false, false]);
        for sums in ["files = -5", "files = 6, bytes = -1", "files = 7", "files = 6, bytes = 0"] {
            change(&format!("UPDATE root SET {sums}"));
            assert_eq!(is_refused(), [true, true], "{sums}");
        }
        catalog.recount(root.id).unwrap();
        assert_eq!(is_refused(), [false, false]);
        change("UPDATE file SET root = 9 WHERE name = CAST('a' AS BLOB)");
        assert_eq!(is_refused(), [true, true]);
        assert_eq!(catalog.root(Path::new("/srv")).unwrap().unwrap().files, 6);
    }
}
