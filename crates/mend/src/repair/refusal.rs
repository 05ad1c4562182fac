//! Why a file must not be repaired.

use verisum_digest::DigestError;
use verisum_files::SharedError;

/// Why a file must not be repaired: it is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepairRefusal {
    /// It is not what was found bad any more.
    #[error("it changed since it was found bad: scrub it first")]
    Changed,
    /// A program has it open to write to it.
    #[error("a program has it open to write to it")]
    InUse,
    /// It is missing, and such files were to be left so.
    #[error("it is missing")]
    Missing,
    /// There is no file of its name, but something else.
    #[error("something else is in its place")]
    OtherKind,
    /// Somebody may have written it, and what it is now was not to be kept.
    #[error("somebody may have written it: --keep-bad DIR repairs it and keeps what it is now")]
    MayBeMeant,
    /// The same of a file with a record, which can be accepted instead.
    #[error("{}; `verisum accept` takes it as it is", RepairRefusal::MayBeMeant)]
    MayBeAccepted,
    /// The same of a file that cannot be read.
    #[error("it cannot be read, and {}", RepairRefusal::MayBeMeant)]
    MayBeMeantUnread,
    /// Its record is damaged.
    #[error("its record is damaged: nothing tells good bytes (restore a backup of the catalogue)")]
    DamagedRecord,
    /// A scrub could not compare it with its record.
    #[error(
        "it could not be compared{}: scrub it again; if that ends so too, `verisum accept` takes it as it is",
        .detail.as_ref().map_or(String::new(), |why| format!(" ({why})"))
    )]
    NotCompared {
        /// What that scrub said.
        detail: Option<String>,
    },
    /// This machine cannot compute its digest.
    #[error("{why}")]
    NoDigest {
        /// Why not.
        why: SharedError<DigestError>,
    },
    /// It was to be written in place, and nothing has digests of its blocks.
    #[error("--in-place needs digests of its blocks: parity, or a block map (`verisum image map --exact`)")]
    NoBlocks,
    /// It was to be written in place, and what has digests of blocks has them of other content.
    #[error(
        "--in-place needs digests of its blocks, and those of its parity or block map are of different content"
    )]
    OtherBlocks,
    /// A repair in place of it was interrupted, and it is gone since.
    #[error("it is gone")]
    Gone,
    /// The same, and its place has another file.
    #[error("another file is in its place")]
    OtherFile,
    /// The same, and somebody wrote to it since.
    #[error("somebody wrote to it since: scrub it")]
    WrittenSince,
}
