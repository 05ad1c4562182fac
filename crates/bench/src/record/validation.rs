//! Validates files of results: rejects values that nobody can have measured.

use verisum_files::Timestamp;

use super::{BenchResults, Series};

impl BenchResults {
    /// What no session can be.
    pub(super) fn nonsense(&self) -> Option<&'static str> {
        /// Comparing takes time in the square of the rows.
        const MOST_ROWS: usize = 10_000;
        /// Threads that want to run: Linux has numbers for 2^22.
        const MOST_LOAD: f64 = 4_194_304.0;
        if self.series.len() > MOST_ROWS {
            return Some("more than the 10,000 rows of any result");
        }
        if Timestamp::from_rfc3339(&self.started).is_none() {
            return Some("it began at a time that is none");
        }
        let load = self.host.load.is_none_or(|load| (0.0..=MOST_LOAD).contains(&load));
        (!load).then_some("a load that is none")
    }
}

impl Series {
    /// What nobody can have measured.
    pub(super) fn nonsense(&self) -> Option<&'static str> {
        /// Seconds of any run, which end before this.
        const LONGEST: f64 = 1e9;
        /// Seconds of one repetition: light goes a millimetre.
        const SHORTEST: f64 = 3e-12;
        /// Bytes of a repetition: an exbibyte.
        const MOST_BYTES: u64 = 1 << 60;
        let count = self.wall.len();
        if self.skipped.is_some() && count > 0 {
            return Some("times, and a reason why there are none");
        }
        if self.bytes > MOST_BYTES {
            return Some("more bytes than there are");
        }
        if [self.rounds.len(), self.user.len(), self.system.len()] != [count; 3] {
            return Some("not as many rounds as times");
        }
        if !self.rounds.is_sorted_by(|one, next| one < next) {
            return Some("rounds are not in order, or twice");
        }
        if ![0, count].contains(&self.cycles.len()) {
            return Some("not as many cycles as times");
        }
        if ![0, count].contains(&self.crowding.len())
            || !self.crowding.iter().all(|much| *much > 0.0 && *much <= LONGEST)
        {
            return Some("another crowding of the core than in its runs");
        }
        if self.repetitions == 0 {
            return Some("no repetitions");
        }
        let wall = |time: &f64| (SHORTEST..=LONGEST).contains(time);
        let processor = |time: &f64| (0.0..=LONGEST).contains(time);
        let cycles = |cycles: &f64| cycles.is_finite() && *cycles >= 0.0;
        let times = self.wall.iter().all(wall) && self.user.iter().chain(&self.system).all(processor);
        (!times || !self.cycles.iter().all(cycles)).then_some("a time that is none")
    }
}

#[cfg(test)]
mod tests {
    use super::super::ResultsError;
    use super::super::tests::results;
    use super::*;

    #[test]
    fn what_nobody_can_have_measured_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        let wrongs: [fn(&mut BenchResults); 17] = [
            |wrong| wrong.series[0].rounds.truncate(2),
            |wrong| wrong.series[0].wall[0] = -1.0,
            |wrong| wrong.series[0].rounds[1] = 1,
            |wrong| wrong.series[1] = wrong.series[0].clone(),
            |wrong| wrong.series[0].cycles = vec![-1.0; 3],
            |wrong| wrong.series[0].cycles.push(1.0),
            |wrong| wrong.series[0].wall[0] = 0.0,
            |wrong| wrong.series[0].wall[0] = 1e308,
            |wrong| wrong.series[0].user[0] = 1e10,
            |wrong| wrong.series[0].repetitions = 0,
            |wrong| wrong.series[0].wall[0] = 1e-300,
            |wrong| wrong.series[0].crowding = vec![0.0; 3],
            |wrong| wrong.series[0].bytes = u64::MAX,
            |wrong| wrong.series[0].skipped = Some("why".to_string()),
            |wrong| wrong.host.load = Some(-1e308),
            |wrong| wrong.started = "10000-01-01T00:00:00Z".to_string(),
            |wrong| wrong.series = vec![wrong.series[2].clone(); 10_001],
        ];
        for make in wrongs {
            let mut wrong = results();
            make(&mut wrong);
            wrong.write(&path).unwrap();
            assert!(matches!(BenchResults::read(&path), Err(ResultsError::Form { .. })));
        }
    }
}
