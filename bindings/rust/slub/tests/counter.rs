// SPDX-License-Identifier: MIT
//! Counters and deferred free.

use slub::{rcu, Cache, Counter, Slub, StaticCache};
use std::sync::atomic::{AtomicBool, Ordering};

#[global_allocator]
static ALLOCATOR: Slub = Slub;

static STATIC: Counter = Counter::new();

#[test]
fn a_static_counter_adds_up() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100_000).for_each(|_| STATIC.add(1)));
        }
    });
    STATIC.add(-1000);
    assert_eq!(STATIC.sum(), 399_000);
}

#[test]
fn memory_is_taken_when_used_and_given_back() {
    let unused = Counter::new();
    assert_eq!(unused.sum(), 0);
    for round in 0..10_000 {
        let counter = Counter::default();
        counter.add(round);
        assert_eq!(counter.sum(), round, "an old copy was not zero");
        assert_eq!(format!("{:?}", counter), format!("Counter({})", round));
    }
}

struct Version {
    number: u64,
    twice: u64,
}

static VERSIONS: StaticCache<Version> = StaticCache::new("rs-version");
static CURRENT: rcu::Shared<Version> = rcu::Shared::empty();

#[test]
fn readers_see_whole_versions() {
    let publish = |n| {
        CURRENT.replace(Some(VERSIONS.alloc(Version { number: n, twice: 2 * n }).unwrap()));
    };
    let stop = AtomicBool::new(false);
    publish(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let reading = rcu::read();
                    let version = CURRENT.get(&reading).unwrap();
                    let number = version.number;
                    std::thread::yield_now();
                    assert_eq!((version.number, version.twice), (number, 2 * number));
                    assert!(number >= last);
                    last = number;
                }
            });
        }
        (2..20_000).for_each(publish);
        stop.store(true, Ordering::Relaxed);
    });
    CURRENT.replace(None);
    rcu::barrier().unwrap();
    // Every version has been freed: none of them is left in the cache.
    let cache = VERSIONS.get().unwrap();
    let mut left = 0;
    extern "C" fn count(_: *mut slub::sys::c_void, left: *mut slub::sys::c_void) -> i32 {
        // SAFETY: it is the address of `left` below.
        unsafe { *left.cast::<i32>() += 1 };
        0
    }
    // SAFETY: the cache lives, and count() does what it should.
    unsafe {
        let at: *mut i32 = &mut left;
        slub::sys::slub_cache_for_each_object(cache.as_raw(), Some(count), at.cast());
    }
    assert_eq!(left, 0);
}

#[test]
fn deferred_free_of_a_box() {
    let cache = Cache::new("rs-deferred").unwrap();
    {
        let _outer = rcu::read();
        let _inner = rcu::read();
        for i in 0..1000u64 {
            rcu::free(cache.alloc(i).unwrap());
        }
    }
    rcu::barrier().unwrap();
    assert_eq!(cache.close(), Ok(()));
}
