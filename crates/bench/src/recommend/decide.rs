//! The decision rule: of the digests that take hardly longer than the fastest, the first in the order of
//! candidates.

use serde::Serialize;

use super::{Purpose, TreeLoad};

/// Who takes at most so many times as long as the fastest is no slower in practice.
pub(super) const TOLERANCE: f64 = 1.1;

/// What files cost, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// A small file, as they are on average.
    pub small_file: f64,
    /// A byte of a large file.
    pub large_byte: f64,
}

impl Cost {
    /// The seconds for all files, if it is that of hashing for this purpose.
    pub fn of(&self, load: &TreeLoad, purpose: Purpose) -> f64 {
        match purpose {
            // The block hash of a hole is known without hashing it.
            Purpose::Image => self.of_stored(load),
            _ => load.small_files as f64 * self.small_file + load.large_bytes as f64 * self.large_byte,
        }
    }

    /// The seconds for all files without their holes, as they are read.
    pub fn of_stored(&self, load: &TreeLoad) -> f64 {
        load.small_files as f64 * self.small_file + load.large_stored as f64 * self.large_byte
    }

    /// Whether small files take most of it, which is opening them, or the bytes of large ones.
    fn bound(&self, load: &TreeLoad) -> Bound {
        let small = load.small_files as f64 * self.small_file;
        if small >= load.large_stored as f64 * self.large_byte { Bound::Opening } else { Bound::Memory }
    }
}

/// All that the rule looks at.
#[derive(Clone, Debug)]
pub struct DecisionInput {
    /// The purpose of the digest.
    pub purpose: Purpose,
    /// The files.
    pub load: TreeLoad,
    /// What reading costs; `None` if it could not be measured.
    pub device: Option<Cost>,
    /// Within what that lies, the least and the most.
    pub device_range: Option<[Cost; 2]>,
    /// Whether what was read came from memory; `None` where the kernel does not say.
    pub from_memory: Option<bool>,
    /// Whether the device has heads that must move.
    pub rotating: bool,
    /// What opening files, reading them from memory and closing them costs without any digest; `None` where
    /// none are opened, or it was not measured.
    pub opening: Option<Cost>,
    /// What the same costs with hashing, of each candidate that was measured.
    pub hashes: Vec<(&'static str, Cost)>,
    /// Those of them whose hashing took more than nothing, as surely as an interval says it.
    pub resolved: Vec<&'static str>,
    /// How many files were chosen to be read.
    pub chosen: u64,
    /// How many of them cannot be read.
    pub lost: u64,
    /// On how many threads.
    pub threads: usize,
}

/// A candidate with its times, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CandidateRow {
    /// Its name.
    pub name: &'static str,
    /// What speaks for and against it.
    pub why: &'static str,
    /// Opening all files, reading them from memory and closing them.
    pub opening: Option<f64>,
    /// What hashing adds to that.
    pub hash: f64,
    /// Reading them from the device; `None` if that is not known, or they are in memory.
    pub device: Option<f64>,
    /// All of it: the device gives one file while another is hashed, so the greater of the two.
    pub total: f64,
    /// Which part of that time hashing needs.
    pub busy: f64,
    /// Whether the device takes longer than opening and hashing.
    pub disk_bound: bool,
    /// What takes most of the time.
    pub bound_by: Bound,
    /// Whether hashing surely took more than nothing.
    pub resolved: bool,
}

/// What takes most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Reading from the device.
    Device,
    /// Opening many small files.
    Opening,
    /// Copying the bytes of large files from memory.
    Memory,
    /// The digest.
    Hashing,
}

impl Bound {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Device => "device",
            Bound::Opening => "opening",
            Bound::Memory => "memory",
            Bound::Hashing => "hashing",
        }
    }
}

impl CandidateRow {
    /// What the processors do.
    fn work(&self) -> f64 {
        self.opening.unwrap_or(0.0) + self.hash
    }

    /// Whether hashing is less than what one measurement differs from the next by.
    pub(super) fn is_hidden(&self) -> bool {
        self.opening.is_some_and(|opening| self.hash <= opening * (TOLERANCE - 1.0))
    }
}

/// What the rule says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The answer.
    pub choice: CandidateRow,
    /// The second best.
    pub runner_up: Option<CandidateRow>,
    /// Whether all take the same time because of the disk.
    pub disk_decides: bool,
    /// All, in the order of preference.
    pub rows: Vec<CandidateRow>,
}

/// Decides; `None` if no candidate was measured or there are no files.
pub fn decide(input: &DecisionInput) -> Option<Decision> {
    if input.load.files == 0 {
        return None;
    }
    let load = &input.load;
    let control = input.opening.map_or(0.0, |cost| cost.of(load, input.purpose));
    // No device copies files that are in memory, the processors do: that was measured on these very files.
    let (opening, device) = match input.from_memory {
        Some(true) => (input.device.or(input.opening), None),
        _ => (input.opening, input.device),
    };
    let opens = opening.map(|cost| match input.from_memory {
        Some(true) => cost.of_stored(load),
        _ => cost.of(load, input.purpose),
    });
    let device = device.map(|cost| cost.of_stored(load));
    // The preference is the order of the table, in whatever order they were measured.
    let rows: Vec<CandidateRow> = input
        .purpose
        .candidates()
        .iter()
        .filter_map(|candidate| {
            let (_, cost) = input.hashes.iter().find(|(name, _)| *name == candidate.id)?;
            // No digest takes less time than none.
            let hash = (cost.of(load, input.purpose) - control).max(0.0);
            let work = opens.unwrap_or(0.0) + hash;
            let total = work.max(device.unwrap_or(0.0));
            let busy = if total > 0.0 { hash / total } else { 0.0 };
            let disk_bound = device.is_some_and(|device| device >= work);
            let bound_by = match opening {
                _ if disk_bound => Bound::Device,
                Some(cost) if opens > Some(hash) => cost.bound(load),
                _ => Bound::Hashing,
            };
            let resolved = input.resolved.contains(&candidate.id);
            let (name, why, opening) = (candidate.id, candidate.why, opens);
            Some(CandidateRow {
                name,
                why,
                opening,
                hash,
                device,
                total,
                busy,
                disk_bound,
                bound_by,
                resolved,
            })
        })
        .collect();
    let fastest = rows.iter().map(|row| row.total).fold(f64::INFINITY, f64::min);
    let as_fast = |row: &&CandidateRow| row.total <= fastest * TOLERANCE;
    let mut best = rows.iter().filter(as_fast);
    let choice = best.next()?.clone();
    let others = rows.iter().filter(|row| row.name != choice.name);
    let quickest = others.min_by(|a, b| a.total.total_cmp(&b.total));
    let runner_up = best.next().or(quickest).cloned();
    // What came from memory says nothing of the disk; nor does a disk that may be faster than a candidate.
    let least = input.device_range.map_or(0.0, |[low, _]| low.of_stored(load));
    let disk_decides = input.from_memory == Some(false)
        && rows.len() > 1
        && rows.iter().all(|row| row.disk_bound && row.work() < least && as_fast(&row));
    Some(Decision { choice, runner_up, disk_decides, rows })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::sentences;
    use super::*;

    const LARGE: TreeLoad = TreeLoad {
        files: 88_000,
        bytes: 1_500_000_000_000,
        small_files: 0,
        small_bytes: 0,
        large_files: 88_000,
        large_bytes: 1_500_000_000_000,
        large_stored: 1_500_000_000_000,
        empty_files: 0,
        complete: true,
        unreadable: 0,
    };

    pub(in crate::recommend) fn rate(bytes_a_second: f64) -> Cost {
        Cost { small_file: 0.0, large_byte: 1.0 / bytes_a_second }
    }

    pub(in crate::recommend) fn input(
        purpose: Purpose,
        device: f64,
        hashes: &[(&'static str, f64)],
    ) -> DecisionInput {
        DecisionInput {
            purpose,
            load: LARGE,
            device: Some(rate(device)),
            device_range: Some([rate(device * 1.05), rate(device * 0.95)]),
            from_memory: Some(false),
            rotating: false,
            opening: None,
            hashes: hashes.iter().map(|&(name, bytes)| (name, rate(bytes))).collect(),
            resolved: vec!["sha256", "blake3"],
            chosen: 64,
            lost: 0,
            threads: 2,
        }
    }

    #[test]
    fn a_slow_disk_makes_the_choice_irrelevant() {
        let hashes = [("xxh3-128", 20e9), ("sha256", 3.9e9), ("blake3", 6e9)];
        let input = input(Purpose::Bitrot, 532e6, &hashes);
        let decision = decide(&input).unwrap();
        assert_eq!((decision.choice.name, decision.disk_decides), ("sha256", true));
        assert_eq!(decision.runner_up.as_ref().unwrap().name, "blake3");
        let lines = sentences(&input, &decision);
        assert_eq!(lines[1], "88,000 files, 1.5 TB: 47 min, disk-bound; sha256 costs nothing extra here");
        assert_eq!(lines[2], "device: 532 MB/s (505 MB/s to 559 MB/s) cold, from a non-rotational disk");
        assert_eq!(
            lines[3],
            "of these 47 min: device 47 min (100%); sha256 6.4 min (14%), 3.9 GB/s on 2 threads; \
             the device works while the rest is done"
        );
        assert_eq!(lines[4], "the disk makes the choice irrelevant: all 3 candidates take the same time");
        assert!(lines[5].starts_with("runner-up: blake3, 47 min, as long: "), "{}", lines[5]);
    }

    #[test]
    fn a_disk_that_may_be_faster_than_a_candidate_decides_nothing() {
        let mut input = input(Purpose::Bitrot, 532e6, &[("xxh3-128", 20e9), ("sha256", 700e6)]);
        assert!(decide(&input).unwrap().disk_decides);
        for range in [Some([rate(800e6), rate(400e6)]), None] {
            input.device_range = range;
            let decision = decide(&input).unwrap();
            assert!(!decision.disk_decides && decision.choice.name == "sha256", "{decision:?}");
        }
    }

    #[test]
    fn a_slow_processor_chooses_the_fastest_that_the_purpose_permits() {
        let hashes = [("sha256", 0.3e9), ("blake3", 1e9), ("xxh3-128", 8e9), ("crc64-nvme", 7.9e9)];
        let of = |purpose| {
            let decision = decide(&input(purpose, 20e9, &hashes)).unwrap();
            assert!(!decision.disk_decides && !decision.choice.disk_bound);
            (decision.choice.name, decision.runner_up.unwrap().name)
        };
        assert_eq!(of(Purpose::Bitrot), ("xxh3-128", "crc64-nvme"));
        assert_eq!(of(Purpose::Tamper), ("blake3", "sha256"));
        assert_eq!(of(Purpose::Dedup), ("blake3", "sha256"));
        let lines = sentences(
            &input(Purpose::Tamper, 20e9, &hashes),
            &decide(&input(Purpose::Tamper, 20e9, &hashes)).unwrap(),
        );
        assert_eq!(lines[1], "88,000 files, 1.5 TB: 25 min, hash-bound: the device alone takes 75 s");
        assert!(lines[4].contains("3.3 times as long"), "{}", lines[4]);
    }

    #[test]
    fn a_little_slower_is_no_reason_against_the_better() {
        let choice = |sha256: f64| {
            let hashes = [("blake3", 1e9), ("sha256", sha256)];
            decide(&input(Purpose::Tamper, 20e9, &hashes)).unwrap().choice.name
        };
        assert_eq!([choice(0.92e9), choice(0.90e9)], ["sha256", "blake3"]);
    }

    #[test]
    fn many_small_files_cost_what_they_cost_each() {
        let load = TreeLoad {
            files: 1_000_000,
            bytes: 2_000_000_000,
            small_files: 1_000_000,
            small_bytes: 2_000_000_000,
            complete: false,
            unreadable: 3,
            ..TreeLoad::default()
        };
        let cost = |small_file: f64| Cost { small_file, large_byte: 1e-9 };
        let mut input = input(Purpose::Bitrot, 1e9, &[]);
        input.load = load;
        input.device = Some(cost(1e-4));
        input.device_range = Some([cost(0.9e-4), cost(1.1e-4)]);
        input.rotating = true;
        input.hashes = vec![("sha256", cost(1e-5)), ("xxh3-128", cost(8e-6))];
        let decision = decide(&input).unwrap();
        assert_eq!((decision.choice.name, decision.disk_decides), ("sha256", true));
        let lines = sentences(&input, &decision);
        assert!(lines[1].starts_with("at least 1,000,000 files, 2.0 GB: 100 s, disk-bound"), "{}", lines[1]);
        assert!(lines[2].ends_with("from a rotational disk"), "{}", lines[2]);
    }

    /// Opening small files is no part of a digest's speed.
    #[test]
    fn opening_is_told_from_hashing() {
        let cost = |small_file: f64, large_byte: f64| Cost { small_file, large_byte };
        let mut input = input(Purpose::Bitrot, 1e9, &[]);
        input.load = TreeLoad {
            files: 1_010_000,
            bytes: 102_000_000_000,
            small_files: 1_000_000,
            small_bytes: 2_000_000_000,
            large_files: 10_000,
            large_bytes: 100_000_000_000,
            large_stored: 100_000_000_000,
            complete: true,
            ..TreeLoad::default()
        };
        // Files and bytes both count: 20 s and 10 s to open and read, 4 s and 50 s more to hash.
        input.opening = Some(cost(20e-6, 1e-10));
        input.hashes = vec![("sha256", cost(24e-6, 6e-10)), ("blake3", cost(19e-6, 1.01e-10))];
        input.device = Some(cost(1e-6, 1e-11));
        let decision = decide(&input).unwrap();
        let row = |name: &str| decision.rows.iter().find(|row| row.name == name).unwrap();
        let near = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-6, "{value} {wanted}");
        near(row("sha256").opening.unwrap(), 30.0);
        near(row("sha256").hash, 54.0);
        near(row("sha256").total, 84.0);
        near(row("sha256").device.unwrap(), 2.0);
        assert_eq!((row("sha256").bound_by, row("blake3").bound_by), (Bound::Hashing, Bound::Opening));
        // What seems to take less time than nothing takes none.
        assert_eq!((row("blake3").hash, row("blake3").total), (0.0, 30.0));
        let lines = sentences(&input, &decision);
        assert!(lines[1].contains("30 s, bound by opening files more than by hashing"), "{}", lines[1]);
        assert_eq!(
            lines[3],
            "of these 30 s: device 2.0 s (7%); opening the files and reading them from memory 30 s (100%); \
             blake3 too little to be measured; the device works while the rest is done"
        );
        input.hashes.truncate(1);
        let line = &sentences(&input, &decide(&input).unwrap())[3];
        assert!(line.contains("from memory 30 s (36%); sha256 54 s (64%), 1.9 GB/s on 2 threads"), "{line}");
    }

    #[test]
    fn holes_are_hashed_and_not_read() {
        let mut input = input(Purpose::Bitrot, 1e9, &[("sha256", 2e9), ("blake3", 1e9)]);
        input.load.large_stored /= 10;
        let row = decide(&input).unwrap().choice;
        assert!(!row.disk_bound && row.device.unwrap() * 4.0 < row.hash, "{row:?}");
        // The block hash of a hole is known.
        input.purpose = Purpose::Image;
        let row = decide(&input).unwrap().choice;
        assert!(row.disk_bound && row.device.unwrap() > row.hash, "{row:?}");
        assert!(sentences(&input, &decide(&input).unwrap())[3].contains("2.0 GB/s on"));
    }

    #[test]
    fn without_files_or_figures_there_is_no_answer() {
        let mut empty = input(Purpose::Bitrot, 1e9, &[("sha256", 1e9)]);
        empty.load = TreeLoad::default();
        assert_eq!(decide(&empty), None);
        assert_eq!(decide(&input(Purpose::Bitrot, 1e9, &[])), None);
        assert_eq!(decide(&input(Purpose::Tamper, 1e9, &[("xxh3-128", 1e9)])), None, "none that resists");
        let mut unread = input(Purpose::Bitrot, 1e9, &[("sha256", 1e9)]);
        unread.device = None;
        let decision = decide(&unread).unwrap();
        assert!(!decision.disk_decides && decision.runner_up.is_none());
        assert!(sentences(&unread, &decision)[1].contains("nothing could be read cold"));
    }

    /// The same processors copy from memory and hash, so one takes its time after the other.
    #[test]
    fn what_comes_from_memory_is_added_to_hashing() {
        let of = |purpose, opening: Option<Cost>| {
            let mut input = input(purpose, 15e9, &[("sha256", 10e9)]);
            (input.from_memory, input.opening) = (Some(true), opening);
            let decision = decide(&input).unwrap();
            assert!(
                !decision.disk_decides && !decision.choice.disk_bound && decision.choice.device.is_none()
            );
            decision.choice
        };
        let row = of(Purpose::Image, None);
        assert_eq!((row.opening, row.hash, row.total), (Some(100.0), 150.0, 250.0));
        assert_eq!(row.bound_by, Bound::Hashing);
        // What the files themselves took counts, and the control only for what hashing adds.
        let row = of(Purpose::Bitrot, Some(rate(20e9)));
        assert_eq!((row.opening, row.hash, row.total), (Some(100.0), 75.0, 175.0));
        assert_eq!(row.bound_by, Bound::Memory);
    }

    #[test]
    fn zero_bytes_take_no_time() {
        let mut input = input(Purpose::Bitrot, 1e9, &[("sha256", 1e9), ("blake3", 1e9)]);
        input.load = TreeLoad { files: 1, small_files: 1, complete: true, ..TreeLoad::default() };
        input.device = Some(Cost::default());
        let decision = decide(&input).unwrap();
        assert_eq!(decision.choice.name, "sha256");
        assert!(sentences(&input, &decision).iter().all(|line| !line.contains("NaN")));
    }
}
