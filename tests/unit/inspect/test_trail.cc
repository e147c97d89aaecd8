/* SPDX-License-Identifier: MIT */
/*
 * features/profile/profile_trail.c, and its reader in the command, tools/slub/profile_trail.c:
 * here both are in one process, and the reader's pread(2) is the test's, which writes between two
 * reads.
 */
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "slub.h"

extern "C" {
#include "features/profile/profile_trail.h"
#include "profile_trail.h"

ssize_t __real_pread(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at);
size_t __real_stack_copy(void *to, size_t bytes, uintptr_t from, bool *is_whole);
size_t __wrap_stack_copy(void *to, size_t bytes, uintptr_t from, bool *is_whole);
}

static std::function<void(uint64_t address, size_t bytes)> behind_a_read;
/* While a trail is written. */
static std::function<void()> in_a_write;

ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at)
{
	ssize_t got = __real_pread(fd, to, bytes, at);

	if (behind_a_read)
		behind_a_read((uint64_t)at, bytes);
	return got;
}

size_t __wrap_stack_copy(void *to, size_t bytes, uintptr_t from, bool *is_whole)
{
	if (in_a_write)
		in_a_write();
	return __real_stack_copy(to, bytes, from, is_whole);
}

namespace {

class trail : public testing::Test {
protected:
	void SetUp() override
	{
		if (!trails_begin())
			GTEST_SKIP() << "no registers are known of this CPU";
		memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		ASSERT_GE(memory, 0);
		ASSERT_TRUE(trail_reader_open(&reader, memory, (uintptr_t)&trail_ring));
	}
	void TearDown() override
	{
		behind_a_read = nullptr;
		trail_reader_close(&reader);
		close(memory);
		trails_end();
	}
	/* Returns the number. */
	static uint64_t write(uint64_t bytes = 0)
	{
		uint64_t number = trail_draw();

		trail_write(number, 7, 256, bytes);
		return number;
	}
	static struct profile_trail *slot(uint64_t number)
	{
		return (struct profile_trail *)(trail_ring.slots + number % TRAIL_SLOTS *
						TRAIL_SLOT_BYTES);
	}

	struct trail_reader reader = {};
	int memory = -1;
};

/* qemu-user has no process_vm_readv(2), and some sandboxes forbid it: then no copy is made. */
bool can_copy()
{
	char from = 1, to = 0;
	struct iovec local = { &to, 1 }, remote = { &from, 1 };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

TEST_F(trail, what_is_written_is_read)
{
	volatile uint64_t marker = 0x1122334455667788;
	const struct profile_trail *taken;
	uint64_t number, sp, copied;

	ASSERT_EQ(trail_take(&reader, true), nullptr);
	number = write(123);
	taken = trail_take(&reader, false);
	ASSERT_NE(taken, nullptr);
	EXPECT_EQ(taken->state, 2 * number);
	EXPECT_EQ(taken->bytes, 123u);
	EXPECT_EQ(taken->weight, 256u);
	EXPECT_EQ(taken->site_stack, 7u);
	EXPECT_TRUE(taken->known >> taken->sp & 1);
	EXPECT_LT(taken->pc - (uintptr_t)trail_write, 4096u);
	sp = taken->registers[taken->sp];
	ASSERT_LT((uintptr_t)&marker - sp, 4096u);
	if (!can_copy())
		GTEST_SKIP() << "the kernel reads no memory for a process";
	ASSERT_LT((uintptr_t)&marker - sp, taken->copy_bytes - sizeof(copied));
	memcpy(&copied, taken->copy + ((uintptr_t)&marker - sp), sizeof(copied));
	EXPECT_EQ(copied, marker);
	EXPECT_EQ(trail_take(&reader, true), nullptr);
	EXPECT_EQ(reader.nr_taken, 1u);
	EXPECT_EQ(reader.nr_lost, 0u);
}

/* Odd meanwhile: nobody takes it, and nobody else writes there. */
TEST_F(trail, its_state_while_it_is_written)
{
	uint64_t number, states[3] = {};

	trail_ring.drawn += 1000;
	trail_ring.read += 1000;
	number = trail_draw();
	in_a_write = [&] {
		states[0] = slot(number)->state;
		in_a_write = nullptr;
		trail_write(number + TRAIL_SLOTS, 9, 9, 9);
		states[1] = slot(number)->state;
	};
	trail_write(number, 7, 256, 5);
	states[2] = slot(number)->state;
	EXPECT_EQ(states[0], 2 * number + 1);
	EXPECT_EQ(states[1], 2 * number + 1);
	EXPECT_EQ(states[2], 2 * number);
	EXPECT_EQ(slot(number)->site_stack, 7u);
	EXPECT_EQ(slot(number)->bytes, 5u);
	/* An older one does not take the place of a newer. */
	trail_write(number - TRAIL_SLOTS, 8, 8, 8);
	EXPECT_EQ(slot(number)->state, 2 * number);
	EXPECT_EQ(slot(number)->site_stack, 7u);
}

TEST_F(trail, the_reader_may_be_so_far_behind)
{
	uint64_t number = trail_draw();

	trail_ring.read = number + 1 - TRAIL_BEHIND_MAX;
	EXPECT_EQ(trail_draw(), number + 1);
	EXPECT_TRUE(trails_are_on());
	EXPECT_EQ(trail_draw(), 0u);
	EXPECT_FALSE(trails_are_on());
}

TEST_F(trail, nothing_while_the_ring_is_off)
{
	trails_end();
	EXPECT_EQ(trail_draw(), 0u);
	ASSERT_NE(trails_begin(), nullptr);
	EXPECT_NE(trail_draw(), 0u);
}

/* The oldest go first, and the reader says how many. */
TEST_F(trail, overwritten_ones_are_counted)
{
	uint64_t first = write(), last = first;
	const struct profile_trail *taken;

	while (last < first + TRAIL_SLOTS + 43)
		last = write();
	for (uint64_t n = first + 44; n <= last; n++) {
		taken = trail_take(&reader, false);
		ASSERT_NE(taken, nullptr) << n;
		ASSERT_EQ(taken->state, 2 * n);
	}
	EXPECT_EQ(trail_take(&reader, true), nullptr);
	EXPECT_EQ(reader.nr_lost, 44u);
	EXPECT_EQ(reader.nr_taken, (uint64_t)TRAIL_SLOTS);
}

/* Overwritten between the reader's first look and its last: TRAIL-1. */
TEST_F(trail, a_torn_one_is_not_taken)
{
	uint64_t torn = write(), good = 0;
	bool is_done = false;

	behind_a_read = [&](uint64_t address, size_t) {
		if (!is_done && address == (uintptr_t)slot(torn)->copy) {
			is_done = true;
			for (int i = 0; i < TRAIL_SLOTS; i++)
				good = write();
		}
	};
	EXPECT_EQ(trail_take(&reader, false), nullptr);
	EXPECT_TRUE(is_done);
	EXPECT_EQ(reader.nr_lost, 1u);
	EXPECT_EQ(good, torn + TRAIL_SLOTS);
	for (uint64_t n = torn + 1; n <= good; n++) {
		const struct profile_trail *taken = trail_take(&reader, false);
		ASSERT_NE(taken, nullptr);
		ASSERT_EQ(taken->state, 2 * n);
	}
}

/* One that is being written comes later, and holds up no other. */
TEST_F(trail, an_unfinished_one_comes_later)
{
	uint64_t number = trail_draw(), next = write();
	const struct profile_trail *taken;

	slot(number)->state = 2 * number + 1;
	taken = trail_take(&reader, false);
	ASSERT_NE(taken, nullptr);
	EXPECT_EQ(taken->state, 2 * next);
	EXPECT_EQ(trail_take(&reader, false), nullptr);
	slot(number)->state = 0;
	EXPECT_EQ(trail_take(&reader, false), nullptr);
	trail_write(number, 7, 256, 0);
	taken = trail_take(&reader, false);
	ASSERT_NE(taken, nullptr);
	EXPECT_EQ(taken->state, 2 * number);
	EXPECT_EQ(trail_take(&reader, true), nullptr);
	EXPECT_EQ(reader.nr_lost, 0u);
}

/* It is lost when its slot has another one, or nobody waits any more. */
TEST_F(trail, one_that_never_comes_is_lost)
{
	uint64_t number = trail_draw();

	EXPECT_EQ(trail_take(&reader, false), nullptr);
	EXPECT_EQ(reader.nr_lost, 0u);
	for (int i = 0; i < TRAIL_SLOTS; i++)
		write();
	for (int i = 0; i < TRAIL_SLOTS; i++)
		ASSERT_NE(trail_take(&reader, false), nullptr);
	EXPECT_EQ(reader.nr_lost, 1u);
	EXPECT_EQ(reader.next - 1, number + TRAIL_SLOTS);
	trail_draw();
	EXPECT_EQ(trail_take(&reader, false), nullptr);
	EXPECT_EQ(reader.nr_lost, 1u);
	EXPECT_EQ(trail_take(&reader, true), nullptr) << "the last look waits for nothing";
	EXPECT_EQ(reader.nr_lost, 2u);
}

TEST_F(trail, many_that_never_come_are_lost)
{
	uint64_t written;

	for (int i = 0; i < 2 * TRAILS_EARLY_MAX; i++)
		trail_draw();
	written = write();
	const struct profile_trail *taken = trail_take(&reader, false);
	ASSERT_NE(taken, nullptr);
	EXPECT_EQ(taken->state, 2 * written);
	EXPECT_EQ(reader.nr_lost, (uint64_t)TRAILS_EARLY_MAX);
	EXPECT_EQ(trail_take(&reader, true), nullptr);
	EXPECT_EQ(reader.nr_lost, 2u * TRAILS_EARLY_MAX);
}

/* A reader that looks keeps the ring on, and one that was killed does not. */
TEST_F(trail, without_a_reader_the_ring_goes_off)
{
	for (int i = 0; i < TRAIL_BEHIND_MAX; i++)
		ASSERT_NE(trail_draw(), 0u);
	trail_take(&reader, true);	/* loses all of them */
	EXPECT_EQ(trail_take(&reader, true), nullptr);
	for (int i = 0; i < TRAIL_BEHIND_MAX; i++)
		ASSERT_NE(trail_draw(), 0u);
	EXPECT_EQ(trail_draw(), 0u);
	EXPECT_FALSE(trails_are_on());
}

/* One that never catches up is none that was killed. */
TEST_F(trail, a_reader_that_is_behind_keeps_the_ring_on)
{
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < TRAIL_BEHIND_MAX / 2; i++)
			ASSERT_NE(trail_draw(), 0u);
		write();
		uint64_t last = write();
		const struct profile_trail *taken = trail_take(&reader, false);
		ASSERT_NE(taken, nullptr);
		EXPECT_EQ(taken->state, 2 * (last - 1));
		EXPECT_EQ(trail_ring.read, last - 1);
	}
	EXPECT_TRUE(trails_are_on());
}

/* A thread that finds another one in its slot leaves it alone. */
TEST_F(trail, two_do_not_write_one_slot)
{
	uint64_t number = trail_draw();
	struct profile_trail *there = slot(number);
	uint64_t busy = 2 * (number + 5 * TRAIL_SLOTS) + 1;

	there->bytes = 99;
	for (uint64_t state : { busy, busy - 1 }) {
		there->state = state;
		trail_write(number, 7, 256, 1);
		EXPECT_EQ(there->state, state);
		EXPECT_EQ(there->bytes, 99u);
	}
}

/* Here the ring goes off and on while the trail is written: nothing of it is whole. */
TEST_F(trail, one_that_lost_its_slot_is_not_whole)
{
	uint64_t number = trail_draw();
	struct profile_trail *there = slot(number);
	uint64_t other = 2 * (number + TRAIL_SLOTS) + 1;

	in_a_write = [&] { there->state = other; };
	trail_write(number, 7, 256, 1);
	in_a_write = nullptr;
	EXPECT_EQ(there->state, other);
	EXPECT_EQ(trail_take(&reader, true), nullptr);
}

/* What a reader must not trust: it may be another program's memory. */
TEST_F(trail, nonsense_is_lost)
{
	uint64_t number = write();

	slot(number)->copy_bytes = TRAIL_COPY_MAX + 1;
	EXPECT_EQ(trail_take(&reader, false), nullptr);
	number = write();
	slot(number)->sp = TRAIL_REGISTERS;
	EXPECT_EQ(trail_take(&reader, false), nullptr);
	EXPECT_EQ(reader.nr_lost, 2u);
}

/* Where a stack begins and ends, as the C library says. */
struct stack_of {
	uintptr_t low, high;
};

struct stack_of this_stack()
{
	pthread_attr_t attributes;
	void *low = nullptr;
	size_t bytes = 0;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &bytes);
	pthread_attr_destroy(&attributes);
	return { (uintptr_t)low, (uintptr_t)low + bytes };
}

TEST_F(trail, a_copy_ends_where_the_stack_does)
{
	if (!can_copy())
		GTEST_SKIP() << "the kernel reads no memory for a process";
	auto body = [](void *arg) -> void * {
		auto *reader = (struct trail_reader *)arg;
		struct stack_of stack = this_stack();

		write();
		const struct profile_trail *taken = trail_take(reader, true);
		EXPECT_NE(taken, nullptr);
		if (!taken)
			return nullptr;
		uintptr_t sp = taken->registers[taken->sp];
		EXPECT_GE(sp, stack.low);
		EXPECT_LE(sp + taken->copy_bytes, stack.high);
		EXPECT_TRUE(taken->flags & TRAIL_IS_WHOLE);
		EXPECT_GT(taken->copy_bytes, sizeof(void *));
		return nullptr;
	};
	pthread_t thread;

	ASSERT_EQ(pthread_create(&thread, nullptr, body, &reader), 0);
	pthread_join(thread, nullptr);
}

__attribute__((__noinline__)) void write_far_down(volatile char *above)
{
	volatile char room[100000];

	room[0] = *above;
	trail_write(trail_draw(), 7, 256, 0);
	*above = room[0];
}

TEST_F(trail, a_deep_stack_is_copied_in_part)
{
	if (!can_copy())
		GTEST_SKIP() << "the kernel reads no memory for a process";
	volatile char above = 1;

	write_far_down(&above);
	const struct profile_trail *taken = trail_take(&reader, true);
	ASSERT_NE(taken, nullptr);
	EXPECT_EQ(taken->copy_bytes, TRAIL_COPY_MAX);
	EXPECT_FALSE(taken->flags & TRAIL_IS_WHOLE);
}

/* A stack of the program's making, with nothing behind it, and with memory behind it. */
TEST_F(trail, a_coroutine_s_copy_ends_where_its_pages_do)
{
	static ucontext_t here, there;
	const size_t page = 4096, bytes = 4 * page;
	void *memory = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t end = (uintptr_t)memory + bytes;

	if (!can_copy())
		GTEST_SKIP() << "the kernel reads no memory for a process";
	ASSERT_NE(memory, MAP_FAILED);
	for (bool is_closed : { false, true }) {
		if (is_closed) {
			ASSERT_EQ(mprotect((void *)end, page, PROT_NONE), 0);
		}
		ASSERT_EQ(getcontext(&there), 0);
		there.uc_stack.ss_sp = memory;
		there.uc_stack.ss_size = bytes;
		there.uc_link = &here;
		makecontext(&there, [] { trail_write(trail_draw(), 7, 256, 0); }, 0);
		ASSERT_EQ(swapcontext(&here, &there), 0);
		const struct profile_trail *taken = trail_take(&reader, true);
		ASSERT_NE(taken, nullptr);
		uintptr_t sp = taken->registers[taken->sp];
		ASSERT_GE(sp, (uintptr_t)memory);
		ASSERT_LT(sp, end);
		EXPECT_GE(taken->copy_bytes, end - sp);
		if (is_closed) {
			EXPECT_EQ(taken->copy_bytes, end - sp);
		}
	}
	munmap(memory, bytes + page);
}

TEST_F(trail, a_child_begins_without)
{
	int status = 0;
	pid_t child = fork();

	if (!child)
		_exit(trails_are_on() || trail_draw());
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_TRUE(trails_are_on());
}

} /* namespace */
