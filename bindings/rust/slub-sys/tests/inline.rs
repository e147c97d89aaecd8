// SPDX-License-Identifier: MIT
//! The inline functions against what they do without a sequence.

use slub_sys::{inline, *};
use std::ptr::null_mut;
use std::thread;

fn cache(name: &str, size: usize) -> *mut slub_cache {
    // SAFETY: the name ends with a NUL.
    let cache = unsafe { slub_cache_create(name.as_ptr().cast(), size, 8, 0, None) };
    assert!(!cache.is_null());
    cache
}

/// Those of threads that end, too: their first call is a slow one.
#[test]
fn additions_of_many_threads_are_all_there() {
    const NR: i64 = 20_000;
    // SAFETY: the offset is used until it is freed.
    unsafe {
        let offset = slub_percpu_alloc(8, 8);
        assert_ne!(offset, 0);
        for _ in 0..4 {
            let threads: Vec<_> = (1..=4)
                .map(|n| {
                    thread::spawn(move || {
                        for _ in 0..NR {
                            inline::percpu_add(offset, n);
                            inline::percpu_add(offset, -1);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
        assert_eq!(slub_percpu_sum(offset), 4 * NR * (1 + 2 + 3 + 4 - 4));
        assert_eq!(slub_percpu_free(offset), 0);
    }
}

#[test]
fn objects_are_of_the_cache_and_come_back() {
    let cache = cache("inline-back\0", 64);
    // SAFETY: each object is freed once, to its cache.
    unsafe {
        for round in 0..100 {
            let objects: Vec<_> = (0..=round).map(|_| inline::cache_alloc(cache)).collect();
            for &object in &objects {
                assert_eq!(slub_cache_of(object), cache);
                object.cast::<u64>().write_bytes(0xee, 8);
            }
            objects.into_iter().for_each(|object| inline::cache_free(cache, object));
        }
        assert_eq!(slub_cache_destroy(cache), 0);
    }
}

/// What the sequence may not do, the function behind it does.
#[test]
fn what_is_not_the_cache_s_is_left_to_the_function() {
    let (one, other) = (cache("inline-one\0", 96), cache("inline-other\0", 96));
    // SAFETY: an object of another cache is freed to the one that it belongs to.
    unsafe {
        inline::cache_free(one, null_mut());
        let object = inline::cache_alloc(other);
        inline::cache_free(one, object);
        assert_eq!(slub_cache_destroy(one), 0);
        assert_eq!(slub_cache_destroy(other), 0, "it went home");
    }
}

/// Each allocation of such a cache has an owner, so none is inline; frees are.
#[test]
fn an_accounted_cache_is_served() {
    // SAFETY: the name ends with a NUL; each object is freed once.
    unsafe {
        let name = "inline-charged\0";
        let flags = SLUB_CACHE_ACCOUNT;
        let cache = slub_cache_create(name.as_ptr().cast(), 64, 8, flags, None);
        for _ in 0..1000 {
            let objects: Vec<_> = (0..50).map(|_| inline::cache_alloc(cache)).collect();
            assert!(objects.iter().all(|object| !object.is_null()));
            objects.into_iter().for_each(|object| inline::cache_free(cache, object));
        }
        assert_eq!(slub_cache_destroy(cache), 0);
    }
}
