/* SPDX-License-Identifier: MIT */
/* inspect/abi.h and state.c: other processes read this by offset, so nothing may move. */
#include <gtest/gtest.h>

#include "slub.h"
#include "slub/version.h"

extern "C" struct slub_abi slub_abi_state;

namespace {

static_assert(offsetof(struct slub_abi, magic) == 0);
static_assert(offsetof(struct slub_abi, version) == 8);
static_assert(offsetof(struct slub_abi, size) == 12);
static_assert(offsetof(struct slub_abi, ready) == 16);
static_assert(offsetof(struct slub_abi, backend) == 20);
static_assert(offsetof(struct slub_abi, cpu_number) == 24);
static_assert(offsetof(struct slub_abi, page_size) == 28);
static_assert(offsetof(struct slub_abi, layout) == 32);
static_assert(offsetof(struct slub_abi, smp) == 36);
static_assert(offsetof(struct slub_abi, nr_cpus_possible) == 40);
static_assert(offsetof(struct slub_abi, nr_cpus_allowed) == 44);
static_assert(offsetof(struct slub_abi, nr_cpus_quota) == 48);
static_assert(offsetof(struct slub_abi, nr_nodes) == 52);
static_assert(offsetof(struct slub_abi, membarrier) == 56);
static_assert(offsetof(struct slub_abi, huge) == 60);
static_assert(offsetof(struct slub_abi, range_start) == 64);
static_assert(offsetof(struct slub_abi, range_bytes) == 72);
static_assert(offsetof(struct slub_abi, heap_start) == 80);
static_assert(offsetof(struct slub_abi, heap_bytes) == 88);
static_assert(offsetof(struct slub_abi, retain_bytes) == 96);
static_assert(offsetof(struct slub_abi, library_version) == 104);
static_assert(sizeof(struct slub_abi) >= 120, "fields are only ever appended");

TEST(abi, says_what_is)
{
	struct slub_abi *abi = &slub_abi_state;

	EXPECT_EQ(memcmp(abi->magic, "SLUBABI", 8), 0);
	EXPECT_EQ(abi->version, 1u);
	EXPECT_EQ(abi->size, sizeof(*abi));
	EXPECT_EQ(abi->ready, 1u);
	EXPECT_EQ(abi->backend, (uint32_t)percpu_backend);
	EXPECT_GE(abi->backend, 1u);
	EXPECT_LE(abi->backend, 4u);
	EXPECT_EQ(abi->cpu_number, (uint32_t)percpu_cpu_number);
	EXPECT_EQ(abi->page_size, (uint32_t)sysconf(_SC_PAGESIZE));
	EXPECT_EQ(abi->layout, (uint32_t)SLUB_CONFIG_LAYOUT);
	EXPECT_EQ(abi->smp, (uint32_t)SLUB_CONFIG_SMP);
	EXPECT_GE(abi->nr_cpus_possible, abi->nr_cpus_allowed);
	EXPECT_GE(abi->nr_cpus_allowed, 1u);
	EXPECT_GE(abi->nr_nodes, 1u);
	EXPECT_EQ(abi->membarrier, (uint32_t)percpu_can_stop);
	EXPECT_EQ(abi->range_start, pagemap_base);
	EXPECT_EQ(abi->range_bytes, range_reserved_bytes);
	EXPECT_EQ(abi->heap_start, heap_start);
	EXPECT_EQ(abi->retain_bytes, option_value(OPTION_retain));
	EXPECT_STREQ(abi->library_version, SLUB_VERSION_STRING);
}

TEST(abi, follows_the_heap)
{
	EXPECT_EQ(slub_abi_state.heap_bytes, pagemap_committed());
	size_t before = slub_abi_state.heap_bytes;
	void *ptr = malloc(before + (64ul << 20));
	ASSERT_NE(ptr, nullptr);
	EXPECT_GT(slub_abi_state.heap_bytes, before);
	EXPECT_EQ(slub_abi_state.heap_bytes, pagemap_committed());
	/* A block lies within what a reader is told. */
	EXPECT_LE((uintptr_t)ptr + block_bytes(ptr),
		  slub_abi_state.heap_start + slub_abi_state.heap_bytes);
	free(ptr);
}

} /* namespace */
