// SPDX-License-Identifier: MIT
//! Raw bindings to libslub, written by hand after its headers.
//!
//! Everything here is as unsafe as C; the crate `slub` is the way to use it
//! from Rust.  What each function does, returns and costs is said in the C
//! headers `slub/percpu.h`, `slub/cache.h`, `slub/srcu.h`, `slub/rcu.h`,
//! `slub/control.h`, `slub/malloc.h`, `slub/bucket.h`, `slub/mempool.h`, `slub/reserve.h`,
//! `slub/group.h`, `slub/shrinker.h`, `slub/pressure.h`, `slub/profile.h` and
//! `slub/defrag.h`, and on its manual page.
//!
//! C's inline functions have no symbol. Their out-of-line twins have one and
//! do the same; they are bound here under the name that C knows
//! (`slub_percpu_add`, `slub_cache_alloc`, …).  [`inline`] has the fast ways that Rust
//! has inline too, and says what a plugin must not do.
//!
//! # Finding the library
//!
//! | variable | meaning |
//! |---|---|
//! | `SLUB_LIB_DIR` | the folder of `libslub.a` or `libslub.so`; without it `pkg-config slub` is asked |
//! | `SLUB_LINK` | `static` or `shared`; without it static if there is an archive |
//!
//! A program that links this crate has libslub as its `malloc`, C code
//! included.
#![no_std]
#![allow(non_camel_case_types)]

pub mod inline;

use core::cell::UnsafeCell;
pub use core::ffi::c_void;
use core::sync::atomic::{compiler_fence, AtomicU32, Ordering};

// C's types as Linux has them; core::ffi knows them only from Rust 1.64 on.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
pub type c_char = i8;
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
pub type c_char = u8;
pub type c_int = i32;
pub type c_uint = u32;
pub type c_long = isize;
pub type c_ulong = usize;

pub const SLUB_CACHE_SIZE_MAX: usize = 256 << 10;
pub const SLUB_CACHE_NAME_MAX: usize = 47;

// enum slub_cache_flag
pub const SLUB_CACHE_HWCACHE_ALIGN: c_ulong = 1 << 0;
pub const SLUB_CACHE_PANIC: c_ulong = 1 << 1;
pub const SLUB_CACHE_TYPESAFE_BY_RCU: c_ulong = 1 << 2;
pub const SLUB_CACHE_ACCOUNT: c_ulong = 1 << 3;
pub const SLUB_CACHE_RECLAIM_ACCOUNT: c_ulong = 1 << 4;
pub const SLUB_CACHE_NO_MERGE: c_ulong = 1 << 5;
pub const SLUB_CACHE_CONSISTENCY_CHECKS: c_ulong = 1 << 8;
pub const SLUB_CACHE_RED_ZONE: c_ulong = 1 << 9;
pub const SLUB_CACHE_POISON: c_ulong = 1 << 10;
pub const SLUB_CACHE_STORE_USER: c_ulong = 1 << 11;
pub const SLUB_CACHE_TRACE: c_ulong = 1 << 12;
pub const SLUB_CACHE_FAILSLAB: c_ulong = 1 << 13;

// enum slub_alloc_flag
pub const SLUB_ALLOC_ZERO: c_uint = 1 << 16;
pub const SLUB_ALLOC_RESERVE: c_uint = 1 << 17;
pub const SLUB_ALLOC_NO_RESERVE: c_uint = 1 << 18;

// enum slub_pool_flag
pub const SLUB_POOL_WAIT: c_uint = 1 << 24;
pub const SLUB_POOL_RESERVE: c_uint = 1 << 25;
pub const SLUB_POOL_NO_RESERVE: c_uint = 1 << 26;

pub const SLUB_NODE_ANY: c_int = -1;
/// The number of the area for threads without a CPU of their own.
pub const SLUB_PERCPU_SHARED: c_int = 0x7fff_ffff;

// slub/bucket.h, slub/mempool.h
pub const SLUB_BUCKET_NAME_MAX: usize = SLUB_CACHE_NAME_MAX - 6;
pub const SLUB_MEMPOOL_NR_MAX: usize = 1 << 24;

// slub/profile.h
pub const SLUB_PROFILE_BYTES_DEFAULT: usize = 512 << 10;
pub const SLUB_PROFILE_BYTES_MAX: usize = 1 << 36;

// enum slub_pressure_source
pub const SLUB_PRESSURE_WATCH: c_uint = 1 << 0;
pub const SLUB_PRESSURE_PSI_CGROUP: c_uint = 1 << 1;
pub const SLUB_PRESSURE_PSI_MACHINE: c_uint = 1 << 2;
pub const SLUB_PRESSURE_EVENTS: c_uint = 1 << 3;
pub const SLUB_PRESSURE_V1_LEVEL: c_uint = 1 << 4;
pub const SLUB_PRESSURE_V1_USAGE: c_uint = 1 << 5;

// slub/group.h
pub const SLUB_GROUP_NAME_MAX: usize = 47;
pub const SLUB_GROUP_DEPTH_MAX: u32 = 32;
pub const SLUB_GROUP_NESTING_MAX: u32 = 8;
pub const SLUB_GROUP_NO_LIMIT: usize = 1 << 62;

// enum slub_group_limit
pub const SLUB_GROUP_LOW: c_uint = 0;
pub const SLUB_GROUP_HIGH: c_uint = 1;
pub const SLUB_GROUP_MAX: c_uint = 2;

// slub/shrinker.h
pub const SLUB_SHRINK_STOP: usize = usize::MAX;
pub const SLUB_SHRINK_EMPTY: usize = usize::MAX - 1;
pub const SLUB_SHRINKER_SEEKS: c_uint = 2;
pub const SLUB_SHRINKER_SEEKS_NONE: c_uint = !0;
pub const SLUB_SHRINKER_BATCH: usize = 128;
pub const SLUB_SHRINK_PRIORITY_MAX: c_int = 12;

// enum slub_shrinker_flag
pub const SLUB_SHRINKER_NUMA_AWARE: c_uint = 1 << 0;
pub const SLUB_SHRINKER_GROUP_AWARE: c_uint = 1 << 1;

// slub/defrag.h, and enum slub_migrate_result
pub const SLUB_ISOLATE_MAX: usize = 64;
pub const SLUB_MIGRATE_FAILED: c_int = 0;
pub const SLUB_MIGRATED: c_int = 1;
pub const SLUB_MIGRATED_FREE_LATER: c_int = 2;

/// A cache; only ever seen through a pointer.
#[repr(C)]
pub struct slub_cache {
    _opaque: [u8; 0],
    _not_send: core::marker::PhantomData<*mut u8>,
}

/// All that can be said about a cache; what is zero is not asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct slub_cache_args {
    pub name: *const c_char,
    pub size: usize,
    pub align: usize,
    pub flags: c_ulong,
    pub ctor: Option<unsafe extern "C" fn(object: *mut c_void)>,
    pub free_pointer_offset: usize,
    pub has_free_pointer_offset: bool,
    pub useroffset: usize,
    pub usersize: usize,
    pub sheaf_length: c_uint,
    pub reserved: [u64; 4],
}

// enum slub_value_kind
pub const SLUB_VALUE_BYTES: u32 = 0;
pub const SLUB_VALUE_NUMBER: u32 = 1;
pub const SLUB_VALUE_COUNTER: u32 = 2;

/// A number, by its name.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct slub_value {
    pub number: u64,
    pub kind: u32,
    pub reserved: u32,
}

/// Counts since a cache was made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct slub_cache_stats {
    pub objects: u64,
    pub slabs: u64,
    pub alloc_spare: u64,
    pub alloc_barn: u64,
    pub alloc_refill: u64,
    pub free_spare: u64,
    pub free_barn: u64,
    pub free_flush: u64,
    pub slab_alloc: u64,
    pub slab_free: u64,
    pub wrong_cache: u64,
    pub double_free: u64,
    pub objects_out: u64,
    pub objects_back: u64,
    pub wrong_size: u64,
    pub objects_moved: u64,
    pub objects_stayed: u64,
    pub alloc_direct: u64,
    pub free_direct: u64,
    pub free_add_partial: u64,
    pub free_remove_partial: u64,
    pub alloc_node_mismatch: u64,
    pub cmpxchg_double_fail: u64,
    pub alloc_refill_fail: u64,
    pub lists_emptied: u64,
    pub sheaf_prefill_fast: u64,
    pub sheaf_prefill_slow: u64,
    pub sheaf_prefill_oversize: u64,
    pub sheaf_return_fast: u64,
    pub sheaf_return_slow: u64,
    pub free_rcu_sheaf: u64,
    pub free_rcu_sheaf_fail: u64,
    pub reserved: [u64; 5],
}

/// Objects put aside for one user.
#[repr(C)]
#[derive(Debug)]
pub struct slub_prefill {
    pub cache: *mut slub_cache,
    pub head: *mut c_void,
    pub nr: usize,
    pub reserved: u64,
}

/// A domain of readers.  The library's own is [`slub_rcu_domain`].
#[repr(C)]
pub struct slub_srcu {
    pub reader: AtomicU32,
    is_listed: AtomicU32,
    rest: UnsafeCell<[u64; 15]>,
}

// SAFETY: all but `reader` is touched by the library only.  It writes behind a shared
// reference, so each field must be one that allows that (a test below).
unsafe impl Sync for slub_srcu {}

/// A group; only ever seen through a pointer.
#[repr(C)]
pub struct slub_group {
    _opaque: [u8; 0],
    _not_send: core::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct slub_bucket {
    _opaque: [u8; 0],
    _not_send: core::marker::PhantomData<*mut u8>,
}

/// What a bucket holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct slub_bucket_stats {
    pub live_bytes: usize,
    pub live_blocks: usize,
    pub large_bytes: usize,
    pub large_blocks: usize,
    pub slab_bytes: usize,
    pub classes: usize,
    pub refused: u64,
    pub reserved: [u64; 4],
}

/// A pool; only ever seen through a pointer.
#[repr(C)]
pub struct slub_mempool {
    _opaque: [u8; 0],
    _not_send: core::marker::PhantomData<*mut u8>,
}

/// What a pool is made of.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct slub_mempool_args {
    pub min_nr: usize,
    pub alloc_fn: Option<unsafe extern "C" fn(flags: c_uint, data: *mut c_void) -> *mut c_void>,
    pub free_fn: Option<unsafe extern "C" fn(element: *mut c_void, data: *mut c_void)>,
    pub init_fn: Option<unsafe extern "C" fn(element: *mut c_void, data: *mut c_void)>,
    pub reset_fn: Option<unsafe extern "C" fn(element: *mut c_void, data: *mut c_void)>,
    pub owns_fn: Option<unsafe extern "C" fn(element: *const c_void, data: *mut c_void) -> bool>,
    pub data: *mut c_void,
    pub reserved: [u64; 4],
}

/// The numbers of a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct slub_mempool_stats {
    pub min_nr: usize,
    pub available: usize,
    pub waiters: usize,
    pub taken: u64,
    pub waits: u64,
    pub timeouts: u64,
    pub refused: u64,
    pub reserved: [u64; 4],
}

/// What was seen of memory pressure, and done about it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct slub_pressure_stats {
    pub sources: c_uint,
    pub priority: c_int,
    pub events: u64,
    pub merged: u64,
    pub walks: u64,
    pub cut_short: u64,
    pub objects: u64,
    pub bytes: u64,
    pub reserved: [u64; 4],
}

/// What can be said of a group.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct slub_group_stats {
    pub name: *const c_char,
    pub parent: *mut slub_group,
    pub usage: usize,
    pub peak: usize,
    pub low: usize,
    pub high: usize,
    pub max: usize,
    pub failures: u64,
    pub max_hits: u64,
    pub high_hits: u64,
    pub nr_children: u32,
    pub depth: u32,
    pub reserved: [u64; 4],
}

/// What the objects of a group keep of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct slub_group_memory {
    pub objects: usize,
    pub object_bytes: usize,
    pub slabs: usize,
    pub slab_bytes: usize,
    pub share_bytes: usize,
    pub large_blocks: usize,
    pub large_bytes: usize,
    pub reserved: [usize; 4],
}

pub type slub_group_handler_fn =
    unsafe extern "C" fn(group: *mut slub_group, bytes: usize, arg: *mut c_void) -> bool;

/// What a shrinker's function is asked for.
#[repr(C)]
#[derive(Debug)]
pub struct slub_shrink_control {
    pub nr_to_scan: usize,
    pub nr_scanned: usize,
    pub group: *mut slub_group,
    pub node: c_int,
    pub priority: c_int,
    pub reserved: [u64; 2],
}

pub type slub_shrinker_fn =
    unsafe extern "C" fn(shrinker: *mut slub_shrinker, control: *mut slub_shrink_control) -> usize;

/// Two functions that give memory back; all behind `flags` is the library's.
#[repr(C)]
#[derive(Debug)]
pub struct slub_shrinker {
    pub name: *const c_char,
    pub count: Option<slub_shrinker_fn>,
    pub scan: Option<slub_shrinker_fn>,
    pub data: *mut c_void,
    pub batch: usize,
    pub seeks: c_uint,
    pub flags: c_uint,
    pub id: u32,
    pub state: u32,
    pub freed: u64,
    pub scanned: u64,
    pub scans: u64,
    pub cut_short: u64,
    pub deferred: [i64; 8],
    pub stamp: u64,
    pub reserved: [u64; 3],
}

pub type slub_isolate_fn = unsafe extern "C" fn(
    cache: *mut slub_cache,
    objects: *mut *mut c_void,
    nr: usize,
    arg: *mut c_void,
);
pub type slub_migrate_fn = unsafe extern "C" fn(
    cache: *mut slub_cache,
    from: *mut c_void,
    to: *mut c_void,
    arg: *mut c_void,
) -> c_int;

extern "C" {
    // slub/percpu.h
    pub fn slub_percpu_alloc(size: usize, align: usize) -> usize;
    pub fn slub_percpu_free(offset: usize) -> c_int;
    pub fn slub_percpu_ptr(offset: usize, cpu: c_uint) -> *mut c_void;
    pub fn slub_percpu_cpus() -> c_uint;
    pub fn slub_percpu_next(cpu: c_int) -> c_int;
    pub fn slub_percpu_bytes() -> usize;
    pub fn slub_percpu_sum(offset: usize) -> i64;
    pub fn slub_percpu_sum32(offset: usize) -> i32;
    pub fn slub_percpu_list_drain(list: usize) -> *mut c_void;
    pub fn slub_percpu_add(offset: usize, n: i64);
    pub fn slub_percpu_add32(offset: usize, n: i32);
    pub fn slub_percpu_fetch_add(offset: usize, n: i64) -> i64;
    pub fn slub_percpu_cmpxchg(offset: usize, old: i64, value: i64) -> i64;
    pub fn slub_percpu_cmpxchg32(offset: usize, old: i32, value: i32) -> i32;
    pub fn slub_percpu_read(offset: usize) -> i64;
    pub fn slub_percpu_push(list: usize, object: *mut c_void, limit: u32) -> bool;
    pub fn slub_percpu_pop(list: usize) -> *mut c_void;

    // slub/cache.h
    pub fn slub_cache_create(
        name: *const c_char,
        size: usize,
        align: usize,
        flags: c_ulong,
        ctor: Option<unsafe extern "C" fn(object: *mut c_void)>,
    ) -> *mut slub_cache;
    pub fn slub_cache_create_args(args: *const slub_cache_args) -> *mut slub_cache;
    pub fn slub_cache_destroy(cache: *mut slub_cache) -> c_int;
    pub fn slub_cache_shrink(cache: *mut slub_cache) -> c_int;
    pub fn slub_cache_alloc(cache: *mut slub_cache) -> *mut c_void;
    pub fn slub_cache_free(cache: *mut slub_cache, object: *mut c_void);
    pub fn slub_cache_free_aborted(cache: *mut slub_cache, object: *mut c_void);
    pub fn slub_cache_alloc_flags(cache: *mut slub_cache, flags: c_uint) -> *mut c_void;
    pub fn slub_cache_alloc_node(cache: *mut slub_cache, flags: c_uint, node: c_int)
        -> *mut c_void;
    pub fn slub_cache_zalloc(cache: *mut slub_cache) -> *mut c_void;
    pub fn slub_cache_alloc_bulk(
        cache: *mut slub_cache,
        flags: c_uint,
        nr: usize,
        objects: *mut *mut c_void,
    ) -> usize;
    pub fn slub_cache_free_bulk(cache: *mut slub_cache, nr: usize, objects: *mut *mut c_void);
    pub fn slub_cache_prefill(
        cache: *mut slub_cache,
        prefill: *mut slub_prefill,
        nr: usize,
    ) -> c_int;
    pub fn slub_prefill_alloc(prefill: *mut slub_prefill) -> *mut c_void;
    pub fn slub_prefill_return(prefill: *mut slub_prefill);
    pub fn slub_free(object: *mut c_void);
    pub fn slub_cache_of(object: *const c_void) -> *mut slub_cache;
    pub fn slub_cache_find(name: *const c_char) -> *mut slub_cache;
    pub fn slub_cache_for_each(
        visit: Option<unsafe extern "C" fn(cache: *mut slub_cache, arg: *mut c_void) -> c_int>,
        arg: *mut c_void,
    ) -> c_int;
    pub fn slub_cache_name(cache: *const slub_cache) -> *const c_char;
    pub fn slub_cache_size(cache: *const slub_cache) -> usize;
    pub fn slub_cache_stride(cache: *const slub_cache) -> usize;
    pub fn slub_cache_for_each_object(
        cache: *mut slub_cache,
        visit: Option<unsafe extern "C" fn(object: *mut c_void, arg: *mut c_void) -> c_int>,
        arg: *mut c_void,
    ) -> c_int;
    pub fn slub_copy_allowed(ptr: *const c_void, bytes: usize) -> bool;
    pub fn slub_cache_stats(cache: *mut slub_cache, stats: *mut slub_cache_stats) -> c_int;

    // slub/control.h
    pub fn slub_option_get(name: *const c_char, value: *mut c_char, size: usize) -> c_int;
    pub fn slub_option_set(name: *const c_char, value: *const c_char) -> c_int;
    pub fn slub_value_read(name: *const c_char, value: *mut slub_value) -> c_int;
    pub fn slub_value_for_each(
        visit: Option<
            unsafe extern "C" fn(
                name: *const c_char,
                value: *const slub_value,
                arg: *mut c_void,
            ) -> c_int,
        >,
        arg: *mut c_void,
    ) -> c_int;

    pub fn slub_stats_json(text: *mut c_char, size: usize) -> c_long;
    pub fn slub_node_shrink(node: c_int) -> c_long;

    // slub/malloc.h
    pub fn slub_malloc(bytes: usize) -> *mut c_void;
    pub fn slub_calloc(nr: usize, bytes: usize) -> *mut c_void;
    pub fn slub_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    pub fn slub_aligned_alloc(align: usize, bytes: usize) -> *mut c_void;
    pub fn slub_usable_size(block: *const c_void) -> usize;
    pub fn slub_good_size(bytes: usize) -> usize;

    // slub/bucket.h
    pub fn slub_bucket_create(name: *const c_char, flags: c_ulong) -> *mut slub_bucket;
    pub fn slub_bucket_destroy(bucket: *mut slub_bucket) -> c_int;
    pub fn slub_bucket_clear(bucket: *mut slub_bucket) -> c_int;
    pub fn slub_bucket_destroy_all(bucket: *mut slub_bucket) -> c_int;
    pub fn slub_bucket_alloc(bucket: *mut slub_bucket, size: usize) -> *mut c_void;
    pub fn slub_bucket_calloc(bucket: *mut slub_bucket, nr: usize, size: usize) -> *mut c_void;
    pub fn slub_bucket_aligned_alloc(
        bucket: *mut slub_bucket,
        align: usize,
        size: usize,
    ) -> *mut c_void;
    pub fn slub_bucket_realloc(
        bucket: *mut slub_bucket,
        ptr: *mut c_void,
        size: usize,
    ) -> *mut c_void;
    pub fn slub_bucket_free(bucket: *mut slub_bucket, ptr: *mut c_void);
    pub fn slub_bucket_stats(bucket: *mut slub_bucket, stats: *mut slub_bucket_stats) -> c_int;
    pub fn slub_bucket_group_set(bucket: *mut slub_bucket, group: *mut slub_group) -> c_int;

    // slub/mempool.h
    pub fn slub_mempool_create(
        min_nr: usize,
        alloc_fn: Option<unsafe extern "C" fn(flags: c_uint, data: *mut c_void) -> *mut c_void>,
        free_fn: Option<unsafe extern "C" fn(element: *mut c_void, data: *mut c_void)>,
        data: *mut c_void,
    ) -> *mut slub_mempool;
    pub fn slub_mempool_create_args(args: *const slub_mempool_args) -> *mut slub_mempool;
    pub fn slub_mempool_create_slab(min_nr: usize, cache: *mut slub_cache) -> *mut slub_mempool;
    pub fn slub_mempool_create_malloc(min_nr: usize, size: usize) -> *mut slub_mempool;
    pub fn slub_mempool_destroy(pool: *mut slub_mempool) -> c_int;
    pub fn slub_mempool_alloc(pool: *mut slub_mempool, flags: c_uint) -> *mut c_void;
    pub fn slub_mempool_alloc_reserved(pool: *mut slub_mempool) -> *mut c_void;
    pub fn slub_mempool_alloc_bulk(
        pool: *mut slub_mempool,
        flags: c_uint,
        nr: usize,
        elements: *mut *mut c_void,
    ) -> usize;
    pub fn slub_mempool_free(pool: *mut slub_mempool, element: *mut c_void);
    pub fn slub_mempool_free_bulk(pool: *mut slub_mempool, nr: usize, elements: *mut *mut c_void);
    pub fn slub_mempool_resize(pool: *mut slub_mempool, min_nr: usize) -> c_int;
    pub fn slub_mempool_stats(pool: *mut slub_mempool, stats: *mut slub_mempool_stats) -> c_int;

    // slub/reserve.h
    pub fn slub_reserve_set(bytes: usize) -> c_int;
    pub fn slub_reserve_bytes() -> usize;
    pub fn slub_reserve_enter() -> c_int;
    pub fn slub_reserve_leave() -> c_int;

    // slub/pressure.h
    pub fn slub_pressure_fd() -> c_int;
    pub fn slub_pressure_handle() -> c_int;
    pub fn slub_pressure_start_thread() -> c_int;
    pub fn slub_pressure_stop_thread() -> c_int;
    pub fn slub_pressure_stats(stats: *mut slub_pressure_stats) -> c_int;

    // slub/profile.h
    pub fn slub_profile_start(bytes: usize) -> c_int;
    pub fn slub_profile_stop() -> c_int;
    pub fn slub_profile_write(path: *const c_char) -> c_int;

    // slub/group.h
    pub fn slub_group_root() -> *mut slub_group;
    pub fn slub_group_create(name: *const c_char, parent: *mut slub_group) -> *mut slub_group;
    pub fn slub_group_destroy(group: *mut slub_group) -> c_int;
    pub fn slub_group_enter(group: *mut slub_group) -> c_int;
    pub fn slub_group_leave(group: *mut slub_group) -> c_int;
    pub fn slub_group_current() -> *mut slub_group;
    pub fn slub_group_limit_set(group: *mut slub_group, limit: c_uint, bytes: usize) -> c_int;
    pub fn slub_group_limit_get(group: *mut slub_group, limit: c_uint) -> usize;
    pub fn slub_group_handler_set(
        group: *mut slub_group,
        handler: Option<slub_group_handler_fn>,
        arg: *mut c_void,
    ) -> c_int;
    pub fn slub_group_stats(group: *mut slub_group, stats: *mut slub_group_stats) -> c_int;
    pub fn slub_group_memory(group: *mut slub_group, memory: *mut slub_group_memory) -> c_int;
    pub fn slub_cache_group_set(cache: *mut slub_cache, group: *mut slub_group) -> c_int;
    pub fn slub_group_charge(group: *mut slub_group, bytes: usize) -> u32;
    pub fn slub_group_uncharge(token: u32, bytes: usize);

    // slub/shrinker.h
    pub fn slub_shrinker_create(shrinker: *mut slub_shrinker) -> c_int;
    pub fn slub_shrinker_destroy(shrinker: *mut slub_shrinker) -> c_int;
    pub fn slub_shrinker_mark(
        shrinker: *mut slub_shrinker,
        group: *mut slub_group,
        node: c_int,
    ) -> c_int;
    pub fn slub_shrink(priority: c_int) -> usize;
    pub fn slub_shrink_all() -> usize;

    // slub/defrag.h
    pub fn slub_cache_setup_mobility(
        cache: *mut slub_cache,
        isolate: Option<slub_isolate_fn>,
        migrate: Option<slub_migrate_fn>,
        arg: *mut c_void,
    ) -> c_int;
    pub fn slub_cache_defrag(cache: *mut slub_cache, max_fill: c_uint) -> isize;
    pub fn slub_defrag_all(max_fill: c_uint) -> isize;
    pub fn slub_object_is_sparse(object: *const c_void) -> bool;
    pub fn slub_object_move(object: *mut c_void) -> *mut c_void;

    // slub/srcu.h
    pub static slub_rcu_domain: slub_srcu;
    pub fn slub_srcu_synchronize(domain: *const slub_srcu);
    fn slub_srcu_read_lock(domain: *const slub_srcu) -> c_int;
    fn slub_srcu_read_unlock(domain: *const slub_srcu, index: c_int);

    // slub/rcu.h
    pub fn slub_free_deferred(object: *mut c_void);
    pub fn slub_deferred_barrier() -> c_int;
    pub fn slub_deferred_pending() -> usize;

    // The malloc of the library, as every program sees it.
    pub fn malloc(bytes: usize) -> *mut c_void;
    pub fn calloc(n: usize, bytes: usize) -> *mut c_void;
    pub fn realloc(ptr: *mut c_void, bytes: usize) -> *mut c_void;
    pub fn free(ptr: *mut c_void);
    pub fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void;
    pub fn malloc_usable_size(ptr: *mut c_void) -> usize;
    pub fn malloc_trim(pad: usize) -> c_int;

    fn __errno_location() -> *mut c_int;
}

/// What the last function that failed in this thread left in `errno`.
pub fn errno() -> c_int {
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *__errno_location() }
}

const SRCU_FAST: u32 = 1;
const SRCU_LEFT: u32 = 16;

/// Enters a section of readers; returns what [`slub_read_unlock`] wants.
///
/// # Safety
/// Each section must be left once.
#[inline]
pub unsafe fn slub_read_lock() -> c_int {
    let index = slub_rcu_domain.reader.load(Ordering::Relaxed);
    if !inline::IS_INLINE || index & SRCU_FAST == 0 {
        return slub_srcu_read_lock(&slub_rcu_domain);
    }
    inline::section_entered();
    inline::percpu_add((index - SRCU_FAST) as usize, 1);
    compiler_fence(Ordering::SeqCst);
    index as c_int
}

/// Leaves a section of readers.
///
/// # Safety
/// `index` is what [`slub_read_lock`] returned, and is used once.
#[inline]
pub unsafe fn slub_read_unlock(index: c_int) {
    if index as u32 & SRCU_FAST == 0 {
        return slub_srcu_read_unlock(&slub_rcu_domain, index);
    }
    compiler_fence(Ordering::SeqCst);
    inline::percpu_add((index as u32 + SRCU_LEFT - SRCU_FAST) as usize, 1);
    inline::section_left();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the library may write to while Rust code has a shared reference.
    trait Shared {}
    impl Shared for AtomicU32 {}
    impl<T> Shared for UnsafeCell<T> {}

    fn is_shared<T: Shared>(_: &T) {}

    #[test]
    fn no_field_of_a_domain_is_plain() {
        // SAFETY: only references to the fields are made.
        let slub_srcu { reader, is_listed, rest } = unsafe { &slub_rcu_domain };

        is_shared(reader);
        is_shared(is_listed);
        is_shared(rest);
    }
}
