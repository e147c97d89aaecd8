// SPDX-License-Identifier: MIT
//! Memory that ends together, as what a request needs does.
//!
//! ```
//! let mut request = slub::Arena::new("request")?;
//! let header = request.alloc([0u8; 24])?;
//! header[0] = 1;
//! let path = request.alloc_str("/index.html")?;
//! assert_eq!((header[0], &*path), (1, "/index.html"));
//! request.clear()?;                 // both are gone, and nobody can use them
//! assert_eq!(request.stats()?.live_blocks, 0);
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! What lies in an arena shares slabs with nothing else.  Values are not dropped when the
//! arena is cleared or dropped: a `String` in it loses the memory that it has elsewhere.

use crate::cache::c_name;
use crate::error::Error;
use crate::group::Group;
use crate::roomy::Roomy;
use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use core::slice;
use slub_sys as sys;

pub use slub_sys::slub_bucket_stats as Stats;

/// A bucket of libslub, whose blocks are freed together.
///
/// Dropping it frees all of them and the bucket.  Any thread may allocate at any time.
#[repr(transparent)]
pub struct Arena {
    raw: NonNull<sys::slub_bucket>,
}

// SAFETY: the C functions may be called by any thread.
unsafe impl Send for Arena {}
// SAFETY: as above; what is allocated belongs to who allocated it.
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes an arena; no other arena or bucket may have that name.
    ///
    /// # Errors
    ///
    /// [`Error::BadName`], [`Error::OutOfMemory`]; [`Error::Other`] (`EEXIST`): the
    /// name is taken.
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::create(name, 0)
    }

    /// Makes an arena that is charged to `group`, whichever thread allocates.
    ///
    /// # Errors
    ///
    /// As [`Arena::new`].
    pub fn in_group(name: &str, group: &Group) -> Result<Self, Error> {
        let arena = Self::create(name, sys::SLUB_CACHE_ACCOUNT)?;
        // SAFETY: both live.
        Error::check(unsafe { sys::slub_bucket_group_set(arena.as_raw(), group.as_raw()) })?;
        Ok(arena)
    }

    fn create(name: &str, flags: sys::c_ulong) -> Result<Self, Error> {
        let name = c_name(name)?;
        // SAFETY: the name is terminated, and copied.
        let raw = unsafe { sys::slub_bucket_create(name.as_ptr().cast(), flags) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Arena { raw }),
            None => Err(Error::from_errno(sys::errno())),
        }
    }

    fn block<T>(&self, layout: Layout) -> Result<*mut T, Error> {
        if layout.size() == 0 {
            return Ok(NonNull::<T>::dangling().as_ptr());
        }
        // SAFETY: the bucket lives.
        let block =
            unsafe { sys::slub_bucket_aligned_alloc(self.as_raw(), layout.align(), layout.size()) };
        if block.is_null() {
            return Err(Error::from_errno(sys::errno()));
        }
        Ok(block.cast())
    }

    /// Puts `value` into the arena, where it stays until that is cleared.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and `value` is dropped; [`Error::NoSpace`]: no place for
    /// a cache of that size.
    #[allow(clippy::mut_from_ref)] // each call returns another block
    pub fn alloc<T>(&self, value: T) -> Result<&mut T, Error> {
        let block = self.block::<T>(Layout::new::<T>())?;
        // SAFETY: a new block, aligned and of that size; or a place for nothing.
        unsafe {
            block.write(value);
            Ok(&mut *block)
        }
    }

    /// Copies a slice into the arena.
    ///
    /// # Errors
    ///
    /// As [`Arena::alloc`].
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice<T: Copy>(&self, values: &[T]) -> Result<&mut [T], Error> {
        let block = self.block::<T>(Layout::for_value(values))?;
        // SAFETY: a new block, as long as the slice and aligned as its elements.
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), block, values.len());
            Ok(slice::from_raw_parts_mut(block, values.len()))
        }
    }

    /// Copies a string into the arena.
    ///
    /// # Errors
    ///
    /// As [`Arena::alloc`].
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_str(&self, text: &str) -> Result<&mut str, Error> {
        let bytes = self.alloc_slice(text.as_bytes())?;
        // SAFETY: a copy of what is UTF-8.
        Ok(unsafe { core::str::from_utf8_unchecked_mut(bytes) })
    }

    /// Frees all that was allocated; the arena stays.
    ///
    /// Values are not dropped.  Cost: a look at each slab of the heap for each size
    /// that was asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`EAGAIN`): the lists of another CPU could not be emptied, and
    /// some blocks are still there; call it again.
    pub fn clear(&mut self) -> Result<(), Error> {
        // SAFETY: the bucket lives, and nobody has a reference into it.
        Error::check(unsafe { sys::slub_bucket_clear(self.as_raw()) })
    }

    /// What the arena holds; other threads may change it meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`EAGAIN`), as [`Arena::clear`].
    pub fn stats(&self) -> Result<Stats, Error> {
        let mut roomy = Roomy::<Stats>::default();
        let at: *mut Roomy<Stats> = &mut roomy;
        // SAFETY: the bucket lives, and there is room.
        Error::check(unsafe { sys::slub_bucket_stats(self.as_raw(), at.cast()) })?;
        Ok(roomy.counts)
    }

    /// Ends the arena with all that is in it, and says whether that could be done.
    ///
    /// # Errors
    ///
    /// As [`Arena::clear`]; the bucket is kept for good then.
    pub fn close(self) -> Result<(), Error> {
        let arena = ManuallyDrop::new(self);
        // SAFETY: it lives, and nobody has a reference into it.
        Error::check(unsafe { sys::slub_bucket_destroy_all(arena.as_raw()) })
    }

    /// The bucket, for calls of [`sys`].
    pub fn as_raw(&self) -> *mut sys::slub_bucket {
        self.raw.as_ptr()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: it lives, and nobody has a reference into it.
        unsafe { sys::slub_bucket_destroy_all(self.as_raw()) };
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arena").field(&self.raw).finish()
    }
}
