/* SPDX-License-Identifier: MIT */
/*
 * features/rcu/srcu.c: a domain's counters, where they come from and to whom they go back, and
 * whose readers are waited for.  Barrier and clock are the test's own.
 */
#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/reclaim/reclaim_internal.h"
}
#undef _Static_assert

static std::function<uintptr_t()> *alloc;
static std::function<int()> *barrier;
static std::vector<uintptr_t> *freed;
static uint64_t now_ns;		/* 0: it is the true one */

/* The linker sends the library's calls to these (--wrap). */
extern "C" uintptr_t __real_percpu_alloc(size_t size, size_t align);

extern "C" uintptr_t __wrap_percpu_alloc(size_t size, size_t align)
{
	return alloc && *alloc ? (*alloc)() : __real_percpu_alloc(size, align);
}

extern "C" int __real_slub_percpu_free(uintptr_t offset);

extern "C" int __wrap_slub_percpu_free(uintptr_t offset)
{
	freed->push_back(offset);
	return __real_slub_percpu_free(offset);
}

extern "C" int __real_os_barrier(void);

extern "C" int __wrap_os_barrier(void)
{
	return barrier && *barrier ? (*barrier)() : __real_os_barrier();
}

extern "C" uint64_t __real_os_clock_ns(void);

extern "C" uint64_t __wrap_os_clock_ns(void)
{
	return now_ns ? now_ns : __real_os_clock_ns();
}

namespace {

constexpr uint32_t COUNTERS = ~31u;

class Counters : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		alloc = new std::function<uintptr_t()>;
		barrier = new std::function<int()>;
		freed = new std::vector<uintptr_t>;
		start::percpu();
	}
	void SetUp() override
	{
		*alloc = nullptr;
		*barrier = nullptr;
		now_ns = 0;
		freed->clear();
	}
	static uintptr_t none()
	{
		errno = ENOSPC;
		return 0;
	}
	/* Are all that were inside over? */
	static bool is_over(struct slub_srcu *domain)
	{
		return slub_srcu_poll(domain, slub_srcu_start_poll(domain));
	}
	/* What @body writes, in a child that ends well. */
	static std::string said_by(const std::function<int()> &body)
	{
		std::string said;
		int status = harness::in_child([&] {
			log_enable(true);
			_exit(body());
		}, &said);

		EXPECT_EQ(harness::describe_status(status), "exit 0") << said;
		return said.empty() ? "" : said.substr(said.find(' ') + 1);
	}
};

TEST_F(Counters, ComeWithADomainAndGoWithIt)
{
	struct slub_srcu domain;

	memset(&domain, 0x55, sizeof(domain));
	ASSERT_EQ(slub_srcu_create(&domain), 0);
	uint32_t offset = domain.reader & COUNTERS;
	EXPECT_GT(offset, 0u);
	EXPECT_EQ(domain.is_listed, 1u);
	EXPECT_EQ(srcu_get_counters(&domain), 0) << "it has them";
	EXPECT_EQ(domain.reader & COUNTERS, offset);
	EXPECT_TRUE(is_over(&domain));
	slub_srcu_destroy(&domain);
	EXPECT_EQ(*freed, std::vector<uintptr_t>({ offset }));
	for (size_t i = 0; i < sizeof(domain); i++)
		EXPECT_EQ(((char *)&domain)[i], 0) << i;
	/* It is ready to be used anew, and without counters nothing is freed. */
	freed->clear();
	slub_srcu_destroy(&domain);
	EXPECT_EQ(freed->size(), 0u);
	EXPECT_TRUE(is_over(&domain));
	EXPECT_GT(domain.reader & COUNTERS, 0u);
	slub_srcu_destroy(&domain);
}

TEST_F(Counters, WhereThereAreNone)
{
	struct slub_srcu domain = SLUB_SRCU_INIT;

	slub_thread.locks_held++;
	EXPECT_EQ(slub_srcu_create(&domain), -ENOMEM);
	int index = slub_srcu_read_lock(&domain);
	EXPECT_EQ(domain.reader & COUNTERS, 0u) << "a lock is held";
	EXPECT_EQ(domain.is_listed, 0u);
	slub_srcu_read_unlock(&domain, index);
	slub_srcu_start_poll(&domain);
	EXPECT_EQ(domain.reader & COUNTERS, 0u);
	slub_thread.locks_held--;
	*alloc = none;
	EXPECT_EQ(slub_srcu_create(&domain), -ENOSPC);
	EXPECT_EQ(domain.is_listed, 0u);
	for (int i = 0; i < 6; i++) {
		errno = 77;
		index = slub_srcu_read_lock(&domain);
		EXPECT_EQ(errno, 77) << "readers change none";
		EXPECT_EQ(domain.is_listed, 1u) << "a child is to know of them";
		EXPECT_EQ(domain.reader & COUNTERS, 0u);
		uint64_t cookie = slub_srcu_start_poll(&domain);
		EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
		slub_srcu_read_unlock(&domain, index);
		EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	}
	/* They come while a reader is inside: that one is waited for all the same. */
	index = slub_srcu_read_lock(&domain);
	*alloc = nullptr;
	int later = slub_srcu_read_lock(&domain);
	EXPECT_GT(domain.reader & COUNTERS, 0u);
	uint64_t cookie = slub_srcu_start_poll(&domain);
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie)) << "one here, one there";
	slub_srcu_read_unlock(&domain, later);
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	slub_srcu_read_unlock(&domain, index);
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	slub_srcu_destroy(&domain);
}

/* Two threads bring them: one pair stays.  The phase may change meanwhile. */
TEST_F(Counters, ThatTwoThreadsBring)
{
	struct slub_srcu domain = SLUB_SRCU_INIT;
	uintptr_t ours = 0;
	int calls = 0;

	*alloc = [&]() -> uintptr_t {
		uintptr_t offset = __real_percpu_alloc(32, 32);

		if (!calls++) {
			EXPECT_EQ(srcu_get_counters(&domain), 0);
			ours = offset;
		}
		return offset;
	};
	EXPECT_EQ(srcu_get_counters(&domain), 0);
	EXPECT_EQ(*freed, std::vector<uintptr_t>({ ours }));
	EXPECT_NE(domain.reader & COUNTERS, ours);
	EXPECT_GT(domain.reader & COUNTERS, 0u);
	slub_srcu_destroy(&domain);
	freed->clear();
	*alloc = [&]() -> uintptr_t {
		domain.reader ^= SLUB_SRCU_PHASE;
		return ours = __real_percpu_alloc(32, 32);
	};
	EXPECT_EQ(srcu_get_counters(&domain), 0);
	EXPECT_EQ(domain.reader & COUNTERS, ours);
	EXPECT_TRUE(domain.reader & SLUB_SRCU_PHASE);
	EXPECT_EQ(freed->size(), 0u);
	*alloc = nullptr;
	EXPECT_TRUE(is_over(&domain));
	slub_srcu_destroy(&domain);
}

/* Whose reader is inside keeps the counters for ever, and that is said. */
TEST_F(Counters, OfADomainThatEndsTooEarly)
{
	for (bool is_inside : { true, false }) {
		std::string said = said_by([&] {
			struct slub_srcu domain;

			slub_srcu_create(&domain);
			/* In either phase. */
			for (int phase = 0; phase < 2; phase++) {
				int index = slub_srcu_read_lock(&domain);

				if (!is_inside)
					slub_srcu_read_unlock(&domain, index);
				slub_srcu_destroy(&domain);
				if (freed->size() != (is_inside ? 0u : phase + 1u))
					return 1;
				slub_srcu_create(&domain);
				uint64_t cookie = slub_srcu_start_poll(&domain);
				slub_srcu_poll(&domain, cookie);
			}
			return 0;
		});
		const std::string line = "srcu: destroyed with a reader inside\n";

		EXPECT_EQ(said.substr(0, line.size()), is_inside ? line : "");
		EXPECT_EQ(said.find(line, 1) != said.npos, is_inside) << "twice";
	}
}

/* One thread moves a grace period on; the others look, and wait for nothing. */
TEST_F(Counters, OneThreadDrives)
{
	struct slub_srcu domain;

	ASSERT_EQ(slub_srcu_create(&domain), 0);
	uint64_t cookie = slub_srcu_start_poll(&domain);
	domain.driver = 2;
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	EXPECT_EQ(domain.started, cookie - 1);
	EXPECT_EQ(domain.driver, 2u);
	domain.driver = 0;
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	EXPECT_EQ(domain.driver, 0u);
	EXPECT_EQ(domain.completed, cookie);
	EXPECT_EQ(domain.started, cookie);
	EXPECT_EQ(domain.step, 0u);
	domain.driver = 2;
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie)) << "that is known";
	domain.driver = 0;
	uint64_t next = slub_srcu_start_poll(&domain);
	EXPECT_EQ(next, cookie + 1);
	/* A later one serves for it, too. */
	EXPECT_TRUE(slub_srcu_poll(&domain, next + 3));
	EXPECT_EQ(domain.completed, next + 3);
	EXPECT_TRUE(slub_srcu_poll(&domain, next));
	slub_srcu_destroy(&domain);
}

/* A sandbox forbids the barrier: 20 ms later readers' own fences count. */
TEST_F(Counters, WhereTheBarrierIsForbidden)
{
	struct slub_srcu domain;

	ASSERT_EQ(slub_srcu_create(&domain), 0);
	if (!(domain.reader & SLUB_SRCU_FAST))
		GTEST_SKIP() << "readers fence in this build";
	int calls = 0;
	*barrier = [&] { return calls++, -1; };
	now_ns = 1000;
	uint64_t cookie = slub_srcu_start_poll(&domain);
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	EXPECT_FALSE(domain.reader & SLUB_SRCU_FAST);
	now_ns += 20000000 - 1;
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	now_ns++;
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	EXPECT_EQ(calls, 1);
	slub_srcu_destroy(&domain);
}

/* What changed while the barrier was waited for is looked at anew. */
TEST_F(Counters, WhereAnotherThreadIsForbiddenIt)
{
	struct slub_srcu domain;

	ASSERT_EQ(slub_srcu_create(&domain), 0);
	if (!(domain.reader & SLUB_SRCU_FAST))
		GTEST_SKIP() << "readers fence in this build";
	*barrier = [&] {
		__atomic_fetch_and(&domain.reader, ~SLUB_SRCU_FAST, __ATOMIC_SEQ_CST);
		return 0;
	};
	uint64_t cookie = slub_srcu_start_poll(&domain);
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie)) << "readers fence now";
	slub_srcu_destroy(&domain);
}

/* A reader of each phase and each way in is counted where it was. */
TEST_F(Counters, EachPhaseHasItsReaders)
{
	struct slub_srcu domain;

	ASSERT_EQ(slub_srcu_create(&domain), 0);
	for (int i = 0; i < 4; i++) {
		int index = i & 2 ? (slub_srcu_read_lock)(&domain) : slub_srcu_read_lock(&domain);
		uint32_t phase = domain.reader & SLUB_SRCU_PHASE;

		EXPECT_EQ((uint32_t)index & SLUB_SRCU_PHASE, phase);
		EXPECT_EQ((uint32_t)index & COUNTERS, domain.reader & COUNTERS);
		uint64_t cookie = slub_srcu_start_poll(&domain);
		for (int k = 0; k < 3; k++)
			EXPECT_FALSE(slub_srcu_poll(&domain, cookie)) << i;
		EXPECT_NE(domain.reader & SLUB_SRCU_PHASE, phase) << "it is drained";
		int later = slub_srcu_read_lock(&domain);
		EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
		if (i & 1)
			(slub_srcu_read_unlock)(&domain, index);
		else
			slub_srcu_read_unlock(&domain, index);
		EXPECT_TRUE(slub_srcu_poll(&domain, cookie)) << "the later one is none of its";
		EXPECT_FALSE(is_over(&domain));
		slub_srcu_read_unlock(&domain, later);
		EXPECT_TRUE(is_over(&domain));
	}
	slub_srcu_destroy(&domain);
	EXPECT_EQ(freed->size(), 1u) << "nobody is inside";
}

/* ---- a thread's own sections ---- */

TEST_F(Counters, AThreadKnowsThatItIsInside)
{
	EXPECT_FALSE(srcu_is_inside());
	int index = slub_srcu_read_lock(&slub_rcu_domain), inner;
	EXPECT_TRUE(srcu_is_inside());
	inner = slub_srcu_read_lock(&slub_rcu_domain);
	slub_srcu_read_unlock(&slub_rcu_domain, inner);
	EXPECT_TRUE(srcu_is_inside());
	slub_srcu_read_unlock(&slub_rcu_domain, index);
	EXPECT_EQ(slub_thread.self.sections, 0u);
	EXPECT_FALSE(srcu_is_inside());
	/* What another thread leaves is found out at the next look. */
	for (uint32_t draining : { 0u, THREAD_DRAINING }) {
		index = slub_srcu_read_lock(&slub_rcu_domain);
		std::thread([&] { slub_srcu_read_unlock(&slub_rcu_domain, index); }).join();
		slub_thread.self.sections |= draining;
		EXPECT_EQ(slub_thread.self.sections, 1 | draining);
		EXPECT_FALSE(srcu_is_inside());
		EXPECT_EQ(slub_thread.self.sections, draining);
		EXPECT_FALSE(srcu_is_inside()) << "that is no section";
		slub_thread.self.sections = 0;
	}
	/* Another domain's are none of these. */
	struct slub_srcu domain;
	ASSERT_EQ(slub_srcu_create(&domain), 0);
	index = (slub_srcu_read_lock)(&domain);
	EXPECT_FALSE(srcu_is_inside());
	(slub_srcu_read_unlock)(&domain, index);
	slub_srcu_destroy(&domain);
	index = (slub_srcu_read_lock)(&slub_rcu_domain);
	EXPECT_TRUE(srcu_is_inside());
	(slub_srcu_read_unlock)(&slub_rcu_domain, index);
	EXPECT_FALSE(srcu_is_inside());
}

/* It would wait for ever; here another thread leaves in its place. */
TEST_F(Counters, WhoWaitsForItselfIsTold)
{
	const std::string line = "slub_srcu_synchronize: called inside slub_read_lock(): it waits "
				 "for its caller\n";

	EXPECT_EQ(said_by([] {
		int index = slub_srcu_read_lock(&slub_rcu_domain);
		std::thread other([&] {
			usleep(50000);
			slub_srcu_read_unlock(&slub_rcu_domain, index);
		});

		slub_srcu_synchronize(&slub_rcu_domain);
		other.join();
		return 0;
	}), line);
	EXPECT_EQ(said_by([] {
		struct slub_srcu domain;

		slub_srcu_synchronize(&slub_rcu_domain);
		slub_srcu_create(&domain);
		int index = slub_srcu_read_lock(&slub_rcu_domain);
		slub_srcu_synchronize(&domain);
		slub_srcu_read_unlock(&slub_rcu_domain, index);
		return 0;
	}), "");
}

/* ---- fork ---- */

/* Three domains at a fork: one at rest, one with a reader, one with a reader and no counters. */
class AtAFork : public Counters {
protected:
	void SetUp() override
	{
		Counters::SetUp();
		ASSERT_EQ(slub_srcu_create(&quiet), 0);
		ASSERT_EQ(slub_srcu_create(&busy), 0);
		had = quiet.reader;
		were = busy.reader;
		*alloc = none;
		of_bare = slub_srcu_read_lock(&bare);
		*alloc = nullptr;
		of_busy = slub_srcu_read_lock(&busy);
	}
	void TearDown() override
	{
		slub_srcu_read_unlock(&busy, of_busy);
		slub_srcu_read_unlock(&bare, of_bare);
		for (struct slub_srcu *domain : { &quiet, &busy, &bare }) {
			EXPECT_TRUE(is_over(domain)) << "the parent's are as they were";
			slub_srcu_destroy(domain);
		}
	}
	static void in_child(const std::function<int()> &body)
	{
		EXPECT_EQ(harness::describe_status(harness::in_child([&] { _exit(body()); })),
			  "exit 0");
	}

	struct slub_srcu quiet, busy, bare = SLUB_SRCU_INIT;
	uint32_t had, were;
	int of_bare, of_busy;
};

/* Counters that balance stay; readers that did not come along have the old ones. */
TEST_F(AtAFork, ReadersAreForgotten)
{
	uint64_t before_quiet = slub_srcu_start_poll(&quiet);
	uint64_t before_busy = slub_srcu_start_poll(&busy);

	in_child([&] {
		srcu_fork_child();
		if (quiet.reader != had || (busy.reader & COUNTERS) == (were & COUNTERS) ||
		    !(busy.reader & COUNTERS) || (busy.reader ^ were) & ~COUNTERS)
			return 2;
		for (struct slub_srcu *domain : { &quiet, &busy, &bare }) {
			if (domain->driver || domain->step ||
			    domain->started != domain->completed)
				return 3;
		}
		/* What was asked for before is over. */
		if (!slub_srcu_poll(&quiet, before_quiet) || !slub_srcu_poll(&busy, before_busy))
			return 4;
		if (!is_over(&quiet) || !is_over(&busy) || !is_over(&bare))
			return 5;
		/* The parent's reader that leaves here leaves the old ones. */
		slub_srcu_read_unlock(&busy, of_busy);
		slub_srcu_read_unlock(&bare, of_bare);
		for (struct slub_srcu *domain : { &busy, &bare }) {
			int again = slub_srcu_read_lock(domain);
			if (is_over(domain))
				return 6;
			slub_srcu_read_unlock(domain, again);
			if (!is_over(domain))
				return 7;
		}
		return 0;
	});
}

/* Children of children: each has a generation of its own, of four, and its own readers. */
TEST_F(AtAFork, GenerationsGoRound)
{
	in_child([&] {
		std::vector<int> before;
		uint32_t phase = bare.reader & SLUB_SRCU_PHASE;

		*alloc = none;
		for (uint32_t i = 1; i <= 9; i++) {
			srcu_fork_child();
			if (bare.generation != i % 4 * 2 || bare.reader != phase)
				return 1;
			if (!is_over(&bare))
				return 2;
			phase = bare.reader & SLUB_SRCU_PHASE;
			before.push_back(slub_srcu_read_lock(&bare));
			if (((uint32_t)before.back() & 6) != bare.generation)
				return 3;
			/* That of an older generation is counted no more. */
			if (i > 1)
				slub_srcu_read_unlock(&bare, before[i - 2]);
			if (is_over(&bare))
				return 4;
			phase = bare.reader & SLUB_SRCU_PHASE;
		}
		return 0;
	});
}

TEST_F(AtAFork, WhereNoCpuCanBeStoppedReadersFence)
{
	in_child([&] {
		percpu_can_stop = false;
		srcu_fork_child();
		if ((quiet.reader | busy.reader) & SLUB_SRCU_FAST)
			return 1;
		return quiet.reader == (had & ~SLUB_SRCU_FAST) ? 0 : 2;
	});
}

/* A handler that interrupted who drives goes on with that. */
TEST_F(AtAFork, WhoDrives)
{
	in_child([&] {
		uint64_t started = quiet.started, completed = quiet.completed;

		quiet.driver = thread_self();
		quiet.step = 1;
		busy.driver = 2;
		busy.step = 2;
		srcu_fork_child();
		if (quiet.driver != thread_self() || quiet.step != 1 ||
		    quiet.started != started || quiet.completed != completed)
			return 1;
		return busy.driver || busy.step ? 2 : 0;
	});
}

/* Of one that is destroyed nothing is written any more, wherever it stood in the list. */
TEST_F(AtAFork, ADestroyedOneIsLeftAlone)
{
	struct slub_srcu three[3];

	for (int n = 0; n < 3; n++) {
		for (struct slub_srcu &each : three)
			ASSERT_EQ(slub_srcu_create(&each), 0);
		slub_srcu_destroy(&three[n]);
		in_child([&] {
			memset(&three[n], 0x5a, sizeof(three[n]));
			for (int i = 0; i < 3; i++)
				three[i].driver = 2;
			srcu_fork_child();
			for (int i = 0; i < 3; i++)
				if (three[i].driver != (i == n ? 2u : 0u))
					return 1 + i;
			return 0;
		});
		for (int i = 0; i < 3; i++)
			if (i != n)
				slub_srcu_destroy(&three[i]);
	}
}

} /* namespace */
