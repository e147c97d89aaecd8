/* SPDX-License-Identifier: MIT */
/*
 * features/pressure/source.c: what is opened in a cgroup's folder, what is written there, and what
 * each source says of what it reads.  The folder is the test's own.
 */
#include <climits>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "found_cgroup.h"

namespace {

class Sources : public testing::Test {
protected:
	static void SetUpTestSuite() { start::percpu(); }
	void SetUp() override
	{
		char name[] = "/tmp/sources.XXXXXX";

		ASSERT_NE(mkdtemp(name), nullptr);
		folder = name;
		v2.clear();
		v1.clear();
		v2_folder = &v2;
		v1_folder = &v1;
	}
	void TearDown() override
	{
		for (auto &file : files)
			unlink(file.c_str());
		rmdir(folder.c_str());
	}
	void put(const char *name, const std::string &text)
	{
		std::string path = folder + "/" + name;
		int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);

		ASSERT_GE(fd, 0);
		ASSERT_EQ(write(fd, text.data(), text.size()), (ssize_t)text.size());
		close(fd);
		files.push_back(path);
	}
	/* What is written to it stays, one after another. */
	int fifo(const char *name)
	{
		std::string path = folder + "/" + name;

		EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
		files.push_back(path);
		return open(path.c_str(), O_RDWR | O_NONBLOCK);
	}
	static std::string take(int fd)
	{
		char buf[1000];
		ssize_t n = read(fd, buf, sizeof(buf));

		return std::string(buf, n > 0 ? (size_t)n : 0);
	}
	static struct source reading(int fd, enum slub_pressure_source kind, uint32_t events)
	{
		struct source source = {};

		source.kind = kind;
		source.severity = SEVERITY_FULL;
		source.poll_events = events;
		source.fd = fd;
		source.other_fd = -1;
		return source;
	}

	std::string folder, v2, v1;
	std::vector<std::string> files;
	struct source all[SOURCES_MAX + 1] = {};
};

TEST_F(Sources, OfAUnifiedGroup)
{
	int pressure = fifo("memory.pressure");

	put("memory.events", "low 0\nhigh 2\nmax 3\noom 0\noom_kill 0\n");
	v2 = folder;
	ASSERT_EQ(sources_open(all), 3);
	/* Each twice, with its end. */
	std::string some("some 150000 2000000\0", 20), full("full 50000 2000000\0", 19);
	EXPECT_EQ(take(pressure), some + some + full + full);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(all[i].kind, SLUB_PRESSURE_PSI_CGROUP);
		EXPECT_EQ(all[i].severity, i ? SEVERITY_FULL : SEVERITY_SOME);
		EXPECT_EQ(all[i].poll_events, (uint32_t)EPOLLPRI);
		EXPECT_GE(all[i].fd, DESCRIPTOR_MIN);
		EXPECT_GE(all[i].other_fd, DESCRIPTOR_MIN);
		EXPECT_NE(all[i].fd, all[i].other_fd);
	}
	EXPECT_EQ(all[2].kind, SLUB_PRESSURE_EVENTS);
	EXPECT_EQ(all[2].other_fd, -1);
	EXPECT_GE(all[2].fd, DESCRIPTOR_MIN);
	EXPECT_EQ(std::vector<uint64_t>(all[2].counts, all[2].counts + EVENT_COUNTS),
		  std::vector<uint64_t>({ 0, 2, 3, 0, 0 }));
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(source_is_whole(&all[i]));
	close(all[0].other_fd);
	EXPECT_FALSE(source_is_whole(&all[0]));
	EXPECT_TRUE(source_is_whole(&all[1]));
	int twin = std::exchange(all[1].other_fd, 0);
	EXPECT_FALSE(source_is_whole(&all[1])) << "number 0 is one, and not ours";
	all[1].other_fd = twin;
	close(all[2].fd);
	EXPECT_FALSE(source_is_whole(&all[2]));
	sources_close(all, 3);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(fcntl(all[i].fd, F_GETFD), -1) << i;
		EXPECT_EQ(fcntl(all[i].other_fd, F_GETFD), -1) << i;
	}
	close(pressure);
}

/* A program that has closed its standard streams: their numbers are as good as any. */
TEST_F(Sources, WhereTheLowestNumbersAreFree)
{
	int pressure = fifo("memory.pressure"), control = fifo("cgroup.event_control");

	put("memory.events", "low 0\n");
	put("memory.pressure_level", "");
	for (int closed : { 0, 1 }) {
		for (bool both : { false, true }) {
			v2 = folder;
			v1 = both ? folder : "";
			int status = harness::in_child([&] {
				close(0);
				for (int i = 0; i < closed; i++)
					if (open("/dev/null", O_RDONLY) != i)
						_exit(9);
				if (closed)
					close(1);
				int nr = sources_open(all);

				for (int i = 0; i < nr; i++)
					if (all[i].fd < DESCRIPTOR_MIN)
						_exit(8);
				_exit(nr);
			});

			EXPECT_EQ(harness::describe_status(status), "exit 3");
		}
	}
	close(pressure);
	close(control);
}

/* The events alone, where no trigger can be written; beside them the machine's, if it has them. */
TEST_F(Sources, OfAGroupThatCannotBeWritten)
{
	put("memory.events", "low 0\n");
	v2 = folder;
	int nr = sources_open(all);
	ASSERT_GE(nr, 1);
	EXPECT_EQ(all[0].kind, SLUB_PRESSURE_EVENTS);
	for (int i = 1; i < nr; i++)
		EXPECT_EQ(all[i].kind, SLUB_PRESSURE_PSI_MACHINE);
	sources_close(all, nr);
}

TEST_F(Sources, OfVersionOne)
{
	struct {
		const char *limit, *near;	/* NULL: no usage to be told of */
	} const rows[] = {
		{ "8000", "7000" }, { "8001\n", "7001" },
		{ "1152921504606846976", "1008806316530991104" },
		{ "1152921504606846977", nullptr }, { "0", nullptr }, { "", nullptr },
	};
	int control = fifo("cgroup.event_control");

	put("memory.pressure_level", "");
	put("memory.usage_in_bytes", "");
	v1 = folder;
	for (auto &row : rows) {
		put("memory.limit_in_bytes", row.limit);
		memset(all, 0, sizeof(all));
		int nr = sources_open(all), level = 0, usage = 0;
		std::string said = take(control);

		for (int i = 0; i < nr; i++) {
			level += all[i].kind == SLUB_PRESSURE_V1_LEVEL;
			usage += all[i].kind == SLUB_PRESSURE_V1_USAGE;
			if (all[i].kind != SLUB_PRESSURE_PSI_MACHINE) {
				EXPECT_EQ(all[i].poll_events, (uint32_t)EPOLLIN);
				EXPECT_EQ(all[i].severity,
					  all[i].kind == SLUB_PRESSURE_V1_LEVEL ?
						  SEVERITY_SOME : SEVERITY_FULL);
				EXPECT_GE(all[i].fd, DESCRIPTOR_MIN);
				EXPECT_GE(all[i].other_fd, DESCRIPTOR_MIN);
			}
		}
		EXPECT_EQ(level, 1) << row.limit;
		EXPECT_EQ(usage, row.near != nullptr) << row.limit;
		int first = 0, second = 0, read = 0;
		EXPECT_EQ(sscanf(said.c_str(), "%d %d medium%n", &first, &second, &read), 2);
		EXPECT_GT(read, 0);
		EXPECT_NE(first, second);
		std::string rest = said.substr((size_t)read);
		EXPECT_EQ(rest.empty(), !row.near);
		if (row.near) {
			EXPECT_EQ(rest.substr(rest.rfind(' ') + 1), row.near);
		}
		sources_close(all, nr);
	}
	/* No level where the control cannot be written. */
	unlink(files[0].c_str());
	put("memory.limit_in_bytes", "8000");
	int nr = sources_open(all);
	for (int i = 0; i < nr; i++)
		EXPECT_EQ(all[i].kind, SLUB_PRESSURE_PSI_MACHINE);
	sources_close(all, nr);
	close(control);
}

/* With both the events are left out: the memory is counted by the first version. */
TEST_F(Sources, OfBoth)
{
	int pressure = fifo("memory.pressure"), control = fifo("cgroup.event_control");

	put("memory.events", "low 0\n");
	put("memory.pressure_level", "");
	v1 = v2 = folder;
	int nr = sources_open(all);
	ASSERT_EQ(nr, 3);
	EXPECT_EQ(all[0].kind, SLUB_PRESSURE_PSI_CGROUP);
	EXPECT_EQ(all[1].kind, SLUB_PRESSURE_PSI_CGROUP);
	EXPECT_EQ(all[2].kind, SLUB_PRESSURE_V1_LEVEL);
	sources_close(all, nr);
	close(pressure);
	close(control);
}

TEST_F(Sources, EventsThatHaveGrown)
{
	struct {
		const char *text;
		enum severity said;
	} const rows[] = {
		{ "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n", SEVERITY_NONE },
		{ "low 1\nhigh 0\nmax 0\noom 0\noom_kill 0\n", SEVERITY_SOME },
		{ "low 1\nhigh 0\nmax 0\noom 0\noom_kill 0\n", SEVERITY_NONE },
		{ "low 2\nhigh 1\nmax 0\noom 0\noom_kill 0\n", SEVERITY_FULL },
		{ "low 2\nhigh 1\nmax 1\noom 0\noom_kill 0\n", SEVERITY_LIMIT },
		{ "low 2\nhigh 1\nmax 1\noom 1\noom_kill 0\n", SEVERITY_LIMIT },
		{ "low 2\nhigh 1\nmax 1\noom 1\noom_kill 1", SEVERITY_LIMIT },
		{ "max 2\nlow 3\n", SEVERITY_LIMIT }, { "lower 9\nhigh", SEVERITY_NONE },
		{ "low 2\n", SEVERITY_NONE }, { "low 3\n", SEVERITY_SOME }, { "", SEVERITY_NONE },
		{ "\n\nhigh 7\n", SEVERITY_FULL },
	};
	put("memory.events", "");
	int fd = open(files[0].c_str(), O_RDWR);
	struct source source = reading(fd, SLUB_PRESSURE_EVENTS, EPOLLPRI);

	for (auto &row : rows) {
		ASSERT_EQ(ftruncate(fd, 0), 0);
		ASSERT_EQ(pwrite(fd, row.text, strlen(row.text), 0), (ssize_t)strlen(row.text));
		EXPECT_EQ(source_look(&source), row.said) << row.text;
		EXPECT_FALSE(source.is_over);
	}
	/* More than is read at once: what lies beyond is not looked at. */
	std::string text(600, 'x');
	text += "\nmax 50\n";
	ASSERT_EQ(pwrite(fd, text.data(), text.size(), 0), (ssize_t)text.size());
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	close(fd);
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	EXPECT_TRUE(source.is_over) << "it is gone";
}

TEST_F(Sources, AStreamIsEmptied)
{
	int ends[2];
	char byte[6000] = {};

	ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
	struct source source = reading(ends[0], SLUB_PRESSURE_WATCH, EPOLLIN);
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	EXPECT_FALSE(source.is_over) << "nothing yet";
	ASSERT_EQ(write(ends[1], byte, 1), 1);
	EXPECT_EQ(source_look(&source), SEVERITY_FULL);
	EXPECT_FALSE(source.is_over);
	EXPECT_EQ(source_look(&source), SEVERITY_NONE) << "it was read";
	ASSERT_EQ(write(ends[1], byte, 6000), 6000);
	EXPECT_EQ(source_look(&source), SEVERITY_FULL);
	EXPECT_EQ(read(ends[0], byte, sizeof(byte)), 6000 - 4096) << "so much at a time";
	close(ends[1]);
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	EXPECT_TRUE(source.is_over) << "the other end is closed";
	close(ends[0]);
	source.is_over = false;
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	EXPECT_TRUE(source.is_over);
}

/* A trigger's event is a priority of either twin; an error of one is the end. */
TEST_F(Sources, ATriggerThatSaysNothing)
{
	int ends[2];

	ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
	struct source source = reading(ends[0], SLUB_PRESSURE_PSI_CGROUP, EPOLLPRI);
	source.other_fd = ends[1];
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	EXPECT_FALSE(source.is_over);
	/* The end that writes has an error where nobody reads. */
	close(ends[0]);
	source.fd = -1;
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	EXPECT_TRUE(source.is_over);
	std::swap(source.fd, source.other_fd);
	source.is_over = false;
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	EXPECT_TRUE(source.is_over);
	close(ends[1]);
}

/* /proc: it is polled as a priority always. */
TEST_F(Sources, ATriggerThatSpeaks)
{
	int mounts = open("/proc/self/mounts", O_RDONLY), quiet = open("/dev/null", O_RDONLY);
	struct source source = reading(quiet, SLUB_PRESSURE_PSI_CGROUP, EPOLLPRI);

	ASSERT_GE(mounts, 0);
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	close(mounts);
	close(quiet);
}

TEST_F(Sources, NothingCanBeWatched)
{
	std::string said;
	int status = harness::in_child([&] {
		log_enable(true);
		int nr = sources_open(all);

		for (int i = 0; i < nr; i++)
			if (all[i].kind != SLUB_PRESSURE_PSI_MACHINE)
				_exit(1);
		_exit(nr ? 3 : 0);
	}, &said);

	if (WEXITSTATUS(status) == 3)
		GTEST_SKIP() << "the machine has /proc/pressure";
	EXPECT_EQ(harness::describe_status(status), "exit 0");
	EXPECT_EQ(said.substr(said.find(' ') + 1),
		  "memory pressure: neither MEMORY_PRESSURE_WATCH, memory.pressure, "
		  "/proc/pressure/memory, memory.events nor cgroup v1 can be "
		  "watched\n");
}

} /* namespace */
