// SPDX-License-Identifier: MIT
//! Typed caches: every value is dropped once, and its memory comes back.

use slub::{cache, Cache, Error, Slub, StaticCache};
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

#[global_allocator]
static ALLOCATOR: Slub = Slub;

struct Counted(Rc<Cell<i32>>);

impl Counted {
    fn new(alive: &Rc<Cell<i32>>) -> Self {
        alive.set(alive.get() + 1);
        Counted(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[test]
fn values_live_and_drop() {
    let alive = Rc::new(Cell::new(0));
    let cache = Cache::new("rs-counted").unwrap();
    let first = cache.alloc(Counted::new(&alive)).unwrap();
    let second = cache.alloc(Counted::new(&alive)).unwrap();
    assert_eq!(alive.get(), 2);
    drop(first);
    assert_eq!(alive.get(), 1);
    let value = cache::Box::into_inner(second);
    assert_eq!(alive.get(), 1);
    drop(value);
    assert_eq!(alive.get(), 0);
    assert_eq!(cache.close(), Ok(()));
}

#[test]
fn objects_are_the_caches_own() {
    let cache = Cache::new("rs-own").unwrap();
    let mut all: Vec<cache::Box<'_, [u64; 3]>> = Vec::new();
    for i in 0..1000 {
        all.push(cache.alloc([i, i + 1, i + 2]).unwrap());
    }
    for (i, object) in all.iter().enumerate() {
        assert_eq!(**object, [i as u64, i as u64 + 1, i as u64 + 2]);
        // SAFETY: the question may be asked of any pointer.
        let of = unsafe { slub::sys::slub_cache_of((&**object as *const [u64; 3]).cast()) };
        assert_eq!(of, cache.as_raw());
    }
    assert!(cache.stats().slabs > 0);
    drop(all);
    assert!(cache.shrink());
    assert_eq!(cache.name(), "rs-own");
    assert_eq!(cache.stride(), 24);
}

#[test]
fn a_closure_that_panics_leaves_nothing() {
    let cache: Cache<[u8; 64]> = Cache::new("rs-panic").unwrap();
    for _ in 0..1000 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _ = cache.alloc_with(|| std::panic::resume_unwind(Box::new("no")));
        }));
        assert!(result.is_err());
    }
    assert_eq!(cache.close(), Ok(()));
}

#[test]
fn a_drop_that_panics_frees_the_memory() {
    struct Picky;
    impl Drop for Picky {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("no"));
        }
    }
    let cache = Cache::new("rs-picky").unwrap();
    let object = cache.alloc(Picky).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(object))).is_err());
    assert_eq!(cache.close(), Ok(()));
}

#[test]
fn unusual_types() {
    #[repr(align(512))]
    struct Wide(u8);
    let wide = Cache::new("rs-wide").unwrap();
    let objects: Vec<_> = (0..100).map(|i| wide.alloc(Wide(i)).unwrap()).collect();
    for (i, object) in objects.iter().enumerate() {
        assert_eq!(&**object as *const Wide as usize % 512, 0);
        assert_eq!(object.0, i as u8);
    }

    let nothing: Cache<()> = Cache::new("rs-nothing").unwrap();
    let unit = nothing.alloc(()).unwrap();
    assert_eq!(*unit, ());

    assert_eq!(Cache::<[u8; 300_000]>::new("rs-large").unwrap_err(), Error::BadType);
}

#[test]
fn errors() {
    let _taken: Cache<u64> = Cache::new("rs-taken").unwrap();
    let error = |name: &str| Cache::<u64>::new(name).unwrap_err();

    assert_eq!(error("rs-taken"), Error::NameTaken);
    assert_eq!(error(""), Error::BadName);
    assert_eq!(error("two words"), Error::BadName);
    assert_eq!(error("zero\0"), Error::BadName);
    assert_eq!(error("ä"), Error::BadName);
    assert_eq!(error(&"x".repeat(48)), Error::BadName);
    assert_eq!(error("").errno(), 22);
    assert!(Cache::<u64>::with_flags("rs-flags", 1 << 40).is_err());
    assert!(Cache::<u64>::with_flags("rs-rcu", slub::sys::SLUB_CACHE_TYPESAFE_BY_RCU).is_err());
    assert!(Error::NameTaken.to_string().contains("already"));
    let io: std::io::Error = Error::OutOfMemory.into();
    assert_eq!(io.raw_os_error(), Some(12));
}

#[test]
fn forgotten_objects_keep_the_cache() {
    let cache = Cache::new("rs-forgotten").unwrap();
    let raw = cache::Box::into_raw(cache.alloc(17u64).unwrap());
    let cache: &'static Cache<u64> = cache.leak();
    // SAFETY: it came from this cache.
    assert_eq!(*unsafe { cache.box_from_raw(raw) }, 17);

    let other = Cache::new("rs-forgotten-2").unwrap();
    let forgotten = cache::Box::leak(other.alloc(18u64).unwrap()) as *mut u64;
    assert_eq!(other.close(), Err(Error::Busy));
    // SAFETY: a cache with objects left stays.
    assert_eq!(unsafe { *forgotten }, 18);
}

#[test]
fn boxes_go_to_other_threads() {
    let cache = Cache::new("rs-threads").unwrap();
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel::<cache::Box<'_, [u64; 8]>>();
        let cache = &cache;
        scope.spawn(move || {
            for i in 0..50_000 {
                send.send(cache.alloc([i; 8]).unwrap()).unwrap();
            }
        });
        scope.spawn(move || {
            for (i, object) in receive.into_iter().enumerate() {
                assert_eq!(*object, [i as u64; 8]);
            }
        });
    });
    assert_eq!(cache.close(), Ok(()));
}

static SHARED: StaticCache<[u64; 5]> = StaticCache::new("rs-static");
static SAME_NAME: StaticCache<[u64; 5]> = StaticCache::new("rs-static");

#[test]
fn static_caches_are_made_once() {
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for i in 0..8u64 {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..1000 {
                    assert_eq!(*SHARED.alloc([i; 5]).unwrap(), [i; 5]);
                }
            });
        }
    });
    assert_eq!(SHARED.get().unwrap().name(), "rs-static");
    assert_eq!(SAME_NAME.alloc([0; 5]).unwrap_err(), Error::NameTaken);
}

#[test]
fn a_box_is_compared_as_its_value() {
    let (cache, other) = (Cache::new("rs-compared").unwrap(), Cache::new("rs-other").unwrap());
    let mut boxes: Vec<_> = [3, 1, 2].iter().map(|&n| cache.alloc(n).unwrap()).collect();
    boxes.sort();
    assert_eq!(boxes.iter().map(|boxed| **boxed).collect::<Vec<i32>>(), [1, 2, 3]);
    assert!(boxes[0] == other.alloc(1).unwrap() && boxes[0] < other.alloc(2).unwrap());
    assert!(cache.alloc(0).unwrap() < boxes[0]);
    let nan = Cache::new("rs-nan").unwrap();
    assert_eq!(nan.alloc(f64::NAN).unwrap().partial_cmp(&nan.alloc(1.0).unwrap()), None);
    // By a value, as Borrow promises.
    let set: std::collections::HashSet<_> = boxes.into_iter().collect();
    assert!(set.contains(&2) && !set.contains(&4));
    let map: std::collections::BTreeMap<_, _> = set.into_iter().map(|n| (n, ())).collect();
    assert!(map.contains_key(&3) && !map.contains_key(&0));
}

#[test]
fn a_clone_comes_from_the_same_cache() {
    let cache = Cache::new("rs-cloned").unwrap();
    let first = cache.alloc(vec![1, 2, 3]).unwrap();
    let mut second = first.clone();
    second.push(4);
    assert_eq!((first.len(), second.len()), (3, 4));
    let bytes = second.as_ptr();
    second.clone_from(&first);
    assert_eq!((&*second, second.as_ptr()), (&vec![1, 2, 3], bytes), "its memory is used again");
    let object: *mut Vec<i32> = cache::Box::into_raw(second);
    // SAFETY: the address is that of an object of this library.
    let of = unsafe { slub::sys::slub_cache_of(object.cast_const().cast()) };
    assert_eq!(of, cache.as_raw());
    // SAFETY: it came from a box of this cache.
    drop(unsafe { cache.box_from_raw(object) });
    drop(first);
    assert_eq!(cache.close(), Ok(()));
}

/// A value's clone may panic, and there may be no memory: nothing is left either way.
#[test]
fn a_clone_that_fails() {
    struct Picky(Rc<Cell<i32>>);
    impl Clone for Picky {
        fn clone(&self) -> Self {
            std::panic::resume_unwind(Box::new("no"))
        }
    }
    let cache = Cache::new("rs-picky-clone").unwrap();
    let picky = cache.alloc(Picky(Rc::new(Cell::new(0)))).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| picky.clone())).is_err());
    assert_eq!(Rc::strong_count(&picky.0), 1);
    drop(picky);
    assert_eq!(cache.close(), Ok(()));

    let group = slub::Group::new("rs-no-clone").unwrap();
    let account = slub::sys::SLUB_CACHE_ACCOUNT;
    let cache = Cache::<[u8; 4096]>::with_flags("rs-no-clone", account).unwrap();
    let kept = cache.alloc([7; 4096]).unwrap();
    cache.set_group(Some(&group)).unwrap();
    group.set_limit(slub::group::Limit::Max, Some(1000)).unwrap();
    assert_eq!(cache::Box::try_clone(&kept).unwrap_err(), Error::OutOfMemory);
    group.set_limit(slub::group::Limit::Max, None).unwrap();
    assert_eq!(cache::Box::try_clone(&kept).unwrap(), kept);
}

#[test]
fn errors_have_words_and_names() {
    let text = |errno| Error::Other(errno).to_string();
    assert!(text(35).contains("EDEADLK") && text(35).contains("wait for its caller"));
    assert!(text(2).contains("ENOENT") && text(22).contains("EINVAL"));
    assert!(text(13).contains("Permission denied"), "what the system says");
    assert!(!text(35).contains("35"));
}
