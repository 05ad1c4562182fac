//! The text of a progress line: a share, a bar, amounts, a rate and the time that is left, as far as there is room.

use std::time::Duration;

use crate::ui::sizes::human;

/// The widest bar; a wider terminal has room left.
const WIDEST_BAR: usize = 40;

/// What a line that tells several files apart begins with: the name, or the end of a long one, within a
/// third of the width.
pub(super) fn head(name: &str, width: usize) -> String {
    let room = (width / 3).saturating_sub(2);
    if name.is_empty() || room < 4 {
        return String::new();
    }
    format!("{}: ", end_of(name, room))
}

/// A name, or the end of one that is too long.
fn end_of(name: &str, room: usize) -> String {
    if columns(name) <= room {
        return name.to_string();
    }
    let mut end = name;
    while columns(end) + 3 > room && !end.is_empty() {
        let mut characters = end.chars();
        characters.next();
        end = characters.as_str();
    }
    format!("...{end}")
}

/// The most columns that a text may take: what is not ASCII may be two wide.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum()
}

/// The shortest room for the name of a file.
const LEAST_NAME: usize = 8;

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Bytes,
    Files,
}

impl Unit {
    fn amount(self, count: u64) -> String {
        match self {
            Unit::Bytes => human(count),
            Unit::Files => count.to_string(),
        }
    }

    /// What stands behind an amount of a whole.
    fn noun(self) -> &'static str {
        match self {
            Unit::Bytes => "",
            Unit::Files => " files",
        }
    }
}

/// The line, shorter than the terminal is wide; with a bar, or the name of a file in its place.
pub(super) fn line(bytes: u64, length: Option<u64>, time: Duration, width: usize, name: &str) -> String {
    line_in(Unit::Bytes, bytes, length, None, time, width, name)
}

pub(super) fn line_in(
    unit: Unit,
    done: u64,
    length: Option<u64>,
    left: Option<u64>,
    time: Duration,
    width: usize,
    name: &str,
) -> String {
    let (start, rests) = words(unit, done, length, left, time);
    let fits = |rest: &&String| start.len() + rest.len() < width;
    let rest = rests.iter().find(fits).or(rests.last()).map_or("", String::as_str);
    let text = format!("{start}{rest}");
    let room = width.saturating_sub(text.len() + 3);
    // The brackets, and a space.
    let bar = room.min(WIDEST_BAR + 1).saturating_sub(1);
    let text = match length {
        _ if room >= LEAST_NAME && !name.is_empty() && width < usize::MAX => {
            format!("{text}  {}", end_of(name, room))
        }
        Some(length) if bar >= 5 && name.is_empty() => {
            let part = (done as f64 / length.max(1) as f64 * bar as f64) as usize;
            format!("{} [{:<bar$}]  {rest}", start.trim_end(), "=".repeat(part))
        }
        _ => text,
    };
    text.chars().take(width.saturating_sub(1)).collect()
}

/// The share that is done, and what stands behind it: all, or less of it where there is no room; what is left comes
/// first to whoever waits.
pub(super) fn words(
    unit: Unit,
    done: u64,
    length: Option<u64>,
    left: Option<u64>,
    time: Duration,
) -> (String, Vec<String>) {
    let rate = done as f64 / time.as_secs_f64().max(0.001);
    let rate_text = format!("{}/s", unit.amount(rate as u64));
    let Some(length) = length else {
        return (
            String::new(),
            vec![format!("{}  {rate_text}  {}", unit.amount(done), clock(time.as_secs()))],
        );
    };
    let left = match left {
        None if rate > 0.0 => Some((length.saturating_sub(done) as f64 / rate) as u64),
        left => left,
    };
    let left = format!("{} left", left.map_or("-:--".to_string(), clock));
    let part = done as f64 / length.max(1) as f64;
    let amount = format!("{} of {}{}", unit.amount(done), unit.amount(length), unit.noun());
    let rests = vec![format!("{amount}  {rate_text}  {left}"), format!("{amount}  {left}"), left];
    (format!("{:>3}%  ", (part * 100.0) as u64), rests)
}

/// Seconds as hours, minutes and seconds.
pub(crate) fn clock(seconds: u64) -> String {
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_line_has_what_is_known() {
        let half = line(512 << 20, Some(1 << 30), SECOND, 80, "");
        assert_eq!(half, " 50% [================                ]  512 MiB of 1 GiB  512 MiB/s  0:01 left");
        assert_eq!(line(3 << 20, None, 3 * SECOND, 80, ""), "3 MiB  1 MiB/s  0:03");
        assert!(line(1 << 30, Some(1 << 30), SECOND, 80, "").starts_with("100% [="));
        assert!(line(0, Some(1 << 30), Duration::ZERO, 80, "").ends_with("-:-- left"));
        assert!(line(0, Some(0), Duration::ZERO, 80, "").starts_with("  0%"));
    }

    #[test]
    fn the_file_that_is_read_is_named_where_there_is_room() {
        let shown = |width| line(512 << 20, Some(1 << 30), SECOND, width, "a-very-long-name-of-a-disk.img");
        assert_eq!(
            shown(100),
            " 50%  512 MiB of 1 GiB  512 MiB/s  0:01 left  a-very-long-name-of-a-disk.img"
        );
        assert_eq!(shown(60), " 50%  512 MiB of 1 GiB  512 MiB/s  0:01 left  ...a-disk.img");
        assert_eq!(shown(50), " 50%  512 MiB of 1 GiB  512 MiB/s  0:01 left");
    }

    #[test]
    fn the_line_is_shorter_than_the_terminal() {
        for width in 1..200 {
            for bytes in [0, 1, 1 << 20, (1 << 40) + 12345] {
                let line = line(bytes, Some((1 << 40) + 12345), SECOND, width, "");
                assert!(line.chars().count() < width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn names_leave_room_for_the_rest() {
        assert_eq!(head("disk.img", 80), "disk.img: ");
        assert_eq!(head("", 80), "");
        assert_eq!(head("disk.img", 10), "");
        assert_eq!(head("a-very-long-name-of-a-disk.img", 60), "...e-of-a-disk.img: ");
        for width in 0..200 {
            for name in ["disk.img", "a-very-long-name-of-a-disk.img", "größer, 磁盘映像，第二个磁盘映像.img"]
            {
                let head = head(name, width);
                assert!(columns(&head) <= width / 3, "{width}: {head}");
            }
        }
    }

    #[test]
    fn clocks_have_hours_when_needed() {
        assert_eq!((clock(0), clock(75)), ("0:00".to_string(), "1:15".to_string()));
        assert_eq!(clock(3 * 3600 + 62), "3:01:02");
    }
}
