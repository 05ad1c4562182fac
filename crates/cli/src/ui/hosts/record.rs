//! The result for a file on a host, as a line of JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use verisum::files::place::FileState;
use verisum::remote::Address;

use super::evidence::ObjectEvidence;
use crate::ui::names::Name;

/// A line of JSON, with the keys of `verisum sum --json` and those of hosts.
#[derive(Serialize)]
pub(crate) struct PlaceRecord<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    pub(crate) way: &'a str,
    #[serde(flatten)]
    pub(crate) name: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digests: Option<BTreeMap<&'a str, String>>,
    #[serde(flatten)]
    pub(crate) evidence: Option<ObjectEvidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl<'a> PlaceRecord<'a> {
    /// Without results.
    pub(crate) fn new(place: &Address, way: &'a str, name: &[u8], seen: &FileState) -> PlaceRecord<'a> {
        PlaceRecord {
            host: Some(place.host.name()),
            way,
            name: Name::of_bytes(name),
            size: seen.size,
            mtime: seen.modified.map(|modified| match modified.is_exact {
                true => modified.time.to_rfc3339(),
                false => modified.time.to_rfc3339_seconds(),
            }),
            digests: None,
            evidence: None,
            outcome: None,
            error: None,
        }
    }
}
