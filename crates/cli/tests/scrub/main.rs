//! Scrubs.

#[path = "../common/mod.rs"]
mod common;

mod scrub;
mod scrub_catalogue;
mod scrub_devices;
mod scrub_heirs;
mod scrub_killed;
mod scrub_places;
mod scrub_renamed;
mod scrub_same_times;
mod scrub_storage;
mod scrub_untried;
mod sticks;
mod storage_fails;
