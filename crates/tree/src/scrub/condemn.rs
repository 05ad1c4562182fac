//! The last look at what a run recorded: bad data must not become a record under another name.
//!
//! One rule: a file that was recorded first, or whose record was replaced, is as bad as another record says
//! if it is the very file of that record, or of what was found there, by inode, length and time of
//! modification, and has not the recorded content; or if it has the content that was found to be bad and is
//! no longer where that was, unless that content says nothing: a good file had it before, or it is one byte
//! again and again.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use verisum_digest::Output;

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
            let since = found.map_or(i64::MAX, |(since, _)| since);
            return self.is_telling(heir, (record.algorithm, &condemned.seen.digest), since);
        }
        // It may be back under its own name, where another was well meanwhile.
        let is_same = known != heir && self.are_one_file(known, heir)?;
        if found.is_some() && is_same {
            // Once it is well under one name it is under all.
            let state = self.catalog.record(known.0, OsStr::from_bytes(&known.1))?.map(|now| now.state);
            return Ok(state != Some(State::Sound));
        }
        let last_known = last_known(record).max(found.map_or(0, |(_, seen)| seen));
        Ok(*likeness == Likeness::Inode && self.may_be(heir, last_known))
    }

    /// Whether a content that was found to be bad at some time, in milliseconds since 1970, says of a file that
    /// has it that this is bad too.
    pub(super) fn is_telling(
        &self,
        heir: &Place,
        content: (i64, &Output),
        since: i64,
    ) -> Result<bool, Error> {
        if self.catalog.was_good_before(self.scope.root.id, content, since)? {
            return Ok(false);
        }
        let found = self.find(&self.path(heir.0, &heir.1)?);
        let file = found.and_then(|(entry, _)| entry.open_regular());
        Ok(!file.is_ok_and(|file| is_one_byte(file).unwrap_or(false)))
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

/// Whether all bytes are the same.
fn is_one_byte(mut file: impl Read) -> io::Result<bool> {
    let mut buffer = vec![0; 1 << 16];
    let mut first = None;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let byte = *first.get_or_insert(read[0]);
        if read.iter().any(|other| *other != byte) {
            return Ok(false);
        }
    }
}
