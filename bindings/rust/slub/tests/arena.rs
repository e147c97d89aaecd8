// SPDX-License-Identifier: MIT
//! Arenas: what is in one ends with it.

use slub::group::Limit;
use slub::{Arena, Error, Group};
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

#[test]
fn what_is_in_it_ends_with_it() {
    let mut arena = Arena::new("rs-arena").unwrap();
    for round in 0..3u64 {
        let numbers: Vec<&mut u64> = (0..1000).map(|i| arena.alloc(i + round).unwrap()).collect();
        let large = arena.alloc_slice(&[7u8; 100_000]).unwrap();
        assert!(large.iter().all(|&byte| byte == 7));
        assert!(numbers.iter().enumerate().all(|(i, n)| **n == i as u64 + round));
        assert_eq!(arena.stats().unwrap().live_blocks, 1001);
        assert!(arena.stats().unwrap().large_bytes >= 100_000);
        arena.clear().unwrap();
        assert_eq!(arena.stats().unwrap().live_blocks, 0);
    }
    arena.close().unwrap();
    // The name is free again, also after a drop.
    drop(Arena::new("rs-arena").unwrap());
    Arena::new("rs-arena").unwrap().close().unwrap();
}

#[test]
fn values_are_aligned_and_may_be_nothing() {
    #[repr(align(4096))]
    struct Page([u8; 4096]);

    let arena = Arena::new("rs-aligned").unwrap();
    let page = arena.alloc(Page([1; 4096])).unwrap();
    assert_eq!(page as *const Page as usize % 4096, 0);
    assert_eq!(page.0[4095], 1);
    let nothing: &mut [u64] = arena.alloc_slice(&[]).unwrap();
    assert!(nothing.is_empty() && nothing.as_ptr() as usize % 8 == 0);
    arena.alloc(()).unwrap();
    assert_eq!(arena.alloc_str("größer").unwrap(), "größer");
    assert_eq!(arena.alloc_str("").unwrap(), "");
    assert_eq!(arena.stats().unwrap().live_blocks, 2);
}

#[test]
fn threads_allocate_from_one() {
    let arena = Arena::new("rs-shared").unwrap();
    std::thread::scope(|scope| {
        for id in 0..4usize {
            let arena = &arena;
            scope.spawn(move || {
                let mine: Vec<&mut usize> =
                    (0..500).map(|i| arena.alloc(id * 1000 + i).unwrap()).collect();
                assert!(mine.iter().enumerate().all(|(i, n)| **n == id * 1000 + i));
            });
        }
    });
    assert_eq!(arena.stats().unwrap().live_blocks, 2000);
}

#[test]
fn a_group_pays() {
    let group = Group::new("rs-arena-group").unwrap();
    group.set_limit(Limit::Max, Some(1 << 20)).unwrap();
    let mut arena = Arena::in_group("rs-charged", &group).unwrap();
    arena.alloc_slice(&[0u8; 500_000]).unwrap();
    assert!(group.stats().usage >= 500_000);
    assert_eq!(arena.alloc_slice(&[0u8; 600_000]).unwrap_err(), Error::OutOfMemory);
    arena.clear().unwrap();
    assert_eq!(group.stats().usage, 0);
    arena.alloc_slice(&[0u8; 600_000]).unwrap();
}

#[test]
fn bad_input_is_answered() {
    let arena = Arena::new("rs-taken").unwrap();
    for name in ["", "with blank", &"x".repeat(100)] {
        assert_eq!(Arena::new(name).unwrap_err(), Error::BadName);
    }
    assert_eq!(Arena::new("rs-taken").unwrap_err().errno(), 17);
    drop(arena);
}

#[test]
fn slices_of_what_is_not_copy() {
    let mut arena = Arena::new("rs-arena-iter").unwrap();
    let known = arena.alloc_iter(vec![String::from("a"), String::from("b")]).unwrap();
    known[0].push('!');
    assert_eq!(known, ["a!", "b"]);
    assert_eq!(arena.stats().unwrap().live_blocks, 1, "its length was known");
    let grown = arena.alloc_iter((0..1000u64).filter(|n| n % 3 == 0).map(Some)).unwrap();
    assert!(grown.iter().enumerate().all(|(i, n)| *n == Some(3 * i as u64)) && grown.len() == 334);
    assert_eq!(arena.stats().unwrap().live_blocks, 2, "no block is left from before it grew");
    let made = arena.alloc_slice_with(5, |i| vec![i; i]).unwrap();
    assert_eq!(made.iter().map(Vec::len).sum::<usize>(), 10);
    // What an arena keeps is not dropped with it; the vectors' memory is elsewhere.
    made.iter_mut().for_each(|values| *values = Vec::new());
    let cell = arena.alloc_with(|| Cell::new(7)).unwrap();
    assert_eq!(cell.replace(8), 7);
    assert!(arena.alloc_iter(std::iter::empty::<u64>()).unwrap().is_empty());
    assert_eq!(arena.alloc_iter([(); 100]).unwrap().len(), 100);
    arena.clear().unwrap();
}

#[test]
fn slices_are_aligned_as_they_grow() {
    #[repr(align(128))]
    #[derive(Clone, Copy)]
    struct Wide(u64);

    let arena = Arena::new("rs-arena-wide").unwrap();
    let wide = arena.alloc_iter((0..500).filter(|_| true).map(Wide)).unwrap();
    assert_eq!(wide.as_ptr() as usize % 128, 0);
    assert!(wide.iter().enumerate().all(|(i, one)| one.0 == i as u64));
}

/// The closure may allocate in the same arena.
#[test]
fn closures_may_allocate() {
    let arena = Arena::new("rs-arena-nest").unwrap();
    let outer = arena.alloc_with(|| arena.alloc(5).map(|inner| *inner).unwrap() + 1).unwrap();
    let list = arena.alloc_iter((0..50).filter(|_| true).map(|n| arena.alloc(n).unwrap())).unwrap();
    assert_eq!((*outer, list.iter().map(|n| **n).sum::<i32>()), (6, 49 * 25));
}

#[test]
fn a_panic_drops_what_was_there() {
    struct Counted<'a>(&'a Cell<i32>);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    let alive = Cell::new(0);
    let arena = Arena::new("rs-arena-panic").unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        arena.alloc_iter((0..100).filter(|_| true).map(|n| {
            if n == 60 {
                resume_unwind(Box::new("sixty"));
            }
            alive.set(alive.get() + 1);
            Counted(&alive)
        }))
    }));
    assert!(result.is_err());
    assert_eq!(alive.get(), 0);
    assert!(catch_unwind(AssertUnwindSafe(|| {
        arena.alloc_with(|| -> u64 { resume_unwind(Box::new("no")) }).map(|_| ())
    }))
    .is_err());
    assert_eq!(arena.stats().unwrap().live_blocks, 0);
    // Longer than any memory: an error, before the first value.
    let endless = (0..usize::MAX).map(|_| -> u64 { unreachable!() });
    assert_eq!(arena.alloc_iter(endless).unwrap_err(), Error::OutOfMemory);
}
