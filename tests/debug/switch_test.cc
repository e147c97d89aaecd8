// SPDX-License-Identifier: MIT
// Debugging is switched on and off while other threads allocate: no object is lost, handed out
// twice or damaged, none is reported, and those from before are freed as ever.
#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "mailbox.h"
#include <slub/debug.h>

namespace {

const size_t SIZE = 50;

// Allocates, fills, checks and frees until it is told to stop; returns what was damaged.
size_t work(uint64_t seed, std::atomic<bool> *stop)
{
	harness::Random random(seed);
	std::vector<char *> live(200, nullptr);
	size_t damaged = 0;

	while (!*stop) {
		size_t i = random.below(live.size());
		uint64_t key = seed * 1000 + i;

		if (live[i]) {
			damaged += !harness::intact(live[i], SIZE, key);
			free(live[i]);
			live[i] = nullptr;
		} else {
			live[i] = (char *)malloc(SIZE);
			harness::fill(live[i], SIZE, key);
		}
	}
	for (size_t i = 0; i < live.size(); i++) {
		if (live[i])
			damaged += !harness::intact(live[i], SIZE, seed * 1000 + i);
		free(live[i]);
	}
	return damaged;
}

TEST(Switch, under_load_ten_times)
{
	std::atomic<bool> stop(false);
	std::atomic<size_t> damaged(0);
	std::vector<std::thread> threads;
	void *probe = malloc(SIZE);
	struct slub_cache *cache = slub_cache_of(probe);
	std::string name = slub_cache_name(cache);

	for (uint64_t t = 1; t <= 4; t++)
		threads.emplace_back([&, t] { damaged += work(t, &stop); });
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(slub_debug(("FZPU," + name).c_str()), 1);
		usleep(10000);
		EXPECT_EQ(slub_cache_validate(cache), 0);
		ASSERT_EQ(slub_debug(("-," + name).c_str()), 1);
		usleep(10000);
	}
	stop = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(damaged, 0u);
	EXPECT_EQ(slub_cache_errors(cache), 0u);
	EXPECT_EQ(slub_cache_validate(cache), 0);
	free(probe);
}

TEST(Switch, all_new_objects_are_watched)
{
	ASSERT_EQ(slub_debug("FZPU,malloc-80"), 1);
	for (int i = 0; i < 2000; i++) {
		void *p = malloc(70);

		// A watched object has exactly the bytes that were asked for.
		ASSERT_EQ(malloc_usable_size(p), 70u) << i;
		if (i % 3)
			free(p);
	}
	ASSERT_EQ(slub_debug("-,malloc-80"), 1);
	void *p = malloc(70);
	EXPECT_EQ(malloc_usable_size(p), harness::knows_sizes() ? 70u : 80u);
	free(p);
}

TEST(Switch, realloc_keeps_what_was_asked_for)
{
	ASSERT_EQ(slub_debug("FZPU"), slub_debug("-"));
	ASSERT_GT(slub_debug("FZPU,malloc-*"), 70);
	for (size_t size = 1; size < 5000; size += 77) {
		char *p = (char *)malloc(size);

		harness::fill(p, size, 5);
		p = (char *)realloc(p, size + 100);
		EXPECT_TRUE(harness::intact(p, size, 5));
		memset(p, 1, size + 100);
		p = (char *)realloc(p, size / 2 + 1);
		EXPECT_EQ(malloc_usable_size(p), size / 2 + 1);
		free(p);
	}
	EXPECT_EQ(slub_validate_all(), 0);
	EXPECT_GT(slub_debug("-"), 70);
}

// Objects that are put aside are linked where watched ones have their link, not in a red zone.
TEST(Switch, what_is_put_aside_is_whole)
{
	struct slub_cache *cache = slub_cache_create("watched-prefill", 64, 0, 0,
						     [](void *p) { memset(p, 0x5a, 64); });
	struct slub_prefill prefill = {};

	ASSERT_TRUE(cache);
	ASSERT_EQ(0, slub_cache_prefill(cache, &prefill, 10));
	ASSERT_EQ(0, slub_cache_debug(cache, SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE));
	ASSERT_EQ(0, slub_cache_prefill(cache, &prefill, 100));
	EXPECT_EQ(0, slub_cache_validate(cache));
	for (int i = 0; i < 70; i++) {
		char *p = (char *)slub_prefill_alloc(&prefill);

		ASSERT_TRUE(p);
		ASSERT_EQ(0x5a, p[63]);
		slub_cache_free(cache, p);
	}
	slub_prefill_return(&prefill);
	EXPECT_EQ(0u, slub_cache_errors(cache));
	EXPECT_EQ(0, slub_cache_destroy(cache));
}

TEST(Switch, bad_settings)
{
	EXPECT_EQ(slub_debug(nullptr), -EINVAL);
	EXPECT_EQ(slub_debug("FX,malloc-64"), -EINVAL);
	EXPECT_EQ(slub_debug("F,no-such-cache"), 0);
	EXPECT_EQ(slub_cache_debug(nullptr, SLUB_CACHE_POISON), -EINVAL);
	EXPECT_EQ(slub_cache_validate(nullptr), -EINVAL);
	void *p = malloc(200);
	EXPECT_EQ(slub_cache_debug(slub_cache_of(p), SLUB_CACHE_PANIC), -EINVAL);
	free(p);
}

struct debug_mailbox *mailbox()
{
	return (struct debug_mailbox *)dlsym(RTLD_DEFAULT, "slub_debug_mailbox");
}

template <typename T> void copy(pid_t pid, T *here, const T *there, bool write)
{
	struct iovec local = { here, sizeof(T) }, remote = { (void *)there, sizeof(T) };
	ssize_t n = write ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
			  : process_vm_readv(pid, &local, 1, &remote, 1, 0);
	ASSERT_EQ(n, (ssize_t)sizeof(T)) << strerror(errno);
}

// As another process does it; the child has the library at the same address.
long ask(pid_t pid, uint32_t operation, const char *text)
{
	struct debug_mailbox box = {}, *there = mailbox();
	static uint32_t number;
	const uint32_t posted = MAILBOX_NUMBER(++number) | MAILBOX_REQUEST;
	struct debug_request request = harness::request(number, operation, text);

	copy(pid, &box, there, false);
	EXPECT_EQ(memcmp(box.magic, DEBUG_MAILBOX_MAGIC, 8), 0);
	EXPECT_EQ(box.state, (uint32_t)MAILBOX_IDLE);
	for (int i = 0; i < 60000 && box.answered != number; i++) {
		// It had just been forked, and knew of no request.
		if (box.request.id != number) {
			copy(pid, &request, &there->request, true);
			copy(pid, (uint32_t *)&posted, &there->state, true);
		}
		usleep(1000);
		copy(pid, &box, there, false);
	}
	EXPECT_EQ(box.answered, number);
	copy(pid, &box, there, false);
	return box.result;
}

TEST(Switch, mailbox)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (;;) {
			for (int i = 0; i < 1000; i++) {
				void *p[3000];	// more than a CPU's lists hold

				for (auto &q : p)
					q = malloc(64);
				for (auto &q : p)
					free(q);
			}
		}
	}
	ASSERT_GT(pid, 0);
	EXPECT_EQ(ask(pid, MAILBOX_DEBUG, "FZPU,malloc-64"), 1);
	EXPECT_EQ(ask(pid, MAILBOX_VALIDATE, "malloc-64"), 0);
	EXPECT_EQ(ask(pid, MAILBOX_VALIDATE, "no-such-cache"), -EINVAL);
	EXPECT_EQ(ask(pid, MAILBOX_SHRINK, "malloc-64"), 1);
	EXPECT_EQ(ask(pid, MAILBOX_DEBUG, "-,malloc-64"), 1);
	EXPECT_EQ(ask(pid, MAILBOX_DEBUG, "Q"), -EINVAL);
	EXPECT_EQ(ask(pid, 99, ""), -EINVAL);
	kill(pid, SIGKILL);
	harness::wait_for(pid);
}

// Of a class that no other test watches.
const size_t UNWATCHED = 690;

// Goes through slow paths.
void leave_the_fast_path()
{
	std::vector<void *> held(3000);

	for (auto &p : held)
		p = harness::opaque(malloc(UNWATCHED));
	for (auto &p : held)
		free(p);
}

void put(const char *text, uint64_t id, uint32_t flags = 0)
{
	harness::post(mailbox(), harness::request(id, MAILBOX_DEBUG, text, flags));
}

// Comes by until the request is answered; returns how often.
int come_by(uint64_t id)
{
	int visits = 0;

	while (!harness::is_answered(mailbox(), id) && visits < 10000) {
		leave_the_fast_path();
		visits++;
	}
	return visits;
}

TEST(Switch, a_withdrawn_request_is_not_done)
{
	struct debug_mailbox *box = mailbox();

	leave_the_fast_path();	// it has started
	box->result = 42;
	put("FZPU,malloc-704", 77);
	box->request.id = 0;
	leave_the_fast_path();
	EXPECT_EQ(box->state, (uint32_t)MAILBOX_IDLE);
	EXPECT_EQ(box->result, 42);
	// The next one is.
	put("FZPU,malloc-704", 78);
	EXPECT_LT(come_by(78), 10000);
	EXPECT_EQ(box->result, 1);
	EXPECT_EQ(slub_debug("-,malloc-704"), 1);
}

// Two askers wrote at once, or one posts what another one wrote.
TEST(Switch, a_mixed_request_is_not_done)
{
	struct debug_mailbox *box = mailbox();

	leave_the_fast_path();
	box->result = 42;
	for (int kind = 0; kind < 3; kind++) {
		struct debug_request request =
			harness::request(90, MAILBOX_DEBUG, "FZPU,malloc-704");

		if (kind == 0)
			strcpy(request.text, "-,malloc-704");
		else if (kind == 1)
			request.operation = MAILBOX_SHRINK;
		harness::post(box, request);
		if (kind == 2)
			box->state = MAILBOX_NUMBER(91) | MAILBOX_REQUEST;
		leave_the_fast_path();
		EXPECT_EQ(box->state, (uint32_t)MAILBOX_IDLE) << kind;
		EXPECT_NE(box->answered, 90u) << kind;
		EXPECT_EQ(box->result, 42) << kind;
	}
}

bool answered_in_handler;

void handler(int)
{
	for (int i = 0; i < 10; i++)
		leave_the_fast_path();
	answered_in_handler = mailbox()->state == MAILBOX_IDLE;
}

// Nobody answers there, nor with SA_NODEFER on a stack of its own; the thread does behind it.
TEST(Switch, a_signal_handler_does_not_answer)
{
	static char space[256 << 10];
	stack_t stack = { space, 0, sizeof(space) };
	uint64_t id = 100;

	ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
	for (int flags : { 0, SA_ONSTACK, SA_ONSTACK | SA_NODEFER }) {
		struct sigaction action = {};
		uint64_t refused = mailbox()->nr_refused;

		action.sa_handler = handler;
		action.sa_flags = flags;
		ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
		leave_the_fast_path();
		put("FZPU,malloc-704", ++id);
		raise(SIGUSR1);
		EXPECT_FALSE(answered_in_handler) << flags;
		EXPECT_GT(mailbox()->nr_refused, refused);
		EXPECT_LT(come_by(id), 10000) << flags;
		EXPECT_EQ(slub_debug("-,malloc-704"), 1);
	}
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, nullptr);
}

// A thread that blocks a signal might be in its handler; who asks may know better.
TEST(Switch, who_blocks_a_handled_signal_answers_if_told)
{
	sigset_t usr1;

	signal(SIGUSR1, handler);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &usr1, nullptr), 0);
	put("FZPU,malloc-704", 200);
	for (int i = 0; i < 10; i++)
		leave_the_fast_path();
	EXPECT_FALSE(harness::is_answered(mailbox(), 200));
	put("FZPU,malloc-704", 201, MAILBOX_BLOCKED_TOO);
	EXPECT_LT(come_by(201), 10000);
	// One that has no handler is blocked by no handler.
	signal(SIGUSR1, SIG_DFL);
	put("-,malloc-704", 202);
	EXPECT_LT(come_by(202), 10000);
	ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr), 0);
}

// Every malloc and free of a watched class leaves the fast path.
int come_by_one_at_a_time(uint64_t id)
{
	struct debug_mailbox *box = mailbox();
	uint64_t done = 0;
	int visits = 0;

	for (; !harness::is_answered(box, id) && visits < 10000; visits += 2) {
		free(harness::opaque(malloc(UNWATCHED)));
		EXPECT_EQ(box->begun, id);
		EXPECT_GE(box->done, done);
		EXPECT_LE(box->done, box->total);
		done = box->done;
	}
	return visits;
}

// Where the machine stops this thread for milliseconds, the next visit does more than a piece, as
// it is to: the most visits of several requests show what one does otherwise.
int most_visits(uint32_t operation, const char *text, int wanted)
{
	static uint64_t id = 300;
	int most = 0;

	for (int tries = 0; tries < 100 && most < wanted; tries++) {
		harness::post(mailbox(), harness::request(++id, operation, text));
		most = std::max(most, come_by_one_at_a_time(id));
	}
	return most;
}

// Nobody is held up: each that comes by does a piece, and the mailbox says how far it is.
TEST(Switch, an_answer_is_given_in_pieces)
{
	std::vector<void *> held(30000);
	int visits;

	ASSERT_EQ(slub_debug("FZPU,malloc-704"), 1);
	for (auto &p : held)
		p = harness::opaque(malloc(UNWATCHED));
	// Some 20 MiB of objects, and a piece is 1 MiB.
	visits = most_visits(MAILBOX_VALIDATE, "malloc-704", 10);
	EXPECT_GE(visits, 10);
	EXPECT_LT(visits, 10000);
	EXPECT_EQ(mailbox()->result, 0);
	for (auto &p : held)
		free(p);
	// A cache a piece.
	visits = most_visits(MAILBOX_SHRINK, "malloc-*", 70);
	EXPECT_GE(visits, 70);
	EXPECT_LT(visits, 10000);
	EXPECT_GT(mailbox()->result, 70);
	ASSERT_EQ(slub_debug("-,malloc-704"), 1);
}

// Who forks with a request in its mailbox: the child was not asked, and does not answer.
TEST(Switch, a_child_was_not_asked)
{
	struct debug_mailbox *box = mailbox();

	leave_the_fast_path();
	for (uint32_t state : { MAILBOX_REQUEST, MAILBOX_TAKEN }) {
		box->request = harness::request(5, MAILBOX_DEBUG, "FZPU,malloc-704");
		box->result = 42;
		__atomic_store_n(&box->state, MAILBOX_NUMBER(5) | state, __ATOMIC_SEQ_CST);
		pid_t pid = fork();

		if (pid == 0) {
			leave_the_fast_path();
			_exit(box->state != MAILBOX_IDLE || box->result != 42 || box->request.id);
		}
		box->state = MAILBOX_IDLE;
		EXPECT_EQ(harness::wait_for(pid), 0) << state;
	}
}

// With Z, P or U the smallest slab of an object of 4,096 bytes would be larger.
TEST(Switch, letter_o_leaves_out_what_makes_slabs_larger)
{
	auto visit = [](const struct slub_trace *, void *) { return 0; };
	struct slub_cache *small = slub_cache_create("small-o", 512, 0, 0, nullptr);
	struct slub_cache *page = slub_cache_create("page-o", 4096, 0, 0, nullptr);

	ASSERT_EQ(slub_debug("FZPUO,small-o,page-o"), 2);
	EXPECT_EQ(slub_cache_alloc_traces(page, visit, nullptr), -EINVAL) << "not by U";
	EXPECT_EQ(slub_cache_alloc_traces(small, visit, nullptr), 0);
	EXPECT_EQ(slub_cache_validate(page), 0) << "it is watched";
	EXPECT_EQ(slub_cache_destroy(small), 0);
	EXPECT_EQ(slub_cache_destroy(page), 0);
}

} // namespace
