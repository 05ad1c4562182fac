//! The rule: of those that take hardly longer than the fastest, the one that is otherwise best.

use serde::Serialize;

use super::{Load, Purpose};

/// Who takes at most so many times as long as the fastest is no slower in practice.
const TOLERANCE: f64 = 1.1;

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
    pub fn of(&self, load: &Load, purpose: Purpose) -> f64 {
        match purpose {
            // The block hash of a hole is known without hashing it.
            Purpose::Image => self.of_stored(load),
            _ => load.small_files as f64 * self.small_file + load.large_bytes as f64 * self.large_byte,
        }
    }

    /// The seconds for all files without their holes, as they are read.
    pub fn of_stored(&self, load: &Load) -> f64 {
        load.small_files as f64 * self.small_file + load.large_stored as f64 * self.large_byte
    }
}

/// All that the rule looks at.
#[derive(Clone, Debug)]
pub struct Input {
    /// What the digest is wanted for.
    pub purpose: Purpose,
    /// The files.
    pub load: Load,
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
    /// On how many threads.
    pub threads: usize,
}

/// A candidate with its times, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What speaks for and against it.
    pub why: &'static str,
    /// Opening all files, reading them from memory and closing them.
    pub opening: Option<f64>,
    /// What hashing adds to that.
    pub hash: f64,
    /// Reading them from the device.
    pub device: Option<f64>,
    /// All of it: the device gives one file while another is hashed, so the greater of the two.
    pub total: f64,
    /// Which part of that time hashing needs.
    pub busy: f64,
    /// Whether the device takes longer than opening and hashing.
    pub disk_bound: bool,
}

impl Row {
    /// What the processors do.
    fn work(&self) -> f64 {
        self.opening.unwrap_or(0.0) + self.hash
    }

    /// Whether hashing is less than what one measurement differs from the next by.
    fn is_hidden(&self) -> bool {
        self.opening.is_some_and(|opening| self.hash <= opening * (TOLERANCE - 1.0))
    }

    /// What takes the time.
    pub fn bound_by(&self) -> &'static str {
        match self.opening {
            _ if self.disk_bound => "device",
            Some(opening) if opening > self.hash => "opening",
            _ => "hashing",
        }
    }
}

/// What the rule says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The answer.
    pub choice: Row,
    /// The second best.
    pub runner_up: Option<Row>,
    /// Whether all take the same time because of the disk.
    pub disk_decides: bool,
    /// All, in the order of preference.
    pub rows: Vec<Row>,
}

/// Decides; `None` if no candidate was measured or there are no files.
pub fn decide(input: &Input) -> Option<Decision> {
    if input.load.files == 0 {
        return None;
    }
    // The preference is the order of the table, in whatever order they were measured.
    let opening = input.opening.map(|cost| cost.of(&input.load, input.purpose));
    let rows: Vec<Row> = input
        .purpose
        .candidates()
        .iter()
        .filter_map(|candidate| {
            let (_, cost) = input.hashes.iter().find(|(name, _)| *name == candidate.id)?;
            // No digest takes less time than none.
            let hash = (cost.of(&input.load, input.purpose) - opening.unwrap_or(0.0)).max(0.0);
            let work = opening.unwrap_or(0.0) + hash;
            let device = input.device.map(|cost| cost.of_stored(&input.load));
            let total = work.max(device.unwrap_or(0.0));
            let busy = if total > 0.0 { hash / total } else { 0.0 };
            let disk_bound = device.is_some_and(|device| device >= work);
            let (name, why) = (candidate.id, candidate.why);
            Some(Row { name, why, opening, hash, device, total, busy, disk_bound })
        })
        .collect();
    let fastest = rows.iter().map(|row| row.total).fold(f64::INFINITY, f64::min);
    let as_fast = |row: &&Row| row.total <= fastest * TOLERANCE;
    let mut best = rows.iter().filter(as_fast);
    let choice = best.next()?.clone();
    let others = rows.iter().filter(|row| row.name != choice.name);
    let quickest = others.min_by(|a, b| a.total.total_cmp(&b.total));
    let runner_up = best.next().or(quickest).cloned();
    // What came from memory says nothing of the disk; nor does a disk that may be faster than a candidate.
    let least = input.device_range.map_or(0.0, |[low, _]| low.of_stored(&input.load));
    let disk_decides = input.from_memory == Some(false)
        && rows.len() > 1
        && rows.iter().all(|row| row.disk_bound && row.work() < least && as_fast(&row));
    Some(Decision { choice, runner_up, disk_decides, rows })
}

/// The decision in words, with the figures it comes from.
pub fn sentences(input: &Input, decision: &Decision) -> Vec<String> {
    let (choice, load) = (&decision.choice, &input.load);
    let mut lines = vec![format!("{}: {}", choice.name, choice.why)];
    let more = if load.complete { "" } else { "at least " };
    let files = if load.files == 1 { "file" } else { "files" };
    let all = format!("{more}{} {files}, {}", grouped(load.files), decimal(load.bytes as f64));
    let bound = match choice.device {
        None => "nothing could be read cold, so the disk is not in it".to_string(),
        Some(_) if choice.disk_bound && input.from_memory != Some(false) => {
            let from = if input.from_memory.is_some() { ", though from memory" } else { "" };
            format!("reading takes longer than hashing{from}; {} costs nothing extra", choice.name)
        }
        Some(_) if choice.disk_bound => format!("disk-bound; {} costs nothing extra here", choice.name),
        Some(device) if choice.bound_by() == "opening" => {
            format!("bound by opening files more than by hashing: reading alone takes {}", time(device))
        }
        Some(device) => format!("hash-bound: reading alone takes {}", time(device)),
    };
    lines.push(format!("{all}: {}, {bound}", time(choice.total)));
    let holes = load.large_bytes.saturating_sub(load.large_stored).min(load.bytes);
    let hashed = if input.purpose == Purpose::Image { load.bytes - holes } else { load.bytes };
    if let Some(device) = choice.device.filter(|device| *device > 0.0) {
        let kind = match (input.from_memory, input.rotating) {
            (Some(true), _) => "from memory: these files could not be put out of the cache",
            (None, _) => "from the disk or from memory: the kernel does not say it of files of others",
            (Some(false), true) => "cold, from a disk that is said to rotate",
            (Some(false), false) => "cold, from a disk that does not rotate",
        };
        let rate = |seconds: f64| decimal((load.bytes - holes) as f64 / seconds);
        let between = match input.device_range.map(|range| range.map(|cost| cost.of_stored(load))) {
            Some([low, high]) if low > 0.0 && low < high => format!(" ({} to {})", rate(high), rate(low)),
            _ => String::new(),
        };
        let read = format!("{}/s{between}", rate(device));
        lines.push(format!("device: {read} {kind}"));
    }
    lines.push(shares(choice, hashed, input.threads));
    if decision.disk_decides {
        lines.push(format!(
            "the disk makes the choice irrelevant: all {} candidates take the same time",
            decision.rows.len()
        ));
    }
    if let Some(second) = &decision.runner_up {
        let beside = second.total / choice.total.max(f64::MIN_POSITIVE);
        let takes = match beside {
            _ if choice.total == 0.0 => "as long".to_string(),
            b if b > TOLERANCE => format!("{b:.1} times as long"),
            b if b < 1.0 / TOLERANCE => format!("{b:.2} times as long"),
            _ => "as long".to_string(),
        };
        lines.push(format!("runner-up: {}, {}, {takes}: {}", second.name, time(second.total), second.why));
    }
    lines
}

/// What of the whole time is the device's, opening, and hashing so many bytes.
fn shares(choice: &Row, hashed: u64, threads: usize) -> String {
    let percent = |part: f64| if choice.total > 0.0 { part / choice.total * 100.0 } else { 0.0 };
    let share = |part: f64| format!("{} ({:.0}%)", time(part), percent(part));
    let threads = if threads == 1 { "1 thread" } else { &format!("{threads} threads") };
    let mut parts = Vec::new();
    parts.extend(choice.device.map(|device| format!("device {}", share(device))));
    parts.extend(
        choice
            .opening
            .map(|opening| format!("opening the files and reading them from memory {}", share(opening))),
    );
    parts.push(match choice.is_hidden() {
        true => format!("{} too little beside that to be told", choice.name),
        false if choice.hash > 0.0 => {
            let rate = decimal(hashed as f64 / choice.hash);
            format!("{} {}, {rate}/s on {threads}", choice.name, share(choice.hash))
        }
        false => format!("{} no time", choice.name),
    });
    let meanwhile = if choice.device.is_some() { "; the device works while the rest is done" } else { "" };
    format!("of these {}: {}{meanwhile}", time(choice.total), parts.join("; "))
}

/// Seconds in the unit that suits them.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Bytes in powers of 1000, as disks are sold.
fn decimal(bytes: f64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes;
    let mut place = 0;
    while value >= 999.5 && place + 1 < units.len() {
        value /= 1000.0;
        place += 1;
    }
    let digits = if place == 0 || value >= 99.5 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[place])
}

/// A number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Load = Load {
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

    fn rate(bytes_a_second: f64) -> Cost {
        Cost { small_file: 0.0, large_byte: 1.0 / bytes_a_second }
    }

    fn input(purpose: Purpose, device: f64, hashes: &[(&'static str, f64)]) -> Input {
        Input {
            purpose,
            load: LARGE,
            device: Some(rate(device)),
            device_range: Some([rate(device * 1.05), rate(device * 0.95)]),
            from_memory: Some(false),
            rotating: false,
            opening: None,
            hashes: hashes.iter().map(|&(name, bytes)| (name, rate(bytes))).collect(),
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
        assert_eq!(lines[2], "device: 532 MB/s (505 MB to 559 MB) cold, from a disk that does not rotate");
        assert_eq!(
            lines[3],
            "of these 47 min: device 47 min (100%); sha256 6 min (14%), 3.9 GB/s on 2 threads; \
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
        assert_eq!(lines[1], "88,000 files, 1.5 TB: 25 min, hash-bound: reading alone takes 75 s");
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
        let load = Load {
            files: 1_000_000,
            bytes: 2_000_000_000,
            small_files: 1_000_000,
            small_bytes: 2_000_000_000,
            complete: false,
            unreadable: 3,
            ..Load::default()
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
        assert!(lines[2].ends_with("from a disk that is said to rotate"), "{}", lines[2]);
    }

    /// Opening small files is no part of a digest's speed.
    #[test]
    fn opening_is_told_from_hashing() {
        let cost = |small_file: f64, large_byte: f64| Cost { small_file, large_byte };
        let mut input = input(Purpose::Bitrot, 1e9, &[]);
        input.load = Load {
            files: 1_010_000,
            bytes: 102_000_000_000,
            small_files: 1_000_000,
            small_bytes: 2_000_000_000,
            large_files: 10_000,
            large_bytes: 100_000_000_000,
            large_stored: 100_000_000_000,
            complete: true,
            ..Load::default()
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
        assert_eq!((row("sha256").bound_by(), row("blake3").bound_by()), ("hashing", "opening"));
        // What seems to take less time than nothing takes none.
        assert_eq!((row("blake3").hash, row("blake3").total), (0.0, 30.0));
        let lines = sentences(&input, &decision);
        assert!(lines[1].contains("30 s, bound by opening files more than by hashing"), "{}", lines[1]);
        assert_eq!(
            lines[3],
            "of these 30 s: device 2.0 s (7%); opening the files and reading them from memory 30 s (100%); \
             blake3 too little beside that to be told; the device works while the rest is done"
        );
        input.hashes.truncate(1);
        let line = &sentences(&input, &decide(&input).unwrap())[3];
        assert!(line.contains("from memory 30 s (36%); sha256 54 s (64%), 1.9 GB/s on 2 threads"), "{line}");
    }

    #[test]
    fn what_came_from_memory_says_nothing_of_the_disk() {
        for (from_memory, words) in [(Some(true), "though from memory"), (None, "the kernel does not say")] {
            let mut input = input(Purpose::Bitrot, 532e6, &[("sha256", 3.9e9), ("blake3", 6e9)]);
            input.from_memory = from_memory;
            let decision = decide(&input).unwrap();
            let text = sentences(&input, &decision).join("\n");
            assert!(
                !decision.disk_decides && !text.contains("the disk makes") && !text.contains("disk-bound")
            );
            assert!(text.contains(words), "{text}");
        }
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
        empty.load = Load::default();
        assert_eq!(decide(&empty), None);
        assert_eq!(decide(&input(Purpose::Bitrot, 1e9, &[])), None);
        assert_eq!(decide(&input(Purpose::Tamper, 1e9, &[("xxh3-128", 1e9)])), None, "none that resists");
        let mut unread = input(Purpose::Bitrot, 1e9, &[("sha256", 1e9)]);
        unread.device = None;
        let decision = decide(&unread).unwrap();
        assert!(!decision.disk_decides && decision.runner_up.is_none());
        assert!(sentences(&unread, &decision)[1].contains("nothing could be read cold"));
    }

    #[test]
    fn zero_bytes_take_no_time() {
        let mut input = input(Purpose::Bitrot, 1e9, &[("sha256", 1e9), ("blake3", 1e9)]);
        input.load = Load { files: 1, small_files: 1, complete: true, ..Load::default() };
        input.device = Some(Cost::default());
        let decision = decide(&input).unwrap();
        assert_eq!(decision.choice.name, "sha256");
        assert!(sentences(&input, &decision).iter().all(|line| !line.contains("NaN")));
    }

    #[test]
    fn figures_are_written_as_people_do() {
        assert_eq!([0.5, 61.0, 2820.0, 9000.0].map(time), ["500 ms", "61 s", "47 min", "2.5 h"]);
        assert_eq!([12.0, 1500.0, 1.5e12].map(decimal), ["12 bytes", "1.5 kB", "1.5 TB"]);
        assert_eq!(
            [0, 999, 1000, 88_000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "88,000", "1,234,567"]
        );
    }
}
