//! Reads manifests: detects the format, then parses line by line.

use std::borrow::Cow;
use std::io::{self, BufReader, Cursor, Read};

use verisum_digest::Output;

use super::b3sum;
use super::chkbit::is_chkbit;
use super::columns::{self, HASHDEEP, Hashdeep};
use super::coreutils::{self, Accept, BlockHashes};
use super::guess::{self, DigestGuess};
use super::lines::{LineReader, NextLine};
use super::listed::{Bad, Claim, Line, Listed};
use super::mtree::{self, Mtree};
use super::rhash::Comments;
use super::s3::{HEADER, S3};
use super::{ListFormat, MAX_LINE, digest_names, escape, json};
use crate::Misjudged;

/// How much is looked at to find out what a manifest is.
const HEAD: usize = 64 << 10;

/// Whose lines are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Those of every format; the manifest tells which.
    #[default]
    Any,
    /// Exactly those that the program of the coreutils for the digest of [`ListOptions::algorithm`] takes:
    /// `HEX  NAME` and `TAG (NAME) = HEX`. Without a digest, those of `cksum -c`: with any tag.
    Coreutils,
    /// Those of `xxhsum -c`.
    Xxhsum {
        /// Whether bare numbers begin with their lowest byte.
        little_endian: bool,
    },
    /// Those of `b3sum -c`.
    B3sum,
    /// The `manifest-ALG.txt` of a bag.
    Bag,
}

/// What is known of a manifest before it is read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListOptions {
    /// The digest of bare numbers; its id or `openssl:NAME`.
    pub algorithm: Option<Cow<'static, str>>,
    /// Whose lines are taken.
    pub dialect: Dialect,
    /// Whether lines end with NUL.
    pub zero: bool,
    /// The manifest's file name, which may tell the digest.
    pub name: Vec<u8>,
    /// Which lines are those of block hashes, for who can compute these.
    pub block_hashes: BlockHashes,
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is text in UTF-16, as PowerShell's `>` writes it.
    #[error("this is UTF-16 text, which is not read (save it as UTF-8)")]
    Utf16,
    /// It is a SQLite database, as bitrot keeps it.
    #[error("this is a SQLite database and no manifest")]
    Database,
    /// It is the index of chkbit.
    #[error("this is an index of chkbit and no manifest")]
    Chkbit,
    /// It is the manifest of a bag, whose name has a digest that nobody here knows.
    #[error("unknown digest: {0}")]
    UnknownDigest(String),
    /// Its numbers are not what whoever records them takes them for.
    #[error(transparent)]
    Misjudged(#[from] Misjudged),
}

/// Reads a manifest, in memory that does not depend on its length.
pub struct Reader<R> {
    lines: LineReader<BufReader<io::Chain<Cursor<Vec<u8>>, R>>>,
    grammar: Grammar,
    /// Lines end with LF, before which a CR is no part of the line.
    text: bool,
    comments: Comments,
    skipped: Skipped,
}

/// How many names of unknown digests are told.
const TOLD: usize = 5;

/// What of a manifest says nothing of files to whoever reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Lines that were skipped as comments.
    pub comments: u64,
    /// Those among them that look like lines of files: their names may begin with `#` or `;`.
    pub doubtful: u64,
    /// Lines whose digest nobody here knows.
    pub unknown_digests: u64,
    /// The names of the first unknown digests.
    unknown: Vec<String>,
}

impl Skipped {
    /// Takes note of a line with an unknown digest.
    fn unknown(&mut self, name: &str) {
        self.unknown_digests += 1;
        if self.unknown.len() < TOLD && !self.unknown.iter().any(|known| known == name) {
            self.unknown.push(name.to_string());
        }
    }

    /// What to tell of comments that look like lines of files.
    pub fn doubt(&self) -> Option<String> {
        match self.doubtful {
            0 => None,
            1 => Some("1 skipped comment looks like the line of a file".to_string()),
            several => Some(format!("{several} skipped comments look like lines of files")),
        }
    }

    /// What to tell of lines with unknown digests.
    pub fn without_digest(&self) -> Option<String> {
        let lines = match self.unknown_digests {
            0 => return None,
            1 => "1 line has".to_string(),
            several => format!("{several} lines have"),
        };
        Some(format!("{lines} an unknown digest: {}", self.unknown.join(", ")))
    }
}

enum Grammar {
    Coreutils(coreutils::CoreutilsLines),
    B3sum,
    /// Each line is of the coreutils, or of SFV.
    Either(coreutils::CoreutilsLines, DigestGuess),
    /// The other way round: `#` begins no comment if it may begin the name of a line of SFV.
    Sfv(coreutils::CoreutilsLines, DigestGuess),
    Hashdeep(Option<Hashdeep>),
    Mtree(Mtree),
    S3(Option<S3>),
    Bag(DigestGuess),
    /// Of files, and if so said also of block hashes.
    Json(BlockHashes),
}

impl<R: Read> Reader<R> {
    /// Looks at the beginning of a manifest to find out what it is.
    pub fn new(mut input: R, options: &ListOptions) -> Result<Reader<R>, ReadError> {
        let mut guess = DigestGuess::new(options.algorithm.clone(), &options.name);
        if options.dialect == Dialect::Coreutils {
            let accept = match &options.algorithm {
                Some(id) => Accept::Only {
                    id: id.clone(),
                    tag: digest_names::tag(id),
                    digits: guess::digits(id).unwrap_or_default(),
                },
                None => Accept::Tagged,
            };
            let grammar = Grammar::Coreutils(coreutils::CoreutilsLines::new(accept, options.zero));
            return Ok(Reader::with(Vec::new(), input, grammar, options.zero));
        }
        if let Dialect::Xxhsum { little_endian } = options.dialect {
            let lines = coreutils::CoreutilsLines::new(Accept::Xxhsum { little_endian }, false);
            return Ok(Reader::with(Vec::new(), input, Grammar::Coreutils(lines), false));
        }
        if options.dialect == Dialect::B3sum {
            return Ok(Reader { text: false, ..Reader::with(Vec::new(), input, Grammar::B3sum, false) });
        }
        let mut head = Vec::new();
        read_head(&mut input, &mut head)?;
        if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") || is_utf16(&head) {
            return Err(ReadError::Utf16);
        }
        if head.starts_with(b"SQLite format 3\0") {
            return Err(ReadError::Database);
        }
        if head.starts_with(b"\xef\xbb\xbf") {
            head.drain(..3);
        }
        if options.dialect == Dialect::Bag && guess.told.is_none() {
            let id = guess::of_bag(&options.name).map_err(ReadError::UnknownDigest)?;
            guess = DigestGuess::new(Some(id), b"");
        }
        let zero = options.zero || ends_lines_with_nul(&head, &guess);
        let lines = coreutils::CoreutilsLines::new(Accept::Any(guess.clone()), zero)
            .with_block_hashes(options.block_hashes.clone());
        let grammar = match options.dialect {
            Dialect::Bag => Grammar::Bag(guess),
            _ if zero => Grammar::Coreutils(lines),
            _ if options.name.to_ascii_lowercase().ends_with(b".sfv") => Grammar::Sfv(lines, guess),
            _ => match detect_format(&head) {
                DetectedFormat::Hashdeep => Grammar::Hashdeep(None),
                DetectedFormat::Mtree => Grammar::Mtree(Mtree::default()),
                DetectedFormat::S3 => Grammar::S3(None),
                DetectedFormat::Json => Grammar::Json(options.block_hashes.clone()),
                DetectedFormat::Chkbit => return Err(ReadError::Chkbit),
                DetectedFormat::Sfv => Grammar::Sfv(lines, guess),
                DetectedFormat::Lines => Grammar::Either(lines, guess),
            },
        };
        Ok(Reader::with(head, input, grammar, zero))
    }

    fn with(head: Vec<u8>, input: R, grammar: Grammar, zero: bool) -> Reader<R> {
        let input = BufReader::with_capacity(HEAD, Cursor::new(head).chain(input));
        let end = if zero { 0 } else { b'\n' };
        Reader {
            lines: LineReader::new(input, end),
            grammar,
            text: !zero,
            comments: Comments::default(),
            skipped: Skipped::default(),
        }
    }

    /// The format that it is in; none if that is to be seen from line to line.
    pub fn format(&self) -> Option<ListFormat> {
        match &self.grammar {
            Grammar::Coreutils(_) | Grammar::B3sum | Grammar::Either(..) => None,
            Grammar::Sfv(..) => Some(ListFormat::Sfv),
            Grammar::Hashdeep(_) => Some(ListFormat::Hashdeep),
            Grammar::Mtree(_) => Some(ListFormat::Mtree),
            Grammar::S3(_) => Some(ListFormat::S3),
            Grammar::Bag(_) => Some(ListFormat::Bagit),
            Grammar::Json(_) => Some(ListFormat::Json),
        }
    }

    /// Whether a line is about standard input: in lists of the coreutils that is `-`.
    pub fn names_stdin(&self, listed: &Listed) -> bool {
        listed.name == b"-" && matches!(self.format(), None | Some(ListFormat::Json))
    }

    /// The number of the last line that was read, from 1.
    pub fn number(&self) -> u64 {
        self.lines.number()
    }

    /// What was skipped until now.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// The next line that lists a file or cannot be understood; none at the end. Comments and empty
    /// lines are skipped.
    pub fn line(&mut self) -> Result<Option<Line>, ReadError> {
        loop {
            let line = match self.lines.next()? {
                NextLine::End => return Ok(None),
                NextLine::TooLong => return Ok(Some(Line::Bad(Bad::TooLong))),
                NextLine::Line => self.lines.line(),
            };
            let line = match self.text {
                true => line.strip_suffix(b"\r").unwrap_or(line),
                false => line,
            };
            if let Some(comment) = comment(&self.grammar, line, &self.comments) {
                self.skipped.comments += u64::from(comment != Comment::Empty);
                self.skipped.doubtful += u64::from(comment == Comment::Doubtful);
                self.comments.look(line);
                continue;
            }
            let result = match &mut self.grammar {
                Grammar::Coreutils(lines) => lines.parse(line).map(Some),
                Grammar::B3sum => b3sum::parse(line)?.map(Some),
                Grammar::Either(lines, guess) => match lines.parse(line) {
                    Err(Bad::UnknownDigest(name)) if name == coreutils::SUM => Err(Bad::UnknownDigest(name)),
                    Err(bad) => match columns::sfv(line, guess, &self.comments) {
                        Ok(listed) if !is_sfv(&listed) => Err(bad),
                        listed => listed.map(Some).map_err(|_| bad),
                    },
                    listed => listed.map(Some),
                },
                Grammar::Sfv(lines, guess) => {
                    columns::sfv(line, guess, &self.comments).or_else(|_| lines.parse(line)).map(Some)
                }
                Grammar::Hashdeep(rows) => hashdeep(rows, line),
                Grammar::S3(Some(rows)) => rows.parse(line).map(Some),
                Grammar::S3(rows) => {
                    *rows = S3::from_header(line);
                    if rows.is_some() { Ok(None) } else { Err(Bad::Malformed) }
                }
                Grammar::Bag(guess) => bag(line, guess).map(Some).map_err(|_| Bad::Damaged),
                Grammar::Json(hashes) => json::parse(line)
                    .or_else(|bad| match bad {
                        Bad::Malformed if *hashes != BlockHashes::Unknown => json::image(line),
                        bad => Err(bad),
                    })
                    .map(Some)
                    .or_else(|bad| if json::is_costs(line) { Ok(None) } else { Err(bad) }),
                Grammar::Mtree(mtree) if !line.ends_with(b"\\") => mtree.parse(line),
                Grammar::Mtree(_) => {
                    let whole = self.joined()?;
                    let Grammar::Mtree(mtree) = &mut self.grammar else { continue };
                    whole.map_or(Err(Bad::TooLong), |whole| mtree.parse(&whole))
                }
            };
            match result {
                Ok(None) => {}
                Ok(Some(listed)) => return Ok(Some(Line::File(listed))),
                Err(bad) => {
                    if let Bad::UnknownDigest(name) = &bad {
                        self.skipped.unknown(name);
                    }
                    return Ok(Some(Line::Bad(bad)));
                }
            }
        }
    }

    /// Joins a line of mtree that ends with a backslash to those after it; none if that is too long.
    fn joined(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        let mut whole = self.lines.line().to_vec();
        let mut too_long = false;
        loop {
            if whole.ends_with(b"\r") {
                whole.pop();
            }
            if !whole.ends_with(b"\\") {
                return Ok((!too_long).then_some(whole));
            }
            whole.pop();
            match self.lines.next()? {
                NextLine::End => return Ok((!too_long).then_some(whole)),
                NextLine::TooLong => too_long = true,
                NextLine::Line if too_long || whole.len() + self.lines.line().len() > MAX_LINE => {
                    too_long = true;
                    // Only how it ends matters: whether it goes on.
                    let line = self.lines.line();
                    whole = line[line.len().saturating_sub(2)..].to_vec();
                }
                NextLine::Line => {
                    whole.push(b' ');
                    whole.extend_from_slice(self.lines.line());
                }
            }
        }
    }
}

/// Whether lines end with NUL. Most pieces between NULs are lines then. A name may have newlines, so only a whole line of
/// text behind one shows that the NUL is damage; so do two NULs, as no name is empty.
fn ends_lines_with_nul(head: &[u8], guess: &DigestGuess) -> bool {
    let mut lines = coreutils::CoreutilsLines::new(Accept::Any(guess.clone()), false);
    let mut is_line = |piece: &[u8]| {
        !piece.contains(&0) && matches!(lines.parse(piece), Ok(_) | Err(Bad::UnknownDigest(_)))
    };
    let Some(last) = head.iter().rposition(|byte| *byte == 0) else { return false };
    let (are, are_not): (Vec<_>, Vec<_>) = head[..last]
        .split(|byte| *byte == 0)
        .filter(|piece| !is_idle(piece))
        .partition(|piece| is_line(piece));
    are.len() > are_not.len()
        && !head.windows(2).any(|pair| pair == [0, 0])
        && !head.split(|byte| *byte == b'\n').skip(1).any(&mut is_line)
}

/// Why a line is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comment {
    Empty,
    Plain,
    /// It looks like the line of a file.
    Doubtful,
}

/// Whether a line is skipped, and as what. In SFV `;` begins a comment and `#` may begin a name.
fn comment(grammar: &Grammar, line: &[u8], comments: &Comments) -> Option<Comment> {
    let doubt = |is_doubtful| if is_doubtful { Comment::Doubtful } else { Comment::Plain };
    // It may be indented, as the entries of a directory are.
    let line = if matches!(grammar, Grammar::Mtree(_)) { line.trim_ascii_start() } else { line };
    match (line, grammar) {
        (_, Grammar::B3sum) => None,
        ([], _) => Some(Comment::Empty),
        ([b'#', ..], Grammar::Sfv(_, guess)) if is_of_sfv(line, guess, comments) => None,
        ([b'#', rest @ ..], _) | ([b';', rest @ ..], Grammar::Sfv(..) | Grammar::Either(..)) => {
            Some(doubt(names_a_file(grammar, line, rest, comments)))
        }
        _ => None,
    }
}

/// Whether a comment looks like the line of a file, be `#` the beginning of its name or what `rest` was made a comment
/// with.
fn names_a_file(grammar: &Grammar, line: &[u8], rest: &[u8], comments: &Comments) -> bool {
    // Eight digits in front are rather a date.
    let is_of_coreutils = |lines: &coreutils::CoreutilsLines| {
        let listed = lines.clone().parse(rest);
        listed.is_ok_and(|listed| listed.claims.iter().all(|claim| claim.digest.as_bytes().len() > 4))
    };
    match grammar {
        Grammar::Coreutils(lines) => is_of_coreutils(lines),
        Grammar::Either(lines, guess) | Grammar::Sfv(lines, guess) => {
            // Words behind a blank are rather of a comment, of RHash for one.
            let is_name = line[0] == b'#' || rest.first().is_some_and(|next| !coreutils::is_blank(*next));
            is_name && is_of_sfv(line, guess, comments) || is_of_coreutils(lines)
        }
        Grammar::Mtree(_) => mtree::is_entry(rest),
        Grammar::Hashdeep(rows) => rows.as_ref().is_some_and(|rows| rows.parse(rest).is_ok()),
        Grammar::S3(rows) => rows.as_ref().is_some_and(|rows| rows.parse(line).is_ok()),
        Grammar::Bag(guess) => bag(rest, guess).is_ok(),
        Grammar::Json(_) => json::parse(rest).is_ok(),
        Grammar::B3sum => false,
    }
}

/// Whether a line is one of SFV.
fn is_of_sfv(line: &[u8], guess: &DigestGuess, comments: &Comments) -> bool {
    columns::sfv(line, guess, comments).is_ok_and(|listed| is_sfv(&listed))
}

/// Whether a line among those of the coreutils is one of SFV, rather than a tagged one that is not right.
fn is_sfv(listed: &Listed) -> bool {
    match &listed.claims[..] {
        [claim] => claim.digest.as_bytes().len() == 4 && !listed.name.ends_with(b"="),
        _ => true,
    }
}

fn hashdeep(rows: &mut Option<Hashdeep>, line: &[u8]) -> Result<Option<Listed>, Bad> {
    if line.starts_with(b"%%%%") {
        if let Some(found) = Hashdeep::from_header(line) {
            *rows = Some(found);
        }
        return Ok(None);
    }
    match rows {
        Some(rows) => rows.parse(line).map(Some),
        None => Err(Bad::Malformed),
    }
}

/// `HEX  NAME` with any number of blanks, of which a `*` may be the last.
fn bag(line: &[u8], guess: &DigestGuess) -> Result<Listed, Bad> {
    let length = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (hex, rest) = line.split_at(length);
    let digest = Output::from_hex(hex).ok_or(Bad::Malformed)?;
    let (algorithm, assumed) = guess.of(length).ok_or(Bad::Malformed)?;
    let blanks = rest.iter().take_while(|byte| coreutils::is_blank(**byte)).count();
    let raw = rest[blanks..].strip_prefix(b"*").unwrap_or(&rest[blanks..]);
    if blanks == 0 || raw.is_empty() || raw.contains(&0) {
        return Err(Bad::Malformed);
    }
    let name = escape::without_percents(raw);
    let otherwise = (name != raw).then(|| raw.to_vec());
    Ok(Listed {
        name,
        otherwise,
        claims: vec![Claim { algorithm, digest, assumed, parts: None }],
        ..Listed::default()
    })
}

/// Reads until there is a line to look at.
fn read_head(input: &mut impl Read, head: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = vec![0; 8 << 10];
    while head.len() < HEAD && !has_line(head) {
        match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => head.extend_from_slice(&chunk[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Whether there is a whole line that says something.
fn has_line(head: &[u8]) -> bool {
    let mut lines: Vec<&[u8]> = head.split(|byte| matches!(byte, b'\n' | 0)).collect();
    lines.pop();
    lines.iter().any(|line| !is_idle(line)) || head.starts_with(b"#mtree\n")
}

fn is_idle(line: &[u8]) -> bool {
    line.trim_ascii().is_empty() || matches!(line[0], b'#' | b';')
}

/// Text of ASCII characters in two bytes each.
fn is_utf16(head: &[u8]) -> bool {
    let pairs = head.chunks_exact(2).take(8);
    let is_text = head.iter().take(16).any(|byte| *byte != 0);
    head.len() >= 8
        && is_text
        && (pairs.clone().all(|pair| pair[0] == 0) || pairs.clone().all(|pair| pair[1] == 0))
}

enum DetectedFormat {
    Hashdeep,
    Mtree,
    S3,
    Json,
    Chkbit,
    Sfv,
    Lines,
}

fn detect_format(head: &[u8]) -> DetectedFormat {
    let lines = || head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines().next().unwrap_or_default();
    if first.starts_with(HASHDEEP) {
        return DetectedFormat::Hashdeep;
    }
    if first.starts_with(HEADER) {
        return DetectedFormat::S3;
    }
    if first.starts_with(b"#mtree") {
        return DetectedFormat::Mtree;
    }
    if lines().find(|line| !line.is_empty()).is_some_and(|line| line[0] == b';') {
        return DetectedFormat::Sfv;
    }
    let line = lines().find(|line| !is_idle(line)).unwrap_or_default();
    if is_chkbit(head) {
        return DetectedFormat::Chkbit;
    }
    if line.trim_ascii_start().starts_with(b"{") {
        return DetectedFormat::Json;
    }
    // `HEX  size=1` lists a file of that name; a backslash before it says that the name is escaped.
    let digits =
        line.strip_prefix(b"\\").unwrap_or(line).iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_sized = columns::sized(line, &DigestGuess::default()).is_some();
    if guess::by_length(digits).is_none() && !is_sized && mtree::is_entry(line) {
        return DetectedFormat::Mtree;
    }
    DetectedFormat::Lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
    const CRC: &str = "352441c2";

    fn options(name: &str) -> ListOptions {
        ListOptions { name: name.into(), ..ListOptions::default() }
    }

    /// `algorithm:name` of files, `bad`, and the format.
    fn read(text: &[u8], options: &ListOptions) -> (Vec<String>, Option<ListFormat>) {
        let mut reader = Reader::new(text, options).unwrap();
        let mut found = Vec::new();
        while let Some(line) = reader.line().unwrap() {
            found.push(match line {
                Line::File(listed) => {
                    let ids: Vec<&str> = listed.claims.iter().map(|claim| &*claim.algorithm).collect();
                    format!("{}:{}", ids.join("+"), listed.name.escape_ascii())
                }
                Line::Bad(_) => "bad".to_string(),
            });
        }
        (found, reader.format())
    }

    #[test]
    fn formats_are_known_by_their_content() {
        let cases = [
            (format!("# c\n\n{MD5}  a\r\nx\nMD5 (b) = {MD5}\n"), None, "md5:a bad md5:b"),
            (format!("\u{feff}{MD5}  a"), None, "md5:a"),
            (format!("a {CRC}\nGOST (b) = {MD5}\nMD5 (c) = {CRC}"), None, "crc32:a bad bad"),
            // The second blank is the end of the name.
            (format!("; c\n{CRC}  {CRC}\n"), Some(ListFormat::Sfv), "crc32:352441c2 "),
            (
                format!("%%%% HASHDEEP-1.0\r\n%%%% size,md5,filename\r\n## c\r\n3,{MD5},a,b\r\n1,2\n"),
                Some(ListFormat::Hashdeep),
                "md5:a,b bad",
            ),
            (format!("#mtree v2.0\n./a md5digest={MD5}\n"), Some(ListFormat::Mtree), "md5:./a"),
            (
                format!("# c\n/set type=file\na size=3 \\\n  md5={MD5}\nb \\"),
                Some(ListFormat::Mtree),
                "md5:a :b",
            ),
            (
                format!("{{\"path\":\"a\",\"digests\":{{\"md5\":\"{MD5}\"}}}}\n"),
                Some(ListFormat::Json),
                "md5:a",
            ),
            (
                format!(
                    "{{\"path\":\"a\",\"digests\":{{\"md5\":\"{MD5}\"}}}}\n{{\"type\":\"costs\"}}\n{{\"type\":\"x\"}}\n"
                ),
                Some(ListFormat::Json),
                "md5:a bad",
            ),
            (format!("{MD5}  size=1\n"), None, "md5:size=1"),
            (format!("\\{MD5}  size=1\\r\n"), None, "md5:size=1\\r"),
            (format!("{MD5}  a\nb\0{MD5}  c\0"), None, "md5:a\\nb md5:c"),
            (format!("{MD5}  a\0{MD5}  b\nc\0"), None, "md5:a md5:b\\nc"),
            // Damage.
            (format!("{MD5}  a\n{MD5}  b\n\0\0\0\0"), None, "md5:a md5:b bad"),
            (format!("{MD5}  a\n90\0{MD5}  b\n{MD5}  c\n"), None, "md5:a bad md5:c"),
            (format!("90\0{MD5}  a\n{MD5}  b\n"), None, "bad md5:b"),
            (format!("{MD5}  a\0\n{MD5}  b\0\n"), None, "bad bad"),
            (format!("{MD5}  a\0x\n{MD5}  b\0y\n{MD5}  c\0z\n"), None, "bad bad bad"),
            (format!("{MD5}  a\n{MD5}\0  b\n{MD5}  c\0d\n"), None, "md5:a bad bad"),
            (format!("; c\n{MD5}  a\nb {CRC}\n"), Some(ListFormat::Sfv), "md5:a crc32:b"),
        ];
        for (text, format, expected) in cases {
            let (found, is) = read(text.as_bytes(), &ListOptions::default());
            assert_eq!((found.join(" ").as_str(), is), (expected, format), "{text}");
        }
        assert_eq!(read(b"", &ListOptions::default()).0, [""; 0]);
    }

    #[test]
    fn a_manifests_name_helps() {
        let text = format!("{CRC}  {CRC}\n");
        assert_eq!(read(text.as_bytes(), &options("x.sfv")).0, ["crc32:352441c2 "]);
        let text = format!("{}  a\n", "0".repeat(64));
        assert_eq!(read(text.as_bytes(), &options("B3SUMS")).0, ["blake3:a"]);
    }

    #[test]
    fn comments_that_look_like_lines_are_counted_in_every_format() {
        for (text, skipped) in [
            (format!("{MD5}  a\n#{MD5}  b\n# {MD5}  c\n# 20261127 made\n# words\n"), (4, 2)),
            (format!("{MD5}  a\n;{MD5}  b\n; {MD5}  c\n; words\n"), (3, 2)),
            (format!(";{MD5}  a\n{MD5}  b\n"), (1, 1)),
            (format!("MD5 (a) = {MD5}\n#MD5 (b) = {MD5}\n"), (1, 1)),
            (format!("{MD5}  a\0#{MD5}  b\0"), (1, 1)),
            (format!("#mtree v2.0\n# .\n#\tuser: root\n./a md5={MD5}\n#b type=file md5={MD5}\n"), (4, 1)),
            (format!("#mtree\n. type=dir\n    a md5={MD5}\n    # b md5={MD5}\n\t#c\n \n..\n"), (3, 1)),
            (format!("%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n## c\n3,{MD5},a\n#3,{MD5},b\n"), (2, 1)),
            (format!("Key,Size,MD5\n#a,3,{MD5}\n"), (1, 1)),
        ] {
            let mut reader = Reader::new(text.as_bytes(), &ListOptions::default()).unwrap();
            while reader.line().unwrap().is_some() {}
            let (comments, doubtful) = skipped;
            assert_eq!(*reader.skipped(), Skipped { comments, doubtful, ..Skipped::default() }, "{text}");
        }
    }

    #[test]
    fn bags_encode_ends_of_lines_only() {
        let mut options = options("manifest-md5.txt");
        options.dialect = Dialect::Bag;
        let text = format!("{MD5} data/a%0Ab\n{MD5}\t  data/100%25\n{MD5} *data/\\n\n");
        assert_eq!(read(text.as_bytes(), &options).0, ["md5:data/a\\nb", "md5:data/100%", "md5:data/\\\\n"]);
        let mut reader = Reader::new(text.as_bytes(), &options).unwrap();
        let Some(Line::File(listed)) = reader.line().unwrap() else { panic!("a file is listed") };
        assert_eq!(listed.otherwise.as_deref(), Some(&b"data/a%0Ab"[..]));
        // Its digest is that of its name, and no other.
        assert_eq!(read(format!("{MD5}{MD5}  data/a\n").as_bytes(), &options).0, ["bad"]);
        options.name = b"manifest-foo.txt".into();
        let unknown = Reader::new(text.as_bytes(), &options).err().unwrap();
        assert_eq!(unknown.to_string(), "unknown digest: foo");
    }

    #[test]
    fn what_is_no_manifest_says_so() {
        let error = |bytes: &[u8]| Reader::new(bytes, &ListOptions::default()).err().unwrap().to_string();
        assert!(error(b"\xff\xfea\0").contains("UTF-16"));
        assert!(error(b"a\0b\0c\0d\0e\0").contains("UTF-16"));
        // NUL bytes are no text.
        assert!(Reader::new(&[0; 64][..], &ListOptions::default()).is_ok());
        assert!(error(b"SQLite format 3\0").contains("database"));
        assert!(error(b"{\"v\":2,\"idx\":{}}").contains("chkbit"));
        assert!(error(b"{\"type\":\"chkbit\",\"version\":6,\"data\":{\"path\":").contains("chkbit"));
    }
}
