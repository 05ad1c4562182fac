//! Hashes messages in progress side by side, each by its next bytes.

use crate::arch::Stage;
use crate::kernel::Kernel;
use crate::single::Single;
use crate::state::{MAX_LANES, State};

impl Kernel {
    /// Adds bytes to each message, as [`Single::update`] does one by one.
    ///
    /// Whoever reads many files decides here, call by call, which of them go together, and the bytes are
    /// hashed where they are. Pieces of one length, as many as [`Kernel::lanes`] and of some tens of KiB,
    /// are hashed fastest.
    ///
    /// # Panics
    ///
    /// If a message is not of this kernel's algorithm.
    pub fn update_batch(self, messages: &mut [(&mut Single, &[u8])]) {
        let stages = self.tuned(messages.iter().map(|(_, bytes)| bytes.len()).sum());
        for group in messages.chunks_mut(self.lanes()) {
            for (message, bytes) in group.iter_mut() {
                assert_eq!(message.spec.algorithm, self.spec.algorithm, "the algorithm of a message");
                *bytes = message.take_body(bytes);
            }
            while self.advance(stages, group) {}
        }
    }

    /// Compresses as many blocks as the messages that have any have in common; false if none has.
    fn advance(self, stages: &[Stage], group: &mut [(&mut Single, &[u8])]) -> bool {
        let spec = self.spec;
        let waiting = group.iter().filter(|(_, body)| !body.is_empty()).count();
        if waiting == 0 {
            return false;
        }
        let stage = stages.iter().find(|stage| waiting >= stage.worth && stage.lanes > 1);
        let Some(stage) = stage else {
            for (message, body) in group {
                message.compress(body);
                *body = &[];
            }
            return false;
        };
        let width = stage.lanes;
        let mut state: State = State::new();
        let mut pointers = [core::ptr::null(); MAX_LANES];
        let mut blocks = usize::MAX;
        let mut lanes = 0;
        let mut members = [0; MAX_LANES];
        for (index, (message, body)) in group.iter().enumerate() {
            if !body.is_empty() && lanes < width {
                state.copy_lane(spec, (width, lanes), &message.state, (1, 0));
                pointers[lanes] = body.as_ptr();
                blocks = blocks.min(body.len() / spec.block_len);
                members[lanes] = index;
                lanes += 1;
            }
        }
        // An idle lane reads what another reads, for nothing.
        let any = pointers[0];
        pointers[lanes..].fill(any);
        // SAFETY: a `Kernel`, whose stages these are, exists only where the processor has its level. `State`
        // has the alignment and room for any stage. Every lane, idle or not, points to that many blocks of a slice.
        unsafe { (stage.compress)(state.as_mut_ptr(), pointers.as_ptr(), blocks) };
        for (lane, index) in members[..lanes].iter().enumerate() {
            let (message, body) = &mut group[*index];
            message.state.copy_lane(spec, (1, 0), &state, (width, lane));
            *body = &body[blocks * spec.block_len..];
        }
        true
    }
}
