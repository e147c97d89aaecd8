// SPDX-License-Identifier: MIT
//! `Allocator` of the crate allocator-api2, for [`Slub`], `&Bucket`, `&Arena`, `&Scratch` and
//! `&Group`.
//!
//! All but the first are allocators by reference only: whatever holds one of their blocks
//! borrows them, so [`Bucket::clear`] waits for it.
//!
//! ```compile_fail,E0502
//! let mut bucket = slub::Bucket::new("borrowed").unwrap();
//! let mut list = allocator_api2::vec::Vec::new_in(&bucket);
//! bucket.clear().unwrap();
//! list.push(1);
//! ```

use crate::bucket::nothing;
use crate::{Arena, Bucket, Group, Scratch, Slub};
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

/// What the five have in common.  A layout of 0 bytes never gets here.
///
/// # Safety
///
/// A block of `alloc`, `alloc_zeroed` or `resize` stays until `free`, or until nothing borrows
/// what it came from; copies of the implementor stand for the same memory.
unsafe trait Blocks {
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>>;
    fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>>;
    /// # Safety
    /// `block` is allocated with `layout`; `bytes` is not 0, and small enough for a layout.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Option<NonNull<u8>>;
    /// # Safety
    /// `block` is allocated with `layout`, and is used no more.
    unsafe fn free(&self, block: NonNull<u8>, layout: Layout);
}

// SAFETY: the memory belongs to the process.
unsafe impl Blocks for Slub {
    #[inline]
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { GlobalAlloc::alloc(self, layout) })
    }
    #[inline]
    fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { GlobalAlloc::alloc_zeroed(self, layout) })
    }
    #[inline]
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: as the caller promises.
        NonNull::new(unsafe { GlobalAlloc::realloc(self, block.as_ptr(), layout, bytes) })
    }
    #[inline]
    unsafe fn free(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { GlobalAlloc::dealloc(self, block.as_ptr(), layout) }
    }
}

// SAFETY: clear() and the end of a bucket need it unborrowed.
unsafe impl Blocks for &Bucket {
    #[inline]
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        Bucket::alloc(self, layout).ok()
    }
    #[inline]
    fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        Bucket::alloc_zeroed(self, layout).ok()
    }
    #[inline]
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: as the caller promises.
        unsafe { Bucket::realloc(self, block, layout, bytes) }.ok()
    }
    #[inline]
    unsafe fn free(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { Bucket::free(self, block, layout) }
    }
}

// SAFETY: as a bucket.
unsafe impl Blocks for &Arena {
    #[inline]
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        Blocks::alloc(&self.bucket(), layout)
    }
    #[inline]
    fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        Blocks::alloc_zeroed(&self.bucket(), layout)
    }
    #[inline]
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: as the caller promises.
        unsafe { Blocks::resize(&self.bucket(), block, layout, bytes) }
    }
    #[inline]
    unsafe fn free(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { Blocks::free(&self.bucket(), block, layout) }
    }
}

// SAFETY: clear() and the end of a scratch need it unborrowed.
unsafe impl Blocks for &Scratch {
    #[inline]
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        Scratch::alloc_layout(self, layout).ok()
    }
    fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        let block = Scratch::alloc_layout(self, layout).ok()?;
        // SAFETY: a new block of that size.
        unsafe { block.as_ptr().write_bytes(0, layout.size()) };
        Some(block)
    }
    #[inline]
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: as the caller promises.
        unsafe { Scratch::resize(self, block, layout, bytes) }.ok()
    }
    /// It goes with the scratch.
    #[inline]
    unsafe fn free(&self, _block: NonNull<u8>, _layout: Layout) {}
}

// SAFETY: the memory belongs to the process; the group only pays for it.
unsafe impl Blocks for &Group {
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.run(|| Blocks::alloc(&Slub, layout)).ok()?
    }
    fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.run(|| Blocks::alloc_zeroed(&Slub, layout)).ok()?
    }
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: as the caller promises.
        self.run(|| unsafe { Blocks::resize(&Slub, block, layout, bytes) }).ok()?
    }
    #[inline]
    unsafe fn free(&self, block: NonNull<u8>, layout: Layout) {
        // Given back to whom it is charged, in any group or none.
        // SAFETY: as the caller promises.
        unsafe { Blocks::free(&Slub, block, layout) }
    }
}

fn sized(block: Option<NonNull<u8>>, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    let block = block.ok_or(AllocError)?;
    // SAFETY: the pointer is not null.
    Ok(unsafe {
        NonNull::new_unchecked(ptr::slice_from_raw_parts_mut(block.as_ptr(), layout.size()))
    })
}

fn allocate(
    layout: Layout,
    from: impl FnOnce() -> Option<NonNull<u8>>,
) -> Result<NonNull<[u8]>, AllocError> {
    sized(if layout.size() == 0 { Some(nothing(layout)) } else { from() }, layout)
}

/// # Safety
/// `block` is allocated with `old`.
unsafe fn change<B: Blocks>(
    blocks: &B,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    if old.align() == new.align() && old.size() > 0 && new.size() > 0 {
        // SAFETY: as the caller promises.
        return sized(unsafe { blocks.resize(block, old, new.size()) }, new);
    }
    let moved = allocate(new, || blocks.alloc(new))?;
    // SAFETY: two blocks, each with room for the smaller size.
    unsafe {
        let kept = old.size().min(new.size());
        ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr().cast(), kept);
        if old.size() > 0 {
            blocks.free(block, old);
        }
    }
    Ok(moved)
}

macro_rules! allocator {
    ($($(#[$doc:meta])* $type:ty),* $(,)?) => { $(
        $(#[$doc])*
        // SAFETY: as Blocks says; a move of the allocator moves no memory.
        unsafe impl Allocator for $type {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                allocate(layout, || Blocks::alloc(self, layout))
            }

            #[inline]
            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                allocate(layout, || Blocks::alloc_zeroed(self, layout))
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                if layout.size() > 0 {
                    // SAFETY: as the caller promises.
                    unsafe { Blocks::free(self, block, layout) }
                }
            }

            #[inline]
            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: as the caller promises.
                unsafe { change(self, block, old, new) }
            }

            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: as the caller promises; it has the new size.
                unsafe {
                    let grown = change(self, block, old, new)?;
                    let tail = grown.as_ptr().cast::<u8>().add(old.size());
                    tail.write_bytes(0, new.size() - old.size());
                    Ok(grown)
                }
            }

            #[inline]
            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: as the caller promises.
                unsafe { change(self, block, old, new) }
            }
        }
    )* };
}

allocator! {
    /// libslub's `malloc`, also in a program with another global allocator.
    ///
    /// ```
    /// let mut list = allocator_api2::vec::Vec::new_in(slub::Slub);
    /// list.extend_from_slice(b"words");
    /// assert_eq!(list, b"words");
    /// ```
    Slub,
    /// Collections in a bucket.
    ///
    /// ```
    /// use allocator_api2::{boxed::Box, vec::Vec};
    ///
    /// let bucket = slub::Bucket::new("index")?;
    /// let mut words = Vec::new_in(&bucket);
    /// words.push(Box::new_in(7, &bucket));
    /// assert_eq!(bucket.stats()?.live_blocks, 2);
    /// drop(words);
    /// assert_eq!(bucket.stats()?.live_blocks, 0);
    /// # Ok::<(), slub::Error>(())
    /// ```
    &Bucket,
    /// Collections that end with the arena's other values.
    ///
    /// ```
    /// let mut request = slub::Arena::new("with-lists")?;
    /// let mut list = allocator_api2::vec::Vec::new_in(&request);
    /// list.push(request.alloc(1)?);
    /// core::mem::forget(list);         // clear() frees it
    /// request.clear()?;
    /// # Ok::<(), slub::Error>(())
    /// ```
    &Arena,
    /// Collections of one request: what they free stays the scratch's until that ends.
    ///
    /// ```
    /// let request = slub::Scratch::new();
    /// let mut list = allocator_api2::vec::Vec::new_in(&request);
    /// list.extend(0..1000);
    /// assert_eq!(list[999], 999);
    /// # Ok::<(), slub::Error>(())
    /// ```
    &Scratch,
    /// Collections for which a group pays, whichever group the thread is in.
    ///
    /// ```
    /// use slub::{group::Limit, Group};
    ///
    /// let tenant = Group::new("tenant7")?;
    /// tenant.set_limit(Limit::Max, Some(1 << 20))?;
    /// let mut list = allocator_api2::vec::Vec::<u8, _>::new_in(&tenant);
    /// list.resize(500_000, 0);
    /// assert!(tenant.stats().usage >= 500_000);
    /// assert!(list.try_reserve(4 << 20).is_err());
    /// # Ok::<(), slub::Error>(())
    /// ```
    &Group,
}
