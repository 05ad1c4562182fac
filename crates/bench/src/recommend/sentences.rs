//! Writes the decision as sentences, with the figures that decided.

use super::Purpose;
use super::decide::{Bound, CandidateRow, Decision, DecisionInput, TOLERANCE};

/// The decision in words, with the figures it comes from.
pub fn sentences(input: &DecisionInput, decision: &Decision) -> Vec<String> {
    let (choice, load) = (&decision.choice, &input.load);
    let mut lines = Vec::new();
    if input.lost > 0 {
        let (lost, chosen) = (grouped(input.lost), grouped(input.chosen));
        lines.push(format!("doubtful: {lost} of {chosen} files that were chosen cannot be read"));
    }
    lines.push(format!("{}: {}", choice.name, choice.why));
    let more = if load.complete { "" } else { "at least " };
    let files = if load.files == 1 { "file" } else { "files" };
    let all = format!("{more}{} {files}, {}", grouped(load.files), decimal(load.bytes as f64));
    lines.push(format!("{all}: {}, {}", time(choice.total), bound(input, choice)));
    let holes = load.large_bytes.saturating_sub(load.large_stored).min(load.bytes);
    let hashed = if input.purpose == Purpose::Image { load.bytes - holes } else { load.bytes };
    if let Some(seconds) = input.device.map(|cost| cost.of_stored(load)).filter(|seconds| *seconds > 0.0) {
        lines.push(reading(input, seconds, load.bytes - holes));
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

/// What takes the time.
fn bound(input: &DecisionInput, choice: &CandidateRow) -> String {
    let name = choice.name;
    let by = match choice.bound_by {
        Bound::Device if input.from_memory == Some(false) => {
            return format!("disk-bound; {name} costs nothing extra here");
        }
        Bound::Device => {
            return format!("reading takes longer than hashing; from a disk {name} would cost nothing extra");
        }
        Bound::Opening => "bound by opening files more than by hashing",
        Bound::Memory => "bound by copying from memory more than by hashing",
        Bound::Hashing => "hash-bound",
    };
    match choice.device {
        Some(device) => format!("{by}: the device alone takes {}", time(device)),
        None if input.from_memory == Some(true) => format!("{by}; the files are in memory"),
        None => format!("{by}; nothing could be read cold, so the disk is not in it"),
    }
}

/// How fast so many bytes were read in these seconds, and from where.
fn reading(input: &DecisionInput, seconds: f64, bytes: u64) -> String {
    let from = match (input.from_memory, input.rotating) {
        (Some(true), _) => "from memory: these files could not be put out of the cache",
        (None, _) => "from the disk or from memory: the kernel does not say it of files of others",
        (Some(false), true) => "cold, from a rotational disk",
        (Some(false), false) => "cold, from a non-rotational disk",
    };
    let what = if input.from_memory == Some(true) { "reading" } else { "device" };
    let rate = |seconds: f64| decimal(bytes as f64 / seconds);
    match input.device_range.map(|range| range.map(|cost| cost.of_stored(&input.load))) {
        Some([low, high]) if low > 0.0 => {
            format!("{what}: {}/s ({}/s to {}/s) {from}", rate(seconds), rate(high), rate(low))
        }
        _ => format!("{what}: too few readings for a rate, {from}"),
    }
}

/// What of the whole time is the device's, opening, and hashing so many bytes.
fn shares(choice: &CandidateRow, hashed: u64, threads: usize) -> String {
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
        true => format!("{} too little to be measured", choice.name),
        false if choice.hash > 0.0 && !choice.resolved => {
            format!("{} {}, of too few or too different runs for a rate", choice.name, share(choice.hash))
        }
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
    let (value, unit) = match seconds {
        s if s < 0.000_999_5 => (s * 1e6, "µs"),
        s if s < 0.9995 => (s * 1e3, "ms"),
        s if s < 119.5 => (s, "s"),
        s if s < 7170.0 => (s / 60.0, "min"),
        s if s < 48.0 * 3600.0 => return format!("{:.1} h", s / 3600.0),
        s => return format!("{:.1} days", s / 86_400.0),
    };
    let digits = usize::from(value > 0.0 && value < 9.95);
    format!("{value:.digits$} {unit}")
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
    use super::super::decide::{decide, tests::*};
    use super::*;

    #[test]
    fn what_came_from_memory_says_nothing_of_the_disk() {
        for (from_memory, words) in [
            (
                Some(true),
                "bound by copying from memory more than by hashing; the files are in memory\nreading: ",
            ),
            (None, "from a disk sha256 would cost nothing extra\ndevice: "),
        ] {
            let mut input = input(Purpose::Bitrot, 532e6, &[("sha256", 3.9e9), ("blake3", 6e9)]);
            input.from_memory = from_memory;
            let decision = decide(&input).unwrap();
            let text = sentences(&input, &decision).join("\n");
            assert!(!text.contains("the disk makes") && !text.contains("disk-bound"), "{text}");
            assert!(text.contains(words), "{text}");
            assert_eq!(text.contains("the device works"), from_memory.is_none());
        }
    }

    #[test]
    fn small_files_are_opened_and_large_ones_copied() {
        let mut input = input(Purpose::Bitrot, 1e9, &[("sha256", 1e12)]);
        input.from_memory = Some(true);
        let line = |input: &DecisionInput| sentences(input, &decide(input).unwrap())[1].clone();
        assert!(line(&input).contains("bound by copying from memory"), "{}", line(&input));
        (input.load.small_files, input.load.large_stored) = (1_000_000, 1000);
        input.device.as_mut().unwrap().small_file = 1.0;
        assert!(line(&input).contains("bound by opening files"), "{}", line(&input));
    }

    #[test]
    fn few_runs_give_no_rate() {
        let mut input = input(Purpose::Tamper, 20e9, &[("blake3", 1e9)]);
        assert!(sentences(&input, &decide(&input).unwrap())[3].contains("1.0 GB/s on 2 threads"));
        (input.resolved, input.device_range) = (Vec::new(), None);
        let lines = sentences(&input, &decide(&input).unwrap());
        assert!(lines.iter().all(|line| !line.contains("B/s")), "{lines:?}");
        assert!(lines[2].starts_with("device: too few readings for a rate"), "{}", lines[2]);
    }

    #[test]
    fn files_that_cannot_be_read_come_first() {
        let mut input = input(Purpose::Tamper, 20e9, &[("blake3", 1e9)]);
        (input.lost, input.chosen) = (1999, 2000);
        let lines = sentences(&input, &decide(&input).unwrap());
        assert_eq!(lines[0], "doubtful: 1,999 of 2,000 files that were chosen cannot be read");
    }

    #[test]
    fn figures_are_written_as_people_do() {
        assert_eq!([0.5, 61.0, 2820.0, 9000.0].map(time), ["500 ms", "61 s", "47 min", "2.5 h"]);
        assert_eq!([0.0, 1.24e-3, 6.4e-5, 5.0].map(time), ["0 µs", "1.2 ms", "64 µs", "5.0 s"]);
        assert_eq!([12.0, 1500.0, 1.5e12].map(decimal), ["12 bytes", "1.5 kB", "1.5 TB"]);
        assert_eq!(
            [0, 999, 1000, 88_000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "88,000", "1,234,567"]
        );
    }
}
