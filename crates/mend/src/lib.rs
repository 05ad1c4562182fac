//! Verified copies of trees, and repair of files from other copies.
//!
//! [`repair`](repair::repair) gives bad files of a catalogue their recorded content again.
//!
//! ```
//! use verisum_catalog::scrub::{self, scrub};
//! use verisum_catalog::store::{Catalog, Lock};
//! use verisum_files::place::LocalPlace;
//! use verisum_mend::repair::{RepairOptions, RepairOutcome, Source, repair};
//! # use verisum_digest::Digest;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (tree, copy) = (folder.path().join("photos"), folder.path().join("copy"));
//! # for tree in [&tree, &copy] {
//! #     std::fs::create_dir(tree)?;
//! #     std::fs::write(tree.join("one.raw"), "one")?;
//! # }
//! # let path = folder.path().join("photos.db");
//! let _lock = Lock::take(&path)?;
//! let mut catalog = Catalog::open(&path)?;
//! let options = scrub::ScrubOptions::new(Digest::find("sha256")?);
//! # scrub(&mut catalog, &tree, &options, &mut |_| {})?;
//! # let modified = tree.join("one.raw").metadata()?.modified()?;
//! # std::fs::write(tree.join("one.raw"), "0ne")?;
//! # std::fs::File::options().append(true).open(tree.join("one.raw"))?.set_modified(modified)?;
//! scrub(&mut catalog, &tree, &options, &mut |file| println!("{}: {:?}", file.path.display(), file.verdict))?;
//!
//! let mut sources = [Source::new(&copy, Box::new(LocalPlace::default()))];
//! # let mut options = RepairOptions::default();
//! # options.keep_bad = Some(folder.path().join("bad"));
//! # let _ =
//! repair(&catalog, &tree, &mut sources, &RepairOptions::default(), &mut |file| {
//!     println!("{}: {:?}", file.path.display(), file.outcome);
//! })?;
//! # repair(&catalog, &tree, &mut sources, &options, &mut |file| {
//! #     assert!(matches!(file.outcome, RepairOutcome::Repaired { .. }), "{file:?}");
//! # })?;
//! # assert_eq!(std::fs::read(tree.join("one.raw"))?, b"one");
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: how other machines are reached (places come in as the trait), and printing.

#![forbid(unsafe_code)]

pub mod copy;
pub mod image;
mod metadata;
pub mod repair;
