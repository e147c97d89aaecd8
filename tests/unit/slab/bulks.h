/* SPDX-License-Identifier: MIT */
/* Many objects at once, and each step behind the inline path that they take. */
#ifndef SLUB_TESTS_UNIT_BULKS_H
#define SLUB_TESTS_UNIT_BULKS_H

#include <algorithm>

#include "says.h"
#include "typed.h"

extern "C" {
#include "features/misuse/misuse.h"
#include "features/guard/guard.h"
#include "features/profile/sample.h"
}

#include <slub/debug.h>
#include <slub/group.h>

/* Which way they took. */
struct seen {
	size_t nr_pops, nr_pushes, nr_frees, nr_fetches, nr_retired, nr_sampled;
	std::vector<uint32_t> pushed;
	int pushes_refused, fetches_refused;
	std::vector<std::pair<const void *, size_t>> written;
	std::vector<std::pair<uint32_t, uint32_t>> stored;	/* as it is told, as it is */
};
inline struct seen seen;

extern "C" {
uint32_t __real_percpu_pop_bulk(uint32_t, uintptr_t, void **, uint32_t);
bool __real_percpu_push_bulk(uint32_t, uintptr_t, void *, void **, uint32_t);
void __real_cache_free(struct slub_cache *, void *);
void *__real_chain_fetch(struct slub_cache *, struct cache_node *, uint32_t *);
void __real_chain_retire(struct slub_cache *, void *);
void __real_chain_store(struct slub_cache *, void *, uint32_t);
size_t __real_sample_bulk_guarded(struct slub_cache *, size_t, void **);

uint32_t __wrap_percpu_pop_bulk(uint32_t slot, uintptr_t link, void **objects, uint32_t nr)
{
	seen.nr_pops++;
	return __real_percpu_pop_bulk(slot, link, objects, nr);
}

bool __wrap_percpu_push_bulk(uint32_t slot, uintptr_t link, void *head, void **tail, uint32_t nr)
{
	seen.nr_pushes += nr > 1;	/* one with its check word behind comes here too */
	seen.pushed.push_back(nr);
	if (!seen.pushes_refused)
		return __real_percpu_push_bulk(slot, link, head, tail, nr);
	seen.pushes_refused--;
	return false;
}

void __wrap_cache_free(struct slub_cache *cache, void *object)
{
	seen.nr_frees++;
	__real_cache_free(cache, object);
}

void *__wrap_chain_fetch(struct slub_cache *cache, struct cache_node *node, uint32_t *nr)
{
	seen.nr_fetches++;
	if (!seen.fetches_refused)
		return __real_chain_fetch(cache, node, nr);
	seen.fetches_refused--;
	return nullptr;
}

void __wrap_chain_store(struct slub_cache *cache, void *chain, uint32_t nr)
{
	uint32_t length = 0;

	for (void *o = chain; o; o = link_next(cache, o))
		length++;
	seen.stored.emplace_back(nr, length);
	__real_chain_store(cache, chain, nr);
}

void __wrap_chain_retire(struct slub_cache *cache, void *chain)
{
	seen.nr_retired++;
	__real_chain_retire(cache, chain);
}

size_t __wrap_sample_bulk_guarded(struct slub_cache *cache, size_t nr, void **objects)
{
	seen.nr_sampled++;
	return __real_sample_bulk_guarded(cache, nr, objects);
}

void __wrap_sanitizer_tell_written(const void *start, size_t bytes)
{
	seen.written.emplace_back(start, bytes);
}
}

const struct sample_keeper keeper = {
	[](void *, size_t, double) {}, [](void *) {}, [] {},
};

struct bulk_paths : typed {
	void SetUp() override
	{
		static char ignore[] = "SLUB_ON_ERROR=ignore";
		char *environment[] = { ignore, nullptr };

		option_read(environment);
		typed::SetUp();
		if (IsSkipped())
			return;
		percpu_enter();
		cache = make("bulky", 64, SLUB_CACHE_NO_MERGE);
		paged = make("paged", 2 * PAGE_BYTES, SLUB_CACHE_NO_MERGE);
		seen = {};
	}
	void TearDown() override
	{
		if (!cache)
			return;
		end(cache);
		end(paged);
	}
	/* Past all lists, so that these are as they were. */
	std::vector<void *> get(size_t nr, struct slub_cache *from = nullptr)
	{
		std::vector<void *> all;

		from = from ? from : cache;
		for (size_t i = 0; i < nr; i++)
			all.push_back(slub_cache_alloc(from));
		EXPECT_TRUE(cache_flush(from));
		seen = {};
		return all;
	}
	struct slub_cache_stats stats(struct slub_cache *of = nullptr)
	{
		struct slub_cache_stats now;

		EXPECT_EQ(slub_cache_stats(of ? of : cache, &now), 0);
		return now;
	}
	size_t length(struct slub_cache *of)
	{
		size_t nr = 0;

		for (void *o = percpu_head(of->list_slot); o; o = link_next(of, o))
			nr++;
		return nr;
	}
	struct slub_cache *cache = nullptr, *paged;
};

#endif
