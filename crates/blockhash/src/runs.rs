//! Cuts an image into runs: the blocks that one worker takes at a time.

use std::collections::VecDeque;
use std::ops::Range;

use verisum_image::{Extent, Image};

use crate::BlockHashError;
use crate::blocks::{Span, push_span};

/// A run ends early after this many changes between data and zeros, which bounds its description.
const MAX_SPANS: usize = 512;

/// Consecutive blocks of an image, for one worker.
#[derive(Debug, Default)]
pub(crate) struct BlockRun {
    /// Place among all runs, from 0.
    pub(crate) sequence: u64,
    /// Which blocks must be read and which are known to be zeros.
    pub(crate) layout: Vec<Span>,
    /// The byte ranges to read, in order. All are whole blocks but perhaps the very last.
    pub(crate) reads: Vec<Range<u64>>,
    /// End of the run in the image, in bytes.
    pub(crate) end: u64,
}

/// Walks an image from its start to its end.
pub(crate) struct RunPlanner<'a> {
    image: &'a dyn Image,
    block_len: u64,
    run_blocks: u64,
    length: u64,
    position: u64,
    sequence: u64,
    /// Known extents from `position` on.
    extents: VecDeque<Extent>,
    fetched: Vec<Extent>,
}

impl<'a> RunPlanner<'a> {
    pub(crate) fn new(image: &'a dyn Image, block_len: usize, run_blocks: usize) -> RunPlanner<'a> {
        RunPlanner {
            image,
            block_len: block_len as u64,
            run_blocks: run_blocks as u64,
            length: image.length(),
            position: 0,
            sequence: 0,
            extents: VecDeque::new(),
            fetched: Vec::new(),
        }
    }

    /// How many runs were given out.
    pub(crate) fn count(&self) -> u64 {
        self.sequence
    }

    /// Where the next run starts, in bytes.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes are left, zeros too.
    pub(crate) fn left(&self) -> u64 {
        self.length - self.position
    }

    /// Whether every run was given out.
    pub(crate) fn is_finished(&self) -> bool {
        self.position == self.length
    }

    /// Bytes of data in a run of the usual length.
    pub(crate) fn run_len(&self) -> u64 {
        self.run_blocks * self.block_len
    }

    /// The next run: up to so many times `run_blocks` blocks of data with all the zeros between them.
    pub(crate) fn next_run(&mut self, times: u64) -> Result<Option<BlockRun>, BlockHashError> {
        let mut run = BlockRun { sequence: self.sequence, ..BlockRun::default() };
        let mut room = self.run_blocks * times;
        while room > 0 && self.position < self.length && run.layout.len() < MAX_SPANS {
            let zeros = self.zero_blocks(self.position)?;
            if zeros > 0 {
                push_span(&mut run.layout, Span::Zeros(zeros));
                self.position += zeros * self.block_len;
                continue;
            }
            let start = self.position;
            let mut blocks = 0;
            while room > 0
                && self.position < self.length
                && (blocks == 0 || self.zero_blocks(self.position)? == 0)
            {
                self.position = (self.position + self.block_len).min(self.length);
                blocks += 1;
                room -= 1;
            }
            push_span(&mut run.layout, Span::Data(blocks));
            run.reads.push(start..self.position);
        }
        if run.layout.is_empty() {
            return Ok(None);
        }
        run.end = self.position;
        self.sequence += 1;
        Ok(Some(run))
    }

    /// How many whole blocks from `position` on are known to be zeros; there may be more.
    fn zero_blocks(&mut self, position: u64) -> Result<u64, BlockHashError> {
        while self.extents.front().is_some_and(|extent| extent.range.end <= position) {
            self.extents.pop_front();
        }
        let mut end = position;
        let mut next = 0;
        loop {
            if next == self.extents.len() {
                if end == self.length || end - position >= self.block_len {
                    break;
                }
                self.fetch(end)?;
            }
            let extent = &self.extents[next];
            if !extent.kind.is_zero() {
                break;
            }
            end = extent.range.end;
            next += 1;
        }
        Ok((end - position) / self.block_len)
    }

    fn fetch(&mut self, from: u64) -> Result<(), BlockHashError> {
        self.fetched.clear();
        self.image.extents(from..self.length, &mut self.fetched)?;
        debug_assert!(self.fetched.first().is_some_and(|extent| extent.range.start == from));
        self.extents.extend(self.fetched.drain(..));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_image::ExtentKind;

    /// An image of which only the extents matter.
    struct Map(Vec<Extent>);

    impl Image for Map {
        fn length(&self) -> u64 {
            self.0.last().map_or(0, |extent| extent.range.end)
        }

        /// One extent a call, the least that is allowed.
        fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::ImageError> {
            let found = self.0.iter().find(|extent| extent.range.end > range.start).unwrap();
            out.push(Extent::new(range.start..found.range.end.min(range.end), found.kind));
            Ok(())
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> Result<(), verisum_image::ImageError> {
            unreachable!("the planner reads nothing")
        }
    }

    fn plan(extents: &[(u64, ExtentKind)], block_len: usize, run_blocks: usize) -> Vec<BlockRun> {
        let mut start = 0;
        let map = extents.iter().map(|&(len, kind)| {
            start += len;
            Extent::new(start - len..start, kind)
        });
        let map = Map(map.collect());
        let mut planner = RunPlanner::new(&map, block_len, run_blocks);
        let mut runs = Vec::new();
        while let Some(run) = planner.next_run(1).unwrap() {
            runs.push(run);
        }
        assert!(planner.is_finished());
        assert_eq!(planner.count(), runs.len() as u64);
        runs
    }

    use ExtentKind::{Data, Zero};

    #[test]
    fn an_empty_image_has_no_runs() {
        assert!(plan(&[], 512, 16).is_empty());
    }

    #[test]
    fn holes_join_and_data_stops_at_the_run_length() {
        let runs = plan(&[(1 << 20, Zero), (1 << 20, Zero), (5 * 512, Data), (512, Zero)], 512, 4);
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0].layout, [Span::Zeros(4096), Span::Data(4)]);
        assert_eq!(runs[0].reads, vec![(2 << 20)..(2 << 20) + 4 * 512]);
        assert_eq!(runs[1].layout, [Span::Data(1), Span::Zeros(1)]);
    }

    #[test]
    fn a_block_that_is_partly_hole_is_read() {
        let runs = plan(&[(100, Data), (1436, Zero), (100, Data), (924, Zero)], 512, 16);
        assert_eq!(runs[0].layout, [Span::Data(1), Span::Zeros(2), Span::Data(1), Span::Zeros(1)]);
        assert_eq!(runs[0].reads, [0..512, 1536..2048]);
    }

    #[test]
    fn a_short_last_block_is_data_even_in_a_hole() {
        let runs = plan(&[(1000, Zero)], 512, 16);
        assert_eq!(runs[0].layout, [Span::Zeros(1), Span::Data(1)]);
        assert_eq!(runs[0].reads, vec![512..1000]);
    }
}
