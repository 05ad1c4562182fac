//! Puts the results of several threads back into the order in which the work began.

use std::collections::VecDeque;

/// Numbered values, of which each waits for those before it.
#[derive(Debug)]
pub(crate) struct InOrder<T> {
    /// The number of the first value that was not taken.
    next: u64,
    /// From there on, those that came.
    waiting: VecDeque<Option<T>>,
}

impl<T> InOrder<T> {
    pub(crate) fn new() -> InOrder<T> {
        InOrder { next: 0, waiting: VecDeque::new() }
    }

    /// How many places are kept, for values that came and that did not.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps a place after all others, and returns its number.
    pub(crate) fn add(&mut self, value: Option<T>) -> u64 {
        self.waiting.push_back(value);
        self.next + self.waiting.len() as u64 - 1
    }

    /// Puts a value in its place.
    pub(crate) fn put(&mut self, number: u64, value: T) {
        let place = (number - self.next) as usize;
        if self.waiting.len() <= place {
            self.waiting.resize_with(place + 1, || None);
        }
        self.waiting[place] = Some(value);
    }

    /// Takes the next value, if it came.
    pub(crate) fn take(&mut self) -> Option<T> {
        let value = self.waiting.front_mut()?.take()?;
        self.waiting.pop_front();
        self.next += 1;
        Some(value)
    }

    /// Takes the first value that came, whatever is missing before it.
    pub(crate) fn take_any(&mut self) -> Option<T> {
        while let Some(place) = self.waiting.pop_front() {
            self.next += 1;
            if place.is_some() {
                return place;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_wait_for_those_before_them() {
        let mut order = InOrder::new();
        assert_eq!(order.add(None), 0);
        assert_eq!(order.add(Some('b')), 1);
        assert_eq!((order.take(), order.len()), (None, 2));
        order.put(3, 'd');
        order.put(0, 'a');
        assert_eq!((order.take(), order.take(), order.take()), (Some('a'), Some('b'), None));
        assert_eq!((order.take_any(), order.take_any()), (Some('d'), None));
        assert_eq!(order.add(Some('e')), 4);
        assert_eq!(order.take(), Some('e'));
    }
}
