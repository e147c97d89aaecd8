/* SPDX-License-Identifier: MIT */
/* core/slab/cache.c: the geometry of slabs and the table from slot to cache. */
#include <algorithm>
#include <gtest/gtest.h>

#include "lists.h"
#include "start.h"

namespace {

/* The sizes that malloc has, and many that it has not. */
std::vector<uint32_t> sizes()
{
	std::vector<uint32_t> list;

	for (uint32_t size = 16; size <= 128; size += 16)
		list.push_back(size);
	for (uint32_t power = 128; power < 32768; power *= 2)
		for (uint32_t step = 1; step <= 8; step++)
			list.push_back(power + step * power / 8);
	for (uint32_t size = 144; size <= 32768; size += 208)
		list.push_back(size);
	list.push_back(33008);
	return list;
}

class cache : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		if (!all.empty())
			return;
		start::slab(256ul << 20, 16ul << 20);
		/* CPUs share the budget. */
		percpu_area_make(5);
		for (uint32_t size : sizes()) {
			auto *one = new struct slub_cache();

			ASSERT_EQ(cache_create(one, "one", size), 0) << size;
			all.push_back(one);
		}
	}
	static std::vector<struct slub_cache *> all;
};

std::vector<struct slub_cache *> cache::all;

TEST_F(cache, geometry_of_every_size)
{
	for (struct slub_cache *c : all) {
		size_t bytes = PAGE_BYTES << c->order;

		SCOPED_TRACE("size " + std::to_string(c->size));
		EXPECT_LE(c->order, (uint32_t)BLOCK_ORDER_MAX);
		EXPECT_EQ(c->objects, bytes / c->size);
		EXPECT_GE(c->objects, c->size < PAGE_BYTES ? 16u : 8u);
		EXPECT_LE(bytes - (size_t)c->objects * c->size, bytes / 8) << "lost at the end";
		EXPECT_EQ(c->object_size, c->size);
	}
}

TEST_F(cache, links_lie_in_the_table_of_pages_from_a_page_on)
{
	for (struct slub_cache *c : all) {
		EXPECT_EQ(c->link, c->size >= PAGE_BYTES ? page_link_bias : 0) << c->size;
		/* Two objects on one page would have one link. */
		if (c->link) {
			EXPECT_GE(c->size, PAGE_BYTES);
		}
	}
}

TEST_F(cache, lists_are_short_at_first_and_bounded)
{
	for (struct slub_cache *c : all) {
		SCOPED_TRACE("size " + std::to_string(c->size));
		EXPECT_EQ(c->capacity, 2048);
		EXPECT_GE(c->capacity_now, 2);
		EXPECT_LE((size_t)c->capacity_now * c->size,
			  std::max<size_t>(64ul << 10, 2ul * c->size));
		EXPECT_GE(c->carve_batch, 1u);
		EXPECT_LE(c->carve_batch, (uint32_t)c->capacity);
		EXPECT_GE(c->min_partial, 1u);
	}
}

/* Until nothing changes any more. */
void grow(struct slub_cache *c)
{
	int32_t before;

	do {
		before = c->capacity_now;
		capacity_grow(c);
		EXPECT_LE(c->capacity_now, before + before / 4 + 1);
	} while (c->capacity_now > before);
}

/* One size has a part of what a CPU may hold; the CPUs in use share the budget. */
TEST_F(cache, lists_grow_to_a_share_of_the_budget)
{
	for (struct slub_cache *c : all) {
		SCOPED_TRACE("size " + std::to_string(c->size));
		size_t most = start::list_most_bytes() / c->size;
		int32_t first = c->capacity_now;

		grow(c);
		EXPECT_LE((size_t)c->capacity_now, std::max<size_t>(std::min<size_t>(most, 2048),
								   (size_t)first));
		EXPECT_GE((size_t)c->capacity_now * 5 / 4 + 1,
			  std::min<size_t>(most, 2048)) << "no further step has room";
		capacity_set(c, first);
		capacity_forget(c);
	}
}

/*
 * In the lists of 128 CPUs lie 32 MiB while few threads go from one to the other, and 1 MiB each
 * where as many run.
 */
TEST_F(cache, lists_of_few_threads_are_short_on_many_cpus)
{
	struct slub_cache *c = *std::find_if(all.begin(), all.end(), [](struct slub_cache *one) {
		return one->size >= 512;
	});
	const uint32_t end = percpu_areas.end, threads = percpu_nr_threads;
	const int32_t first = c->capacity_now;
	size_t bytes[2];

	for (uint32_t many = 0; many < 2; many++) {
		percpu_areas.end = 128;
		percpu_nr_threads = many ? 1000 : 4;
		grow(c);
		bytes[many] = (size_t)c->capacity_now * c->size;
		percpu_areas.end = end;
		percpu_nr_threads = threads;
		capacity_set(c, first);
		capacity_forget(c);
	}
	EXPECT_LE(128 * 8 * bytes[0], 32ul << 20);
	EXPECT_GE(bytes[1] * 5 / 4 + c->size, (1ul << 20) / 8);
}

size_t in_full_lists(const std::vector<struct slub_cache *> &caches)
{
	size_t bytes = 0;

	for (struct slub_cache *c : caches)
		bytes += c->list_bytes ? 2ul * (size_t)c->capacity_now * c->size : 0;
	return bytes;
}

/* Those of all sizes together hold what a CPU may, and who is wanted takes from who rests. */
TEST_F(cache, lists_of_a_cpu_have_a_budget)
{
	std::vector<struct slub_cache *> some;
	std::vector<int32_t> first;

	for (struct slub_cache *c : all) {
		if (c->size > 2048)
			continue;
		some.push_back(c);
		first.push_back(c->capacity_now);
	}
	for (int i = 0; i < 200; i++) {
		for (struct slub_cache *c : some)
			capacity_grow(c);
	}
	EXPECT_LE(in_full_lists(some), start::cpu_bytes());
	EXPECT_GT(in_full_lists(some), start::cpu_bytes() / 4 * 3);

	struct slub_cache *wanted = some.back();
	auto most = (int32_t)(start::list_most_bytes() / wanted->size);
	size_t others = in_full_lists(some);

	ASSERT_LT(wanted->capacity_now, most / 2) << "it had no room";
	others -= 2ul * (size_t)wanted->capacity_now * wanted->size;
	for (int i = 0; i < 20000; i++)
		capacity_grow(wanted);
	EXPECT_GE(wanted->capacity_now * 5 / 4 + 1, most);
	EXPECT_LE(in_full_lists(some), start::cpu_bytes());
	EXPECT_LT(in_full_lists(some) - 2ul * (size_t)wanted->capacity_now * wanted->size, others);
	for (size_t i = 0; i < some.size(); i++) {
		EXPECT_GE(some[i]->capacity_now, std::min(3, first[i])) << some[i]->size;
		capacity_set(some[i], first[i]);
		capacity_forget(some[i]);
	}
	EXPECT_EQ(in_full_lists(some), 0u);
}

TEST_F(cache, slots_are_of_one_cache)
{
	std::vector<int> owners(SLOT_NUMBERS);

	for (struct slub_cache *c : all) {
		EXPECT_GE(c->slot, (uint32_t)MAP_SPECIAL_END);
		if (slot_is_far(c->list_slot)) {
			EXPECT_EQ(owners[slot_number(c->slot)]++, 0);
			EXPECT_EQ(slot_entry(c->list_slot), c->slot);
			EXPECT_EQ(cache_of_slot(c->slot), c);
			EXPECT_EQ(cache_of_slot(c->list_slot), c);
			continue;
		}
		EXPECT_EQ(c->slot % SLOT_BYTES, 0u);
		EXPECT_EQ(c->list_slot, c->slot + (c->link ? SLOT_BYTES : 0));
		for (uint32_t s = c->slot; s <= c->list_slot; s += SLOT_BYTES) {
			EXPECT_EQ(owners[s / SLOT_BYTES]++, 0);
			EXPECT_EQ(cache_of_slot(s), c);
			EXPECT_FALSE(block_owns_slot(s));
		}
	}
	EXPECT_EQ(cache_of_slot(0), nullptr);
	EXPECT_EQ(cache_of_slot(MAP_LARGE), nullptr);
	EXPECT_EQ(cache_of_slot(AREA_BYTES - SLOT_BYTES), nullptr);
	EXPECT_EQ(cache_of_slot(AREA_BYTES - 1), nullptr);
}

TEST_F(cache, all_are_on_the_list)
{
	size_t n = 0;

	for (struct slub_cache *c = cache_first(); c; c = c->next)
		n++;
	EXPECT_EQ(n, all.size());
	EXPECT_EQ(cache_first(), all.back());
}

/* Aligned to the largest power of two that divides the size, up to a page. */
TEST_F(cache, objects_are_found_and_aligned)
{
	for (struct slub_cache *c : all) {
		size_t align = std::min<size_t>(c->size & -c->size, PAGE_BYTES);
		auto *object = (char *)cache_alloc(c);
		auto *other = (char *)cache_alloc(c);

		ASSERT_NE(object, nullptr);
		EXPECT_EQ((uintptr_t)object % align, 0u) << c->size;
		EXPECT_GE((size_t)std::abs(object - other), c->size);
		EXPECT_EQ(cache_of(object), c);
		EXPECT_EQ(cache_of(object + c->size - 1), c);
		EXPECT_EQ(pagemap_get(object), c->slot);
		memset(object, 1, c->size);
		cache_free(c, object);
		cache_free(c, other);
	}
	int on_stack;
	EXPECT_EQ(cache_of(&on_stack), nullptr);
	EXPECT_EQ(cache_of(nullptr), nullptr);
	EXPECT_EQ(cache_of((char *)heap_start + pagemap_committed()), nullptr);
}

/* Last: it uses up what there is. */
TEST_F(cache, out_of_slots_is_an_error)
{
	static struct slub_cache more[SLOT_NUMBERS];
	struct slub_cache *first;
	size_t n = 0;
	int err;

	do {
		first = cache_first();
		err = cache_create(&more[n], "more", 16);
	} while (err == 0 && ++n < std::size(more));
	EXPECT_EQ(err, -ENOSPC);
	EXPECT_GT(n, 16000u);
	EXPECT_EQ(cache_first(), first) << "what failed is not on the list";
	void *object = cache_alloc(all[0]);
	EXPECT_NE(object, nullptr) << "what was there works";
	cache_free(all[0], object);
}

} /* namespace */
