//! Specifications for mtree(8), as the mtree of FreeBSD and NetBSD and libarchive write them.

use verisum_digest::Output;

use super::columns::decimal;
use super::digest_names;
use super::guess;
use super::listed::{Bad, Claim, Listed};
use super::unvis::unvis;
use crate::{Kind, Timestamp};

/// The longest name, in bytes, be it that of one line or what directories and a name in them make together.
/// Each line of a short specification could otherwise stand for a longer name than the line before.
pub(super) const MAX_NAME: usize = 4095;

/// Names may make this together, and so much for each byte of the specification: in a deep directory a line of two
/// bytes stands for a name of four thousand.
const NAMES: u64 = 1 << 20;
const NAMES_PER_BYTE: u64 = 64;

/// The longest keyword of a digest that nobody here knows: each line after a `/set` repeats it.
const MAX_KEYWORD: usize = 64;

/// Reads entries, and remembers in which directory it is and what `/set` said.
#[derive(Clone, Debug, Default)]
pub(super) struct Mtree {
    /// The directory, each component with a slash after it.
    directory: Vec<u8>,
    /// The lengths of the directories above.
    above: Vec<usize>,
    /// How many directories deeper it is than names can be.
    beyond: u64,
    /// How many bytes were read, and how many the names have that they stand for.
    read: u64,
    named: u64,
    defaults: Listed,
    /// The name of a digest that `/set` has for all files, and nobody here knows.
    unknown: Option<String>,
}

/// Whether a line that stands in no other format looks like one of a specification.
pub(super) fn is_entry(line: &[u8]) -> bool {
    let mut words = words(line);
    match words.next() {
        Some(b"/set" | b"/unset") => true,
        Some(_) => {
            let mut any = false;
            words.all(|word| {
                let keyword = word.split(|byte| *byte == b'=').next().unwrap_or_default();
                let known = KEYWORDS.iter().any(|known| known.as_bytes() == keyword);
                any |= word.contains(&b'=');
                known || is_digest(keyword) || word == b"\\"
            }) && any
        }
        None => false,
    }
}

/// Keywords that are no digests.
static KEYWORDS: &[&str] = &[
    "type",
    "size",
    "time",
    "mode",
    "uid",
    "gid",
    "uname",
    "gname",
    "nlink",
    "link",
    "flags",
    "device",
    "inode",
    "optional",
    "nochange",
    "ignore",
    "tags",
    "contents",
    "resdevice",
];

/// Whether a keyword is that of a digest, be it an unknown one: the CRC of cksum, `tigerdigest`, or one to come.
fn is_digest(keyword: &[u8]) -> bool {
    digest_names::from_keyword(keyword).is_some() || keyword == b"cksum" || keyword.ends_with(b"digest")
}

impl Mtree {
    /// Reads a line, its continuations joined to it; none if it lists nothing.
    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Option<Listed>, Bad> {
        self.read += line.len() as u64;
        let mut words = words(line);
        match words.next() {
            None => Ok(None),
            Some(b"/set") => {
                let mut defaults = std::mem::take(&mut self.defaults);
                let mut unknown = self.unknown.take();
                let result = keywords(&mut defaults, &mut unknown, &mut words);
                (self.defaults, self.unknown) = (defaults, unknown);
                result.map(|()| None)
            }
            Some(b"/unset") => {
                words.for_each(|word| self.unset(word));
                Ok(None)
            }
            Some(b"..") if self.beyond > 0 => {
                self.beyond -= 1;
                Ok(None)
            }
            Some(b"..") => {
                let length = self.above.pop().ok_or(Bad::Malformed)?;
                self.directory.truncate(length);
                Ok(None)
            }
            Some(name) => self.entry(name, words).map(Some),
        }
    }

    fn entry<'a>(&mut self, text: &[u8], mut words: impl Iterator<Item = &'a [u8]>) -> Result<Listed, Bad> {
        let mut listed = self.defaults.clone();
        let mut unknown = self.unknown.clone();
        keywords(&mut listed, &mut unknown, &mut words)?;
        // A known digest beside it is enough.
        if let Some(name) = unknown
            && listed.claims.is_empty()
            && matches!(listed.kind, None | Some(Kind::File))
        {
            return Err(Bad::UnknownDigest(name));
        }
        let name = unvis(text).filter(|name| !name.is_empty()).ok_or(Bad::Malformed)?;
        // A name with a slash begins at the root of the tree, and leads into no directory.
        if name.contains(&b'/') {
            listed.name = Some(name).filter(|name| name.len() <= MAX_NAME).ok_or(Bad::LongName)?;
            return Ok(listed);
        }
        if self.beyond > 0 || self.directory.len() + name.len() > MAX_NAME {
            self.beyond += u64::from(listed.kind == Some(Kind::Directory));
            return Err(Bad::LongName);
        }
        listed.name = [&self.directory[..], &name].concat();
        if listed.kind == Some(Kind::Directory) {
            self.above.push(self.directory.len());
            if name != b"." {
                self.directory.extend_from_slice(&name);
                self.directory.push(b'/');
            }
        }
        self.named += listed.name.len() as u64;
        match self.named > NAMES + NAMES_PER_BYTE * self.read {
            true => Err(Bad::Malformed),
            false => Ok(listed),
        }
    }

    fn unset(&mut self, word: &[u8]) {
        match word {
            b"all" => (self.defaults, self.unknown) = (Listed::default(), None),
            b"type" => self.defaults.kind = None,
            b"size" => self.defaults.size = None,
            b"optional" => self.defaults.optional = false,
            b"time" => self.defaults.modified = None,
            _ => {
                let id = digest_names::from_keyword(word);
                self.defaults.claims.retain(|claim| Some(&*claim.algorithm) != id);
                self.unknown.take_if(|name| name.as_bytes() == word);
            }
        }
    }
}

/// The words of a line, up to a comment.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.take_while(|word| word[0] != b'#')
}

/// Takes what a line says, instead of what the lines before say of the same.
fn keywords<'a>(
    listed: &mut Listed,
    unknown: &mut Option<String>,
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<(), Bad> {
    let mut inherited = std::mem::take(&mut listed.claims);
    let result = words.try_for_each(|word| keyword(listed, unknown, word));
    inherited.retain(|claim| listed.claims.iter().all(|own| own.algorithm != claim.algorithm));
    listed.claims.splice(..0, inherited);
    result
}

fn keyword(listed: &mut Listed, unknown: &mut Option<String>, word: &[u8]) -> Result<(), Bad> {
    let equals = word.iter().position(|byte| *byte == b'=');
    let (keyword, value) = match equals {
        Some(place) => (&word[..place], &word[place + 1..]),
        None => (word, &b""[..]),
    };
    match keyword {
        b"type" => {
            listed.kind = Some(match value {
                b"file" => Kind::File,
                b"dir" => Kind::Directory,
                b"link" => Kind::Link,
                b"block" | b"char" | b"fifo" | b"socket" => Kind::Special,
                _ => return Err(Bad::Malformed),
            })
        }
        b"optional" => listed.optional = true,
        b"size" => listed.size = Some(decimal(value).ok_or(Bad::Malformed)?),
        // Nothing depends on it, and it has been written in several ways.
        b"time" => listed.modified = time(value),
        _ => {
            let Some(id) = digest_names::from_keyword(keyword) else {
                if is_digest(keyword) {
                    if keyword.len() > MAX_KEYWORD {
                        return Err(Bad::Malformed);
                    }
                    unknown.get_or_insert_with(|| String::from_utf8_lossy(keyword).into_owned());
                }
                return Ok(());
            };
            let digest = Output::from_hex(value).filter(|_| guess::digits(id) == Some(value.len()));
            let digest = digest.ok_or_else(|| digest_names::no_value(id))?;
            // A line that says two things of one file says nothing.
            match listed.claims.iter().find(|claim| claim.algorithm == id) {
                Some(claim) if claim.digest != digest => return Err(Bad::Malformed),
                Some(_) => return Ok(()),
                None => {}
            }
            listed.claims.push(Claim { algorithm: id.into(), digest, assumed: false, parts: None });
        }
    }
    Ok(())
}

/// `SECONDS.NANOSECONDS`, the latter a whole number rather than a fraction.
fn time(text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, nanoseconds) = text.split_once('.').unwrap_or((text, "0"));
    let nanoseconds: u32 = nanoseconds.parse().ok().filter(|nanoseconds| *nanoseconds < 1_000_000_000)?;
    Some(Timestamp { seconds: seconds.parse().ok()?, nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

    #[test]
    fn directories_nest_and_defaults_hold() {
        let mut mtree = Mtree::default();
        let mut names = Vec::new();
        for line in [
            "# .",
            "/set type=file size=1",
            ".  type=dir",
            &format!("    a\\sb  md5={MD5} time=5.7"),
            "sub type=dir",
            "x size=2",
            "..",
            "/unset size",
            "y mode=644 # a comment",
            "..",
            "./full/path type=dir",
            "z",
        ] {
            if let Some(listed) = mtree.parse(line.as_bytes()).unwrap() {
                names.push((String::from_utf8(listed.name).unwrap(), listed.size, listed.claims.len()));
            }
        }
        let expected = [
            (".", Some(1), 0),
            ("a b", Some(1), 1),
            ("sub", Some(1), 0),
            ("sub/x", Some(2), 0),
            ("y", None, 0),
            ("./full/path", None, 0),
            ("z", None, 0),
        ];
        assert_eq!(names, expected.map(|(name, size, claims)| (name.to_string(), size, claims)));
        for line in ["..", "a type=what", "a size=x", "\\q size=1"] {
            assert_eq!(mtree.parse(line.as_bytes()), Err(Bad::Malformed), "{line}");
        }
        assert_eq!(mtree.parse(b"a md5=00"), Err(Bad::NoValue { name: "MD5".into(), digits: 32 }));
    }

    #[test]
    fn names_of_nested_directories_have_an_end() {
        let mut mtree = Mtree::default();
        let (step, most) = ("d".repeat(1000), MAX_NAME - 4 * 1001);
        let mut parse = |line: String| Ok(mtree.parse(line.as_bytes())?.map(|listed| listed.name.len()));
        for depth in 0..4 {
            assert_eq!(parse(format!("{step} type=dir")), Ok(Some(depth * 1001 + 1000)));
        }
        assert_eq!(parse(format!("{} size=1", "f".repeat(most))), Ok(Some(MAX_NAME)));
        assert_eq!(parse(format!("{} size=1", "f".repeat(most + 1))), Err(Bad::LongName));
        // What is in a directory that is too deep is so too, and the way back is as long.
        for _ in 0..3 {
            assert_eq!(parse(format!("{step} type=dir")), Err(Bad::LongName));
            assert_eq!(parse("f size=1".to_string()), Err(Bad::LongName));
        }
        for _ in 0..3 {
            assert_eq!(parse("..".to_string()), Ok(None));
        }
        assert_eq!(parse("f size=1".to_string()), Ok(Some(4 * 1001 + 1)));
        assert_eq!(parse("./a/b size=1".to_string()), Ok(Some(5)));
        assert_eq!(parse(format!("a {}digest=1", "x".repeat(MAX_KEYWORD))), Err(Bad::Malformed));
    }

    #[test]
    fn names_of_one_line_have_the_same_end() {
        for start in ["", "./", "a/b/"] {
            for (length, is_sound) in [(MAX_NAME, true), (MAX_NAME + 1, false), (100_000, false)] {
                let name = format!("{start}{}", "f".repeat(length - start.len()));
                let listed = Mtree::default().parse(format!("{name} size=1").as_bytes());
                let expected = if is_sound { Ok(Some(length)) } else { Err(Bad::LongName) };
                assert_eq!(listed.map(|listed| listed.map(|listed| listed.name.len())), expected, "{start}");
            }
        }
    }

    #[test]
    fn a_line_contradicts_others_and_not_itself() {
        let mut mtree = Mtree::default();
        let other = "0".repeat(32);
        let mut digests = |line: String| {
            let claims = mtree.parse(line.as_bytes())?.map(|listed| listed.claims).unwrap_or_default();
            Ok(claims.iter().map(|claim| claim.digest).collect::<Vec<_>>())
        };
        let md5 = Output::from_hex(MD5.as_bytes()).unwrap();
        assert_eq!(digests(format!("a md5={MD5} md5digest={MD5}")), Ok(vec![md5]));
        for line in ["a", "/set"] {
            assert_eq!(digests(format!("{line} md5={other} md5digest={MD5}")), Err(Bad::Malformed));
        }
        assert_eq!(digests(format!("/set md5={other}")), Ok(vec![]));
        assert_eq!(digests(format!("a md5={MD5}")), Ok(vec![md5]));
    }

    #[test]
    fn unknown_digests_are_named() {
        let mut mtree = Mtree::default();
        let unknown = |name: &str| Err(Bad::UnknownDigest(name.to_string()));
        let mut parse = |line: String| mtree.parse(line.as_bytes()).map(|listed| listed.is_some());
        assert_eq!(parse("a type=file size=4 cksum=123".into()), unknown("cksum"));
        assert_eq!(parse("a skein256digest=00".into()), unknown("skein256digest"));
        assert_eq!(parse(format!("a cksum=1 md5={MD5}")), Ok(true));
        assert_eq!(parse("/set tigerdigest=00".into()), Ok(false));
        assert_eq!(parse("a size=4".into()), unknown("tigerdigest"));
        assert_eq!(parse("b type=dir".into()), Ok(true));
        assert_eq!(parse("/unset tigerdigest".into()), Ok(false));
        assert_eq!(parse("a size=4".into()), Ok(true));
        assert!(is_entry(b"a tigerdigest=00"));
    }

    #[test]
    fn specifications_are_told_from_other_lists() {
        assert!(is_entry(b"./a type=file size=1 sha256digest=00"));
        assert!(is_entry(b"/set type=file"));
        assert!(is_entry(b"a size=1 \\"));
        for line in [&b"a"[..], b"", b"MD5 (a) = 00", b"00  type=file x", b"a 00112233", b"a b=c"] {
            assert!(!is_entry(line), "{}", line.escape_ascii());
        }
    }
}
