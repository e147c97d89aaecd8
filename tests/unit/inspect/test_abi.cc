/* SPDX-License-Identifier: MIT */
/* features/inspect/abi.h and state.c: other processes read this by offset, so nothing may move. */
#include <cerrno>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

#include "slub.h"
#include "start.h"
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
/* Since version 2; what follows stat_words, since version 3. */
static_assert(offsetof(struct slub_abi, self) == 120);
static_assert(offsetof(struct slub_abi, map) == 136);
static_assert(offsetof(struct slub_abi, descriptors) == 152);
static_assert(offsetof(struct slub_abi, descriptor_state) == 170);
static_assert(offsetof(struct slub_abi, base_table) == 176);
static_assert(offsetof(struct slub_abi, slot_bytes) == 208);
static_assert(offsetof(struct slub_abi, stat_words) == 224);
static_assert(offsetof(struct slub_abi, slot_owners) == 256);
static_assert(offsetof(struct slub_abi, cache_fields) == 280);
static_assert(offsetof(struct slub_abi, node_fields) == 408);
static_assert(offsetof(struct slub_abi, options) == 472);
static_assert(sizeof(struct slub_abi) >= 488, "fields are only ever appended");
static_assert(offsetof(struct slub_abi, guard) == 488);
static_assert(offsetof(struct slub_abi, stacks) == 496);
static_assert(offsetof(struct slub_abi, track_fields) == 552);
static_assert(offsetof(struct slub_abi, groups) == 584);
static_assert(offsetof(struct slub_abi, descriptor_owner) == 592);
static_assert(offsetof(struct slub_abi_groups, stocks) == 80);
static_assert(offsetof(struct slub_abi_groups, group_fields) == 96);
static_assert(offsetof(struct slub_abi_groups, owner_group) == 168);
static_assert(offsetof(struct slub_abi, limit) == 616);
static_assert(sizeof(struct slub_abi_alias) == 56);
static_assert(sizeof(struct slub_abi_option) == 256);
static_assert(offsetof(struct slub_stats_head, abi) == 464);
static_assert(offsetof(struct slub_stats_cache, fields) == 96);
static_assert(offsetof(struct slub_stats_cache, stats) == 352);
static_assert(offsetof(struct slub_stats_cache, nodes) == 608);
static_assert(offsetof(struct slub_stats_head, groups_offset) == 332);
static_assert(offsetof(struct slub_stats_group, fields) == 64);
static_assert(offsetof(struct slub_stats_group, stock_bytes) == 192);

uint64_t field(const void *from, struct slub_abi_field field)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)from + field.offset, field.bytes);
	return value;
}

TEST(abi, says_what_is)
{
	struct slub_abi *abi = &slub_abi_state;

	EXPECT_EQ(memcmp(abi->magic, "SLUBABI", 8), 0);
	EXPECT_EQ(abi->version, 6u);
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

/* What a reader finds by the offsets is what the library means. */
TEST(abi, leads_to_the_caches)
{
	struct slub_abi *abi = &slub_abi_state;
	void *ptr = malloc(600);
	struct slub_cache *cache = cache_of(ptr);

	EXPECT_EQ(abi->self, (uint64_t)(uintptr_t)abi);
	auto owners = (struct slub_cache **)abi->slot_owners;
	uint16_t entry = ((uint16_t *)abi->map)[((uintptr_t)ptr - abi->range_start) /
						abi->page_bytes];
	ASSERT_EQ(owners[entry / abi->slot_bytes], cache);
	ASSERT_LT(entry / abi->slot_bytes, abi->nr_slots);
	auto at = [&](enum slub_abi_cache_field f) { return field(cache, abi->cache_fields[f]); };
	EXPECT_STREQ((const char *)at(SLUB_ABI_CACHE_NAME), cache->name);
	EXPECT_EQ(at(SLUB_ABI_CACHE_SLOT), entry);
	EXPECT_EQ(at(SLUB_ABI_CACHE_LIST_SLOT), cache->list_slot);
	EXPECT_EQ(at(SLUB_ABI_CACHE_SIZE), cache->size);
	EXPECT_EQ(at(SLUB_ABI_CACHE_OBJECT_SIZE), cache->object_size);
	EXPECT_EQ(at(SLUB_ABI_CACHE_ORDER), cache->order);
	EXPECT_EQ(at(SLUB_ABI_CACHE_OBJECTS), cache->objects);
	EXPECT_EQ(at(SLUB_ABI_CACHE_CAPACITY), (uint64_t)cache->capacity);
	EXPECT_EQ(at(SLUB_ABI_CACHE_STATS), cache->stats);
	void *node = ((void **)((char *)cache + abi->cache_nodes))[0];
	ASSERT_EQ(node, cache->nodes[0]);
	EXPECT_EQ(field(node, abi->node_fields[SLUB_ABI_NODE_NR_SLABS]), cache->nodes[0]->nr_slabs);
	EXPECT_EQ(field(node, abi->node_fields[SLUB_ABI_NODE_NR_CARVED]),
		  cache->nodes[0]->nr_carved);
	free(ptr);
}

TEST(abi, leads_to_the_descriptors)
{
	struct slub_abi *abi = &slub_abi_state;

	EXPECT_EQ(abi->descriptors, (uintptr_t)page_of((void *)heap_start));
	EXPECT_EQ(abi->descriptor_stride, sizeof(struct page));
	for (size_t i = 0; i < 64; i++) {
		struct page *page = page_of((char *)heap_start + i * PAGE_BYTES);
		uintptr_t at = (uintptr_t)page + abi->descriptor_state;

		EXPECT_EQ((uintptr_t)page, abi->descriptors + i * abi->descriptor_stride);
		at = round_up(at, abi->descriptor_state_align);
		EXPECT_EQ(at, (uintptr_t)page_state(page));
	}
}

TEST(abi, tells_the_options)
{
	auto options = (struct slub_abi_option *)slub_abi_state.options;

	ASSERT_EQ(slub_abi_state.nr_options, (uint32_t)OPTION_NR);
	ASSERT_EQ(slub_abi_state.option_bytes, sizeof(*options));
	EXPECT_STREQ(options[OPTION_fastpath].name, "fastpath");
	EXPECT_EQ(options[OPTION_fastpath].kind, (uint32_t)SLUB_ABI_OPTION_ENUM);
	EXPECT_EQ(options[OPTION_retain].value, option_value(OPTION_retain));
	EXPECT_EQ(options[OPTION_retain].kind, (uint32_t)SLUB_ABI_OPTION_SIZE);
	EXPECT_EQ(options[OPTION_huge].given, (uint32_t)option_was_given(OPTION_huge));
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

/* As the kernel has them, without the ends of its lines. */
TEST(abi, a_statistics_file_has_the_names_of_its_process)
{
	char folder[] = "/tmp/slub-names-XXXXXX";

	ASSERT_NE(mkdtemp(folder), nullptr);
	std::string path = std::string(folder) + "/file";
	/* The longest has no room for its line's end. */
	ASSERT_EQ(prctl(PR_SET_NAME, "short"), 0);
	start::option("STATS_FILE=" + path);
	stats_file_open();
	struct slub_stats_head head = {};
	std::ifstream(path, std::ios::binary).read((char *)&head, sizeof(head));
	unlink(path.c_str());
	rmdir(folder);
	EXPECT_STREQ(head.name, "short");
	EXPECT_EQ(std::string(head.command).find(program_invocation_name), 0u);
}

} /* namespace */
