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

use crate::bucket::Bucket;
use crate::error::Error;
use crate::group::Group;
use core::alloc::Layout;
use core::ptr;
use core::slice;
use slub_sys as sys;

pub use slub_sys::slub_bucket_stats as Stats;

/// A [`Bucket`] whose blocks are values with the arena's lifetime.
///
/// Dropping it frees all of them and the bucket.  Any thread may allocate at any time.
#[derive(Debug)]
#[repr(transparent)]
pub struct Arena {
    bucket: Bucket,
}

impl Arena {
    /// Makes an arena; no other arena or bucket may have that name.
    ///
    /// # Errors
    ///
    /// As [`Bucket::new`].
    pub fn new(name: &str) -> Result<Self, Error> {
        Ok(Arena { bucket: Bucket::new(name)? })
    }

    /// Makes an arena that is charged to `group`, whichever thread allocates.
    ///
    /// # Errors
    ///
    /// As [`Arena::new`].
    pub fn in_group(name: &str, group: &Group) -> Result<Self, Error> {
        Ok(Arena { bucket: Bucket::in_group(name, group)? })
    }

    fn block<T>(&self, layout: Layout) -> Result<*mut T, Error> {
        Ok(self.bucket.alloc(layout)?.as_ptr().cast())
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
    /// As [`Bucket::clear`].
    pub fn clear(&mut self) -> Result<(), Error> {
        self.bucket.clear()
    }

    /// What the arena holds; other threads may change it meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Bucket::stats`].
    pub fn stats(&self) -> Result<Stats, Error> {
        self.bucket.stats()
    }

    /// Ends the arena with all that is in it, and says whether that could be done.
    ///
    /// # Errors
    ///
    /// As [`Bucket::close`].
    pub fn close(self) -> Result<(), Error> {
        self.bucket.close()
    }

    /// The bucket that the values lie in: blocks and collections in it end with them.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The bucket, for calls of [`sys`].
    pub fn as_raw(&self) -> *mut sys::slub_bucket {
        self.bucket.as_raw()
    }
}
