// SPDX-License-Identifier: MIT
//! The reserve, in a process with one thread: there is no memory in this test.
//! A thread with the right gets memory when there is none.

use slub::{option, reserve, sys, Cache, Error};
use std::panic::{catch_unwind, resume_unwind};

const ROOM: usize = 256 << 10;

fn main() {
    let cache: Cache<[u8; 1000]> = Cache::new("rs-reserve").unwrap();
    let mut held = Vec::with_capacity(10_000);
    reserve::set(ROOM).unwrap();
    assert!(reserve::bytes() >= ROOM);

    option::set("limit", "1M").unwrap();
    // A vector that grew would want memory, too.
    while let (true, Ok(object)) = (held.len() < held.capacity(), cache.alloc([0; 1000])) {
        held.push(object);
    }
    let inside = reserve::with(|| reserve::with(|| cache.alloc([1; 1000])));
    let left = reserve::bytes();
    let outside = cache.alloc([2; 1000]);
    option::set("limit", "0").unwrap();

    assert!(matches!(inside, Ok(Ok(Ok(_)))), "{:?}", inside);
    assert!(held.len() < held.capacity());
    assert!(left < ROOM);
    assert_eq!(outside.unwrap_err(), Error::OutOfMemory);
    drop((inside, held));
    reserve::set(0).unwrap();
    assert_eq!(reserve::bytes(), 0);

    // The right ends with the closure, also by a panic, and cannot be had without end.
    assert!(catch_unwind(|| reserve::with(|| resume_unwind(Box::new("inside")))).is_err());
    fn nested(depth: u32) -> u32 {
        reserve::with(|| nested(depth + 1)).unwrap_or_else(|error| {
            assert_eq!(error, Error::NoSpace);
            depth
        })
    }
    assert_eq!(nested(0), 63);
    // SAFETY: always allowed.
    assert_eq!(unsafe { sys::slub_reserve_leave() }, -22, "not entered any more");
    assert!(reserve::set(usize::MAX).is_err());
}
