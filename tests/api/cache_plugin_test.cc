/* SPDX-License-Identifier: MIT */
/*
 * Promise: plugins with caches that are variables are loaded and unloaded as often as one likes,
 * whether they destroy their caches or leave them, while other threads walk over all caches.
 */
#include <atomic>
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <thread>

#include "api.h"
#include <slub/slub.h>

namespace {

struct Plugin {
	void *handle;
	struct slub_cache *(*cache)();
	void *(*alloc)();
	void (*free)(void *);

	explicit Plugin(const char *name)
	{
		std::string path = harness::folder() + "/lib" + name + ".so";

		handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			ADD_FAILURE() << dlerror();
			abort();
		}
		cache = (struct slub_cache * (*)()) dlsym(handle, "plugin_cache");
		alloc = (void *(*)())dlsym(handle, "plugin_alloc");
		free = (void (*)(void *))dlsym(handle, "plugin_free");
	}
	~Plugin() { dlclose(handle); }
	Plugin(const Plugin &) = delete;

	/* One object and back; false: there was none. */
	bool works()
	{
		void *object = alloc();

		if (!object)
			return false;
		EXPECT_EQ(slub_cache_of(object), cache());
		EXPECT_STREQ(slub_cache_name(cache()), "plugin_things");
		free(object);
		return true;
	}
};

void walk_once()
{
	malloc_trim(0);
	mallinfo2();
	slub_shrink_all();
	slub_defrag_all(50);
}

/* More often than there was room for in the library's metadata. */
TEST(Plugin, DestroysItsCacheEachTime)
{
	const size_t loads = api::scaled(6000);
	size_t failed = 0, percpu = 0;

	for (size_t i = 0; i < loads && !failed; i++) {
		Plugin plugin("plugin_destroys");

		failed += !plugin.works();
		if (i == 1)
			percpu = slub_percpu_bytes();
	}
	EXPECT_EQ(failed, 0u) << strerror(errno);
	EXPECT_LE(slub_percpu_bytes(), percpu);
	api::cache mine(72);
	void *object = slub_cache_alloc(mine);
	EXPECT_NE(object, nullptr);
	slub_cache_free(mine, object);
}

TEST(Plugin, LeavesItsCacheEachTime)
{
	size_t percpu = 0;
	void *kept = nullptr;

	for (int i = 0; i < 300; i++) {
		Plugin plugin("plugin_leaves");

		ASSERT_TRUE(plugin.works()) << i << " " << strerror(errno);
		if (!kept)
			kept = plugin.alloc();
		walk_once();
		if (i == 1)
			percpu = slub_percpu_bytes();
	}
	walk_once();
	EXPECT_LE(slub_percpu_bytes(), percpu) << "it has its cache again";
	memset(kept, 1, 100);
	free(kept);
}

/* Where the variable was is nothing, or something else, and the new one lies elsewhere. */
TEST(Plugin, IsLoadedAtAnotherAddress)
{
	struct slub_cache *before;

	for (int protection : { PROT_NONE, PROT_READ | PROT_WRITE }) {
		void *place, *page;
		{
			Plugin plugin("plugin_leaves");

			ASSERT_TRUE(plugin.works());
			before = plugin.cache();
		}
		page = (void *)((uintptr_t)before & -4096ul);
		place = mmap(page, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_EQ(place, page);
		Plugin plugin("plugin_leaves");
		EXPECT_NE(plugin.cache(), before);
		EXPECT_TRUE(plugin.works()) << strerror(errno);
		walk_once();
		munmap(place, 4096);
	}
}

/* Objects of another size, and constructed ones: by no means those of the cache left. */
TEST(Plugin, IsAnotherOneNextTime)
{
	const char *const names[] = { "plugin_leaves", "plugin_larger", "plugin_constructs" };

	for (int i = 0; i < 9; i++) {
		Plugin plugin(names[i % 3]);
		void *object = plugin.alloc();

		ASSERT_NE(object, nullptr) << names[i % 3] << " " << strerror(errno);
		EXPECT_EQ(slub_cache_size(slub_cache_of(object)), i % 3 == 1 ? 200u : 100u);
		if (i % 3 == 2) {
			EXPECT_EQ(*(char *)object, 1);
		}
		memset(object, 7, slub_cache_size(plugin.cache()));
		plugin.free(object);
		walk_once();
	}
	{
		Plugin plugin("plugin_destroys");
		EXPECT_TRUE(plugin.works());
	}
	struct slub_cache *other = slub_cache_create("plugin_things", 64, 0, 0, nullptr);
	EXPECT_NE(other, nullptr) << "the name is free";
	EXPECT_EQ(slub_cache_destroy(other), 0);
}

/* Of a plugin that is there the name is not free. */
TEST(Plugin, KeepsItsNameWhileItIsLoaded)
{
	Plugin plugin("plugin_destroys");

	ASSERT_TRUE(plugin.works());
	Plugin other("plugin_larger");
	errno = 0;
	EXPECT_EQ(other.alloc(), nullptr);
	EXPECT_EQ(errno, EEXIST);
	EXPECT_EQ(slub_cache_create("plugin_things", 64, 0, 0, nullptr), nullptr);
}

TEST(Plugin, ComesAndGoesBesideWalkers)
{
	std::atomic<bool> stop{ false };
	std::vector<std::thread> walkers;
	size_t failed = 0;

	for (int t = 0; t < 3; t++) {
		walkers.emplace_back([&] {
			while (!stop)
				walk_once();
		});
	}
	for (size_t i = 0; i < api::scaled(300); i++) {
		Plugin plugin(i % 2 ? "plugin_destroys" : "plugin_leaves");

		failed += !plugin.works();
	}
	stop = true;
	for (auto &walker : walkers)
		walker.join();
	EXPECT_EQ(failed, 0u);
}

} /* namespace */
