/* SPDX-License-Identifier: MIT */
/*
 * Promise: what is done near the limit of a cgroup is in proportion to what it brings.  A program
 * that keeps blocks of 16 KiB as long as it may, and asks after each, gets on: a block that was
 * given back to the system is not given back again.
 *
 * In a real group of version 1 or 2, where this test may make one, and with strace.
 */
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <sys/wait.h>

#include <slub/cache.h>

#include "pressure.h"

namespace {

const size_t MIB = 1ul << 20, BLOCK = 16384, LIMIT = 64 * MIB;
/* So much is in use that the limit is always near. */
const size_t KEPT = LIMIT / BLOCK * 7 / 10, NR_BLOCKS = 6000;

/* The oldest blocks go, but for so many. */
struct Blocks : slub_shrinker {
	struct slub_cache *cache = slub_cache_create("blocks", BLOCK, 0, 0, nullptr);
	std::deque<void *> all;
	std::mutex lock;

	Blocks() : slub_shrinker()
	{
		name = "blocks";
		count = [](slub_shrinker *s, slub_shrink_control *) noexcept -> size_t {
			auto *self = static_cast<Blocks *>(s);
			std::lock_guard<std::mutex> guard(self->lock);

			return self->to_spare();
		};
		scan = [](slub_shrinker *s, slub_shrink_control *c) noexcept -> size_t {
			auto *self = static_cast<Blocks *>(s);
			std::lock_guard<std::mutex> guard(self->lock);
			size_t n = 0;

			while (n < c->nr_to_scan && self->to_spare()) {
				self->drop();
				n++;
			}
			return n ? n : SLUB_SHRINK_STOP;
		};
		slub_shrinker_create(this);
	}
	size_t to_spare() const { return all.size() > KEPT ? all.size() - KEPT : 0; }
	void drop()
	{
		slub_cache_free(cache, all.front());
		all.pop_front();
	}
	bool add()
	{
		void *block = slub_cache_alloc(cache);

		if (!block)
			return false;
		memset(block, 1, BLOCK);
		std::lock_guard<std::mutex> guard(lock);
		all.push_back(block);
		return true;
	}
};

int live()
{
	bool has_thread = getenv("SLUB_PRESSURE") != nullptr;
	static Blocks blocks;
	size_t refused = 0;

	if (!has_thread && slub_pressure_fd() < 0)
		return 3;
	for (size_t i = 0; i < NR_BLOCKS; i++) {
		if (!blocks.add()) {
			std::lock_guard<std::mutex> guard(blocks.lock);

			refused++;
			blocks.drop();
		}
		slub_pressure_handle();
	}
	return refused > NR_BLOCKS / 2 ? 4 : 0;
}

bool put(const std::string &path, const std::string &text)
{
	std::ofstream file(path);

	file << text << std::flush;
	return file.good();
}

class Work : public testing::TestWithParam<const char *> {
protected:
	void SetUp() override
	{
		const std::string name = "/slub-work-" + std::to_string(getpid());

		if (system("command -v strace >/dev/null && strace -o /dev/null true"))
			GTEST_SKIP() << "strace cannot be used";
		for (const char *root : { "/sys/fs/cgroup/memory", "/sys/fs/cgroup" }) {
			group = root + name;
			if (mkdir(group.c_str(), 0755) == 0 &&
			    (put(group + "/memory.limit_in_bytes", std::to_string(LIMIT)) ||
			     put(group + "/memory.max", std::to_string(LIMIT))))
				break;
			rmdir(group.c_str());
			group = "";
		}
		if (group.empty())
			GTEST_SKIP() << "no limit can be set in a cgroup here";
		put(group + "/memory.swap.max", "0");
	}
	void TearDown() override
	{
		for (int i = 0; !group.empty() && rmdir(group.c_str()) && i < 100; i++)
			usleep(20000);
	}

	/* Calls of madvise(2), by strace's own table. */
	static size_t count(const std::string &path)
	{
		std::ifstream file(path);
		double part, seconds;
		size_t each, calls;
		std::string line;

		while (std::getline(file, line))
			if (line.find(" madvise") != std::string::npos &&
			    sscanf(line.c_str(), "%lf %lf %zu %zu", &part, &seconds, &each,
				   &calls) == 4)
				return calls;
		return 0;
	}

	std::string group;
};

TEST_P(Work, IsInProportionToWhatItBrings)
{
	Folder folder;
	std::string log = folder.file("watch");
	int status = harness::in_child([&] {
		const char *setting = GetParam();

		if (!put(group + "/cgroup.procs", std::to_string(getpid())))
			_exit(77);
		unsetenv("MEMORY_PRESSURE_WATCH");
		if (*setting)
			putenv(const_cast<char *>(setting));
		std::string self = harness::folder() + "/reclaim_pressure_work_test";
		execlp("strace", "strace", "-f", "-c", "-e", "trace=madvise", "-o", log.c_str(),
		       self.c_str(), "--live", nullptr);
		_exit(78);
	}, nullptr, 200);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "the group cannot be entered";
	ASSERT_EQ(harness::describe_status(status), "exit 0")
		<< "3: nothing to watch, 4: most requests were refused";
	size_t calls = count(log);
	printf("%zu blocks, %zu kept: %zu calls of madvise\n", NR_BLOCKS, KEPT, calls);
	EXPECT_LT(calls, NR_BLOCKS / 2);
}

INSTANTIATE_TEST_SUITE_P(settings, Work,
			 testing::Values("", "SLUB_LIMIT=auto", "SLUB_PRESSURE=thread"));

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], "--live") ? live() : -1;
}
