//! Work on several sets at once.

use std::sync::Mutex;
use std::sync::mpsc::sync_channel;

/// Does `work` on whatever `next` gives, on several threads, and hands the results to `take` as they come, until
/// that says to stop.
pub(crate) fn each<T: Send, R: Send, E: Send>(
    threads: usize,
    next: impl FnMut() -> Option<T> + Send,
    work: impl Fn(T) -> Result<R, E> + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let next = Mutex::new(next);
    let work = &work;
    std::thread::scope(|scope| {
        let (send, results) = sync_channel(threads.max(1));
        for _ in 0..threads.max(1) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    // A thread that panicked ends the process's work at the end of the scope.
                    let Some(item) = next.lock().ok().and_then(|mut next| next()) else { return };
                    let result = work(item);
                    let has_failed = result.is_err();
                    if send.send(result).is_err() || has_failed {
                        return;
                    }
                }
            });
        }
        drop(send);
        // Whoever still works finds nobody to tell, and ends.
        for result in &results {
            take(result?)?;
        }
        Ok(())
    })
}
