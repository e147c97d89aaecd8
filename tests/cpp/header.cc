/* SPDX-License-Identifier: MIT */
/* Uses every template of the C++ interface once; compiled, not run. */
#include <list>
#include <memory_resource>
#include <vector>

#include <slub/jemalloc.h>
#include <slub/slub.h>
#include <slub/slub.hpp>

struct item {
	long key;
	int value;
};

/* The macros of C. */
SLUB_CACHE_DEFINE_STATIC(items_of_c, item, SLUB_CACHE_HWCACHE_ALIGN, nullptr);
static slub_srcu domain_of_c = SLUB_SRCU_INIT;

void use_macros();
void use_macros()
{
	slub_prefill prefill = SLUB_PREFILL_INIT;
	void *object = slub_cache_alloc(&items_of_c);

	slub_cache_free(&items_of_c, object);
	object = slub_cache_alloc_flags(&items_of_c, SLUB_ALLOC_ZERO | SLUB_ALLOC_RESERVE);
	slub_cache_prefill(&items_of_c, &prefill, SLUB_CACHE_SIZE_MAX % SLUB_MEMPOOL_NR_MAX);
	slub_srcu_read_unlock(&domain_of_c, slub_srcu_read_lock(&domain_of_c));
	slub_profile_start(SLUB_PROFILE_BYTES_DEFAULT + SLUB_PROFILE_BYTES_MAX);
	slub_group_limit_set(nullptr, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
	slub_percpu_for_each(cpu)
		slub_percpu_add(slub_percpu_alloc(8, 8), static_cast<int64_t>(cpu));
	slub_free(mallocx(100, MALLOCX_ALIGN(64) | MALLOCX_ZERO | MALLOCX_ARENA(1u)));
	slub_free(mallocx(SLUB_SHRINK_EMPTY & SLUB_SHRINK_STOP, MALLOCX_TCACHE_NONE));
}

void use_header();
void use_header()
{
	slub::cache<item> cache("header");
	auto one = cache.make_unique(1, 2);
	item *two = cache.try_make(3, 4);

	cache.destroy(two);
	cache.shrink();
	cache.close();

	slub::percpu<unsigned int> small;
	slub::percpu<item> counted;
	++small;
	small -= 2;
	counted.add(&item::value, 3);
	counted.add(&item::key, small.sum());
	counted.for_each([](int, const item &) {});

	std::list<item, slub::allocator<item>> items(3);
	slub::memory_resource memory;
	std::pmr::vector<item> more(3, &memory);

	struct {
		bool isolate(item *) noexcept { return false; }
		bool migrate(item *, void *) noexcept { return false; }
	} mover;
	cache.set_mover(mover);
	cache.defrag(50);
	cache.pin();

	slub::group group("header");
	group.set_limit(SLUB_GROUP_MAX, group.stats().usage + (1 << 20));
	slub::group_guard inside(group);
	slub::shrinker shrinker("header", [] { return std::size_t(0); },
				[](std::size_t) { return SLUB_SHRINK_STOP; });

	slub::bucket bucket("header");
	slub::memory_resource of_bucket(bucket);
	bucket.deallocate(bucket.allocate(bucket.stats().live_bytes + 1, 64));
	slub::pool<item> pool("header", 2);
	auto waited = pool.wait_unique(1, 2);
	pool.destroy(pool.make(3, 4));
	slub::profile profile;
	slub::set_reserve(slub::reserve_bytes());
	slub::reserve_guard right;
	slub::srcu domain;
	slub::srcu_guard section(domain);
	slub::for_each_cache([](slub_cache *) { return 0; });
	slub::for_each_value([](const char *, const slub_value &) { return 0; });
	static_cast<void>(slub::values());

	slub::read_guard reading;
	slub::free_deferred(one.release());
	slub::deferred_barrier();
}
