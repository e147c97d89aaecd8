/* SPDX-License-Identifier: MIT */
/*
 * features/typed: create.c, shape.c, alias.c, find.c: what can be asked for, what a cache becomes
 * by it, who shares one, and what is said where that cannot be.
 */
#include <algorithm>
#include <csignal>

#include "asked.h"

#include <slub/debug.h>
#include <slub/group.h>
#include <slub/rcu.h>

namespace {

int metas_refused, publish_answer;	/* the next so many; 0: the library's */

} /* namespace */

extern "C" {
void *__real_meta_alloc(size_t);
int __real_cache_publish(struct slub_cache *, uint32_t);

void *__wrap_meta_alloc(size_t bytes)
{
	if (!metas_refused)
		return __real_meta_alloc(bytes);
	metas_refused--;
	return nullptr;
}

int __wrap_cache_publish(struct slub_cache *cache, uint32_t length)
{
	return publish_answer ? publish_answer : __real_cache_publish(cache, length);
}
}

namespace {

/* ---- what is asked for ---- */

TEST_F(create_args, names)
{
	const char *what = "the name must have 1 to 47 printable characters without blanks";
	std::string longest(47, 'n'), longer(48, 'n');

	for (const char *name : { (const char *)nullptr, "", "a b", "a\tb", "\x7f",
				  longer.c_str() }) {
		args.name = name;
		expect_refused(what);
	}
	for (const char *name : { "x", "!~", longest.c_str() }) {
		args.name = name;
		expect_made();
	}
	EXPECT_EQ(said([] { EXPECT_EQ(slub_cache_create_args(nullptr), nullptr); }),
		  "slub_cache_create(NULL): " + std::string(what) + "\n");
}

TEST_F(create_args, sizes_and_alignments)
{
	for (size_t size : { (size_t)0, ((size_t)256 << 10) + 1, SIZE_MAX }) {
		args.size = size;
		expect_refused("the size must be 1 to 262144 bytes");
	}
	for (size_t size : { (size_t)1, (size_t)256 << 10 }) {
		args.size = size;
		expect_made();
	}
	args.size = 64;
	for (size_t align : { 3, 24, 8192, 4097 }) {
		args.align = align;
		expect_refused("the alignment must be a power of two up to 4096, or 0");
	}
	for (size_t align : { 0, 1, 2, 4096 }) {
		args.align = align;
		expect_made();
	}
	args.align = 0;
	for (unsigned long flag : { 1ul << 6, 1ul << 7, 1ul << 14, 1ul << 40 }) {
		args.flags = flag;
		expect_refused("unknown flag");
	}
	args.flags = SLUB_CACHE_NO_MERGE;
	args.sheaf_length = 4097;
	expect_refused("a sheaf has 4096 objects at the most");
	args.sheaf_length = 4096;
	expect_made();
}

TEST_F(create_args, offsets)
{
	const char *what = "free pointer and user window must lie in the object, the free pointer "
			   "at a multiple of 8 below 4096";
	const struct {
		size_t size, useroffset, usersize;
		bool has_pointer;
		size_t pointer;
		bool is_right;
	} all[] = {
		{ 64, 64, 0, false, 0, true }, { 64, 65, 0, false, 0, false },
		{ 64, 60, 4, false, 0, true }, { 64, 60, 5, false, 0, false },
		{ 64, 0, 64, false, 0, true }, { 64, 0, 65, false, 0, false },
		{ 64, 0, 0, false, 8, false }, { 64, 0, 0, true, 0, true },
		{ 64, 0, 0, true, 56, true }, { 64, 0, 0, true, 57, false },
		{ 64, 0, 0, true, 64, false }, { 64, 0, 0, true, 12, false },
		{ 8, 0, 0, true, 0, true }, { 7, 0, 0, true, 0, false },
		{ 6000, 0, 0, true, 4088, true }, { 6000, 0, 0, true, 4096, false },
	};

	for (auto &each : all) {
		args.size = each.size;
		args.useroffset = each.useroffset;
		args.usersize = each.usersize;
		args.has_free_pointer_offset = each.has_pointer;
		args.free_pointer_offset = each.pointer;
		SCOPED_TRACE(&each - all);
		if (each.is_right)
			expect_made();
		else
			expect_refused(what);
	}
}

/* ---- what it becomes ---- */

TEST_F(create_args, shapes)
{
	const unsigned long rcu = SLUB_CACHE_TYPESAFE_BY_RCU, line = SLUB_CACHE_HWCACHE_ALIGN;
	const size_t in_page = page_link_bias;
	const size_t behind_64 = KEYS ? 80 : 72;	/* link, and check word */
	const struct {
		size_t size, align;
		unsigned long flags;
		bool has_ctor;
		size_t is_align, is_size, link;
	} all[] = {
		{ 1, 0, 0, false, 8, 16, 0 }, { 9, 0, 0, false, 8, 16, 0 },
		{ 64, 4, 0, false, 8, 64, 0 }, { 60, 32, 0, false, 32, 64, 0 },
		{ 1, 0, line, false, 8, 16, 0 }, { 8, 0, line, false, 8, 16, 0 },
		{ 9, 0, line, false, 16, 16, 0 }, { 16, 0, line, false, 16, 16, 0 },
		{ 17, 0, line, false, 32, 32, 0 }, { 32, 0, line, false, 32, 32, 0 },
		{ 33, 0, line, false, 64, 64, 0 }, { 65, 0, line, false, 64, 128, 0 },
		{ 33, 128, line, false, 128, 128, 0 }, { 64, 0, 0, true, 8, behind_64, 64 },
		{ 60, 0, 0, true, 8, behind_64, 64 }, { 64, 0, rcu, false, 8, behind_64, 64 },
		{ 64, 64, rcu, false, 64, 128, 64 }, { 4088, 0, 0, true, 8, 4096, in_page },
		{ 4080, 0, 0, true, 8, 4088, 4080 }, { 4089, 0, 0, true, 8, 4096, in_page },
		{ 4096, 0, 0, false, 8, 4096, in_page }, { 4088, 0, 0, false, 8, 4088, 0 },
		{ 5000, 64, rcu, false, 64, 5056, in_page },
	};

	for (auto &each : all) {
		args.size = each.size;
		args.align = each.align;
		args.flags = each.flags | SLUB_CACHE_NO_MERGE;
		args.ctor = each.has_ctor ? construct : nullptr;
		struct slub_cache *cache = of();
		SCOPED_TRACE(each.size);
		ASSERT_NE(cache, nullptr);
		EXPECT_EQ(cache->align, each.is_align);
		EXPECT_EQ(slub_cache_stride(cache), each.is_size);
		EXPECT_EQ(slub_cache_size(cache), each.size);
		EXPECT_EQ(cache->link, each.link);
		EXPECT_EQ(cache->flags, args.flags);
		EXPECT_EQ(cache->ctor, args.ctor);
		EXPECT_FALSE(cache->has_sheaf_length);
		EXPECT_FALSE(cache->is_accounted);
		EXPECT_FALSE(cache->is_internal);
		EXPECT_TRUE(cache_is_like(cache, &args));
		end(cache);
	}
	args = {};
	args.name = "asked";
	args.size = 64;
	args.has_free_pointer_offset = true;
	args.free_pointer_offset = 24;
	args.sheaf_length = 10;
	args.flags = SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE;
	args.useroffset = 3;
	args.usersize = 5;
	struct slub_cache *cache = of();
	EXPECT_EQ(cache->link, 24u);
	EXPECT_TRUE(cache->has_sheaf_length);
	EXPECT_TRUE(cache->is_accounted);
	EXPECT_EQ(cache->useroffset, 3u);
	EXPECT_EQ(cache->usersize, 5u);
	EXPECT_STREQ(slub_cache_name(cache), "asked");
	end(cache);
}

TEST_F(create_args, alike_is_what_is_alike_in_all)
{
	struct slub_cache *cache = of();
	const std::vector<std::function<void()>> differences = {
		[&] { args.size++; }, [&] { args.align = 16; }, [&] { args.flags = 0; },
		[&] { args.ctor = construct; }, [&] { args.useroffset = 1; },
		[&] { args.usersize = 1; }, [&] { args.has_free_pointer_offset = true; },
		[&] { args.sheaf_length = 1; },
	};
	auto before = args;

	EXPECT_TRUE(cache_is_like(cache, &args));
	for (auto &each : differences) {
		args = before;
		each();
		EXPECT_FALSE(cache_is_like(cache, &args)) << &each - differences.data();
	}
	end(cache);
}

/* ---- sharing ---- */

using change = std::function<void(struct slub_cache_args &)>;

const change nothing = [](struct slub_cache_args &) {};

change flags(unsigned long all)
{
	return [all](struct slub_cache_args &a) { a.flags = all; };
}

change size(size_t bytes)
{
	return [bytes](struct slub_cache_args &a) { a.size = bytes; };
}

change align(size_t bytes)
{
	return [bytes](struct slub_cache_args &a) { a.align = bytes; };
}

TEST_F(create_args, who_shares_a_cache)
{
	const unsigned long account = SLUB_CACHE_ACCOUNT, line = SLUB_CACHE_HWCACHE_ALIGN,
			    debug = SLUB_CACHE_RED_ZONE;
	const struct {
		change first, second;
		bool is_shared;
	} all[] = {
		{ nothing, nothing, true }, { nothing, size(57), true },
		{ nothing, size(56), false }, { nothing, size(65), false },
		{ size(60), size(61), false },
		{ size(61), size(60), true }, { align(16), align(8), true },
		{ align(8), align(16), false }, { align(16), align(16), true },
		{ flags(account), flags(account), true }, { flags(account), nothing, false },
		{ nothing, flags(account), false }, { flags(line), flags(line), true },
		{ flags(line), nothing, true }, { nothing, flags(line), false },
		{ flags(SLUB_CACHE_RECLAIM_ACCOUNT), nothing, false },
		{ flags(SLUB_CACHE_TYPESAFE_BY_RCU), nothing, false },
		{ flags(SLUB_CACHE_NO_MERGE), nothing, false },
		{ nothing, flags(SLUB_CACHE_NO_MERGE), false },
		{ flags(debug), nothing, false }, { nothing, flags(debug), false },
		{ [](auto &a) { a.ctor = construct; }, nothing, false },
		{ nothing, [](auto &a) { a.ctor = construct; }, false },
		{ [](auto &a) { a.usersize = 8; }, nothing, false },
		{ nothing, [](auto &a) { a.usersize = 8; }, false },
		{ nothing, [](auto &a) { a.has_free_pointer_offset = true; }, false },
		{ [](auto &a) { a.sheaf_length = 9; }, nothing, false },
		{ nothing, [](auto &a) { a.sheaf_length = 9; }, false },
	};

	for (auto &each : all) {
		struct slub_cache_args first = {}, second = {};

		SCOPED_TRACE(&each - all);
		first.name = "first-name";
		second.name = "second-name";
		first.size = second.size = 64;
		each.first(first);
		each.second(second);
		set("SLUB_MERGE=1");
		struct slub_cache *one = slub_cache_create_args(&first);
		struct slub_cache *two = slub_cache_create_args(&second);
		ASSERT_TRUE(one && two);
		EXPECT_EQ(one == two, each.is_shared);
		end(two);
		EXPECT_TRUE(cache_is_live(one));
		set("SLUB_MERGE=0");
		two = slub_cache_create_args(&second);
		EXPECT_NE(one, two) << "nobody shares by default";
		end(two);
		end(one);
	}
}

/* One that is somebody's in another way, or watched by now. */
TEST_F(create_args, who_shares_no_cache_for_now)
{
	struct slub_group *group = slub_group_create("sharers", nullptr);

	set("SLUB_MERGE=1");
	args.flags = SLUB_CACHE_ACCOUNT;
	struct slub_cache *cache = of();
	ASSERT_EQ(slub_cache_group_set(cache, group), 0);
	args.name = "another";
	struct slub_cache *other = of();
	EXPECT_NE(other, cache);
	end(other);
	ASSERT_EQ(slub_cache_group_set(cache, nullptr), 0);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	other = of();
	EXPECT_NE(other, cache);
	end(other);
	ASSERT_EQ(slub_cache_debug(cache, 0), 0);
	other = of();
	EXPECT_EQ(other, cache);
	end(other);
	end(cache);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

TEST_F(create_args, names_of_one_that_is_shared)
{
	char name[SLUB_CACHE_NAME_MAX + 1], names[32];
	const std::string longest(47, 'z');
	std::vector<const char *> all = { "first", "bb", "ccc", longest.c_str() };

	set("SLUB_MERGE=1");
	args.flags = 0;
	struct slub_cache *cache = nullptr;
	for (const char *each : all) {
		args.name = each;
		cache = of();
	}
	EXPECT_EQ(cache->users, 4u);
	for (unsigned int n = 0; n < 3; n++) {
		ASSERT_TRUE(slub_cache_alias(cache, n, name));
		EXPECT_STREQ(name, all[n + 1]) << "in the order in which they were given";
	}
	EXPECT_FALSE(slub_cache_alias(cache, 3, name));
	EXPECT_FALSE(slub_cache_alias(nullptr, 0, name));
	slub_thread.locks_held++;
	EXPECT_FALSE(slub_cache_alias(cache, 0, name));
	slub_thread.locks_held--;
	for (const char *each : all)
		EXPECT_EQ(slub_cache_find(each), cache) << each;
	EXPECT_EQ(said([&] {
		errno = 0;
		EXPECT_EQ(of(), nullptr);
		EXPECT_EQ(errno, EEXIST);
	}), "slub_cache_create(" + longest + "): there is a cache of that name\n");
	/* The last name goes first. */
	end(cache);
	EXPECT_EQ(slub_cache_find(longest.c_str()), nullptr);
	EXPECT_EQ(cache->users, 3u);
	/* "ccc\0bb\0\0" */
	for (auto [room, what] : { std::pair(32, std::string("ccc\0bb\0\0", 8)),
				   { 8, std::string("ccc\0bb\0\0", 8) },
				   { 7, std::string("ccc\0\0", 5) },
				   { 5, std::string("ccc\0\0", 5) },
				   { 4, std::string("\0", 1) }, { 1, std::string("\0", 1) } }) {
		memset(names, 'x', sizeof(names));
		alias_names(cache, names, (size_t)room);
		EXPECT_EQ(std::string(names, what.size()), what) << room;
		EXPECT_EQ(names[what.size()], 'x') << room;
	}
	args.name = "again";
	EXPECT_EQ(of(), cache);
	ASSERT_TRUE(slub_cache_alias(cache, 2, name));
	EXPECT_STREQ(name, "again");
	EXPECT_EQ(name[6], '\0') << "nothing of the name before it";
	for (int i = 0; i < 4; i++)
		end(cache);
	EXPECT_FALSE(cache_is_live(cache));
	EXPECT_FALSE(slub_cache_alias(cache, 0, name));
}

/* What is refused is said by errno, and kept by nobody. */
TEST_F(create_args, want_of_memory)
{
	std::vector<struct slub_cache *> all;

	set("SLUB_MERGE=1");
	args.flags = 0;
	struct slub_cache *cache = of();
	for (int i = 0; i < 100 && errno != ENOMEM; i++) {
		std::string name = "alias-" + std::to_string(i);

		args.name = name.c_str();
		metas_refused = 1;
		errno = 0;
		all.push_back(of());
	}
	ASSERT_EQ(all.back(), nullptr) << "names that were free before are taken first";
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(cache->users, all.size());
	metas_refused = 0;
	for (size_t i = 0; i < all.size(); i++)
		end(cache);
	args.name = "not-public";
	args.flags = SLUB_CACHE_NO_MERGE;
	for (int error : { ENOSPC, ENOMEM }) {
		publish_answer = -error;
		errno = 0;
		EXPECT_EQ(of(), nullptr);
		EXPECT_EQ(errno, error);
		EXPECT_EQ(slub_cache_find("not-public"), nullptr);
	}
	publish_answer = 0;
	/* A structure is used again, so there may be some. */
	all.clear();
	errno = 0;
	for (int i = 0; i < 300 && errno != ENOMEM; i++) {
		std::string name = "made-" + std::to_string(i);

		args.name = name.c_str();
		metas_refused = 100;
		errno = 0;
		all.push_back(of());
	}
	metas_refused = 0;
	EXPECT_EQ(all.back(), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	all.pop_back();
	for (auto *each : all)
		end(each);
	args.name = "asked";
	expect_made();
}

TEST_F(create_args, a_panic_is_the_end)
{
	std::string text;
	args.flags = SLUB_CACHE_PANIC | SLUB_CACHE_NO_MERGE;
	expect_made();
	args.size = 0;
	int status = harness::in_child([&] { of(); }, &text);

	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	EXPECT_NE(text.find("slub_cache_create(asked): error 22, and SLUB_CACHE_PANIC was asked "
			    "for\n"), text.npos) << text;
}

/* ---- found ---- */

TEST_F(create_args, each_is_found_by_its_name)
{
	struct slub_cache *one = make("found-one", 64), *two = make("found-two", 64, 0, construct);
	std::vector<struct slub_cache *> seen;
	auto visit = [](struct slub_cache *cache, void *arg) {
		((std::vector<struct slub_cache *> *)arg)->push_back(cache);
		return 0;
	};
	auto stop = [](struct slub_cache *, void *arg) { return ++*(int *)arg == 2 ? 55 : 0; };
	int nr = 0;

	EXPECT_EQ(slub_cache_find("found-one"), one);
	EXPECT_EQ(slub_cache_find("found-two"), two);
	errno = 0;
	EXPECT_EQ(slub_cache_find("found"), nullptr);
	EXPECT_EQ(errno, ENOENT);
	errno = 0;
	EXPECT_EQ(slub_cache_find(nullptr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	/* Neither twins nor shadows. */
	ASSERT_EQ(slub_cache_debug(one, SLUB_CACHE_RED_ZONE), 0);
	void *p = slub_cache_alloc(one);
	struct slub_cache *twin = cache_of(p);
	ASSERT_NE(twin, one);
	EXPECT_EQ(slub_cache_find(twin->name), strcmp(twin->name, one->name) ? nullptr : one);
	EXPECT_EQ(slub_cache_for_each(visit, &seen), 0);
	for (auto *each : { one, two })
		EXPECT_EQ(std::count(seen.begin(), seen.end(), each), 1);
	EXPECT_EQ(std::count(seen.begin(), seen.end(), twin), 0);
	EXPECT_EQ(slub_cache_for_each(stop, &nr), 55);
	EXPECT_EQ(nr, 2);
	EXPECT_EQ(slub_cache_for_each(nullptr, nullptr), -EINVAL);
	slub_cache_free(one, p);
	end(one);
	EXPECT_EQ(slub_cache_find("found-one"), nullptr);
	seen.clear();
	slub_cache_for_each(visit, &seen);
	EXPECT_EQ(std::count(seen.begin(), seen.end(), one), 0);
	end(two);
}

/* ---- destroyed ---- */

TEST_F(create_args, what_is_in_use_stays)
{
	struct slub_cache *cache = of();
	void *p = slub_cache_alloc(cache);
	char text[64];

	EXPECT_EQ(slub_cache_destroy(nullptr), 0);
	snprintf(text, sizeof(text), "%p is still allocated\n", p);
	EXPECT_EQ(said([&] { EXPECT_EQ(slub_cache_destroy(cache), -EBUSY); }),
		  "slub_cache_destroy(asked): object " + std::string(text));
	EXPECT_TRUE(cache_is_live(cache));
	EXPECT_EQ(cache_look_unused(cache), -EBUSY);
	slub_cache_free(cache, p);
	EXPECT_EQ(cache_look_unused(cache), 0);
	int reader = slub_read_lock();
	EXPECT_EQ(slub_cache_destroy(cache), -EDEADLK);
	slub_read_unlock(reader);
	bool was = cache->is_internal;
	cache->is_internal = true;
	EXPECT_EQ(slub_cache_destroy(cache), -EINVAL);
	cache->is_internal = was;
	ASSERT_TRUE(making_begin());
	EXPECT_FALSE(making_begin()) << "a callback asks";
	EXPECT_EQ(slub_cache_destroy(cache), -EBUSY);
	args.name = "other";
	errno = 0;
	EXPECT_EQ(of(), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	making_end();
	EXPECT_EQ(said([&] { end(cache); }), "");
	EXPECT_EQ(slub_cache_destroy(cache), -EINVAL);
	EXPECT_EQ(cache_look_unused(cache), -EINVAL);
}

} /* namespace */
