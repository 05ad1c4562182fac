//! Buckets: trees in object stores, checksums and ETags that stores recorded, and stores that lie.

#[path = "../common/mod.rs"]
mod common;

mod bucket_catalogue;
mod buckets;
mod clouds;
mod inventories;
mod lying_stores;
mod parity_places;
mod rotten_uploads;
mod store_settings;
mod stored_digests;
mod uploads;
