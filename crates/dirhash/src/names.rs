//! Names for directories: those of the experiments, and names as people have them.

use std::io::Write;

/// Where names come from. Each number has its name, and no two numbers have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// A pattern with one counter.
    Pattern(Pattern),
    /// Mail in a maildir: `1037654321.M123456P789_0.mail,S=2345`.
    Maildir,
    /// 64 hexadecimal digits, as object stores name things.
    Hex,
    /// Words of several scripts in UTF-8, with a number.
    Utf8,
    /// What cameras write: `IMG_20020622_075301_0001.JPG`.
    Camera,
    /// Given names.
    List(Vec<Vec<u8>>),
}

impl Names {
    /// The corpora with a name of their own.
    pub const CORPORA: [(&'static str, Names); 4] =
        [("maildir", Names::Maildir), ("hex", Names::Hex), ("utf8", Names::Utf8), ("camera", Names::Camera)];

    /// A corpus by its name, or else a pattern.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Names, PatternError> {
        match Names::CORPORA.iter().find(|(name, _)| *name == text) {
            Some((_, corpus)) => Ok(corpus.clone()),
            None => Pattern::parse(text).map(Names::Pattern),
        }
    }

    /// How many there are, if that is bounded.
    pub fn count(&self) -> Option<u64> {
        match self {
            Names::List(names) => Some(names.len() as u64),
            _ => None,
        }
    }

    /// Puts the name of a number into `name`, and returns it.
    ///
    /// # Panics
    /// If there are fewer given names.
    pub fn name<'a>(&'a self, number: u64, name: &'a mut Vec<u8>) -> &'a [u8] {
        name.clear();
        match self {
            Names::Pattern(pattern) => pattern.write(number, name),
            Names::Maildir => {
                let mixed = mix(number);
                let second = 1_024_700_000 + number / 3;
                let (micro, process, size) =
                    (mixed % 1_000_000, 300 + (mixed >> 20) % 32_000, 900 + (mixed >> 40) % 60_000);
                print(name, format_args!("{second}.M{micro:06}P{process}_{number}.mail,S={size}"));
            }
            Names::Hex => {
                for lane in 0..4 {
                    print(name, format_args!("{:016x}", mix(number * 4 + lane)));
                }
            }
            Names::Utf8 => {
                const WORDS: [&str; 8] =
                    ["Überweisung", "発注書", "счёт", "naïveté", "τιμολόγιο", "फ़ाइल", "café", "보고서"];
                let mixed = mix(number) as usize;
                let (first, second) = (WORDS[mixed % 8], WORDS[mixed / 8 % 8]);
                print(name, format_args!("{first} {second} {number}.pdf"));
            }
            Names::Camera => {
                // A picture every 37 seconds: ten hours of a day.
                let second = number * 37 % 36_000;
                let day = number * 37 / 36_000;
                let (year, month, date) = (2002 + day / 336, day / 28 % 12 + 1, day % 28 + 1);
                let (hour, minute) = (8 + second / 3600, second / 60 % 60);
                print(
                    name,
                    format_args!(
                        "IMG_{year:04}{month:02}{date:02}_{hour:02}{minute:02}{:02}_{:04}.JPG",
                        second % 60,
                        number % 10_000
                    ),
                );
            }
            Names::List(names) => return &names[number as usize],
        }
        name
    }
}

/// A well mixed number, another for each.
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn print(name: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    name.write_fmt(arguments).expect("memory can be written");
}

/// A text with one counter in it, as `printf` takes it: `foo%d`, `foo%09ld`, `%x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    before: Vec<u8>,
    after: Vec<u8>,
    width: usize,
    zeros: bool,
    radix: Radix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Radix {
    Decimal,
    Lower,
    Upper,
    Octal,
}

/// Why a text is no pattern of names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Every name would be the same.
    #[error("a pattern needs one counter, such as %d or %09d")]
    NoCounter,
    /// Which of them is counted?
    #[error("a pattern can have one counter only")]
    TwoCounters,
    /// Only counters of whole numbers are known.
    #[error("after % comes d, i, u, x, X or o, with a width, a 0 and an l before it if you like; or %")]
    Unknown,
    /// A name in a directory has neither.
    #[error("a name has no / and no NUL")]
    NotAName,
    /// Longer than a name can be.
    #[error("a name has at most 255 bytes")]
    TooLong,
}

/// Digits of the greatest counter, in octal.
const MOST_DIGITS: usize = 22;
const LONGEST_NAME: usize = 255;

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If there is not one counter, or what would come out is no name.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let mut literal = Vec::new();
        let mut counter = None;
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            rest = tail;
            if *first != b'%' {
                literal.push(*first);
                continue;
            }
            if let [b'%', tail @ ..] = rest {
                literal.push(b'%');
                rest = tail;
                continue;
            }
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (width, tail) = rest.split_at(digits);
            let tail = &tail[tail.iter().take_while(|&&byte| byte == b'l').count()..];
            let (kind, tail) = tail.split_first().ok_or(PatternError::Unknown)?;
            let radix = match kind {
                b'd' | b'i' | b'u' => Radix::Decimal,
                b'x' => Radix::Lower,
                b'X' => Radix::Upper,
                b'o' => Radix::Octal,
                _ => return Err(PatternError::Unknown),
            };
            rest = tail;
            if counter.is_some() {
                return Err(PatternError::TwoCounters);
            }
            let zeros = width.first() == Some(&b'0');
            let width: usize = match std::str::from_utf8(width).expect("digits") {
                "" => 0,
                digits => digits.parse().map_err(|_| PatternError::TooLong)?,
            };
            counter = Some((std::mem::take(&mut literal), width, zeros, radix));
        }
        let (before, width, zeros, radix) = counter.ok_or(PatternError::NoCounter)?;
        let pattern = Pattern { before, after: literal, width, zeros, radix };
        if [&pattern.before, &pattern.after].iter().any(|text| text.contains(&b'/') || text.contains(&0)) {
            return Err(PatternError::NotAName);
        }
        let literal = pattern.before.len() + pattern.after.len();
        match width.max(MOST_DIGITS).saturating_add(literal) <= LONGEST_NAME {
            true => Ok(pattern),
            false => Err(PatternError::TooLong),
        }
    }

    fn write(&self, number: u64, name: &mut Vec<u8>) {
        name.extend_from_slice(&self.before);
        let mut digits = [0u8; MOST_DIGITS];
        let mut first = MOST_DIGITS;
        let (base, letters) = match self.radix {
            Radix::Decimal => (10, b"0123456789abcdef"),
            Radix::Lower => (16, b"0123456789abcdef"),
            Radix::Upper => (16, b"0123456789ABCDEF"),
            Radix::Octal => (8, b"0123456789abcdef"),
        };
        let mut left = number;
        loop {
            first -= 1;
            digits[first] = letters[(left % base) as usize];
            left /= base;
            if left == 0 {
                break;
            }
        }
        let digits = &digits[first..];
        let fill = if self.zeros { b'0' } else { b' ' };
        name.extend(std::iter::repeat_n(fill, self.width.saturating_sub(digits.len())));
        name.extend_from_slice(digits);
        name.extend_from_slice(&self.after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn name(text: &str, number: u64) -> String {
        String::from_utf8(Names::parse(text).unwrap().name(number, &mut Vec::new()).to_vec()).unwrap()
    }

    #[test]
    fn patterns_are_those_of_printf() {
        assert_eq!(name("foo%d", 0), "foo0");
        assert_eq!(name("foo%09ld", 123), "foo000000123");
        assert_eq!(name("%5u.txt", 42), "   42.txt");
        assert_eq!(name("100%%-%X%%", 255), "100%-FF%");
        assert_eq!(name("%o", u64::MAX), "1777777777777777777777");
        for (text, error) in [
            ("foo", PatternError::NoCounter),
            ("%d%d", PatternError::TwoCounters),
            ("%s", PatternError::Unknown),
            ("foo%", PatternError::Unknown),
            ("a/%d", PatternError::NotAName),
            ("%300d", PatternError::TooLong),
            ("%99999999999999999999999d", PatternError::TooLong),
        ] {
            assert_eq!(Names::parse(text), Err(error), "{text}");
        }
        assert_eq!(Names::parse(&format!("{}%d", "x".repeat(250))), Err(PatternError::TooLong));
    }

    #[test]
    fn no_two_numbers_have_the_same_name() {
        for (corpus, names) in Names::CORPORA {
            let mut seen = HashSet::new();
            for number in 0..50_000 {
                let mut name = Vec::new();
                names.name(number, &mut name);
                assert!((1..=255).contains(&name.len()) && !name.contains(&b'/'), "{corpus} {number}");
                assert!(seen.insert(name), "{corpus} {number}");
            }
        }
    }
}
