//! Errors that can be copied and compared, as reports are that hold them.

use std::error::Error;
use std::ops::Deref;
use std::sync::Arc;

/// An error that several may hold. Two are equal if they say the same. It can be used as the error itself, but
/// `downcast_ref` of a `source()` has to ask for a `SharedError`.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SharedError<E: Error + 'static>(Arc<E>);

impl<E: Error + 'static> From<E> for SharedError<E> {
    fn from(error: E) -> SharedError<E> {
        SharedError(Arc::new(error))
    }
}

impl<E: Error + 'static> Clone for SharedError<E> {
    fn clone(&self) -> SharedError<E> {
        SharedError(self.0.clone())
    }
}

impl<E: Error + 'static> PartialEq for SharedError<E> {
    fn eq(&self, other: &SharedError<E>) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl<E: Error + 'static> Eq for SharedError<E> {}

impl<E: Error + 'static> Deref for SharedError<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.0
    }
}
