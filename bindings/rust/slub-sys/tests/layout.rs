// SPDX-License-Identifier: MIT
//! The C compiler's view of the structures and constants against this crate's.

use slub_sys::*;
use std::io::Write;
use std::mem::{align_of, size_of};
use std::process::{Command, Stdio};

/// The value of each C expression, computed by the C compiler.
fn values_in_c(test: &str, expressions: &[&str]) -> Vec<i64> {
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../include");
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <slub/cache.h>\n\
         #include <slub/rcu.h>\n#include <slub/defrag.h>\n#include <slub/group.h>\n\
         #include <slub/control.h>\n#include <slub/bucket.h>\n#include <slub/mempool.h>\n\
         #include <slub/pressure.h>\n#include <slub/profile.h>\nint main(void) {\n",
    );
    for expression in expressions {
        source += &format!("printf(\"%lld\\n\", (long long)({}));\n", expression);
    }
    source += "}\n";

    let program = std::env::temp_dir().join(format!("slub-{}-{}", test, std::process::id()));
    // Without the inline functions the program needs nothing of the library.
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-x", "c", "-", "-DSLUB_NO_INLINE", "-O1", "-I", include, "-o"])
        .arg(&program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_file(&program).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

macro_rules! same_in_c {
    ($test:expr; $($c:expr => $rust:expr),* $(,)?) => {
        let c = values_in_c($test, &[$($c),*]);
        let rust = [$($rust as i64),*];
        for (i, name) in [$($c),*].iter().enumerate() {
            assert_eq!(rust[i], c[i], "{}", name);
        }
    };
}

macro_rules! offset {
    ($structure:ty, $($field:ident).+) => {{
        let place = std::mem::MaybeUninit::<$structure>::uninit();
        let base = place.as_ptr();
        // SAFETY: only an address is computed.
        unsafe { std::ptr::addr_of!((*base).$($field).+) as usize - base as usize }
    }};
}

#[test]
fn structures() {
    same_in_c! { "structures";
        "sizeof(struct slub_value)" => size_of::<slub_value>(),
        "offsetof(struct slub_value, kind)" => offset!(slub_value, kind),
        "sizeof(struct slub_cache_args)" => size_of::<slub_cache_args>(),
        "offsetof(struct slub_cache_args, flags)" => offset!(slub_cache_args, flags),
        "offsetof(struct slub_cache_args, ctor)" => offset!(slub_cache_args, ctor),
        "offsetof(struct slub_cache_args, has_free_pointer_offset)" =>
            offset!(slub_cache_args, has_free_pointer_offset),
        "offsetof(struct slub_cache_args, usersize)" => offset!(slub_cache_args, usersize),
        "offsetof(struct slub_cache_args, sheaf_length)" =>
            offset!(slub_cache_args, sheaf_length),
        "sizeof(struct slub_cache_stats)" => size_of::<slub_cache_stats>(),
        "offsetof(struct slub_cache_stats, slabs)" => offset!(slub_cache_stats, slabs),
        "offsetof(struct slub_cache_stats, free_flush)" =>
            offset!(slub_cache_stats, free_flush),
        "offsetof(struct slub_cache_stats, double_free)" =>
            offset!(slub_cache_stats, double_free),
        "offsetof(struct slub_cache_stats, objects_back)" =>
            offset!(slub_cache_stats, objects_back),
        "offsetof(struct slub_cache_stats, wrong_size)" =>
            offset!(slub_cache_stats, wrong_size),
        "offsetof(struct slub_cache_stats, free_rcu_sheaf_fail)" =>
            offset!(slub_cache_stats, free_rcu_sheaf_fail),
        "sizeof(struct slub_prefill)" => size_of::<slub_prefill>(),
        "offsetof(struct slub_prefill, nr)" => offset!(slub_prefill, nr),
        "sizeof(struct slub_srcu)" => size_of::<slub_srcu>(),
        "offsetof(struct slub_srcu, reader)" => offset!(slub_srcu, reader),
        "sizeof(struct slub_bucket_stats)" => size_of::<slub_bucket_stats>(),
        "offsetof(struct slub_bucket_stats, classes)" => offset!(slub_bucket_stats, classes),
        "offsetof(struct slub_bucket_stats, refused)" => offset!(slub_bucket_stats, refused),
        "sizeof(struct slub_mempool_args)" => size_of::<slub_mempool_args>(),
        "offsetof(struct slub_mempool_args, owns_fn)" => offset!(slub_mempool_args, owns_fn),
        "offsetof(struct slub_mempool_args, data)" => offset!(slub_mempool_args, data),
        "sizeof(struct slub_mempool_stats)" => size_of::<slub_mempool_stats>(),
        "offsetof(struct slub_mempool_stats, waiters)" => offset!(slub_mempool_stats, waiters),
        "offsetof(struct slub_mempool_stats, refused)" => offset!(slub_mempool_stats, refused),
        "sizeof(struct slub_pressure_stats)" => size_of::<slub_pressure_stats>(),
        "offsetof(struct slub_pressure_stats, priority)" =>
            offset!(slub_pressure_stats, priority),
        "offsetof(struct slub_pressure_stats, bytes)" => offset!(slub_pressure_stats, bytes),
        "sizeof(struct slub_group_stats)" => size_of::<slub_group_stats>(),
        "offsetof(struct slub_group_stats, max)" => offset!(slub_group_stats, max),
        "offsetof(struct slub_group_stats, depth)" => offset!(slub_group_stats, depth),
        "sizeof(struct slub_group_memory)" => size_of::<slub_group_memory>(),
        "offsetof(struct slub_group_memory, large_bytes)" =>
            offset!(slub_group_memory, large_bytes),
        "sizeof(struct slub_shrink_control)" => size_of::<slub_shrink_control>(),
        "offsetof(struct slub_shrink_control, priority)" =>
            offset!(slub_shrink_control, priority),
        "sizeof(struct slub_shrinker)" => size_of::<slub_shrinker>(),
        "offsetof(struct slub_shrinker, seeks)" => offset!(slub_shrinker, seeks),
        "offsetof(struct slub_shrinker, freed)" => offset!(slub_shrinker, freed),
        "offsetof(struct slub_shrinker, deferred)" => offset!(slub_shrinker, deferred),
        "__alignof__(struct slub_cache_args)" => align_of::<slub_cache_args>(),
    }
}

#[test]
fn constants() {
    same_in_c! { "constants";
        "SLUB_VALUE_COUNTER" => SLUB_VALUE_COUNTER,
        "SLUB_CACHE_SIZE_MAX" => SLUB_CACHE_SIZE_MAX,
        "SLUB_CACHE_NAME_MAX" => SLUB_CACHE_NAME_MAX,
        "SLUB_CACHE_HWCACHE_ALIGN" => SLUB_CACHE_HWCACHE_ALIGN,
        "SLUB_CACHE_PANIC" => SLUB_CACHE_PANIC,
        "SLUB_CACHE_TYPESAFE_BY_RCU" => SLUB_CACHE_TYPESAFE_BY_RCU,
        "SLUB_CACHE_ACCOUNT" => SLUB_CACHE_ACCOUNT,
        "SLUB_CACHE_RECLAIM_ACCOUNT" => SLUB_CACHE_RECLAIM_ACCOUNT,
        "SLUB_CACHE_NO_MERGE" => SLUB_CACHE_NO_MERGE,
        "SLUB_CACHE_CONSISTENCY_CHECKS" => SLUB_CACHE_CONSISTENCY_CHECKS,
        "SLUB_CACHE_RED_ZONE" => SLUB_CACHE_RED_ZONE,
        "SLUB_CACHE_POISON" => SLUB_CACHE_POISON,
        "SLUB_CACHE_STORE_USER" => SLUB_CACHE_STORE_USER,
        "SLUB_CACHE_TRACE" => SLUB_CACHE_TRACE,
        "SLUB_CACHE_FAILSLAB" => SLUB_CACHE_FAILSLAB,
        "SLUB_ALLOC_ZERO" => SLUB_ALLOC_ZERO,
        "SLUB_ALLOC_RESERVE" => SLUB_ALLOC_RESERVE,
        "SLUB_ALLOC_NO_RESERVE" => SLUB_ALLOC_NO_RESERVE,
        "SLUB_POOL_WAIT" => SLUB_POOL_WAIT,
        "SLUB_POOL_RESERVE" => SLUB_POOL_RESERVE,
        "SLUB_POOL_NO_RESERVE" => SLUB_POOL_NO_RESERVE,
        "SLUB_BUCKET_NAME_MAX" => SLUB_BUCKET_NAME_MAX,
        "SLUB_MEMPOOL_NR_MAX" => SLUB_MEMPOOL_NR_MAX,
        "SLUB_PROFILE_BYTES_DEFAULT" => SLUB_PROFILE_BYTES_DEFAULT,
        "SLUB_PROFILE_BYTES_MAX" => SLUB_PROFILE_BYTES_MAX,
        "SLUB_PRESSURE_WATCH" => SLUB_PRESSURE_WATCH,
        "SLUB_PRESSURE_PSI_CGROUP" => SLUB_PRESSURE_PSI_CGROUP,
        "SLUB_PRESSURE_PSI_MACHINE" => SLUB_PRESSURE_PSI_MACHINE,
        "SLUB_PRESSURE_EVENTS" => SLUB_PRESSURE_EVENTS,
        "SLUB_PRESSURE_V1_LEVEL" => SLUB_PRESSURE_V1_LEVEL,
        "SLUB_PRESSURE_V1_USAGE" => SLUB_PRESSURE_V1_USAGE,
        "SLUB_NODE_ANY" => SLUB_NODE_ANY,
        "SLUB_PERCPU_SHARED" => SLUB_PERCPU_SHARED,
        "SLUB_GROUP_NAME_MAX" => SLUB_GROUP_NAME_MAX,
        "SLUB_GROUP_DEPTH_MAX" => SLUB_GROUP_DEPTH_MAX,
        "SLUB_GROUP_NESTING_MAX" => SLUB_GROUP_NESTING_MAX,
        "SLUB_GROUP_NO_LIMIT" => SLUB_GROUP_NO_LIMIT,
        "SLUB_GROUP_LOW" => SLUB_GROUP_LOW,
        "SLUB_GROUP_HIGH" => SLUB_GROUP_HIGH,
        "SLUB_GROUP_MAX" => SLUB_GROUP_MAX,
        "SLUB_SHRINK_STOP" => SLUB_SHRINK_STOP,
        "SLUB_SHRINK_EMPTY" => SLUB_SHRINK_EMPTY,
        "SLUB_SHRINKER_SEEKS" => SLUB_SHRINKER_SEEKS,
        "SLUB_SHRINKER_SEEKS_NONE" => SLUB_SHRINKER_SEEKS_NONE,
        "SLUB_SHRINKER_BATCH" => SLUB_SHRINKER_BATCH,
        "SLUB_SHRINK_PRIORITY_MAX" => SLUB_SHRINK_PRIORITY_MAX,
        "SLUB_SHRINKER_NUMA_AWARE" => SLUB_SHRINKER_NUMA_AWARE,
        "SLUB_SHRINKER_GROUP_AWARE" => SLUB_SHRINKER_GROUP_AWARE,
        "SLUB_ISOLATE_MAX" => SLUB_ISOLATE_MAX,
        "SLUB_MIGRATE_FAILED" => SLUB_MIGRATE_FAILED,
        "SLUB_MIGRATED" => SLUB_MIGRATED,
        "SLUB_MIGRATED_FREE_LATER" => SLUB_MIGRATED_FREE_LATER,
        "SLUB_SRCU_FAST" => 1,
        "SLUB_SRCU_LEFT" => 16,
    }
}

/// The places that the sequences of src/inline.rs have in their text.
#[test]
fn places_that_sequences_name() {
    same_in_c! { "places";
        "offsetof(struct slub_percpu_self, rseq)" => 8,
        "offsetof(struct slub_percpu_self, cid)" => 16,
        "offsetof(struct slub_percpu_self, map_base)" => 24,
        "offsetof(struct slub_percpu_self, map_pages)" => 32,
        "offsetof(struct slub_percpu_self, area)" => 40,
        "offsetof(struct slub_percpu_self, sections)" => 52,
        "offsetof(struct slub_cache, inline_slot)" => 4,
        "offsetof(struct slub_cache, free_slot)" => 24,
        "offsetof(struct slub_cache, entry)" => 56,
    }
}

#[test]
fn raw_calls() {
    let name = b"sys-raw\0";
    // SAFETY: the calls follow the C documentation.
    unsafe {
        let cache = slub_cache_create(name.as_ptr().cast(), 40, 8, 0, None);
        assert!(!cache.is_null());
        assert!(slub_cache_create(name.as_ptr().cast(), 40, 8, 0, None).is_null());
        assert_eq!(errno(), 17, "EEXIST");
        let object = slub_cache_zalloc(cache);
        assert!(!object.is_null());
        assert_eq!(slub_cache_of(object), cache);
        assert_eq!(slub_cache_size(cache), 40);
        assert_eq!(slub_cache_destroy(cache), -16, "EBUSY");
        slub_cache_free(cache, object);
        let mut objects = [std::ptr::null_mut(); 8];
        assert_eq!(slub_cache_alloc_bulk(cache, 0, 8, objects.as_mut_ptr()), 8);
        slub_cache_free_bulk(cache, 8, objects.as_mut_ptr());
        assert_eq!(slub_cache_destroy(cache), 0);
    }
}
