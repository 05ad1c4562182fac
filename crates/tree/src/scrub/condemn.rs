//! The last look at what a run recorded: bad data must not become a record under another name.
//!
//! One rule: a file that was recorded first, or whose record was replaced, is as bad as another record says
//! if it is the very file of that record, or of what was found there, by inode, length and time of
//! modification, and has not the recorded content; or if it has the content that was found to be bad and is
//! no longer where that was.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::finish::{PAGE, bad_verdict, is_one_file, last_known};
use super::writer::{Names, Writer, seen};
use super::{Error, Report};
use crate::store::catalog::{Condemned, Likeness, Place, State, Trouble};
use crate::{Class, Verdict};

impl Writer<'_> {
    /// Takes from files that are bad under another name what the run recorded of them, and reports them.
    /// `with_sound` also looks at the records of places where the walk was not.
    pub(super) fn condemn(&mut self, with_sound: bool, names: &Names) -> Result<(), Error> {
        self.catalog.find_condemned(self.scope.root.id, with_sound)?;
        let mut after = 0;
        let mut done: Option<Place> = None;
        loop {
            let page = self.catalog.condemned(after, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = *last;
            for (_, condemned) in page {
                if done.as_ref() != Some(&condemned.heir) && self.is_the_file(&condemned)? {
                    self.condemn_one(&condemned, names)?;
                    done = Some(condemned.heir);
                }
            }
        }
        Ok(self.catalog.drop_condemned()?)
    }

    /// Whether a file is the one that the other record is of. Inodes are used again.
    fn is_the_file(&self, condemned: &Condemned) -> Result<bool, Error> {
        let Condemned { heir, known, record, found, likeness, .. } = condemned;
        if *likeness == Likeness::Content {
            return Ok(true);
        }
        let is_same = self.are_one_file(known, heir)?;
        if found.is_some() && is_same {
            // Once it is well under one name it is under all.
            let state = self.catalog.record(known.0, OsStr::from_bytes(&known.1))?.map(|now| now.state);
            return Ok(state != Some(State::Sound));
        }
        let last_known = last_known(record).max(found.map_or(0, |(_, seen)| seen));
        Ok(*likeness == Likeness::Inode && self.may_be(heir, last_known))
    }

    fn condemn_one(&mut self, condemned: &Condemned, names: &Names) -> Result<(), Error> {
        let Condemned { heir, known, .. } = condemned;
        let verdict = match bad_verdict(condemned.record.state).0 {
            bad if bad.class() == Class::Corrupt => bad,
            _ => Verdict::Suspicious,
        };
        let state = State::Trouble(Trouble::Verdict(verdict));
        let from = match self.are_one_file(known, heir)? {
            true => None,
            false => Some(self.path(known.0, &known.1)?),
        };
        let record = self.catalog.condemn(self.scope.root.id, condemned, (state, self.options.now))?;
        self.summary.add(verdict, 1);
        let (recorded, found) = (Some(seen(&record)), Some(condemned.seen));
        let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
        let report = Report::new(self.path(heir.0, &heir.1)?, verdict);
        (self.report)(Report { from, recorded, found, algorithm, ..report });
        Ok(())
    }

    fn are_one_file(&self, one: &Place, other: &Place) -> Result<bool, Error> {
        let find = |place: &Place| Ok::<_, Error>(self.find(&self.path(place.0, &place.1)?));
        Ok(is_one_file(&find(one)?, &find(other)?))
    }
}
