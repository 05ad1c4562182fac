//! [`Results`]: an iterator over what another thread finds.
//!
//! Engines call back for each result. Here one runs on a thread, and what it tells is taken one by one: a full queue
//! keeps it waiting, and dropping the iterator ends it.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Stop;

/// How many results wait for whoever takes them; then the work waits too.
const WAITING: usize = 1024;

/// Results that come faster than this gather for as long: to be woken for each takes longer than to hash it.
const GATHER: Duration = Duration::from_micros(500);

/// The results of work that goes on meanwhile, and what all of it came to. Dropping it ends the work, and waits for
/// that.
///
/// ```
/// use std::sync::Arc;
/// use verisum_files::{Results, Stop};
///
/// # fn main() -> std::io::Result<()> {
/// let mut squares = Results::start("squares", &Arc::default(), |outlet| {
///     (0..).take_while(|number| outlet.give(number * number)).count()
/// })?;
/// assert_eq!(squares.by_ref().take(4).collect::<Vec<_>>(), [0, 1, 4, 9]);
/// drop(squares); // The work would go on for ever.
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Results<T, S> {
    /// None once nothing more is taken, so that the work notices.
    receiver: Option<Receiver<T>>,
    stop: Arc<Stop>,
    worker: Option<JoinHandle<S>>,
    summary: Option<S>,
    /// When a result was received last.
    last: Instant,
}

/// Where work puts its results.
#[derive(Debug)]
pub struct Outlet<T> {
    sender: SyncSender<T>,
    stop: Arc<Stop>,
}

impl<T> Outlet<T> {
    /// An outlet, and where its results come out. Where that is dropped, nobody takes more.
    pub fn new(stop: Arc<Stop>) -> (Outlet<T>, Receiver<T>) {
        Outlet::with_room(stop, WAITING)
    }

    fn with_room(stop: Arc<Stop>, waiting: usize) -> (Outlet<T>, Receiver<T>) {
        let (sender, receiver) = sync_channel(waiting);
        (Outlet { sender, stop }, receiver)
    }

    /// Gives a result away, once there is room for it. False where nobody takes more: the work is to end then.
    pub fn give(&self, result: T) -> bool {
        self.sender.send(result).is_ok()
    }

    /// Comes when nobody takes more, and with the stop that the work was started with.
    pub fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }
}

impl<T: Send + 'static, S: Send + 'static> Results<T, S> {
    /// Begins work on a thread of this name. It is to end early when `stop` is due.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        name: &str,
        stop: &Arc<Stop>,
        work: impl FnOnce(&Outlet<T>) -> S + Send + 'static,
    ) -> io::Result<Results<T, S>> {
        Results::start_ahead(name, stop, WAITING, work)
    }

    /// The same, with so many results that wait at most.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start_ahead(
        name: &str,
        stop: &Arc<Stop>,
        waiting: usize,
        work: impl FnOnce(&Outlet<T>) -> S + Send + 'static,
    ) -> io::Result<Results<T, S>> {
        let stop = Arc::new(Stop::within(stop.clone()));
        let (outlet, receiver) = Outlet::with_room(stop.clone(), waiting);
        let worker = thread::Builder::new().name(name.to_string()).spawn(move || work(&outlet))?;
        let last = Instant::now();
        Ok(Results { receiver: Some(receiver), stop, worker: Some(worker), summary: None, last })
    }
}

impl<T, S> Results<T, S> {
    /// The next result, if it comes within this time, for who has to look after something else meanwhile.
    pub fn next_within(&mut self, time: Duration) -> Poll<Option<T>> {
        self.next_until(Some(Instant::now() + time))
    }

    /// The next result, if it comes before the deadline that there may be.
    pub(crate) fn next_until(&mut self, deadline: Option<Instant>) -> Poll<Option<T>> {
        let Some(receiver) = &self.receiver else { return Poll::Ready(None) };
        let receive = || match deadline {
            Some(at) => receiver.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => receiver.recv().map_err(RecvTimeoutError::from),
        };
        let received = match receiver.try_recv() {
            Err(TryRecvError::Empty) if self.last.elapsed() < GATHER => {
                thread::sleep(GATHER);
                receive()
            }
            Err(_) => receive(),
            Ok(result) => Ok(result),
        };
        match received {
            Ok(result) => {
                self.last = Instant::now();
                Poll::Ready(Some(result))
            }
            Err(RecvTimeoutError::Timeout) => Poll::Pending,
            Err(RecvTimeoutError::Disconnected) => {
                self.receiver = None;
                self.join();
                Poll::Ready(None)
            }
        }
    }

    /// Waits for the end of the work. Who would take its results for all hears of a panic.
    fn join(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.summary = Some(worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    }

    /// What all came to; none before the last result was taken.
    pub fn summary(&self) -> Option<&S> {
        self.summary.as_ref()
    }

    /// Passes over the results that are left, and returns what all came to.
    ///
    /// # Panics
    /// The work panicked.
    pub fn finish(mut self) -> S {
        while self.next().is_some() {}
        self.join();
        self.summary.take().expect("work that ended without a panic returned something")
    }
}

impl<T, S> Iterator for Results<T, S> {
    type Item = T;

    /// # Panics
    /// The work panicked: its results are not all.
    fn next(&mut self) -> Option<T> {
        match self.next_until(None) {
            Poll::Ready(result) => result,
            Poll::Pending => None,
        }
    }
}

impl<T, S> Drop for Results<T, S> {
    fn drop(&mut self) {
        self.stop.request();
        self.receiver = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Work that counts up for ever, and tells how far it is.
    fn counting() -> (Results<usize, &'static str>, Arc<AtomicUsize>) {
        let given = Arc::new(AtomicUsize::new(0));
        let counter = given.clone();
        let work = move |outlet: &Outlet<usize>| {
            while outlet.give(counter.load(Ordering::SeqCst)) {
                counter.fetch_add(1, Ordering::SeqCst);
            }
            assert!(outlet.stop().is_due());
            "ended"
        };
        (Results::start("counting", &Arc::default(), work).unwrap(), given)
    }

    #[test]
    fn a_full_queue_keeps_the_work_waiting() {
        let (mut results, given) = counting();
        while given.load(Ordering::SeqCst) < WAITING {
            thread::yield_now();
        }
        for taken in 0..10 * WAITING {
            assert_eq!(results.next(), Some(taken));
            // What was taken, what waits, and what was just handed over.
            assert!(given.load(Ordering::SeqCst) <= taken + 1 + WAITING + 1);
        }
    }

    #[test]
    fn dropping_ends_the_work() {
        let (mut results, given) = counting();
        assert_eq!(results.next(), Some(0));
        drop(results);
        // The thread has ended: nothing else holds this.
        assert_eq!(Arc::strong_count(&given), 1);
    }

    #[test]
    fn dropping_ends_this_work_only() {
        let stop = Arc::new(Stop::default());
        drop(Results::<(), ()>::start("first", &stop, |_| ()).unwrap());
        assert!(!stop.is_due());
        let second = Results::<(), _>::start("second", &stop, |outlet| outlet.stop().clone()).unwrap();
        stop.request();
        assert!(second.finish().is_due());
    }

    #[test]
    fn the_summary_comes_after_the_last_result() {
        let mut results = Results::start("two", &Arc::default(), |outlet| {
            outlet.give(1);
            outlet.give(2);
            3
        })
        .unwrap();
        assert_eq!((results.next(), results.summary()), (Some(1), None));
        assert_eq!((results.next(), results.next()), (Some(2), None));
        assert_eq!((results.next(), results.summary()), (None, Some(&3)));
        assert_eq!(results.finish(), 3);
    }

    #[test]
    #[should_panic = "the engine broke"]
    fn a_panic_is_not_taken_for_the_end() {
        let results = Results::<u8, ()>::start("broken", &Arc::default(), |_| panic!("the engine broke"));
        for _ in results.unwrap() {}
    }
}
