//! The parts that all JSON objects have; docs/json.md and docs/json.schema.json describe them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use verisum::digest::Output;
use verisum::files::store::manifest::JSON_VERSION;

use super::digests;
use super::names::Name;

/// An object: its version, its type, and its own fields.
#[derive(Serialize)]
pub(crate) struct Object<'a, T> {
    version: u32,
    r#type: &'static str,
    #[serde(flatten)]
    fields: &'a T,
}

impl<'a, T> Object<'a, T> {
    pub(crate) fn new(kind: &'static str, fields: &'a T) -> Object<'a, T> {
        Object { version: JSON_VERSION, r#type: kind, fields }
    }
}

/// What a command did with one thing. `more` are its own fields.
#[derive(Serialize)]
pub(crate) struct Outcome<T> {
    #[serde(flatten)]
    name: Name,
    outcome: &'static str,
    #[serde(flatten)]
    more: T,
}

impl<T> Outcome<T> {
    pub(crate) fn of(path: &Path, outcome: &'static str, more: T) -> Outcome<T> {
        Outcome { name: Name::new(path.as_os_str()), outcome, more }
    }
}

/// A state of a file of which only the digest is told.
#[derive(Serialize)]
pub(crate) struct DigestState {
    digest: String,
}

impl DigestState {
    pub(crate) fn of(algorithm: &str, digest: &Output, size: Option<u64>) -> DigestState {
        DigestState { digest: digests::shown(algorithm, digest, size) }
    }
}

/// What a list has of a file, or what that is in the file.
#[derive(Default, Serialize)]
pub(crate) struct ListState<'a> {
    /// Only where the lengths differ, which is enough: the digests were not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) digests: BTreeMap<&'a str, String>,
}
