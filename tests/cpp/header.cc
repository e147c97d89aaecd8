/* SPDX-License-Identifier: MIT */
/* Uses every template of the C++ interface once; compiled, not run. */
#include <list>
#include <memory_resource>
#include <vector>

#include <slub/slub.hpp>

struct item {
	long key;
	int value;
};

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

	slub::read_guard reading;
	slub::free_deferred(one.release());
	slub::deferred_barrier();
}
