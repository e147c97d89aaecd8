/* SPDX-License-Identifier: MIT */
/*
 * The start on machines that few have: nodes and CPUs by the hundred, with and without a limit on
 * the address space; and starts that fail, of which nothing may be left.
 *
 * The program has os/numa.c and os/cpu.c of its own, so the machine is what the test says.  Each
 * machine is a process.
 */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Each refill is of the next node. */
uint32_t os_nr_nodes = 2;	/* any but one: it is asked */

uint32_t os_node_ask(void)
{
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

int os_cpu_pin(void)
{
	return 0;
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

static int act()
{
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
