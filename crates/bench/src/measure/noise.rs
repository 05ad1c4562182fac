//! Checks whether the machine was quiet enough for a measurement.

use std::path::Path;

use super::crowded;
use crate::record::Series;
use crate::stats::{mad, median};

/// What the machine did beside us: read once before and once after.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineLoad {
    /// Processes that ran or waited to, on average over the last minute.
    load: Option<f64>,
    /// Ticks of all processors so far: all, and those that a hypervisor gave to others.
    ticks: Option<(u64, u64)>,
}

impl MachineLoad {
    /// Now. `proc` is the folder of the kernel's answers, `/proc`.
    pub fn now(proc: &Path) -> MachineLoad {
        let text = |name: &str| std::fs::read_to_string(proc.join(name)).ok();
        let load = text("loadavg").and_then(|text| text.split(' ').next()?.parse().ok());
        let ticks = text("stat").and_then(|text| {
            let line = text.lines().next()?.strip_prefix("cpu ")?;
            let ticks: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal; the rest is counted among these.
            Some((ticks.iter().take(8).sum(), *ticks.get(7)?))
        });
        MachineLoad { load, ticks }
    }
}

/// Reasons to doubt the times, as sentences; none if the machine seems quiet.
pub fn judge(series: &[Series], before: &MachineLoad, after: &MachineLoad, processors: usize) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(load) = before.load.filter(|&load| load > 0.5 * processors as f64) {
        let plural = if processors == 1 { "" } else { "s" };
        let on = format!("{processors} processor{plural}");
        doubts.push(format!("the load was {load:.2} on {on} before anything was measured"));
    }
    if let (Some(before), Some(after)) = (before.ticks, after.ticks) {
        let (all, stolen) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        let share = stolen as f64 / all.max(1) as f64;
        if share > 0.01 {
            doubts.push(format!("the hypervisor took {:.0}% of the processors' time", share * 100.0));
        }
    }
    doubts.extend(of_cores(series));
    doubts.extend(of_controls(series));
    doubts
}

/// Whether cores were shared with something else.
fn of_cores(series: &[Series]) -> Option<String> {
    let series: Vec<&Series> = series.iter().collect();
    let runs = crowded(&series).concat();
    let shared = runs.iter().filter(|shared| **shared).count() as f64 / runs.len().max(1) as f64;
    (shared > 0.05).then(|| {
        format!(
            "in {:.0}% of the runs in this process something else, perhaps another machine's, used the same core",
            shared * 100.0
        )
    })
}

/// Controls do the same work in every run: what changes in them is the machine. The worst of each kind is
/// named.
fn of_controls(series: &[Series]) -> Vec<String> {
    let controls = || series.iter().filter(|one| one.tells_of_the_machine() && one.wall.len() >= 6);
    let mut drifting: Vec<(f64, &Series)> = Vec::new();
    let mut scattered: Vec<(f64, &Series)> = Vec::new();
    for control in controls() {
        let (early, late) = control.wall.split_at(control.wall.len() / 2);
        let scatter = mad(early).max(mad(late));
        let (early, late) = (median(early), median(late));
        let drift = late / early - 1.0;
        let spread = mad(&control.wall) / median(&control.wall);
        if drift.abs() > 0.05 && (late - early).abs() > 2.0 * scatter {
            drifting.push((drift, control));
        } else if spread > 0.05 {
            scattered.push((spread, control));
        }
    }
    let all = controls().count();
    let worst = |found: &[(f64, &Series)]| -> Option<String> {
        let (much, one) = found.iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
        Some(format!("worst by {:+.0}%: {} ({})", much * 100.0, one.name, one.group))
    };
    let drifting = worst(&drifting).map(|worst| {
        format!(
            "{} of {all} controls drifted by more than 5% during the measurement, {worst}",
            drifting.len()
        )
    });
    let scattered = worst(&scattered).map(|worst| {
        format!("the times of {} of {all} controls scatter by more than 5%, {worst}", scattered.len())
    });
    drifting.into_iter().chain(scattered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{About, Cache, Measured};

    fn control(times: &[f64]) -> Series {
        let mut series = Series::new(&About::new("g", "read memory").bytes(1 << 20).control());
        for (round, &time) in times.iter().enumerate() {
            let wall = std::time::Duration::from_secs_f64(time);
            series.add(round as u32, &Measured { wall, ..Measured::default() }, Cache::None);
        }
        series
    }

    fn machine(load: &str, stat: &str) -> MachineLoad {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("loadavg"), load).unwrap();
        std::fs::write(folder.path().join("stat"), stat).unwrap();
        MachineLoad::now(folder.path())
    }

    #[test]
    fn a_quiet_machine_is_not_doubted() {
        let quiet = machine("0.10 0.2 0.3 1/100 7\n", "cpu  100 0 10 500 0 0 0 0 0 0\ncpu0 1\n");
        let later = machine("2.10 0.2 0.3 1/100 7\n", "cpu  200 0 20 900 0 0 0 1 0 0\ncpu0 1\n");
        let steady = control(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.0]);
        assert_eq!(judge(&[steady], &quiet, &later, 2), [""; 0]);
        assert_eq!(judge(&[], &MachineLoad::default(), &MachineLoad::default(), 2), [""; 0]);
    }

    #[test]
    fn shared_cores_are_told() {
        let of = |shared: usize| {
            let mut series = control(&[1.0; 40]);
            series.crowding = (0..40).map(|run| if run < shared { 4.1 } else { 3.0 }).collect();
            judge(&[series], &MachineLoad::default(), &MachineLoad::default(), 2)
        };
        assert_eq!(of(2), [""; 0]);
        let doubts = of(10);
        assert!(doubts.len() == 1 && doubts[0].starts_with("in 25% of the runs"), "{doubts:?}");
    }

    #[test]
    fn noise_is_told() {
        let busy = machine("1.60 0.2 0.3 1/100 7\n", "cpu  100 0 10 500 0 0 0 0 0 0\n");
        let stolen = machine("1.60 0.2 0.3 1/100 7\n", "cpu  150 0 10 500 0 0 0 50 0 0\n");
        let drifting = control(&[1.0, 1.01, 0.99, 1.0, 1.2, 1.21, 1.19, 1.2]);
        let scattered = control(&[1.0, 2.0, 1.5, 1.1, 1.0, 2.0, 1.4, 1.2]);
        let doubts = judge(&[drifting, scattered], &busy, &stolen, 2);
        assert_eq!(doubts.len(), 4, "{doubts:?}");
        assert!(doubts[1].contains("50%") && doubts[2].contains("+20%") && doubts[3].contains("scatter"));
    }
}
