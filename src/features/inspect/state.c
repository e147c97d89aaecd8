/* SPDX-License-Identifier: MIT */
/* The description of the library's state for other processes; see abi.h. */
#include "features/inspect/inspect.h"
#include "features/rcu/rcu.h"

#include <time.h>

#include "features/debug/debug.h"
#include "features/misuse/misuse.h"
#include "core/percpu/percpu_internal.h"
#include "core/slab/local.h"
#include "features/guard/guard.h"
#include "core/slab/slab_internal.h"
#include "features/watch/watch.h"
#include "slub/version.h"

/* Of a descriptor, up to its alignment. */
#define STATE_AT 16
#define NO_WORD 0xff

SLUB_EXPORT struct slub_abi slub_abi_state = {
	.magic = SLUB_ABI_MAGIC,
	.version = SLUB_ABI_VERSION,
	.size = sizeof(struct slub_abi),
	.layout = SLUB_CONFIG_LAYOUT,
	.smp = SLUB_CONFIG_SMP,
	.library_version = SLUB_VERSION_STRING,
	.map_stride = sizeof(uint16_t),
	.page_bytes = PAGE_BYTES,
	.descriptor_stride = sizeof(struct page),
	.descriptor_flags = offsetof(struct page, flags),
	.descriptor_count = offsetof(struct page, count),
	.descriptor_holes = offsetof(struct page, holes),
	.descriptor_state = STATE_AT,
	.descriptor_state_align = SLUB_CONFIG_LAYOUT == 2 ? 8 : 16,
	.nr_areas = AREAS_MAX,
	.area_bytes = AREA_BYTES,
	.slot_bytes = SLOT_BYTES,
	.slot_head = SLOT_HEAD,
	.slot_room = SLOT_ROOM,
	.slot_spare_head = SLOT_SPARE + SLOT_HEAD,
	.barn_oldest = offsetof(struct barn, oldest),
	.barn_newest = offsetof(struct barn, newest),
	.barn_chains = offsetof(struct barn, chains),
	.nr_slots = SLOT_NUMBERS_NEAR,
	.far_entry = AREA_NEAR_BYTES,
	.nr_far_slots = FAR_SLOTS,
	.cache_bytes = sizeof(struct slub_cache),
	.cache_nodes = offsetof(struct slub_cache, nodes),
	.node_bytes = sizeof(struct cache_node),
	.cache_fields = {
#define CACHE_FIELD(field, member) FIELD(slub_cache, member),
#include "features/inspect/field.def"
	},
	.node_fields = {
#define NODE_FIELD(field, member) FIELD(cache_node, member),
#include "features/inspect/field.def"
	},
	.book = (uintptr_t)&profile_book,
	.heap_start_place = (uintptr_t)&heap_start,
	.misuse = (uintptr_t)&misuse_last,
	.nr_options = OPTION_NR,
	.option_bytes = sizeof(struct slub_abi_option),
	.stack_unit = STACK_UNIT,
	.stack_nr = offsetof(struct stack_record, nr),
	.stack_frames = offsetof(struct stack_record, frames),
	.watch_bytes = offsetof(struct watch, bugs) + sizeof(uint64_t),
	.track_bytes = sizeof(struct track),
	.watch_fields = {
		[SLUB_ABI_WATCH_LEFT] = FIELD(debug_layout, left),
		[SLUB_ABI_WATCH_TRACK] = FIELD(debug_layout, track),
		[SLUB_ABI_WATCH_REQUESTED] = FIELD(debug_layout, size),
		[SLUB_ABI_WATCH_OWNER] = FIELD(debug_layout, owner),
		[SLUB_ABI_WATCH_BUGS] = FIELD(watch, bugs),
	},
	.track_fields = {
		[SLUB_ABI_TRACK_CALLER] = FIELD(track, caller),
		[SLUB_ABI_TRACK_WHEN] = FIELD(track, when_ns),
		[SLUB_ABI_TRACK_STACK] = FIELD(track, stack),
		[SLUB_ABI_TRACK_THREAD] = FIELD(track, thread),
		[SLUB_ABI_TRACK_CPU] = FIELD(track, cpu),
		[SLUB_ABI_TRACK_IS_FREED] = FIELD(track, is_freed),
	},
#if SLUB_CONFIG_LAYOUT == 1
	.descriptor_owner = STATE_AT,
#else
	.descriptor_owner = offsetof(struct page, owner),
#endif
};

/* Each number once, and none left out. */
_Static_assert((0
#define COUNTED(number, stat, name, meaning) | 1ull << number
#include "core/slab/stat.def"
	       ) == (1ull << STAT_NR) - 1 && (int)STAT_NR <= SLUB_ABI_STATS, "counts");

_Static_assert(KEPT_SHARE == SLUB_ABI_KEPT_SHARE &&
		       KEPT_MAX == SLUB_ABI_KEPT_MAX &&
		       SLOT_SPARE + SLUB_ABI_SPARE_NR == AREA_LIVE &&
		       SLOT_SPARE + SLUB_ABI_SPARE_LIMIT == SLOT_LIMIT,
	       "what a list keeps");
_Static_assert(ROOM_SHORT == SLUB_ABI_ROOM_SHORT &&
		       LOCAL_FOREIGN == SLUB_ABI_LOCAL_FOREIGN &&
		       LOCAL_ROOM_MASK == SLUB_ABI_LOCAL_ROOM &&
		       LOCAL_HEAD_SHIFT == SLUB_ABI_LOCAL_HEAD_SHIFT &&
		       LOCAL_HEAD_MASK == SLUB_ABI_LOCAL_HEAD &&
		       LOCAL_UNIT_SHIFT == SLUB_ABI_LOCAL_UNIT_SHIFT,
	       "local lists");
_Static_assert(BARN_CHAINS == SLUB_ABI_BARN_CHAINS &&
		       BARN_ENTRY_SHIFT == SLUB_ABI_BARN_SHIFT,
	       "what a reader knows of barns");
_Static_assert((int)BACKEND_RSEQ == SLUB_ABI_BACKEND_RSEQ &&
	       (int)BACKEND_THREAD == SLUB_ABI_BACKEND_THREAD &&
	       (int)BACKEND_TID == SLUB_ABI_BACKEND_TID &&
	       (int)BACKEND_LOCK == SLUB_ABI_BACKEND_LOCK, "backends");
_Static_assert((int)CPU_NUMBER_MM_CID == SLUB_ABI_CPU_MM_CID &&
	       (int)CPU_NUMBER_CPU_ID == SLUB_ABI_CPU_CPU_ID &&
	       (int)CPU_NUMBER_THREAD == SLUB_ABI_CPU_THREAD &&
	       (int)CPU_NUMBER_GETCPU == SLUB_ABI_CPU_GETCPU, "CPU numbers");
_Static_assert((int)HUGE_NEVER == SLUB_ABI_HUGE_NEVER &&
	       (int)HUGE_BLOCK == SLUB_ABI_HUGE_BLOCK &&
	       (int)HUGE_ALWAYS == SLUB_ABI_HUGE_ALWAYS &&
	       (int)HUGE_AUTO == SLUB_ABI_HUGE_AUTO, "huge");
_Static_assert((int)MAP_NONE == SLUB_ABI_MAP_NONE &&
	       (int)MAP_LARGE == SLUB_ABI_MAP_LARGE &&
	       (int)MAP_SPECIAL_END == SLUB_ABI_MAP_SPECIAL_END, "map");
_Static_assert((int)TYPE_FREE == SLUB_ABI_PAGE_FREE &&
	       (int)TYPE_SLAB == SLUB_ABI_PAGE_SLAB &&
	       (int)TYPE_LARGE == SLUB_ABI_PAGE_LARGE &&
	       PAGE_DIRTY == SLUB_ABI_PAGE_DIRTY &&
	       PAGE_RUN == SLUB_ABI_PAGE_RUN, "descriptors");

_Static_assert((int)SLUB_CACHE_HWCACHE_ALIGN == SLUB_ABI_FLAG_HWCACHE_ALIGN &&
	       (int)SLUB_CACHE_TYPESAFE_BY_RCU == SLUB_ABI_FLAG_TYPESAFE_BY_RCU &&
	       (int)SLUB_CACHE_ACCOUNT == SLUB_ABI_FLAG_ACCOUNT &&
	       (int)SLUB_CACHE_RECLAIM_ACCOUNT == SLUB_ABI_FLAG_RECLAIM_ACCOUNT,
	       "flags");

static uint64_t clock_real_ns(void)
{
	struct timespec now = { 0 };

	/* Once in a process: the vDSO's page and the C library's would be two faults. */
	if (!os_is_filtered)
		sys_call4(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0, 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

usual void abi_update(void)
{
	/* In a forked child a write would be a page fault. */
	if (slub_abi_state.membarrier != percpu_can_stop)
		slub_abi_state.membarrier = percpu_can_stop;
	if (slub_abi_state.ready)
		stats_file_after_fork();
}

static void describe_system(struct slub_abi *abi, const struct os_cpus *cpus,
			    uint32_t nr_nodes)
{
	abi->backend = percpu_backend;
	abi->cpu_number = percpu_cpu_number;
	abi->page_size = (uint32_t)os_page_size();
	abi->nr_cpus_possible = cpus->possible;
	abi->nr_cpus_allowed = cpus->allowed;
	abi->nr_nodes = nr_nodes;
	abi->huge = (uint32_t)option_value(OPTION_huge);
	abi->retain_bytes = option_value(OPTION_retain);
}

static usual void describe_refusals(struct slub_abi *abi)
{
	struct page_places places = page_places();

	abi->refused_superblocks = (uintptr_t)places.stuck_superblocks;
	abi->refused_pages = (uintptr_t)places.stuck_pages;
	abi->refused_stride = (uint32_t)places.stuck_stride;
	abi->moved_runs = (uintptr_t)places.moved;
}

usual void abi_publish(const struct os_cpus *cpus, uint32_t nr_nodes)
{
	struct slub_abi *abi = &slub_abi_state;
	const struct deferred_numbers *deferred;

	describe_system(abi, cpus, nr_nodes);
	abi->range_start = pagemap_base;
	abi->range_bytes = range_reserved_bytes;
	abi->heap_start = heap_start;
	pagemap_publish(&abi->heap_bytes);
	abi->self = (uintptr_t)abi;
	abi->guard = (uintptr_t)guard_pools;
	abi->deferred_added = deferred_counts(&deferred);
	abi->deferred = abi->deferred_added ? (uintptr_t)deferred : 0;
	abi->limit = (uintptr_t)page_limit_place();
	describe_refusals(abi);
	abi->start_ns = clock_real_ns();
	abi->map = pagemap_base;
	abi->descriptors = (uintptr_t)page_of((void *)heap_start);
	abi->base_table = (uintptr_t)slub_cpu_base;
	abi->dummy_area = (uintptr_t)slub_dummy_base[0];
	abi->shared_area = (uintptr_t)percpu_shared_area();
	if (percpu_backend == BACKEND_TID)
		abi->slot_room = SLOT_SPARE + SLOT_ROOM;
	for (int i = 0; i < SLUB_ABI_STATS; i++)
		abi->stat_words[i] = i < STAT_NR ? (uint8_t)i : NO_WORD;
	abi->slot_owners = (uintptr_t)cache_slot_owner;
	abi->far_owners = (uintptr_t)&cache_slot_owner[SLOT_NUMBERS_NEAR];
	if (SLUB_CONFIG_HARDENED)	/* there links are encoded */
		abi->cache_fields[SLUB_ABI_CACHE_LINK] = (struct slub_abi_field){ 0, 0 };
	abi->stacks = (uintptr_t)&stack_store_made;
	groups_describe(abi);
	options_publish();
	abi->options = (uintptr_t)slub_abi_options;
	abi_update();
	/* release: a reader that sees ready sees the rest */
	__atomic_store_n(&abi->ready, 1, __ATOMIC_RELEASE);
	stats_file_open();
}
