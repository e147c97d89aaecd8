// SPDX-License-Identifier: MIT
//! Groups and shrinkers.

use slub::group::Limit;
use slub::{shrinker, Cache, Error, Group, Shrinker, Slub};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[global_allocator]
static ALLOCATOR: Slub = Slub;

/// Walks ask all shrinkers, and a group at its maximum walks too: one test at a time.
static WALKS: Mutex<()> = Mutex::new(());

fn walks() -> std::sync::MutexGuard<'static, ()> {
    WALKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn a_group_is_charged_and_given_back() {
    let _walks = walks();
    let tenant = Group::new("rs-tenant").unwrap();
    let block = tenant.run(|| vec![1u8; 200_000]).unwrap();
    assert!(tenant.stats().usage >= 200_000);
    assert!(tenant.memory().unwrap().large_bytes >= 200_000);
    let outside = vec![1u8; 200_000];
    assert!(tenant.stats().usage < 400_000);
    std::thread::spawn(move || drop(block)).join().unwrap();
    assert_eq!(tenant.stats().usage, 0);
    assert!(tenant.stats().peak >= 200_000);
    drop(outside);
    assert_eq!(tenant.close(), Ok(()));
}

#[test]
fn a_maximum_is_kept() {
    let _walks = walks();
    let tenant = Group::new("rs-max").unwrap();
    assert_eq!(tenant.limit(Limit::Max), None);
    tenant.set_limit(Limit::Max, Some(1 << 20)).unwrap();
    assert_eq!(tenant.limit(Limit::Max), Some(1 << 20));
    let refused = tenant.run(|| Vec::<u8>::new().try_reserve_exact(4 << 20)).unwrap();
    assert!(refused.is_err());
    assert!(tenant.stats().failures >= 1);
    let kept = tenant.run(|| vec![0u8; 500_000]).unwrap();
    assert_eq!(tenant.set_limit(Limit::Max, Some(4096)), Err(Error::Busy));
    assert_eq!(tenant.limit(Limit::Max), Some(1 << 20));
    drop(kept);
}

#[test]
fn caches_are_charged() {
    let _walks = walks();
    let flags = slub::sys::SLUB_CACHE_ACCOUNT;
    let cache: Cache<[u8; 1000]> = Cache::with_flags("rs-charged", flags).unwrap();
    let tenant = Group::new("rs-owner").unwrap();
    let inside = tenant.run(|| cache.alloc([0; 1000]).unwrap()).unwrap();
    assert_eq!(tenant.stats().usage, 1000);
    cache.set_group(Some(&tenant)).unwrap();
    let outside = cache.alloc([0; 1000]).unwrap();
    assert_eq!(tenant.stats().usage, 2000);
    tenant.set_limit(Limit::Max, Some(2000)).unwrap();
    assert_eq!(cache.alloc([0; 1000]).unwrap_err(), Error::OutOfMemory);
    drop((inside, outside));
    assert_eq!(tenant.stats().usage, 0);
    cache.set_group(None).unwrap();

    let plain: Cache<u64> = Cache::new("rs-not-charged").unwrap();
    assert_eq!(plain.set_group(Some(&tenant)), Err(Error::Other(22)));
}

#[test]
fn groups_form_a_tree() {
    let _walks = walks();
    let upper = Group::new("rs-upper").unwrap();
    let lower = Group::below("rs-lower", &upper).unwrap();
    let block = upper.run(|| lower.run(|| vec![0u8; 50_000]).unwrap()).unwrap();
    assert!(lower.stats().usage >= 50_000 && upper.stats().usage >= 50_000);
    assert_eq!((upper.stats().children, lower.stats().depth), (1, upper.stats().depth + 1));
    assert_eq!(lower.close(), Ok(()));
    assert!(upper.stats().usage >= 50_000, "the parent is charged with it");
    drop(block);
    assert_eq!(upper.stats().usage, 0);
    assert_eq!(Group::new("two words").unwrap_err(), Error::BadName);

    let left = Group::below("rs-left", &upper).unwrap();
    assert_eq!(upper.close(), Err(Error::Busy));
    drop(left);
}

#[test]
fn a_panic_leaves_the_group() {
    let _walks = walks();
    let tenant = Group::new("rs-panic").unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| tenant.run(|| resume_unwind(Box::new("no")))));
    assert!(result.is_err());
    let _outside = vec![0u8; 300_000];
    assert!(tenant.stats().usage < 300_000);

    fn nested(tenant: &Group, depth: u32) -> Result<u32, Error> {
        match tenant.run(|| nested(tenant, depth + 1)) {
            Ok(inner) => inner,
            Err(Error::NoSpace) => Ok(depth),
            Err(other) => Err(other),
        }
    }
    assert_eq!(nested(&tenant, 0), Ok(8));
}

#[test]
fn shrinkers_are_asked() {
    let _walks = walks();
    let idle = Arc::new(AtomicUsize::new(1000));
    let (counted, scanned) = (idle.clone(), idle.clone());
    let shrinker = Shrinker::new(
        "rs idle",
        move || counted.load(Relaxed),
        move |n| {
            scanned
                .fetch_update(Relaxed, Relaxed, |had| Some(had - n.min(had)))
                .ok()
                .map(|had| n.min(had))
        },
    )
    .unwrap();
    assert!(shrinker::shrink(12) <= 1000);
    shrinker::shrink_all();
    assert_eq!(idle.load(Relaxed), 0);
    assert_eq!(shrinker.freed(), 1000);
    drop(shrinker);
    assert_eq!(Arc::strong_count(&idle), 1, "the closures are dropped");
}

#[test]
fn bad_shrinkers_are_refused() {
    let _walks = walks();
    let alive = Arc::new(());
    let new = |name: &str, seeks: u32| {
        let kept = alive.clone();
        Shrinker::with_seeks(
            name,
            seeks,
            move || {
                let _kept = &kept;
                0
            },
            |_| None,
        )
    };
    assert_eq!(new("", 2).unwrap_err(), Error::BadName);
    assert_eq!(new("a\0b", 2).unwrap_err(), Error::BadName);
    assert_eq!(new(&"x".repeat(64), 2).unwrap_err(), Error::BadName);
    assert_eq!(new("rs-seeks", 1_000_001).unwrap_err(), Error::Other(22));
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn panics_stop_the_scan() {
    let _walks = walks();
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let scan_panics = Shrinker::new(
        "rs-scan",
        || 1000,
        move |_| {
            seen.fetch_add(1, Relaxed);
            resume_unwind(Box::new("scan"))
        },
    )
    .unwrap();
    let scans = Arc::new(AtomicUsize::new(0));
    let counted = scans.clone();
    let count_panics = Shrinker::new(
        "rs-count",
        || resume_unwind(Box::new("count")),
        move |n| {
            counted.fetch_add(1, Relaxed);
            Some(n)
        },
    )
    .unwrap();
    assert_eq!(shrinker::shrink(0), 0);
    assert_eq!(calls.load(Relaxed), 1, "SHRINK_STOP: not asked again in this walk");
    assert_eq!(scans.load(Relaxed), 0, "nothing is scanned where nothing was counted");
    assert_eq!((scan_panics.freed(), count_panics.freed()), (0, 0));
    assert_eq!((scan_panics.panics(), count_panics.panics()), (1, 1));
}

#[test]
fn a_panic_whose_payload_panics() {
    struct Picky;
    impl Drop for Picky {
        fn drop(&mut self) {
            resume_unwind(Box::new("again"));
        }
    }
    let _walks = walks();
    let _shrinker = Shrinker::new("rs-picky", || 10, |_| resume_unwind(Box::new(Picky))).unwrap();
    assert_eq!(shrinker::shrink(0), 0);
}

#[test]
fn a_shrinker_may_drop_itself() {
    struct Tells(Arc<AtomicBool>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let _walks = walks();
    let own: Arc<Mutex<Option<Shrinker>>> = Arc::default();
    let dropped = Arc::new(AtomicBool::new(false));
    let too_early = Arc::new(AtomicBool::new(false));
    let (mine, tells, seen) = (own.clone(), Tells(dropped.clone()), dropped.clone());
    let says = too_early.clone();
    let shrinker = Shrinker::new(
        "rs-self",
        || 10,
        move |n| {
            let _tells = &tells;
            drop(mine.lock().unwrap().take());
            says.store(seen.load(Relaxed), Relaxed);
            Some(n)
        },
    )
    .unwrap();
    *own.lock().unwrap() = Some(shrinker);
    shrinker::shrink(0);
    assert!(own.lock().unwrap().is_none());
    assert!(!too_early.load(Relaxed), "the closure lives until it returns");
    assert!(dropped.load(Relaxed), "and is dropped then");
    assert_eq!(Arc::strong_count(&own), 1);
}

#[test]
fn walks_and_drops_in_many_threads() {
    let _walks = walks();
    let (asked, late) = (&AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let late = &late;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                for _ in 0..200 {
                    let alive = Arc::new(AtomicBool::new(true));
                    let (count, scan, late) = (alive.clone(), alive.clone(), late.clone());
                    let shrinker = Shrinker::new(
                        "rs-short",
                        move || usize::from(count.load(Relaxed)),
                        move |_| {
                            late.fetch_add(usize::from(!scan.load(Relaxed)), Relaxed);
                            None
                        },
                    )
                    .unwrap();
                    shrinker::shrink(0);
                    drop(shrinker);
                    assert_eq!(Arc::strong_count(&alive), 1);
                    alive.store(false, Relaxed);
                    asked.fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert_eq!((asked.load(Relaxed), late.load(Relaxed)), (600, 0));
}
