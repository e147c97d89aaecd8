/* SPDX-License-Identifier: MIT */
/*
 * inspect on a machine with three nodes: what is told of each, and what is added up.  The program
 * has core/os/numa.c and core/os/cpu.c of its own.
 */
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "slub.h"

#include <slub/slub.h>

static int wanted_node;

extern "C" {

uint32_t os_nr_nodes = 3;

uint32_t os_nodes_read(void)
{
	return 3;
}

uint32_t os_node_ask(void)
{
	return (uint32_t)wanted_node;
}

bool os_node_bind(void *, size_t, uint32_t)
{
	return true;
}

uint32_t os_cpus_possible(void)
{
	return (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
}

void os_cpus_read(struct os_cpus *cpus)
{
	cpus->possible = os_cpus_possible();
	cpus->allowed = cpus->possible;
}

uint32_t os_cpu_current(void)
{
	return (uint32_t)sched_getcpu();
}

void os_cpu_pin(void)
{
}

}

namespace {

/* Objects that were got on each node: more of the later ones. */
class nodes : public testing::Test {
protected:
	void SetUp() override
	{
		cache = slub_cache_create("of-nodes", 700, 0, SLUB_CACHE_NO_MERGE, nullptr);
		other = slub_cache_create("named-anew", 1300, 0, 0, nullptr);
		another = slub_cache_create("its-alias", 1300, 0, 0, nullptr);
		ASSERT_TRUE(cache && other && another);
		for (int n = 0; n < 3; n++) {
			wanted_node = n;
			for (size_t i = 0; i < ((size_t)n + 1) * 400; i++)
				objects.push_back(slub_cache_alloc(cache));
		}
		slab_shrink_all();
		for (int n = 0; n < 3; n++) {
			ASSERT_NE(cache->nodes[n], nullptr);
			sum += cache->nodes[n]->nr_slabs;
		}
	}
	void TearDown() override
	{
		wanted_node = 0;
		for (void *object : objects)
			slub_cache_free(cache, object);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		EXPECT_EQ(slub_cache_destroy(another), 0);
		EXPECT_EQ(slub_cache_destroy(other), 0);
	}
	struct slub_cache *cache, *other, *another;
	std::vector<void *> objects;
	uint64_t sum = 0;
};

TEST_F(nodes, a_record_has_each)
{
	union cache_record space = {};
	const char *names;

	ASSERT_EQ(slub_abi_state.nr_nodes, 3u);
	census_record(cache, 3, &space.record);
	for (int n = 0; n < 3; n++) {
		const struct cache_node *node = cache->nodes[n];
		const uint64_t *told = space.record.nodes[n];

		EXPECT_EQ(told[SLUB_ABI_NODE_NR_SLABS], node->nr_slabs);
		EXPECT_EQ(told[SLUB_ABI_NODE_NR_PARTIAL], node->nr_partial);
		EXPECT_EQ(told[SLUB_ABI_NODE_NR_OBJECTS], node->nr_objects);
		EXPECT_EQ(told[SLUB_ABI_NODE_NR_CARVED], node->nr_carved);
		EXPECT_EQ(told[SLUB_ABI_NODE_NR_SLABS_PEAK], node->nr_slabs_peak);
		EXPECT_GT(node->nr_slabs, 0u);
	}
	EXPECT_LT(cache->nodes[0]->nr_slabs, cache->nodes[2]->nr_slabs);
	names = (const char *)space.record.nodes[3];
	EXPECT_STREQ(names, "");
	if (other->users > 1) {
		union cache_record shared = {};

		census_record(other, 3, &shared.record);
		EXPECT_STREQ((const char *)shared.record.nodes[3], "its-alias");
	}
}

TEST_F(nodes, values_are_sums)
{
	struct slub_value value;

	ASSERT_EQ(slub_value_read("caches.of-nodes.node_slabs", &value), 0);
	EXPECT_EQ(value.number, sum);
	ASSERT_EQ(slub_value_read("caches.of-nodes.slabs", &value), 0);
	EXPECT_EQ(value.number, sum);
}

TEST_F(nodes, each_is_in_the_json)
{
	static char room[4 << 20];
	std::string expected = "\"nodes\": [";

	ASSERT_GT(slub_stats_json(room, sizeof(room)), 0);
	std::string text = room;
	for (int n = 0; n < 3; n++) {
		const struct cache_node *node = cache->nodes[n];

		expected += std::string(n ? ",\n" : "") + "{\"node\": " + std::to_string(n) +
			    ",\n\"node_slabs\": " + std::to_string(node->nr_slabs) +
			    ",\n\"node_partial\": " + std::to_string(node->nr_partial) +
			    ",\n\"node_objects\": " + std::to_string(node->nr_objects) +
			    ",\n\"node_carved\": " + std::to_string(node->nr_carved) +
			    ",\n\"node_slabs_peak\": " + std::to_string(node->nr_slabs_peak) + "}";
	}
	size_t at = text.find("\"name\": \"of-nodes\"");
	ASSERT_NE(at, text.npos);
	at = text.find("\"nodes\": [", at);
	EXPECT_EQ(text.substr(at, expected.size() + 1), expected + "]");
}

TEST_F(nodes, a_counted_heap_has_all)
{
	struct cache_census census;

	census_cache(cache, &census);
	EXPECT_EQ(census.slabs, sum);
	EXPECT_EQ(census.active, objects.size());
}

} /* namespace */
