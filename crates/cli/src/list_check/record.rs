//! The result of checking a file, as a line of JSON.

use std::ffi::OsStr;

use serde::Serialize;
use verisum::files::check::Outcome;
use verisum::files::store::manifest::{self, Listed};

use crate::ui::names::Name;

/// A line of JSON.
#[derive(Serialize)]
pub(super) struct Record<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) list: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    #[serde(flatten)]
    pub(super) name: Name,
    pub(super) outcome: &'a str,
    /// The tag of a block hash, which says how it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digests: Option<Vec<Compared<'a>>>,
    /// Where they differ, which is enough: the digests were not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<Sizes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// The length that is listed, and the file's, in bytes.
#[derive(Serialize)]
pub(super) struct Sizes {
    pub(super) listed: u64,
    pub(super) found: u64,
}

/// A digest that is listed, and the file's.
#[derive(Serialize)]
pub(super) struct Compared<'a> {
    pub(super) algorithm: &'a str,
    pub(super) listed: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) found: Option<String>,
}

impl<'a> Record<'a> {
    pub(super) fn new(list: Option<&OsStr>, name: &[u8], outcome: &'a str) -> Record<'a> {
        Record {
            list: list.map(|list| list.to_string_lossy().into_owned()),
            line: None,
            name: Name::of_bytes(name),
            outcome,
            tag: None,
            digests: None,
            size: None,
            error: None,
        }
    }
}

/// The digests that are listed, and what they are.
pub(super) fn digests<'a>(listed: &'a Listed, outcome: &Outcome) -> Vec<Compared<'a>> {
    let found = |place: usize| match outcome {
        Outcome::Match => Some(listed.claims[place].digest.to_string()),
        Outcome::Mismatch(found) => found[place].map(|digest| digest.to_string()),
        _ => None,
    };
    let compared = listed.claims.iter().enumerate().map(|(place, claim)| Compared {
        algorithm: &claim.algorithm,
        listed: claim.digest.to_string(),
        found: found(place),
    });
    compared.collect()
}

/// The tag of a block hash.
pub(super) fn tag(listed: &Listed) -> Option<String> {
    let (made, claim) = listed.block_hash.as_ref().zip(listed.claims.first())?;
    Some(manifest::block_hash_tag(&claim.algorithm, made))
}
