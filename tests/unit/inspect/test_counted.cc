/* SPDX-License-Identifier: MIT */
/*
 * features/inspect/census.c, stats_json.c and value.c: what is counted of a heap is what a walk
 * in this test finds, and what is told of it is what was counted.
 */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <gtest/gtest.h>
#include <map>
#include <sys/prctl.h>
#include <vector>

#include "harness.h"
#include "lists.h"
#include "slub.h"
#include "start.h"

#include <slub/slub.h>

namespace {

/* ---- the walk ---- */

struct slab {
	struct slub_cache *cache;
	size_t active, carved;
	bool is_frozen;

	size_t active_bytes() const
	{
		return active ? std::min(round_up(carved * cache->size, PAGE_BYTES),
					 PAGE_BYTES << cache->order) : 0;
	}
};

void note(struct slub_cache *cache, struct page *page, void *arg)
{
	auto slabs = (std::vector<slab> *)arg;
	uint64_t word = page_state(page)->second;

	/* There is room: a walk may not allocate. */
	if (slabs->size() < slabs->capacity())
		slabs->push_back({ cache, (size_t)(word & 0x3fffffff), page->count,
				   (bool)(word >> 63) });
}

std::vector<slab> walk()
{
	std::vector<slab> slabs;

	slabs.reserve(20000);
	slab_for_each(note, &slabs);
	EXPECT_LT(slabs.size(), slabs.capacity());
	return slabs;
}

struct cache_census sum_of(const std::vector<slab> &slabs, const struct slub_cache *cache)
{
	struct cache_census sum = {};

	for (const slab &one : slabs) {
		if (one.cache != cache)
			continue;
		sum.slabs++;
		sum.objects += cache->objects;
		sum.carved += one.carved;
		sum.active += one.active;
		sum.active_bytes += one.active_bytes();
		sum.empty += one.active == 0;
		sum.carving += one.is_frozen;
		if (one.active && one.active < cache->objects) {
			sum.partial++;
			sum.partial_active += one.active;
		}
	}
	return sum;
}

/* Full slabs, one that is partly used, and one without an object. */
struct population {
	struct slub_cache *cache;
	std::vector<void *> objects;
	const char *name;

	population(const char *called, uint32_t size) : name(called)
	{
		cache = slub_cache_create(called, size, 0, SLUB_CACHE_NO_MERGE, nullptr);
		objects.resize(5 * cache->objects);
		for (void *&object : objects)
			object = slub_cache_alloc(cache);
		slab_shrink_all();
		/* Of the third part of each. */
		for (size_t i = 0; i < objects.size(); i += 3) {
			slub_cache_free(cache, objects[i]);
			objects[i] = nullptr;
		}
	}
	~population()
	{
		for (void *object : objects)
			slub_cache_free(cache, object);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
};

class counted : public testing::Test {
protected:
	void SetUp() override
	{
		if (!start::can_empty_lists())
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	}
};

TEST_F(counted, each_cache)
{
	population some("some", 96), more("more", 1200);

	for (bool is_shrunk : { false, true }) {
		if (is_shrunk)
			slab_shrink_all();
		auto slabs = walk();

		for (const struct population *of : { &some, &more }) {
			struct cache_census expected = sum_of(slabs, of->cache), census;

			memset(&census, 0xff, sizeof(census));
			census_cache(of->cache, &census);
			EXPECT_EQ(memcmp(&census, &expected, sizeof(census)), 0) << of->name;
			EXPECT_GT(census.active, 0u);
			EXPECT_TRUE(!is_shrunk || census.partial > 0);
		}
	}
}

TEST_F(counted, the_heap)
{
	population some("some", 96), more("more", 1200);
	void *large[] = { malloc(1 << 20), malloc(5 << 20), malloc(100000) };
	size_t slab_bytes = 0, objects = 0, object_bytes = 0, rest = 0, rest_bytes = 0, blocks = 0;
	size_t cached = 0, cached_bytes = 0, active_bytes = 0;
	struct heap_census heap;
	auto slabs = walk();

	memset(&heap, 0xff, sizeof(heap));
	for (const slab &one : slabs) {
		slab_bytes += PAGE_BYTES << one.cache->order;
		active_bytes += one.active_bytes();
		objects += one.active;
		object_bytes += one.active * one.cache->size;
		rest += one.cache->objects - one.active;
		rest_bytes += (one.cache->objects - one.active) * one.cache->size;
	}
	for (size_t i = 0; i < CENSUS_SLOTS; i++) {
		const struct slub_cache *cache = census_cache_at(i);

		cached += cache ? cache_nr_cached(cache) : 0;
		cached_bytes += cache ? cache_nr_cached(cache) * cache->size : 0;
	}
	census_heap(&heap);
	for (uintptr_t at = heap_start; at < heap_start + pagemap_committed(); at += PAGE_BYTES)
		blocks += pagemap_get((void *)at) == MAP_LARGE;
	EXPECT_EQ(heap.slab_bytes, slab_bytes);
	EXPECT_EQ(heap.active_bytes, active_bytes);
	EXPECT_LT(active_bytes, slab_bytes);
	EXPECT_EQ(heap.objects, objects);
	EXPECT_EQ(heap.object_bytes, object_bytes);
	EXPECT_EQ(heap.free, rest);
	EXPECT_EQ(heap.free_bytes, rest_bytes);
	EXPECT_EQ(heap.cached, cached);
	EXPECT_EQ(heap.cached_bytes, cached_bytes);
	EXPECT_GT(cached, 0u);
	EXPECT_EQ(heap.large_blocks, blocks);
	EXPECT_GE(blocks, 3u);
	EXPECT_EQ(heap.large_bytes, large_nr_pages() * PAGE_BYTES);
	EXPECT_EQ(heap.dirty_bytes, page_nr_dirty() * PAGE_BYTES);
	EXPECT_EQ(heap.refused_bytes, page_nr_stuck() * PAGE_BYTES);
	EXPECT_EQ(heap.moved_runs, run_nr_moved());
	EXPECT_EQ(heap.committed_bytes, pagemap_committed());
	EXPECT_EQ(heap.deferred_objects, 0u);
	for (void *block : large)
		free(block);
}

TEST_F(counted, what_is_deferred)
{
	struct heap_census heap;
	struct deferred_numbers numbers;

	int slot = slub_read_lock();
	slub_free_deferred(malloc(5000));
	census_heap(&heap);
	deferred_count(&numbers);
	EXPECT_EQ(heap.deferred_objects, 1u);
	EXPECT_EQ(heap.deferred_bytes, numbers.bytes);
	EXPECT_GE(numbers.bytes, 5000u);
	slub_read_unlock(slot);
}

int sum_up(const struct slub_cache *cache, const char *name, const struct cache_census *census,
	   void *arg)
{
	struct cache_census one;

	census_cache(cache, &one);
	EXPECT_EQ(memcmp(&one, census, sizeof(one)), 0) << name;
	EXPECT_STREQ(name, cache->name);
	return ++*(int *)arg == 4 ? 99 : 0;
}

TEST_F(counted, until_somebody_has_enough)
{
	int nr = 0;
	void *held[] = { malloc(10), malloc(100), malloc(1000), malloc(10000), malloc(30) };

	EXPECT_EQ(census_each(sum_up, &nr), 99);
	EXPECT_EQ(nr, 4);
	EXPECT_EQ(census_each(sum_up, &nr), 0);
	EXPECT_GT(nr, 4);
	for (void *block : held)
		free(block);
}

TEST(field, of_each_width)
{
	const unsigned char bytes[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
	uint64_t words[2];

	memcpy(words, bytes, sizeof(words));
	EXPECT_EQ(field_get(words, { 1, 1 }), 2u);
	EXPECT_EQ(field_get(words, { 2, 2 }), 0x0403u);
	EXPECT_EQ(field_get(words, { 4, 4 }), 0x08070605u);
	EXPECT_EQ(field_get(words, { 8, 8 }), 0x100f0e0d0c0b0a09u);
	EXPECT_EQ(field_get(words, { 8, 0 }), 0u);
	EXPECT_EQ(field_get(words, { 8, 3 }), 0u);
}

TEST(slack, of_what_is_used)
{
	struct cache_census census = {};
	struct slub_stats_cache record = {};

	census.active = 100;
	record.cached = 20;
	EXPECT_EQ(slack_bytes(&census, &record), 0u);
	record.fields[SLUB_ABI_CACHE_SLACK] = 3 * 256 + 1;
	EXPECT_EQ(slack_bytes(&census, &record), 240u);
	record.cached = 100;
	EXPECT_EQ(slack_bytes(&census, &record), 0u);
	record.cached = 1000;
	EXPECT_EQ(slack_bytes(&census, &record), 0u);
}

/* ---- values ---- */

uint64_t value_of(const char *cache, const char *name)
{
	std::string whole = std::string("caches.") + cache + "." + name;
	struct slub_value value = { ~0ull, 9, 9 };

	EXPECT_EQ(slub_value_read(whole.c_str(), &value), 0) << whole;
	return value.number;
}

TEST_F(counted, values_of_a_cache)
{
	population some("some", 96);
	struct slub_cache *cache = some.cache;
	union cache_record space = {};
	const uint64_t *stats = space.record.stats;
	struct cache_census census;
	struct slub_value value;

	auto is = [](const char *name, uint64_t number) {
		EXPECT_EQ(value_of("some", name), number) << name;
	};
	slab_shrink_all();
	census_cache(cache, &census);
	census_record(cache, slub_abi_state.nr_nodes, &space.record);
	is("slabs", census.slabs);
	is("partial", census.partial);
	is("empty", census.empty);
	is("cpu_slabs", census.carving);
	is("total_objects", census.objects);
	is("objects", census.active);
	is("objects_cached", cache_nr_cached(cache));
	is("objects_carved", census.carved);
	is("objects_partial", census.partial_active);
	is("bytes", census.slabs * (PAGE_BYTES << cache->order));
	is("aliases", 0);
	is("slab_size", cache->size);
	is("object_size", cache->object_size);
	is("order", cache->order);
	is("node_slabs", cache->nodes[0]->nr_slabs);
	is("node_carved", cache->nodes[0]->nr_carved);
	is("alloc_slowpath", stats[SLUB_ABI_STAT_ALLOC_REFILL] + stats[SLUB_ABI_STAT_ALLOC_DIRECT]);
	is("sheaf_alloc", stats[SLUB_ABI_STAT_ALLOC_REFILL] -
			  stats[SLUB_ABI_STAT_ALLOC_REFILL_FAIL]);
	is("objects_out", stats[SLUB_ABI_STAT_OBJECTS_OUT]);
	EXPECT_EQ(slub_value_read("caches.some.order_fallback", &value), -ENOENT);
	EXPECT_GT(stats[SLUB_ABI_STAT_ALLOC_REFILL], 0u);
}

/* ---- JSON ---- */

std::string json()
{
	static char room[4 << 20];
	long bytes = slub_stats_json(room, sizeof(room));

	EXPECT_GT(bytes, 0);
	EXPECT_EQ((size_t)bytes, strlen(room));
	return room;
}

/* The text behind @name, behind @from; up to the end of the line. */
std::string member(const std::string &text, const std::string &name, size_t from = 0)
{
	std::string key = "\"" + name + "\": ";
	size_t at = text.find(key, from);

	EXPECT_NE(at, text.npos) << name;
	at += key.size();
	return text.substr(at, text.find_first_of(",\n}]", at) - at);
}

TEST(stats_json, identity)
{
	struct timespec before, after;
	static const char *const backends[] = { "none", "rseq", "thread", "tid", "lock" };

	ASSERT_EQ(prctl(PR_SET_NAME, "a\"b\\c\x01\x7f~ \xc3\xa4"), 0);
	clock_gettime(CLOCK_REALTIME, &before);
	std::string text = json();
	clock_gettime(CLOCK_REALTIME, &after);
	EXPECT_EQ(text.find("{\"kind\": \"stats\",\n\"schema\": 1,\n\"pid\": " +
			    std::to_string(getpid()) +
			    ",\n\"name\": \"a\\\"b\\\\c??~ ??\",\n\"exited\": false,\n"
			    "\"version\": \"" SLUB_VERSION_STRING "\",\n\"backend\": \"" +
			    backends[percpu_backend] + "\",\n\"time\": "), 0u)
		<< text.substr(0, 300);
	double time = std::stod(member(text, "time"));
	EXPECT_GE(time, (double)before.tv_sec + (double)before.tv_nsec / 1e9 - 0.001);
	EXPECT_LE(time, (double)after.tv_sec + (double)after.tv_nsec / 1e9 + 0.001);
	char start[64];
	uint64_t ms = (slub_abi_state.start_ns + 500000) / 1000000;
	snprintf(start, sizeof(start), "%lu.%03lu", ms / 1000, ms % 1000);
	EXPECT_EQ(member(text, "start_time"), start);
	EXPECT_EQ(text.substr(text.size() - 4), "}]}\n");
	prctl(PR_SET_NAME, "counted");
}

/* As much as there is room for, with its end; the rest is counted. */
TEST(stats_json, what_has_no_room)
{
	std::string whole = json();
	std::vector<char> room(whole.size() + 10);
	size_t head = whole.find("\"time\"");

	EXPECT_EQ(slub_stats_json(nullptr, 1), -EINVAL);
	for (size_t size = 1; size < head; size++) {
		double all = (double)slub_stats_json(nullptr, 0);

		room.assign(room.size(), '#');
		/* Counters have more digits now and then. */
		EXPECT_NEAR((double)slub_stats_json(room.data(), size), all, 16);
		EXPECT_EQ(std::string(room.data()), whole.substr(0, size - 1));
		EXPECT_EQ(room[size], '#') << size;
	}
}

TEST(stats_json, of_a_cache)
{
	struct slub_cache *cache = slub_cache_create("of-json", 64, 0, 0, nullptr);
	struct slub_cache *other = slub_cache_create("its-alias", 64, 0, 0, nullptr);
	std::vector<void *> objects(5000);

	ASSERT_TRUE(cache && other);
	for (void *&object : objects)
		object = slub_cache_alloc(cache);
	for (size_t i = 0; i < objects.size(); i++) {
		slub_cache_free(cache, objects[i]);
		objects[i] = i % 3 ? slub_cache_alloc(cache) : nullptr;
	}
	std::string text = json();
	size_t at = text.find("{\"name\": \"of-json\",\n\"alias_names\": [");
	ASSERT_NE(at, text.npos);
	std::string one = text.substr(at, text.find("\"torn\": false}", at) - at);
	if (other == cache || cache->users > 1) {
		EXPECT_NE(one.find("\"alias_names\": [\"its-alias\"],\n"), one.npos) << one;
	}
	for (const char *name : { "slab_size", "objs_per_slab", "slabs", "objects", "bytes",
				  "objects_out", "alloc_refill", "node_slabs", "sheaf_capacity" })
		EXPECT_EQ(member(one, name), std::to_string(value_of("of-json", name))) << name;
	EXPECT_EQ(member(one, "ctor"), "0");
	EXPECT_EQ(member(one, "ctor_name"), "null");
	EXPECT_EQ(member(one, "node"), "0");
	EXPECT_EQ(member(one, "sanity_checks"), "false");
	uint64_t lists = value_of("of-json", "alloc_from_spare") + value_of("of-json", "barn_get");
	uint64_t slow = lists + value_of("of-json", "alloc_refill");
	uint64_t all = value_of("of-json", "objects_out") +
		       lists * value_of("of-json", "sheaf_capacity_now");
	uint64_t share = slow && all > slow ? ((all - slow) * 100000 + all / 2) / all : 0;
	char told[32];
	snprintf(told, sizeof(told), "%lu.%03lu", share / 1000, share % 1000);
	EXPECT_EQ(member(one, "fast_percent_min"), told);
	EXPECT_GT(share, 0u);
	for (void *object : objects)
		slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(other), 0);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

} /* namespace */
