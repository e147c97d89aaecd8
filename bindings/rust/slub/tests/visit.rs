// SPDX-License-Identifier: MIT
//! Closures that C calls for each of something: a panic in one goes on in the caller.

use slub::{cache, value, Cache, Slub};
use std::panic::{catch_unwind, panic_any, resume_unwind};

#[global_allocator]
static ALLOCATOR: Slub = Slub;

#[test]
fn a_failed_assertion_fails_the_test() {
    let mut visits = 0;
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache::for_each(|_| {
            visits += 1;
            resume_unwind(Box::new("a failed assertion"))
        })
    }));
    let payload = result.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"a failed assertion"));
    assert_eq!(visits, 1, "the walk ends");
}

#[test]
fn a_payload_of_any_type_arrives() {
    let payload = catch_unwind(|| value::for_each(|_, _| panic_any(41_u64))).unwrap_err();
    assert_eq!(payload.downcast_ref::<u64>(), Some(&41));
    let payload = catch_unwind(|| cache::for_each(|_| panic_any(vec![1, 2]))).unwrap_err();
    assert_eq!(payload.downcast_ref::<Vec<i32>>(), Some(&vec![1, 2]));
}

/// C holds the cache while it is visited: no longer after a panic.
#[test]
fn nothing_is_held_after_a_panic() {
    let cache = Cache::<[u64; 7]>::new("rs-visited").unwrap();
    let result = catch_unwind(|| {
        cache::for_each(|shown| {
            if shown.name() == "rs-visited" {
                resume_unwind(Box::new(()));
            }
            true
        })
    });
    assert!(result.is_err());
    assert_eq!(cache.close(), Ok(()));
}

/// A walk in a walk: the inner one's panic may be caught there, or go on through both.
#[test]
fn walks_nest() {
    let mut caught = 0;
    cache::for_each(|_| {
        let inner = catch_unwind(|| cache::for_each(|_| resume_unwind(Box::new("inner"))));
        caught += u32::from(inner.is_err());
        caught < 2
    })
    .unwrap();
    assert_eq!(caught, 2);
    let result = catch_unwind(|| {
        cache::for_each(|_| {
            cache::for_each(|_| resume_unwind(Box::new("through both"))).unwrap();
            true
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"through both"));
}

#[test]
fn without_a_panic_all_is_as_ever() {
    let mut caches = 0;
    cache::for_each(|_| {
        caches += 1;
        caches < 3
    })
    .unwrap();
    assert_eq!(caches, 3);
    let mut values = 0;
    value::for_each(|_, _| values += 1).unwrap();
    assert!(values > 100);
}
