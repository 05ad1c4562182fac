//! `verisum copy`, `repair` and `parity`.

#[path = "../common/mod.rs"]
mod common;

mod copy;
mod copy_places;
mod immutable;
mod mend_model;
mod parity;
mod parity_scrubbed;
mod power_loss;
mod remedies;
mod repair;
mod repair_candidates;
mod repair_foretold;
mod repair_in_place;
mod repair_kept;
mod repair_left;
mod repair_parity;
mod repair_rules;
mod repair_side_by_side;
mod repair_wire;
mod repairs_told;
