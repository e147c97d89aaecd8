// SPDX-License-Identifier: MIT
//! Closures that give memory back when it is short.
//!
//! ```
//! use slub::{shrinker, Shrinker};
//! use std::sync::{Arc, Mutex};
//!
//! let idle = Arc::new(Mutex::new(vec![[0u8; 4096]; 100]));
//! let (counted, scanned) = (idle.clone(), idle.clone());
//! let _shrinker = Shrinker::new(
//!     "idle buffers",
//!     // How many could be freed?  A lock that is taken may be the caller's.
//!     move || counted.try_lock().map_or(0, |idle| idle.len()),
//!     // Free up to so many; None: not possible now.
//!     move |n| {
//!         let mut idle = scanned.try_lock().ok()?;
//!         let left = idle.len().saturating_sub(n);
//!         let freed = idle.len() - left;
//!         idle.truncate(left);
//!         Some(freed)
//!     },
//! )?;
//!
//! assert_eq!(shrinker::shrink_all(), 100);
//! assert!(idle.lock().unwrap().is_empty());
//! # Ok::<(), slub::Error>(())
//! ```

use crate::error::Error;
use crate::panics::caught;
use core::fmt;
use core::mem::size_of;
use core::ptr::{self, NonNull};
use core::sync::atomic::{fence, AtomicU64, AtomicUsize, Ordering};
use slub_sys as sys;

/// Two closures that are called when memory is short.
///
/// They are called by any thread that allocates or reclaims, by several at once,
/// without a lock of the library, and may allocate and free.  Since the thread may
/// be one that is just working on what they want to free, use `try_lock()`.
///
/// A panic in one is caught, counted ([`Shrinker::panics`]), and taken as "no progress is possible
/// now": it runs in the middle of an allocation of anybody's, who does not expect it.  Without the
/// feature `std` it aborts.
///
/// Dropping it waits for closures that other threads run.
#[must_use = "closures are asked until it is dropped, which is now"]
pub struct Shrinker {
    head: NonNull<Head>,
}

/// Without the types of the closures.
#[repr(C)]
struct Head {
    shrinker: sys::slub_shrinker,
    name: [u8; NAME_MAX + 1],
    /// The owner, and each call that runs: the last one out frees it.
    users: AtomicUsize,
    panics: AtomicU64,
    free: unsafe fn(NonNull<Head>),
}

#[repr(C)]
struct Registered<C, S> {
    head: Head,
    count: C,
    scan: S,
}

/// The longest name of a shrinker.
pub const NAME_MAX: usize = 63;

// SAFETY: the closures are Send and Sync; the rest is the library's.
unsafe impl Send for Shrinker {}
// SAFETY: as above.
unsafe impl Sync for Shrinker {}

fn name_bytes(name: &str) -> Result<[u8; NAME_MAX + 1], Error> {
    let mut bytes = [0; NAME_MAX + 1];
    if name.is_empty() || name.len() > NAME_MAX || name.bytes().any(|byte| byte < b' ') {
        return Err(Error::BadName);
    }
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Ok(bytes)
}

impl Shrinker {
    /// Lets `count` and `scan` be asked from now on.
    ///
    /// `count` says how many objects could be freed, `scan` frees up to as many as
    /// it is given and says how many these were; `None`: no progress is possible
    /// now.  `name`: 1 to 63 bytes, without control characters.
    ///
    /// # Errors
    ///
    /// [`Error::BadName`], [`Error::NoSpace`] (65,535 shrinkers are possible),
    /// [`Error::OutOfMemory`].
    pub fn new<C, S>(name: &str, count: C, scan: S) -> Result<Self, Error>
    where
        C: Fn() -> usize + Send + Sync + 'static,
        S: Fn(usize) -> Option<usize> + Send + Sync + 'static,
    {
        Self::with_seeks(name, sys::SLUB_SHRINKER_SEEKS, count, scan)
    }

    /// The same, and says what it costs to make an object anew: 2 is usual, more
    /// asks for fewer, 0 for half of all at once.
    ///
    /// # Errors
    ///
    /// As [`Shrinker::new`]; [`Error::Other`] for `seeks` above 1,000,000.
    pub fn with_seeks<C, S>(name: &str, seeks: u32, count: C, scan: S) -> Result<Self, Error>
    where
        C: Fn() -> usize + Send + Sync + 'static,
        S: Fn(usize) -> Option<usize> + Send + Sync + 'static,
    {
        let registered = Registered {
            head: Head {
                shrinker: sys::slub_shrinker {
                    name: ptr::null(),
                    count: Some(call_count::<C, S>),
                    scan: Some(call_scan::<C, S>),
                    data: ptr::null_mut(),
                    batch: 0,
                    seeks,
                    flags: 0,
                    id: 0,
                    state: 0,
                    freed: 0,
                    scanned: 0,
                    scans: 0,
                    cut_short: 0,
                    deferred: [0; 8],
                    stamp: 0,
                    reserved: [0; 3],
                },
                name: name_bytes(name)?,
                users: AtomicUsize::new(1),
                panics: AtomicU64::new(0),
                free: free::<C, S>,
            },
            count,
            scan,
        };
        let place = place_of::<Registered<C, S>>()?;
        // SAFETY: the place is ours, large enough and aligned; a zero-filled tail
        // ends the name.
        unsafe {
            place.as_ptr().write(registered);
            let head = place.cast::<Head>();
            let at = head.as_ptr();
            (*at).shrinker.name = ptr::addr_of!((*at).name).cast();
            let result = sys::slub_shrinker_create(ptr::addr_of_mut!((*at).shrinker));
            if result < 0 {
                leave(head);
                return Err(Error::from_errno(-result));
            }
            Ok(Shrinker { head })
        }
    }

    /// Objects that `scan` said it freed.
    pub fn freed(&self) -> u64 {
        // SAFETY: the library writes it by atomic operations.
        unsafe {
            let freed = ptr::addr_of!((*self.head.as_ptr()).shrinker.freed);
            (*freed.cast::<AtomicU64>()).load(Ordering::Relaxed)
        }
    }

    /// Panics of its closures that were caught.
    pub fn panics(&self) -> u64 {
        // SAFETY: the head lives as long as self.
        unsafe { (*self.head.as_ptr()).panics.load(Ordering::Relaxed) }
    }
}

impl Drop for Shrinker {
    fn drop(&mut self) {
        // SAFETY: it is registered.  After 0 only calls that this thread itself is
        // in still run, and those have counted themselves; else (EDEADLK) another
        // one may be about to, so all stays where it is.
        unsafe {
            let shrinker = ptr::addr_of_mut!((*self.head.as_ptr()).shrinker);
            if sys::slub_shrinker_destroy(shrinker) == 0 {
                leave(self.head);
            }
        }
    }
}

impl fmt::Debug for Shrinker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shrinker").field("freed", &self.freed()).finish_non_exhaustive()
    }
}

/// One walk over all shrinkers; how many objects they say they freed.
///
/// `priority`: 12, a 4096th of what they have, to 0, all they have.
pub fn shrink(priority: u8) -> usize {
    let priority = sys::c_int::from(priority).min(sys::SLUB_SHRINK_PRIORITY_MAX);
    // SAFETY: always allowed.
    unsafe { sys::slub_shrink(priority) }
}

/// Frees all that shrinkers can free; how many objects these were.
pub fn shrink_all() -> usize {
    // SAFETY: always allowed.
    unsafe { sys::slub_shrink_all() }
}

/// Uninitialised memory for a `T`, from `free::<C, S>()`'s allocator.
fn place_of<T>() -> Result<NonNull<T>, Error> {
    let align = core::mem::align_of::<T>().max(16);
    let bytes = (size_of::<T>() + align - 1) & !(align - 1);
    // SAFETY: an alignment is a power of two, and the size a multiple of it.
    let place = unsafe { sys::aligned_alloc(align, bytes) };
    NonNull::new(place.cast()).ok_or(Error::OutOfMemory)
}

/// # Safety
/// `head` begins a `Registered<C, S>` that nobody uses any more.
unsafe fn free<C, S>(head: NonNull<Head>) {
    let at = head.as_ptr().cast::<Registered<C, S>>();
    let drop_all = || {
        // SAFETY: as above; the closures are dropped once.
        unsafe { ptr::drop_in_place(at) }
    };
    caught(|| (), drop_all);
    // SAFETY: place_of() allocated it.
    unsafe { sys::free(at.cast()) }
}

/// # Safety
/// The caller counts among the users, and is none afterwards.
unsafe fn leave(head: NonNull<Head>) {
    // SAFETY: it lives as long as it has users.
    unsafe {
        if (*head.as_ptr()).users.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            ((*head.as_ptr()).free)(head);
        }
    }
}

/// Calls `call` with the closures, which live meanwhile even if it drops their
/// [`Shrinker`].
///
/// # Safety
/// `shrinker` is registered and that of a `Registered<C, S>`.
unsafe fn with<C, S>(
    shrinker: *mut sys::slub_shrinker,
    call: impl FnOnce(&C, &S) -> usize,
) -> usize {
    // SAFETY: the shrinker is the head's first field, and the head's address is
    // that of the whole.
    unsafe {
        let at = shrinker.cast::<Registered<C, S>>();
        (*at).head.users.fetch_add(1, Ordering::Relaxed);
        let panicked = || {
            (*at).head.panics.fetch_add(1, Ordering::Relaxed);
            sys::SLUB_SHRINK_STOP
        };
        let result = caught(panicked, || call(&*ptr::addr_of!((*at).count), &(*at).scan));
        leave(NonNull::new_unchecked(at.cast()));
        result
    }
}

unsafe extern "C" fn call_count<C, S>(
    shrinker: *mut sys::slub_shrinker,
    _: *mut sys::slub_shrink_control,
) -> usize
where
    C: Fn() -> usize,
{
    // SAFETY: the library calls it with a shrinker that is registered.
    unsafe { with(shrinker, |count: &C, _: &S| count().min(sys::SLUB_SHRINK_EMPTY - 1)) }
}

unsafe extern "C" fn call_scan<C, S>(
    shrinker: *mut sys::slub_shrinker,
    control: *mut sys::slub_shrink_control,
) -> usize
where
    S: Fn(usize) -> Option<usize>,
{
    // SAFETY: as above; the control is valid for the call.
    unsafe {
        let nr = (*control).nr_to_scan;
        with(shrinker, |_: &C, scan: &S| match scan(nr) {
            Some(freed) => freed.min(sys::SLUB_SHRINK_EMPTY - 1),
            None => sys::SLUB_SHRINK_STOP,
        })
    }
}
