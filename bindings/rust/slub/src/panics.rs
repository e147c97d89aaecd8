// SPDX-License-Identifier: MIT
//! Calls from C into closures: a panic must not get into C's frames.

/// What `call` returns, or `otherwise` if it panics.
#[cfg(feature = "std")]
pub(crate) fn caught<R>(otherwise: R, call: impl FnOnce() -> R) -> R {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => value,
        Err(payload) => {
            // Its drop is somebody's code, too.
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                core::mem::forget(second);
            }
            otherwise
        }
    }
}

/// Without std there is nothing to catch it with: a second panic aborts.
#[cfg(not(feature = "std"))]
pub(crate) fn caught<R>(_otherwise: R, call: impl FnOnce() -> R) -> R {
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            panic!("a closure that libslub calls panicked");
        }
    }
    let abort = Abort;
    let value = call();
    core::mem::forget(abort);
    value
}
