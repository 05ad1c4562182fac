//! Walks the guest's view of a chain: which of its files each part comes from.

use std::collections::VecDeque;
use std::ops::Range;

use super::Link;
use super::clusters::{Mapping, Run};
use crate::{Extent, ImageError};

/// Where the bytes of a piece come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Nowhere: they are zeros.
    Zero,
    /// A qcow2 file of the chain. Never [`Mapping::Unallocated`].
    Node(usize, Mapping),
    /// The last of the chain, and what that says of them.
    Other(Extent),
}

/// A part of the guest's view that comes from one place.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<u64>,
    pub(crate) source: Source,
}

/// What each file last said, so that it is not asked again for each piece of those behind it.
pub(crate) struct Walk<'a> {
    links: &'a [Link],
    known: Vec<Known>,
}

#[derive(Clone, Debug)]
enum Known {
    Nothing,
    Run(Run),
    Extents(VecDeque<Extent>),
}

impl<'a> Walk<'a> {
    pub(crate) fn new(links: &'a [Link]) -> Walk<'a> {
        Walk { links, known: vec![Known::Nothing; links.len()] }
    }

    /// The piece at the start of `range`, which is not empty. Ranges come in ascending order.
    pub(crate) fn next_piece(&mut self, range: Range<u64>) -> Result<Piece, ImageError> {
        let start = range.start;
        let mut end = range.end;
        for (index, link) in self.links.iter().enumerate() {
            // What lies beyond the end of a file is zeros, whatever backs that.
            if start >= link.length() {
                break;
            }
            end = end.min(link.length());
            match self.look(index, start..end)? {
                Source::Node(_, Mapping::Unallocated) => end = end.min(self.known_end(index)),
                source => return Ok(Piece { range: start..end.min(self.known_end(index)), source }),
            }
        }
        Ok(Piece { range: start..end, source: Source::Zero })
    }

    /// What a link says of the byte at `range.start`.
    fn look(&mut self, index: usize, range: Range<u64>) -> Result<Source, ImageError> {
        let start = range.start;
        let known = &mut self.known[index];
        match &self.links[index] {
            Link::Qcow2(node) => {
                if let Known::Run(run) = known
                    && run.range.contains(&start)
                {
                    return Ok(Source::Node(index, run.at(start)));
                }
                let run = node.run_at(range)?;
                let mapping = run.mapping;
                *known = Known::Run(run);
                Ok(Source::Node(index, mapping))
            }
            Link::Other(image) => {
                let mut extents = match std::mem::replace(known, Known::Nothing) {
                    Known::Extents(extents) => extents,
                    _ => VecDeque::new(),
                };
                while extents.front().is_some_and(|extent| extent.range.end <= start) {
                    extents.pop_front();
                }
                if !extents.front().is_some_and(|extent| extent.range.contains(&start)) {
                    let mut found = Vec::new();
                    image.extents(range.clone(), &mut found)?;
                    extents = found.into();
                }
                let Some(first) = extents.front() else { unreachable!("a range has an extent") };
                let source = Source::Other(part(first, start..range.end.min(first.range.end)));
                *known = Known::Extents(extents);
                Ok(source)
            }
        }
    }

    /// Where the answer ends that a link gave last.
    fn known_end(&self, index: usize) -> u64 {
        match &self.known[index] {
            Known::Nothing => 0,
            Known::Run(run) => run.range.end,
            Known::Extents(extents) => extents.front().map_or(0, |extent| extent.range.end),
        }
    }
}

/// A part of an extent.
fn part(extent: &Extent, range: Range<u64>) -> Extent {
    let skipped = range.start - extent.range.start;
    let place = match extent.kind {
        crate::ExtentKind::Compressed if range != extent.range => None,
        _ => extent.place.map(|place| crate::ExtentLocation { offset: place.offset + skipped, ..place }),
    };
    Extent { range, kind: extent.kind, place }
}
