//! One module for each verb.

pub(crate) mod bag;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod demo;
pub(crate) mod digests;
pub(crate) mod dirhash;
pub(crate) mod image;
pub(crate) mod man;
pub(crate) mod notify;
pub(crate) mod parity;
pub(crate) mod reference;
pub(crate) mod repair;
pub(crate) mod report;
pub(crate) mod scrub;
pub(crate) mod sum;
pub(crate) mod tags;
