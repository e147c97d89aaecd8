/* SPDX-License-Identifier: MIT */
/*
 * Callbacks that throw, compiled as C++14: from C++17 on the compiler refuses those that may.  Each
 * function makes the library call one, and would catch what it throws.
 */
#include <slub/defrag.h>
#include <slub/group.h>

#include <stdexcept>
#include <vector>

#include "throws.h"

namespace {

size_t throws(slub_shrinker *, slub_shrink_control *)
{
	throw std::runtime_error("a callback that throws");
}

size_t some(slub_shrinker *, slub_shrink_control *) { return 1000; }

bool handler_throws(slub_group *, size_t, void *)
{
	throw std::runtime_error("a handler that throws");
}

void isolate_throws(slub_cache *, void **, size_t, void *)
{
	throw std::runtime_error("isolate throws");
}

void isolate_all(slub_cache *, void **, size_t, void *) {}

int migrate_throws(slub_cache *, void *, void *, void *)
{
	throw std::runtime_error("migrate throws");
}

void shrink(slub_shrinker_fn *count, slub_shrinker_fn *scan)
{
	slub_shrinker shrinker = {};

	shrinker.count = count;
	shrinker.scan = scan;
	shrinker.seeks = SLUB_SHRINKER_SEEKS;
	slub_shrinker_create(&shrinker);
	try {
		slub_shrink(0);
	} catch (const std::runtime_error &) {
	}
}

void defrag(slub_isolate_fn *isolate, slub_migrate_fn *migrate)
{
	slub_cache *cache = slub_cache_create("throws", 256, 0, 0, nullptr);
	std::vector<void *> objects(1000);

	for (void *&object : objects)
		object = slub_cache_alloc(cache);
	for (size_t i = 0; i < objects.size(); i++) {
		if (i % 10)
			slub_cache_free(cache, objects[i]);
	}
	slub_cache_setup_mobility(cache, isolate, migrate, nullptr);
	try {
		slub_cache_defrag(cache, 100);
	} catch (const std::runtime_error &) {
	}
}

int visit_throws(slub_shrinker *, void *)
{
	throw std::runtime_error("a visitor that throws");
}

} /* namespace */

void count_throws() { shrink(throws, some); }
void scan_throws() { shrink(some, throws); }
void isolate_throws() { defrag(isolate_throws, migrate_throws); }
void migrate_throws() { defrag(isolate_all, migrate_throws); }

void visitor_throws()
{
	slub_shrinker shrinker = {};

	shrinker.count = shrinker.scan = some;
	slub_shrinker_create(&shrinker);
	try {
		slub_shrinker_for_each(visit_throws, nullptr);
	} catch (const std::runtime_error &) {
	}
}

void handler_throws()
{
	slub_group *group = slub_group_create("throws", nullptr);

	slub_group_limit_set(group, SLUB_GROUP_MAX, 1000);
	slub_group_handler_set(group, handler_throws, nullptr);
	try {
		slub_group_charge(group, 2000);
	} catch (const std::runtime_error &) {
	}
}
