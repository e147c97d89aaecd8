// SPDX-License-Identifier: MIT
//! Memory for a thread that needs some in order to free more.
//!
//! ```
//! slub::reserve::set(256 << 10)?;               // put aside
//! assert!(slub::reserve::bytes() >= 256 << 10);
//! let written = slub::reserve::with(|| {
//!     // What this thread allocates comes from the reserve when there is no other memory.
//!     vec![0u8; 100].len()
//! })?;
//! assert_eq!(written, 100);
//! slub::reserve::set(0)?;
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! The reserve is one for the process.  A [`Pool`](crate::Pool) is the same for objects of one
//! type.

use crate::error::Error;
use core::marker::PhantomData;
use slub_sys as sys;

/// Keeps that many bytes aside from now on, rounded up to blocks of 32 KiB; 0 gives all back.
///
/// # Errors
///
/// [`Error::OutOfMemory`]; [`Error::Deadlock`] in a signal handler that interrupted the
/// library.  The reserve is unchanged then.
pub fn set(bytes: usize) -> Result<(), Error> {
    // SAFETY: always allowed.
    Error::check(unsafe { sys::slub_reserve_set(bytes) })
}

/// How many bytes lie in the reserve now.
pub fn bytes() -> usize {
    // SAFETY: always allowed.
    unsafe { sys::slub_reserve_bytes() }
}

/// Calls `work`; what this thread allocates in it may be taken from the reserve.
///
/// These nest.  When `work` panics, the thread loses the right all the same.
///
/// # Errors
///
/// [`Error::NoSpace`]: nested more than 63 times; `work` is not called then.
pub fn with<R>(work: impl FnOnce() -> R) -> Result<R, Error> {
    // SAFETY: always allowed; Inside leaves it once.
    Error::check(unsafe { sys::slub_reserve_enter() })?;
    let _inside = Inside { _thread: PhantomData };
    Ok(work())
}

/// This thread has the right for as long as this lives.
struct Inside {
    _thread: PhantomData<*mut ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // SAFETY: this thread entered.
        unsafe { sys::slub_reserve_leave() };
    }
}
