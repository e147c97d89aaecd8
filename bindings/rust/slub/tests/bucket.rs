// SPDX-License-Identifier: MIT
//! Buckets: blocks by layout, freed one by one or all together.

use slub::{Bucket, Error, Group};
use std::alloc::Layout;
use std::ptr::NonNull;

/// # Safety
/// The block has `layout`.
unsafe fn fill(block: NonNull<u8>, layout: Layout) {
    for i in 0..layout.size() {
        block.as_ptr().add(i).write(i as u8);
    }
}

/// # Safety
/// The block has that many bytes.
unsafe fn is_filled(block: NonNull<u8>, bytes: usize) -> bool {
    std::slice::from_raw_parts(block.as_ptr(), bytes).iter().enumerate().all(|(i, &b)| b == i as u8)
}

fn layouts() -> impl Iterator<Item = Layout> {
    [0, 1, 8, 17, 100, 5000, 40_000].into_iter().flat_map(|size| {
        [1, 8, 16, 64, 4096].map(|align| Layout::from_size_align(size, align).unwrap())
    })
}

#[test]
fn every_layout_is_served_and_keeps_its_contents() {
    let bucket = Bucket::new("rs-bucket").unwrap();
    for layout in layouts() {
        for bytes in [0, 1, 20, layout.size(), layout.size() + 1, 3 * layout.size(), 70_000] {
            let block = bucket.alloc(layout).unwrap();
            assert_eq!(block.as_ptr() as usize % layout.align(), 0, "{:?}", layout);
            // SAFETY: the block has the layout, then the new size.
            unsafe {
                fill(block, layout);
                let moved = bucket.realloc(block, layout, bytes).unwrap();
                assert_eq!(moved.as_ptr() as usize % layout.align(), 0, "{:?}", layout);
                assert!(is_filled(moved, layout.size().min(bytes)), "{:?} {}", layout, bytes);
                assert_eq!(bucket.stats().unwrap().live_blocks, usize::from(bytes > 0));
                bucket.free(moved, Layout::from_size_align(bytes, layout.align()).unwrap());
            }
        }
    }
    let stats = bucket.stats().unwrap();
    assert_eq!((stats.live_blocks, stats.refused), (0, 0));
    bucket.close().unwrap();
}

#[test]
fn zeroed_blocks_are() {
    let bucket = Bucket::new("rs-zeroed").unwrap();
    for layout in layouts() {
        // SAFETY: the blocks have the layout.
        unsafe {
            let dirty = bucket.alloc(layout).unwrap();
            dirty.as_ptr().write_bytes(0xa5, layout.size());
            bucket.free(dirty, layout);
            let block = bucket.alloc_zeroed(layout).unwrap();
            let bytes = std::slice::from_raw_parts(block.as_ptr(), layout.size());
            assert!(bytes.iter().all(|&byte| byte == 0), "{:?}", layout);
            bucket.free(block, layout);
        }
    }
}

#[test]
fn all_go_at_once() {
    let mut bucket = Bucket::new("rs-cleared").unwrap();
    for layout in layouts().filter(|layout| layout.size() > 0) {
        bucket.alloc(layout).unwrap();
    }
    assert_eq!(bucket.stats().unwrap().live_blocks, 30);
    bucket.clear().unwrap();
    assert_eq!(bucket.stats().unwrap().live_blocks, 0);
    // Also with blocks in it, and the name is free again.
    bucket.alloc(Layout::new::<u64>()).unwrap();
    drop(bucket);
    Bucket::new("rs-cleared").unwrap().close().unwrap();
}

#[test]
fn another_thread_frees() {
    let bucket = Bucket::new("rs-threads").unwrap();
    let layout = Layout::new::<[u64; 9]>();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let blocks: Vec<usize> =
                (0..500).map(|_| bucket.alloc(layout).unwrap().as_ptr() as usize).collect();
            let bucket = &bucket;
            scope.spawn(move || {
                for block in blocks {
                    // SAFETY: handed over by the thread that allocated it.
                    unsafe { bucket.free(NonNull::new(block as *mut u8).unwrap(), layout) };
                }
            });
        }
    });
    assert_eq!(bucket.stats().unwrap().live_blocks, 0);
}

#[test]
fn a_group_pays() {
    let (first, second) = (Group::new("rs-first").unwrap(), Group::new("rs-second").unwrap());
    let layout = Layout::new::<[u8; 100_000]>();
    let mut bucket = Bucket::in_group("rs-paid", &first).unwrap();
    bucket.alloc(layout).unwrap();
    bucket.set_group(Some(&second)).unwrap();
    bucket.alloc(layout).unwrap();
    bucket.alloc(layout).unwrap();
    assert!((100_000..150_000).contains(&first.stats().usage));
    assert!((200_000..300_000).contains(&second.stats().usage));
    bucket.set_group(None).unwrap();
    bucket.alloc(layout).unwrap();
    assert!(second.stats().usage < 300_000);
    bucket.clear().unwrap();
    assert_eq!((first.stats().usage, second.stats().usage), (0, 0));
    // One without the flag cannot be charged.
    let free = Bucket::new("rs-unpaid").unwrap();
    assert_eq!(free.set_group(Some(&first)).unwrap_err().errno(), 22);
}

#[test]
fn bad_input_is_answered() {
    let bucket = Bucket::new("rs-taken").unwrap();
    for name in ["", "with blank", &"x".repeat(42)] {
        assert_eq!(Bucket::new(name).unwrap_err(), Error::BadName);
    }
    assert!(Bucket::new(&"x".repeat(41)).is_ok());
    assert_eq!(Bucket::new("rs-taken").unwrap_err(), Error::NameTaken);
    let flag = slub::sys::SLUB_CACHE_TYPESAFE_BY_RCU;
    assert_eq!(Bucket::with_flags("rs-flag", flag).unwrap_err(), Error::Other(22));
    let huge = Layout::from_size_align(isize::MAX as usize - 4096, 1).unwrap();
    assert_eq!(bucket.alloc(huge), Err(Error::OutOfMemory));
    let layout = Layout::new::<u64>();
    let block = bucket.alloc(layout).unwrap();
    // SAFETY: the block stays as it was.
    unsafe {
        block.as_ptr().write(7);
        assert_eq!(bucket.realloc(block, layout, huge.size()), Err(Error::OutOfMemory));
        assert_eq!(block.as_ptr().read(), 7);
        bucket.free(block, layout);
    }
}
