//! Puts answers of several threads back into the order of their requests.

use std::ops::ControlFlow;
use std::sync::Mutex;

use super::{FileAnswer, PlaceEvent, Sink};
use crate::in_order::InOrder;
use crate::lock;

/// Takes numbered answers, and gives them to a sink.
pub(super) struct OrderedSink<'a> {
    sink: Sink<'a>,
    /// None where they are given as they come.
    state: Option<Mutex<OrderedSinkState>>,
}

struct OrderedSinkState {
    waiting: InOrder<FileAnswer>,
    is_over: bool,
}

impl<'a> OrderedSink<'a> {
    pub(super) fn new(sink: Sink<'a>, in_order: bool) -> OrderedSink<'a> {
        let state =
            in_order.then(|| Mutex::new(OrderedSinkState { waiting: InOrder::new(), is_over: false }));
        OrderedSink { sink, state }
    }

    /// Breaks when nothing more is wanted.
    pub(super) fn give(&self, number: u64, answer: FileAnswer) -> ControlFlow<()> {
        let give = |answer| match (self.sink)(PlaceEvent::Answer(answer)) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let Some(state) = &self.state else { return give(answer) };
        let mut state = lock(state);
        state.waiting.put(number, answer);
        while let Some(answer) = state.waiting.take() {
            state.is_over = state.is_over || give(answer).is_break();
        }
        if state.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
