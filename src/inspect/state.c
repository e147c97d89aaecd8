/* SPDX-License-Identifier: MIT */
/* The description of the library's state for other processes; see abi.h. */
#include "inspect/inspect.h"

#include "slub/version.h"

SLUB_EXPORT struct slub_abi slub_abi_state = {
	.magic = SLUB_ABI_MAGIC,
	.version = SLUB_ABI_VERSION,
	.size = sizeof(struct slub_abi),
	.layout = SLUB_CONFIG_LAYOUT,
	.smp = SLUB_CONFIG_SMP,
	.library_version = SLUB_VERSION_STRING,
};

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
	       (int)HUGE_ALWAYS == SLUB_ABI_HUGE_ALWAYS, "huge");

void abi_update(void)
{
	slub_abi_state.membarrier = percpu_can_stop;
}

void abi_publish(const struct os_cpus *cpus, uint32_t nr_nodes)
{
	struct slub_abi *abi = &slub_abi_state;

	abi->backend = percpu_backend;
	abi->cpu_number = percpu_cpu_number;
	abi->page_size = (uint32_t)os_page_size();
	abi->nr_cpus_possible = cpus->possible;
	abi->nr_cpus_allowed = cpus->allowed;
	abi->nr_cpus_quota = cpus->quota;
	abi->nr_nodes = nr_nodes;
	abi->huge = (uint32_t)option_value(OPTION_huge);
	abi->range_start = pagemap_base;
	abi->range_bytes = range_reserved_bytes;
	abi->heap_start = heap_start;
	abi->retain_bytes = option_value(OPTION_retain);
	pagemap_publish(&abi->heap_bytes);
	abi_update();
	/* release: a reader that sees ready sees the rest */
	__atomic_store_n(&abi->ready, 1, __ATOMIC_RELEASE);
}
