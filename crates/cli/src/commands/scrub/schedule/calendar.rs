//! Checks a calendar event: whether systemd takes it, by its own word, or as far as can be seen without it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::ui::failure::Failure;

/// The program that knows.
const ANALYZE: &str = "systemd-analyze";

/// The words that stand for a whole event.
const WORDS: [&str; 10] = [
    "minutely",
    "hourly",
    "daily",
    "weekly",
    "monthly",
    "quarterly",
    "semiannually",
    "yearly",
    "annually",
    "biannually",
];

/// Fails if systemd takes no such event, or if it never comes. Returns what has to be said if that could
/// not be found out.
pub(super) fn check(event: &str) -> Result<Option<String>, Failure> {
    let wrong =
        |must: &str| Failure::Value { option: "--on", value: event.to_string(), must: must.to_string() };
    let Some(program) = find() else {
        return match is_plain(event) {
            true => Ok(None),
            false => Ok(Some(format!("not checked: {ANALYZE} is not installed here"))),
        };
    };
    let mut command = Command::new(program);
    command.args(["calendar", "--iterations=1", "--", event]).env("LC_ALL", "C").stdin(Stdio::null());
    match command.output() {
        Ok(output) if !output.status.success() => {
            Err(wrong("must be a calendar event of systemd, or five fields of cron"))
        }
        Ok(output) => {
            let next = String::from_utf8_lossy(&output.stdout);
            let is_never = next.lines().any(|line| line.trim() == "Next elapse: never");
            if is_never { Err(wrong("this never comes, or not any more")) } else { Ok(None) }
        }
        Err(error) => Ok(Some(format!("not checked: {ANALYZE}: {}", crate::ui::failure::cause(&error)))),
    }
}

fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(ANALYZE)).find(|path| path.is_file())
}

/// Whether an event is of the few forms that are known here: a word, or days of the week before a date
/// before a time of day, of which some may lack.
fn is_plain(event: &str) -> bool {
    if WORDS.contains(&event.to_ascii_lowercase().as_str()) {
        return true;
    }
    let mut parts: Vec<&str> = event.split_ascii_whitespace().collect();
    if parts.first().is_some_and(|part| is_weekdays(part)) {
        parts.remove(0);
    }
    let is_of = |part: &str, separator: char, most: &[u32]| {
        let numbers: Vec<&str> = part.split(separator).collect();
        let skipped = most.len().wrapping_sub(numbers.len());
        (2..=most.len()).contains(&numbers.len())
            && numbers.iter().zip(&most[if separator == '-' { skipped } else { 0 }..]).all(
                |(number, most)| {
                    *number == "*"
                        || number.split(',').all(|number| {
                            let digits = number.bytes().all(|byte| byte.is_ascii_digit());
                            digits && number.parse::<u32>().is_ok_and(|number| number <= *most)
                        })
                },
            )
    };
    let is_date = |part: &str| is_of(part, '-', &[9999, 12, 31]);
    let is_time = |part: &str| is_of(part, ':', &[23, 59, 59]);
    match parts[..] {
        [] => !event.is_empty(),
        [one] => is_date(one) || is_time(one),
        [date, time] => is_date(date) && is_time(time),
        _ => false,
    }
}

fn is_weekdays(part: &str) -> bool {
    const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let is_day = |text: &str| {
        let text = text.to_ascii_lowercase();
        NAMES.iter().any(|name| *name == text || name[..3] == text)
    };
    part.split(',').all(|days| match days.split_once("..") {
        Some((from, to)) => is_day(from) && is_day(to),
        None => is_day(days),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_events_are_known_without_systemd() {
        for event in [
            "weekly",
            "Sun 03:00",
            "Mon..Fri *-*-* 02:30:00",
            "*-01,03-01 04:00:00",
            "12-24",
            "Sat",
            "2030-01-01",
            "04:00",
        ] {
            assert!(is_plain(event), "{event}");
        }
        for event in
            ["often", "25:00", "Sun 3", "*-13-01", "Sun Sun 03:00", "03:00 Sun", "*:0/15", "", "*-*~1"]
        {
            assert!(!is_plain(event), "{event}");
        }
    }
}
