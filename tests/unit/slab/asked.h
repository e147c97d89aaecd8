/* SPDX-License-Identifier: MIT */
/* A cache of what is asked for, or the words that say why there is none. */
#ifndef SLUB_TESTS_UNIT_ASKED_H
#define SLUB_TESTS_UNIT_ASKED_H

#include "says.h"
#include "typed.h"

inline void construct(void *) {}

struct create_args : typed {
	void SetUp() override
	{
		typed::SetUp();
		args.name = "asked";
		args.size = 64;
		args.flags = SLUB_CACHE_NO_MERGE;
	}
	void TearDown() override { set("SLUB_MERGE=0"); }
	static void set(const char *assignment)
	{
		static std::vector<std::string *> kept;
		char *environment[2] = {};

		kept.push_back(new std::string(assignment));
		environment[0] = kept.back()->data();
		option_read(environment);
	}
	struct slub_cache *of() { return slub_cache_create_args(&args); }
	void expect_refused(const std::string &what)
	{
		std::string name = args.name ? args.name : "NULL";

		for (char &c : name)
			c = c < ' ' || c > '~' ? '?' : c;
		EXPECT_EQ(said([&] {
			errno = 0;
			EXPECT_EQ(of(), nullptr);
			EXPECT_EQ(errno, EINVAL);
		}), "slub_cache_create(" + name + "): " + what + "\n");
	}
	void expect_made()
	{
		struct slub_cache *cache = nullptr;

		EXPECT_EQ(said([&] { cache = of(); }), "");
		ASSERT_NE(cache, nullptr);
		void *p = slub_cache_alloc(cache);
		EXPECT_NE(p, nullptr);
		slub_cache_free(cache, p);
		end(cache);
	}

	struct slub_cache_args args = {};
};

#endif
