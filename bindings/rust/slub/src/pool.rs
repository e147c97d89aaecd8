// SPDX-License-Identifier: MIT
//! Elements that are there whatever happens.
//!
//! ```
//! use slub::Pool;
//!
//! struct Request { sector: u64, data: [u8; 512] }
//!
//! let requests = Pool::new("request", 4)?;      // four of them put aside
//! let request = requests.wait(Request { sector: 7, data: [0; 512] });
//! assert_eq!((request.sector, request.data[0]), (7, 0));
//! drop(request);                                // back to the pool
//! assert_eq!(requests.stats()?.available, 4);
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! A pool allocates from a [`Cache`] for as long as there is memory.  When there is none, it hands
//! out what it has put aside, and then waits until an element comes back.  So work that needs one
//! element at a time to go on never stops for lack of memory.

use crate::cache::Cache;
use crate::error::Error;
use crate::roomy::Roomy;
use crate::same::as_its_value;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{forget, ManuallyDrop};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use slub_sys as sys;

pub use slub_sys::slub_mempool_stats as Stats;

/// A cache of `T` with a number of elements put aside.
///
/// Any number of threads may use it at the same time.
///
/// Dropping it gives pool and cache back.  Boxes borrow the pool, so elements are left only if
/// they were forgotten ([`core::mem::forget`]); the cache then stays as it is, for good.
pub struct Pool<T> {
    raw: NonNull<sys::slub_mempool>,
    /// The pool's drop comes first.
    cache: Cache<T>,
}

// SAFETY: the C functions may be called by any thread; no value is in what was put aside.
unsafe impl<T> Send for Pool<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// Makes a cache of that name, and puts `min` elements of it aside.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::new`]; [`Error::Other`] (`EINVAL`): `min` is 0 or above 2^24.
    pub fn new(name: &str, min: usize) -> Result<Self, Error> {
        Self::with_cache(Cache::new(name)?, min)
    }

    /// Puts `min` elements of `cache` aside.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; [`Error::NoSpace`]: the first pool, and there are too many caches;
    /// [`Error::Other`] (`EINVAL`): `min` is 0 or above 2^24.  The cache is dropped then.
    pub fn with_cache(cache: Cache<T>, min: usize) -> Result<Self, Error> {
        // SAFETY: the cache lives as long as the pool.
        let raw = unsafe { sys::slub_mempool_create_slab(min, cache.as_raw()) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Pool { raw, cache }),
            None => Err(Error::from_errno(sys::errno())),
        }
    }

    /// An element, of the cache or of those put aside.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]: neither has one; `value` is dropped then.
    #[inline]
    pub fn alloc(&self, value: T) -> Result<Box<'_, T>, Error> {
        // SAFETY: the pool lives.
        let element = unsafe { sys::slub_mempool_alloc(self.as_raw(), 0) };
        Ok(Slot::new(self, element).ok_or_else(failure)?.fill(value))
    }

    /// An element; if there is none, waits until one comes back.
    ///
    /// A thread that holds elements of the pool and waits for another may wait for itself:
    /// [`Pool::wait_array`] takes some at once.
    ///
    /// # Panics
    ///
    /// In a signal handler that interrupted the library, which cannot wait.
    #[inline]
    pub fn wait(&self, value: T) -> Box<'_, T> {
        // SAFETY: the pool lives.
        let element = unsafe { sys::slub_mempool_alloc(self.as_raw(), sys::SLUB_POOL_WAIT) };
        Slot::new(self, element).unwrap_or_else(|| no_wait()).fill(value)
    }

    /// An element of those put aside, without a look at the cache.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]: all are out; `value` is dropped then.
    pub fn alloc_reserved(&self, value: T) -> Result<Box<'_, T>, Error> {
        // SAFETY: the pool lives.
        let element = unsafe { sys::slub_mempool_alloc_reserved(self.as_raw()) };
        Ok(Slot::new(self, element).ok_or_else(failure)?.fill(value))
    }

    /// An element for each of `values`, all or none.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; the values are dropped then.
    pub fn alloc_array<const N: usize>(&self, values: [T; N]) -> Result<[Box<'_, T>; N], Error> {
        self.array(0, values)
    }

    /// An element for each of `values`; waits until that many are there: for ever, if
    /// [`Pool::resize`] makes the pool smaller meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`EINVAL`): more than the pool puts aside; the values are dropped then.
    ///
    /// # Panics
    ///
    /// As [`Pool::wait`].
    pub fn wait_array<const N: usize>(&self, values: [T; N]) -> Result<[Box<'_, T>; N], Error> {
        match self.array(sys::SLUB_POOL_WAIT, values) {
            Err(Error::OutOfMemory) => no_wait(),
            result => result,
        }
    }

    fn array<const N: usize>(
        &self,
        flags: sys::c_uint,
        values: [T; N],
    ) -> Result<[Box<'_, T>; N], Error> {
        let mut elements = [ptr::null_mut(); N];
        let nr = if N == 0 {
            0
        } else {
            // SAFETY: the pool lives, and there is room for N.
            unsafe { sys::slub_mempool_alloc_bulk(self.as_raw(), flags, N, elements.as_mut_ptr()) }
        };
        if nr != N {
            return Err(failure());
        }
        let mut elements = elements.into_iter();
        Ok(values.map(|value| {
            let element = elements.next().and_then(|element| Slot::new(self, element));
            // There are N, and none is null.
            element.unwrap_or_else(|| no_wait()).fill(value)
        }))
    }

    /// Changes how many elements are put aside.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; [`Error::Busy`]: another thread does the same;
    /// [`Error::Other`] (`EINVAL`): `min` is 0 or above 2^24.  Nothing is changed then.
    pub fn resize(&self, min: usize) -> Result<(), Error> {
        // SAFETY: the pool lives.
        Error::check(unsafe { sys::slub_mempool_resize(self.as_raw(), min) })
    }

    /// The numbers of the pool.
    ///
    /// # Errors
    ///
    /// [`Error::Deadlock`] in a signal handler that interrupted the library.
    pub fn stats(&self) -> Result<Stats, Error> {
        let mut roomy = Roomy::<Stats>::default();
        let at: *mut Roomy<Stats> = &mut roomy;
        // SAFETY: the pool lives, and there is room.
        Error::check(unsafe { sys::slub_mempool_stats(self.as_raw(), at.cast()) })?;
        Ok(roomy.counts)
    }

    /// The cache that the elements come from.
    pub fn cache(&self) -> &Cache<T> {
        &self.cache
    }

    /// The C pool, which self still owns.
    pub fn as_raw(&self) -> *mut sys::slub_mempool {
        self.raw.as_ptr()
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        // SAFETY: the pool lives; with elements out the call does nothing, and the cache's
        // end then does nothing either.
        unsafe { sys::slub_mempool_destroy(self.as_raw()) };
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("cache", &self.cache).finish_non_exhaustive()
    }
}

#[cold]
fn failure() -> Error {
    Error::from_errno(sys::errno())
}

#[cold]
fn no_wait() -> ! {
    panic!("a signal handler that interrupted libslub waits for an element of a pool")
}

/// An element without a value, which goes back when it is dropped.
struct Slot<'p, T> {
    element: NonNull<T>,
    pool: &'p Pool<T>,
}

impl<'p, T> Slot<'p, T> {
    fn new(pool: &'p Pool<T>, element: *mut sys::c_void) -> Option<Self> {
        NonNull::new(element.cast()).map(|element| Slot { element, pool })
    }

    #[inline]
    fn fill(self, value: T) -> Box<'p, T> {
        // SAFETY: an object of a cache of T, and ours.
        unsafe { self.element.as_ptr().write(value) };
        let boxed = Box { element: self.element, pool: self.pool, _value: PhantomData };
        forget(self);
        boxed
    }
}

impl<T> Drop for Slot<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is of this pool, ours, and holds no value.
        unsafe { sys::slub_mempool_free(self.pool.as_raw(), self.element.as_ptr().cast()) }
    }
}

/// An element of a [`Pool`], owned.  Dropping it drops the value and gives the element back.
pub struct Box<'p, T> {
    element: NonNull<T>,
    pool: &'p Pool<T>,
    _value: PhantomData<T>,
}

// SAFETY: a box is its value and a reference to a pool, which any thread may use.
unsafe impl<T: Send> Send for Box<'_, T> {}
// SAFETY: a shared box gives shared access to its value, and no more.
unsafe impl<T: Sync> Sync for Box<'_, T> {}

impl<T> Box<'_, T> {
    /// Moves the value out; the element goes back to the pool.
    pub fn into_inner(boxed: Self) -> T {
        let boxed = ManuallyDrop::new(boxed);
        let _slot = Slot { element: boxed.element, pool: boxed.pool };
        // SAFETY: the value is read once, and its memory freed without dropping it.
        unsafe { boxed.element.as_ptr().read() }
    }
}

impl<T> Drop for Box<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Goes back also when the value's drop panics.
        let _slot = Slot { element: self.element, pool: self.pool };
        // SAFETY: the value is ours, and not used again.
        unsafe { ptr::drop_in_place(self.element.as_ptr()) }
    }
}

impl<T> Deref for Box<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is ours.
        unsafe { self.element.as_ref() }
    }
}

impl<T> DerefMut for Box<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is ours.
        unsafe { self.element.as_mut() }
    }
}

as_its_value!(Box);

impl<T: fmt::Debug> fmt::Debug for Box<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
