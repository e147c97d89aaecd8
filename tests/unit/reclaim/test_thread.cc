/* SPDX-License-Identifier: MIT */
/*
 * features/pressure/pressure.c: the thread that somebody asks for, who may have a turn, what
 * cannot be had, and what a child inherits.
 */
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <pthread.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/pressure/pressure.h"
}
#undef _Static_assert

namespace {

constexpr unsigned PLAIN_FILE = 1u << 31;	/* beside the kind of a source */

std::vector<unsigned> kinds;
std::function<enum severity(struct source *)> *look;
std::function<void()> *idle, *opened;
std::atomic<int> nr_walks, nr_idles;
bool is_refused;

/* Calls of a function that a test may set, by whichever thread. */
void call(std::function<void()> *function)
{
	if (function && *function)
		(*function)();
}

} /* namespace */

/* The linker sends the library's calls to these (--wrap). */
extern "C" int __wrap_sources_open(struct source *sources)
{
	int nr = 0;

	call(opened);
	for (unsigned kind : kinds) {
		struct source *source = &sources[nr++];

		*source = {};
		source->kind = (enum slub_pressure_source)(kind & ~PLAIN_FILE);
		source->severity = SEVERITY_SOME;
		source->poll_events = 1;
		source->other_fd = -1;
		source->fd = descriptor_keep(kind & PLAIN_FILE ? open("/proc/self/exe", O_RDONLY) :
					     eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					     DESCRIPTOR_MIN);
	}
	return nr;
}

extern "C" enum severity __real_source_look(struct source *source);

extern "C" enum severity __wrap_source_look(struct source *source)
{
	return *look ? (*look)(source) : __real_source_look(source);
}

extern "C" struct reclaim_result __wrap_reclaim_for(int, uint64_t)
{
	nr_walks++;
	return {};
}

extern "C" void __wrap_reclaim_idle(void)
{
	call(idle);
	nr_idles++;
}

extern "C" int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *),
				     void *);

extern "C" int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
				     void *(*work)(void *), void *arg)
{
	return is_refused ? EAGAIN : __real_pthread_create(thread, attr, work, arg);
}

namespace {

class Thread : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::percpu();
		look = new std::function<enum severity(struct source *)>;
		idle = new std::function<void()>;
		opened = new std::function<void()>;
	}
	void SetUp() override
	{
		*look = nullptr;
		*idle = nullptr;
		*opened = nullptr;
		is_refused = false;
		nr_walks = nr_idles = 0;
		kinds = { SLUB_PRESSURE_WATCH, SLUB_PRESSURE_EVENTS };
		had = kept();
		ASSERT_EQ(had.size(), 0u);
	}
	void TearDown() override { pressure_fork_child(); }
	/* The library's descriptors. */
	static std::vector<int> kept()
	{
		std::vector<int> all;

		for (int n = DESCRIPTOR_MIN; n < 1000; n++)
			if (descriptor_is_kept(n))
				all.push_back(n);
		return all;
	}
	static unsigned sources()
	{
		struct slub_pressure_stats stats;

		EXPECT_EQ(slub_pressure_stats(&stats), 0);
		return stats.sources;
	}
	/* The only one of @now that is not in @before. */
	static int added(const std::vector<int> &before, const std::vector<int> &now)
	{
		int found = -1;

		EXPECT_EQ(now.size(), before.size() + 1);
		for (int fd : now)
			if (std::find(before.begin(), before.end(), fd) == before.end())
				found = fd;
		return found;
	}
	/* The signals that this thread blocks, a bit each. */
	static uint64_t blocks()
	{
		uint64_t bits = 0;
		sigset_t set;

		pthread_sigmask(SIG_SETMASK, nullptr, &set);
		for (int signal = 1; signal <= SIGRTMAX; signal++)
			bits |= (uint64_t)(sigismember(&set, signal) > 0) << (signal - 1);
		return bits;
	}
	/* In a child, for none but its own end closes what it keeps. */
	static void in_child(const std::function<int()> &body)
	{
		std::string said;
		int status = harness::in_child([&] { _exit(body()); }, &said);

		EXPECT_EQ(harness::describe_status(status), "exit 0") << said;
	}
	/* No more than @nr descriptors beyond those that are open. */
	static void leave_descriptors(unsigned nr)
	{
		int last = dup(2);
		struct rlimit limit = { (rlim_t)last + nr, 1000 };

		close(last);
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	static void wait_until(const std::function<bool()> &is_so)
	{
		while (!is_so())
			usleep(1000);
	}
	/* By another thread, which the library does not make. */
	static int by_another(int (*what)(void), void (*first)(uint32_t) = nullptr)
	{
		struct { int (*what)(void); void (*first)(uint32_t); } both = { what, first };
		pthread_t thread;
		void *result;

		EXPECT_EQ(__real_pthread_create(&thread, nullptr, [](void *arg) -> void * {
			auto *call = (decltype(both) *)arg;

			if (call->first)
				call->first(thread_self());
			return (void *)(intptr_t)call->what();
		}, &both), 0);
		pthread_join(thread, &result);
		return (int)(intptr_t)result;
	}

	std::vector<int> had;
};

TEST_F(Thread, WhereNoneCanBeMade)
{
	const uint64_t before = blocks();

	ASSERT_GE(slub_pressure_fd(), 0);
	std::vector<int> open = kept();
	EXPECT_EQ(open.size(), 3u);
	is_refused = true;
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(slub_pressure_start_thread(), -EAGAIN);
		EXPECT_EQ(kept(), open) << "what it would have been woken by is closed";
		EXPECT_EQ(slub_pressure_stop_thread(), -ESRCH);
	}
	EXPECT_EQ(blocks(), before);
	is_refused = false;
	EXPECT_EQ(slub_pressure_start_thread(), 0);
	EXPECT_EQ(slub_pressure_stop_thread(), 0);
	EXPECT_EQ(kept(), open);
}

TEST_F(Thread, AtTheStartThatIsSaid)
{
	for (bool refused : { true, false }) {
		std::string said;
		int status = harness::in_child([&] {
			log_enable(true);
			is_refused = refused;
			pressure_options.wants_thread = true;
			pressure_start();
			_exit(slub_pressure_stop_thread() == (refused ? -ESRCH : 0) ? 0 : 1);
		}, &said);

		EXPECT_EQ(harness::describe_status(status), "exit 0");
		EXPECT_EQ(said.empty() ? "" : said.substr(said.find(' ') + 1), refused ?
			  "option pressure: no thread could be started\n" : "");
	}
}

/* What has its number by then is another's. */
TEST_F(Thread, ItsDescriptorIsForgotten)
{
	for (bool refused : { true, false }) {
		in_child([&] {
			is_refused = refused;
			slub_pressure_fd();
			/* The number that it had, and the first there is. */
			int number = dup(2);
			close(number);
			if (slub_pressure_start_thread() != (refused ? -EAGAIN : 0))
				return 1;
			if (!refused && slub_pressure_stop_thread())
				return 2;
			std::vector<int> open = kept();
			int other = ::open("/dev/null", O_RDONLY);
			if (other != number || descriptor_keep(number, 3) != number)
				return 3;
			close(0);
			if (::open("/dev/null", O_RDONLY) || descriptor_keep(0, 0))
				return 4;
			pressure_fork_child();
			if (kept() != std::vector<int>({ number }))
				return 5;
			return descriptor_is_kept(0) ? 0 : 6;
		});
	}
}

TEST_F(Thread, WhereDescriptorsEnd)
{
	/* None for epoll; none for what wakes the thread. */
	in_child([] {
		leave_descriptors(0);
		if (slub_pressure_fd() != -EMFILE || slub_pressure_start_thread() != -EMFILE)
			return 1;
		if (slub_pressure_stop_thread() != -ESRCH || !kept().empty())
			return 2;
		leave_descriptors(900);
		if (slub_pressure_start_thread() || slub_pressure_stop_thread())
			return 3;
		return kept().size() == 3 ? 0 : 4;
	});
	in_child([] {
		int fd = slub_pressure_fd();

		leave_descriptors(0);
		if (fd < 0 || slub_pressure_start_thread() != -EMFILE)
			return 1;
		if (slub_pressure_stop_thread() != -ESRCH || kept().size() != 3)
			return 2;
		leave_descriptors(900);
		return slub_pressure_start_thread() || slub_pressure_stop_thread() ? 3 : 0;
	});
}

/* A program that has closed its standard streams: their numbers are as good as any. */
TEST_F(Thread, WhereTheLowestNumbersAreFree)
{
	for (int closed = 1; closed < 8; closed++) {
		in_child([&] {
			for (int n = 0; n < 3; n++)
				if (closed & 1 << n)
					close(n);
			kinds.resize((size_t)closed % 3);
			int fd = slub_pressure_fd();
			if (kinds.empty() ? fd != -ENOENT : fd < DESCRIPTOR_MIN)
				return 10;
			if (kept().size() != (kinds.empty() ? 0 : kinds.size() + 1))
				return 11;
			std::vector<int> open = kept();
			if (slub_pressure_start_thread() || kept().size() != open.size() + 1)
				return 12;
			if (slub_pressure_stop_thread() || kept() != open)
				return 13;
			for (int n = 0; n < 3; n++)
				if (closed & 1 << n && fcntl(n, F_GETFD) >= 0)
					return 14;
			return 0;
		});
	}
}

/* Where no higher numbers are left what is open has the lowest, 0 too. */
TEST_F(Thread, WhereNoOtherNumberIsLeft)
{
	in_child([] {
		int again = -1, handled = -1;

		kinds.resize(1);
		leave_descriptors(0);
		close(0);
		close(1);
		if (slub_pressure_fd() != 0 || slub_pressure_fd() != 0)
			return 1;
		if (!descriptor_is_kept(0) || !descriptor_is_kept(1))
			return 2;
		slub_thread.locks_held++;
		int err = slub_pressure_fd();
		slub_thread.locks_held--;
		*look = [&](struct source *) {
			again = by_another(slub_pressure_fd);
			return SEVERITY_SOME;
		};
		handled = slub_pressure_handle();
		*look = nullptr;
		if (err != 0 || again != 0 || handled != 1)
			return 3;
		/* Closed, and opened under the same number. */
		close(0);
		if (slub_pressure_handle() != 0 || !descriptor_is_kept(0))
			return 4;
		close(2);
		if (slub_pressure_start_thread() || !descriptor_is_kept(2))
			return 6;
		if (slub_pressure_stop_thread() || fcntl(2, F_GETFD) >= 0)
			return 7;
		pressure_fork_child();
		return fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 ? 0 : 5;
	});
	/* And what wakes the thread. */
	in_child([] {
		slub_pressure_fd();
		for (bool ends : { true, false }) {
			leave_descriptors(0);
			close(0);
			if (slub_pressure_start_thread() || !descriptor_is_kept(0))
				return 1;
			if (ends && slub_pressure_stop_thread())
				return 2;
			/* As in a child: the thread itself goes on, and finds nothing. */
			if (!ends)
				pressure_fork_child();
			if (fcntl(0, F_GETFD) >= 0)
				return 3;
			leave_descriptors(900);
			if (open("/dev/null", O_RDONLY) != 0)
				return 4;
		}
		return 0;
	});
}

/* Those that cannot be watched are closed, wherever they stand; the others are watched. */
TEST_F(Thread, SourcesThatCannotBeWatched)
{
	struct {
		std::vector<unsigned> kinds;
		unsigned watched, kept;
	} const rows[] = {
		{ { 1, 2, 4 }, 7, 4 }, { { 1 | PLAIN_FILE, 2, 4 }, 6, 3 },
		{ { 1, 2 | PLAIN_FILE, 4 }, 5, 3 }, { { 1, 2, 4 | PLAIN_FILE }, 3, 3 },
		{ { 1 | PLAIN_FILE, 2 | PLAIN_FILE, 4 }, 4, 2 },
	};

	for (auto &row : rows) {
		unsigned looked = 0;

		kinds = row.kinds;
		ASSERT_GE(slub_pressure_fd(), DESCRIPTOR_MIN);
		EXPECT_EQ(kept().size(), row.kept);
		EXPECT_EQ(sources(), row.watched);
		*look = [&](struct source *source) {
			looked |= source->kind;
			return SEVERITY_NONE;
		};
		EXPECT_EQ(slub_pressure_handle(), 0);
		EXPECT_EQ(looked, row.watched);
		*look = nullptr;
		pressure_fork_child();
		EXPECT_EQ(kept().size(), 0u);
		EXPECT_EQ(sources(), 0u);
	}
	/* None: what would have polled them is closed. */
	for (auto none : { std::vector<unsigned>(), std::vector<unsigned>({ 1 | PLAIN_FILE }) }) {
		unsigned nr = 0;

		kinds = none;
		for (int n = 0; n < 1000; n++)
			nr += fcntl(n, F_GETFD) >= 0;
		EXPECT_EQ(slub_pressure_fd(), -ENOENT);
		EXPECT_EQ(slub_pressure_handle(), -EINVAL);
		for (int n = 0; n < 1000; n++)
			nr -= fcntl(n, F_GETFD) >= 0;
		EXPECT_EQ(nr, 0u);
	}
}

/* One thread opens, or handles, at a time; nobody waits for it. */
TEST_F(Thread, WhoseTurnItIsNot)
{
	int in_turn = 0, under_a_lock = 0, handled = 1;

	*opened = [&] {
		in_turn = by_another(slub_pressure_fd);
		under_a_lock = by_another([] {
			slub_thread.locks_held++;
			int err = slub_pressure_fd();
			slub_thread.locks_held--;
			return err;
		});
		handled = by_another(slub_pressure_handle);
	};
	int fd = slub_pressure_fd();
	ASSERT_GE(fd, DESCRIPTOR_MIN);
	EXPECT_EQ(in_turn, -EAGAIN);
	EXPECT_EQ(under_a_lock, -EDEADLK);
	EXPECT_EQ(handled, -EINVAL) << "nothing is watched yet";
	*look = [&](struct source *) {
		in_turn = by_another(slub_pressure_fd);
		handled = by_another(slub_pressure_handle);
		return SEVERITY_SOME;
	};
	EXPECT_EQ(slub_pressure_handle(), 2);
	EXPECT_EQ(in_turn, fd);
	EXPECT_EQ(handled, 0);
	*look = nullptr;
	EXPECT_EQ(by_another(slub_pressure_fd), fd) << "the turn is over";
	EXPECT_EQ(by_another(slub_pressure_handle), 0);
}

sigset_t blocked;
int stopped;
uint32_t its_number;

TEST_F(Thread, IdlesUntilThereIsAnEvent)
{
	const uint64_t before = blocks();
	uint64_t one = 1;

	*idle = [] {
		pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
		stopped = slub_pressure_stop_thread();
		its_number = thread_self();
	};
	ASSERT_EQ(slub_pressure_start_thread(), 0);
	EXPECT_EQ(blocks(), before);
	wait_until([] { return nr_idles > 1; });
	EXPECT_EQ(nr_walks, 0);
	EXPECT_EQ(stopped, -EDEADLK) << "it would wait for itself";
	for (int signal : { SIGINT, SIGALRM, SIGUSR1, SIGCHLD, SIGRTMAX })
		EXPECT_TRUE(sigismember(&blocked, signal)) << signal;
	EXPECT_NE(its_number, thread_self());
	/* The sources are eventfds, and so readable now. */
	for (int fd : kept()) {
		if (write(fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
			break;
	}
	wait_until([] { return nr_walks > 0; });
	EXPECT_EQ(slub_pressure_stop_thread(), 0);
}

/* It is woken once, and has ended when that returns. */
TEST_F(Thread, IsWaitedFor)
{
	static std::atomic<int> inside, left;
	uint64_t count = 0;

	ASSERT_GE(slub_pressure_fd(), 0);
	std::vector<int> before = kept();
	inside = left = 0;
	*idle = [] {
		inside = 1;
		usleep(30000);
		left++;
		inside = 0;
	};
	ASSERT_EQ(slub_pressure_start_thread(), 0);
	int wakes = added(before, kept());
	EXPECT_EQ(fcntl(wakes, F_GETFD), FD_CLOEXEC);
	int copy = dup(wakes);
	wait_until([] { return inside.load(); });
	EXPECT_EQ(slub_pressure_stop_thread(), 0);
	EXPECT_EQ(inside, 0);
	EXPECT_GE(left, 1);
	ASSERT_EQ(read(copy, &count, sizeof(count)), (ssize_t)sizeof(count));
	EXPECT_EQ(count, 1u);
	close(copy);
	EXPECT_EQ(kept(), before);
}

uint32_t number_then;

/* A later thread on the same stack is another one. */
TEST_F(Thread, TheNextOnItsStackIsAnother)
{
	*idle = [] { its_number = thread_self(); };
	for (int i = 0; i < 20; i++) {
		nr_idles = 0;
		ASSERT_EQ(slub_pressure_start_thread(), 0);
		wait_until([] { return nr_idles > 0; });
		EXPECT_EQ(slub_pressure_stop_thread(), 0);
		EXPECT_EQ(by_another(slub_pressure_stop_thread,
				     [](uint32_t number) { number_then = number; }), -ESRCH);
		if (number_then == its_number)
			return;
	}
	GTEST_SKIP() << "no thread has had that stack again";
}

TEST_F(Thread, DoesNotComeAlongIntoAChild)
{
	*idle = [] { its_number = thread_self(); };
	ASSERT_EQ(slub_pressure_start_thread(), 0);
	wait_until([] { return nr_idles > 0; });
	std::vector<int> open = kept();
	EXPECT_EQ(open.size(), 4u);
	in_child([&] {
		pressure_fork_child();
		if (!kept().empty())
			return 1;
		if (slub_pressure_handle() != -EINVAL)
			return 2;
		/* On the stack that the parent's had, as a rule. */
		if (by_another(slub_pressure_stop_thread) != -ESRCH)
			return 3;
		if (slub_pressure_stop_thread() != -ESRCH)
			return 4;
		if (slub_pressure_start_thread() || slub_pressure_start_thread() != -EEXIST)
			return 5;
		if (kept().size() != 4 || slub_pressure_stop_thread())
			return 6;
		pressure_fork_child();
		return kept().empty() ? 0 : 7;
	});
	EXPECT_EQ(kept(), open) << "the parent's are as they were";
	EXPECT_EQ(slub_pressure_stop_thread(), 0);
}

} /* namespace */
