/* SPDX-License-Identifier: MIT */
/*
 * The start on machines that few have: nodes and CPUs by the hundred, with and without a limit on
 * the address space; and starts that fail, of which nothing may be left.
 *
 * The program has core/os/numa.c and core/os/cpu.c of its own, so the machine is what the test
 * says.  Each machine is a process.
 */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <slub/control.h>

#include "harness.h"
#include "slub.h"

static uint32_t nr_nodes = 1, nr_cpus = 1, turn;

static uint32_t number(const char *name, uint32_t otherwise)
{
	const char *text = getenv(name);

	return text ? (uint32_t)strtoul(text, nullptr, 10) : otherwise;
}

extern "C" {

uint32_t os_nodes_read(void)
{
	return nr_nodes;
}

/* Each refill is of the next node, but where a test says of which. */
static int wanted_node = -1;
uint32_t os_nr_nodes = 2;	/* any but one: it is asked */

uint32_t os_node_ask(void)
{
	if (wanted_node >= 0)
		return (uint32_t)wanted_node;
	return __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % nr_nodes;
}

bool os_node_bind(void *, size_t, uint32_t)
{
	return true;
}

uint32_t os_cpus_possible(void)
{
	return nr_cpus;
}

void os_cpus_read(struct os_cpus *cpus)
{
	cpus->possible = nr_cpus;
	cpus->allowed = nr_cpus;
}

uint32_t os_cpu_current(void)
{
	return (uint32_t)sched_getcpu();
}

void os_cpu_pin(void)
{
}

}

static void limit_set(size_t bytes)
{
	const struct rlimit limit = { bytes, RLIM_INFINITY };

	setrlimit(RLIMIT_AS, &limit);
}

/* Before all constructors: the first start is to find no room at all. */
static void machine_set(int, char **, char **environment)
{
	environ = environment;
	nr_nodes = number("TEST_NODES", 1);
	nr_cpus = number("TEST_CPUS", 1);
	if (number("TEST_FAILS", 0))
		limit_set(1);
}

__attribute__((section(".preinit_array"), used))
static void (*const set_first)(int, char **, char **) = machine_set;

/* All mappings, without any of its own. */
static size_t maps_read(char *buf, size_t size)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t used = 0;

	for (ssize_t n; (n = read(fd, buf + used, size - used)) > 0; used += (size_t)n)
		;
	close(fd);
	return used;
}

static size_t mapped_bytes()
{
	size_t pages = 0;
	char text[256];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	text[read(fd, text, sizeof(text) - 1)] = '\0';
	close(fd);
	pages = strtoul(text, nullptr, 10);
	return pages * 4096;
}

/* More and more room, until the start succeeds; each before left nothing behind. */
static int fail_until_it_starts()
{
	static char before[1 << 16], after[1 << 16];
	unsigned failed = 0;

	limit_set(RLIM_INFINITY);
	size_t from = mapped_bytes(), n = maps_read(before, sizeof(before));
	for (;; failed++) {
		limit_set(from + failed * 65536);
		if (slub_start())
			break;
		limit_set(RLIM_INFINITY);
		if (maps_read(after, sizeof(after)) != n || memcmp(before, after, n) != 0)
			return 10;
		if (cache_first())
			return 11;
	}
	limit_set(RLIM_INFINITY);
	return failed > 20 ? 0 : 12;
}

/* Behind the library's constructor, before those that allocate. */
static int fail_status;

__attribute__((constructor(102))) static void fail_first()
{
	if (number("TEST_FAILS", 0))
		fail_status = fail_until_it_starts();
}

static int serve()
{
	static void *blocks[20000];
	size_t nr_caches = 0;

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 20000; i++) {
			size_t bytes = 16 + i % 700 * 8;

			blocks[i] = malloc(bytes);
			if (!blocks[i])
				return 21;
			memset(blocks[i], (int)i, bytes);
		}
		for (size_t i = 0; i < 20000; i++) {
			if (*(unsigned char *)blocks[i] != (unsigned char)i)
				return 22;
			free(blocks[i]);
		}
		slab_shrink_all();
	}
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c))
		if (++nr_caches > 1000)
			return 20;	/* it goes round */
	printf("%u nodes, %u CPUs: %zu KiB of metadata, %zu caches\n", nr_nodes, nr_cpus,
	       meta_used_bytes() >> 10, nr_caches);
	return nr_caches < 40 ? 23 : 0;
}

struct block {
	char *start;
	size_t bytes;
};

/* Blocks, runs and objects of all sizes, written. */
static std::vector<block> fill(uint32_t node)
{
	std::vector<block> all;

	wanted_node = (int)node;
	all.reserve(6 * 200);
	for (size_t bytes : { (size_t)64, (size_t)700, (size_t)8192, (size_t)100000,
			      (size_t)300000, (size_t)5 << 20 })
		for (size_t i = 0; i < (bytes < 100000 ? 200 : 5); i++) {
			char *start = (char *)malloc(bytes);

			memset(start, 1, bytes);
			/* Of a list it may be another node's. */
			if (page_node(page_of(start)) == node)
				all.push_back({ start, bytes });
			else
				free(start);
		}
	wanted_node = -1;
	return all;
}

/* How many of the whole pages in it have memory behind them. */
static size_t nr_resident(const std::vector<block> &all, size_t *nr_pages)
{
	size_t nr = 0;

	*nr_pages = 0;
	for (const block &it : all) {
		uintptr_t from = round_up((uintptr_t)it.start, 4096);
		uintptr_t to = round_down((uintptr_t)it.start + it.bytes, 4096);
		unsigned char is_there[5 << 8];

		if (from >= to)
			continue;
		mincore((void *)from, to - from, is_there);
		for (size_t i = 0; i < (to - from) / 4096; i++)
			nr += is_there[i] & 1;
		*nr_pages += (to - from) / 4096;
	}
	return nr;
}

static int shrink_one_by_one()
{
	std::vector<block> of[3];
	size_t pages, before[3];

	if (slub_node_shrink(3) != -EINVAL || slub_node_shrink(-2) != -EINVAL)
		return 30;
	/* The largest so far is mapped anew at its free, and none up to its size then. */
	free(malloc(8 << 20));
	for (uint32_t node = 0; node < 3; node++)
		of[node] = fill(node);
	for (const std::vector<block> &blocks : of)
		for (const block &it : blocks)
			free(it.start);
	for (uint32_t node = 0; node < 3; node++) {
		before[node] = nr_resident(of[node], &pages);
		printf("node %u: %zu of %zu pages\n", node, before[node], pages);
		if (before[node] < 5 * 1280 || before[node] < pages)
			return 31;
	}
	for (int node : { 1, 0, 2 }) {
		long bytes = slub_node_shrink(node);

		printf("node %d: %ld bytes went\n", node, bytes);
		if (bytes < (long)before[node] * 4096 / 100 * 99)
			return 32;
		/* A slab in use that is being carved keeps its pages. */
		before[node] = nr_resident(of[node], &pages);
		if (before[node] * 100 > pages)
			return 33;
		for (uint32_t n = 0; n < 3; n++)
			if (nr_resident(of[n], &pages) != before[n])
				return 34 + (int)n;
	}
	return slub_node_shrink(SLUB_NODE_ANY) < 0 ? 37 : 0;
}

static int act()
{
	if (number("TEST_SHRINKS", 0))
		return shrink_one_by_one();
	return fail_status ? fail_status : serve();
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--act") == 0)
		return act();
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}

static int run(uint32_t nodes, uint32_t cpus, size_t limit, const char *more = nullptr)
{
	return harness::in_child([=] {
		setenv("TEST_NODES", std::to_string(nodes).c_str(), 1);
		setenv("TEST_CPUS", std::to_string(cpus).c_str(), 1);
		if (more)
			putenv(const_cast<char *>(more));
		if (limit)
			limit_set(limit);
		execl("/proc/self/exe", "machine_test", "--act", nullptr);
		_exit(64);
	}, nullptr, 120);
}

class machine : public testing::Test {
protected:
	void SetUp() override
	{
		if (harness::is_emulated())
			GTEST_SKIP() << "an emulated program cannot start itself again";
	}
};

TEST_F(machine, starts_and_serves)
{
	const struct { uint32_t nodes, cpus; } machines[] = {
		{ 1, 1 }, { 2, 64 }, { 7, 448 }, { 8, 448 }, { 8, 896 }, { 8, 1024 }, { 1, 8192 },
		{ 8, 8192 },
	};

	for (auto &machine : machines)
		EXPECT_EQ(run(machine.nodes, machine.cpus, 0), 0)
			<< machine.nodes << " nodes, " << machine.cpus << " CPUs";
}

TEST_F(machine, starts_under_a_limit)
{
	for (uint32_t cpus : { 2, 448, 896, 1024 })
		for (uint32_t nodes : { 7, 8 }) {
			EXPECT_EQ(run(nodes, cpus, 4000000ul << 10), 0) << nodes << " " << cpus;
			EXPECT_EQ(run(nodes, cpus, 0, "SLUB_ADDRESS_SPACE=1G"), 0)
				<< nodes << " " << cpus;
		}
}

TEST_F(machine, a_start_that_fails_leaves_nothing)
{
	if (!confstr(_CS_GNU_LIBC_VERSION, nullptr, 0))
		GTEST_SKIP() << "musl's dynamic linker starts the library before all this";
	EXPECT_EQ(run(1, 2, 0, "TEST_FAILS=1"), 0);
	EXPECT_EQ(run(8, 448, 0, "TEST_FAILS=1"), 0)
		<< "10: a mapping is left, 11: a cache is, 12: it hardly ever failed";
}

/* Free pages of one node go, and none of another's. */
TEST_F(machine, gives_back_what_lies_free_on_one_node)
{
	setenv("SLUB_RETAIN", "1G", 1);
	/* Of the hardened build: what waits in it is not free yet. */
	setenv("SLUB_LARGE_QUARANTINE", "0", 1);
	EXPECT_EQ(run(3, 4, 0, "TEST_SHRINKS=1"), 0)
		<< "30: a node that there is not; 33: its pages stayed; 34 to 36: another's went";
	unsetenv("SLUB_LARGE_QUARANTINE");
	unsetenv("SLUB_RETAIN");
}
