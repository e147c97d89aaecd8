// SPDX-License-Identifier: MIT
//! Memory pressure: memory goes back before the system takes the process.
//!
//! In an event loop, [`Watch`] is a descriptor to wait for:
//!
//! ```
//! use slub::pressure::Watch;
//!
//! match Watch::new() {
//!     Ok(watch) => {
//!         // The loop waits for watch.as_raw_fd() or watch.as_fd() to be readable; then:
//!         let _events = watch.handle()?;
//!     }
//!     Err(error) => assert_eq!(error.errno(), 2), // ENOENT: the system tells nothing
//! }
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! Without a loop a thread of the library does it:
//!
//! ```
//! let thread = slub::pressure::Thread::start()?;
//! // ... the program ...
//! thread.stop()?;
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! Each event empties the lists of the CPUs, gives free memory back to the system, and asks every
//! [`Shrinker`](crate::Shrinker) once.

use crate::error::Error;
use crate::roomy::Roomy;
use core::mem::forget;
use slub_sys as sys;

pub use slub_sys::slub_pressure_stats as Stats;

const EEXIST: i32 = 17;

/// What the kernel says of memory, as one descriptor that is readable when memory is short.
///
/// The descriptor is the library's, and the same for all of these: it is not read and not closed,
/// and dropping a `Watch` leaves it open.  A forked child makes a `Watch` anew.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    fd: sys::c_int,
}

impl Watch {
    /// Opens what there is to watch, if that has not been done.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`ENOENT`): there is nothing to watch; [`Error::TryAgain`]: another thread
    /// opens it just now; [`Error::OutOfMemory`], and [`Error::Other`] with what the system says.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: always allowed.
        let fd = unsafe { sys::slub_pressure_fd() };
        Error::check(fd.min(0))?;
        Ok(Watch { fd })
    }

    /// Reacts to what the descriptor shows, and says how many events that were.
    ///
    /// Does nothing if there is nothing.  Calls shrinkers, for 100 ms or a little more.
    ///
    /// # Errors
    ///
    /// [`Error::Other`]: `EBADF`, the program closed the descriptor, and there is one with another
    /// number now: [`Watch::new`]; `EINVAL`, in a forked child that has no `Watch` of its own.
    /// [`Error::Deadlock`]: in a signal handler that interrupted the library.
    #[must_use = "the program may have closed the descriptor, and a loop waits for the wrong one"]
    pub fn handle(&self) -> Result<u32, Error> {
        // SAFETY: always allowed.
        let events = unsafe { sys::slub_pressure_handle() };
        Error::check(events.min(0))?;
        Ok(events as u32)
    }

    /// The descriptor's number.
    pub fn as_raw(&self) -> sys::c_int {
        self.fd
    }
}

#[cfg(feature = "std")]
impl std::os::unix::io::AsRawFd for Watch {
    fn as_raw_fd(&self) -> std::os::unix::io::RawFd {
        self.fd
    }
}

#[cfg(feature = "std")]
impl std::os::unix::io::AsFd for Watch {
    fn as_fd(&self) -> std::os::unix::io::BorrowedFd<'_> {
        // SAFETY: it is not -1, and the library keeps it open until the process ends.
        unsafe { std::os::unix::io::BorrowedFd::borrow_raw(self.fd) }
    }
}

/// A thread of the library that reacts to memory pressure, and gives back what lies free when
/// the heap is at rest.
///
/// It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the thread ends when it is dropped, which is now"]
pub struct Thread {
    _private: (),
}

impl Thread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`EEXIST`): it runs already, as with `SLUB_PRESSURE=thread`;
    /// [`Error::TryAgain`]: no thread can be made; those of [`Watch::new`] but `ENOENT`.
    pub fn start() -> Result<Self, Error> {
        // SAFETY: always allowed.
        match unsafe { sys::slub_pressure_start_thread() } {
            exists if exists == -EEXIST => Err(Error::Other(EEXIST)),
            result => Error::check(result).map(|()| Thread { _private: () }),
        }
    }

    /// Ends the thread, after the walk over shrinkers that it may be in.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`ESRCH`): it does not run, as in a forked child.  [`Error::Deadlock`]:
    /// called by that thread, in a shrinker; the thread then runs until the process ends.
    pub fn stop(self) -> Result<(), Error> {
        forget(self);
        // SAFETY: always allowed.
        Error::check(unsafe { sys::slub_pressure_stop_thread() })
    }

    /// Lets the thread run until the process ends.
    pub fn detach(self) {
        forget(self);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: always allowed.
        unsafe { sys::slub_pressure_stop_thread() };
    }
}

/// What was seen and done since the start.
pub fn stats() -> Stats {
    let mut roomy = Roomy::<Stats>::default();
    let at: *mut Roomy<Stats> = &mut roomy;
    // SAFETY: there is room.
    unsafe { sys::slub_pressure_stats(at.cast()) };
    roomy.counts
}
