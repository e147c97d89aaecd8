/* SPDX-License-Identifier: MIT */
/*
 * Promise: a program that keeps what it can in a cache with a shrinker lives in a cgroup that has
 * room for half of it: stall triggers (PSI) and memory.events of its own group reach the library.
 *
 * Of cgroup v2; tests/reclaim has v1 too.
 */
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

#include <slub/cache.h>
#include <slub/pressure.h>
#include <slub/shrinker.h>

#include "harness.h"
#include "nodes.h"

namespace {

const size_t MIB = 1ul << 20;
const std::string group = "/sys/fs/cgroup/slub-machine";

bool put(const std::string &file, const std::string &text)
{
	std::ofstream out(file);

	out << text << std::flush;
	return out.good();
}

long event(const std::string &name)
{
	std::ifstream in(group + "/memory.events");
	std::string word;
	long n;

	while (in >> word >> n) {
		if (word == name)
			return n;
	}
	return -1;
}

/* Values in the order of their age; the oldest go when memory is short. */
struct values {
	struct slub_cache *cache = slub_cache_create("values", 2000, 0, 0, nullptr);
	std::deque<void *> all;
	std::mutex lock;
	struct slub_shrinker shrinker = {};

	values()
	{
		shrinker.name = "values";
		shrinker.data = this;
		shrinker.seeks = SLUB_SHRINKER_SEEKS;
		shrinker.count = [](slub_shrinker *s, slub_shrink_control *) noexcept {
			auto *self = (values *)s->data;
			std::lock_guard<std::mutex> guard(self->lock);

			return self->all.size();
		};
		shrinker.scan = [](slub_shrinker *s, slub_shrink_control *c) noexcept {
			auto *self = (values *)s->data;
			std::lock_guard<std::mutex> guard(self->lock);
			size_t n = 0;

			for (; n < c->nr_to_scan && !self->all.empty(); n++)
				self->drop();
			return n ? n : SLUB_SHRINK_STOP;
		};
		slub_shrinker_create(&shrinker);
	}
	void drop()
	{
		slub_cache_free(cache, all.front());
		all.pop_front();
	}
	void add(size_t n)
	{
		void *object = slub_cache_alloc(cache);
		std::lock_guard<std::mutex> guard(lock);

		if (!object)
			return;		/* at SLUB_LIMIT: what there is has to do */
		harness::fill(object, 2000, n);
		all.push_back(object);
	}
};

struct slub_pressure_stats report(const char *when, const values &kept)
{
	struct slub_pressure_stats stats;

	slub_pressure_stats(&stats);
	printf("%s: sources %#x, %lu events, %lu walks, %lu given back; %zu values are left\n",
	       when, stats.sources, stats.events, stats.walks, (unsigned long)kept.shrinker.freed,
	       kept.all.size());
	fflush(stdout);
	return stats;
}

/* Memory that the library knows nothing of: only the kernel can tell it. */
void press(bool by_thread)
{
	const size_t bytes = 24 * MIB;
	char *map = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t at = 0; at < bytes; at += 4096) {
		map[at] = 1;
		if (!by_thread && at % (64 << 10) == 0)
			slub_pressure_handle();
	}
	for (int i = 0; i < 50 && by_thread; i++)
		usleep(20000);
}

/* Makes 128 MiB of values in a group with room for 64, then has other memory come. */
int live(bool by_thread)
{
	struct slub_pressure_stats stats;
	uint64_t freed;
	values kept;

	if (slub_pressure_fd() < 0 || (by_thread && slub_pressure_start_thread()))
		return 3;
	for (size_t i = 0; i < 128 * MIB / 2000; i++) {
		kept.add(i);
		if (!by_thread && i % 256 == 0)
			slub_pressure_handle();
	}
	stats = report("made", kept);
	freed = kept.shrinker.freed;
	if (!(stats.sources & SLUB_PRESSURE_EVENTS) ||
	    !(stats.sources & SLUB_PRESSURE_PSI_CGROUP))
		return 4;
	/* The library has read the limit and asked by itself. */
	if (!freed)
		return 5;
	while (kept.all.size() < 30 * MIB / 2000)
		kept.add(kept.all.size());
	press(by_thread);
	stats = report("pressed", kept);
	return stats.walks ? 0 : 6;
}

class pressure : public testing::Test {
protected:
	void SetUp() override
	{
		if (mkdir(group.c_str(), 0755) || !put(group + "/memory.high", "50331648") ||
		    !put(group + "/memory.max", "67108864"))
			GTEST_SKIP() << "no limit can be set in " << group;
		if (access((group + "/memory.pressure").c_str(), W_OK))
			GTEST_SKIP() << "this kernel does not measure stalls (psi=1)";
	}
	void TearDown() override { rmdir(group.c_str()); }

	void expect_life(const char *how)
	{
		pid_t pid = fork();
		int status;

		ASSERT_GE(pid, 0);
		if (!pid) {
			put(group + "/cgroup.procs", std::to_string(getpid()));
			execl("/proc/self/exe", "pressure", "--live", how, nullptr);
			_exit(8);
		}
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(harness::describe_status(status), "exit 0");
		EXPECT_EQ(event("oom_kill"), 0);
		EXPECT_GT(event("high"), 0) << "it was never short";
	}
};

TEST_F(pressure, a_program_that_asks_between_its_requests)
{
	expect_life("itself");
}

TEST_F(pressure, a_program_with_the_library_s_thread)
{
	expect_life("thread");
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	return argc == 3 && !strcmp(argv[1], "--live") ? live(!strcmp(argv[2], "thread")) : -1;
}
