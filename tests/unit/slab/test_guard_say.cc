/* SPDX-License-Identifier: MIT */
/* features/guard: what is found at frees and at exit, its words, and who is counted. */
#include "guards.h"

#include <slub/debug.h>

namespace {

std::string text_of(const void *pointer)
{
	char text[32];

	snprintf(text, sizeof(text), "%p", pointer);
	return text;
}

size_t count(const std::string &text, const std::string &what)
{
	size_t nr = 0;

	for (size_t at = 0; (at = text.find(what, at)) != text.npos; at++)
		nr++;
	return nr;
}

struct say : guards {
	void SetUp() override
	{
		guards::SetUp();
		cache = slub_cache_create("said", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
		other = slub_cache_create("other", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
		ASSERT_NE(other, nullptr);
		open(16);
		set("ON_ERROR=report");
		set("DEBUG_REPORT=stderr");
		set("GUARD_SIDE=front");
	}
	void TearDown() override
	{
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		EXPECT_EQ(slub_cache_destroy(other), 0);
		guards::TearDown();
	}
	/* What @act writes to standard error. */
	static std::string said(const std::function<void()> &act)
	{
		testing::internal::CaptureStderr();
		act();
		return testing::internal::GetCapturedStderr();
	}
	static std::string process(const std::string &after)
	{
		return "slub[" + std::to_string(getpid()) + "]: " + after;
	}
	struct slub_cache_stats stats(struct slub_cache *of)
	{
		struct slub_cache_stats now;

		EXPECT_EQ(slub_cache_stats(of, &now), 0);
		return now;
	}
	/* A free that is found wrong: what is said, and counted. */
	void expect_wrong(const std::function<void()> &act, void *at, uint32_t bits,
			  const char *bug, const std::string &line)
	{
		uint64_t before = pool_of(at)->errors;
		std::string text = said(act);
		struct guard_place *place = place_of(at);

		EXPECT_EQ(pool_of(at)->errors, before + 1) << text;
		EXPECT_EQ(place->errors & bits, bits);
		EXPECT_NE(text.find(std::string(": ") + bug + ": 0x"), text.npos) << text;
		EXPECT_NE(text.find(", guarded object " + text_of((void *)place->object) + " of " +
				    std::to_string(place->bytes) + " bytes\n"), text.npos) << text;
		EXPECT_EQ(count(text, "slub["), line.empty() ? 0u : 1u) << text;
		EXPECT_NE(text.find(line.empty() ? "" : process(line)), text.npos) << text;
	}

	struct slub_cache *cache, *other;
};

/* Each error, of the object itself or of elsewhere in it. */
TEST_F(say, each_error_has_words)
{
	const bool is_told = SLUB_CONFIG_HARDENED && option_value(OPTION_check_calls);
	const struct {
		enum guard_error error;
		uint32_t bit;
		bool is_object;
		const char *bug, *line;		/* NULL: none */
		bool is_fixed;
	} all[] = {
		{ GUARD_TWICE, 1, true, "Object already free", "double free", true },
		{ GUARD_INSIDE, 2, false, "Invalid object pointer", "pointer inside a block",
		  true },
		{ GUARD_BEYOND, 4, false, "Redzone overwritten", "a write beyond a block", false },
		{ GUARD_BEYOND, 4, true, "Redzone overwritten", "a write beyond a block", false },
		{ GUARD_CACHE, 8, true, "Wrong slab cache", nullptr, false },
		{ GUARD_SIZE, 16, true, "Wrong size", nullptr, false },
		{ GUARD_CALL, 32, true, "Wrong kind", is_told ? "wrong kind of call" : nullptr,
		  false },
		{ GUARD_ASKED, 64, true, "Object is free", "double free", false },
		{ GUARD_ASKED, 64, false, "Invalid object pointer", "pointer inside a block",
		  false },
	};
	char *p = get(40, cache);
	struct guard_place *place = place_of(p);

	for (auto &each : all) {
		const char *at = each.is_object ? p : p + 8;
		bool stays = false;
		uint64_t errors = objects.errors;

		place->errors = 0;
		std::string text = said([&] {
			stays = guard_say(place, each.error, "the_call", at,
					  __builtin_frame_address(0));
		});
		SCOPED_TRACE(text);
		EXPECT_EQ(place->errors, each.bit);
		EXPECT_EQ(objects.errors, errors + 1);
		EXPECT_EQ(stays, each.line != nullptr);
		EXPECT_EQ(count(text, "BUG said (" + std::to_string(getpid()) + "): " + each.bug +
				": " + text_of(at) + ", guarded object " + text_of(p) +
				" of 40 bytes\n"), 1u);
		EXPECT_EQ(count(text, "Allocated in [<0x"), 1u);
		EXPECT_EQ(count(text, "Freed in"), 0u);
		EXPECT_EQ(count(text, "FIX said: " + text_of(at) + " left alone\n"),
			  each.is_fixed ? 1u : 0u);
		EXPECT_EQ(count(text, "FIX"), each.is_fixed ? 1u : 0u);
		if (each.line) {
			const void *whose = each.error == GUARD_BEYOND ? p : at;

			EXPECT_EQ(count(text, process(std::string(each.line) + ": the_call(" +
						      text_of(whose) + "), said, thread ")), 1u);
		}
		EXPECT_EQ(count(text, "slub["), each.line ? 1u : 0u);
	}
	guard_free(p, cache);
}

/* A caller is named where the frame is known. */
TEST_F(say, whose_stack_it_was)
{
	char *p = get(40, cache);

	for (const void *frame : { (const void *)__builtin_frame_address(0),
				   (const void *)nullptr }) {
		std::string text = said([&] {
			guard_say(place_of(p), GUARD_SIZE, nullptr, p, frame);
		});
		size_t at = text.find("Call Trace:\n");

		ASSERT_NE(at, text.npos);
		EXPECT_EQ(text.substr(at + 12, 5) == "\t[<0x", frame != nullptr) << text;
	}
	guard_free(p, cache);
}

/* Letters report and go on: without the line, and whatever SLUB_ON_ERROR says. */
TEST_F(say, letters_go_on)
{
	std::string text;
	char *p = get(40, cache);
	int status = harness::in_child([&] {
		set("DEBUG=U,nobody");
		bool stays = guard_say(place_of(p), GUARD_TWICE, "free", p, nullptr);
		_exit(stays);
	}, &text);

	EXPECT_EQ(status, 0) << harness::describe_status(status);
	EXPECT_NE(text.find("BUG said"), text.npos) << text;
	EXPECT_EQ(text.find("slub["), text.npos) << text;
	guard_free(p, cache);
}

/* ---- frees ---- */

TEST_F(say, a_second_free)
{
	char *p = get(64, cache), *block = get(64);

	guard_free(p, cache);
	expect_wrong([&] { guard_free(p, nullptr); }, p, 1, "Object already free",
		     "double free: free(" + text_of(p) + "), said, ");
	expect_wrong([&] { guard_free(p, cache); }, p, 1, "Object already free",
		     "double free: slub_cache_free(" + text_of(p) + "), said, ");
	EXPECT_EQ(stats(cache).double_free, 2u);
	EXPECT_EQ(stats(other).double_free, 0u);
	EXPECT_EQ(stats(cache).wrong_cache, 0u);
	EXPECT_EQ(count(said([&] { guard_free(p, cache); }), "Freed in [<0x"), 1u);
	guard_free(block, nullptr);
	expect_wrong([&] { guard_free(block, nullptr); }, block, 1, "Object already free",
		     "double free: free(" + text_of(block) + "), large block, ");
}

TEST_F(say, a_free_of_elsewhere)
{
	char *p = get(64, cache);

	for (char *at : { p + 16, p + 64, p - 1 })
		expect_wrong([&] { guard_free(at, cache); }, at, 2, "Invalid object pointer",
			     "pointer inside a block: slub_cache_free(" + text_of(at) +
				     "), said, ");
	EXPECT_EQ(guard_bytes(p), 64u) << "left alone";
	/* Where there never was an object; and behind all places. */
	char *never = start(5);
	std::string text = said([&] { guard_free(never, nullptr); });
	EXPECT_EQ(count(text, "BUG guard ("), 1u) << text;
	EXPECT_EQ(count(text, process("pointer to no block: free(" + text_of(never) +
				      "), thread ")), 1u) << text;
	EXPECT_EQ(place(5)->errors, 2u);
	EXPECT_EQ(objects.errors, 4u);
	char *last = (char *)objects.base + objects.bytes - 16;
	text = said([&] { guard_free(last, nullptr); });
	EXPECT_EQ(text.find(process("pointer to no block: free(" + text_of(last) + "), ")), 0u)
		<< text;
	text = said([&] { guard_free(last, cache); });
	EXPECT_EQ(text.find(process("pointer to no block: slub_cache_free(")), 0u)
		<< text;
	EXPECT_EQ(objects.errors, 4u);
	guard_free(p, cache);
}

TEST_F(say, a_free_by_another_cache)
{
	char *p = get(64, cache), *block = get(64);

	expect_wrong([&] { guard_free(p, other); }, p, 8, "Wrong slab cache", "");
	EXPECT_EQ(place_of(p)->state, (uint32_t)GUARD_FREED) << "it is the caller's bug alone";
	EXPECT_EQ(stats(cache).wrong_cache, 1u);
	EXPECT_EQ(stats(other).wrong_cache, 0u);
	EXPECT_EQ(stats(cache).double_free, 0u);
	/* A large block is no cache's. */
	expect_wrong([&] { guard_free(block, other); }, block, 8, "Wrong slab cache", "");
	EXPECT_EQ(guard_bytes(block), 64u);
	guard_free(block, nullptr);
	expect_wrong([&] { guard_free(block, other); }, block, 1, "Object already free",
		     "double free: slub_cache_free(");
}

/* The first byte that was written is named, in front or behind. */
TEST_F(say, what_was_written_beside_it)
{
	uint64_t errors = 0;

	for (const char *side : { "GUARD_SIDE=front", "GUARD_SIDE=behind" }) {
		set(side);
		for (long at : { 0l, 1l, 1000l, (long)page - 65 }) {
			char *p = get(64, cache);
			bool is_front = (uintptr_t)p % page == 0;
			char *byte = is_front ? p + 64 + at : p - 1 - at;

			*byte = 'w';
			std::string text = said([&] { guard_free(p, cache); });
			EXPECT_EQ(count(text, "): Redzone overwritten: " + text_of(byte) +
					", guarded object " + text_of(p)), 1u) << text;
			EXPECT_EQ(count(text, process("a write beyond a block: slub_cache_free(" +
						      text_of(p) + "), said, ")), 1u) << text;
			EXPECT_EQ(objects.errors, ++errors);
			EXPECT_EQ(place_of(p)->state, (uint32_t)GUARD_LIVE) << "it stays";
			EXPECT_EQ(place_of(p)->freed.caller, 0u);
			*byte = (char)0xcc;
			EXPECT_EQ(said([&] { guard_free(p, cache); }), "");
			EXPECT_EQ(place_of(p)->state, (uint32_t)GUARD_FREED);
		}
	}
	/* In front of what is behind. */
	char *p = get(64, cache);
	p[-1] = 'w';
	p[-9] = 'w';
	EXPECT_NE(said([&] { guard_free(p, cache); }).find(": " + text_of(p - 9) + ", "),
		  std::string::npos);
	memset(p - 9, 0xcc, 9);
	guard_free(p, cache);
}

TEST_F(say, letters_free_what_was_written_beside)
{
	std::string text;
	char *p = get(64, cache);
	int status = harness::in_child([&] {
		set("DEBUG=U,nobody");
		p[64] = 'w';
		guard_free(p, cache);
		_exit(place_of(p)->state != GUARD_FREED);
	}, &text);

	EXPECT_EQ(status, 0) << harness::describe_status(status);
	guard_free(p, cache);
}

TEST_F(say, a_free_with_another_size)
{
	char *p = get(64, cache);

	expect_wrong([&] { guard_free_size(p); }, p, 16, "Wrong size", "");
	EXPECT_EQ(guard_bytes(p), 64u);
	guard_free(p, cache);
}

TEST_F(say, a_free_by_another_kind_of_call)
{
	if (SLUB_CONFIG_HARDENED && option_value(OPTION_check_calls))
		GTEST_SKIP() << "there it stays";
	bool told = debug_calls_are_told;
	char *p = get(64, cache);

	debug_calls_are_told = true;
	place_of(p)->allocated.call = CALL_NEW_MANY;
	expect_wrong([&] { EXPECT_TRUE(guard_free_call(p, CALL_NEW)); }, p, 32, "Wrong kind", "");
	EXPECT_TRUE(guard_free_call(p, CALL_NEW)) << "told once";
	EXPECT_EQ(objects.errors, 1u);
	debug_calls_are_told = told;
	guard_free(p, cache);
}

/* ---- questions ---- */

TEST_F(say, a_question_about_what_is_none)
{
	char *p = get(64, cache);

	EXPECT_EQ(said([&] { EXPECT_TRUE(guard_ask(p, "realloc")); }), "");
	expect_wrong([&] { EXPECT_FALSE(guard_ask(p + 8, "realloc")); }, p, 64,
		     "Invalid object pointer",
		     "pointer inside a block: realloc(" + text_of(p + 8) + "), said, ");
	guard_free(p, cache);
	expect_wrong([&] { EXPECT_FALSE(guard_ask(p, "realloc")); }, p, 64, "Object is free",
		     "double free: realloc(" + text_of(p) + "), said, ");
	place_of(p)->state = GUARD_TAKEN;
	EXPECT_EQ(said([&] { EXPECT_TRUE(guard_ask(p, "realloc")); }), "") << "nobody knows";
	place_of(p)->state = GUARD_FREED;
}

/* ---- visits ---- */

TEST_F(say, visits_see_what_is_allocated)
{
	struct visits {
		std::vector<void *> seen;
		size_t nr_last;
	} visits = {};
	auto call = [](void *object, void *arg) {
		auto *all = (struct visits *)arg;

		all->seen.push_back(object);
		return all->seen.size() == all->nr_last ? 77 : 0;
	};
	char *one = get(64, cache), *two = get(64, other), *three = get(2 * page, cache);
	char *block = get(40000, cache), *none = get(0, cache);
	size_t bytes = 1000;

	EXPECT_EQ(guard_nr_objects(cache, &bytes), 4u);
	EXPECT_EQ(bytes, 1000 + 3 * page + (40000 + page - 1) / page * page);
	EXPECT_EQ(guard_nr_objects(other, nullptr), 1u);
	EXPECT_EQ(guard_for_each_object(cache, call, &visits), 0);
	EXPECT_EQ(visits.seen, (std::vector<void *>{ one, three, none, block }));
	visits = { {}, 2 };
	EXPECT_EQ(guard_for_each_object(cache, call, &visits), 77);
	EXPECT_EQ(visits.seen, (std::vector<void *>{ one, three })) << "no other pool either";
	for (char *p : { one, three, block, none })
		guard_free(p, cache);
	guard_free(two, other);
	EXPECT_EQ(guard_nr_objects(cache, &bytes), 0u);
}

/* What is known of places that had no object need not be there. */
TEST_F(say, visits_touch_what_was_used)
{
	for (auto [turns, next, nr] : { std::tuple(15, 15, 15u), { 15, 16, 16u }, { 16, 15, 16u },
					{ 3, 5, 5u }, { 0, 0, 0u } }) {
		for (uint32_t n = 0; n < 16; n++) {
			place(n)->state = GUARD_LIVE;
			place(n)->object = (uintptr_t)start(n);
			place(n)->cache = (uintptr_t)cache;
		}
		objects.turns = turns;
		objects.next = next;
		EXPECT_EQ(guard_nr_objects(cache, nullptr), nr);
	}
	memset(place(0), 0, 16 * PLACE_BYTES);
}

/* ---- at exit ---- */

/* Pieces are looked at, of which 1024 bytes are one. */
TEST_F(say, at_exit_what_was_written)
{
	for (bool has_threads : { false, true }) {
		kernel.has_threads = has_threads;
		for (size_t offset : { 64, 65, 1024 + 63, 1024 + 64, 2048 + 64, (int)page - 1 }) {
			char *p = get(64, cache);

			p[offset] = 'w';
			p[page - 1] = 'w';
			std::string text = said(guard_finish);
			EXPECT_EQ(count(text, "): Redzone overwritten: " + text_of(p + offset) +
					", guarded object "), 1u) << offset << text;
			EXPECT_EQ(count(text, process("a write beyond a block: " + text_of(p) +
						      ", said, ")), 1u) << text;
			EXPECT_EQ(said(guard_finish), "") << "once";
			p[offset] = p[page - 1] = (char)0xcc;
			guard_free(p, cache);
		}
		set("GUARD_SIDE=behind");
		char *p = get(64, cache);
		p[-1] = 'w';
		EXPECT_EQ(count(said(guard_finish), "overwritten: " + text_of(p - 1) + ","), 1u);
		p[-1] = (char)0xcc;
		guard_free(p, cache);
		set("GUARD_SIDE=front");
	}
	/* What is as it was, what has no bytes, and what was freed. */
	char *p = get(64, cache), *none = get(0, cache), *freed = get(64, cache);
	guard_free(freed, cache);
	EXPECT_EQ(said(guard_finish), "");
	guard_free(p, cache);
	guard_free(none, cache);
}

/* Other threads free meanwhile: then nothing is known. */
TEST_F(say, at_exit_while_others_go_on)
{
	char *p = get(64, cache);
	struct guard_place *place = place_of(p), before = *place;
	size_t nr = 0;

	p[64] = 'w';
	kernel.has_threads = true;
	for (auto &meanwhile : std::vector<std::function<bool()>>{
		     [] { return false; }, [&] { place->state = GUARD_FREED; return true; },
		     [&] { place->allocated.when_ns++; return true; },
		     [&] { place->object++; return true; } }) {
		kernel.peek = [&](void *to, const void *from, size_t bytes) -> long {
			nr++;
			if (!meanwhile())
				return (long)bytes - 1;
			memcpy(to, from, bytes);
			return (long)bytes;
		};
		EXPECT_EQ(said(guard_finish), "");
		*place = before;
	}
	EXPECT_GE(nr, 4u);
	kernel = {};
	EXPECT_NE(said(guard_finish), "");
	p[64] = (char)0xcc;
	guard_free(p, cache);
}

/* ---- what keeps a cache ---- */

TEST_F(say, what_keeps_a_cache_from_being_destroyed)
{
	char *one = get(64, cache), *two = get(64, cache), *not_its = get(64, other);

	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	std::string text = said([&] { EXPECT_EQ(slub_cache_destroy(cache), -EBUSY); });
	for (char *p : { one, two })
		EXPECT_EQ(count(text, "): Objects remaining on slub_cache_destroy(): "
				"guarded object " + text_of(p) + "\n"), 1u) << text;
	EXPECT_EQ(count(text, "Objects remaining"), 2u);
	EXPECT_EQ(count(text, "Allocated in [<0x"), 2u) << text;
	EXPECT_EQ(count(text, "FIX said: Cache kept, with its objects\n"), 2u) << text;
	EXPECT_EQ(count(text, "Call Trace:\n\t[<0x"), 2u) << text;
	EXPECT_EQ(slub_cache_errors(cache), 4u);
	guard_free(one, cache);
	guard_free(two, cache);
	guard_free(not_its, other);
}

} /* namespace */
