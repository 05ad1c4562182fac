//! Large objects whose digests can be hashed in parts: reads and hashes the parts side by side, and no part
//! waits for another.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use futures_util::future::try_join_all;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};
use verisum_digest::{Digest, DigestError, JoinedParts, Output, PartHasher as DigestPart, PartHashes, Parts};
use verisum_files::Stop;

use crate::content::ObjectContent;
use crate::error::RequestError;
use crate::queue::{Fetch, PIECE};

/// Why an object has no digests.
pub(crate) enum LargeError {
    Request(RequestError),
    Digest(DigestError),
    /// All is to end.
    Stopped,
}

impl From<RequestError> for LargeError {
    fn from(error: RequestError) -> LargeError {
        LargeError::Request(error)
    }
}

impl From<DigestError> for LargeError {
    fn from(error: DigestError) -> LargeError {
        LargeError::Digest(error)
    }
}

/// An object that is hashed in parts.
pub(crate) struct SplitObject {
    source: ObjectContent,
    /// The parts of each digest. All have one length, in bytes.
    parts: Vec<Parts>,
    length: u64,
    /// How many parts one request asks for; 1 where a part takes several.
    in_request: u64,
    /// How many parts are hashed side by side.
    in_stretch: u64,
    /// How many stretches are read at a time, and how many pieces of each part: so many that the requests that may be under
    /// way are, however long the parts are.
    stretches: usize,
    pieces: usize,
    /// Those who may ask the store.
    turns: Semaphore,
}

impl SplitObject {
    /// The parts that digests are computed in; none where a digest has none, or parts of another length.
    pub(crate) fn parts_of(digests: &[Digest]) -> Option<Vec<Parts>> {
        let own: Vec<Parts> = digests.iter().map(Digest::parts).collect::<Option<_>>()?;
        // Who takes any length follows the others.
        own.iter().find_map(|parts| own.iter().map(|other| other.with_length(parts.length())).collect())
    }

    /// An object that is cut into such parts.
    pub(crate) fn new(source: ObjectContent, parts: Vec<Parts>) -> SplitObject {
        let length = parts.first().map_or(PIECE, Parts::length);
        let in_request = (PIECE / length).max(1);
        let lanes = parts.iter().map(Parts::lanes).max().unwrap_or_default() as u64;
        // While one stretch is hashed another one is read, and all processors are to have some.
        let threads = thread::available_parallelism().map_or(2, |threads| threads.get().max(2)) as u64;
        let share = source.size.div_ceil(length).div_ceil(threads);
        let at_once = source.at_once();
        let in_stretch = lanes.min(share).clamp(in_request, at_once as u64 * in_request);
        let requests = in_stretch.div_ceil(in_request);
        let all = source.size.div_ceil(in_stretch * length);
        let stretches = all.clamp(1, (2 * at_once as u64 / requests).max(1));
        let pieces = (2 * at_once as u64 / (requests * stretches)).max(1);
        let (stretches, pieces, turns) = (stretches as usize, pieces as usize, Semaphore::new(at_once));
        SplitObject { source, parts, length, in_request, in_stretch, stretches, pieces, turns }
    }

    /// The digests. Of a failure in several stretches the first counts, as if the object had been read in order.
    pub(crate) fn hash(self, runtime: &Runtime, stop: &Stop) -> Result<Vec<Output>, LargeError> {
        let size = self.source.size;
        let mut joined = self.parts.iter().map(Parts::join).collect::<Result<Vec<JoinedParts>, _>>()?;
        let mut starts = (0..size).step_by((self.in_stretch * self.length) as usize);
        let object = Arc::new(self);
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < object.stretches
                && let Some(start) = starts.next()
            {
                under_way.push_back(Fetch(runtime.spawn(object.clone().stretch(start))));
            }
            let Some(next) = under_way.pop_front() else { break };
            let hashes = next.wait_unless(runtime, stop)?.ok_or(LargeError::Stopped)??;
            for (joined, hashes) in joined.iter_mut().zip(&hashes) {
                hashes.iter().try_for_each(|part| joined.push(part))?;
            }
        }
        Ok(joined.into_iter().map(|joined| joined.finish(size)).collect::<Result<_, _>>()?)
    }

    /// Reads and hashes the parts from an offset on, a piece of each at a time.
    async fn stretch(self: Arc<Self>, start: u64) -> Result<Vec<Vec<PartHashes>>, LargeError> {
        let end = self.source.size.min(start + self.in_stretch * self.length);
        let starts = (start..end).step_by(self.length as usize);
        let begin = |parts: &Parts| {
            starts.clone().map(|start| parts.start(start / self.length)).collect::<Result<Vec<_>, _>>()
        };
        let mut running = self.parts.iter().map(begin).collect::<Result<Vec<Vec<DigestPart>>, _>>()?;
        let stopped = |error: JoinError| RequestError::Network(error.to_string());
        // The first part is the longest.
        let mut pieces = (0..self.length.min(end - start)).step_by(self.piece() as usize);
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < self.pieces
                && let Some(within) = pieces.next()
            {
                under_way.push_back(Fetch(tokio::spawn(self.clone().fetch_pieces(start..end, within))));
            }
            let Some(mut next) = under_way.pop_front() else { break };
            let fetched = (&mut next.0).await.map_err(stopped)??;
            let object = self.clone();
            running = spawn_blocking(move || object.advance(running, &fetched)).await.map_err(stopped)??;
        }
        let end = |parts: Vec<DigestPart>| parts.into_iter().map(DigestPart::finish).collect();
        Ok(running.into_iter().map(end).collect::<Result<_, _>>()?)
    }

    /// How much of a part is read at once, in bytes.
    fn piece(&self) -> u64 {
        self.length.min(PIECE)
    }

    /// Reads the next piece of each part of a stretch.
    async fn fetch_pieces(
        self: Arc<Self>,
        stretch: Range<u64>,
        within: u64,
    ) -> Result<Vec<Vec<u8>>, RequestError> {
        let request = self.in_request * self.length;
        let ranges = stretch.clone().step_by(request as usize).map(|at| {
            let from = at + within;
            from..stretch.end.min(at + request).min(from + self.in_request * self.piece())
        });
        let ranges = ranges.filter(|range| !range.is_empty());
        try_join_all(ranges.map(|range| self.fetch(range))).await
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, RequestError> {
        let known = self.source.head.get(range.start as usize..range.end as usize);
        if let Some(known) = known {
            return Ok(known.to_vec());
        }
        let _turn = self.turns.acquire().await;
        self.source.fetch_in_turn(range).await
    }

    /// Adds the next piece to each part.
    fn advance(
        &self,
        mut running: Vec<Vec<DigestPart>>,
        fetched: &[Vec<u8>],
    ) -> Result<Vec<Vec<DigestPart>>, DigestError> {
        for (digest, parts) in self.parts.iter().zip(&mut running) {
            // Only the last part of the object is shorter, so only the last pieces may be none.
            let pieces = fetched.iter().flat_map(|bytes| bytes.chunks(self.piece() as usize));
            digest.advance(&mut parts.iter_mut().zip(pieces).collect::<Vec<_>>())?;
        }
        Ok(running)
    }
}
