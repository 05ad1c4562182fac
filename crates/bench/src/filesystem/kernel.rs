//! Reads from the kernel which of its drivers computes a checksum, and how much time its own threads used.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Volume;
use crate::measure::{MeasureError, Measured};
use crate::system;

/// Who computes a mounted file system's checksums, as `crc32c (crc32c-lib)`.
pub fn driver(volume: &Volume) -> Option<String> {
    let number = volume.number().ok()?;
    let path = format!("/sys/fs/btrfs/{number}/checksum");
    let told = fs::read_to_string(path).ok().map(|text| text.trim().to_string());
    // Before Linux 5.5 only the log tells.
    told.filter(|text| !text.is_empty()).or_else(from_log)
}

/// The last that the kernel's log tells.
fn from_log() -> Option<String> {
    let output = Command::new("dmesg").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    in_log(&String::from_utf8_lossy(&output.stdout))
}

fn in_log(log: &str) -> Option<String> {
    let line =
        log.lines().rev().find(|line| line.contains("BTRFS") && line.contains("checksum algorithm"))?;
    let from = line.find("using ")? + "using ".len();
    let to = line.find(" checksum algorithm")?;
    Some(line.get(from..to)?.to_string())
}

/// Times work, also the part of it that the kernel's own threads do: checksums of what is written and
/// scrubbed are computed there, and count as the time of no process.
pub(super) fn timed(work: impl FnOnce() -> Result<(), MeasureError>) -> Result<Measured, MeasureError> {
    let proc = Path::new("/proc");
    let threads = threads(proc);
    let before = system::own_usage();
    let started = Instant::now();
    work()?;
    let wall = started.elapsed();
    let after = system::own_usage();
    let kernel = used_between(&threads, &self::threads(proc));
    Ok(Measured {
        wall,
        user: after.user.saturating_sub(before.user),
        system: after.system.saturating_sub(before.system) + kernel,
        ..Measured::default()
    })
}

/// The ticks that each of the kernel's threads has used.
fn threads(proc: &Path) -> BTreeMap<u32, u64> {
    let numbers = fs::read_dir(proc).into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ticks = |number: u32| {
        let text = fs::read_to_string(proc.join(number.to_string()).join("stat")).ok()?;
        // The name may hold anything; it ends at the last parenthesis.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let field = |place: usize| fields.get(place)?.parse::<u64>().ok();
        // Their parent is kthreadd.
        (field(1)? == 2).then_some(field(11)? + field(12)?)
    };
    numbers.filter_map(|number| Some((number, ticks(number)?))).collect()
}

fn used_between(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> Duration {
    let used = |(number, ticks): (&u32, &u64)| ticks.saturating_sub(before.get(number).copied().unwrap_or(0));
    let ticks: u64 = after.iter().map(used).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_driver_in_the_log_counts() {
        let log = "[1.0] BTRFS info (device loop0): using crc32c (crc32c-intel) checksum algorithm\n\
                   [2.0] BTRFS info (device loop0): using blake2b (blake2b-256-generic) checksum algorithm\n\
                   [3.0] other: checksum algorithm\n";
        assert_eq!(in_log(log).as_deref(), Some("blake2b (blake2b-256-generic)"));
        assert_eq!(in_log("BTRFS checksum algorithm using "), None);
    }

    #[test]
    fn threads_of_the_kernel_are_counted_and_no_others() {
        let proc = tempfile::tempdir().unwrap();
        let put = |number: u32, parent: u32, ticks: u64| {
            let folder = proc.path().join(number.to_string());
            fs::create_dir_all(&folder).unwrap();
            let line =
                format!("{number} (kworker) 2 x) S {parent} 0 0 0 -1 0 0 0 0 0 1 {ticks} 0 0 20 0 1\n");
            fs::write(folder.join("stat"), line).unwrap();
        };
        put(7, 2, 100);
        put(8, 1, 100);
        let before = threads(proc.path());
        assert_eq!(before, BTreeMap::from([(7, 101)]));
        put(7, 2, 150);
        put(9, 2, 9);
        let seconds = used_between(&before, &threads(proc.path())).as_secs_f64();
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        assert!((seconds - 60.0 * tick).abs() < 1e-9, "{seconds}");
    }
}
