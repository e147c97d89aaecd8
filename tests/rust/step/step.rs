// SPDX-License-Identifier: MIT
//! The share of Rust in the tracee of tests/fire/single_step: the sequences of slub_sys::inline
//! in the program's own text, one function each, so that a failure names it.
//!
//! The counter has a twin that is an atomic integer; at the end of a round the two must be the
//! same.  Each object has the words of its owner in it, and no other may write there.

use slub::{rcu, Cache, Counter};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};

const WORDS: usize = 12;
type Thing = [u64; WORDS];

static SUM: Counter = Counter::new();
static TWIN: AtomicI64 = AtomicI64::new(0);
static THINGS: AtomicPtr<Cache<Thing>> = AtomicPtr::new(ptr::null_mut());
static NEXT: AtomicU64 = AtomicU64::new(1);
/// Odd while the rival is at it.
static RIVAL_TURNS: AtomicU32 = AtomicU32::new(0);
static FAILED: AtomicBool = AtomicBool::new(false);

#[inline(never)]
#[no_mangle]
pub extern "C" fn rust_percpu_add(n: i64) {
    SUM.add(n);
}

#[inline(never)]
#[no_mangle]
pub extern "C" fn rust_cache_alloc(cache: *mut slub::sys::slub_cache) -> *mut Thing {
    // SAFETY: the cache lives as long as the program.
    unsafe { slub::sys::inline::cache_alloc(cache) }.cast()
}

#[inline(never)]
#[no_mangle]
pub extern "C" fn rust_cache_free(cache: *mut slub::sys::slub_cache, thing: *mut Thing) {
    // SAFETY: it came from rust_cache_alloc().
    unsafe { slub::sys::inline::cache_free(cache, thing.cast()) }
}

#[inline(never)]
#[no_mangle]
pub extern "C" fn rust_read_section() {
    drop(rcu::read());
}

fn cache() -> *mut slub::sys::slub_cache {
    // SAFETY: step_api_start() has set it.
    unsafe { (*THINGS.load(Ordering::Relaxed)).as_raw() }
}

fn words(n: i64) {
    // The first may find that the thread has come to another CPU.
    rust_percpu_add(n);
    rust_percpu_add(n);
    TWIN.fetch_add(2 * n, Ordering::Relaxed);
    rust_read_section();
}

/// Takes `nr` of them, writes to each, looks at them and gives them back.
fn things<const NR: usize>(is_handler: bool) {
    let mut all = [ptr::null_mut::<Thing>(); NR];
    let id = NEXT.fetch_add(NR as u64, Ordering::Relaxed);
    let mut nr = 0;
    while nr < NR {
        let thing = rust_cache_alloc(cache());
        if thing.is_null() {
            // A handler may have interrupted the library.
            assert!(is_handler, "no memory");
            break;
        }
        // SAFETY: it is ours, and that large.
        unsafe { thing.write([id + nr as u64; WORDS]) };
        all[nr] = thing;
        nr += 1;
    }
    for (i, &thing) in all[..nr].iter().enumerate() {
        // SAFETY: as above.
        let is_ours = unsafe { thing.read() } == [id + i as u64; WORDS];
        if !is_ours {
            FAILED.store(true, Ordering::Relaxed);
        }
        rust_cache_free(cache(), thing);
    }
    assert!(!FAILED.load(Ordering::Relaxed), "an object had two owners");
}

/// By the crate's own types: a box that is dropped, and one that gives its value.
fn boxes() {
    // SAFETY: as in cache().
    let things = unsafe { &*THINGS.load(Ordering::Relaxed) };
    let id = NEXT.fetch_add(2, Ordering::Relaxed);
    let one = things.alloc([id; WORDS]).unwrap();
    let other = things.alloc([id + 1; WORDS]).unwrap();
    assert_eq!(one[WORDS - 1], id);
    assert_eq!(slub::cache::Box::into_inner(other), [id + 1; WORDS]);
}

/// Only if the rival is idle all the while are the twins to be compared.
fn check() {
    let turn = RIVAL_TURNS.load(Ordering::SeqCst);
    let (sum, twin) = (SUM.sum(), TWIN.load(Ordering::SeqCst));
    if turn & 1 == 0 && turn == RIVAL_TURNS.load(Ordering::SeqCst) {
        assert_eq!(sum, twin, "the counter and its twin");
    }
}

#[no_mangle]
pub extern "C" fn step_api_start() {
    let things = Cache::<Thing>::new("rust-thing").unwrap().leak();
    THINGS.store(things as *const _ as *mut _, Ordering::Relaxed);
    rust_percpu_add(0);
}

#[no_mangle]
pub extern "C" fn step_api_round(round: u32) {
    check();
    words(i64::from(round % 100) + 1);
    things::<20>(false);
    boxes();
    things::<100>(false);
}

#[no_mangle]
pub extern "C" fn step_api_handler() {
    words(1);
    things::<4>(true);
}

#[no_mangle]
pub extern "C" fn step_api_rival() {
    RIVAL_TURNS.fetch_add(1, Ordering::SeqCst);
    for _ in 0..20 {
        words(3);
        things::<30>(false);
    }
    RIVAL_TURNS.fetch_add(1, Ordering::SeqCst);
}
