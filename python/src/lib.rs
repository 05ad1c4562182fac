//! The native part of the Python package `verisum`: digests, files, images and catalogues as Python objects.
//!
//! `verisum/_native.pyi` documents what is exported here; `verisum/__init__.py` gives it its names. Objects
//! convert arguments, release the GIL, and call the library `verisum`; what is computed is computed there.

#![deny(unsafe_code)]

// First, for the others use its macros.
#[macro_use]
mod getters;

mod arguments;
mod arrow;
mod arrow_columns;
mod at_exit;
mod background;
mod bag;
mod block_map;
#[allow(unsafe_code)]
mod buffer;
mod catalog;
mod catalog_lists;
mod catalog_upkeep;
mod check;
mod compare;
mod copy;
#[allow(unsafe_code)]
mod digests;
mod errors;
mod file_row;
mod file_row_columns;
mod files;
mod fleet;
mod hash;
mod hosts;
mod image;
mod image_info;
mod image_repair;
mod image_verify;
mod interrupt;
mod iterator;
mod log;
mod many;
mod overview;
mod parity;
mod parquet;
mod place;
mod record_columns;
mod records;
mod repair;
mod scrub;
mod stores;
mod tags;
mod verdict;

use pyo3::prelude::*;

/// The module.
// All state is behind locks or never changes.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python calls it so.
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn begin(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        verisum::files::hide_caught_panics();
        Ok(())
    }

    #[pymodule_export]
    use crate::arrow::ArrowStream;
    #[pymodule_export]
    use crate::bag::{Bag, create_bag};
    #[pymodule_export]
    use crate::block_map::BlockMap;
    #[pymodule_export]
    use crate::catalog::{AcceptedFile, Catalog, CatalogRun, CatalogTree, accept, rehash};
    #[pymodule_export]
    use crate::catalog_upkeep::ForgottenTree;
    #[pymodule_export]
    use crate::check::{Check, CheckRow, check};
    #[pymodule_export]
    use crate::compare::{Comparison, Difference, Side, compare};
    #[pymodule_export]
    use crate::copy::{CopiedFile, Copy, CopySummary, copy};
    #[pymodule_export]
    use crate::digests::Digests;
    #[pymodule_export]
    use crate::file_row::FileRow;
    #[pymodule_export]
    use crate::files::{HashFiles, hash_files};
    #[pymodule_export]
    use crate::fleet::{PlaceRead, hash_place, list_place, place_address};
    #[pymodule_export]
    use crate::hash::{Hash, algorithms, new};
    #[pymodule_export]
    use crate::hosts::{Hosts, StoreCosts};
    #[pymodule_export]
    use crate::image::{ImageSum, image_sum};
    #[pymodule_export]
    use crate::image_info::{ImageBitmap, ImageInfo, ImageLayer, ImageSnapshot, image_info};
    #[pymodule_export]
    use crate::image_repair::{ImageRepair, image_repair};
    #[pymodule_export]
    use crate::image_verify::{ImageVerification, image_verify};
    #[pymodule_export]
    use crate::many::hash_many;
    #[pymodule_export]
    use crate::overview::{
        Amount, Directory, Overview, RecordedRepair, SharedContent, TreeOverview, TroubledFile, overview,
    };
    #[pymodule_export]
    use crate::parity::{Parity, ParityFinding, ParityRun};
    #[pymodule_export]
    use crate::records::{CatalogRecord, Problem, Problems, Records};
    #[pymodule_export]
    use crate::repair::{Repair, RepairSummary, RepairedFile, repair};
    #[pymodule_export]
    use crate::scrub::{FileState, Finding, Forecast, Scrub, ScrubSummary, scrub};
    #[pymodule_export]
    use crate::tags::{TagFinding, TagStatus, Tagging, adopt, list_tags, retag, status, tag, untag, verify};
    #[pymodule_export]
    use crate::verdict::{
        Excludes, SecondLook, judge, judge_comparison, read_again, state_after, storage_failed, verdicts,
    };
}
