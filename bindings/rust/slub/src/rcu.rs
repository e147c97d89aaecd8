// SPDX-License-Identifier: MIT
//! Readers without locks, and freeing what they may still look at.
//!
//! ```
//! use slub::{rcu, StaticCache};
//!
//! struct Route { port: u16, hops: u16 }
//!
//! static ROUTES: StaticCache<Route> = StaticCache::new("route");
//! static CURRENT: rcu::Shared<Route> = rcu::Shared::empty();
//!
//! // A writer publishes; what was there before is freed when no reader can
//! // still look at it.
//! CURRENT.replace(Some(ROUTES.alloc(Route { port: 80, hops: 1 })?));
//! CURRENT.replace(Some(ROUTES.alloc(Route { port: 443, hops: 3 })?));
//!
//! // A reader takes no lock and never waits.
//! let reading = rcu::read();
//! assert_eq!(CURRENT.get(&reading).unwrap().port, 443);
//! # assert_eq!(CURRENT.get(&reading).unwrap().hops, 3);
//! # Ok::<(), slub::Error>(())
//! ```

use crate::cache::Box;
use crate::Error;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering};
use slub_sys as sys;

/// This thread is a reader as long as this lives.  They nest.
///
/// As long as any exists, nothing that was deferred after its beginning is
/// freed: keep it short.  Meanwhile what would wait for readers, in this thread, answers
/// [`Error::Deadlock`]: [`barrier`], [`Cache::close`](crate::Cache::close),
/// [`Arena::clear`](crate::Arena::clear) and the like.  A cache or an arena that is dropped
/// meanwhile is kept for good.
#[derive(Debug)]
#[must_use = "the section ends when it is dropped, which is now"]
pub struct ReadGuard {
    index: sys::c_int,
    /// Not Send: cheap to allow, but a guard in another thread misleads.
    _thread: PhantomData<*mut ()>,
}

/// Begins to read.
#[inline]
pub fn read() -> ReadGuard {
    // SAFETY: drop() leaves the section, once.
    ReadGuard { index: unsafe { sys::slub_read_lock() }, _thread: PhantomData }
}

impl Drop for ReadGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the index is that of our own section.
        unsafe { sys::slub_read_unlock(self.index) }
    }
}

/// Waits until all that was deferred before this call has been freed.
///
/// # Errors
///
/// [`Error::Deadlock`]: this thread reads, and would wait for itself; what no reader can see
/// any more is freed.
///
/// ```
/// let reading = slub::rcu::read();
/// assert_eq!(slub::rcu::barrier(), Err(slub::Error::Deadlock));
/// drop(reading);
/// slub::rcu::barrier()?;
/// # Ok::<(), slub::Error>(())
/// ```
pub fn barrier() -> Result<(), Error> {
    // SAFETY: always allowed.
    Error::check(unsafe { sys::slub_deferred_barrier() })
}

/// Objects that wait to be freed.
pub fn pending() -> usize {
    // SAFETY: always allowed.
    unsafe { sys::slub_deferred_pending() }
}

/// Refuses, at compile time, types whose destructor would be forgotten.
struct NoDrop<T>(PhantomData<T>);

impl<T> NoDrop<T> {
    const CHECK: () = assert!(
        !core::mem::needs_drop::<T>(),
        "deferred free calls no destructor, and this type has one"
    );
}

/// Frees `object` after every present reader has left.
///
/// Its type must need no drop; that is checked when the program is compiled:
///
/// ```compile_fail
/// let names = slub::Cache::new("name").unwrap();
/// slub::rcu::free(names.alloc(String::new()).unwrap());
/// ```
pub fn free<T>(object: Box<'_, T>) {
    #[allow(clippy::let_unit_value)]
    let _ = NoDrop::<T>::CHECK;
    // SAFETY: the box owned the object, and nobody can find it through it now.
    unsafe { sys::slub_free_deferred(Box::into_raw(object).cast()) }
}

/// One object of a cache that readers look at and writers replace.
///
/// Dropping it frees the object, deferred.
pub struct Shared<T: Send + Sync + 'static> {
    object: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// One without an object.
    pub const fn empty() -> Self {
        Shared { object: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// One with `object`.
    pub fn new(object: Box<'static, T>) -> Self {
        Shared { object: AtomicPtr::new(Box::into_raw(object)) }
    }

    /// The object, which stays valid as long as `_reading` does.
    #[inline]
    pub fn get<'g>(&'g self, _reading: &'g ReadGuard) -> Option<&'g T> {
        // SAFETY: what replace() takes out is freed after this reader left.
        unsafe { self.object.load(Ordering::Acquire).as_ref() }
    }

    /// Puts `object` in the old one's place.  Readers of the old one may go on;
    /// it is freed behind the last of them.
    pub fn replace(&self, object: Option<Box<'static, T>>) {
        #[allow(clippy::let_unit_value)]
        let _ = NoDrop::<T>::CHECK;
        let new = object.map_or(core::ptr::null_mut(), Box::into_raw);
        let old = self.object.swap(new, Ordering::AcqRel);
        // SAFETY: the swap made us the old object's only owner.
        unsafe { sys::slub_free_deferred(old.cast()) }
    }
}

impl<T: Send + Sync + 'static> Drop for Shared<T> {
    fn drop(&mut self) {
        self.replace(None);
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.get(&read())).finish()
    }
}
