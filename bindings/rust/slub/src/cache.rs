// SPDX-License-Identifier: MIT
//! Objects of one type from slabs of their own.
//!
//! ```
//! use slub::Cache;
//!
//! struct Session { id: u64, buffer: [u8; 100] }
//!
//! let sessions: Cache<Session> = Cache::new("my-session")?;
//! let mut session = sessions.alloc(Session { id: 1, buffer: [0; 100] })?;
//! session.buffer[0] = 7;
//! assert_eq!(session.id, 1);
//! drop(session);
//! assert_eq!(sessions.close(), Ok(()));
//! # Ok::<(), slub::Error>(())
//! ```

use crate::error::Error;
use crate::group::Group;
use crate::panics::Kept;
use crate::roomy::Roomy;
use crate::same::as_its_value;
use core::borrow::{Borrow, BorrowMut};
use core::fmt;
use core::marker::PhantomData;
use core::mem::{align_of, size_of, ManuallyDrop};
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};
use slub_sys as sys;

pub use slub_sys::slub_cache_stats as Stats;

/// A cache of objects of type `T`.
///
/// Any number of threads may use it at the same time.  An object may be dropped
/// by another thread than the one that allocated it, if `T` is [`Send`].
///
/// Dropping the cache gives its memory back; objects borrow it, so none can be
/// left but those that were forgotten ([`Box::into_raw`], [`core::mem::forget`]).
/// If there are any, the cache stays as it is, for good; so does one that a closure of [`for_each`]
/// drops while it is shown that very cache.
#[repr(transparent)]
pub struct Cache<T> {
    raw: NonNull<sys::slub_cache>,
    _objects: PhantomData<fn(T) -> T>,
}

// SAFETY: the C functions may be called by any thread; the cache itself gives
// no access to objects.
unsafe impl<T> Send for Cache<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Cache<T> {}

/// `name` with a zero behind it, as C wants it.
pub(crate) fn c_name(name: &str) -> Result<[u8; sys::SLUB_CACHE_NAME_MAX + 1], Error> {
    let mut bytes = [0; sys::SLUB_CACHE_NAME_MAX + 1];
    let valid = (1..=sys::SLUB_CACHE_NAME_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic());
    if !valid {
        return Err(Error::BadName);
    }
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Ok(bytes)
}

/// # Safety
/// The cache lives.
pub(crate) unsafe fn stats_of(cache: *mut sys::slub_cache) -> Stats {
    let mut roomy = Roomy::<Stats>::default();
    let at: *mut Roomy<Stats> = &mut roomy;
    // SAFETY: the structure begins with the counts.
    unsafe { sys::slub_cache_stats(cache, at.cast()) };
    roomy.counts
}

/// # Safety
/// The cache lives as long as the name is used.
unsafe fn name_of<'a>(cache: *const sys::slub_cache) -> &'a str {
    // SAFETY: a name ends with a NUL, and is ASCII.
    unsafe {
        let name = sys::slub_cache_name(cache).cast::<u8>();
        let length = (0..).take_while(|&i| *name.add(i) != 0).count();
        core::str::from_utf8_unchecked(core::slice::from_raw_parts(name, length))
    }
}

impl<T> Cache<T> {
    /// Makes a cache.
    ///
    /// # Errors
    ///
    /// [`Error::BadName`], [`Error::NameTaken`], [`Error::BadType`],
    /// [`Error::NoSpace`] (some 16,000 caches are possible),
    /// [`Error::OutOfMemory`].
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::with_flags(name, 0)
    }

    /// Makes a cache with flags of [`sys`](crate::sys), such as
    /// `SLUB_CACHE_HWCACHE_ALIGN` or a debugging letter.
    ///
    /// # Errors
    ///
    /// As [`Cache::new`]; [`Error::Other`] for an unknown flag, and for
    /// `SLUB_CACHE_TYPESAFE_BY_RCU`, whose readers would race with [`Cache::alloc`].
    pub fn with_flags(name: &str, flags: sys::c_ulong) -> Result<Self, Error> {
        let name = c_name(name)?;
        if size_of::<T>() > sys::SLUB_CACHE_SIZE_MAX || align_of::<T>() > 4096 {
            return Err(Error::BadType);
        }
        if flags & sys::SLUB_CACHE_TYPESAFE_BY_RCU != 0 {
            return Err(Error::Other(22));
        }
        let size = size_of::<T>().max(1);
        // SAFETY: the name is terminated, and copied by the call.
        let raw = unsafe {
            sys::slub_cache_create(name.as_ptr().cast(), size, align_of::<T>(), flags, None)
        };
        match NonNull::new(raw) {
            Some(raw) => Ok(Cache { raw, _objects: PhantomData }),
            None => Err(Error::from_errno(sys::errno())),
        }
    }

    /// Allocates an object and moves `value` into it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; `value` is dropped then.
    #[inline]
    pub fn alloc(&self, value: T) -> Result<Box<'_, T>, Error> {
        self.alloc_with(move || value)
    }

    /// Allocates an object, then moves into it what `make` returns.
    ///
    /// If `make` panics, the memory goes back to the cache.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; `make` is not called then.
    #[inline]
    pub fn alloc_with(&self, make: impl FnOnce() -> T) -> Result<Box<'_, T>, Error> {
        // SAFETY: the cache lives as long as self, and is one of T.
        unsafe { alloc_in(self.raw, make) }
    }

    /// The cache for the rest of the program, so that its objects may be, too.
    pub fn leak(self) -> &'static Cache<T> {
        // Two words of per-program memory: a typed cache is made once.
        // SAFETY: any size may be asked for.
        let place = unsafe { sys::malloc(size_of::<Cache<T>>()) }.cast::<Cache<T>>();
        assert!(!place.is_null(), "out of memory");
        // SAFETY: the memory is ours, large enough, and never freed.
        unsafe {
            place.write(self);
            &*place
        }
    }

    /// Gives back what the cache holds and no object uses.  True: nothing
    /// unused is left.
    pub fn shrink(&self) -> bool {
        // SAFETY: the cache lives.
        unsafe { sys::slub_cache_shrink(self.raw.as_ptr()) == 0 }
    }

    /// Gives the cache back, and says whether that was possible.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] when forgotten objects are left, [`Error::TryAgain`],
    /// [`Error::Deadlock`] when this thread reads ([`rcu::read`](crate::rcu::read)); the
    /// cache then stays for good.
    #[must_use = "the cache stays, for good, if objects are left"]
    pub fn close(self) -> Result<(), Error> {
        let cache = ManuallyDrop::new(self);
        // SAFETY: the cache lives, and is not used again.
        Error::check(unsafe { sys::slub_cache_destroy(cache.raw.as_ptr()) })
    }

    /// The cache's name.
    pub fn name(&self) -> &str {
        // SAFETY: the name lives as long as the cache.
        unsafe { name_of(self.raw.as_ptr()) }
    }

    /// Bytes from one object to the next.
    pub fn stride(&self) -> usize {
        // SAFETY: the cache lives.
        unsafe { sys::slub_cache_stride(self.raw.as_ptr()) }
    }

    /// What has happened since the cache was made; slow paths only.
    pub fn stats(&self) -> Stats {
        // SAFETY: the cache lives.
        unsafe { stats_of(self.raw.as_ptr()) }
    }

    /// From now on what is allocated here is charged to `group`, whatever group
    /// the thread is in; `None`: to the thread's group.  The cache needs the flag
    /// `SLUB_CACHE_ACCOUNT`.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`EINVAL`) without that flag, [`Error::Busy`] for a cache
    /// that is shared (`SLUB_MERGE`).
    pub fn set_group(&self, group: Option<&Group>) -> Result<(), Error> {
        let group = group.map_or(ptr::null_mut(), Group::as_raw);
        // SAFETY: cache and group live; a deleted group's parent takes its place.
        Error::check(unsafe { sys::slub_cache_group_set(self.raw.as_ptr(), group) })
    }

    /// The C cache, which self still owns.
    pub fn as_raw(&self) -> *mut sys::slub_cache {
        self.raw.as_ptr()
    }

    /// An object again that [`Box::into_raw`] let go.
    ///
    /// # Safety
    ///
    /// `object` came from a box of this cache, and nobody else owns it.
    pub unsafe fn box_from_raw(&self, object: *mut T) -> Box<'_, T> {
        // SAFETY: boxes have no null.
        let object = unsafe { NonNull::new_unchecked(object) };
        Box { object, cache: self.raw, _cache: PhantomData }
    }
}

impl<T> Drop for Cache<T> {
    fn drop(&mut self) {
        // SAFETY: the cache lives; with objects left the call does nothing.
        unsafe { sys::slub_cache_destroy(self.raw.as_ptr()) };
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// A cache that [`for_each`] shows: anybody's, malloc's own included.
pub struct Shown<'a> {
    raw: NonNull<sys::slub_cache>,
    _visit: PhantomData<&'a mut sys::slub_cache>,
}

impl Shown<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        // SAFETY: the cache lives during the visit, and its name as long.
        unsafe { name_of(self.raw.as_ptr()) }
    }

    /// Bytes of an object, as it was asked for.
    pub fn size(&self) -> usize {
        // SAFETY: the cache lives during the visit.
        unsafe { sys::slub_cache_size(self.raw.as_ptr()) }
    }

    /// What has happened since it was made; slow paths only.
    pub fn stats(&self) -> Stats {
        // SAFETY: the cache lives during the visit.
        unsafe { stats_of(self.raw.as_ptr()) }
    }
}

/// Shows each cache of the process to `visit`, until it returns false.
///
/// A panic in it ends the walk, and goes on in the caller of this; without the feature `std` it
/// aborts.
///
/// ```
/// let cache = slub::Cache::<[u64; 5]>::new("shown")?;
/// let mut size = 0;
/// slub::cache::for_each(|shown| {
///     if shown.name() == "shown" {
///         size = shown.size();
///     }
///     size == 0
/// })?;
/// assert_eq!(size, 40);
/// # drop(cache);
/// # Ok::<(), slub::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::OutOfMemory`]; `EDEADLK` by [`Error::errno`], called by a signal handler.
pub fn for_each<F: FnMut(&Shown<'_>) -> bool>(visit: F) -> Result<(), Error> {
    unsafe extern "C" fn call<F: FnMut(&Shown<'_>) -> bool>(
        cache: *mut sys::slub_cache,
        arg: *mut sys::c_void,
    ) -> sys::c_int {
        // SAFETY: the cache lives during the call, and arg is the closure.
        let (raw, (visit, kept)) =
            unsafe { (NonNull::new_unchecked(cache), &mut *arg.cast::<(F, Kept)>()) };
        let shown = Shown { raw, _visit: PhantomData };
        kept.call(1, || sys::c_int::from(!visit(&shown)))
    }
    let mut with = (visit, Kept::default());
    let arg: *mut (F, Kept) = &mut with;
    // SAFETY: the closure lives during the call.
    let result = unsafe { sys::slub_cache_for_each(Some(call::<F>), arg.cast()) };
    with.1.resume();
    Error::check(result.min(0))
}

/// An object of `cache`, with what `make` returns.
///
/// # Safety
/// The cache is one of `T`, and lives for `'c`.
#[inline]
unsafe fn alloc_in<'c, T>(
    cache: NonNull<sys::slub_cache>,
    make: impl FnOnce() -> T,
) -> Result<Box<'c, T>, Error> {
    // SAFETY: the cache lives.
    let memory = unsafe { sys::inline::cache_alloc(cache.as_ptr()) };
    let object = match NonNull::new(memory.cast::<T>()) {
        Some(object) => object,
        None => return Err(Error::OutOfMemory),
    };
    let unfinished = Unfinished { cache, object: object.cast() };
    // SAFETY: the memory has the size and alignment of T, and is ours.
    unsafe { object.as_ptr().write(make()) };
    core::mem::forget(unfinished);
    Ok(Box { object, cache, _cache: PhantomData })
}

/// Memory that goes back, unless it is forgotten, when a closure panics.
struct Unfinished {
    cache: NonNull<sys::slub_cache>,
    object: NonNull<sys::c_void>,
}

impl Drop for Unfinished {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory came from this cache and holds no value.
        unsafe { sys::inline::cache_free(self.cache.as_ptr(), self.object.as_ptr()) }
    }
}

/// An object of a [`Cache`], owned.  Dropping it drops the value and gives the
/// memory back to the cache.
pub struct Box<'c, T> {
    object: NonNull<T>,
    cache: NonNull<sys::slub_cache>,
    _cache: PhantomData<(&'c Cache<T>, T)>,
}

// SAFETY: a box is its value and a pointer to a cache, which any thread may use.
unsafe impl<T: Send> Send for Box<'_, T> {}
// SAFETY: a shared box gives shared access to its value, and no more.
unsafe impl<T: Sync> Sync for Box<'_, T> {}

impl<'c, T> Box<'c, T> {
    /// Moves the value out; the memory goes back to the cache.
    pub fn into_inner(boxed: Self) -> T {
        let boxed = ManuallyDrop::new(boxed);
        let _memory = Unfinished { cache: boxed.cache, object: boxed.object.cast() };
        // SAFETY: the value is read once, and its memory freed without dropping it.
        unsafe { boxed.object.as_ptr().read() }
    }

    /// A second box of the same cache, with a clone of the value.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; nothing is cloned then.
    pub fn try_clone(boxed: &Self) -> Result<Self, Error>
    where
        T: Clone,
    {
        // SAFETY: an object came from this cache, which is one of T and lives for 'c.
        unsafe { alloc_in(boxed.cache, || T::clone(boxed)) }
    }

    /// The address; the object is the caller's now.  [`Cache::box_from_raw`]
    /// takes it back, and C's `slub_free()` frees it (without dropping).
    pub fn into_raw(boxed: Self) -> *mut T {
        ManuallyDrop::new(boxed).object.as_ptr()
    }

    /// A box whose value does not move again.
    pub fn into_pin(boxed: Self) -> Pin<Self> {
        // SAFETY: the memory stays where it is until the box is dropped.
        unsafe { Pin::new_unchecked(boxed) }
    }

    /// The value for the rest of the program, or of the cache.
    pub fn leak(boxed: Self) -> &'c mut T {
        // SAFETY: it is valid, and nobody will free it: a cache with objects
        // left stays.
        unsafe { &mut *Box::into_raw(boxed) }
    }
}

impl<T> Drop for Box<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let _memory = Unfinished { cache: self.cache, object: self.object.cast() };
        // SAFETY: the value is ours, and not used again.
        unsafe { ptr::drop_in_place(self.object.as_ptr()) }
    }
}

impl<T> Deref for Box<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is ours.
        unsafe { self.object.as_ref() }
    }
}

impl<T> DerefMut for Box<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is ours.
        unsafe { self.object.as_mut() }
    }
}

impl<T> AsRef<T> for Box<'_, T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T> AsMut<T> for Box<'_, T> {
    fn as_mut(&mut self) -> &mut T {
        self
    }
}

impl<T> Borrow<T> for Box<'_, T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T> BorrowMut<T> for Box<'_, T> {
    fn borrow_mut(&mut self) -> &mut T {
        self
    }
}

impl<T: fmt::Debug> fmt::Debug for Box<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Box<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

as_its_value!(Box);

/// Allocates from the same cache.
///
/// Without memory it does what `std`'s `Box` does: [`std::alloc::handle_alloc_error`], which ends the
/// program; without the feature `std` it panics.  [`Box::try_clone`] answers an error instead.
impl<T: Clone> Clone for Box<'_, T> {
    fn clone(&self) -> Self {
        Box::try_clone(self).unwrap_or_else(|_| no_memory::<T>())
    }

    /// Clones into the memory that there is.
    fn clone_from(&mut self, from: &Self) {
        (**self).clone_from(&**from);
    }
}

#[cold]
fn no_memory<T>() -> ! {
    #[cfg(feature = "std")]
    std::alloc::handle_alloc_error(core::alloc::Layout::new::<T>());
    #[cfg(not(feature = "std"))]
    panic!("no memory for an object of {} bytes", size_of::<T>());
}

/// A cache for a `static`: made when it is first used, never destroyed.
///
/// ```
/// use slub::{cache, StaticCache};
///
/// static NODES: StaticCache<[u64; 6]> = StaticCache::new("tree-node");
///
/// let node: cache::Box<'static, _> = NODES.alloc([0; 6])?;
/// # drop(node);
/// # Ok::<(), slub::Error>(())
/// ```
pub struct StaticCache<T: 'static> {
    name: &'static str,
    raw: AtomicPtr<sys::slub_cache>,
    _objects: PhantomData<fn(T) -> T>,
}

impl<T> StaticCache<T> {
    /// A cache of that name; [`StaticCache::alloc`] returns the errors of
    /// [`Cache::new`].
    pub const fn new(name: &'static str) -> Self {
        StaticCache { name, raw: AtomicPtr::new(ptr::null_mut()), _objects: PhantomData }
    }

    /// Allocates an object and moves `value` into it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and when the cache cannot be made those of
    /// [`Cache::new`]; `value` is dropped then.
    #[inline]
    pub fn alloc(&'static self, value: T) -> Result<Box<'static, T>, Error> {
        self.alloc_with(move || value)
    }

    /// Allocates an object, then moves into it what `make` returns.
    ///
    /// # Errors
    ///
    /// As [`StaticCache::alloc`]; `make` is not called then.
    #[inline]
    pub fn alloc_with(&'static self, make: impl FnOnce() -> T) -> Result<Box<'static, T>, Error> {
        self.get()?.alloc_with(make)
    }

    /// The cache itself, made now if need be.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::new`].
    #[inline]
    pub fn get(&'static self) -> Result<&'static Cache<T>, Error> {
        if !is_made(self.raw.load(Ordering::Acquire)) {
            self.make()?;
        }
        // SAFETY: a Cache is but this pointer, which is one now and will never
        // change.
        Ok(unsafe { &*(&self.raw as *const AtomicPtr<_>).cast::<Cache<T>>() })
    }

    /// One thread makes it; others that come meanwhile wait for the outcome.
    #[cold]
    fn make(&'static self) -> Result<(), Error> {
        loop {
            let none = ptr::null_mut();
            match self.raw.compare_exchange(none, MAKING, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break,
                Err(raw) if is_made(raw) => return Ok(()),
                Err(_) => wait(),
            }
        }
        let (raw, result) = match Cache::<T>::new(self.name) {
            Ok(cache) => (ManuallyDrop::new(cache).raw.as_ptr(), Ok(())),
            Err(error) => (ptr::null_mut(), Err(error)),
        };
        self.raw.store(raw, Ordering::Release);
        result
    }
}

/// Stands in [`StaticCache::raw`] while a thread makes the cache.
const MAKING: *mut sys::slub_cache = 1 as *mut sys::slub_cache;

#[inline]
fn is_made(raw: *mut sys::slub_cache) -> bool {
    raw as usize > MAKING as usize
}

/// For what another thread is about to finish.
fn wait() {
    #[cfg(feature = "std")]
    std::thread::yield_now();
    core::hint::spin_loop();
}

impl<T> fmt::Debug for StaticCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticCache").field("name", &self.name).finish_non_exhaustive()
    }
}
