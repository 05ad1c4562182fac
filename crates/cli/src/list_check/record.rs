//! The result of checking a file, as JSON.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use serde::Serialize;
use verisum::digest::{Output, digest_text};
use verisum::files::check::{CheckOutcome, Difference};
use verisum::files::store::manifest::{self, Listed};

use crate::ui::hosts::ObjectEvidence;
use crate::ui::json::ListState;
use crate::ui::names::Name;

/// What came of a file.
#[derive(Serialize)]
pub(super) struct CheckRecord<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) list: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) way: Option<&'a str>,
    #[serde(flatten)]
    pub(super) name: Name,
    pub(super) outcome: &'a str,
    #[serde(flatten)]
    pub(super) evidence: Option<ObjectEvidence>,
    /// The tag of a block hash, which says how it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) listed: Option<ListState<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) found: Option<ListState<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl<'a> CheckRecord<'a> {
    pub(super) fn new(list: Option<&OsStr>, name: &[u8], outcome: &'a str) -> CheckRecord<'a> {
        CheckRecord {
            list: list.map(|list| list.to_string_lossy().into_owned()),
            line: None,
            host: None,
            way: None,
            name: Name::of_bytes(name),
            outcome,
            evidence: None,
            tag: None,
            listed: None,
            found: None,
            error: None,
        }
    }
}

/// What is listed of a file, and what was found of it.
pub(super) fn states<'a>(
    listed: &'a Listed,
    outcome: &CheckOutcome,
) -> (ListState<'a>, Option<ListState<'a>>) {
    let of = |digest: &dyn Fn(usize) -> Option<Output>| {
        let claims = listed.claims.iter().enumerate();
        let digests = claims.filter_map(|(place, claim)| {
            // With another number the outcome is a difference.
            let name = &*claim.algorithm;
            Some((name, digest_text(name, &digest(place)?, claim.parts)))
        });
        ListState { size: None, digests: digests.collect() }
    };
    let claimed = of(&|place| Some(listed.claims[place].digest));
    let sized = |size| ListState { size: Some(size), digests: BTreeMap::new() };
    match outcome {
        CheckOutcome::Match => {
            let found = of(&|place| Some(listed.claims[place].digest));
            (claimed, Some(found))
        }
        CheckOutcome::Mismatch(found) => (claimed, Some(of(&|place| found[place]))),
        CheckOutcome::Unlike(Difference::Size { listed, found }) => {
            (ListState { size: Some(*listed), ..claimed }, Some(sized(*found)))
        }
        _ => (claimed, None),
    }
}

/// The tag of a block hash.
pub(super) fn tag(listed: &Listed) -> Option<String> {
    let (made, claim) = listed.block_hash.as_ref().zip(listed.claims.first())?;
    Some(manifest::block_hash_tag(&claim.algorithm, made))
}
