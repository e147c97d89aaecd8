/* SPDX-License-Identifier: MIT */
/* What the tests of the public interface share. */
#ifndef SLUB_TESTS_API_H
#define SLUB_TESTS_API_H

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <slub/cache.h>
#include <slub/rcu.h>

#include "harness.h"
#include "features/inspect/abi.h"

namespace api {

/* A cache for one test; its end fails the test if objects are left. */
struct cache {
	struct slub_cache *it;

	explicit cache(size_t size, size_t align = 0, unsigned long flags = 0,
		       void (*ctor)(void *) = nullptr)
		: it(slub_cache_create(name().c_str(), size, align, flags, ctor))
	{
		EXPECT_NE(it, nullptr) << strerror(errno);
	}
	explicit cache(struct slub_cache_args args)
	{
		std::string own = name();

		if (!args.name)
			args.name = own.c_str();
		it = slub_cache_create_args(&args);
		EXPECT_NE(it, nullptr) << strerror(errno);
	}
	cache(const cache &) = delete;
	~cache()
	{
		int ret = it ? slub_cache_destroy(it) : 0;

		EXPECT_EQ(ret, 0);
	}
	operator struct slub_cache *() const { return it; }
	/* A name that no other cache of this process has. */
	static std::string name()
	{
		static int nr;

		return "api-" + std::to_string(__atomic_add_fetch(&nr, 1, __ATOMIC_RELAXED));
	}
};

inline struct slub_cache_stats stats_of(struct slub_cache *cache)
{
	struct slub_cache_stats stats = {};

	EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
	return stats;
}

inline size_t count_objects(struct slub_cache *cache)
{
	size_t nr = 0;
	auto count = [](void *, void *arg) { return ++*static_cast<size_t *>(arg), 0; };

	EXPECT_EQ(slub_cache_for_each_object(cache, count, &nr), 0);
	return nr;
}

/* 1 rseq, 2 thread, 3 tid, 4 lock, as slub_abi_state says. */
inline unsigned backend()
{
	return static_cast<const struct slub_abi *>(dlsym(RTLD_DEFAULT, SLUB_ABI_SYMBOL))->backend;
}
enum { RSEQ = 1, THREAD, TID, LOCK };

/*
 * This program once more with --act NAME and the settings "VARIABLE=value" in its environment.
 * Returns waitpid's status; *errors gets what it wrote on stderr.
 */
inline int run_again(const std::vector<std::string> &settings, const char *name,
		     std::string *errors = nullptr, unsigned seconds = 240)
{
	return harness::in_child(
		[&] {
			for (const std::string &one : settings) {
				size_t at = one.find('=');

				setenv(one.substr(0, at).c_str(), one.c_str() + at + 1, 1);
			}
			execl("/proc/self/exe", "api", "--act", name, nullptr);
			_exit(126);
		},
		errors, seconds);
}

/* For act_instead(): the name behind --act, or NULL. */
inline const char *act_name(int argc, char **argv)
{
	return argc == 3 && strcmp(argv[1], "--act") == 0 ? argv[2] : nullptr;
}

/* How much of its work a test is to do: SLUB_TEST_SCALE, 1 by default. */
inline size_t scaled(size_t n)
{
	const char *scale = getenv("SLUB_TEST_SCALE");
	auto out = (size_t)((double)n * (scale ? atof(scale) : 1));

	return out ? out : 1;
}

} /* namespace api */

/* In processes that act: says what was wrong, and ends. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition,  \
				errno);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#endif
