// SPDX-License-Identifier: MIT
// Promise: on the hardened library an attacker that reads the tail of a block cannot forge a link,
// one that reads links as well gets no address outside the heap, and where reports go on
// (SLUB_ON_ERROR=report) nothing that was damaged is handed out, nor any block twice.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "harness.h"

namespace {

// As src/core/arch/slot.h and src/features/hardened/tail.h have them; an attacker knows these.
const uint64_t encode_by = 0xf1de83e19937733d, decode_by = 0x9e3779b97f4a7c15;
const size_t bytes = 64, tail_at = 72;
const uint64_t tail_free = (uint64_t)1 << 61 >> 16;

uint64_t swapped(const void *at)
{
	return __builtin_bswap64((uintptr_t)at);
}

uint64_t word_at(const void *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

void word_put(void *at, uint64_t word)
{
	memcpy(at, &word, sizeof(word));
}

enum end { NOT_OURS = 0, OURS = 3, NO_OPTION = 5 };

int end_of(const std::function<void()> &what)
{
	int status;
	pid_t child = fork();

	if (!child) {
		fclose(stderr);
		harness::stay_on_this_cpu();
		what();
		_exit(NOT_OURS);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) + 1000 : WEXITSTATUS(status);
}

void reports_go_on()
{
	auto set = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "slub_option_set");

	if (!set || set("on_error", "report"))
		_exit(NO_OPTION);
}

// Does malloc() return `target`?
void ask_for(const void *target, size_t n)
{
	for (int i = 0; i < 5000; i++) {
		char *p = (char *)malloc(n);

		if (p == target)
			_exit(OURS);
		if (p)
			memset(p, 'x', n);
	}
}

alignas(16) char outside[80];

struct secrets {
	uint64_t link, tail;	// keys without the address
};

// What is in reach of an attacker: blocks of one class, and many of them free.
struct heap {
	std::vector<char *> all;

	heap() : all(64)
	{
		for (char *&p : all)
			p = (char *)malloc(bytes);
	}

	// By the 16 bytes behind a block of its own.
	uint64_t tail_secret() const
	{
		return word_at(all[10] + tail_at) ^ (uint64_t)bytes << 48 ^ swapped(all[10]);
	}

	void free_many(size_t from = 0)
	{
		for (size_t i = from; i < all.size(); i++)
			free(all[i]);
	}

	// By a use after free: the link of one that was freed just behind another.
	uint64_t link_secret() const
	{
		return word_at(all[40]) * decode_by ^ (uintptr_t)all[39] ^ swapped(all[40]);
	}
};

// A block that looks free, wherever it is, and the link to it.
void forge(const heap &heap, const secrets &s, char *target, bool writes_target)
{
	char *victim = heap.all[30];

	if (writes_target) {
		word_put(target + tail_at, s.tail ^ swapped(target) ^ tail_free);
		word_put(target, (s.link ^ swapped(target)) * encode_by);
	}
	word_put(victim, ((uintptr_t)target ^ s.link ^ swapped(victim)) * encode_by);
}

void by_the_tail()
{
	heap heap;
	uint64_t secret = heap.tail_secret();

	heap.free_many();
	forge(heap, { secret, secret }, outside, true);
	ask_for(outside, bytes);
}

void by_tail_and_link()
{
	heap heap;
	secrets s = { 0, heap.tail_secret() };

	heap.free_many();
	s.link = heap.link_secret();
	forge(heap, s, outside, true);
	ask_for(outside, bytes);
}

void to_a_live_block()
{
	heap heap;
	char *live = heap.all[0], before[bytes];
	uint64_t link;

	memset(live, 0, bytes);
	heap.free_many(1);
	link = heap.link_secret();
	// Its first word is a sound link, as an attacker that fills it may have it.
	word_put(live, (link ^ swapped(live)) * encode_by);
	memcpy(before, live, bytes);
	forge(heap, { link, 0 }, live, false);
	ask_for(live, bytes);
	if (memcmp(before, live, bytes))
		_exit(4);
}

TEST(HardenedForged, a_tail_gives_no_link)
{
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(end_of(by_the_tail), 1000 + SIGABRT);
		EXPECT_EQ(end_of([] {
				reports_go_on();
				by_the_tail();
			}), NOT_OURS);
	}
}

TEST(HardenedForged, both_give_no_address_outside)
{
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(end_of(by_tail_and_link), 1000 + SIGABRT);
		EXPECT_EQ(end_of([] {
				reports_go_on();
				by_tail_and_link();
			}), NOT_OURS);
	}
}

TEST(HardenedForged, a_live_block_is_not_handed_out)
{
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(end_of(to_a_live_block), 1000 + SIGABRT);
		EXPECT_EQ(end_of([] {
				reports_go_on();
				to_a_live_block();
			}), NOT_OURS);
	}
}

TEST(HardenedForged, what_was_damaged_is_left_out_of_use)
{
	for (size_t n : { 24, 56, 200, 1000, 3000, 5000, 20000 }) {
		for (size_t at : { 8, 16 }) {
			EXPECT_EQ(end_of([=] {
					std::vector<char *> all(64);

					for (char *&p : all)
						p = (char *)malloc(n);
					// Others stay, or the slab itself would go.
					for (size_t i = 0; i < all.size(); i += 2)
						free(all[i]);
					all[30][at] = 'w';
					reports_go_on();
					ask_for(all[30], n);
				}), NOT_OURS) << n << " " << at;
		}
	}
}

} // namespace
