/* SPDX-License-Identifier: MIT */
/*
 * Promise: what is certain to be corruption ends the process with one line, whoever does it and
 * under each backend; no block is handed out twice, and no address that is none.
 */
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "harness.h"

extern "C" void free_aligned_sized(void *, size_t, size_t);

namespace {

const size_t sizes[] = {8, 64, 112, 1000, 5000, 20000, 100000, 3 << 20};

char *block(size_t n) { return static_cast<char *>(harness::opaque(malloc(n))); }

void drop(void *pointer) { free(harness::opaque(pointer)); }

/* What `crime` has written is returned; it must have been ended by the line that begins so. */
void expect_end(const std::function<void()> &crime, const char *what, const std::string &which)
{
	std::string errors;
	int status = harness::in_child(
		[&] {
			crime();
			_exit(0);
		},
		&errors);

	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
		<< which << ": " << harness::describe_status(status);
	EXPECT_NE(errors.find(what), errors.npos) << which << ": " << errors;
	EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << which << ": " << errors;
}

/* A large block's pages are nobody's once it is free. */
const char *twice(size_t n) { return n > 32768 ? ": pointer to no block: " : ": double free: "; }

TEST(Misuse, second_free)
{
	for (size_t n : sizes) {
		std::string which = std::to_string(n);

		expect_end([=] {
			char *p = block(n);
			drop(p);
			drop(p);
		}, twice(n), which);
		expect_end([=] {
			char *p = block(n), *q = block(n);
			drop(p);
			drop(q);
			drop(p);
		}, twice(n), which + " with another in between");
		expect_end([=] {
			char *p = block(n);
			drop(p);
			for (int i = 0; i < 1000; i++)
				drop(block(40000 + i));
			free(realloc(harness::opaque(p), n));
		}, twice(n), which + " by realloc");
	}
}

/* The lists have been flushed by then. */
TEST(Misuse, second_free_after_many)
{
	for (size_t n : {16, 64, 1000, 5000})
		expect_end([=] {
			std::vector<char *> blocks;
			for (int i = 0; i < 5000; i++)
				blocks.push_back(block(n));
			for (char *p : blocks)
				drop(p);
			drop(blocks[0]);
		}, "slub[", std::to_string(n));
}

TEST(Misuse, second_free_by_another_thread_in_a_child_and_in_a_handler)
{
	static char *p;

	expect_end([] {
		pthread_t thread;
		p = block(64);
		pthread_create(&thread, nullptr, [](void *q) -> void * { drop(q); return nullptr; },
			       p);
		pthread_join(thread, nullptr);
		drop(p);
	}, ": double free: ", "thread");
	expect_end([] {
		p = block(64);
		drop(p);
		int child = fork();
		if (!child)
			drop(p);
		raise(WTERMSIG(harness::wait_for(child)));
	}, ": double free: ", "child");
	expect_end([] {
		p = block(64);
		drop(p);
		signal(SIGUSR1, [](int) { drop(p); });
		raise(SIGUSR1);
	}, ": double free: ", "handler");
}

/* That of an aligned pointer is noticed where its list is gone through, if not at once. */
TEST(Misuse, free_inside)
{
	for (size_t n : sizes) {
		for (size_t at : {1, 4, 8, 15})
			if (at < n)
				expect_end([=] { drop(block(n) + at); },
					   ": pointer inside a block: ",
					   std::to_string(n) + " + " + std::to_string(at));
	}
	for (size_t at : {16, 32, 48})
		expect_end([=] {
			drop(block(64) + at);
			std::vector<char *> blocks;
			for (int i = 0; i < 5000; i++)
				blocks.push_back(block(64));
			for (char *p : blocks)
				drop(p);
			malloc_trim(0);
		}, "slub[", "64 + " + std::to_string(at));
	expect_end([] {
		drop(block(64) + 16);
		exit(0);
	}, "slub[", "at exit");
	/* The parent has none of these: all lie in a slab that is new. */
	expect_end([] {
		drop(block(896) + 896 * 30);
		exit(0);
	}, ": pointer to no block: ", "never handed out");
	expect_end([] { drop(block(5000) + 16); }, ": pointer inside a block: ", "5000 + 16");
	expect_end([] { drop(block(100000) + 4096); }, ": pointer to no block: ", "100000 + 4096");
}

TEST(Misuse, of_the_other_functions)
{
	expect_end([] { free(realloc(block(64) + 16, 100)); }, ": pointer inside a block: realloc(",
		   "realloc");
	expect_end([] { malloc_usable_size(block(64) + 16); },
		   ": pointer inside a block: malloc_usable_size(", "malloc_usable_size");
}

/* Told with an alignment, and more than the block has. */
TEST(Misuse, a_size_that_cannot_be)
{
	for (size_t n : {24, 64, 1000, 5000, 100000}) {
		std::string which = std::to_string(n);

		expect_end([=] {
			void *p = operator new(n, std::align_val_t(64));
			operator delete(harness::opaque(p), 2 * n + 4096, std::align_val_t(64));
		}, ": wrong size: ", which);
		expect_end([=] {
			free_aligned_sized(harness::opaque(aligned_alloc(64, n)), 64, 2 * n + 4096);
		}, ": wrong size: ", which + " in C");
	}
}

/* Less is said of a base class; what the class has room for cannot be told. */
TEST(Misuse, a_size_that_may_be)
{
	int status = harness::in_child([] {
		for (int i = 0; i < 1000; i++) {
			void *p = operator new(300, std::align_val_t(64));
			operator delete(harness::opaque(p), i % 300, std::align_val_t(64));
			free_aligned_sized(harness::opaque(aligned_alloc(32, 100)), 32, 100);
			free_aligned_sized(nullptr, 64, 1000);
		}
		_exit(0);
	});

	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

/* Whatever was written to a link or to the word behind it, the block is not handed out. */
TEST(Misuse, written_link)
{
	static const struct {
		const char *which;
		std::function<void(char *, char *)> write;	/* to the free one; a live one */
	} crimes[] = {
		{"an address", [](char *p, char *) { *reinterpret_cast<char **>(p) += 640; }},
		{"a live one", [](char *p, char *q) { *reinterpret_cast<void **>(p) = q; }},
		{"one byte", [](char *p, char *) { *p ^= 64; }},
		{"zeros", [](char *p, char *) { memset(p, 0, 16); }},
		{"the word behind", [](char *p, char *) { p[8]++; }},
		{"text", [](char *p, char *) { memset(p, 'A', 16); }},
		{"what another one had", [](char *p, char *q) { drop(q); memcpy(p, q, 16); }},
	};

	for (const auto &crime : crimes)
		for (size_t n : {16, 64, 1000, 3800})
			expect_end([&] {
				char *live = block(n), *p = block(n);
				drop(p);
				crime.write(p, live);
				for (int i = 0; i < 2; i++)
					block(n);
				_exit(1);
			}, ": a block was written to after its free: ", crime.which);
}

/* What the library knew of a block is not for the program to read. */
TEST(Misuse, a_new_block_tells_no_address)
{
	std::vector<char *> blocks;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 5000; i++) {
			auto *p = reinterpret_cast<uint64_t *>(block(64));

			if (round) {
				ASSERT_EQ(p[0], 0u);
				ASSERT_EQ(p[1], 0u);
			}
			blocks.push_back(reinterpret_cast<char *>(p));
		}
		for (char *p : blocks)
			drop(p);
		blocks.clear();
	}
}

/* What a program copies out of free memory accuses nobody. */
TEST(Misuse, a_copied_key_is_none)
{
	int status = harness::in_child([] {
		long words[8];
		char *old = block(64);

		drop(old);
		memcpy(words, old, sizeof(words));
		for (int i = 0; i < 300; i++) {
			char *p = block(64);
			memcpy(p, words, sizeof(words));
			drop(p);
		}
		_exit(0);
	});

	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

} /* namespace */
