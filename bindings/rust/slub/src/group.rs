// SPDX-License-Identifier: MIT
//! Limits inside a process, for a tenant or a request.
//!
//! ```
//! use slub::{group::Limit, Group};
//!
//! #[global_allocator]
//! static ALLOCATOR: slub::Slub = slub::Slub;
//!
//! let tenant = Group::new("tenant7")?;
//! tenant.set_limit(Limit::Max, Some(8 << 20))?;
//! let kept = tenant.run(|| vec![0u8; 100_000])?; // charged to the tenant
//! assert!(tenant.stats().usage >= 100_000);
//! drop(kept);                                    // given back, wherever that is
//! assert_eq!(tenant.stats().usage, 0);
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! A request beyond [`Limit::Max`] fails as one without memory: [`Vec::try_reserve`]
//! and [`Cache::alloc`](crate::Cache::alloc) return an error, and what cannot, such
//! as `vec!`, ends the program.  [`Group::run_or_end`] and [`follow_or_end`] end the
//! work instead ([`overdraft`](crate::overdraft)).
//!
//! [`Vec::try_reserve`]: https://doc.rust-lang.org/std/vec/struct.Vec.html#method.try_reserve

use crate::cache::c_name;
use crate::error::Error;
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{self, NonNull};
use slub_sys as sys;

pub use crate::follow::{follow, Follow};
#[cfg(feature = "std")]
pub use crate::overdraft::{follow_or_end, is_overdrawn, refuse, FollowOrEnd};
pub use slub_sys::slub_group_memory as Memory;

/// An account of memory, with limits.  Groups form a tree; what is charged to one
/// counts for all above it.
///
/// Dropping it deletes the group; what is still charged to it, its parent is
/// charged with.  While there are groups below it, it stays, for good.
#[repr(transparent)]
pub struct Group {
    raw: NonNull<sys::slub_group>,
}

// SAFETY: the C functions may be called by any thread.
unsafe impl Send for Group {}
// SAFETY: as above.
unsafe impl Sync for Group {}

/// The limits that a group has, each in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Up to this, pressure elsewhere leaves the group's shrinkers alone.
    Low = sys::SLUB_GROUP_LOW as isize,
    /// Above this, who allocates reclaims first, and is slowed down.
    High = sys::SLUB_GROUP_HIGH as isize,
    /// Never more than this: reclaim, and then no memory.
    Max = sys::SLUB_GROUP_MAX as isize,
}

/// What can be said of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes charged now.
    pub usage: usize,
    /// The most there ever was, what is charged in advance included.
    pub peak: usize,
    /// Requests refused for this group's maximum.
    pub failures: u64,
    /// Times the maximum was in the way.
    pub max_hits: u64,
    /// Times usage was found above [`Limit::High`].
    pub high_hits: u64,
    /// Groups directly below it.
    pub children: u32,
    /// Groups above it.
    pub depth: u32,
}

impl Group {
    /// Makes a group below the root.
    ///
    /// # Errors
    ///
    /// [`Error::BadName`], [`Error::NoSpace`] (65,535 groups are possible),
    /// [`Error::OutOfMemory`].
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::create(name, ptr::null_mut())
    }

    /// Makes a group below `parent`.
    ///
    /// # Errors
    ///
    /// As [`Group::new`]; [`Error::Other`] (`E2BIG`): more than 32 above it.
    pub fn below(name: &str, parent: &Group) -> Result<Self, Error> {
        Self::create(name, parent.as_raw())
    }

    fn create(name: &str, parent: *mut sys::slub_group) -> Result<Self, Error> {
        let name = c_name(name)?;
        // SAFETY: the name is terminated, and copied; the parent is a group.
        let raw = unsafe { sys::slub_group_create(name.as_ptr().cast(), parent) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Group { raw }),
            None => Err(Error::from_errno(sys::errno())),
        }
    }

    /// Calls `work`; what this thread allocates in it is charged to the group.
    ///
    /// These nest.  When `work` panics, the thread leaves the group all the same.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`]: more than 8 nested; `work` is not called then.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> Result<R, Error> {
        // SAFETY: the group lives; Inside leaves it once, in the reverse order
        // for closures nest.
        Error::check(unsafe { sys::slub_group_enter(self.as_raw()) })?;
        let _inside = Inside { group: self.raw, _thread: PhantomData };
        Ok(work())
    }

    /// Calls `work` outside of all groups but the root: for what a tenant causes and does not
    /// own, as a cache that the whole process uses.
    ///
    /// # Errors
    ///
    /// As [`Group::run`]; [`Error::OutOfMemory`]: no group was ever made, and cannot be.
    pub fn run_outside<R>(work: impl FnOnce() -> R) -> Result<R, Error> {
        // SAFETY: always allowed; the root lives as long as the process.
        let group = NonNull::new(unsafe { sys::slub_group_root() }).ok_or(Error::OutOfMemory)?;
        // SAFETY: as in run().
        Error::check(unsafe { sys::slub_group_enter(group.as_ptr()) })?;
        let _inside = Inside { group, _thread: PhantomData };
        Ok(work())
    }

    /// The future `future`, with its allocations charged to the group.
    ///
    /// The thread that polls is in the group for the time of the poll, so the group follows the
    /// task from thread to thread, and other tasks of a thread pay for themselves.
    ///
    /// ```
    /// use slub::Group;
    /// # use std::{future::Future, sync::Arc, task::{Context, Poll, Wake, Waker}};
    /// # struct Nobody;
    /// # impl Wake for Nobody { fn wake(self: Arc<Self>) {} }
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let waker = Waker::from(Arc::new(Nobody));
    /// #     let mut future = Box::pin(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
    /// #             Poll::Ready(output) => return output,
    /// #             Poll::Pending => {}
    /// #         }
    /// #     }
    /// # }
    ///
    /// async fn answer() -> Vec<u8> { vec![0; 100_000] }
    ///
    /// let tenant = Group::new("tenant7")?;
    /// let kept = block_on(tenant.follow(answer()))?;
    /// assert!(tenant.stats().usage >= 100_000);
    /// # drop(kept);
    /// # Ok::<(), slub::Error>(())
    /// ```
    pub fn follow<F: Future>(&self, future: F) -> Follow<&Group, F> {
        follow(self, future)
    }

    /// Sets a limit in bytes; `None`: no limit.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: more is in use than [`Limit::Max`] is to be, and reclaim
    /// did not help; it stays as it was.
    pub fn set_limit(&self, limit: Limit, bytes: Option<usize>) -> Result<(), Error> {
        let bytes = bytes.unwrap_or(sys::SLUB_GROUP_NO_LIMIT);
        // SAFETY: the group lives.
        Error::check(unsafe {
            sys::slub_group_limit_set(self.as_raw(), limit as sys::c_uint, bytes)
        })
    }

    /// A limit in bytes; `None`: there is none.
    pub fn limit(&self, limit: Limit) -> Option<usize> {
        // SAFETY: the group lives.
        let bytes = unsafe { sys::slub_group_limit_get(self.as_raw(), limit as sys::c_uint) };
        Some(bytes).filter(|&bytes| bytes < sys::SLUB_GROUP_NO_LIMIT)
    }

    /// What can be said of the group; bytes are exact.
    pub fn stats(&self) -> Stats {
        let mut stats = MaybeUninit::<sys::slub_group_stats>::zeroed();
        // SAFETY: the group lives; all zero is a value of the structure.
        let stats = unsafe {
            sys::slub_group_stats(self.as_raw(), stats.as_mut_ptr());
            stats.assume_init()
        };
        Stats {
            usage: stats.usage,
            peak: stats.peak,
            failures: stats.failures,
            max_hits: stats.max_hits,
            high_hits: stats.high_hits,
            children: stats.nr_children,
            depth: stats.depth,
        }
    }

    /// The slabs and blocks that the group's objects keep: a walk over the heap.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`EDEADLK`) in a signal handler that interrupted the library.
    pub fn memory(&self) -> Result<Memory, Error> {
        let mut memory = Memory::default();
        // SAFETY: the group lives.
        Error::check(unsafe { sys::slub_group_memory(self.as_raw(), &mut memory) })?;
        Ok(memory)
    }

    /// Deletes the group, and says whether that was possible.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: there are groups below it; it then stays, for good.
    #[must_use = "the group stays, for good, if it cannot be deleted"]
    pub fn close(self) -> Result<(), Error> {
        // SAFETY: the group lives, and is not used again.
        Error::check(unsafe { sys::slub_group_destroy(ManuallyDrop::new(self).as_raw()) })
    }

    /// The C group, which self still owns.
    pub fn as_raw(&self) -> *mut sys::slub_group {
        self.raw.as_ptr()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the group lives; with groups below it the call does nothing.
        unsafe { sys::slub_group_destroy(self.as_raw()) };
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// This thread is in the group for as long as this lives.
struct Inside {
    group: NonNull<sys::slub_group>,
    _thread: PhantomData<*mut ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // SAFETY: this thread entered it, and left all it entered since, but for an overdraft.
        let left = unsafe { sys::slub_group_leave(self.group.as_ptr()) };
        #[cfg(feature = "std")]
        if left != 0 && crate::overdraft::step_out() {
            // SAFETY: as above.
            unsafe { sys::slub_group_leave(self.group.as_ptr()) };
        }
        #[cfg(not(feature = "std"))]
        let _ = left;
    }
}
