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
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
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
        self.alloc_with(move || value)
    }

    /// Allocates, then puts into the arena what `make` returns.
    ///
    /// If `make` panics, the memory goes back to the arena.
    ///
    /// # Errors
    ///
    /// As [`Arena::alloc`]; `make` is not called then.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_with<T>(&self, make: impl FnOnce() -> T) -> Result<&mut T, Error> {
        let mut part = Part::new(&self.bucket, 1)?;
        part.push(make());
        Ok(&mut part.keep()[0])
    }

    /// Moves what an iterator yields into the arena, as a slice.
    ///
    /// One that knows its length gets one block; else the slice moves as it grows.  If the iterator
    /// panics, what it has yielded is dropped, and the memory goes back to the arena.
    ///
    /// ```
    /// let request = slub::Arena::new("request")?;
    /// let words = request.alloc_iter("GET /index.html".split(' ').map(String::from))?;
    /// assert_eq!(words.len(), 2);
    /// words[1].push('?');
    /// # Ok::<(), slub::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Arena::alloc`]; what was yielded is dropped then.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_iter<T>(&self, values: impl IntoIterator<Item = T>) -> Result<&mut [T], Error> {
        let mut values = values.into_iter();
        let mut part = Part::new(&self.bucket, values.size_hint().0)?;
        while let Some(value) = values.next() {
            if part.is_full() {
                part.grow(values.size_hint().0)?;
            }
            part.push(value);
        }
        Ok(part.keep())
    }

    /// A slice of `length` values: `make` is asked for each, with its index.
    ///
    /// # Errors
    ///
    /// As [`Arena::alloc_iter`].
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice_with<T>(
        &self,
        length: usize,
        make: impl FnMut(usize) -> T,
    ) -> Result<&mut [T], Error> {
        self.alloc_iter((0..length).map(make))
    }

    /// Copies a slice into the arena; [`Arena::alloc_iter`] takes values that are moved or cloned.
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
    #[must_use = "the arena stays, for good, if it cannot be ended"]
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

/// A slice that is being filled; what is in it goes back, unless it is kept.
struct Part<'a, T> {
    bucket: &'a Bucket,
    block: NonNull<T>,
    room: usize,
    length: usize,
    _values: PhantomData<T>,
}

impl<'a, T> Part<'a, T> {
    fn new(bucket: &'a Bucket, room: usize) -> Result<Self, Error> {
        let block = bucket.alloc(Self::layout(room)?)?.cast();
        Ok(Part { bucket, block, room, length: 0, _values: PhantomData })
    }

    fn layout(room: usize) -> Result<Layout, Error> {
        Layout::array::<T>(room).map_err(|_| Error::OutOfMemory)
    }

    fn is_full(&self) -> bool {
        self.length == self.room
    }

    /// Room for one more, for `more` after that, and for as many again as there are.
    fn grow(&mut self, more: usize) -> Result<(), Error> {
        let least = self.length.checked_add(1).and_then(|least| least.checked_add(more));
        let room = least.ok_or(Error::OutOfMemory)?.max(self.length.saturating_mul(2)).max(4);
        let (old, new) = (Self::layout(self.room)?, Self::layout(room)?);
        // SAFETY: the block is of the bucket with the old layout, and a layout is not above
        // isize::MAX.
        let block = unsafe { self.bucket.realloc(self.block.cast(), old, new.size())? };
        self.block = block.cast();
        self.room = room;
        Ok(())
    }

    fn push(&mut self, value: T) {
        assert!(!self.is_full());
        // SAFETY: there is room.
        unsafe { self.block.as_ptr().add(self.length).write(value) };
        self.length += 1;
    }

    /// The values, for as long as the bucket.
    fn keep(self) -> &'a mut [T] {
        let part = ManuallyDrop::new(self);
        // SAFETY: so many values are there, and nobody else has them.
        unsafe { slice::from_raw_parts_mut(part.block.as_ptr(), part.length) }
    }
}

impl<T> Drop for Part<'_, T> {
    fn drop(&mut self) {
        struct Memory<'b>(&'b Bucket, NonNull<u8>, Layout);
        impl Drop for Memory<'_> {
            fn drop(&mut self) {
                // SAFETY: the block is of the bucket with that layout, and used no more.
                unsafe { self.0.free(self.1, self.2) }
            }
        }
        // It had a layout when it was allocated.
        if let Ok(layout) = Self::layout(self.room) {
            let _memory = Memory(self.bucket, self.block.cast(), layout);
            // SAFETY: so many values are there, and are not used again.
            unsafe {
                let values = ptr::slice_from_raw_parts_mut(self.block.as_ptr(), self.length);
                ptr::drop_in_place(values);
            }
        }
    }
}
