/* SPDX-License-Identifier: MIT */
/*
 * features/pressure/pressure.c: what an event makes of it: how hard a walk, and when.  The sources
 * and the clock are the test's own.
 */
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/pressure/pressure.h"
}
#undef _Static_assert

static uint64_t now_ns = 1000000000000;
static std::vector<enum severity> *said;		/* by each source, this time */
static std::vector<bool> *over;
static std::vector<std::pair<int, uint64_t>> *walks;
static std::vector<uint64_t> *moves;
static struct reclaim_result result;
static size_t moved, used;
static int nr_opened = 2;
static unsigned nr_looks, nr_closed;
static std::string *plain_file;

/* The linker sends the library's calls to these (--wrap). */
extern "C" uint64_t __wrap_os_clock_ns(void)
{
	return now_ns;
}

extern "C" int __wrap_sources_open(struct source *sources)
{
	for (int i = 0; i < nr_opened; i++) {
		sources[i] = {};
		sources[i].kind = i ? SLUB_PRESSURE_EVENTS : SLUB_PRESSURE_WATCH;
		sources[i].poll_events = 1;
		sources[i].other_fd = -1;
		sources[i].fd = descriptor_keep(i == 2 ? open(plain_file->c_str(), O_RDONLY) :
						eventfd(0, EFD_CLOEXEC), DESCRIPTOR_MIN);
	}
	return nr_opened;
}

extern "C" enum severity __wrap_source_look(struct source *source)
{
	size_t i = source->kind == SLUB_PRESSURE_EVENTS;

	nr_looks++;
	source->is_over = over->at(i);
	return said->at(i);
}

extern "C" void __real_sources_close(struct source *sources, int nr);

extern "C" void __wrap_sources_close(struct source *sources, int nr)
{
	nr_closed += (unsigned)nr;
	__real_sources_close(sources, nr);
}

extern "C" struct reclaim_result __wrap_reclaim_for(int priority, uint64_t ns)
{
	walks->push_back({ priority, ns });
	return result;
}

extern "C" size_t __wrap_reclaim_move(uint64_t deadline_ns)
{
	moves->push_back(deadline_ns);
	return moved;
}

extern "C" size_t __wrap_reclaim_used(void)
{
	return used;
}

namespace {

constexpr uint64_t MS = 1000000, SECOND = 1000 * MS;
constexpr size_t MIB = 1 << 20;

class Reacts : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::percpu();
		said = new std::vector<enum severity>(2, SEVERITY_NONE);
		over = new std::vector<bool>(2);
		walks = new std::vector<std::pair<int, uint64_t>>;
		moves = new std::vector<uint64_t>;
		plain_file = new std::string("/proc/self/exe");
	}
	void SetUp() override
	{
		now_ns += 100 * SECOND;
		result = {};
		moved = used = 0;
		nr_opened = 2;
		walks->clear();
		moves->clear();
		*said = { SEVERITY_NONE, SEVERITY_NONE };
		*over = { false, false };
		fd = slub_pressure_fd();
		ASSERT_GE(fd, DESCRIPTOR_MIN);
		before = stats();
		nr_looks = nr_closed = 0;
	}
	void TearDown() override { pressure_fork_child(); }
	static struct slub_pressure_stats stats()
	{
		struct slub_pressure_stats now;

		memset(&now, 0x77, sizeof(now));
		EXPECT_EQ(slub_pressure_stats(&now), 0);
		return now;
	}
	/* The priority of the walk that an event of @severity makes; -1: none. */
	int event(enum severity severity, uint64_t later = 0)
	{
		now_ns += later;
		walks->clear();
		*said = { SEVERITY_NONE, severity };
		EXPECT_EQ(slub_pressure_handle(), 1);
		EXPECT_LE(walks->size(), 1u);
		if (walks->empty())
			return -1;
		EXPECT_EQ(walks->front().second, 100 * MS);
		EXPECT_EQ(stats().priority, walks->front().first);
		return walks->front().first;
	}

	struct slub_pressure_stats before;
	int fd;
};

TEST_F(Reacts, TheLongerItLastsTheMore)
{
	EXPECT_EQ(event(SEVERITY_SOME), 8);
	EXPECT_EQ(moves->size(), 1u);
	EXPECT_EQ(moves->front(), now_ns + 100 * MS);
	for (int priority : { 6, 4, 2, 0, 0 })
		EXPECT_EQ(event(SEVERITY_SOME, 50 * MS), priority) << "not a moment earlier";
	EXPECT_EQ(event(SEVERITY_SOME, 50 * MS - 1), -1);
	EXPECT_EQ(event(SEVERITY_SOME, 1), 0);
	struct slub_pressure_stats now = stats();
	EXPECT_EQ(now.events - before.events, 8u);
	EXPECT_EQ(now.merged - before.merged, 1u);
	EXPECT_EQ(now.walks - before.walks, 7u);
	/* After a quiet time it begins anew, and not before. */
	EXPECT_EQ(event(SEVERITY_SOME, 10 * SECOND), 0);
	EXPECT_EQ(event(SEVERITY_SOME, 10 * SECOND + 1), 8);
	EXPECT_EQ(event(SEVERITY_FULL, 10 * SECOND + 1), 4);
	EXPECT_EQ(event(SEVERITY_LIMIT, 10 * SECOND + 1), 2);
	EXPECT_EQ(event(SEVERITY_SOME, 10 * SECOND + 1), 8);
	EXPECT_EQ(event(SEVERITY_FULL, 50 * MS), 4);
	EXPECT_EQ(event(SEVERITY_SOME, 50 * MS), 2);
}

/* A thirty-second part of what is in use, and a MiB at the least. */
TEST_F(Reacts, WhatWasEnoughIsNotFollowedByMore)
{
	struct {
		size_t used, walked, moved;
		bool is_enough;
	} const rows[] = {
		{ 64 * MIB, 2 * MIB, 0, true }, { 64 * MIB, 2 * MIB - 1, 0, false },
		{ 64 * MIB, 0, 2 * MIB, true }, { 64 * MIB, MIB, MIB, true },
		{ 64 * MIB, MIB, MIB - 1, false }, { 0, MIB, 0, true }, { 0, MIB - 1, 0, false },
		{ 32 * MIB, MIB, 0, true },
	};

	for (auto &row : rows) {
		used = row.used;
		result.bytes = 0;
		moved = 0;
		EXPECT_EQ(event(SEVERITY_FULL, 20 * SECOND), 4);
		result.bytes = row.walked;
		moved = row.moved;
		EXPECT_EQ(event(SEVERITY_SOME, SECOND), 2);
		result.bytes = moved = 0;
		EXPECT_EQ(event(SEVERITY_SOME, SECOND), row.is_enough ? 4 : 0)
			<< row.walked << " " << row.moved;
	}
	/* Softer each time, up to what such an event begins with. */
	result.bytes = 100 * MIB;
	for (int priority : { 2, 4, 6, 8, 8 })
		EXPECT_EQ(event(SEVERITY_SOME, SECOND), priority);
}

TEST_F(Reacts, EachNumberIsTold)
{
	result = { 11, 22, true };
	moved = 33;
	*said = { SEVERITY_SOME, SEVERITY_FULL };
	EXPECT_EQ(slub_pressure_handle(), 2);
	EXPECT_EQ(nr_looks, 2u);
	ASSERT_EQ(walks->size(), 1u);
	EXPECT_EQ(walks->front().first, 4) << "the worst of them";
	struct slub_pressure_stats now = stats();
	EXPECT_EQ(now.sources, (uint32_t)(SLUB_PRESSURE_WATCH | SLUB_PRESSURE_EVENTS));
	EXPECT_EQ(now.priority, 4);
	EXPECT_EQ(now.events - before.events, 2u);
	EXPECT_EQ(now.merged - before.merged, 0u);
	EXPECT_EQ(now.walks - before.walks, 1u);
	EXPECT_EQ(now.cut_short - before.cut_short, 1u);
	EXPECT_EQ(now.objects - before.objects, 11u);
	EXPECT_EQ(now.bytes - before.bytes, 55u);
	*said = { SEVERITY_NONE, SEVERITY_NONE };
	EXPECT_EQ(slub_pressure_handle(), 0);
	EXPECT_EQ(stats().events, now.events);
	EXPECT_EQ(stats().walks, now.walks);
	EXPECT_EQ(slub_pressure_stats(nullptr), -EINVAL);
	slub_thread.locks_held++;
	EXPECT_EQ(slub_pressure_handle(), -EDEADLK);
	slub_thread.locks_held--;
	pressure_fork_child();
	now = stats();
	EXPECT_EQ(now.sources, 0u);
	EXPECT_EQ(now.walks, 0u);
	EXPECT_EQ(slub_pressure_handle(), -EINVAL) << "the parent's are not a child's";
	EXPECT_EQ(nr_closed, 2u);
	EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

/* What is over is watched no more. */
TEST_F(Reacts, ASourceThatIsOver)
{
	*over = { true, false };
	EXPECT_EQ(slub_pressure_handle(), 0);
	EXPECT_EQ(nr_looks, 2u);
	*over = { false, false };
	for (unsigned looks : { 3u, 4u }) {
		EXPECT_EQ(slub_pressure_handle(), 0);
		EXPECT_EQ(nr_looks, looks) << "the other one alone";
	}
	EXPECT_EQ(stats().sources, (uint32_t)(SLUB_PRESSURE_WATCH | SLUB_PRESSURE_EVENTS));
}

/* Whole lines; what is said once was not said before. */
TEST_F(Reacts, WhatIsSaid)
{
	std::string text;
	int status = harness::in_child([&] {
		log_enable(true);
		result = { 11, 22, false };
		*said = { SEVERITY_FULL, SEVERITY_NONE };
		slub_pressure_handle();
		for (int i = 0; i < 2; i++) {
			close(slub_pressure_fd());
			slub_pressure_fd();
		}
		pressure_fork_child();
		nr_opened = 3;
		_exit(slub_pressure_fd() < 0);
	}, &text);
	std::string lines;

	EXPECT_EQ(harness::describe_status(status), "exit 0");
	for (size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1)
		lines += text.substr(text.find(' ', at) + 1, end - text.find(' ', at));
	EXPECT_EQ(lines, "memory pressure: priority 4, 11 objects and 22 bytes freed\n"
		  "memory pressure: the program closed descriptors of this library; they are "
		  "opened anew\nmemory pressure: source 0x" +
		  [] { char hex[20]; snprintf(hex, sizeof(hex), "%x", SLUB_PRESSURE_EVENTS);
		       return std::string(hex); }() + " cannot be watched\n");
}

TEST_F(Reacts, WhatTheProgramClosesIsOpenedAnew)
{
	close(fd);
	EXPECT_EQ(slub_pressure_handle(), 0) << "under the same number";
	EXPECT_EQ(slub_pressure_fd(), fd);
	EXPECT_EQ(nr_closed, 2u);
	close(fd);
	ASSERT_EQ(dup2(0, fd), fd);
	EXPECT_EQ(slub_pressure_handle(), -EBADF) << "that number is the program's now";
	EXPECT_NE(slub_pressure_fd(), fd);
	EXPECT_GE(fcntl(fd, F_GETFD), 0) << "and is left alone";
	close(fd);
	fd = slub_pressure_fd();
	close(fd);
	EXPECT_EQ(slub_pressure_fd(), fd) << "whoever comes first";
	close(fd);
	nr_opened = 0;
	EXPECT_EQ(slub_pressure_handle(), -EINVAL);
	EXPECT_EQ(slub_pressure_fd(), -ENOENT);
	EXPECT_EQ(stats().sources, 0u);
}

/* Descriptors of this process, and of these the library's, by their mark and number. */
std::pair<unsigned, unsigned> descriptors()
{
	unsigned all = 0, ours = 0;

	for (int n = 0; n < 5000; n++) {
		all += fcntl(n, F_GETFD) >= 0;
		ours += n >= DESCRIPTOR_MIN && descriptor_is_kept(n);
	}
	return { all, ours };
}

TEST_F(Reacts, OneThreadStartsAndEnds)
{
	const auto had = descriptors();

	EXPECT_EQ(had.second, 3u) << "two sources, and what polls them";
	EXPECT_EQ(slub_pressure_stop_thread(), -ESRCH);
	EXPECT_EQ(slub_pressure_start_thread(), 0);
	EXPECT_EQ(descriptors(), std::make_pair(had.first + 1, had.second + 1)) << "it is woken";
	EXPECT_EQ(slub_pressure_stop_thread(), 0);
	EXPECT_EQ(descriptors(), had);
	EXPECT_EQ(slub_pressure_start_thread(), 0);
	EXPECT_EQ(slub_pressure_start_thread(), -EEXIST);
	slub_thread.locks_held++;
	EXPECT_EQ(slub_pressure_stop_thread(), -EDEADLK);
	slub_thread.locks_held--;
	EXPECT_EQ(slub_pressure_stop_thread(), 0);
	EXPECT_EQ(slub_pressure_stop_thread(), -ESRCH);
	pressure_options.wants_thread = false;
	pressure_start();
	EXPECT_EQ(slub_pressure_stop_thread(), -ESRCH);
	pressure_options.wants_thread = true;
	pressure_start();
	pressure_options.wants_thread = false;
	EXPECT_EQ(slub_pressure_stop_thread(), 0);
	EXPECT_EQ(descriptors(), had);
	/* Without sources it looks after what is idle. */
	pressure_fork_child();
	EXPECT_EQ(descriptors(), std::make_pair(had.first - 3, 0u));
	nr_opened = 0;
	EXPECT_EQ(slub_pressure_start_thread(), 0);
	EXPECT_EQ(slub_pressure_stop_thread(), 0);
}

TEST(Options, WhatIsNotKnownIsSaid)
{
	struct {
		const char *text, *rest, *near;
	} const rows[] = {
		{ "some=0", "some=0", "some" }, { "thread,ful=3", "ful=3", "full" },
		{ "off,windo=5,some=3", "windo=5,some=3", "window" },
		{ "some=10000001", "some=10000001", "some" }, { "some=-1", "some=-1", "some" },
		{ "qqqqqqqq", "qqqqqqqq", nullptr },
	};

	for (auto &row : rows) {
		std::string text;
		int status = harness::in_child([&] {
			log_complain(true);
			_exit(pressure_configure(row.text));
		}, &text);

		EXPECT_EQ(harness::describe_status(status), "exit 0");
		EXPECT_EQ(text.substr(text.find(' ') + 1), std::string("option pressure: '") +
			  row.rest + "' is not known; valid: off, thread, some=US, full=US, "
			  "window=US, with US from 1 to 10000000" + (row.near ? "; nearest is '" +
			  std::string(row.near) + "'" : "") + "; using the default\n");
	}
}

} /* namespace */
