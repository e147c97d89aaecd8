// SPDX-License-Identifier: MIT
//! Arenas: what is in one ends with it.

use slub::group::Limit;
use slub::{Arena, Error, Group};

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
