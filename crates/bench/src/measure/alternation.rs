//! Runs subjects in turns.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::core_sharing::Crowding;
use super::{MOST_ROUNDS, MeasureAmount, MeasureError, MeasurePlan, Subject, cache_state, drop_files};
use crate::record::{NOT_REACHED, Series};

/// How far the measurement is.
#[derive(Clone, Copy, Debug)]
pub struct BenchProgress<'a> {
    /// Whose turn it is.
    pub name: &'a str,
    /// Its group.
    pub group: &'a str,
    /// The round, from 1; 0 is the warm-up.
    pub round: u32,
    /// The part that is done, 0 to 1.
    pub part: f64,
    /// How long the rest will take, as far as that is known.
    pub left: Option<Duration>,
}

/// Who watches a measurement. The library neither prints nor catches signals.
pub trait Watch {
    /// Is told before each run.
    fn progress(&mut self, _: &BenchProgress<'_>) {}

    /// Whether the user wants no more. What was measured so far is kept.
    fn stopped(&self) -> bool {
        false
    }

    /// Is told after each round what was measured so far, to save it.
    fn round(&mut self, _: &[Series]) {}
}

/// Nobody watches.
impl Watch for () {}

/// Measures the subjects. Those of a group follow each other in each round, so that what lasts for less than
/// a round meets all of them alike; the rounds of all groups are spread over the whole time, so that what
/// lasts longer is seen by each. A subject that fails, that is too old to know a digest or that computes a
/// wrong one becomes a series without times that says why; the others go on.
pub fn measure(
    subjects: &mut [Box<dyn Subject + '_>],
    plan: &MeasurePlan,
    watch: &mut dyn Watch,
) -> Vec<Series> {
    let crowding = subjects.iter().any(|subject| subject.repeats()).then(Crowding::new);
    let mut run = Run { plan, started: Instant::now(), random: Rng::with_seed(plan.seed), crowding };
    subjects.iter_mut().for_each(|subject| subject.begin(plan));
    let mut series: Vec<Series> = subjects.iter().map(|subject| Series::new(subject.about())).collect();
    let groups = groups(&series);
    let warm = run.warm_up(subjects, &mut series, &groups, watch);
    let mut round = 0;
    while !watch.stopped() && run.more(round, warm) {
        round += 1;
        for index in turns(&mut run.random, &groups) {
            if watch.stopped() {
                break;
            }
            if series[index].skipped.is_some() {
                continue;
            }
            watch.progress(&run.progress(round, &series[index], warm));
            run.once(&mut *subjects[index], &mut series[index], Some(round), watch);
        }
        watch.round(&series);
    }
    for series in series.iter_mut().filter(|series| series.wall.is_empty() && series.skipped.is_none()) {
        series.skipped = Some(NOT_REACHED.to_string());
    }
    series
}

struct Run<'a> {
    plan: &'a MeasurePlan,
    started: Instant,
    random: Rng,
    /// None where nothing is work in this process.
    crowding: Option<Crowding>,
}

/// The places of each group's series, in the order of its first.
fn groups(series: &[Series]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, one) in series.iter().enumerate() {
        match groups.iter_mut().find(|group| series[group[0]].group == one.group) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// The members of all groups: groups in random order, and the members of each.
fn turns(random: &mut Rng, groups: &[Vec<usize>]) -> Vec<usize> {
    let mut groups = groups.to_vec();
    random.shuffle(&mut groups);
    groups.iter_mut().for_each(|group| random.shuffle(group));
    groups.concat()
}

impl Run<'_> {
    /// Runs each subject without counting, compares digests, and chooses how often short work is
    /// repeated. Returns how long a round takes.
    fn warm_up(
        &mut self,
        subjects: &mut [Box<dyn Subject + '_>],
        series: &mut [Series],
        groups: &[Vec<usize>],
        watch: &mut dyn Watch,
    ) -> Duration {
        let mut last = Duration::ZERO;
        for turn in 0..self.plan.warmup.max(1) {
            last = Duration::ZERO;
            for index in turns(&mut self.random, groups) {
                if watch.stopped() {
                    return last;
                }
                if series[index].skipped.is_some() {
                    continue;
                }
                let Series { name, group, .. } = &series[index];
                watch.progress(&BenchProgress { name, group, round: 0, part: 0.0, left: None });
                let started = Instant::now();
                self.once(&mut *subjects[index], &mut series[index], None, watch);
                last += started.elapsed();
                if turn == 0 && subjects[index].repeats() && series[index].skipped.is_none() {
                    self.calibrate(&mut *subjects[index], &mut series[index]);
                    last += self.plan.least;
                }
            }
        }
        last
    }

    /// Doubles the repetitions until they can be timed, then sets them to what the plan wants.
    fn calibrate(&self, subject: &mut dyn Subject, series: &mut Series) {
        let mut repetitions = 1u32;
        loop {
            let Ok(measured) = subject.prepare().and_then(|()| subject.run(repetitions)) else { return };
            if measured.wall >= self.plan.least / 8 || repetitions >= 1 << 24 {
                // The best of a few: what else the machine did in one of them would make all runs too short.
                let mut shortest = measured.wall;
                for _ in 0..2 {
                    if let Ok(again) = subject.prepare().and_then(|()| subject.run(repetitions)) {
                        shortest = shortest.min(again.wall);
                    }
                }
                let each = shortest.as_secs_f64() / f64::from(repetitions);
                let wanted = self.plan.least.as_secs_f64() / each.max(1e-10);
                series.repetitions = wanted.clamp(1.0, f64::from(1 << 24)).round() as u32;
                return;
            }
            repetitions *= 2;
        }
    }

    /// One run; counted if it has a round.
    fn once(
        &mut self,
        subject: &mut dyn Subject,
        series: &mut Series,
        round: Option<u32>,
        watch: &dyn Watch,
    ) {
        let prepared = subject.prepare().and_then(|()| match self.plan.cold {
            true => drop_files(&subject.about().files),
            false => Ok(()),
        });
        let cache = cache_state(&subject.about().files);
        // Programs run on another core, and what runs once may need its cold caches.
        let mut crowding = self.crowding.as_mut().filter(|_| subject.repeats() && round.is_some());
        let before = crowding.as_mut().and_then(|crowding| crowding.now());
        let measured = prepared.and_then(|()| subject.run(series.repetitions));
        let after = crowding.and_then(Crowding::now);
        match measured {
            // The user's signal also reaches the programs that run.
            Err(_) if watch.stopped() => {}
            Err(error @ (MeasureError::Unavailable(_) | MeasureError::Stopped)) => {
                series.skip(error.to_string())
            }
            Err(error) => series.fail(error.to_string()),
            // What cannot be killed is at least not run again.
            Ok(measured) if self.plan.limit.is_some_and(|limit| measured.wall > limit) => {
                series.fail(format!("one run took {} s, which is too long", measured.wall.as_secs()));
            }
            Ok(mut measured) => {
                measured.crowding = before.into_iter().chain(after).reduce(f64::max);
                let expected = subject.about().expected.as_ref();
                if let Some(expected) =
                    expected.filter(|&expected| measured.digest.as_ref() != Some(expected))
                {
                    let found =
                        measured.digest.as_deref().filter(|found| !found.is_empty()).unwrap_or("none");
                    match subject.about().changed() {
                        Some(file) => {
                            series.fail(format!("{} changed while it was measured", file.display()));
                        }
                        None => {
                            series.wrong = true;
                            series.skip(format!("wrong digest: {found} instead of {expected}"));
                        }
                    }
                } else if let Some(round) = round {
                    series.add(round, &measured, cache);
                }
            }
        }
    }

    fn more(&self, done: u32, warm: Duration) -> bool {
        match self.plan.amount {
            MeasureAmount::Rounds(rounds) => done < rounds,
            MeasureAmount::Time(_) if done == 0 => true,
            MeasureAmount::Time(time) => {
                done < MOST_ROUNDS && self.started.elapsed() + self.pace(done, warm) <= time
            }
        }
    }

    /// How long a round takes.
    fn pace(&self, done: u32, warm: Duration) -> Duration {
        match done {
            0 => warm,
            _ => self.started.elapsed() / (done + 1),
        }
    }

    fn progress<'n>(&self, round: u32, series: &'n Series, warm: Duration) -> BenchProgress<'n> {
        let pace = self.pace(round - 1, warm);
        let elapsed = self.started.elapsed();
        let left = match self.plan.amount {
            MeasureAmount::Rounds(rounds) => pace * (rounds + 1 - round),
            MeasureAmount::Time(time) => time.saturating_sub(elapsed).min(pace * (MOST_ROUNDS + 1 - round)),
        };
        let total = (elapsed + left).as_secs_f64();
        let part = if total > 0.0 { elapsed.as_secs_f64() / total } else { 0.0 };
        BenchProgress { name: &series.name, group: &series.group, round, part, left: Some(left) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{About, InProcess, Measured};
    use std::cell::{Cell, RefCell};

    /// A subject of known cost on a clock of its own.
    struct Synthetic<'a> {
        about: About,
        cost: f64,
        log: &'a RefCell<Vec<String>>,
        digest: Option<&'static str>,
        repeats: bool,
    }

    impl Subject for Synthetic<'_> {
        fn about(&self) -> &About {
            &self.about
        }

        fn repeats(&self) -> bool {
            self.repeats
        }

        fn run(&mut self, repetitions: u32) -> Result<Measured, MeasureError> {
            self.log.borrow_mut().push(self.about.name.clone());
            match self.cost {
                cost if cost < 0.0 => Err(MeasureError::Unavailable("broken".to_string())),
                cost => Ok(Measured {
                    wall: Duration::from_secs_f64(cost * f64::from(repetitions)),
                    digest: self.digest.map(str::to_string),
                    ..Measured::default()
                }),
            }
        }
    }

    fn subject<'a>(name: &str, cost: f64, log: &'a RefCell<Vec<String>>) -> Synthetic<'a> {
        Synthetic { about: About::new("g", name), cost, log, digest: None, repeats: false }
    }

    #[test]
    fn rounds_have_every_subject_once_in_an_order_that_the_seed_gives() {
        let orders = [1, 1, 2].map(|seed| {
            let log = RefCell::default();
            let names = ["a", "b", "c", "d", "e"];
            let mut subjects: Vec<Box<dyn Subject>> =
                names.iter().map(|name| Box::new(subject(name, 1.0, &log)) as _).collect();
            let plan = MeasurePlan { amount: MeasureAmount::Rounds(10), seed, ..MeasurePlan::default() };
            let series = measure(&mut subjects, &plan, &mut ());
            assert!(series.iter().all(|one| one.wall == [1.0; 10] && one.rounds.len() == 10));
            drop(subjects);
            let log = log.into_inner();
            assert_eq!(log.len(), 55);
            for round in log.chunks(5) {
                let mut names: Vec<&str> = round.iter().map(String::as_str).collect();
                names.sort_unstable();
                assert_eq!(names, ["a", "b", "c", "d", "e"]);
            }
            assert!(log.chunks(5).any(|round| round != &log[..5]), "another order each round");
            log
        });
        assert_eq!(orders[0], orders[1]);
        assert_ne!(orders[0], orders[2]);
    }

    #[test]
    fn rounds_have_one_group_after_the_other() {
        let log = RefCell::default();
        let of = |group: &str, name: &str| {
            let mut subject = subject(name, 1.0, &log);
            subject.about.group = group.to_string();
            Box::new(subject) as Box<dyn Subject>
        };
        let mut subjects = vec![of("x", "x1"), of("y", "y1"), of("x", "x2"), of("y", "y2")];
        let plan = MeasurePlan { amount: MeasureAmount::Rounds(20), ..MeasurePlan::default() };
        let series = measure(&mut subjects, &plan, &mut ());
        assert!(series.iter().all(|one| one.wall.len() == 20));
        let log = log.borrow();
        let groups: Vec<&str> = log.iter().map(|name| &name[..1]).collect();
        assert!(groups.chunks(2).all(|pair| pair[0] == pair[1]));
        let first = |group: &str| groups.chunks(4).filter(|round| round[0] == group).count();
        assert!(first("x") > 4 && first("y") > 4, "groups take turns, too");
    }

    /// Only of work in this process is it known, and only of runs that count.
    #[test]
    fn crowding_is_that_of_runs_in_this_process() {
        let work = InProcess::new(About::new("g", "work"), || -> Result<(), MeasureError> { Ok(()) });
        let plan = MeasurePlan {
            amount: MeasureAmount::Rounds(3),
            least: Duration::from_micros(50),
            ..MeasurePlan::default()
        };
        let mut subjects = [work.boxed(), InProcess::new(About::new("g", "once"), || Ok(())).once().boxed()];
        let series = measure(&mut subjects, &plan, &mut ());
        assert_eq!([series[0].crowding.len(), series[1].crowding.len()], [3, 0]);
    }

    #[test]
    fn what_is_wrong_or_broken_has_no_times() {
        let log = RefCell::default();
        let mut wrong = subject("wrong", 0.1, &log);
        wrong.about.expected = Some("cafe".to_string());
        wrong.digest = Some("beef");
        let mut right = subject("right", 0.2, &log);
        right.about.expected = Some("cafe".to_string());
        right.digest = Some("cafe");
        let mut silent = subject("silent", 0.2, &log);
        silent.about.expected = Some("cafe".to_string());
        silent.digest = Some("");
        let broken = subject("broken", -1.0, &log);
        let mut subjects: Vec<Box<dyn Subject>> =
            vec![Box::new(wrong), Box::new(right), Box::new(silent), Box::new(broken)];
        let series = measure(&mut subjects, &MeasurePlan::default(), &mut ());
        let found = series.iter().map(|one| (one.wall.len(), one.skipped.as_deref(), one.wrong));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                (0, Some("wrong digest: beef instead of cafe"), true),
                (15, None, false),
                (0, Some("wrong digest: none instead of cafe"), true),
                (0, Some("broken"), false),
            ]
        );
    }

    #[test]
    fn a_file_that_changed_makes_no_program_wrong() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = RefCell::default();
        let mut late = subject("late", 0.1, &log);
        late.about = About::new("g", "late").file(file.path()).expect("cafe");
        late.digest = Some("beef");
        std::fs::write(file.path(), "more").unwrap();
        let series = &measure(&mut [Box::new(late) as Box<dyn Subject>], &MeasurePlan::default(), &mut ())[0];
        assert!(series.failed && !series.wrong);
        assert!(series.skipped.as_deref().unwrap().ends_with("changed while it was measured"));
    }

    #[test]
    fn what_takes_longer_than_it_may_is_not_run_again() {
        let log = RefCell::default();
        let mut subjects: Vec<Box<dyn Subject>> =
            vec![Box::new(subject("long", 3.0, &log)), Box::new(subject("short", 1.0, &log))];
        let plan = MeasurePlan { limit: Some(Duration::from_secs(2)), ..MeasurePlan::default() };
        let series = measure(&mut subjects, &plan, &mut ());
        assert!(
            series[0].failed && series[0].skipped.as_deref() == Some("one run took 3 s, which is too long")
        );
        assert_eq!(series[1].wall.len(), 15);
        drop(subjects);
        assert_eq!(log.borrow().iter().filter(|name| *name == "long").count(), 1);
    }

    #[test]
    fn short_work_is_repeated_until_it_can_be_timed() {
        let log = RefCell::default();
        let mut short = subject("short", 1e-6, &log);
        short.repeats = true;
        let mut long = subject("long", 1.0, &log);
        long.repeats = true;
        let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(short), Box::new(long)];
        let series = measure(&mut subjects, &MeasurePlan::default(), &mut ());
        assert_eq!(series.iter().map(|one| one.repetitions).collect::<Vec<_>>(), [10_000, 1]);
        assert!((series[0].wall[0] - 1e-6).abs() < 1e-12, "times are those of one repetition");
    }

    #[test]
    fn a_stop_keeps_what_was_measured() {
        struct Impatient(Cell<u32>);
        impl Watch for Impatient {
            fn progress(&mut self, progress: &BenchProgress<'_>) {
                self.0.set(self.0.get() + 1);
                assert!((0.0..=1.0).contains(&progress.part));
            }
            fn stopped(&self) -> bool {
                self.0.get() >= 2 + 7
            }
        }
        let log = RefCell::default();
        let mut subjects: Vec<Box<dyn Subject>> =
            vec![Box::new(subject("a", 1.0, &log)), Box::new(subject("b", 1.0, &log))];
        let series = measure(&mut subjects, &MeasurePlan::default(), &mut Impatient(Cell::new(0)));
        let counts: Vec<usize> = series.iter().map(|one| one.wall.len()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 7, "after two of warm-up: {counts:?}");
    }

    #[test]
    fn a_time_without_room_for_a_round_gives_one() {
        let log = RefCell::default();
        let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(subject("a", 1.0, &log))];
        let plan = MeasurePlan { amount: MeasureAmount::Time(Duration::ZERO), ..MeasurePlan::default() };
        assert_eq!(measure(&mut subjects, &plan, &mut ())[0].wall, [1.0]);
        let plan =
            MeasurePlan { amount: MeasureAmount::Time(Duration::from_secs(3600)), ..MeasurePlan::default() };
        assert_eq!(measure(&mut subjects, &plan, &mut ())[0].wall.len(), MOST_ROUNDS as usize);
    }
}
