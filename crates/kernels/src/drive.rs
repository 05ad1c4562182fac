//! Keeps lanes busy: passes messages of any lengths through the stages of a kernel.
//!
//! Lanes run together for as many blocks as all of them have; whoever runs out
//! gets more, or the next message. When too few are left for the width of the
//! stage, they move on to a narrower one.

use core::array;

use crate::arch::Stage;
use crate::spec::{Spec, TAIL_LEN};
use crate::state::{MAX_LANES, State};

/// Where messages come from and digests go.
///
/// A slot is a place for one message in progress; there are as many as lanes.
///
/// # Safety
///
/// The bytes that [`Supply::more`] returns must stay valid for reads until the
/// next call for the same slot, or the end of [`drive`].
pub(crate) unsafe trait Supply {
    /// Puts the next message into a slot, or returns false if there is none and
    /// never will be.
    fn start(&mut self, slot: usize) -> bool;

    /// Returns the next bytes of the message in a slot.
    fn more(&mut self, slot: usize) -> More;

    /// Takes the digest of the message in a slot, which is then free.
    fn finish(&mut self, slot: usize, digest: &[u8]);
}

/// The next bytes of a message.
pub(crate) enum More {
    /// Whole blocks, at least one, which are not the last of the message.
    Blocks { start: *const u8, blocks: usize },
    /// What is left at the end, at most a block, and the length of the whole.
    End { start: *const u8, len: usize, total: u64 },
}

#[derive(Clone, Copy)]
struct Lane {
    slot: usize,
    live: bool,
    /// Whether the blocks are the last.
    ending: bool,
    next: *const u8,
    blocks: usize,
}

impl Lane {
    fn idle(slot: usize) -> Lane {
        Lane { slot, live: false, ending: false, next: core::ptr::null(), blocks: 0 }
    }
}

/// Where each lane reads. An idle lane reads what another reads, for nothing.
#[inline]
fn pointers(lanes: &[Lane], any: *const u8) -> [*const u8; MAX_LANES] {
    let mut pointers = [any; MAX_LANES];
    for (pointer, lane) in pointers.iter_mut().zip(lanes) {
        if lane.live {
            *pointer = lane.next;
        }
    }
    pointers
}

/// Hashes all messages of a supply.
///
/// `expected` is how many there are. The stages are those of a
/// kernel of the algorithm, widest first.
pub(crate) fn drive(spec: &Spec, mut stages: &[Stage], expected: usize, supply: &mut impl Supply) {
    while stages.len() > 1 && expected < stages[0].worth {
        stages = &stages[1..];
    }
    let mut lanes: [Lane; MAX_LANES] = array::from_fn(Lane::idle);
    let mut state: State = State::new();
    let mut tails = [[0; TAIL_LEN]; MAX_LANES];
    let mut digest = [0; 64];
    let digest = &mut digest[..spec.digest_len];
    let mut exhausted = false;
    // Lanes of a wider stage that wait to be resumed, and their states.
    let mut parked = lanes;
    let mut parked_state = state.clone();
    let mut parked_next = 0;
    let mut parked_end = 0;

    loop {
        let width = stages[0].lanes;
        let mut live = 0;
        let mut run = usize::MAX;
        let mut any = core::ptr::null();
        for (index, lane) in lanes[..width].iter_mut().enumerate() {
            while !lane.live || lane.blocks == 0 {
                if !lane.live {
                    while parked_next < parked_end && !parked[parked_next].live {
                        parked_next += 1;
                    }
                    if parked_next < parked_end {
                        *lane = parked[parked_next];
                        let from = (parked_end, parked_next);
                        state.copy_lane(spec, (width, index), &parked_state, from);
                        parked_next += 1;
                    } else if !exhausted && supply.start(lane.slot) {
                        state.start(spec, width, index);
                        *lane = Lane { live: true, ending: false, blocks: 0, ..*lane };
                    } else {
                        exhausted = true;
                        break;
                    }
                } else if lane.ending {
                    state.write_digest(spec, width, index, digest);
                    lane.live = false;
                    supply.finish(lane.slot, digest);
                } else {
                    match supply.more(lane.slot) {
                        More::Blocks { start, blocks } => {
                            lane.next = start;
                            lane.blocks = blocks;
                        }
                        More::End { start, len, total } => {
                            // SAFETY: the supply promises the bytes.
                            let rest = unsafe { core::slice::from_raw_parts(start, len) };
                            let tail = &mut tails[lane.slot];
                            lane.blocks = spec.write_tail(rest, total, tail);
                            lane.next = tail.as_ptr();
                            lane.ending = true;
                            state.announce_last(spec, width, index, total);
                        }
                    }
                }
            }
            if lane.live {
                live += 1;
                run = run.min(lane.blocks);
                any = lane.next;
            }
        }
        if live == 0 {
            return;
        }
        let waiting = parked[parked_next..parked_end].iter().filter(|lane| lane.live).count();
        if exhausted && live + waiting < stages[0].worth {
            // The stage after the last is never asked for: its worth is 1.
            stages = &stages[1..];
            parked = lanes;
            parked_state = state.clone();
            parked_next = 0;
            parked_end = width;
            lanes.iter_mut().for_each(|lane| lane.live = false);
            continue;
        }

        let pointers = pointers(&lanes[..width], any);
        // SAFETY: a `Kernel`, whose stages these are, exists only where the processor has its level.
        // `State` has the alignment and room for any stage. Every lane, idle or
        // not, points to `run` blocks or more, of a tail or of the supply.
        unsafe { (stages[0].compress)(state.as_mut_ptr(), pointers.as_ptr(), run) };
        for lane in lanes[..width].iter_mut().filter(|lane| lane.live) {
            lane.blocks -= run;
            lane.next = lane.next.wrapping_add(run * spec.block_len);
        }
    }
}
