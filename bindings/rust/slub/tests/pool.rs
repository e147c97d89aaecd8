// SPDX-License-Identifier: MIT
//! Pools: what was put aside is there when the cache has nothing.

use slub::group::Limit;
use slub::{pool, sys, Cache, Error, Group, Pool};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Page = [u8; 4096];

/// A pool whose cache gets no more memory.
fn dry_pool(name: &str, min: usize) -> (Group, Pool<Page>) {
    let group = Group::new(name).unwrap();
    let cache = Cache::with_flags(name, sys::SLUB_CACHE_ACCOUNT).unwrap();
    let pool = Pool::with_cache(cache, min).unwrap();
    group.set_limit(Limit::Max, Some(0)).unwrap();
    pool.cache().set_group(Some(&group)).unwrap();
    (group, pool)
}

#[test]
fn the_reserve_is_there_without_memory() {
    let (_group, pool) = dry_pool("rs-dry", 3);
    assert_eq!(pool.cache().alloc([0; 4096]).unwrap_err(), Error::OutOfMemory);
    let mut held: Vec<_> = (0..3).map(|i| pool.alloc([i; 4096]).unwrap()).collect();
    assert_eq!(pool.stats().unwrap().available, 0);
    assert_eq!(pool.alloc([3; 4096]).unwrap_err(), Error::OutOfMemory);
    assert_eq!(pool.alloc_reserved([3; 4096]).unwrap_err(), Error::OutOfMemory);
    assert!(held.iter().enumerate().all(|(i, page)| **page == [i as u8; 4096]));
    drop(held.pop());
    assert_eq!(pool::Box::into_inner(pool.alloc_reserved([9; 4096]).unwrap()), [9; 4096]);
    drop(held);
    let stats = pool.stats().unwrap();
    assert_eq!((stats.available, stats.taken, stats.refused), (3, 4, 0));
}

#[test]
fn a_thread_waits_for_what_comes_back() {
    let (_group, pool) = dry_pool("rs-waits", 1);
    let held = pool.wait([1; 4096]);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| pool::Box::into_inner(pool.wait([2; 4096])));
        // `waits` counts at the sleep; a thread of `waiters` may still look at the reserve.
        while pool.stats().unwrap().waits == 0 {
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(waiter.join().unwrap(), [2; 4096]);
    });
    assert_eq!(pool.stats().unwrap().waiters, 0);
}

#[test]
fn an_array_is_all_or_nothing() {
    let (_group, pool) = dry_pool("rs-array", 3);
    let [mut a, b] = pool.alloc_array([[1; 4096], [2; 4096]]).unwrap();
    a[0] = 7;
    assert_eq!((a[0], a[1], b[0]), (7, 1, 2));
    assert_eq!(pool.alloc_array([[0; 4096]; 2]).unwrap_err(), Error::OutOfMemory);
    assert_eq!(pool.stats().unwrap().available, 1);
    drop((a, b));
    assert_eq!(pool.wait_array([[0; 4096]; 3]).unwrap().len(), 3);
    assert_eq!(pool.wait_array([[0; 4096]; 4]).unwrap_err(), Error::Other(22));
    assert_eq!(pool.alloc_array::<0>([]).unwrap().len(), 0);
    assert_eq!(pool.stats().unwrap().available, 3);
}

static DROPS: AtomicUsize = AtomicUsize::new(0);

struct Counted(bool);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Relaxed);
        if self.0 {
            panic!("of a drop");
        }
    }
}

#[test]
fn values_are_dropped_once_and_elements_come_back() {
    let pool = Pool::new("rs-drops", 2).unwrap();
    let held = pool.alloc_reserved(Counted(false)).unwrap();
    let bad = pool.alloc_reserved(Counted(true)).unwrap();
    assert!(pool.alloc_reserved(Counted(false)).is_err());
    assert_eq!(DROPS.load(Relaxed), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(bad))).is_err());
    assert_eq!(DROPS.load(Relaxed), 2);
    std::mem::forget(pool::Box::into_inner(held));
    assert_eq!(DROPS.load(Relaxed), 2);
    assert_eq!(pool.stats().unwrap().available, 2);
}

#[test]
fn types_are_aligned() {
    #[repr(align(256))]
    struct Line(#[allow(dead_code)] u8);

    let pool = Pool::new("rs-aligned", 4).unwrap();
    let held: Vec<_> = (0..20).map(|i| pool.alloc(Line(i)).unwrap()).collect();
    assert!(held.iter().all(|line| &**line as *const Line as usize % 256 == 0));
    let nothing = Pool::new("rs-nothing", 1).unwrap();
    assert_eq!(*nothing.alloc(()).unwrap(), ());
}

#[test]
fn the_reserve_changes_its_size() {
    let pool = Pool::<u64>::new("rs-resized", 2).unwrap();
    pool.resize(5).unwrap();
    assert_eq!(pool.stats().unwrap().available, 5);
    pool.resize(1).unwrap();
    assert_eq!(pool.stats().unwrap().available, 1);
    assert_eq!(pool.resize(0), Err(Error::Other(22)));
    assert_eq!(pool.stats().unwrap().min_nr, 1);
}

#[test]
fn bad_input_is_answered() {
    assert_eq!(Pool::<u64>::new("two words", 1).unwrap_err(), Error::BadName);
    for nr in [0, sys::SLUB_MEMPOOL_NR_MAX + 1] {
        assert_eq!(Pool::<u64>::new("rs-number", nr).unwrap_err(), Error::Other(22));
    }
    // The cache went with them.
    let pool = Pool::new("rs-number", 1).unwrap();
    // A forgotten element keeps the cache, and its name.
    std::mem::forget(pool.alloc_reserved(7u64).unwrap());
    drop(pool);
    assert_eq!(Pool::<u64>::new("rs-number", 1).unwrap_err(), Error::NameTaken);
}
