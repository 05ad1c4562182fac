//! One pass over the records of a catalogue, directory after directory.

use std::collections::{BTreeMap, HashMap};

use super::directories::{Directories, Node};
use super::{Amount, Overview, OverviewOptions, Result};
use crate::store::{Catalog, CatalogError, Moment, State};

impl Overview {
    /// Adds the records of a catalogue, and returns what each of its trees has that is stale.
    pub(super) fn scan(
        &mut self,
        number: usize,
        catalog: &Catalog,
        options: &OverviewOptions,
    ) -> Result<HashMap<i64, Amount>> {
        let mut nodes = Directories::of(catalog)?;
        let mut stale: HashMap<i64, Amount> = HashMap::new();
        let mut digests: BTreeMap<i64, Amount> = BTreeMap::new();
        catalog.each_record(&mut |root, directory, record| {
            if record.state == State::DAMAGED {
                return Ok::<_, CatalogError>(());
            }
            let (size, verified) = (record.size, options.believed(record.verified));
            digests.entry(record.algorithm).or_default().add(1, size);
            self.months.entry(month(record.first_seen)).or_default().add(1, size);
            let is_there = record.state != State::MISSING;
            if is_there {
                self.ages[options.age_class(verified)].add(1, size);
                if options.is_stale(verified) {
                    self.stale.add(1, size);
                    stale.entry(root).or_default().add(1, size);
                }
            }
            if let Some(node) = nodes.get_mut(directory) {
                node.add(size, is_there.then_some(verified));
            }
            Ok(())
        })?;
        let names = catalog.algorithms()?;
        for (algorithm, amount) in digests {
            let name = names.get(&algorithm).cloned().unwrap_or_default();
            self.digests.entry(name).or_default().add(amount.files, amount.bytes);
        }
        nodes.sum();
        let (directories, stalest) = nodes.told(number, catalog, options)?;
        self.directories.extend(directories);
        self.stalest.extend(stalest);
        Ok(stale)
    }

    /// Brings the directories of all catalogues into one order.
    pub(super) fn settle_directories(&mut self, options: &OverviewOptions) {
        self.directories
            .sort_by(|a, b| b.amount.bytes.cmp(&a.amount.bytes).then_with(|| a.path.cmp(&b.path)));
        self.stalest.sort_by(|a, b| {
            (a.oldest, b.amount.bytes).cmp(&(b.oldest, a.amount.bytes)).then_with(|| a.path.cmp(&b.path))
        });
        self.stalest.truncate(options.directories / 2);
    }
}

impl Node {
    fn add(&mut self, size: u64, verified: Option<Moment>) {
        self.own.add(1, size);
        if let Some(verified) = verified {
            self.own_oldest = Some(self.own_oldest.map_or(verified, |oldest| oldest.min(verified)));
        }
    }
}

/// The month of a moment, counted since January 1970.
fn month(moment: Moment) -> i64 {
    // Days since the first of March of the year 0; years begin in March, so that the leap day is the last.
    let days = moment.milliseconds().div_euclid(86_400_000) + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let since_march = (5 * day_of_year + 2) / 153;
    (year + era * 400 - 1970) * 12 + since_march + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_those_of_the_calendar() {
        let day = |days: i64| month(Moment::of_milliseconds(days * 86_400_000));
        assert_eq!([0, 30, 31, 58, 59, 364, 365].map(day), [0, 0, 1, 1, 2, 11, 12]);
        // 2000-02-29 and the day after; the last day of 1969.
        assert_eq!([11_016, 11_017, -1].map(day), [361, 362, -1]);
    }
}
