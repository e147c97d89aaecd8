// SPDX-License-Identifier: MIT
//! Blocks of any size for one subsystem, from slabs of its own.
//!
//! ```
//! use core::alloc::Layout;
//!
//! let parser = slub::Bucket::new("parser")?;
//! let layout = Layout::array::<u32>(100).unwrap();
//! let block = parser.alloc(layout)?;
//! assert_eq!(parser.stats()?.live_blocks, 1);
//! // SAFETY: the block is the bucket's and has that layout.
//! unsafe { parser.free(block, layout) };
//! assert_eq!(parser.stats()?.live_blocks, 0);
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! A bucket's fragmentation is its own, it can say what it holds, and a use after a free in one
//! subsystem does not hit another's data.  With the feature `allocator-api2` a `&Bucket` is an
//! allocator for collections.
//!
//! [`Arena`](crate::Arena) is the same for values that nobody frees one by one.

use crate::cache::c_name;
use crate::error::Error;
use crate::group::Group;
use crate::roomy::Roomy;
use core::alloc::Layout;
use core::fmt;
use core::mem::{size_of, ManuallyDrop};
use core::ptr::{self, NonNull};
use slub_sys as sys;

pub use slub_sys::slub_bucket_stats as Stats;

/// What a block of a bucket is aligned to without asking.
const BUCKET_ALIGN: usize = 16;

/// A `malloc` of its own, whose blocks may also be freed all together.
///
/// Dropping it frees all blocks.  Any number of threads may use it at the same time, and a
/// block may be freed by another thread than the one that allocated it.
#[repr(transparent)]
pub struct Bucket {
    raw: NonNull<sys::slub_bucket>,
}

// SAFETY: the C functions may be called by any thread.
unsafe impl Send for Bucket {}
// SAFETY: as above; those that need the bucket alone take it by `&mut` or by value.
unsafe impl Sync for Bucket {}

impl Bucket {
    /// Makes a bucket; no other bucket or arena may have that name.
    ///
    /// # Errors
    ///
    /// [`Error::BadName`] (41 bytes at most), [`Error::NameTaken`], [`Error::OutOfMemory`],
    /// [`Error::NoSpace`]: the first bucket, and there are too many caches.
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::with_flags(name, 0)
    }

    /// Makes a bucket with flags of [`sys`]: `SLUB_CACHE_ACCOUNT`, which lets groups be charged,
    /// or a debugging letter.
    ///
    /// # Errors
    ///
    /// As [`Bucket::new`]; [`Error::Other`] (`EINVAL`): a flag that no bucket may have.
    pub fn with_flags(name: &str, flags: sys::c_ulong) -> Result<Self, Error> {
        if name.len() > sys::SLUB_BUCKET_NAME_MAX {
            return Err(Error::BadName);
        }
        let name = c_name(name)?;
        // SAFETY: the name is terminated, and copied.
        let raw = unsafe { sys::slub_bucket_create(name.as_ptr().cast(), flags) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Bucket { raw }),
            None => Err(Error::from_errno(sys::errno())),
        }
    }

    /// Makes a bucket that is charged to `group`, whichever thread allocates.
    ///
    /// # Errors
    ///
    /// As [`Bucket::new`].
    pub fn in_group(name: &str, group: &Group) -> Result<Self, Error> {
        let bucket = Self::with_flags(name, sys::SLUB_CACHE_ACCOUNT)?;
        bucket.set_group(Some(group))?;
        Ok(bucket)
    }

    /// From now on what is allocated here is charged to `group`, whatever group the thread is
    /// in; `None`: to the thread's group.  The bucket needs the flag `SLUB_CACHE_ACCOUNT`.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`EINVAL`) without that flag.
    pub fn set_group(&self, group: Option<&Group>) -> Result<(), Error> {
        let group = group.map_or(ptr::null_mut(), Group::as_raw);
        // SAFETY: both live; a deleted group's parent takes its place.
        Error::check(unsafe { sys::slub_bucket_group_set(self.as_raw(), group) })
    }

    /// Allocates a block, which stays until [`Bucket::free`], [`Bucket::clear`] or the end of
    /// the bucket.
    ///
    /// A layout of 0 bytes takes no memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; [`Error::NoSpace`]: no place for a cache of that size;
    /// [`Error::NameTaken`]: a cache of the program has the name that the new one would have.
    #[inline]
    pub fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, Error> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        // SAFETY: the bucket lives, and any size and power of two may be asked for.
        let block = unsafe {
            if layout.align() <= BUCKET_ALIGN {
                sys::slub_bucket_alloc(self.as_raw(), layout.size())
            } else {
                sys::slub_bucket_aligned_alloc(self.as_raw(), layout.align(), layout.size())
            }
        };
        NonNull::new(block.cast()).ok_or_else(failure)
    }

    /// Allocates a block of zeros.
    ///
    /// # Errors
    ///
    /// As [`Bucket::alloc`].
    pub fn alloc_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, Error> {
        if layout.align() <= BUCKET_ALIGN && layout.size() > 0 {
            // SAFETY: the bucket lives.
            let block = unsafe { sys::slub_bucket_calloc(self.as_raw(), 1, layout.size()) };
            return NonNull::new(block.cast()).ok_or_else(failure);
        }
        let block = self.alloc(layout)?;
        // SAFETY: a new block of that size, or nothing is written.
        unsafe { block.as_ptr().write_bytes(0, layout.size()) };
        Ok(block)
    }

    /// Changes the size of a block to `bytes`, where it is or elsewhere in the bucket.
    ///
    /// Contents stay up to the smaller size, and the alignment does.
    ///
    /// # Errors
    ///
    /// As [`Bucket::alloc`]; the old block stays as it was.
    ///
    /// # Safety
    ///
    /// `block` is allocated from this bucket with `layout`, and is used no more after success.
    /// `bytes`, rounded up to the alignment, is not above `isize::MAX`.
    pub unsafe fn realloc(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Result<NonNull<u8>, Error> {
        if layout.size() > 0 && bytes > 0 {
            if layout.align() <= BUCKET_ALIGN {
                // SAFETY: as the caller promises; neither size is 0.
                let moved = unsafe {
                    sys::slub_bucket_realloc(self.as_raw(), block.as_ptr().cast(), bytes)
                };
                return NonNull::new(moved.cast()).ok_or_else(failure);
            }
            // C's may move it to where it is aligned to 16 only.
            // SAFETY: the block is allocated.
            let room = unsafe { sys::slub_usable_size(block.as_ptr().cast()) };
            if bytes <= room && bytes >= room / 2 {
                return Ok(block);
            }
        }
        // SAFETY: the alignment is valid, and the size as the caller promises.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        let moved = self.alloc(new)?;
        // SAFETY: two blocks with room for the smaller size; the old one is used no more.
        unsafe {
            let kept = layout.size().min(bytes);
            ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), kept);
            self.free(block, layout);
        }
        Ok(moved)
    }

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// `block` is allocated from this bucket with `layout`, and is used no more.
    #[inline]
    pub unsafe fn free(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: as the caller promises.
            unsafe { sys::slub_bucket_free(self.as_raw(), block.as_ptr().cast()) }
        }
    }

    /// Frees all blocks; the bucket stays.
    ///
    /// Nothing that borrows the bucket is left then, so no collection with `&Bucket` as its
    /// allocator either.  Blocks of [`Bucket::alloc`] are pointers, and become void.  Values are
    /// not dropped.  Cost: a look at each slab of the heap for each size that was asked for.
    ///
    /// # Errors
    ///
    /// [`Error::TryAgain`]: some blocks are still there; call it again.  [`Error::Deadlock`]: this
    /// thread reads ([`rcu::read`](crate::rcu::read)), and nothing was freed.
    pub fn clear(&mut self) -> Result<(), Error> {
        // SAFETY: the bucket lives, and nobody else uses it.
        Error::check(unsafe { sys::slub_bucket_clear(self.as_raw()) })
    }

    /// What the bucket holds; other threads may change it meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::TryAgain`]: what lies free in the lists of another CPU could not be told from
    /// what is in use.
    pub fn stats(&self) -> Result<Stats, Error> {
        let mut roomy = Roomy::<Stats>::default();
        let at: *mut Roomy<Stats> = &mut roomy;
        // SAFETY: the bucket lives, and there is room.
        Error::check(unsafe { sys::slub_bucket_stats(self.as_raw(), at.cast()) })?;
        Ok(roomy.counts)
    }

    /// The bucket for the rest of the program, so that collections in it may be, too.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and the bucket is dropped.
    pub fn leak(self) -> Result<&'static Bucket, Error> {
        // SAFETY: any size may be asked for.
        let place = unsafe { sys::malloc(size_of::<Bucket>()) }.cast::<Bucket>();
        if place.is_null() {
            return Err(Error::OutOfMemory);
        }
        // SAFETY: the memory is ours, large enough, and never freed.
        unsafe {
            place.write(self);
            Ok(&*place)
        }
    }

    /// Ends the bucket with all that is in it, and says whether that could be done.
    ///
    /// # Errors
    ///
    /// [`Error::TryAgain`], [`Error::Deadlock`] as [`Bucket::clear`]; the bucket is kept for good
    /// then.
    #[must_use = "the bucket stays, for good, if it cannot be ended"]
    pub fn close(self) -> Result<(), Error> {
        let bucket = ManuallyDrop::new(self);
        // SAFETY: it lives, and nobody else uses it.
        Error::check(unsafe { sys::slub_bucket_destroy_all(bucket.as_raw()) })
    }

    /// The C bucket, which self still owns.
    pub fn as_raw(&self) -> *mut sys::slub_bucket {
        self.raw.as_ptr()
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // SAFETY: it lives, and nobody else uses it.
        unsafe { sys::slub_bucket_destroy_all(self.as_raw()) };
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.raw).finish()
    }
}

/// A place for nothing, which is aligned and not null.
pub(crate) fn nothing(layout: Layout) -> NonNull<u8> {
    // SAFETY: an alignment is at least 1.
    unsafe { NonNull::new_unchecked(ptr::null_mut::<u8>().wrapping_add(layout.align())) }
}

#[cold]
fn failure() -> Error {
    Error::from_errno(sys::errno())
}
