// SPDX-License-Identifier: MIT
//! Collections of the crate allocator-api2 in buckets, arenas and groups.
#![cfg(feature = "allocator-api2")]

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use slub::group::Limit;
use slub::{Arena, Bucket, Group, Scratch, Slub};
use std::alloc::Layout;

/// Blocks of all shapes through all functions of the trait.
fn exercise<A: Allocator>(allocator: &A) {
    let shapes = [(0, 1), (1, 1), (24, 8), (100, 64), (5000, 4096), (40_000, 16)]
        .map(|(size, align)| Layout::from_size_align(size, align).unwrap());
    for old in shapes {
        for new in shapes {
            // SAFETY: blocks are used in their bounds, and freed with their layout.
            unsafe {
                let block = allocator.allocate(old).unwrap();
                assert_eq!(block.len(), old.size());
                block.cast::<u8>().as_ptr().write_bytes(7, old.size());
                let changed = if new.size() < old.size() {
                    allocator.shrink(block.cast(), old, new).unwrap()
                } else if new.align() == old.align() {
                    allocator.grow(block.cast(), old, new).unwrap()
                } else {
                    let grown = allocator.grow_zeroed(block.cast(), old, new).unwrap();
                    assert!(grown.as_ref()[old.size()..].iter().all(|&byte| byte == 0));
                    grown
                };
                let kept = old.size().min(new.size());
                assert_eq!(changed.cast::<u8>().as_ptr() as usize % new.align(), 0);
                assert_eq!(changed.len(), new.size());
                assert!(changed.as_ref()[..kept].iter().all(|&byte| byte == 7));
                allocator.deallocate(changed.cast(), new);
            }
        }
        let zeroed = allocator.allocate_zeroed(old).unwrap();
        // SAFETY: as above.
        unsafe {
            assert!(zeroed.as_ref().iter().all(|&byte| byte == 0));
            allocator.deallocate(zeroed.cast(), old);
        }
    }
    let huge = Layout::from_size_align(isize::MAX as usize - 4096, 1).unwrap();
    assert!(allocator.allocate(huge).is_err());
}

#[test]
fn every_shape() {
    let bucket = Bucket::new("rs-shapes").unwrap();
    let arena = Arena::new("rs-arena-shapes").unwrap();
    let group = Group::new("rs-group-shapes").unwrap();
    exercise(&Slub);
    exercise(&&bucket);
    exercise(&&arena);
    exercise(&&Scratch::new());
    exercise(&&group);
    assert_eq!(bucket.stats().unwrap().live_blocks, 0);
    assert_eq!(bucket.stats().unwrap().refused, 0);
    assert_eq!(arena.stats().unwrap().live_blocks, 0);
    assert_eq!(group.stats().usage, 0);
}

#[test]
fn a_vector_lives_in_its_bucket() {
    let mut bucket = Bucket::new("rs-vector").unwrap();
    let mut numbers = Vec::new_in(&bucket);
    numbers.extend(0..10_000u64);
    assert!(bucket.stats().unwrap().live_bytes >= 80_000);
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert!(bucket.stats().unwrap().live_bytes < 200);
    assert_eq!(numbers.iter().sum::<u64>(), 45);
    let boxes: std::vec::Vec<_> = (0..100).map(|i| Box::new_in(i, &bucket)).collect();
    assert_eq!(bucket.stats().unwrap().live_blocks, 101);
    drop(numbers);
    std::mem::forget(boxes);
    bucket.clear().unwrap();
    assert_eq!(bucket.stats().unwrap().live_blocks, 0);
}

#[test]
fn a_group_pays_for_its_vector_alone() {
    let (tenant, other) = (Group::new("rs-tenant").unwrap(), Group::new("rs-other").unwrap());
    tenant.set_limit(Limit::Max, Some(1 << 20)).unwrap();
    let mut list = Vec::<u8, _>::new_in(&tenant);
    other.run(|| list.resize(300_000, 1)).unwrap();
    assert!(tenant.stats().usage >= 300_000);
    assert_eq!(other.stats().usage, 0);
    assert!(list.try_reserve_exact(2 << 20).is_err());
    assert!(list.iter().all(|&byte| byte == 1));
    other.run(|| drop(list)).unwrap();
    assert_eq!(tenant.stats().usage, 0);
}
