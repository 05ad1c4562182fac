//! Catches panics of libraries at damaged bytes, and keeps a program from printing them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

thread_local! {
    static IS_DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Calls a library that panics at some damaged bytes. None if it did: then nothing that it worked on is to be used
/// again.
pub fn decoded<T>(call: impl FnOnce() -> T) -> Option<T> {
    let before = IS_DECODING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_DECODING.set(before);
    result.ok()
}

/// From now on this process prints nothing of panics that [`decoded`] catches. Other panics are told as before.
pub fn hide_caught_panics() {
    let tell = take_hook();
    set_hook(Box::new(move |panic| {
        if !IS_DECODING.get() {
            tell(panic);
        }
    }));
}
