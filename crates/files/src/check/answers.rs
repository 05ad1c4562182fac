//! The results of a check, in the order of the manifest.

use std::ops::ControlFlow;

use super::Event;
use crate::in_order::InOrder;

/// Answers that wait for those before them.
pub(super) struct Answers<'a> {
    slots: InOrder<Event>,
    tell: &'a mut (dyn FnMut(Event) -> ControlFlow<()> + Send),
    ended: bool,
}

impl<'a> Answers<'a> {
    /// Answers for somebody who breaks to hear no more.
    pub(super) fn new(tell: &'a mut (dyn FnMut(Event) -> ControlFlow<()> + Send)) -> Answers<'a> {
        Answers { slots: InOrder::new(), tell, ended: false }
    }

    /// How many places are kept.
    pub(super) fn waiting(&self) -> usize {
        self.slots.len()
    }

    /// Whether nobody hears any more.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Keeps a place in the order.
    pub(super) fn slot(&mut self, event: Option<Event>) -> u64 {
        self.slots.add(event)
    }

    /// Fills places, and tells all that has nothing missing before it.
    pub(super) fn give(&mut self, events: Vec<(u64, Event)>) -> ControlFlow<()> {
        for (slot, event) in events {
            self.slots.put(slot, event);
        }
        while let Some(event) = self.slots.take() {
            self.ended = self.ended || (self.tell)(event).is_break();
        }
        match self.ended {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
