//! Checks the time of a schedule: asks systemd about its calendar events, and checks the form of cron's
//! fields.

use std::process::{Command, Stdio};

use crate::ui::failure::{self, Failure};

/// The event that needs no check.
pub(super) const DEFAULT: &str = "weekly";

/// The program that knows.
const ANALYZE: &str = "systemd-analyze";

/// What each field of cron is called, with its least and its greatest number.
const FIELDS: [(&str, u32, u32); 5] = [
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
];

/// What cron knows by one word. `@reboot` is no rhythm.
const NICKNAMES: [&str; 7] =
    ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"];

/// Fails if systemd takes no such event, or if it never comes. Returns what has to be said if that could
/// not be found out.
pub(super) fn check_calendar(event: &str) -> Result<Option<String>, Failure> {
    let wrong =
        |must: &str| Failure::Value { option: "--on", value: event.to_string(), must: must.to_string() };
    if event.trim().is_empty() || event.contains(|c: char| c.is_control() || c == '%') {
        return Err(wrong("must be a calendar event of systemd"));
    }
    if event == DEFAULT {
        return Ok(None);
    }
    let mut command = Command::new(ANALYZE);
    command.args(["calendar", "--iterations=1", "--", event]).env("LC_ALL", "C").stdin(Stdio::null());
    match command.output() {
        Ok(output) if !output.status.success() => {
            Err(wrong("must be a calendar event of systemd; --cron takes five fields of cron"))
        }
        Ok(output) => {
            let next = String::from_utf8_lossy(&output.stdout);
            let is_never = next.lines().any(|line| line.trim() == "Next elapse: never");
            if is_never { Err(wrong("this never comes, or not any more")) } else { Ok(None) }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Some(format!("not checked: {ANALYZE} is not installed here")))
        }
        Err(error) => Ok(Some(format!("not checked: {ANALYZE}: {}", failure::cause(&error)))),
    }
}

/// Fails unless cron takes these fields: numbers in their range or names, with ranges, lists and steps.
pub(super) fn check_cron(text: &str) -> Result<(), Failure> {
    let wrong = |must: String| Failure::Value { option: "--cron", value: text.to_string(), must };
    if NICKNAMES.contains(&text.trim()) {
        return Ok(());
    }
    let fields: Vec<&str> = text.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
    if fields.len() != FIELDS.len() {
        return Err(wrong(format!("must be five fields of cron, or one of {}", NICKNAMES.join(", "))));
    }
    for (field, (name, first, last)) in fields.iter().zip(FIELDS) {
        if !field.split(',').all(|part| is_part(part, first, last)) {
            return Err(wrong(format!("{field} is no {name} of cron")));
        }
    }
    Ok(())
}

/// Whether this is `*`, a number, a name or a range, with or without a step.
fn is_part(part: &str, first: u32, last: u32) -> bool {
    let (range, step) = part.split_once('/').unwrap_or((part, "1"));
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| digits)
    };
    // Months and days of the week have names of three letters.
    let is_name = |text: &str| {
        let letters = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
        letters && matches!(last, 7 | 12)
    };
    let is_range = match (number(from), number(to)) {
        (Some(from), Some(to)) => first <= from && from <= to && to <= last,
        _ => range == "*" || [from, to].iter().all(|end| is_name(end) || number(end).is_some()),
    };
    is_range && number(step).is_some_and(|step| step > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_cron() {
        for good in [
            "0 4 1 */2 *",
            "*/15 * * * *",
            "30  2\t* * 1-5",
            "0 3 * jan-mar sun",
            "5-59/20 0-6/3 * FEB,aug-OCT fri-sat",
            "0 0 1,15 * 7",
            "@daily",
        ] {
            assert!(check_cron(good).is_ok(), "{good}");
        }
        for bad in [
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "+5 * * * *",
            "sun * * * *",
            ", * * * *",
            "* * * *",
            "",
            "a\nb * * * *",
            "@reboot",
            "Sun 03:00",
        ] {
            assert!(check_cron(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn events_on_one_line_only() {
        for bad in ["", "  ", "a\nb", "50%"] {
            assert!(check_calendar(bad).is_err(), "{bad:?}");
        }
        assert!(matches!(check_calendar(DEFAULT), Ok(None)));
    }
}
