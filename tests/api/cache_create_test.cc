/* SPDX-License-Identifier: MIT */
/* Promise: slub_cache_create() answers every kind of bad input as slub/cache.h says. */
#include "api.h"

namespace {

struct slub_cache_args good()
{
	struct slub_cache_args args = {};

	args.name = "good";
	args.size = 64;
	return args;
}

/* Refused with @err, and what is right is possible afterwards. */
void expect_refused(const struct slub_cache_args &args, int err, const char *what)
{
	errno = 0;
	EXPECT_EQ(slub_cache_create_args(&args), nullptr) << what;
	EXPECT_EQ(errno, err) << what;
	api::cache after(64);
	void *object = slub_cache_alloc(after);
	EXPECT_NE(object, nullptr) << what;
	slub_cache_free(after, object);
}

TEST(cache_create, refuses_bad_names)
{
	std::string longest(SLUB_CACHE_NAME_MAX, 'n'), longer = longest + 'n';
	const char *names[] = { nullptr, "", " ", "a b", "tab\t", "new\nline", "\x7f", "\xc3\xa4",
				longer.c_str() };

	for (const char *name : names) {
		auto args = good();
		args.name = name;
		expect_refused(args, EINVAL, name ? name : "NULL");
	}
	struct slub_cache *cache = slub_cache_create(longest.c_str(), 8, 0, 0, nullptr);
	ASSERT_NE(cache, nullptr);
	EXPECT_STREQ(slub_cache_name(cache), longest.c_str());
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST(cache_create, refuses_no_arguments)
{
	errno = 0;
	EXPECT_EQ(slub_cache_create_args(nullptr), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST(cache_create, refuses_bad_sizes)
{
	for (size_t size : { (size_t)0, SLUB_CACHE_SIZE_MAX + 1, (size_t)1 << 32,
			     ((size_t)1 << 32) + 64, SIZE_MAX / 2, SIZE_MAX - 7, SIZE_MAX }) {
		auto args = good();
		args.size = size;
		expect_refused(args, EINVAL, "size");
	}
}

TEST(cache_create, refuses_bad_alignments)
{
	for (size_t align : { (size_t)3, (size_t)6, (size_t)12, (size_t)100, (size_t)8192,
			      (size_t)1 << 32, (size_t)1 << 63, SIZE_MAX }) {
		auto args = good();
		args.align = align;
		expect_refused(args, EINVAL, "align");
	}
}

TEST(cache_create, refuses_unknown_flags)
{
	for (unsigned long flags : { 1ul << 6, 1ul << 7, 1ul << 14, 1ul << 31, 1ul << 32, 1ul << 40,
				     ~0ul & ~(unsigned long)SLUB_CACHE_PANIC }) {
		auto args = good();
		args.flags = flags;
		expect_refused(args, EINVAL, "flags");
	}
}

TEST(cache_create, refuses_offsets_outside_of_the_object)
{
	struct { size_t at; bool has; size_t useroffset, usersize; unsigned int sheaf; } bad[] = {
		{ 57, true, 0, 0, 0 },		/* ends behind the object */
		{ 64, true, 0, 0, 0 },
		{ 3, true, 0, 0, 0 },		/* not a word's place */
		{ SIZE_MAX - 7, true, 0, 0, 0 },
		{ 8, false, 0, 0, 0 },		/* given, and not meant */
		{ 0, false, 65, 0, 0 },
		{ 0, false, 0, 65, 0 },
		{ 0, false, 32, 33, 0 },
		{ 0, false, SIZE_MAX, 2, 0 },
		{ 0, false, 2, SIZE_MAX, 0 },
		{ 0, false, 0, 0, 4097 },
		{ 0, false, 0, 0, ~0u },
	};

	for (auto &one : bad) {
		auto args = good();
		args.free_pointer_offset = one.at;
		args.has_free_pointer_offset = one.has;
		args.useroffset = one.useroffset;
		args.usersize = one.usersize;
		args.sheaf_length = one.sheaf;
		expect_refused(args, EINVAL, "offsets");
	}
	auto tiny = good();
	tiny.size = 4;
	tiny.has_free_pointer_offset = true;
	expect_refused(tiny, EINVAL, "a word in four bytes");
}

TEST(cache_create, refuses_a_name_in_use)
{
	struct slub_cache *first = slub_cache_create("one-name", 64, 0, 0, nullptr);

	ASSERT_NE(first, nullptr);
	errno = 0;
	EXPECT_EQ(slub_cache_create("one-name", 64, 0, 0, nullptr), nullptr);
	EXPECT_EQ(errno, EEXIST);
	EXPECT_EQ(slub_cache_destroy(first), 0);
	first = slub_cache_create("one-name", 128, 0, 0, nullptr);
	ASSERT_NE(first, nullptr);
	EXPECT_EQ(slub_cache_destroy(first), 0);
}

TEST(cache_create, copies_the_name)
{
	char name[] = "of-the-stack";
	struct slub_cache *cache = slub_cache_create(name, 64, 0, 0, nullptr);

	ASSERT_NE(cache, nullptr);
	memset(name, 'x', sizeof(name) - 1);
	EXPECT_STREQ(slub_cache_name(cache), "of-the-stack");
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST(cache_create, takes_every_size_alignment_and_documented_flag)
{
	for (size_t size : { 1ul, 7ul, 8ul, 9ul, 63ul, 64ul, 65ul, 216ul, 1000ul, 4088ul, 4096ul,
			     4097ul, 10000ul, 32768ul, 100000ul, SLUB_CACHE_SIZE_MAX }) {
		for (size_t align = 1; align <= 4096; align *= 2) {
			api::cache cache(size, align);
			void *objects[5];

			EXPECT_EQ(slub_cache_size(cache), size);
			EXPECT_GE(slub_cache_stride(cache), size);
			for (size_t i = 0; i < 5; i++) {
				objects[i] = slub_cache_alloc(cache);
				ASSERT_NE(objects[i], nullptr);
				EXPECT_EQ((uintptr_t)objects[i] % align, 0u) << size;
				EXPECT_EQ((uintptr_t)objects[i] % 8, 0u) << size;
				harness::fill(objects[i], size, i);
			}
			for (size_t i = 0; i < 5; i++) {
				EXPECT_TRUE(harness::intact(objects[i], size, i)) << size;
				slub_cache_free(cache, objects[i]);
			}
		}
	}
	for (unsigned long flag : { SLUB_CACHE_HWCACHE_ALIGN, SLUB_CACHE_PANIC,
			SLUB_CACHE_TYPESAFE_BY_RCU,
				    SLUB_CACHE_ACCOUNT, SLUB_CACHE_RECLAIM_ACCOUNT,
						SLUB_CACHE_NO_MERGE }) {
		api::cache cache(100, 0, flag);
		void *object = slub_cache_alloc(cache);
		ASSERT_NE(object, nullptr);
		slub_cache_free(cache, object);
	}
}

TEST(cache_create, aligns_to_cache_lines_if_asked)
{
	struct { size_t size, align; } want[] = { { 8, 8 }, { 16, 16 }, { 17, 32 }, { 32, 32 },
						  { 33, 64 }, { 64, 64 }, { 65, 64 }, { 200, 64 } };

	for (auto &one : want) {
		api::cache cache(one.size, 0, SLUB_CACHE_HWCACHE_ALIGN);
		void *objects[40];

		for (void *&object : objects) {
			object = slub_cache_alloc(cache);
			EXPECT_EQ((uintptr_t)object % one.align, 0u) << one.size;
		}
		for (void *object : objects)
			slub_cache_free(cache, object);
	}
}

TEST(cache_create, panic_says_why_and_aborts)
{
	std::string errors;
	int status = harness::in_child(
		[] { slub_cache_create("panics", 0, 0, SLUB_CACHE_PANIC, nullptr); }, &errors);

	EXPECT_EQ(harness::describe_status(status).substr(0, 8), "signal 6") << errors;
	EXPECT_NE(errors.find("slub_cache_create(panics)"), errors.npos) << errors;
}

TEST(cache_create, answers_nospc_when_all_slots_are_taken)
{
	for (int round = 0; round < 2; round++) {
		std::vector<struct slub_cache *> caches;

		for (;;) {
			struct slub_cache *cache = slub_cache_create(api::cache::name().c_str(), 64,
								     0, 0, nullptr);
			if (!cache)
				break;
			caches.push_back(cache);
			ASSERT_LT(caches.size(), 20000u);
		}
		EXPECT_EQ(errno, ENOSPC);
		/* A guard takes a slot of each. */
		EXPECT_GT(caches.size(), getenv("SLUB_GUARD") ? 8000u : 15900u);
		/* Each of them works. */
		std::vector<void *> objects;
		for (struct slub_cache *cache : caches)
			objects.push_back(slub_cache_alloc(cache));
		for (size_t i = 0; i < caches.size(); i++) {
			EXPECT_EQ(slub_cache_of(objects[i]), caches[i]);
			slub_cache_free(caches[i], objects[i]);
			EXPECT_EQ(slub_cache_destroy(caches[i]), 0);
		}
	}
}

TEST(cache_create, says_what_would_be_right)
{
	std::string errors;
	int status = api::run_again({ "SLUB_VERBOSE=1" }, "bad-input", &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
	for (const char *part : { "name must have 1 to 47", "size must be 1 to 262144",
				  "power of two up to 4096", "unknown flag", "lie in the object",
				  "sheaf has 4096", "there is a cache of that name" })
		EXPECT_NE(errors.find(part), errors.npos) << part << "\n" << errors;
}

TEST(cache_create, is_silent_by_default)
{
	std::string errors;

	EXPECT_EQ(api::run_again({}, "bad-input", &errors), 0);
	EXPECT_EQ(errors, "");
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	struct slub_cache_args sheaf = {}, window = {};

	if (!api::act_name(argc, argv))
		return -1;
	sheaf.name = window.name = "x";
	sheaf.size = window.size = 64;
	sheaf.sheaf_length = 5000;
	window.usersize = 65;
	MUST(!slub_cache_create("", 64, 0, 0, nullptr));
	MUST(!slub_cache_create("x", 0, 0, 0, nullptr));
	MUST(!slub_cache_create("x", 64, 3, 0, nullptr));
	MUST(!slub_cache_create("x", 64, 0, 1 << 20, nullptr));
	MUST(!slub_cache_create_args(&window));
	MUST(!slub_cache_create_args(&sheaf));
	MUST(slub_cache_create("x", 64, 0, 0, nullptr));
	MUST(!slub_cache_create("x", 64, 0, 0, nullptr));
	return 0;
}
