/* SPDX-License-Identifier: MIT */
/* features/inspect/stats_file.c: what a statistics file has in it, number by number. */
#include "written.h"

namespace {

TEST_F(written, head)
{
	uint64_t before = now(CLOCK_REALTIME);
	size_t at;

	open_file();
	EXPECT_EQ(std::string(file->magic), "SLUBSTA");
	EXPECT_EQ(file->version, 2u);
	EXPECT_EQ(file->size, sizeof(*file));
	EXPECT_EQ(file->state, 1u);
	EXPECT_EQ(file->pid, (uint32_t)getpid());
	for (uint64_t at_ns : { file->start_ns, file->census_ns }) {
		EXPECT_GE(at_ns, before);
		EXPECT_LE(at_ns, now(CLOCK_REALTIME));
	}
	EXPECT_GT(file->update_ns, before - 1000000000);
	EXPECT_EQ(file->totals[SLUB_STATS_BEGAN_TICKS], began(getpid()));
	EXPECT_EQ(file->options_offset, sizeof(*file));
	EXPECT_EQ(file->nr_options, (uint32_t)OPTION_NR);
	EXPECT_EQ(file->option_bytes, sizeof(struct slub_abi_option));
	at = (sizeof(*file) + OPTION_NR * sizeof(struct slub_abi_option) + 4095) / 4096 * 4096;
	EXPECT_EQ(file->records_offset, at);
	EXPECT_EQ(file->nr_nodes, slub_abi_state.nr_nodes);
	EXPECT_EQ(file->record_bytes, sizeof(struct slub_stats_cache) + 128 +
		  file->nr_nodes * sizeof(record(0)->nodes[0]));
	at += 2048 * file->record_bytes;
	EXPECT_EQ(file->groups_offset, at);
	at += sizeof(struct slub_stats_groups) + 1024 * sizeof(struct slub_stats_group);
	EXPECT_EQ((size_t)status.st_size, (at + 4095) / 4096 * 4096);
	EXPECT_GE(status.st_blocks * 512, status.st_size) << "there is room for all of it";
	EXPECT_EQ(status.st_mode & 0777, 0600u);
	EXPECT_EQ(memcmp(file + 1, slub_abi_options, sizeof(slub_abi_options)), 0);
	EXPECT_EQ(memcmp(&file->abi, &slub_abi_state, sizeof(slub_abi_state)), 0);
	auto groups = (const struct slub_stats_groups *)((const char *)file + file->groups_offset);
	EXPECT_EQ(groups->version, 1u);
	EXPECT_EQ(groups->size, sizeof(*groups));
	EXPECT_EQ(groups->group_bytes, sizeof(struct slub_stats_group));
	EXPECT_EQ(groups->nr_beyond, 0u);
	std::string command = read_all("/proc/self/cmdline");
	command.pop_back();
	for (char &c : command)
		c = c ? c : ' ';
	EXPECT_EQ(std::string(file->command), command.substr(0, sizeof(file->command) - 1));
}

TEST_F(written, each_cache_has_its_record)
{
	size_t nr = 0, last = 0;
	void *held[] = { malloc(100), malloc(3000), malloc(20000) };

	open_file();
	for (size_t i = 0; i < 2048; i++) {
		const struct slub_cache *cache = census_cache_at(i);
		union cache_record expected = {};
		struct cache_census census;

		if (!cache) {
			EXPECT_EQ(record(i)->slot, 0u);
			continue;
		}
		census_cache(cache, &census);
		census_record(cache, slub_abi_state.nr_nodes, &expected.record);
		expected.record.slot = cache->slot;
		expected.record.sequence = 2;
		expected.record.slabs = census.slabs;
		expected.record.active = census.active;
		expected.record.carved = census.carved;
		expected.record.partial = census.partial;
		EXPECT_EQ(memcmp(record(i), &expected, file->record_bytes), 0) << cache->name;
		EXPECT_EQ(std::string(record(i)->name), cache->name);
		nr++;
		last = i;
	}
	EXPECT_GT(nr, 3u);
	EXPECT_EQ(file->nr_records, last + 1);
	for (void *block : held)
		free(block);
}

/* What a record is made of: each number from where it stands, counters from each area. */
TEST_F(written, numbers_of_a_record)
{
	struct slub_cache *cache = slub_cache_create("of-a-record", 72, 0, SLUB_CACHE_NO_MERGE,
						     nullptr);
	union cache_record made = {};
	const uint64_t *fields = made.record.fields;
	std::vector<void *> objects(300);

	ASSERT_NE(cache, nullptr);
	for (void *&object : objects)
		object = slub_cache_alloc(cache);
	for (size_t i = 0; i < objects.size(); i += 2)
		slub_cache_free(cache, objects[i]);
	census_record(cache, slub_abi_state.nr_nodes, &made.record);
	EXPECT_STREQ(made.record.name, "of-a-record");
	EXPECT_EQ(fields[SLUB_ABI_CACHE_NAME], (uintptr_t)cache->name);
	EXPECT_EQ(fields[SLUB_ABI_CACHE_SLOT], cache->slot);
	EXPECT_EQ(fields[SLUB_ABI_CACHE_SIZE], cache->size);
	EXPECT_EQ(fields[SLUB_ABI_CACHE_OBJECT_SIZE], cache->object_size);
	EXPECT_EQ(fields[SLUB_ABI_CACHE_ORDER], cache->order);
	EXPECT_EQ(fields[SLUB_ABI_CACHE_IN_BARNS], cache->in_barns);
	for (int s = 0; s < STAT_NR && cache->stats; s++) {
		uint32_t sum = ((uint32_t *)((char *)percpu_shared_area() + cache->stats))[s];

		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
			char *area = (char *)percpu_area(cid);

			sum += area ? ((uint32_t *)(area + cache->stats))[s] : 0;
		}
		EXPECT_EQ(made.record.stats[s], sum) << s;
	}
	EXPECT_GT(made.record.stats[SLUB_ABI_STAT_OBJECTS_OUT], 0u);
	EXPECT_EQ(made.record.nodes[0][SLUB_ABI_NODE_NR_SLABS], cache->nodes[0]->nr_slabs);
	EXPECT_EQ(made.record.nodes[0][SLUB_ABI_NODE_NR_CARVED], cache->nodes[0]->nr_carved);
	EXPECT_EQ(made.record.nodes[0][SLUB_ABI_NODE_FIELDS_KNOWN], 0u);
	EXPECT_EQ(made.record.cached, cache_nr_cached(cache));
	EXPECT_GT(made.record.cached, 0u);
	/* Of the same name it is not copied again; of another it is. */
	made.record.name[0] = 'O';
	census_record(cache, slub_abi_state.nr_nodes, &made.record);
	EXPECT_STREQ(made.record.name, "Of-a-record");
	made.record.fields[SLUB_ABI_CACHE_NAME] = 0;
	census_record(cache, slub_abi_state.nr_nodes, &made.record);
	EXPECT_STREQ(made.record.name, "of-a-record");
	for (size_t i = 1; i < objects.size(); i += 2)
		slub_cache_free(cache, objects[i]);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(written, an_update_is_of_one_cache)
{
	struct slub_cache *cache, *next;
	uint64_t sequence;
	std::vector<void *> objects(100);

	open_file();
	cache = slub_cache_create("one-cache", 200, 0, SLUB_CACHE_NO_MERGE, nullptr);
	ASSERT_NE(cache, nullptr);
	for (void *&object : objects)
		object = slub_cache_alloc(cache);
	stats_file_update(cache);
	EXPECT_STREQ(record_of(cache)->name, "one-cache");
	EXPECT_EQ(record_of(cache)->slot, cache->slot);
	EXPECT_EQ(record_of(cache)->nodes[0][SLUB_ABI_NODE_NR_SLABS], cache->nodes[0]->nr_slabs);
	EXPECT_GT(file->nr_records, entry_number(cache->slot));
	sequence = record_of(cache)->sequence;
	stats_file_update(cache);
	EXPECT_GE(record_of(cache)->sequence, sequence + 2);
	EXPECT_EQ(record_of(cache)->sequence % 2, 0u);
	count();
	EXPECT_EQ(record_of(cache)->slabs, cache->nodes[0]->nr_slabs);
	EXPECT_EQ(record_of(cache)->active - record_of(cache)->cached, objects.size());
	for (void *object : objects)
		slub_cache_free(cache, object);
	size_t number = entry_number(cache->slot);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	count();
	EXPECT_EQ(record(number)->slot, 0u);
	next = slub_cache_create("its-successor", 200, 0, SLUB_CACHE_NO_MERGE, nullptr);
	ASSERT_NE(next, nullptr);
	count();
	EXPECT_EQ(record_of(next)->slot, next->slot);
	EXPECT_STREQ(record_of(next)->name, "its-successor");
	EXPECT_EQ(slub_cache_destroy(next), 0);
}

TEST_F(written, totals)
{
	uint64_t before;
	void *large, *deferred;
	struct deferred_numbers numbers;

	open_file();
	large = malloc(3 << 20);
	deferred = malloc(1000);
	memset(large, 1, 3 << 20);
	free(malloc(100000));
	int slot = slub_read_lock();
	slub_free_deferred(deferred);
	before = now(CLOCK_REALTIME_COARSE);
	stats_file_update(nullptr);
	deferred_count(&numbers);
	EXPECT_EQ(numbers.objects, 1u);
	EXPECT_EQ(file->totals[SLUB_STATS_DEFERRED_OBJECTS], 1u);
	EXPECT_EQ(file->totals[SLUB_STATS_DEFERRED_BYTES], numbers.bytes);
	EXPECT_GE(numbers.bytes, 1000u);
	slub_read_unlock(slot);
	EXPECT_GE(file->update_ns, before);
	EXPECT_EQ(file->totals[SLUB_STATS_COMMITTED_BYTES], pagemap_committed());
	EXPECT_EQ(file->abi.heap_bytes, pagemap_committed());
	EXPECT_EQ(file->totals[SLUB_STATS_LARGE_BYTES], large_nr_pages() * PAGE_BYTES);
	EXPECT_GE(file->totals[SLUB_STATS_LARGE_BYTES], 3u << 20);
	free(large);
	stats_file_update(nullptr);
	EXPECT_EQ(file->totals[SLUB_STATS_LARGE_BYTES], large_nr_pages() * PAGE_BYTES);
	EXPECT_EQ(file->totals[SLUB_STATS_IDLE_BYTES], page_nr_dirty() * PAGE_BYTES);
	EXPECT_GT(file->totals[SLUB_STATS_IDLE_BYTES], 0u);
	EXPECT_EQ(file->totals[SLUB_STATS_REFUSED_BYTES], page_nr_stuck() * PAGE_BYTES);
	EXPECT_EQ(file->totals[SLUB_STATS_MOVED_RUNS], run_nr_moved());
}

/* What is counted takes a sixty-fourth of the time at the most. */
TEST_F(written, is_not_counted_at_each_update)
{
	uint64_t counted, began_ns;
	int nr = 0;

	open_file();
	count();
	counted = file->census_ns;
	began_ns = now(CLOCK_MONOTONIC);
	do {
		stats_file_update(nullptr);
		nr++;
	} while (nr < 20 && now(CLOCK_MONOTONIC) - began_ns < 50000000);
	if (now(CLOCK_MONOTONIC) - began_ns < 90000000) {
		EXPECT_EQ(file->census_ns, counted) << nr;
	}
}

/* Behind the library's own end. */
bool is_late;

__attribute__((destructor(101))) void end_late()
{
	if (!is_late)
		return;
	if (!harness::opaque(malloc(64 << 20)))
		_exit(1);
	stats_file_update(nullptr);
}

TEST_F(written, behind_the_end)
{
	int result = harness::in_child([&] {
		start::option("STATS_FILE=" + path);
		stats_file_open();
		is_late = true;
		exit(0);
	});

	EXPECT_EQ(result, 0) << harness::describe_status(result);
	map();
	EXPECT_EQ(file->state, 2u);
	EXPECT_GE(file->totals[SLUB_STATS_LARGE_BYTES], 64u << 20);
}

TEST_F(written, leaves_nothing_open)
{
	int before = dup(0), after;

	close(before);
	start::option("STATS_FILE=" + path);
	stats_file_open();
	after = dup(0);
	close(after);
	EXPECT_EQ(before, after) << "the lowest number that is free";
}

/* At the end of a process all is counted once more, and it says so. */
TEST_F(written, at_the_end)
{
	/* Before the fork: its number is this process's. */
	struct slub_cache *cache = slub_cache_create("at-the-end", 120, 0, SLUB_CACHE_NO_MERGE,
						     nullptr);

	ASSERT_NE(cache, nullptr);
	int result = harness::in_child([&] {
		start::option("STATS_FILE=" + path);
		stats_file_open();
		for (int i = 0; i < 77; i++)
			if (!slub_cache_alloc(cache))
				_exit(1);
		exit(0);
	});
	EXPECT_EQ(result, 0) << harness::describe_status(result);
	map();
	EXPECT_EQ(file->state, 2u);
	EXPECT_EQ(record_of(cache)->active - record_of(cache)->cached, 77u);
	EXPECT_GE(file->totals[SLUB_STATS_ACTIVE_BYTES], 77u * cache->size);
	EXPECT_GE(file->census_ns, file->start_ns);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* ---- what stands in the way ---- */

class refused : public written {
protected:
	/* What a process says that is to write the file; "" if it does. */
	std::string said(const std::string &name)
	{
		std::string errors;
		int result = harness::in_child([&] {
			start::option("VERBOSE=1");
			log_enable(true);
			start::option("STATS_FILE=" + name);
			stats_file_open();
			_exit(0);
		}, &errors);

		EXPECT_EQ(result, 0) << harness::describe_status(result);
		return without_pid(errors);
	}
	void put(const void *bytes, size_t nr)
	{
		std::ofstream(path, std::ios::binary).write((const char *)bytes,
							    (std::streamsize)nr);
	}
	/* As a process @pid would have left it that began at @ticks. */
	struct slub_stats_head left(uint32_t state, pid_t pid, uint64_t ticks)
	{
		struct slub_stats_head head = {};

		memcpy(head.magic, "SLUBSTA", 8);
		head.version = 2;
		head.state = state;
		head.pid = (uint32_t)pid;
		head.totals[SLUB_STATS_BEGAN_TICKS] = ticks;
		return head;
	}
	std::string said_of(const struct slub_stats_head &head)
	{
		put(&head, sizeof(head));
		return said(path);
	}
	std::string is_none()
	{
		return "slub: option stats_file: '" + path + "' exists and is no statistics file; "
		       "choose another name\n";
	}
	std::string is_written(pid_t pid)
	{
		return "slub: option stats_file: '" + path + "' is being written by process " +
		       std::to_string(pid) + "; %p in the name is the PID\n";
	}
	/* Does it have the head of a process that wrote it? */
	bool is_new()
	{
		struct slub_stats_head head = {};
		std::string text = read_all(path.c_str());

		memcpy(&head, text.data(), std::min(text.size(), sizeof(head)));
		return head.record_bytes != 0 && head.start_ns != 0;
	}
};

TEST_F(refused, another_file)
{
	struct slub_stats_head head = left(2, 1, 0);

	put("text\n", 5);
	EXPECT_EQ(said(path), is_none());
	EXPECT_EQ(read_all(path.c_str()), "text\n");
	put(&head, sizeof(head) - 1);
	EXPECT_EQ(said(path), is_none());
	head.magic[6] = 'B';
	EXPECT_EQ(said_of(head), is_none());
	unlink(path.c_str());
	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	EXPECT_EQ(said(path), is_none());
	unlink(path.c_str());
	ASSERT_EQ(symlink("/dev/null", path.c_str()), 0);
	EXPECT_EQ(said(path), "");
	struct stat link;
	EXPECT_TRUE(!lstat(path.c_str(), &link) && S_ISLNK(link.st_mode)) << "nobody follows it";
}

TEST_F(refused, a_file_that_a_process_writes)
{
	uint64_t mine = began(getpid());

	EXPECT_EQ(said_of(left(1, getpid(), mine)), is_written(getpid()));
	EXPECT_EQ(said_of(left(1, getpid(), 0)), is_written(getpid()))
		<< "nobody knows when it began";
	struct slub_stats_head old = left(1, getpid(), mine + 1);
	old.version = 1;
	EXPECT_EQ(said_of(old), is_written(getpid()));
	EXPECT_FALSE(is_new());
}

TEST_F(refused, not_what_nobody_writes)
{
	pid_t gone = fork();

	if (gone == 0)
		_exit(0);
	ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
	const struct slub_stats_head all[] = {
		left(2, getpid(), began(getpid())),	/* it has ended */
		left(1, gone, 0),
		left(1, getpid(), began(getpid()) + 1),	/* another one with that PID */
		left(0, getpid(), began(getpid())),
	};

	for (const struct slub_stats_head &head : all) {
		EXPECT_EQ(said_of(head), "");
		EXPECT_TRUE(is_new());
	}
	EXPECT_EQ(said(path), "") << "that of the child before, whose PID is nobody's";
}

TEST_F(refused, where_there_is_no_folder)
{
	std::string name = path + "/below";

	EXPECT_EQ(said(name), "slub: option stats_file: cannot create '" + name + "' (error 2)\n");
	put("", 0);
	EXPECT_EQ(said(name), "slub: option stats_file: cannot create '" + name + "' (error 20)\n");
}

TEST_F(refused, without_room)
{
	std::string errors;
	open_file();
	size_t bytes = (size_t)status.st_size;

	unlink(path.c_str());
	int result = harness::in_child([&] {
		struct rlimit limit = { 65536, 65536 };

		signal(SIGXFSZ, SIG_IGN);
		start::option("VERBOSE=1");
		log_enable(true);
		if (setrlimit(RLIMIT_FSIZE, &limit))
			_exit(1);
		stats_file_open();
		_exit(0);
	}, &errors);
	EXPECT_EQ(result, 0) << harness::describe_status(result);
	EXPECT_EQ(without_pid(errors), "slub: option stats_file: no room for " +
		  std::to_string(bytes) + " bytes in '" + path + "' (error 27)\n");
	EXPECT_NE(access(path.c_str(), F_OK), 0) << "nothing is left behind";
}

/* By its PID.  The message loses its end: a line is no longer than that. */
TEST_F(refused, a_name_that_gets_too_long)
{
	std::string name = path + "/";

	if (getpid() < 1000)
		GTEST_SKIP() << "a PID has too few digits";
	name += std::string(509 - name.size(), 'x') + "%p";
	std::string errors = said(name);
	EXPECT_EQ(errors.find("slub: option stats_file: '" + path + "/xxx"), 0u) << errors;
	EXPECT_EQ(errors.find("cannot create"), errors.npos) << errors;
}

/* ---- children ---- */

/* The last: from here on a child may open a file by itself. */
class children : public written {
};

TEST_F(children, a_child_leaves_it_alone)
{
	open_file();
	uint64_t update = file->update_ns;
	int result = harness::in_child([&] {
		usleep(20000);
		for (int i = 0; i < 100; i++)
			free(malloc(200000));
		stats_file_update(sizeclass_cache(64));
		exit(0);
	});

	EXPECT_EQ(result, 0) << harness::describe_status(result);
	EXPECT_EQ(file->state, 1u);
	EXPECT_EQ(file->update_ns, update);
	EXPECT_EQ(file->pid, (uint32_t)getpid());
}

TEST_F(children, a_child_has_one_of_its_own)
{
	std::string mine, theirs;

	start::option("STATS_FILE=" + path + ".%p");
	stats_file_open();
	mine = path + "." + std::to_string(getpid());
	EXPECT_EQ(access(mine.c_str(), F_OK), 0);
	pid_t child = fork();
	if (child == 0) {
		theirs = path + "." + std::to_string(getpid());
		if (!access(theirs.c_str(), F_OK))
			_exit(1);
		stats_file_update(nullptr);
		_exit(access(theirs.c_str(), F_OK) ? 2 : 0);
	}
	theirs = path + "." + std::to_string(child);
	EXPECT_EQ(harness::wait_for(child), 0);
	struct slub_stats_head head = {};
	std::string text = read_all(theirs.c_str());
	memcpy(&head, text.data(), std::min(text.size(), sizeof(head)));
	EXPECT_EQ(head.pid, (uint32_t)child);
	EXPECT_EQ(head.state, 1u) << "_exit() tells nobody";
	EXPECT_EQ(text.size(), read_all(mine.c_str()).size());
	unlink(mine.c_str());
	unlink(theirs.c_str());
}

} /* namespace */
