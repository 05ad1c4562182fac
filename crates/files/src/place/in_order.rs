//! Puts answers of several threads back into the order of their requests.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::{FileAnswer, PlaceEvent, Sink};

/// Takes numbered answers, and gives them to a sink.
pub(super) struct InOrder<'a> {
    sink: Sink<'a>,
    /// None where they are given as they come.
    state: Option<Mutex<State>>,
}

struct State {
    /// The number of the first answer that was not given.
    next: u64,
    /// From there on, those that came.
    waiting: VecDeque<Option<FileAnswer>>,
    is_over: bool,
}

impl<'a> InOrder<'a> {
    pub(super) fn new(sink: Sink<'a>, in_order: bool) -> InOrder<'a> {
        let state = in_order.then(|| Mutex::new(State { next: 0, waiting: VecDeque::new(), is_over: false }));
        InOrder { sink, state }
    }

    /// Breaks when nothing more is wanted.
    pub(super) fn give(&self, number: u64, answer: FileAnswer) -> ControlFlow<()> {
        let give = |answer| match (self.sink)(PlaceEvent::Answer(answer)) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let Some(state) = &self.state else { return give(answer) };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let index = (number - state.next) as usize;
        if state.waiting.len() <= index {
            state.waiting.resize_with(index + 1, || None);
        }
        state.waiting[index] = Some(answer);
        while let Some(Some(answer)) = state.waiting.front_mut().map(Option::take) {
            state.waiting.pop_front();
            state.next += 1;
            if !state.is_over {
                state.is_over = give(answer).is_break();
            }
        }
        if state.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
