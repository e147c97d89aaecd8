// SPDX-License-Identifier: MIT
//! No call waits for a reader that is its own caller.

use slub::{rcu, Arena, Bucket, Cache, Error};

#[test]
fn what_would_wait_says_so() {
    let cache = Cache::<[u8; 100]>::new("reader_deferred").unwrap();
    rcu::free(cache.alloc([0; 100]).unwrap());
    let other = Cache::<[u8; 200]>::new("reader_other").unwrap();
    let closed = Cache::<[u8; 300]>::new("reader_closed").unwrap();
    let mut arena = Arena::new("reader_arena").unwrap();
    let bucket = Bucket::new("reader_bucket").unwrap();
    let reading = rcu::read();
    rcu::free(cache.alloc([0; 100]).unwrap());
    assert!(rcu::pending() >= 1);
    other.shrink();
    cache.shrink();
    arena.stats().unwrap();
    assert_eq!(arena.clear(), Err(Error::Deadlock));
    assert_eq!(bucket.close(), Err(Error::Deadlock));
    assert_eq!(closed.close(), Err(Error::Deadlock));
    assert_eq!(rcu::barrier(), Err(Error::Deadlock));
    {
        // They nest.
        let _inner = rcu::read();
    }
    assert_eq!(rcu::barrier(), Err(Error::Deadlock));
    drop(reading);
    rcu::barrier().unwrap();
    arena.clear().unwrap();
    other.close().unwrap();
    cache.close().unwrap();
}
