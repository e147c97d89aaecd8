// SPDX-License-Identifier: MIT
//! Objects behind handles, which may be moved so that sparse slabs become empty.
//!
//! A slab goes back to the system when its last object is freed, so after a peak
//! one object in a hundred keeps everything.  Objects of a [`MovableCache`] are
//! only reached through their handles; so the cache can move them together, on
//! request and after memory pressure.
//!
//! ```
//! use slub::MovableCache;
//!
//! let rows = MovableCache::new("row")?;
//! let mut all = (0..10_000u64).map(|i| rows.alloc([i; 8])).collect::<Result<Vec<_>, _>>()?;
//! let mut i = 0;
//! all.retain(|_| { i += 1; i % 50 == 0 });     // the peak is over
//! let slabs = rows.stats().slabs;
//! rows.defrag(100)?;                           // what is left moves together
//! assert!(rows.stats().slabs < slabs / 4);
//! assert_eq!(all[0].get()[0], 49);
//! all[0].get_mut()[0] = 1;
//! # Ok::<(), slub::Error>(())
//! ```

use crate::cache::{c_name, Stats};
use crate::error::Error;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{align_of, size_of, ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, addr_of, addr_of_mut, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use slub_sys as sys;

/// A cache whose objects may be moved, by any thread, while nobody looks at them.
///
/// Dropping it gives its memory back, as with [`Cache`](crate::Cache).  It is two
/// caches: that of the places that handles point to is called `NAME:handles`.
pub struct MovableCache<T> {
    objects: NonNull<sys::slub_cache>,
    places: NonNull<sys::slub_cache>,
    _objects: PhantomData<fn(T) -> T>,
}

// SAFETY: the C functions may be called by any thread; the cache itself gives
// no access to objects.
unsafe impl<T> Send for MovableCache<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for MovableCache<T> {}

/// Where an object is.  It stays where it is itself, and as long as somebody reads
/// by `slub_read_lock()` it is a place, of this handle or another one.
struct Place {
    /// MOVING, or how many look at the object.
    state: AtomicUsize,
    object: AtomicPtr<sys::c_void>,
}

const MOVING: usize = 1 << (usize::BITS - 1);

/// A free object keeps its bytes, for the cache has a constructor: its place is
/// null.
#[repr(C)]
struct Object<T> {
    place: AtomicPtr<Place>,
    value: MaybeUninit<T>,
}

unsafe extern "C" fn construct_place(memory: *mut sys::c_void) {
    let place = Place { state: AtomicUsize::new(0), object: AtomicPtr::new(ptr::null_mut()) };
    // SAFETY: the memory is an object of the cache of places.
    unsafe { memory.cast::<Place>().write(place) }
}

unsafe extern "C" fn construct_object<T>(memory: *mut sys::c_void) {
    // SAFETY: the memory is an object of a cache of Object<T>.
    unsafe {
        addr_of_mut!((*memory.cast::<Object<T>>()).place).write(AtomicPtr::new(ptr::null_mut()))
    }
}

impl Place {
    /// The object stays where it is until unpin().
    fn pin(&self) {
        // Acquire: what was moved is seen where it is now.
        while self.state.fetch_add(1, Ordering::Acquire) & MOVING != 0 {
            self.state.fetch_sub(1, Ordering::Relaxed);
            // A move takes as long as copying the object.
            #[cfg(feature = "std")]
            std::thread::yield_now();
            core::hint::spin_loop();
        }
    }

    fn unpin(&self) {
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Nobody looks at the object until moved().
    fn try_move(&self) -> bool {
        let state = &self.state;
        state.compare_exchange(0, MOVING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn moved(&self) {
        self.state.fetch_sub(MOVING, Ordering::Release);
    }
}

/// Which of these objects may be moved?  They may be free, or about to be.
unsafe extern "C" fn isolate<T>(
    _: *mut sys::slub_cache,
    objects: *mut *mut sys::c_void,
    nr: usize,
    _: *mut sys::c_void,
) {
    for i in 0..nr {
        // SAFETY: the object's first word is the constructor's or alloc()'s; what
        // it points to is a place until this reader leaves, though perhaps by now
        // another object's, and then left alone.
        unsafe {
            let at = objects.add(i);
            let reading = sys::slub_read_lock();
            let place = (*addr_of!((*(*at).cast::<Object<T>>()).place)).load(Ordering::Acquire);
            if place.is_null() || !(*place).try_move() {
                *at = ptr::null_mut();
            } else if (*place).object.load(Ordering::Relaxed) != *at {
                (*place).moved();
                *at = ptr::null_mut();
            }
            sys::slub_read_unlock(reading);
        }
    }
}

/// Moves an object that isolate() let pass; its handle waits meanwhile.
unsafe extern "C" fn migrate<T>(
    _: *mut sys::slub_cache,
    from: *mut sys::c_void,
    to: *mut sys::c_void,
    _: *mut sys::c_void,
) -> sys::c_int {
    let (from, to) = (from.cast::<Object<T>>(), to.cast::<Object<T>>());
    // SAFETY: the place is marked as moving, so this thread alone has the object,
    // and its handle lives; values of any type may be moved by copying.
    unsafe {
        let place = (*addr_of!((*from).place)).load(Ordering::Relaxed);
        ptr::copy_nonoverlapping(addr_of!((*from).value), addr_of_mut!((*to).value), 1);
        (*addr_of!((*to).place)).store(place, Ordering::Release);
        (*addr_of!((*from).place)).store(ptr::null_mut(), Ordering::Relaxed);
        (*place).object.store(to.cast(), Ordering::Relaxed);
        (*place).moved();
    }
    sys::SLUB_MIGRATED
}

/// A cache with a constructor.
fn create(
    name: *const u8,
    size: usize,
    align: usize,
    flags: sys::c_ulong,
    ctor: unsafe extern "C" fn(*mut sys::c_void),
) -> Result<NonNull<sys::slub_cache>, Error> {
    // SAFETY: the name is terminated, and copied by the call.
    let raw = unsafe { sys::slub_cache_create(name.cast(), size, align, flags, Some(ctor)) };
    NonNull::new(raw).ok_or_else(|| Error::from_errno(sys::errno()))
}

impl<T> MovableCache<T> {
    /// Makes a cache.  `name`: 8 bytes less than a [`Cache`](crate::Cache)'s.
    ///
    /// # Errors
    ///
    /// As [`Cache::new`](crate::Cache::new).
    pub fn new(name: &str) -> Result<Self, Error> {
        const SUFFIX: &[u8] = b":handles";
        let object_name = c_name(name)?;
        let mut place_name = object_name;
        if name.len() + SUFFIX.len() > sys::SLUB_CACHE_NAME_MAX {
            return Err(Error::BadName);
        }
        place_name[name.len()..name.len() + SUFFIX.len()].copy_from_slice(SUFFIX);
        if size_of::<Object<T>>() > sys::SLUB_CACHE_SIZE_MAX || align_of::<T>() > 4096 {
            return Err(Error::BadType);
        }
        let (size, align) = (size_of::<Object<T>>(), align_of::<Object<T>>());
        let objects = create(object_name.as_ptr(), size, align, 0, construct_object::<T>)?;
        let (size, align) = (size_of::<Place>(), align_of::<Place>());
        let rcu = sys::SLUB_CACHE_TYPESAFE_BY_RCU;
        let places = create(place_name.as_ptr(), size, align, rcu, construct_place);
        let places = places.map_err(|error| {
            // SAFETY: the cache lives, and nobody has it.
            unsafe { sys::slub_cache_destroy(objects.as_ptr()) };
            error
        })?;
        let cache = MovableCache { objects, places, _objects: PhantomData };
        // SAFETY: the functions need nothing but objects and places.
        Error::check(unsafe {
            let (isolate, migrate) = (Some(isolate::<T> as _), Some(migrate::<T> as _));
            let arg = ptr::null_mut();
            sys::slub_cache_setup_mobility(cache.objects.as_ptr(), isolate, migrate, arg)
        })?;
        Ok(cache)
    }

    /// Allocates an object and moves `value` into it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; `value` is dropped then.
    pub fn alloc(&self, value: T) -> Result<Handle<'_, T>, Error> {
        // SAFETY: the caches live; nobody else has what they return, but isolate(),
        // which looks at the words of a place and the first one of an object.
        unsafe {
            let object = sys::slub_cache_alloc(self.objects.as_ptr()).cast::<Object<T>>();
            if object.is_null() {
                return Err(Error::OutOfMemory);
            }
            let place = sys::slub_cache_alloc(self.places.as_ptr()).cast::<Place>();
            let place = match NonNull::new(place) {
                Some(place) => place,
                None => {
                    sys::slub_cache_free(self.objects.as_ptr(), object.cast());
                    return Err(Error::OutOfMemory);
                }
            };
            addr_of_mut!((*object).value).write(MaybeUninit::new(value));
            place.as_ref().pin();
            place.as_ref().object.store(object.cast(), Ordering::Relaxed);
            (*addr_of!((*object).place)).store(place.as_ptr(), Ordering::Release);
            place.as_ref().unpin();
            Ok(Handle { place, objects: self.objects, places: self.places, _cache: PhantomData })
        }
    }

    /// Moves objects so that slabs that are filled up to `max_fill` percent become
    /// empty; 100: all that can be emptied.  Objects that somebody looks at stay.
    /// Returns how many slabs went back.
    ///
    /// # Errors
    ///
    /// [`Error::Other`] (`EINVAL`): `max_fill` above 100; [`Error::Busy`]: called
    /// by a closure that moves objects.
    pub fn defrag(&self, max_fill: u32) -> Result<usize, Error> {
        // SAFETY: the cache lives.
        slabs(unsafe { sys::slub_cache_defrag(self.objects.as_ptr(), max_fill) })
    }

    /// Gives back what the cache holds and no object uses.  True: nothing
    /// unused is left.
    pub fn shrink(&self) -> bool {
        // SAFETY: the caches live.
        unsafe {
            let places = sys::slub_cache_shrink(self.places.as_ptr()) == 0;
            sys::slub_cache_shrink(self.objects.as_ptr()) == 0 && places
        }
    }

    /// What has happened to the objects since the cache was made.
    pub fn stats(&self) -> Stats {
        // SAFETY: the cache lives.
        unsafe { crate::cache::stats_of(self.objects.as_ptr()) }
    }

    /// Gives the cache back, and says whether that was possible.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] when forgotten objects are left, [`Error::TryAgain`]; the
    /// cache then stays for good.
    #[must_use = "the cache stays, for good, if objects are left"]
    pub fn close(self) -> Result<(), Error> {
        ManuallyDrop::new(self).destroy()
    }

    fn destroy(&self) -> Result<(), Error> {
        // SAFETY: both live; with objects left the calls do nothing, and then
        // there are as many places.
        unsafe {
            Error::check(sys::slub_cache_destroy(self.objects.as_ptr()))?;
            Error::check(sys::slub_cache_destroy(self.places.as_ptr()))
        }
    }
}

impl<T> Drop for MovableCache<T> {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}

impl<T> fmt::Debug for MovableCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovableCache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// The same as [`MovableCache::defrag`] for all caches of the program whose objects
/// can be moved.
///
/// # Errors
///
/// As there.
pub fn defrag_all(max_fill: u32) -> Result<usize, Error> {
    // SAFETY: always allowed.
    slabs(unsafe { sys::slub_defrag_all(max_fill) })
}

/// What the C functions return: slabs, or a negative errno.
fn slabs(result: isize) -> Result<usize, Error> {
    if result < 0 {
        return Err(Error::from_errno(-result as i32));
    }
    Ok(result as usize)
}

/// An object of a [`MovableCache`], owned.  Dropping it drops the value and gives
/// the memory back.
pub struct Handle<'c, T> {
    place: NonNull<Place>,
    objects: NonNull<sys::slub_cache>,
    places: NonNull<sys::slub_cache>,
    _cache: PhantomData<(&'c MovableCache<T>, T)>,
}

// SAFETY: a handle is its value, which moves while nobody has a reference to it.
unsafe impl<T: Send> Send for Handle<'_, T> {}
// SAFETY: a shared handle gives shared access to its value, and no more.
unsafe impl<T: Sync> Sync for Handle<'_, T> {}

impl<'c, T> Handle<'c, T> {
    fn place(&self) -> &Place {
        // SAFETY: it is ours until drop().
        unsafe { self.place.as_ref() }
    }

    /// Where the value is; to be used while it is pinned.
    fn value(&self) -> *mut T {
        let object = self.place().object.load(Ordering::Relaxed).cast::<Object<T>>();
        // SAFETY: the object lives; only an address is computed.
        unsafe { addr_of_mut!((*object).value).cast() }
    }

    /// The value, which is not moved as long as the guard lives.
    #[inline]
    pub fn get(&self) -> Guard<'_, 'c, T> {
        self.place().pin();
        Guard { handle: self }
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self) -> GuardMut<'_, 'c, T> {
        self.place().pin();
        GuardMut { handle: self }
    }

    /// Moves the value out; the memory goes back to the cache.
    pub fn into_inner(handle: Self) -> T {
        let handle = ManuallyDrop::new(handle);
        handle.place().pin();
        let _memory = Unused { handle: &handle };
        // SAFETY: the value is read once, and its memory freed without dropping it.
        unsafe { handle.value().read() }
    }
}

impl<T> Drop for Handle<'_, T> {
    fn drop(&mut self) {
        self.place().pin();
        let value = self.value();
        let _memory = Unused { handle: self };
        // SAFETY: the value is ours, pinned, and not used again.
        unsafe { ptr::drop_in_place(value) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Handle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Memory of a handle without a value, pinned; it goes back, also in a panic.
struct Unused<'h, 'c, T> {
    handle: &'h Handle<'c, T>,
}

impl<T> Drop for Unused<'_, '_, T> {
    fn drop(&mut self) {
        let (handle, place) = (self.handle, self.handle.place());
        let object = place.object.load(Ordering::Relaxed).cast::<Object<T>>();
        // SAFETY: both are ours, and go back as their constructors made them; a
        // guard that was forgotten ends here.
        unsafe {
            (*addr_of!((*object).place)).store(ptr::null_mut(), Ordering::Relaxed);
            place.object.store(ptr::null_mut(), Ordering::Relaxed);
            place.state.store(0, Ordering::Release);
            sys::slub_cache_free(handle.objects.as_ptr(), object.cast());
            sys::slub_cache_free(handle.places.as_ptr(), handle.place.as_ptr().cast());
        }
    }
}

/// A look at a value.  A forgotten one only keeps it from being moved.
pub struct Guard<'h, 'c, T> {
    handle: &'h Handle<'c, T>,
}

/// A look at a value that may be changed.
pub struct GuardMut<'h, 'c, T> {
    handle: &'h mut Handle<'c, T>,
}

impl<T> Deref for Guard<'_, '_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is pinned, and its handle borrowed.
        unsafe { &*self.handle.value() }
    }
}

impl<T> Deref for GuardMut<'_, '_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: as above.
        unsafe { &*self.handle.value() }
    }
}

impl<T> DerefMut for GuardMut<'_, '_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, by us alone.
        unsafe { &mut *self.handle.value() }
    }
}

impl<T> Drop for Guard<'_, '_, T> {
    #[inline]
    fn drop(&mut self) {
        self.handle.place().unpin();
    }
}

impl<T> Drop for GuardMut<'_, '_, T> {
    #[inline]
    fn drop(&mut self) {
        self.handle.place().unpin();
    }
}

impl<T: fmt::Debug> fmt::Debug for Guard<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for GuardMut<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
