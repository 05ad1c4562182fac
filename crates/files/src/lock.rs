//! Locks a mutex, also one whose holder panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock of a mutex. A thread that panicked while it had the lock does not matter: what mutexes guard here is whole at
/// all times.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
