/* SPDX-License-Identifier: MIT */
/* Memory pressure: each source brings a walk, and walks are bounded. */
#include <slub/defrag.h>
#include <slub/pressure.h>
#include <slub/shrinker.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "pressure.h"

namespace {

TEST(Pressure, AFifoAsSystemdSaysIt)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Witness witness;

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_handle() == -EINVAL);
		int fd = slub_pressure_fd();
		CHECK(fd >= 0 && slub_pressure_fd() == fd);
		CHECK(stats().sources == SLUB_PRESSURE_WATCH);
		CHECK(!is_readable(fd, 0) && slub_pressure_handle() == 0);
		int out = open(path.c_str(), O_WRONLY);
		CHECK(write(out, "x", 1) == 1);
		CHECK(is_readable(fd, 1000) && slub_pressure_handle() == 1);
		CHECK(witness.counts == 1 && stats().walks == 1);
		CHECK(!is_readable(fd, 0) && slub_pressure_handle() == 0);
		CHECK(witness.counts == 1);
	});
}

TEST(Pressure, PressureGrowsWhileItLasts)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Witness witness;
		int last = SLUB_SHRINK_PRIORITY_MAX + 1;

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_fd() >= 0);
		int out = open(path.c_str(), O_WRONLY);
		for (int i = 0; i < 8; i++) {
			CHECK(write(out, "x", 1) == 1);
			CHECK(slub_pressure_handle() == 1);
			/* At once again: taken together. */
			CHECK(write(out, "x", 1) == 1);
			CHECK(slub_pressure_handle() == 1);
			CHECK(witness.priority < last || witness.priority == 0);
			last = witness.priority;
			usleep(80000);
		}
		CHECK(last == 0);
		CHECK(stats().events == 16 && stats().merged + stats().walks == 16);
		CHECK(stats().walks >= 8);
	});
}

/* Has blocks of 4 KiB, and frees what it is asked for. */
struct Hoard : slub_shrinker {
	std::vector<void *> blocks;

	explicit Hoard(size_t n) : slub_shrinker()
	{
		while (blocks.size() < n)
			blocks.push_back(memset(malloc(4096), 1, 4096));
		count = [](slub_shrinker *s, slub_shrink_control *) noexcept {
			return static_cast<Hoard *>(s)->blocks.size();
		};
		scan = [](slub_shrinker *s, slub_shrink_control *c) noexcept {
			auto *hoard = static_cast<Hoard *>(s);
			size_t n = std::min(c->nr_to_scan, hoard->blocks.size());

			for (size_t i = 0; i < n; i++) {
				free(hoard->blocks.back());
				hoard->blocks.pop_back();
			}
			return n;
		};
		seeks = SLUB_SHRINKER_SEEKS;
		slub_shrinker_create(this);
	}
};

TEST(Pressure, AWalkThatGaveEnoughIsNotFollowedByAHarderOne)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Hoard hoard(16384);

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_fd() >= 0);
		int out = open(path.c_str(), O_WRONLY);
		for (int i = 0; i < 8; i++) {
			CHECK(write(out, "x", 1) == 1);
			CHECK(slub_pressure_handle() == 1);
			CHECK(stats().priority >= 4);
			usleep(60000);
		}
		CHECK(hoard.blocks.size() > 8192);
	});
}

TEST(Pressure, AWalkIsCutShortAndTheNextGoesOn)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Witness witnesses[10];
		int all = 0;

		for (Witness &witness : witnesses)
			witness.sleep_us = 30000;
		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_fd() >= 0);
		int out = open(path.c_str(), O_WRONLY);
		/* On a busy machine a walk may be over before it has asked anyone. */
		for (int i = 0; i < 300 && (i < 10 || all < 10); i++) {
			CHECK(write(out, "x", 1) == 1);
			slub_pressure_handle();
			usleep(60000);
			all = 0;
			for (Witness &witness : witnesses)
				all += witness.counts > 0;
		}
		CHECK(stats().cut_short >= 5);
		CHECK(all == 10);
	});
}

/* Objects that may be moved, of which one in ten is left. */
struct Sparse {
	slub_cache *cache = slub_cache_create("sparse", 200, 0, 0, nullptr);
	std::set<void *> alive;
	size_t moved = 0;

	Sparse()
	{
		std::vector<void *> all(20000);

		slub_cache_setup_mobility(cache, isolate, migrate, this);
		for (void *&o : all)
			o = slub_cache_alloc(cache);
		for (size_t i = 0; i < all.size(); i++) {
			if (i % 10)
				slub_cache_free(cache, all[i]);
			else
				alive.insert(all[i]);
		}
	}
	static void isolate(slub_cache *, void **objects, size_t n, void *arg) noexcept
	{
		for (size_t i = 0; i < n; i++) {
			if (!static_cast<Sparse *>(arg)->alive.count(objects[i]))
				objects[i] = nullptr;
		}
	}
	static int migrate(slub_cache *, void *from, void *to, void *arg) noexcept
	{
		auto *self = static_cast<Sparse *>(arg);

		self->alive.erase(from);
		self->alive.insert(to);
		self->moved++;
		return SLUB_MIGRATED;
	}
	size_t slabs()
	{
		struct slub_cache_stats s = {};

		slub_cache_stats(cache, &s);
		return s.slabs;
	}
};

TEST(Pressure, ObjectsThatMayBeMovedMakeRoom)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Sparse sparse;

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_fd() >= 0);
		/* Not inside an allocation, and not when nobody is short of memory. */
		slub_shrink_all();
		size_t before = sparse.slabs();
		CHECK(sparse.moved == 0);
		int out = open(path.c_str(), O_WRONLY);
		CHECK(write(out, "x", 1) == 1);
		CHECK(slub_pressure_handle() == 1);
		CHECK(sparse.moved > 1000);
		CHECK(sparse.slabs() * 5 < before);
		CHECK(stats().bytes > 0);
	});
}

/* A socket that the library can connect to; -1: none. */
int listen_at(const std::string &path)
{
	struct sockaddr_un address = { AF_UNIX, {} };
	int server = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, path.c_str());
	if (bind(server, (struct sockaddr *)&address, sizeof(address)) || listen(server, 1))
		return -1;
	return server;
}

TEST(Pressure, ASocketAndWhatIsToBeWrittenFirst)
{
	Folder folder;
	std::string path = folder.file("watch");
	int server = listen_at(path);

	ASSERT_GE(server, 0);
	expect_good([&] {
		char got[32] = "";

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		setenv("MEMORY_PRESSURE_WRITE", "c29tZSAyMDAwMDAA", 1);
		int fd = slub_pressure_fd();
		CHECK(fd >= 0);
		int client = accept(server, nullptr, nullptr);
		CHECK(read(client, got, sizeof(got)) == 12);
		CHECK(!memcmp(got, "some 200000", 12));
		CHECK(write(client, "now", 3) == 3);
		CHECK(is_readable(fd, 1000) && slub_pressure_handle() == 1);
	});
	close(server);
}

TEST(Pressure, ASocketWhoseOtherEndCloses)
{
	Folder folder;
	std::string path = folder.file("watch");
	int server = listen_at(path);

	ASSERT_GE(server, 0);
	expect_good([&] {
		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		int fd = slub_pressure_fd();
		CHECK(fd >= 0 && !is_readable(fd, 0));
		int client = accept(server, nullptr, nullptr);
		CHECK(write(client, "now", 3) == 3);
		close(client);
		/* What was said before is heard; then there is nothing to wait for. */
		CHECK(is_readable(fd, 1000) && slub_pressure_handle() == 1);
		CHECK(is_readable(fd, 1000) && slub_pressure_handle() == 0);
		CHECK(!is_readable(fd, 0) && slub_pressure_handle() == 0);
	});
	close(server);
}

TEST(Pressure, NothingToWatchIsAnError)
{
	expect_good([] {
		setenv("MEMORY_PRESSURE_WATCH", "/dev/null", 1);
		CHECK(slub_pressure_fd() == -ENOENT);
		CHECK(slub_pressure_handle() == -EINVAL);
		setenv("MEMORY_PRESSURE_WATCH", "/nowhere/at/all", 1);
		CHECK(slub_pressure_fd() == -ENOENT);
		/* A plain file says nothing. */
		setenv("MEMORY_PRESSURE_WATCH", "/proc/self/exe", 1);
		CHECK(slub_pressure_fd() == -ENOENT && !stats().sources);
	});
}

TEST(Pressure, AThreadThatIsAskedFor)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Witness witness;

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_stop_thread() == -ESRCH);
		CHECK(slub_pressure_start_thread() == 0);
		CHECK(slub_pressure_start_thread() == -EEXIST);
		int out = open(path.c_str(), O_WRONLY);
		CHECK(write(out, "x", 1) == 1);
		while (!witness.counts)
			usleep(1000);
		CHECK(slub_pressure_stop_thread() == 0);
		CHECK(slub_pressure_stop_thread() == -ESRCH);
		CHECK(slub_pressure_start_thread() == 0);
#if !defined(__SANITIZE_THREAD__)	/* which ends a child that makes threads */
		/* A child has neither thread nor sources. */
		pid_t child = fork();
		if (child == 0) {
			struct slub_pressure_stats stats;

			slub_pressure_stats(&stats);
			bool good = slub_pressure_handle() == -EINVAL && !stats.sources &&
				    slub_pressure_stop_thread() == -ESRCH &&
				    slub_pressure_start_thread() == 0 &&
				    slub_pressure_stop_thread() == 0;
			_exit(good ? 0 : 1);
		}
		CHECK(harness::wait_for(child) == 0);
#endif
		CHECK(slub_pressure_stop_thread() == 0);
	});
}

/* Stops the thread that calls it, and is asked to until that was answered. */
struct Stopper : slub_shrinker {
	std::atomic<int> answer{ 1 };

	Stopper() : slub_shrinker()
	{
		name = "stopper";
		count = [](slub_shrinker *s, slub_shrink_control *) noexcept -> size_t {
			auto *stopper = static_cast<Stopper *>(s);

			if (stopper->answer == 1)
				stopper->answer = slub_pressure_stop_thread();
			return 0;
		};
		scan = [](slub_shrinker *, slub_shrink_control *) noexcept -> size_t {
			return SLUB_SHRINK_STOP;
		};
		slub_shrinker_create(this);
	}
	~Stopper() { slub_shrinker_destroy(this); }
};

TEST(Pressure, TheThreadCannotStopItself)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Stopper stopper;

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_start_thread() == 0);
		int out = open(path.c_str(), O_WRONLY);
		CHECK(write(out, "x", 1) == 1);
		while (stopper.answer == 1)
			usleep(1000);
		CHECK(stopper.answer == -EDEADLK);
		CHECK(slub_pressure_start_thread() == -EEXIST);
		CHECK(slub_pressure_stop_thread() == 0);
		CHECK(slub_pressure_stop_thread() == -ESRCH);
	});
}

/* Base64, as systemd writes what is to be written. */
const char SOME_100_MS_OF_2_S[] = "c29tZSAxMDAwMDAgMjAwMDAwMAA=";

/* More threads than CPUs: some wait for one. */
struct Busy {
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;

	Busy()
	{
		setenv("MEMORY_PRESSURE_WATCH", "/proc/pressure/cpu", 1);
		setenv("MEMORY_PRESSURE_WRITE", SOME_100_MS_OF_2_S, 1);
		for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); i++) {
			threads.emplace_back([&] {
				while (!stop)
					continue;
			});
		}
	}
	~Busy()
	{
		stop = true;
		for (auto &thread : threads)
			thread.join();
	}
};

int set_trigger()
{
	int fd = open("/proc/pressure/cpu", O_RDWR | O_CLOEXEC);
	const char line[] = "some 100000 2000000";

	if (fd < 0 || write(fd, line, sizeof(line)) == sizeof(line))
		return fd;
	close(fd);
	return -1;
}

bool can_set_trigger()
{
	int fd = set_trigger();

	close(fd);
	return fd >= 0;
}

/*
 * A stall trigger of the kernel's, of a pressure that is easy to make: whoever polls the descriptor
 * takes the trigger's event away, and is to be told of it all the same.
 */
TEST(Pressure, AStallTriggerThatWasPolled)
{
	if (!can_set_trigger())
		GTEST_SKIP() << "no trigger can be set";
	expect_good([&] {
		Witness witness;
		Busy busy;
		int fd = slub_pressure_fd();

		CHECK(fd >= 0 && is_readable(fd, 50000));
		CHECK(slub_pressure_handle() == 1);
		CHECK(witness.counts == 1 && stats().walks == 1);
		/* The same by the thread. */
		CHECK(slub_pressure_start_thread() == 0);
		while (witness.counts == 1)
			usleep(1000);
		CHECK(slub_pressure_stop_thread() == 0);
	});
}

/*
 * The kernel looks every two seconds, and adds what has been stalled since it last did: one that
 * is set shortly before has its event for what was stalled earlier.
 */
TEST(Pressure, AStallTriggerThatSpeaksEarly)
{
	if (!can_set_trigger())
		GTEST_SKIP() << "no trigger can be set";
	expect_good([&] {
		Busy busy;
		struct pollfd earlier = { set_trigger(), POLLPRI, 0 };

		CHECK(poll(&earlier, 1, 50000) == 1);
		usleep(1930000);
		int fd = slub_pressure_fd();
		CHECK(fd >= 0 && is_readable(fd, 50000));
		CHECK(slub_pressure_handle() == 1);
	});
}

/* What this machine has without systemd; it may have nothing. */
TEST(Pressure, TheMachinesOwnSources)
{
	expect_good([] {
		unsetenv("MEMORY_PRESSURE_WATCH");
		int fd = slub_pressure_fd();
		CHECK(fd >= 0 || fd == -ENOENT);
		if (fd < 0)
			return;
		CHECK(stats().sources != 0);
		CHECK(slub_pressure_handle() >= 0);
		fprintf(stderr, "sources %#x\n", stats().sources);
	});
}

bool put(const std::string &path, const std::string &text)
{
	std::ofstream file(path);

	file << text << std::flush;
	return file.good();
}

/* A real limit: cgroup v1 or v2, where this test may make a group. */
TEST(Pressure, ARealGroupThatFillsUp)
{
	std::string v1 = "/sys/fs/cgroup/memory/slub-test", v2 = "/sys/fs/cgroup/slub-test";
	std::string folder = mkdir(v1.c_str(), 0755) == 0 ? v1 : v2;
	bool is_v1 = folder == v1;

	if (!is_v1 && mkdir(v2.c_str(), 0755) != 0)
		GTEST_SKIP() << "no cgroup can be made";
	bool can = put(folder + (is_v1 ? "/memory.limit_in_bytes" : "/memory.max"), "67108864");
	if (can) {
		expect_good([&] {
			Witness witness;
			size_t bytes = 80 << 20;

			if (!put(folder + "/cgroup.procs", std::to_string(getpid())))
				_exit(0);
			int fd = slub_pressure_fd();
			CHECK(fd >= 0);
			CHECK(stats().sources & (SLUB_PRESSURE_V1_USAGE | SLUB_PRESSURE_EVENTS));
			/* Page cache: it can be taken back, so nobody is killed. */
			int file = open("/var/tmp", O_TMPFILE | O_RDWR, 0600);
			if (file < 0)
				_exit(0);	/* overlayfs before Linux 6.3 */
			std::string page(1 << 20, 'x');
			for (size_t done = 0; done < bytes; done += page.size())
				CHECK(write(file, page.data(), page.size()) > 0);
			CHECK(is_readable(fd, 10000));
			CHECK(slub_pressure_handle() > 0);
			CHECK(witness.counts > 0);
		});
	}
	rmdir(folder.c_str());
	if (!can)
		GTEST_SKIP() << "no limit can be set in " << folder;
}

} /* namespace */
