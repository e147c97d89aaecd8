// SPDX-License-Identifier: MIT
// Promise: on the hardened library a pair of malloc and free of a large block makes no system call
// where the program has many of them.  Few freed blocks can be touched meanwhile, each that is
// handed out lies between closed pages, and what was written to a freed one is found.  Many
// blocks need few mappings.  No byte of a block of no size can be touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

const size_t page = (size_t)sysconf(_SC_PAGESIZE);
const size_t sizes[] = { 33000, 40000, 65536, 100000, 300000, 900000 };
const size_t ready_bytes = 4 << 20, ready_most = 32;

void pairs(size_t bytes, int n)
{
	for (int i = 0; i < n; i++) {
		char *volatile p = (char *)malloc(bytes);

		p[0] = p[bytes - 1] = 'x';
		free(p);
	}
}

bool is_readable(const void *at)
{
	char byte;
	iovec to = { &byte, 1 }, from = { (void *)at, 1 };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

// How `what` ends a child; its exit status, or the signal + 1000.
int end_of(const std::function<void()> &what)
{
	int status;
	pid_t child = fork();

	if (!child) {
		what();
		_exit(0);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) + 1000 : WEXITSTATUS(status);
}

void filter_calls(sock_filter *code, size_t n)
{
	sock_fprog program = { (unsigned short)n, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

// From now on any system call but that which ends it kills the process.
void forbid_calls()
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};

	filter_calls(code, sizeof(code) / sizeof(*code));
}

// As on a kernel that has none.
void forbid_guard_pages()
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 102, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter_calls(code, sizeof(code) / sizeof(*code));
}

// The kernel closes one page, but not several, and opens none again.
void close_for_ever()
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_madvise, 0, 6),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 103, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 102, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 4096, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter_calls(code, sizeof(code) / sizeof(*code));
}

int nr_mappings()
{
	FILE *file = fopen("/proc/self/maps", "r");
	int lines = 0, c;

	while ((c = getc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

bool has_guard_pages()
{
	void *p = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has = !madvise(p, page, 102) && !is_readable(p);

	munmap(p, page);
	return has;
}

int set_option(const char *name, const char *value)
{
	auto set = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "slub_option_set");

	return set ? set(name, value) : -ENOSYS;
}

// What was freed is filled, and nothing of the library's own is in a new block, to its last byte.
// The first test: memory that had another use before may have anything in it.
TEST(HardenedNew, is_zeros_where_all_of_it_is_filled)
{
	for (size_t bytes = 1; bytes <= 128; bytes++)
		for (int i = 0; i < 100; i++) {
			auto *volatile p = (char *)malloc(bytes);

			for (size_t at = 0; at < bytes; at++)
				ASSERT_EQ(p[at], 0) << bytes << ", " << at;
			memset(p, 'x', bytes);
			free(p);
		}
}

TEST(HardenedLarge, a_pair_makes_no_system_call)
{
	for (size_t bytes : sizes) {
		int end = end_of([=] {
			pairs(bytes, 100);
			forbid_calls();
			pairs(bytes, 1000);
		});

		if (end == 77)
			GTEST_SKIP() << "no filter of system calls";
		EXPECT_EQ(end, 0) << bytes;
	}
	EXPECT_EQ(end_of([] {
			for (int i = 0; i < 100; i++) {
				pairs(40000, 1);
				pairs(100000, 2);
			}
			forbid_calls();
			for (int i = 0; i < 1000; i++) {
				pairs(40000, 2);
				pairs(100000, 1);
			}
		}), 0);
}

TEST(HardenedLarge, lies_between_closed_pages)
{
	for (size_t bytes : sizes) {
		pairs(bytes, 100);
		for (int i = 0; i < 20; i++) {
			char *p = (char *)malloc(bytes);

			EXPECT_TRUE(is_readable(p) && is_readable(p + bytes - 1)) << bytes;
			EXPECT_FALSE(is_readable(p - 1)) << bytes;
			EXPECT_FALSE(is_readable(p + (bytes + page - 1) / page * page)) << bytes;
			free(p);
		}
	}
	// Of one class each, but not of so many pages.
	for (int i = 0; i < 400; i++) {
		size_t bytes = 68000 + i % 8 * 1024;
		char *p = (char *)malloc(bytes);

		memset(p, 'x', bytes);
		EXPECT_FALSE(is_readable(p - 1)) << bytes;
		EXPECT_FALSE(is_readable(p + (bytes + page - 1) / page * page)) << bytes;
		free(p);
	}
}

TEST(HardenedLarge, cannot_be_touched_once_it_is_free)
{
	for (size_t bytes : { 52000, 130000 }) {
		char *volatile p = (char *)malloc(bytes);

		memset(p, 'x', bytes);
		free(p);
		EXPECT_FALSE(is_readable(p)) << bytes;
	}
}

TEST(HardenedLarge, few_of_the_free_can_be_touched)
{
	for (size_t bytes : sizes) {
		// Behind more than the quarantine holds they are free memory again.
		std::vector<char *> all(std::min((size_t)100, (12u << 20) / bytes));
		size_t nr = 0;

		pairs(bytes, 100);
		for (char *&p : all)
			p = (char *)malloc(bytes);
		for (char *p : all)
			free(p);
		for (char *p : all)
			nr += is_readable(p);
		EXPECT_LE(nr, std::min(ready_most, ready_bytes / bytes)) << bytes;
	}
}

TEST(HardenedLarge, what_was_just_freed_is_not_the_next)
{
	std::set<void *> seen;

	pairs(40000, 100);
	for (int i = 0; i < 1000; i++) {
		void *p = malloc(40000), *q;

		free(p);
		q = malloc(40000);
		EXPECT_NE(q, p);
		seen.insert(q);
		free(q);
	}
	EXPECT_GE(seen.size(), 4u);
}

TEST(HardenedLarge, calloc_gives_zeros)
{
	for (size_t bytes : sizes) {
		for (int i = 0; i < 100; i++) {
			char *p = (char *)calloc(1, bytes);

			ASSERT_EQ(std::count(p, p + bytes, 0), (ptrdiff_t)bytes) << bytes;
			memset(p, 'x', bytes);
			free(p);
		}
	}
}

// To what may be one of the four that are ready, then until each was handed out.
void write_after_free()
{
	char *volatile p = (char *)malloc(40000);

	free(p);
	if (!is_readable(p))
		_exit(3);
	p[100] = 'x';
	for (int i = 0; i < 2000; i++) {
		char *volatile q = (char *)malloc(40000);

		if (q == p)
			_exit(4);
		free(q);
	}
}

TEST(HardenedLarge, a_write_after_free_is_found)
{
	pairs(40000, 100);
	EXPECT_EQ(end_of([] {
			fclose(stderr);
			write_after_free();
		}), 1000 + SIGABRT);
	// What was damaged is handed out to nobody.
	EXPECT_EQ(end_of([] {
			fclose(stderr);
			if (set_option("on_error", "report"))
				_exit(5);
			write_after_free();
		}), 0);
}

TEST(HardenedLarge, realloc_moves_the_fence)
{
	for (int i = 0; i < 100; i++) {
		char *p = (char *)malloc(200000);

		memset(p, 'x', 200000);
		p = (char *)realloc(p, 190000);
		EXPECT_FALSE(is_readable(p + (190000 + page - 1) / page * page));
		p = (char *)realloc(p, 198000);
		EXPECT_FALSE(is_readable(p + (198000 + page - 1) / page * page));
		memset(p + 190000, 'y', 8000);
		EXPECT_EQ(std::count(p, p + 190000, 'x'), 190000);
		free(p);
	}
}

TEST(HardenedLarge, many_blocks_take_few_mappings)
{
	std::vector<char *> all(1000);
	int before = nr_mappings();

	if (!has_guard_pages())
		GTEST_SKIP() << "no guard pages before Linux 6.13";
	for (char *&p : all) {
		p = (char *)malloc(40000);
		p[0] = p[39999] = 'x';
	}
	EXPECT_LE(nr_mappings() - before, 100);
	for (char *p : all) {
		EXPECT_FALSE(is_readable(p - 1));
		EXPECT_FALSE(is_readable(p + 40960));
	}
	// The child's lie between closed pages, too.
	EXPECT_EQ(end_of([&] { all[500][-1] = 'x'; }), 1000 + SIGSEGV);
	for (char *p : all)
		free(p);
}

TEST(HardenedLarge, threads_get_blocks_of_their_own)
{
	auto run = [](char mark) {
		for (int i = 0; i < 3000; i++) {
			size_t bytes = sizes[i % 3], other = sizes[i * 7 % 4];
			char *p = (char *)malloc(bytes), *q = (char *)malloc(other);

			p[0] = p[bytes - 1] = q[0] = q[other - 1] = mark;
			if (p[0] != mark || p[bytes - 1] != mark || q[0] != mark ||
			    q[other - 1] != mark)
				abort();
			free(p);
			free(q);
		}
	};
	std::thread one(run, 'a'), two(run, 'b');

	one.join();
	two.join();
}

TEST(HardenedLarge, goes_where_memory_is_short)
{
	size_t bytes = 900000;

	EXPECT_EQ(end_of([=] {
			char text[32];

			pairs(bytes, 100);
			snprintf(text, sizeof(text), "%zu", (size_t)24 << 20);
			if (set_option("limit", text))
				_exit(5);
			// With what waits and what is ready these are more.
			for (int i = 0; i < 20; i++) {
				if (!malloc(bytes))
					_exit(6);
			}
		}), 0);
}

TEST(HardenedNoSize, cannot_be_touched)
{
	std::vector<char *> all(900);
	std::set<char *> places, first;

	for (int round = 0; round < 3; round++) {
		places.clear();
		for (char *&p : all) {
			p = (char *)malloc(0);
			EXPECT_FALSE(is_readable(p) || is_readable(p - 1)) << round;
			places.insert(p);
		}
		EXPECT_EQ(places.size(), all.size());
		for (char *p : all)
			free(p);
	}
	// Nobody gets one of them again before many others.
	for (int i = 0; i < 400; i++) {
		char *volatile p = (char *)malloc(0);

		EXPECT_TRUE(first.insert((char *)p).second) << i;
		free(p);
	}
	EXPECT_EQ(end_of([] { *(volatile char *)malloc(0) = 'x'; }), 1000 + SIGSEGV);
	EXPECT_EQ(end_of([] {
			free(malloc(0)); // asks once whether a page of the stack is there
			forbid_calls();
			for (int i = 0; i < 2000; i++)
				free(malloc(0));
		}) % 77, 0);
}

__attribute__((noinline)) void free_one(char *p)
{
	free(p);
	__asm__ volatile("" ::: "memory");
}

TEST(HardenedNoSize, a_second_free_names_the_callers)
{
	int ends[2];
	std::string said(4096, 0);

	ASSERT_EQ(pipe(ends), 0);
	EXPECT_EQ(end_of([&] {
			char *volatile p = (char *)malloc(0);

			dup2(ends[1], STDERR_FILENO);
			free_one(p);
			free_one(p);
		}), 1000 + SIGABRT);
	said.resize((size_t)std::max<ssize_t>(read(ends[0], &said[0], said.size()), 0));
	for (const char *words : { "double free", ", allocated by thread ", ", freed by thread " })
		EXPECT_NE(said.find(words), said.npos) << said;
	// The test allocates, and the test frees.
	size_t at = said.find(", allocated by thread ");
	EXPECT_NE(said.find("hardened_large_test", at), said.npos) << said;
	close(ends[0]);
	close(ends[1]);
}

// A page that stays closed is of a block that stays out of use, and of nothing else.
TEST(HardenedLargeAgain, pages_that_the_kernel_does_not_open_again)
{
	int end = end_of([] {
		std::vector<void *> blocks;

		free(malloc(33000)); // asks once whether there are guard pages
		close_for_ever();
		for (size_t round = 0; round < 4; round++) {
			for (size_t bytes = 33000; bytes < 400000; bytes += 4096)
				blocks.push_back(memset(malloc(bytes), 1, bytes));
			for (void *p : blocks)
				free(p);
			blocks.clear();
			malloc_trim(0);
			for (int i = 0; i < 20000; i++)
				blocks.push_back(memset(malloc(1280), 1, 1280));
			for (void *p : blocks)
				free(p);
			blocks.clear();
		}
	});

	EXPECT_EQ(end % 77, 0);
}

TEST(HardenedLargeAgain, without_guard_pages)
{
	int end = end_of([] {
		forbid_guard_pages();
		execl("/proc/self/exe", "again", "--gtest_filter=HardenedLarge.*",
		      "--gtest_brief=1", nullptr);
	});

	if (end == 77)
		GTEST_SKIP() << "no filter of system calls";
	EXPECT_EQ(end, 0);
}

} // namespace
