//! Schedules of scrubs: as systemd says them, or as cron does.

use crate::ui::failure::Failure;

/// When scrubs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rhythm {
    /// A calendar event of systemd.
    Calendar(String),
    /// The five fields of cron.
    Cron(String, Fields),
}

/// The values that each field of cron stands for; all of them for `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: Vec<u32>,
    hours: Vec<u32>,
    days: Vec<u32>,
    months: Vec<u32>,
    /// From 0 for Sunday to 6.
    weekdays: Vec<u32>,
    /// Whether any day of the month will do, and any of the week: if neither will, either will.
    any_day: bool,
    any_weekday: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// What systemd and cron both know by one word.
const WORDS: [&str; 5] = ["hourly", "daily", "weekly", "monthly", "yearly"];

/// What some crons call their fields.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// The most days that each month has.
const DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Rhythm {
    /// Reads a rhythm. What has five fields is cron's if they can be; systemd judges the rest.
    pub(super) fn parse(text: &str) -> Result<Rhythm, Failure> {
        let wrong =
            |must: &str| Failure::Value { option: "--on", value: text.to_string(), must: must.to_string() };
        if text.trim().is_empty() || text.contains(|c: char| c.is_control() || c == '%') {
            return Err(wrong("must be a calendar event of systemd, or five fields of cron"));
        }
        let nickname = text.trim().to_ascii_lowercase();
        let translated = NICKNAMES.iter().find(|(name, _)| *name == nickname).map(|(_, fields)| *fields);
        if translated.is_none() && nickname.starts_with('@') {
            let known: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
            return Err(wrong(&format!("must be a time, or one of {}", known.join(", "))));
        }
        let fields: Vec<&str> = translated.unwrap_or(text).split_ascii_whitespace().collect();
        match Fields::parse(&fields) {
            Some(parsed) if parsed.is_never() => {
                Err(wrong("this never comes: none of its months has such a day"))
            }
            Some(parsed) => Ok(Rhythm::Cron(fields.join(" "), parsed)),
            None if fields.len() == 5 => Err(wrong("its five fields are not those of cron")),
            None => Ok(Rhythm::Calendar(text.trim().to_string())),
        }
    }

    /// The calendar events of a systemd timer.
    pub(super) fn calendar(&self) -> Vec<String> {
        match self {
            Rhythm::Calendar(text) => vec![text.clone()],
            Rhythm::Cron(_, fields) => fields.calendar(),
        }
    }

    /// The beginning of a cron line.
    pub(super) fn cron(&self) -> Result<String, Failure> {
        match self {
            Rhythm::Cron(text, _) => Ok(text.clone()),
            Rhythm::Calendar(text) if WORDS.contains(&text.as_str()) => Ok(format!("@{text}")),
            Rhythm::Calendar(text) => Err(Failure::Value {
                option: "--on",
                value: text.clone(),
                must: format!("must be five fields for --cron, or one of {}", WORDS.join(", ")),
            }),
        }
    }
}

impl Fields {
    fn parse(fields: &[&str]) -> Option<Fields> {
        let &[minutes, hours, days, months, weekdays] = fields else { return None };
        let mut parsed = Fields {
            minutes: values(minutes, 0, 59, &[])?,
            hours: values(hours, 0, 23, &[])?,
            days: values(days, 1, 31, &[])?,
            months: values(months, 1, 12, &MONTHS)?,
            weekdays: values(weekdays, 0, 7, &WEEKDAYS)?,
            any_day: days.starts_with('*'),
            any_weekday: weekdays.starts_with('*'),
        };
        // 7 is Sunday too.
        parsed.weekdays.iter_mut().for_each(|day| *day %= 7);
        parsed.weekdays.sort_unstable();
        parsed.weekdays.dedup();
        Some(parsed)
    }

    /// Whether there is no such day. With days of the week beside those of the month either will do.
    fn is_never(&self) -> bool {
        let is_possible = |month: &u32| self.days.first() <= Some(&DAYS[*month as usize - 1]);
        (self.any_weekday || self.any_day) && !self.months.iter().any(is_possible)
    }

    fn calendar(&self) -> Vec<String> {
        let time = format!("{}:{}:00", list(&self.hours, 24), list(&self.minutes, 60));
        let months = list(&self.months, 12);
        let days = list(&self.days, 31);
        let names: Vec<&str> = self.weekdays.iter().map(|day| WEEKDAYS[*day as usize]).collect();
        let on_weekdays = format!("{} *-{months}-* {time}", names.join(","));
        let on_days = format!("*-{months}-{days} {time}");
        match (self.any_day, self.any_weekday) {
            // With a step on either, cron wants both.
            (true, true) | (true, false) | (false, true) => {
                let all_weekdays = self.weekdays.len() == 7;
                let weekdays = if all_weekdays { String::new() } else { format!("{} ", names.join(",")) };
                vec![format!("{weekdays}{on_days}")]
            }
            (false, false) => vec![on_days, on_weekdays],
        }
    }
}

/// The values of one field: `*`, numbers, ranges and names, with steps, between commas.
fn values(field: &str, first: u32, last: u32, names: &[&str]) -> Option<Vec<u32>> {
    let number = |text: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(at) => Some(at as u32 + first),
            None if text.starts_with('+') => None,
            None => text.parse().ok(),
        };
        number.filter(|number| (first..=last).contains(number))
    };
    let mut found = Vec::new();
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (first, if last == 7 { 6 } else { last }),
            Some((from, to)) => (number(from)?, number(to)?),
            None if part.contains('/') => (number(range)?, last),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return None;
        }
        found.extend((from..=to).step_by(step));
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// Numbers as systemd lists them.
fn list(numbers: &[u32], all: usize) -> String {
    if numbers.len() == all {
        return "*".to_string();
    }
    numbers.iter().map(|number| format!("{number:02}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(text: &str) -> Vec<String> {
        Rhythm::parse(text).unwrap().calendar()
    }

    #[test]
    fn cron_becomes_a_calendar_event() {
        assert_eq!(calendar("0 4 1 */2 *"), ["*-01,03,05,07,09,11-01 04:00:00"]);
        assert_eq!(calendar("*/15 * * * *"), ["*-*-* *:00,15,30,45:00"]);
        assert_eq!(calendar("30 2 * * 1-5"), ["Mon,Tue,Wed,Thu,Fri *-*-* 02:30:00"]);
        assert_eq!(calendar("0 0 1,15 * 7"), ["*-*-01,15 00:00:00", "Sun *-*-* 00:00:00"]);
        assert_eq!(calendar("0 3 * jan-mar sun"), ["Sun *-01,02,03-* 03:00:00"]);
        assert_eq!(calendar("0 4 29 2 *"), ["*-02-29 04:00:00"]);
        assert_eq!(calendar("0 4 31 2 mon"), ["*-02-31 04:00:00", "Mon *-02-* 04:00:00"]);
        assert_eq!(calendar("@Daily"), ["*-*-* 00:00:00"]);
        assert_eq!(calendar("@weekly"), ["Sun *-*-* 00:00:00"]);
        assert_eq!(
            calendar("5-59/20 0-6/3 * FEB,aug-OCT fri-sat"),
            ["Fri,Sat *-02,08,09,10-* 00,03,06:05,25,45:00"]
        );
        assert_eq!(calendar("weekly"), ["weekly"]);
        assert_eq!(calendar("Sun 03:00"), ["Sun 03:00"]);
    }

    #[test]
    fn bad_fields_are_refused() {
        for bad in
            ["60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *"]
        {
            assert!(Rhythm::parse(bad).is_err(), "{bad}");
        }
        for never in ["0 4 31 2 *", "0 4 30,31 2 *", "0 0 31 4,6,9,11 *"] {
            let message = Rhythm::parse(never).unwrap_err().message();
            assert!(message.contains("never comes"), "{message}");
        }
        for bad in ["", "  ", "a\nb", "50%", "@reboot", "@often"] {
            assert!(Rhythm::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cron_lines_begin_with_what_cron_knows() {
        assert_eq!(Rhythm::parse("0  4 1 */2 *").unwrap().cron().unwrap(), "0 4 1 */2 *");
        assert_eq!(Rhythm::parse("daily").unwrap().cron().unwrap(), "@daily");
        assert!(Rhythm::parse("Sun 03:00").unwrap().cron().is_err());
    }
}
