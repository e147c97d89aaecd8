# SPDX-License-Identifier: MIT
"""Which functions share a page of section 3: those that somebody who uses one of them needs.

PAGE: what the page is about, and the first names of the further comments on it, in their order.  A
comment that stands in no family has a page of its own.
"""

FAMILIES = {
    "slub_malloc": ("allocate blocks", "slub_realloc slub_aligned_alloc slub_usable_size "
                    "slub_good_size"),
    "slub_bucket_create": ("make, empty and end buckets",
                           "slub_bucket_destroy slub_bucket_clear slub_bucket_destroy_all "
                           "slub_bucket_stats"),
    "slub_bucket_alloc": ("allocate from a bucket, and free",
                          "slub_bucket_aligned_alloc slub_bucket_realloc slub_bucket_free"),
    "slub_cache_create": ("make and end a cache of objects of one size",
                          "slub_cache_create_args slub_cache_destroy"),
    "slub_cache_alloc": ("allocate objects of a cache",
                         "slub_cache_alloc_flags slub_cache_alloc_bulk slub_cache_prefill"),
    "slub_cache_free": ("free objects", "slub_cache_free_bulk slub_free"),
    "slub_cache_of": ("find a cache, and what it is like",
                      "slub_cache_name slub_cache_find slub_cache_alias slub_cache_for_each"),
    "slub_cache_stats": ("counts and objects of a cache", "slub_cache_for_each_object"),
    "slub_cache_claim": ("what the inline functions of caches call",
                         "slub_cache_free_aborted slub_cache_alloc_owned"),
    "SLUB_CACHE_FLAGS": ("flags that are checked while the program is compiled",
                         "SLUB_REFUSE_BITS SLUB_CONSTANT_OR_0"),
    "slub_option_get": ("options of a running program", "slub_option_set"),
    "slub_value_read": ("numbers of the heap, by name", "slub_value_for_each slub_stats_json"),
    "slub_debug": ("watch caches", "slub_cache_debug"),
    "slub_cache_validate": ("look at watched objects now", "slub_validate_all slub_cache_errors"),
    "slub_cache_alloc_traces": ("where objects were allocated", "slub_leaks_write"),
    "slub_cache_setup_mobility": ("say how objects are moved", "slub_isolate_fn slub_migrate_fn"),
    "slub_cache_defrag": ("empty sparse slabs by moving objects",
                          "slub_defrag_all slub_object_is_sparse slub_object_move"),
    "slub_group_create": ("make, find and end groups",
                          "slub_group_root slub_group_destroy slub_group_for_each"),
    "slub_group_enter": ("the group that a thread works for", "slub_group_current"),
    "slub_group_limit_set": ("limits of a group, and who hears of them",
                             "slub_group_limit_get slub_group_handler_set"),
    "slub_group_stats": ("what a group holds", "slub_group_memory"),
    "slub_mempool_create": ("make, size and end pools",
                            "slub_mempool_create_slab slub_mempool_create_malloc "
                            "slub_mempool_destroy slub_mempool_resize slub_mempool_stats"),
    "slub_mempool_alloc": ("elements of a pool",
                           "slub_mempool_alloc_reserved slub_mempool_alloc_bulk "
                           "slub_mempool_free"),
    "slub_percpu_alloc": ("memory of each CPU",
                          "slub_percpu_free slub_percpu_ptr slub_percpu_cpus slub_percpu_next "
                          "slub_percpu_for_each slub_percpu_bytes"),
    "slub_percpu_add": ("words of each CPU",
                        "slub_percpu_fetch_add slub_percpu_cmpxchg slub_percpu_read "
                        "slub_percpu_sum"),
    "slub_percpu_push": ("lists of each CPU", "slub_percpu_pop slub_percpu_list_drain"),
    "slub_percpu_self": ("what the inline functions of per-CPU memory call",
                         "slub_percpu_may_run slub_percpu_entrance slub_percpu_try_add"),
    "slub_pressure_fd": ("react when memory is short",
                         "slub_pressure_handle slub_pressure_start_thread slub_pressure_stats"),
    "slub_profile_start": ("sample allocations", "slub_profile_stop slub_profile_write"),
    "slub_qmempool_create": ("queued pools of objects", "slub_qmempool_destroy "
                             "slub_qmempool_alloc slub_qmempool_free"),
    "slub_free_deferred": ("free when every present reader has left",
                           "slub_deferred_barrier slub_deferred_pending"),
    "slub_reserve_set": ("memory kept aside", "slub_reserve_bytes slub_reserve_enter"),
    "slub_shrinker_create": ("announce a shrinker, and end it",
                             "SLUB_SHRINKER_INIT slub_shrinker_destroy slub_shrinker_mark "
                             "slub_shrinker_for_each"),
    "slub_shrink": ("ask shrinkers", "slub_shrink_all"),
    "slub_srcu_create": ("make and end domains of readers", "slub_srcu_destroy"),
    "slub_srcu_synchronize": ("wait for readers", "slub_srcu_start_poll slub_srcu_poll"),
    "slub_srcu_read_lock": ("sections of a reader",
                            "slub_srcu_read_unlock slub_srcu_entered slub_rcu_domain "
                            "slub_read_lock"),
}

# What is read alone, in haste: the call that gives back, where another page is named for the one
# that takes.  man finds every other name by the index of the NAME sections.
LINKS = ("slub_cache_destroy", "slub_cache_free_bulk", "slub_cache_alloc_bulk", "slub_free",
         "slub_calloc", "slub_realloc", "slub_bucket_free", "slub_bucket_destroy",
         "slub_group_destroy", "slub_group_leave", "slub_mempool_destroy", "slub_mempool_free",
         "slub_percpu_free", "slub_percpu_sum", "slub_read_lock", "slub_shrinker_destroy")
