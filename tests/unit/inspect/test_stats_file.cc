/* SPDX-License-Identifier: MIT */
/* features/inspect/stats_file.c: what a forked child writes. */
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "harness.h"
#include "slub.h"
#include "start.h"
#include "steps.h"

extern "C" {
#define new new_value
#define _Atomic
#include "core/slab/local.h"
#undef new
#undef _Atomic
}

namespace {

const volatile struct slub_stats_head *file_of(const std::string &folder, pid_t pid)
{
	std::string path = folder + "/" + std::to_string(pid);
	int fd = open(path.c_str(), O_RDONLY);
	struct stat state;
	void *file = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &state))
		file = mmap(nullptr, (size_t)state.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	unlink(path.c_str());
	return file == MAP_FAILED ? nullptr : (struct slub_stats_head *)file;
}

/* Does anybody write the record of a cache? */
bool is_in_a_record(const volatile struct slub_stats_head *file)
{
	for (uint32_t i = 0; i < file->nr_records; i++) {
		auto *record = (const volatile struct slub_stats_cache *)
			((const volatile char *)file + file->records_offset +
			 (size_t)i * file->record_bytes);

		if (record->sequence % 2)
			return true;
	}
	return false;
}

/* The numbers of a cache's record, once a census has just been. */
const volatile struct slub_stats_cache *
record_after_census(const volatile struct slub_stats_head *file, struct slub_cache *cache)
{
	for (uint64_t last = file->census_ns; file->census_ns == last; usleep(1000))
		stats_file_update(nullptr);
	stats_file_update(cache);
	return (const volatile struct slub_stats_cache *)
		((const volatile char *)file + file->records_offset +
		 entry_number(cache->slot) * file->record_bytes);
}

/*
 * To count what lies in local lists is to walk slabs, and is left to the census.  The first test:
 * a census that others take step by step is not due again for long.
 */
TEST(stats_file, a_record_walks_no_slabs)
{
	char folder[] = "/tmp/slub-stats-XXXXXX";
	struct slub_cache *cache = sizeclass_cache(400);
	std::vector<void *> mine;
	harness::Random random{ 5 };
	start::one_cpu stays;

	if (!cache->has_local)
		GTEST_SKIP() << "slabs have no local lists here";
	ASSERT_NE(mkdtemp(folder), nullptr);
	start::option("STATS_FILE=" + std::string(folder) + "/%p");
	stats_file_open();
	const volatile struct slub_stats_head *file = file_of(folder, getpid());
	ASSERT_NE(file, nullptr);
	rmdir(folder);
	for (size_t i = 0; i < 40000; i++)
		mine.push_back(malloc(400));
	for (size_t i = mine.size(); i > 1; i--)
		std::swap(mine[i - 1], mine[random.below(i)]);
	for (size_t round = 0; round < 40; round++) {
		const volatile struct slub_stats_cache *record = record_after_census(file, cache);
		uint64_t census = file->census_ns, cached = record->cached;
		size_t local = local_nr(cache);

		for (size_t i = 0; i < 500; i++, mine.pop_back())
			free(mine.back());
		stats_file_update(cache);
		ptrdiff_t moved = (ptrdiff_t)(local_nr(cache) - local);
		ptrdiff_t told = (ptrdiff_t)(record->cached - cached);
		if (file->census_ns == census && moved >= 300) {
			EXPECT_LT(told, 100) << moved << " went to local lists";
			break;
		}
		ASSERT_LT(round, 39u) << "a census comes ten times a second";
	}
	for (void *object : mine)
		free(object);
}

/* Is the heap counted in a new file, and once more? */
int child_counts(const std::string &folder)
{
	const volatile struct slub_stats_head *file;
	uint64_t first;

	stats_file_update(nullptr);
	file = file_of(folder, getpid());
	if (!file)
		return 2;
	first = file->census_ns;
	for (int i = 0; i < 1000; i++) {
		stats_file_update(nullptr);
		if (file->census_ns != first)
			return 0;
		usleep(10000);
	}
	return 1;
}

/* 0: the child, which leaves a handler in its @n-th step, has a file of its own; 2: it is over. */
int fork_in_update(const std::string &folder, unsigned n)
{
	const volatile struct slub_stats_head *file;
	pid_t pid = -1;

	/* The process's own; a census is due at once. */
	stats_file_update(nullptr);
	file = file_of(folder, getpid());
	if (!file)
		return 3;
	steps::run([] { stats_file_update(sizeclass_cache(64)); }, [&] {
		if (n--)
			return true;
		pid = fork();
		return false;
	});
	if (pid == 0) {
		alarm(20);
		stats_file_update(nullptr);
		file = file_of(folder, getpid());
		_exit(!file || file->pid != (uint32_t)getpid() || !file->census_ns);
	}
	if (pid < 0)
		return 2;
	int status = harness::wait_for(pid);
	if (status)
		fprintf(stderr, "%s\n", harness::describe_status(status).c_str());
	return status || file->pid != (uint32_t)getpid();
}

/*
 * A handler forks in the middle of an update, and it is the child's as well: it has a copy of the
 * file to end it in, and then a file of its own.
 */
TEST(stats_file, is_left_by_the_child_that_was_writing_it)
{
	char folder[] = "/tmp/slub-stats-XXXXXX";
	unsigned step = 0;
	int status = 0;

	ASSERT_NE(mkdtemp(folder), nullptr);
	start::option("STATS_FILE=" + std::string(folder) + "/%p");
	stats_file_open();
	ASSERT_NE(file_of(folder, getpid()), nullptr);
	for (; !status && step < 50000; step += step / 3 + 1) {
		std::string errors;

		status = harness::in_child([&] { _exit(fork_in_update(folder, step)); }, &errors);
		EXPECT_TRUE(!status || status == 2 << 8) << step << " " << errors;
	}
	EXPECT_GT(step, 1000u);
	rmdir(folder);
}

/*
 * Another thread is in the census, and does not come along.  It stops where it holds no lock: a
 * thread that does not stop would soon let go of it, and this one may want it to allocate.
 */
TEST(stats_file, is_kept_in_the_child_of_a_census)
{
	char folder[] = "/tmp/slub-stats-XXXXXX";
	const volatile struct slub_stats_head *file;
	sem_t inside, go_on;
	bool found = false;

	ASSERT_NE(mkdtemp(folder), nullptr);
	start::option("STATS_FILE=" + std::string(folder) + "/%p");
	stats_file_open();
	file = file_of(folder, getpid());
	ASSERT_NE(file, nullptr);
	sem_init(&inside, 0, 0);
	sem_init(&go_on, 0, 0);
	{
		steps::Other other;

		other.begin([&] {
			/* A census is due ten times a second. */
			for (unsigned step = 0; !found;) {
				steps::run([] { stats_file_update(nullptr); }, [&] {
					if (++step % 64 || slub_thread.locks_held ||
					    !is_in_a_record(file))
						return true;
					found = true;
					sem_post(&inside);
					while (sem_wait(&go_on))
						continue;
					return false;
				});
				usleep(1000);
			}
		});
		while (sem_wait(&inside))
			continue;
		pid_t child = fork();
		if (child == 0) {
			alarm(20);
			_exit(child_counts(folder));
		}
		int status = harness::wait_for(child);
		sem_post(&go_on);
		other.finish();
		EXPECT_EQ(status, 0) << harness::describe_status(status);
	}
	rmdir(folder);
}

} /* namespace */
