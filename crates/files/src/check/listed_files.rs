//! Reads a list as files to be recorded: each file once, with the longest of its digests.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use verisum_digest::{Digest, Output};

use crate::store::manifest::{Bad, Line, Listed, ReadError, Reader};
use crate::{Kind, Timestamp};

/// Why a line of `-` says nothing of a file, in lists of the coreutils.
pub const STDIN: &str = "- is standard input (a file of this name is listed as ./-)";

/// What a list says of a file.
#[derive(Clone, Debug)]
pub struct LongestDigest {
    /// The longest of its digests.
    pub digest: Digest,
    /// Its value.
    pub value: Output,
    /// Its length in bytes.
    pub size: Option<u64>,
    /// When its bytes had last changed.
    pub modified: Option<Timestamp>,
    /// The number of a line that has another value of the same digest: nobody knows which is right.
    pub contradicted: Option<u64>,
}

/// A line of a list that says nothing of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UselessLine {
    /// Its number, from 1.
    pub number: u64,
    /// Why it is of no use.
    pub why: String,
}

/// Reads a list to its end. `path` is what each file is called, or why it is of no use. `useless` is told of the other
/// lines that are of no use, but for those that the reader counts as skipped.
///
/// # Errors
/// The list cannot be read.
pub fn listed_files<R: Read>(
    reader: &mut Reader<R>,
    path: &dyn Fn(&Listed) -> Result<PathBuf, String>,
    is_of_use: fn(&Digest) -> bool,
    useless: &mut dyn FnMut(UselessLine),
) -> Result<BTreeMap<PathBuf, LongestDigest>, ReadError> {
    let mut files: BTreeMap<PathBuf, LongestDigest> = BTreeMap::new();
    while let Some(line) = reader.line()? {
        let number = reader.number();
        let found = match line {
            // It is counted.
            Line::Bad(Bad::UnknownDigest(_)) => continue,
            Line::Bad(bad) => Err(bad.to_string()),
            // What is no file has no content.
            Line::File(listed) if listed.kind.is_some_and(|kind| kind != Kind::File) => continue,
            Line::File(listed) if reader.names_stdin(&listed) => Err(STDIN.to_string()),
            Line::File(listed) => path(&listed).and_then(|path| Ok((path, file(&listed, is_of_use)?))),
        };
        let (path, file) = match found {
            Ok(found) => found,
            Err(why) => {
                useless(UselessLine { number, why });
                continue;
            }
        };
        let longest = files.entry(path).or_insert_with(|| file.clone());
        if longest.digest.len() < file.digest.len() {
            *longest = file;
        } else if longest.digest.name() == file.digest.name() && longest.value != file.value {
            longest.contradicted.get_or_insert(number);
        }
    }
    Ok(files)
}

/// What a line says of a file; why it is of no use.
fn file(listed: &Listed, is_of_use: fn(&Digest) -> bool) -> Result<LongestDigest, String> {
    if listed.block_hash.is_some() {
        return Err("this is a block hash (`verisum image repair` mends images)".to_string());
    }
    if let Some(why) = listed.contradiction() {
        return Err(why);
    }
    let longest = listed.longest(is_of_use).map_err(|error| error.to_string())?;
    let (digest, value) = longest.ok_or_else(|| match listed.claims.first() {
        Some(claim) => format!("tags have no place for {}", claim.algorithm),
        None => "it has no digest".to_string(),
    })?;
    let (size, modified) = (listed.size, listed.modified);
    Ok(LongestDigest { digest, value, size, modified, contradicted: None })
}
