// SPDX-License-Identifier: MIT
//! Objects behind handles: they move, and their handles find them.

use slub::movable::{defrag_all, Handle};
use slub::{Error, MovableCache, Slub};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

#[global_allocator]
static ALLOCATOR: Slub = Slub;

/// defrag_all() moves every cache's objects: one test at a time.
static MOVES: Mutex<()> = Mutex::new(());

fn moves() -> MutexGuard<'static, ()> {
    MOVES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// One in `part` of `nr` objects, which say what they are.
fn sparse(cache: &MovableCache<Vec<usize>>, nr: usize, part: usize) -> Vec<Handle<'_, Vec<usize>>> {
    let all: Vec<_> = (0..nr).map(|i| cache.alloc(vec![i]).unwrap()).collect();
    all.into_iter().enumerate().filter(|(i, _)| i % part == 0).map(|(_, kept)| kept).collect()
}

fn check(kept: &[Handle<'_, Vec<usize>>], part: usize) {
    for (i, handle) in kept.iter().enumerate() {
        assert_eq!(*handle.get(), [i * part]);
    }
}

#[test]
fn sparse_slabs_become_empty() {
    let _moves = moves();
    let cache = MovableCache::new("rs-movable").unwrap();
    let mut kept = sparse(&cache, 20_000, 40);
    let before = cache.stats();
    assert!(cache.defrag(100).unwrap() > 0);
    let after = cache.stats();
    assert!(after.slabs * 4 < before.slabs, "{} of {}", after.slabs, before.slabs);
    assert!(after.objects_moved > 0);
    check(&kept, 40);
    for (i, handle) in kept.iter_mut().enumerate() {
        handle.get_mut()[0] = i;
    }
    check(&kept, 1);
    drop(kept);
    assert_eq!(cache.close(), Ok(()));
}

#[test]
fn what_is_looked_at_stays() {
    let _moves = moves();
    let cache = MovableCache::new("rs-pinned").unwrap();
    let kept = sparse(&cache, 5_000, 50);
    let guards: Vec<_> = kept.iter().map(|handle| handle.get()).collect();
    let addresses: Vec<_> = guards.iter().map(|guard| &**guard as *const Vec<usize>).collect();
    cache.defrag(100).unwrap();
    assert_eq!(cache.stats().objects_moved, 0);
    for (guard, address) in guards.iter().zip(&addresses) {
        assert_eq!(&**guard as *const _, *address);
    }
    drop(guards);
    defrag_all(100).unwrap();
    assert!(cache.stats().objects_moved > 0);
    check(&kept, 50);
    // A forgotten look: it stays, and can still be dropped.
    std::mem::forget(kept[0].get());
    cache.defrag(100).unwrap();
    drop(kept);
    assert_eq!(cache.close(), Ok(()));
}

#[test]
fn values_are_dropped_once() {
    let _moves = moves();
    let alive = std::rc::Rc::new(());
    let cache = MovableCache::new("rs-moved-drop").unwrap();
    let mut all: Vec<_> = (0..2_000).map(|_| cache.alloc(alive.clone()).unwrap()).collect();
    assert_eq!(std::rc::Rc::strong_count(&alive), 2_001);
    let mut i = 0;
    all.retain(|_| {
        i += 1;
        i % 20 == 0
    });
    cache.defrag(100).unwrap();
    assert_eq!(std::rc::Rc::strong_count(&alive), 101);
    let value = Handle::into_inner(all.pop().unwrap());
    assert_eq!(std::rc::Rc::strong_count(&alive), 101);
    drop(value);
    drop(all);
    assert_eq!(std::rc::Rc::strong_count(&alive), 1);
    assert_eq!(cache.close(), Ok(()));
}

#[test]
fn errors() {
    let _moves = moves();
    let cache = MovableCache::<u64>::new("rs-move-errors").unwrap();
    assert_eq!(MovableCache::<u64>::new("rs-move-errors").unwrap_err(), Error::NameTaken);
    assert_eq!(MovableCache::<u64>::new(&"x".repeat(40)).unwrap_err(), Error::BadName);
    assert_eq!(MovableCache::<[u8; 300_000]>::new("rs-m-large").unwrap_err(), Error::BadType);
    assert_eq!(cache.defrag(101), Err(Error::Other(22)));
    assert_eq!(cache.defrag(100), Ok(0));
    let _forgotten = std::mem::ManuallyDrop::new(cache.alloc(1).unwrap());
    assert!(cache.shrink() || cache.stats().slabs > 0);
}

/// Threads make, change and drop objects while another one moves them.
#[test]
fn moving_beside_everything_else() {
    let _moves = moves();
    let cache = &MovableCache::new("rs-move-storm").unwrap();
    let shared = &sparse(cache, 2_000, 10);
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2usize)
            .map(|seed| {
                scope.spawn(move || {
                    let mut own: Vec<Handle<'_, Vec<usize>>> = Vec::new();
                    let mut random = seed * 77 + 1;
                    for i in 0..30_000 {
                        random = random
                            .wrapping_mul(6364136223846793005)
                            .wrapping_add(1442695040888963407);
                        let at = (random >> 33) % 500;
                        if at < own.len() {
                            let mut last = own.swap_remove(at);
                            assert_eq!(last.get()[0], last.get()[1]);
                            *last.get_mut() = vec![i, i];
                            if i % 3 != 0 {
                                own.push(last);
                            }
                        } else {
                            own.push(cache.alloc(vec![i, i]).unwrap());
                        }
                        let n = at % shared.len();
                        assert_eq!(*shared[n].get(), [n * 10]);
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !over.load(Relaxed) {
                cache.defrag(100).unwrap();
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        over.store(true, Relaxed);
    });
    check(shared, 10);
}
