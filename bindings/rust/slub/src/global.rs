// SPDX-License-Identifier: MIT

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;
use slub_sys as sys;

/// The global allocator.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: slub::Slub = slub::Slub;
///
/// let v: Vec<u64> = (0..1000).collect();
/// assert_eq!(v.iter().sum::<u64>(), 499_500);
/// ```
///
/// It is the `malloc` of the process: linking this crate makes libslub the
/// allocator of C code in the same program too, and memory may go from one to
/// the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slub;

/// Is what malloc returns for `layout` aligned enough?  Blocks of 16 bytes and
/// more are aligned to 16, smaller ones to 8.
#[inline]
fn malloc_aligns(layout: &Layout) -> bool {
    layout.align() <= 8 || (layout.align() <= 16 && layout.size() >= 16)
}

#[inline]
fn plain(layout: &Layout) -> *mut u8 {
    // SAFETY: any arguments are allowed.
    unsafe {
        if malloc_aligns(layout) {
            sys::malloc(layout.size()).cast()
        } else {
            sys::aligned_alloc(layout.align(), layout.size()).cast()
        }
    }
}

#[inline]
fn zeroed(layout: &Layout) -> *mut u8 {
    // SAFETY: any arguments are allowed; the block has layout.size() bytes.
    unsafe {
        if malloc_aligns(layout) {
            return sys::calloc(1, layout.size()).cast();
        }
        let block = plain(layout);
        if !block.is_null() {
            ptr::write_bytes(block, 0, layout.size());
        }
        block
    }
}

/// A block, which the overdraft of the thread's turn pays for where its group cannot.
#[inline]
fn or_overdraw(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let block = allocate();
    #[cfg(feature = "std")]
    if block.is_null() {
        return crate::overdraft::overdraw(allocate);
    }
    block
}

// SAFETY: malloc, aligned_alloc and free keep GlobalAlloc's contract; nothing
// here unwinds or allocates by another way.
unsafe impl GlobalAlloc for Slub {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        or_overdraw(|| plain(&layout))
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller's block came from alloc() or realloc().
        unsafe { sys::free(block.cast()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        or_overdraw(|| zeroed(&layout))
    }

    /// In place where the block has room for it.
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: layout.align() is valid, and `bytes` as the caller promises.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        // SAFETY: the block is one of malloc's.
        unsafe {
            if malloc_aligns(&new) {
                return or_overdraw(|| sys::realloc(block.cast(), bytes).cast());
            }
            let room = sys::malloc_usable_size(block.cast());
            if bytes <= room && bytes >= room / 2 {
                return block;
            }
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}
