//! A line on a terminal that says how far a computation is.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use verisum_blockhash::Progress;

/// How often the line is drawn anew.
const INTERVAL: Duration = Duration::from_millis(100);

const WITH_LENGTH: &str =
    "{percent:>3}% [{wide_bar}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
const WITHOUT_LENGTH: &str = "{binary_bytes}, {binary_bytes_per_sec}, {elapsed}";

/// Does `work`, and draws the progress that it makes on standard error if that is `wanted` and standard
/// error is a terminal. The line is gone when this returns; nothing about the terminal is changed that
/// a signal could leave behind.
pub(crate) fn drawn<T>(wanted: bool, length: Option<u64>, work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    if !wanted || !stderr().is_terminal() {
        return work(&progress);
    }
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let watched = &progress;
        let drawer = move || {
            let bar = bar(length);
            while wait.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                bar.set_position(watched.bytes());
            }
            bar.finish_and_clear();
        };
        // Without a thread there is no line, and the work is done all the same.
        let drawer = thread::Builder::new().spawn_scoped(scope, drawer);
        let result = work(&progress);
        drop(done);
        // A panic of the drawer would otherwise go on here.
        if let Ok(drawer) = drawer {
            let _ = drawer.join();
        }
        result
    })
}

fn bar(length: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(10);
    let (bar, template) = match length {
        Some(_) => (ProgressBar::with_draw_target(length, target), WITH_LENGTH),
        None => (ProgressBar::with_draw_target(None, target), WITHOUT_LENGTH),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in [WITH_LENGTH, WITHOUT_LENGTH] {
            ProgressStyle::with_template(template).unwrap();
        }
    }
}
