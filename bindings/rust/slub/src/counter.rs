// SPDX-License-Identifier: MIT

use core::fmt;
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use slub_sys as sys;

/// A counter with a copy per CPU.
///
/// Adding touches this CPU's copy only, and takes no atomic instruction, so it
/// does not slow down with the number of threads; the sum walks all copies.
///
/// ```
/// use slub::Counter;
///
/// static REQUESTS: Counter = Counter::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| (0..1000).for_each(|_| REQUESTS.add(1)));
///     }
/// });
/// assert_eq!(REQUESTS.sum(), 4000);
/// ```
///
/// Nothing can fail: its 8 bytes per CPU are allocated by the first add, and if
/// the areas are full, an ordinary atomic integer counts instead.
pub struct Counter {
    /// 0: none yet; NONE: there will be none.
    offset: AtomicUsize,
    fallback: AtomicI64,
}

const NONE: usize = usize::MAX;

impl Counter {
    /// A counter at zero; it takes no memory until it is used.
    pub const fn new() -> Self {
        Counter { offset: AtomicUsize::new(0), fallback: AtomicI64::new(0) }
    }

    /// Adds `n`, which may be negative.  The sum wraps around.
    #[inline]
    pub fn add(&self, n: i64) {
        match self.offset.load(Ordering::Acquire) {
            0 | NONE => self.add_slow(n),
            // SAFETY: the offset is allocated, and is until self is dropped.
            offset => unsafe { sys::inline::percpu_add(offset, n) },
        }
    }

    #[cold]
    fn add_slow(&self, n: i64) {
        match self.prepare() {
            NONE => {
                self.fallback.fetch_add(n, Ordering::Relaxed);
            }
            // SAFETY: as in add().
            offset => unsafe { sys::slub_percpu_add(offset, n) },
        }
    }

    /// Allocates the copies, if no other thread has.
    fn prepare(&self) -> usize {
        let present = self.offset.load(Ordering::Acquire);
        if present != 0 {
            return present;
        }
        // SAFETY: any arguments are allowed.
        let made = match unsafe { sys::slub_percpu_alloc(8, 8) } {
            0 => NONE,
            offset => offset,
        };
        let first = Ordering::AcqRel;
        match self.offset.compare_exchange(0, made, first, Ordering::Acquire) {
            Ok(_) => made,
            Err(others) => {
                if made != NONE {
                    // SAFETY: nobody has seen this offset.
                    unsafe { sys::slub_percpu_free(made) };
                }
                others
            }
        }
    }

    /// The sum over all CPUs; exact when nobody adds meanwhile.  It costs a
    /// cache miss per CPU.
    pub fn sum(&self) -> i64 {
        let fallback = self.fallback.load(Ordering::Relaxed);
        match self.offset.load(Ordering::Acquire) {
            0 | NONE => fallback,
            // SAFETY: the offset is allocated.
            offset => fallback.wrapping_add(unsafe { sys::slub_percpu_sum(offset) }),
        }
    }
}

impl Default for Counter {
    fn default() -> Self {
        Counter::new()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        match *self.offset.get_mut() {
            0 | NONE => {}
            // SAFETY: it was allocated by prepare(), and nobody else has it.
            offset => unsafe {
                sys::slub_percpu_free(offset);
            },
        }
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counter").field(&self.sum()).finish()
    }
}
