//! Trees on hosts.

#[path = "../common/mod.rs"]
mod common;

mod places;
mod remote;
mod remote_chroots;
mod remote_compare;
mod remote_hostile;
mod remote_hosts;
mod remote_lists;
mod remote_many;
mod remote_repair;
mod remote_scrub;
mod remote_windows;
