// SPDX-License-Identifier: MIT
//! Calls from C into closures: a panic must not get into C's frames.
//!
//! A closure that C calls for its caller, as a visitor, panics in the end in that caller: [`Kept`].
//! One that C calls in the middle of somebody's allocation, as a shrinker's, must not: nothing there
//! expects it.  It is caught, and counts as "nothing was done": [`caught`].  Without std neither
//! can be, and the program ends.

/// What `call` returns; if it panics, what `otherwise` makes of it.
#[cfg(feature = "std")]
pub(crate) fn caught<R>(otherwise: impl FnOnce() -> R, call: impl FnOnce() -> R) -> R {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => value,
        Err(payload) => {
            // Its drop is somebody's code, too.
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                core::mem::forget(second);
            }
            otherwise()
        }
    }
}

/// Without std there is nothing to catch it with: a second panic aborts.
#[cfg(not(feature = "std"))]
pub(crate) fn caught<R>(_otherwise: impl FnOnce() -> R, call: impl FnOnce() -> R) -> R {
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

/// What a visitor panicked with, until C has returned to its caller.
#[derive(Default)]
pub(crate) struct Kept {
    #[cfg(feature = "std")]
    payload: Option<std::boxed::Box<dyn core::any::Any + Send>>,
}

impl Kept {
    /// What `call` returns, or `otherwise` if it panics.
    #[cfg(feature = "std")]
    pub(crate) fn call<R>(&mut self, otherwise: R, call: impl FnOnce() -> R) -> R {
        use std::panic::{catch_unwind, AssertUnwindSafe};

        // Whoever catches what resume() goes on with sees what the closure left half done: then it
        // is as if there were no C in between.
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(value) => value,
            Err(payload) => {
                self.payload = Some(payload);
                otherwise
            }
        }
    }

    #[cfg(not(feature = "std"))]
    pub(crate) fn call<R>(&mut self, otherwise: R, call: impl FnOnce() -> R) -> R {
        caught(|| otherwise, call)
    }

    /// Goes on with the panic, if there was one.
    pub(crate) fn resume(self) {
        #[cfg(feature = "std")]
        if let Some(payload) = self.payload {
            std::panic::resume_unwind(payload);
        }
    }
}
