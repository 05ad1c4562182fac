//! The indexes of chkbit: a JSON file `.chkbit` in each directory, or, since version 6, one `.chkbit-db` for
//! a whole tree.

use std::collections::BTreeMap;
use std::io::{self, Read};

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::value::RawValue;
use verisum_digest::{Algorithm, Digest, Output};

use crate::{Record, RecordedTime, Timestamp};

/// The longest index of one directory that is read, in bytes. An entry takes about 120. While it is read it
/// takes at most some 15 times as much memory.
const LONGEST: u64 = 16 << 20;

/// The longest index of a whole tree that is read, in bytes: that of a million files.
const LONGEST_OF_TREE: u64 = 128 << 20;

/// What the index of a whole tree begins with.
const OF_TREE: &[u8] = b"{\"type\":\"chkbit\"";

/// The words of a directory's index, of which one is the first; none is a word of our own lines of JSON.
const WORDS: [&[u8]; 4] = [b"\"v\"", b"\"idx\"", b"\"idx_hash\"", b"\"dirlist\""];

/// Whether this is the beginning of an index, whose name anybody may choose.
pub fn is_chkbit(head: &[u8]) -> bool {
    if head.starts_with(OF_TREE) {
        return true;
    }
    let first = head.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    first.is_some_and(|first| WORDS.iter().any(|word| first.starts_with(word)))
}

/// Whether this is the beginning of the index of one directory. Others of its name are in the directories below.
pub fn is_chkbit_of_directory(head: &[u8]) -> bool {
    is_chkbit(head) && !head.starts_with(OF_TREE)
}

/// What an index of chkbit says.
#[derive(Debug)]
pub struct Chkbit {
    /// The files of the index's directory, or of all below it, by name.
    pub files: Vec<ChkbitFile>,
    /// How many of its entries are of a digest that nobody here knows, or make no sense.
    pub skipped: u64,
    /// Whether the index has the checksum over itself that it claims. If not, somebody or something
    /// changed it.
    pub is_sound: bool,
}

/// What another tool recorded of a file.
#[derive(Clone, Debug)]
pub struct ChkbitFile {
    /// The file's name, below the directory of the index.
    pub name: Vec<u8>,
    /// What is recorded of it. It was never verified here.
    pub record: Record,
}

/// Why an index of another tool cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no index of that tool.
    #[error("not an index: {0}")]
    NotAnIndex(String),
    /// It is too large to be read.
    #[error("the index is longer than {0} bytes")]
    TooLong(u64),
    /// A digest that is needed cannot be computed.
    #[error(transparent)]
    Digest(#[from] verisum_digest::DigestError),
}

/// The index of one directory.
#[derive(Deserialize)]
struct Index<'a> {
    v: u64,
    #[serde(borrow)]
    idx: &'a RawValue,
    idx_hash: Option<String>,
}

/// The index of a whole tree.
#[derive(Deserialize)]
struct ChkbitTree<'a> {
    version: u64,
    /// The index of each directory, by its path below the top.
    #[serde(borrow)]
    data: BTreeMap<String, &'a RawValue>,
}

#[derive(Deserialize)]
struct ChkbitItem {
    /// Milliseconds since 1970.
    #[serde(rename = "mod")]
    modified: i64,
    a: Option<String>,
    h: Option<String>,
    /// Before the digest could be chosen.
    md5: Option<String>,
    s: Option<u64>,
}

impl Chkbit {
    /// Reads an index: of a directory, versions 1 and 2, or of a whole tree, version 6.
    pub fn read(input: impl Read) -> Result<Chkbit, IndexError> {
        let mut bytes = Vec::new();
        let mut input = input.take(OF_TREE.len() as u64);
        input.read_to_end(&mut bytes)?;
        let is_of_tree = bytes == OF_TREE;
        let longest = if is_of_tree { LONGEST_OF_TREE } else { LONGEST };
        let mut input = input.into_inner().take(longest + 1 - bytes.len() as u64);
        input.read_to_end(&mut bytes)?;
        if bytes.len() as u64 > longest {
            return Err(IndexError::TooLong(longest));
        }
        let text = std::str::from_utf8(&bytes).map_err(|e| not_an_index(e.to_string()))?;
        if is_of_tree { Chkbit::of_tree(text) } else { Chkbit::of_directory(text) }
    }

    fn of_tree(text: &str) -> Result<Chkbit, IndexError> {
        let tree: ChkbitTree = serde_json::from_str(text).map_err(|e| not_an_index(e.to_string()))?;
        if tree.version != 6 {
            return Err(not_an_index(format!("version {} is not known", tree.version)));
        }
        let mut whole = Chkbit { files: Vec::new(), skipped: 0, is_sound: true };
        for (directory, index) in tree.data {
            let index = Chkbit::of_directory(index.get())?;
            whole.skipped += index.skipped;
            whole.is_sound &= index.is_sound;
            whole.files.extend(index.files.into_iter().map(|file| match directory.as_str() {
                "" => file,
                _ => ChkbitFile { name: [directory.as_bytes(), b"/", &file.name].concat(), ..file },
            }));
        }
        Ok(whole)
    }

    fn of_directory(text: &str) -> Result<Chkbit, IndexError> {
        let index: Index = serde_json::from_str(text).map_err(|e| not_an_index(e.to_string()))?;
        if !matches!(index.v, 1 | 2) {
            return Err(not_an_index(format!("version {} is not known", index.v)));
        }
        let raw = index.idx.get();
        let is_sound = match &index.idx_hash {
            None => false,
            Some(claimed) => [raw, &compact(raw)].iter().try_fold(false, |is, text| {
                Ok::<_, IndexError>(is || Digest::find("md5")?.hash(text.as_bytes())?.to_string() == *claimed)
            })?,
        };
        let items: BTreeMap<String, ChkbitItem> =
            serde_json::from_str(&without_surrogates(raw)).map_err(|e| not_an_index(e.to_string()))?;
        let count = items.len();
        let files: Vec<ChkbitFile> =
            items.into_iter().filter_map(|(name, item)| recorded(&name, &item)).collect();
        Ok(Chkbit { skipped: (count - files.len()) as u64, files, is_sound })
    }
}

fn not_an_index(error: String) -> IndexError {
    IndexError::NotAnIndex(error)
}

fn recorded(name: &str, item: &ChkbitItem) -> Option<ChkbitFile> {
    let (id, value) = match (&item.h, &item.md5) {
        (Some(value), _) => (item.a.as_deref().unwrap_or("md5"), value),
        (None, Some(value)) => ("md5", value),
        (None, None) => return None,
    };
    let algorithm = Algorithm::find(id).filter(|algorithm| algorithm.digest_len() * 2 == value.len())?;
    let digest = Output::from_hex(value.as_bytes())?;
    let name = with_bytes(name).filter(|name| !name.is_empty() && !name.contains(&b'/'))?;
    let time = Timestamp {
        seconds: item.modified.div_euclid(1000),
        nanoseconds: item.modified.rem_euclid(1000) as u32 * 1_000_000,
    };
    let modified = Some(RecordedTime { time, tolerance: 1_000_000 });
    Some(ChkbitFile { name, record: Record { algorithm, digest, size: item.s, modified, verified: None } })
}

/// JSON without the blanks between its words, over which some versions compute their checksum.
fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut is_text, mut is_escaped) = (false, false);
    for c in json.chars() {
        if !is_text && c.is_ascii_whitespace() {
            continue;
        }
        match c {
            '"' if !is_escaped => is_text = !is_text,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        out.push(c);
    }
    out
}

/// Python writes a byte that is not UTF-8 as half of a surrogate pair, `\udcff`, which is no text. It
/// becomes a NUL, which no name holds, and the byte in hexadecimal.
fn without_surrogates(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(place) = rest.find('\\') {
        out.push_str(&rest[..place]);
        rest = &rest[place..];
        let unit = |text: &str| {
            let digits = text.strip_prefix("\\u")?.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        let taken = match unit(rest) {
            Some(0xd800..=0xdbff) if rest.get(6..).and_then(unit).is_some() => 12,
            Some(unit @ 0xdc80..=0xdcff) => {
                out.push_str(&format!("\\u0000{:02x}", unit - 0xdc00));
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            // Two bytes, of which the second may begin a longer character.
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

/// Undoes [`without_surrogates`].
fn with_bytes(name: &str) -> Option<Vec<u8>> {
    let mut pieces = name.split('\0');
    let mut out = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        out.extend(HEXLOWER.decode(piece.as_bytes().get(..2)?).ok()?);
        out.extend_from_slice(&piece.as_bytes()[2..]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

    #[test]
    fn an_index_is_read() {
        let idx = format!(
            r#"{{"a \udcff\\\ud83d\ude00":{{"mod":1500,"a":"md5","h":"{MD5}","s":3}}, "b":{{"mod":-1,"md5":"{MD5}"}},"c":{{"mod":1,"a":"new","h":"00"}}}}"#
        );
        let hash = |text: &str| Digest::find("md5").unwrap().hash(text.as_bytes()).unwrap().to_string();
        for (hash, is_sound) in [(hash(&idx), true), (hash(&compact(&idx)), true), (hash("x"), false)] {
            let json = format!(r#"{{"v":2,"idx":{idx},"idx_hash":"{hash}","dirlist":["d"]}}"#);
            let index = Chkbit::read(json.as_bytes()).unwrap();
            assert_eq!((index.files.len(), index.skipped, index.is_sound), (2, 1, is_sound));
            let first = index.files.iter().find(|file| file.name == b"a \xff\\\xf0\x9f\x98\x80").unwrap();
            let record = &first.record;
            assert_eq!((record.algorithm.id, record.size, record.verified), ("md5", Some(3), None));
            let time = record.modified.unwrap().time;
            assert_eq!((time.seconds, time.nanoseconds), (1, 500_000_000));
        }
    }

    #[test]
    fn an_index_of_a_whole_tree_is_read() {
        let of = |name: &str| {
            let idx = format!(r#"{{"{name}":{{"mod":1,"a":"md5","h":"{MD5}","s":3}}}}"#);
            let hash = Digest::find("md5").unwrap().hash(idx.as_bytes()).unwrap();
            format!(r#"{{"v":2,"idx":{idx},"idx_hash":"{hash}"}}"#)
        };
        let tree = |data: &str| format!(r#"{{"type":"chkbit","version":6,"data":{{{data}}}}}"#);
        let text = tree(&format!(r#""":{},"s/\u003ct":{}"#, of("a"), of("b")));
        let index = Chkbit::read(text.as_bytes()).unwrap();
        let names: Vec<&[u8]> = index.files.iter().map(|file| &file.name[..]).collect();
        assert_eq!((names, index.skipped, index.is_sound), (vec![&b"a"[..], b"s/<t/b"], 0, true));
        assert!(!Chkbit::read(text.replace("\"a\":{", "\"c\":{").as_bytes()).unwrap().is_sound);
        assert_eq!(Chkbit::read(tree("").as_bytes()).unwrap().files.len(), 0);
    }

    #[test]
    fn what_is_no_index_is_refused() {
        for text in [
            "",
            "{",
            "[]",
            r#"{"v":3,"idx":{}}"#,
            r#"{"v":2,"idx":[]}"#,
            "\\",
            r#"{"v":2,"idx":{"\u"#,
            r#"{"type":"chkbit","version":7,"data":{}}"#,
            r#"{"type":"chkbit","version":6,"data":{"a":{}}}"#,
        ] {
            assert!(matches!(Chkbit::read(text.as_bytes()), Err(IndexError::NotAnIndex(_))), "{text}");
        }
        let empty = Chkbit::read(&br#"{"v":2,"idx":{}}"#[..]).unwrap();
        assert!(empty.files.is_empty() && !empty.is_sound);
    }
}
