/* SPDX-License-Identifier: MIT */
/* What bench/scale counts of accesses that are known one by one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "core/os/os.h"

#include "bench/scale/scale.h"

#define CPUS 4
#define ROUNDS 100

/* A line for each, and one for all. */
static struct {
	uint64_t word align_to(64);
} own[CPUS], shared, counted, published;
static struct lock lock align_to(64) = LOCK_INIT;
static struct double_word pair align_to(64);
static int failed;

static void expect(enum event event, double wanted, const char *what)
{
	double found = shadow_total(event);

	if (found == wanted)
		return;
	shadow_is_on = false;	/* what printing allocates */
	printf("%s: %s is %.1f, not %.1f\n", what, event_names[event], found, wanted);
	failed = 1;
}

static void store(uint64_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELAXED);
}

static void begin(void)
{
	shadow_is_on = false;
	shadow_reset();
	for (uint32_t cpu = 0; cpu < CPUS; cpu++)
		machine.clock_ns[cpu] = 1e6;
	shadow_is_on = true;
}

/* Nobody else's lines: neither words nor lines are shared. */
static void test_own(void)
{
	begin();
	for (uint32_t i = 0; i < ROUNDS * CPUS; i++) {
		machine_enter(i % CPUS);
		store(&own[i % CPUS].word);
	}
	expect(EVENT_STORE_SHARED, 0, "own lines");
	expect(EVENT_TRANSFER, 0, "own lines");
	expect(EVENT_REMOTE_NS, 0, "own lines");
}

/* All but the first store find that another CPU has stored before. */
static void test_shared(void)
{
	begin();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		machine_enter(i % CPUS);
		store(&shared.word);
	}
	expect(EVENT_STORE_SHARED, ROUNDS - 1, "stores in turn");
	expect(EVENT_TRANSFER, ROUNDS - 1, "stores in turn");
	expect(EVENT_RMW, 0, "stores in turn");
	begin();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		machine_enter(i % CPUS);
		__atomic_fetch_add(&counted.word, 1, __ATOMIC_RELAXED);
	}
	expect(EVENT_RMW, ROUNDS, "additions in turn");
	expect(EVENT_RMW_SHARED, ROUNDS - 1, "additions in turn");
	expect(EVENT_TRANSFER, ROUNDS - 1, "additions in turn");
	if (counted.word != ROUNDS)
		printf("additions: %lu\n", (unsigned long)counted.word), failed = 1;
}

/* A reader fetches a line once; the next write takes it from all readers at once. */
static void test_readers(void)
{
	begin();
	machine_enter(0);
	store(&published.word);
	for (uint32_t i = 0; i < ROUNDS * CPUS; i++) {
		machine_enter(i % CPUS);
		(void)__atomic_load_n(&published.word, __ATOMIC_RELAXED);
	}
	expect(EVENT_TRANSFER, CPUS - 1, "readers");
	machine_enter(0);
	store(&published.word);
	store(&published.word);
	expect(EVENT_TRANSFER, CPUS, "two writes behind readers");
	machine_enter(1);
	(void)__atomic_load_n(&published.word, __ATOMIC_RELAXED);
	expect(EVENT_TRANSFER, CPUS + 1, "a reader behind them");
}

static void take_and_give(uint32_t cpu, double held_ns)
{
	machine_enter(cpu);
	lock_acquire(&lock);
	*machine_clock() += held_ns;
	lock_release(&lock);
}

static void test_lock(void)
{
	begin();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		machine.clock_ns[i % 2] = 2e6 + i * 1e4;
		take_and_give(i % 2, 100);
	}
	expect(EVENT_LOCK, ROUNDS, "a lock in turn");
	expect(EVENT_LOCK_MOVED, ROUNDS - 1, "a lock in turn");
	expect(EVENT_LOCK_WAIT, 0, "a lock in turn");
	expect(EVENT_RMW, 2 * ROUNDS, "a lock in turn");
	begin();
	/* CPU 0 has it from 4 ms to 4.01, CPU 1 comes in the middle of that, and CPU 2 before. */
	machine.clock_ns[0] = 4e6;
	machine.clock_ns[1] = 4.005e6;
	machine.clock_ns[2] = 3.5e6;
	take_and_give(0, 1e4);
	take_and_give(1, 1e4);
	take_and_give(2, 1e4);
	expect(EVENT_LOCK_WAIT, 1, "a lock that is held");
	if (machine.clock_ns[1] < 4.02e6 || machine.clock_ns[2] > 3.6e6)
		printf("clocks: %.0f %.0f\n", machine.clock_ns[1], machine.clock_ns[2]), failed = 1;
}

static void test_calls(void)
{
	char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct double_word old = { 0, 0 }, new = { 1, 2 };

	begin();
	machine.nr_active = CPUS;
	machine_enter(1);
	os_barrier_rseq();
	expect(EVENT_BARRIER, 1, "a barrier");
	expect(EVENT_STOP, CPUS - 1, "a barrier");
	memory[0] = 1;
	os_purge(memory, 8192);
	expect(EVENT_MADVISE, 1, "a purge");
	expect(EVENT_STOP, 2 * (CPUS - 1), "a purge");
	if (memory[0])
		printf("os_purge did nothing\n"), failed = 1;
	begin();
	if (!double_word_exchange(&pair, &old, new) || pair.second != 2)
		printf("no exchange\n"), failed = 1;
	expect(EVENT_RMW, 1, "an exchange of two words");
}

/* Before the library starts: it asks for the machine. */
static void machine_set(void)
{
	machine.nr_cpus = CPUS;
	machine_enter(0);
}

__attribute__((section(".preinit_array"), used)) static void (*const set_first)(void) = machine_set;

int main(void)
{
	shadow_init();
	test_own();
	test_shared();
	test_readers();
	test_lock();
	test_calls();
	return failed;
}
