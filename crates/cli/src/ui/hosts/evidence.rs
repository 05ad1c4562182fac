//! `--recorded`: takes digests that a store recorded, and says which were recorded and which were read.

use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use serde::Serialize;
use verisum::digest::Digest;
use verisum::files::place::{ContentEvidence, Files, Place, PlaceError, Sink};

use super::OnHost;
use super::buckets::BUCKETS;
use crate::ui::failure::Failure;

/// Which digests count.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RecordedArgs {
    /// Take the digests that the store recorded when objects were uploaded, and read only objects without
    /// such a digest. Rot in the store is not found this way
    #[arg(long, help_heading = BUCKETS)]
    recorded: bool,
}

/// How many objects were known by what.
#[derive(Debug, Default)]
pub(crate) struct Evidences {
    recorded: AtomicU64,
    read: AtomicU64,
}

/// The same, in results.
#[derive(Debug, Serialize)]
pub(crate) struct EvidenceCounts {
    recorded: u64,
    read: u64,
}

/// What one object is known by, in results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ObjectEvidence {
    evidence: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_at: Option<String>,
}

impl RecordedArgs {
    /// Fails where no store could have recorded anything.
    pub(crate) fn refuse(self, places: &[OnHost]) -> Result<(), Failure> {
        let keep_records = places.iter().all(|on| on.host.keeps_records());
        match self.recorded && (places.is_empty() || !keep_records) {
            true => Err(Failure::Usage("--recorded: only for files in buckets".to_string())),
            false => Ok(()),
        }
    }

    /// Computes the digests of files, or takes recorded ones.
    pub(crate) fn hash(
        self,
        place: &mut dyn Place,
        digests: &[Digest],
        files: Files,
        sink: Sink,
    ) -> Result<(), PlaceError> {
        match self.recorded {
            true => place.hash_recorded(digests, files, sink),
            false => place.hash(digests, files, sink),
        }
    }

    /// Counts an object, and says what it is known by.
    pub(crate) fn known(self, evidence: ContentEvidence, counts: &Evidences) -> Option<ObjectEvidence> {
        if !self.recorded {
            return None;
        }
        let (count, at) = match evidence {
            ContentEvidence::Recorded(at) => (&counts.recorded, at),
            _ => (&counts.read, None),
        };
        count.fetch_add(1, Ordering::Relaxed);
        Some(ObjectEvidence { evidence: evidence.name(), recorded_at: at.map(|at| at.time.to_rfc3339()) })
    }

    /// How many were known by what, where that was asked for.
    pub(crate) fn counts(self, counts: &Evidences) -> Option<EvidenceCounts> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.recorded.then(|| EvidenceCounts { recorded: of(&counts.recorded), read: of(&counts.read) })
    }
}

impl ObjectEvidence {
    /// In words.
    pub(crate) fn text(&self) -> String {
        match (self.evidence, &self.recorded_at) {
            ("recorded", Some(at)) => format!("recorded by the store at {at}"),
            ("recorded", None) => "recorded by the store".to_string(),
            _ => "read".to_string(),
        }
    }
}

impl EvidenceCounts {
    /// In words.
    pub(crate) fn text(&self) -> String {
        format!("evidence: {} recorded by the store, {} read", self.recorded, self.read)
    }
}
