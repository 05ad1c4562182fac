//! Catalogues: `verisum catalog`, `report`, `notify`, and their JSON.

#[path = "../common/mod.rs"]
mod common;

mod catalogue;
mod catalogue_lists;
mod catalogue_snapshots;
mod findings;
mod json_schema;
mod lake;
mod night;
mod notify;
mod rehash;
mod report;
mod report_inputs;
mod schedule;
