/* SPDX-License-Identifier: MIT */
/* stats_file.c on files that this test writes: each part cut short at its last byte, both sides of
 * each bound, and what follows from the numbers of a record. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"
#include "groups.h"
#include "in_use.h"
#include "least.h"
#include "stats_file.h"

#define NR_RECORDS 2
#define HEAD_SIZE_MIN (offsetof(struct slub_stats_head, abi) + \
		       offsetof(struct slub_abi, option_bytes) + 4)

struct record {
	struct slub_stats_cache cache;
	uint64_t nodes[2][SLUB_ABI_NODE_FIELDS];
	char aliases[SLUB_STATS_ALIASES];
};

static struct file {
	struct slub_stats_head head;
	struct slub_abi_option options[2];
	struct record records[NR_RECORDS];
	struct slub_stats_groups groups;
	struct slub_stats_group group[2];
} file;
static char path[] = "/tmp/statsfile-XXXXXX";
static struct snapshot snapshot;
static uint32_t version;

static void make(void)
{
	struct slub_stats_head *head = &file.head;

	memset(&file, 0, sizeof(file));
	memcpy(head->magic, SLUB_STATS_MAGIC, sizeof(head->magic));
	head->version = SLUB_STATS_VERSION;
	head->size = sizeof(*head);
	head->state = SLUB_STATS_EXITED;
	head->pid = 77;
	head->update_ns = 1000;
	head->census_ns = 900;
	strcpy(head->name, "the\atest");
	strcpy(head->command, "the test\033");
	head->options_offset = offsetof(struct file, options);
	head->nr_options = 2;
	head->option_bytes = sizeof(file.options[0]);
	head->records_offset = offsetof(struct file, records);
	head->record_bytes = sizeof(file.records[0]);
	head->nr_records = NR_RECORDS;
	head->nr_nodes = 2;
	head->groups_offset = offsetof(struct file, groups);
	head->abi = least();
	head->abi.nr_nodes = 2;
	head->abi.cache_bytes = 24;
	memcpy(head->abi.magic, SLUB_ABI_MAGIC, sizeof(head->abi.magic));
	head->abi.version = SLUB_ABI_VERSION;
	memset(head->abi.stat_words, 0xff, sizeof(head->abi.stat_words));
	for (int i = 0; i < SLUB_STATS_TOTALS; i++)
		head->totals[i] = 10u + (unsigned int)i;
	for (int i = 0; i < 2; i++) {
		strcpy(file.options[i].name, "option\a");
		strcpy(file.options[i].text, "te\axt");
		file.options[i].value = 5u + (unsigned int)i;
	}
	for (int i = 0; i < NR_RECORDS; i++) {
		struct slub_stats_cache *cache = &file.records[i].cache;

		cache->slot = 16u + 16u * (unsigned int)i;
		strcpy(cache->name, "ca\ache");
		cache->fields[SLUB_ABI_CACHE_OBJECTS] = 10;
		cache->fields[SLUB_ABI_CACHE_SIZE] = 64;
		cache->fields[SLUB_ABI_CACHE_OBJECT_SIZE] = 60;
		cache->stats[3] = 33;
		cache->active = 25;
		cache->cached = 4;
		cache->carved = 40;
		file.records[i].nodes[0][SLUB_ABI_NODE_NR_SLABS] = 4;
		file.records[i].nodes[1][SLUB_ABI_NODE_NR_SLABS] = 1;
		file.records[i].nodes[0][SLUB_ABI_NODE_NR_PARTIAL] = 1;
		file.records[i].nodes[1][SLUB_ABI_NODE_NR_PARTIAL] = 1;
		file.records[i].nodes[0][SLUB_ABI_NODE_NR_CARVED] = 30;
		file.records[i].nodes[1][SLUB_ABI_NODE_NR_CARVED] = 12;
	}
	file.groups.version = SLUB_ABI_GROUPS_VERSION;
	file.groups.size = sizeof(file.groups);
	file.groups.nr_groups = 2;
	file.groups.group_bytes = sizeof(file.group[0]);
	file.groups.nr_beyond = 3;
	file.group[1].number = 1;
	strcpy(file.group[1].name, "ro\aot");
}

static int read_first(size_t bytes)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	EXPECT(write(fd, &file, bytes), bytes);
	close(fd);
	snapshot_free(&snapshot);
	version = 0;
	return stats_file_read(&snapshot, path, &version);
}

static int read_it(void)
{
	return read_first(sizeof(file));
}

/* The first cache, where the file is read. */
static const struct cache_view *cache_read(void)
{
	static const struct cache_view none;

	EXPECT(read_it(), 0);
	return snapshot.nr_caches ? &snapshot.caches[0] : &none;
}

static void test_all_of_it(void)
{
	const struct cache_view *cache;

	make();
	cache = cache_read();
	EXPECT(snapshot.pid, 77);
	EXPECT(snapshot.has_exited, true);
	EXPECT(snapshot.time_ns, 1000);
	EXPECT(snapshot.census_ns, 900);
	EXPECT(strcmp(snapshot.name, "the?test"), 0);
	EXPECT(strcmp(snapshot.command, "the test?"), 0);
	EXPECT(snapshot.committed_bytes, 10 + SLUB_STATS_COMMITTED_BYTES);
	EXPECT(snapshot.active_bytes, 10 + SLUB_STATS_ACTIVE_BYTES);
	EXPECT(snapshot.large_bytes, 10 + SLUB_STATS_LARGE_BYTES);
	EXPECT(snapshot.idle_bytes, 10 + SLUB_STATS_IDLE_BYTES);
	EXPECT(snapshot.refused_bytes, 10 + SLUB_STATS_REFUSED_BYTES);
	EXPECT(snapshot.moved_runs, 10 + SLUB_STATS_MOVED_RUNS);
	EXPECT(snapshot.deferred_bytes, 10 + SLUB_STATS_DEFERRED_BYTES);
	EXPECT(snapshot.deferred_objects, 10 + SLUB_STATS_DEFERRED_OBJECTS);
	EXPECT(snapshot.nr_caches, 2);
	EXPECT(snapshot.caches[1].slot, 32);
	EXPECT(strcmp(cache->name, "ca?che"), 0);
	EXPECT(cache->damaged, false);
	EXPECT(cache->stats[3], 33);
	EXPECT(cache->nodes[1][SLUB_ABI_NODE_NR_SLABS], 1);
	EXPECT(cache->slabs, 5);
	EXPECT(cache->full, 3);
	EXPECT(cache->empty, 0);
	EXPECT(cache->cached, 4);
	EXPECT(cache->carved, 42);
	EXPECT(cache->active, 27);
	EXPECT(snapshot.slab_bytes, 10 * 4096);
	EXPECT(snapshot.nr_options, 2);
	EXPECT(snapshot.options[1].value, 6);
	EXPECT(strcmp(snapshot.options[1].name, "option?"), 0);
	EXPECT(strcmp(snapshot.options[1].text, "te?xt"), 0);
	EXPECT(snapshot.nr_groups, 2);
	EXPECT(snapshot.nr_groups_beyond, 3);
	EXPECT(strcmp(snapshot.groups[1].name, "ro?ot"), 0);
	file.head.state = SLUB_STATS_RUNNING;
	file.records[0].cache.sequence = 5;
	EXPECT(cache_read()->damaged, true);
	EXPECT(snapshot.has_exited, false);
}

static void test_cut_short(void)
{
	make();
	for (size_t bytes = 0; bytes < sizeof(file); bytes++)
		EXPECT(read_first(bytes), -ENODATA);
	EXPECT(version, SLUB_STATS_VERSION);
	EXPECT(snapshot.caches == NULL, true);
	/* From its first 16 bytes on it can be told what else it is. */
	file.head.magic[0]++;
	EXPECT(read_first(15), -ENODATA);
	EXPECT(read_first(16), -ENOEXEC);
	make();
	file.head.version++;
	EXPECT(read_first(15), -ENODATA);
	EXPECT(read_first(16), -EPROTO);
	EXPECT(version, SLUB_STATS_VERSION + 1);
	/* Nothing of it is needed behind its end. */
	make();
	file.head.groups_offset = 0;
	EXPECT(read_first(offsetof(struct file, groups)), 0);
	EXPECT(snapshot.nr_groups, 0);
	file.head.nr_records = 0;
	EXPECT(read_first(offsetof(struct file, records)), 0);
	EXPECT(read_first(offsetof(struct file, records) - 1), -ENODATA);
	file.head.nr_options = 0;
	file.head.records_offset = sizeof(file.head);
	EXPECT(read_first(sizeof(file.head)), 0);
	file.head.options_offset++;
	EXPECT(read_first(sizeof(file.head)), -ENODATA);
	file.head.options_offset--;
	file.head.groups_offset = sizeof(file.head) + 1;
	EXPECT(read_first(sizeof(file.head)), -ENODATA);
}

/* A number of the head that is changed alone. */
#define OF_HEAD(member, value, expected) do {	\
	make();					\
	file.head.member = (value);		\
	EXPECT(read_it(), (expected));		\
} while (0)

static void test_heads(void)
{
	size_t least_record = offsetof(struct record, aliases);

	OF_HEAD(size, HEAD_SIZE_MIN, 0);
	OF_HEAD(size, HEAD_SIZE_MIN - 1, -EBADMSG);
	OF_HEAD(size, sizeof(file.head) + 1, 0);
	OF_HEAD(abi.magic[0], 'x', -EBADMSG);
	OF_HEAD(abi.version, SLUB_ABI_VERSION + 1, -EBADMSG);
	OF_HEAD(abi.page_bytes, 4095, -EBADMSG);
	OF_HEAD(nr_nodes, 1, -EBADMSG);
	OF_HEAD(option_bytes, sizeof(file.options[0]) - 1, -EBADMSG);
	OF_HEAD(record_bytes, least_record - 1, -EBADMSG);
	OF_HEAD(record_bytes, least_record, 0);
	OF_HEAD(nr_records, 4097, -EBADMSG);
	OF_HEAD(nr_records, 4096, -ENODATA);
	OF_HEAD(records_offset, sizeof(file) + 1, -ENODATA);
	OF_HEAD(nr_options, UINT32_MAX, -ENODATA);
	/* What lies behind the end of a head of before is not part of it. */
	make();
	file.head.size = offsetof(struct slub_stats_head, abi) +
			 offsetof(struct slub_abi, deferred);
	file.head.abi.deferred = 5;
	file.head.abi.descriptor_owner = 6;
	EXPECT(read_it(), 0);
	EXPECT(snapshot.abi.deferred, 0);
	EXPECT(snapshot.abi.descriptor_owner, 6);
	/* Options that are longer than this command knows them. */
	make();
	file.head.option_bytes = sizeof(file.options[0]) + 8;
	file.head.nr_options = 1;
	EXPECT(read_it(), 0);
	EXPECT(snapshot.options[0].value, 5);
}

/* Of the first record, a number that is changed alone: is it a cache? */
#define OF_RECORD(member, value, is_good) do {			\
	make();							\
	file.records[0].cache.member = (value);			\
	EXPECT(cache_read()->slot, (is_good) ? 16 : 32);	\
} while (0)

static void test_records(void)
{
	make();
	file.records[0].cache.slot = 0;
	EXPECT(cache_read()->slot, 32);
	EXPECT(snapshot.nr_caches, 1);
	OF_RECORD(fields[SLUB_ABI_CACHE_ORDER], 16, true);
	OF_RECORD(fields[SLUB_ABI_CACHE_ORDER], 17, false);
	OF_RECORD(fields[SLUB_ABI_CACHE_OBJECTS], 0, false);
	OF_RECORD(fields[SLUB_ABI_CACHE_OBJECTS], 1, true);
	OF_RECORD(fields[SLUB_ABI_CACHE_OBJECTS], (1u << 24) - 1, true);
	OF_RECORD(fields[SLUB_ABI_CACHE_OBJECTS], 1u << 24, false);
	OF_RECORD(fields[SLUB_ABI_CACHE_SIZE], (1ull << 40) - 1, true);
	OF_RECORD(fields[SLUB_ABI_CACHE_SIZE], 1ull << 40, false);
	OF_RECORD(fields[SLUB_ABI_CACHE_OBJECT_SIZE], (1ull << 40) - 1, true);
	OF_RECORD(fields[SLUB_ABI_CACHE_OBJECT_SIZE], 1ull << 40, false);
	OF_RECORD(slabs, (1ull << 40) - 1, true);
	OF_RECORD(slabs, 1ull << 40, false);
	OF_RECORD(active, (1ull << 44) - 1, true);
	OF_RECORD(active, 1ull << 44, false);
	OF_RECORD(partial, (1ull << 40) - 1, true);
	OF_RECORD(partial, 1ull << 40, false);
}

/* What is in use is told by the counters; without them by the census, and what was carved since. */
static void test_in_use(void)
{
	uint64_t *stats = file.records[0].cache.stats;
	uint64_t *node = file.records[0].nodes[0];

	make();
	file.records[0].cache.carved = 42;
	EXPECT(cache_read()->active, 25);
	file.records[0].cache.carved = 43;
	EXPECT(cache_read()->active, 25);
	EXPECT(cache_read()->carved, 42);
	node[SLUB_ABI_NODE_NR_CARVED] = (1ull << 40) - 13;
	EXPECT(cache_read()->active, 50);
	EXPECT(cache_read()->carved, (1ll << 40) - 1);
	node[SLUB_ABI_NODE_NR_CARVED]++;
	EXPECT(cache_read()->active, 25);
	EXPECT(cache_read()->carved, 43);
	make();
	stats[SLUB_ABI_STAT_OBJECTS_OUT] = 5;
	stats[SLUB_ABI_STAT_OBJECTS_BACK] = UINT32_MAX - 9;
	file.head.abi.stat_words[SLUB_ABI_STAT_OBJECTS_OUT] = 0;
	EXPECT(cache_read()->active, 27);
	file.head.abi.stat_words[SLUB_ABI_STAT_OBJECTS_BACK] = 1;
	EXPECT(cache_read()->active, 15);
	file.head.abi.stat_words[SLUB_ABI_STAT_OBJECTS_OUT] = 0xff;
	EXPECT(cache_read()->active, 27);
}

static void test_slabs(void)
{
	uint64_t *node = file.records[0].nodes[0];

	make();
	node[SLUB_ABI_NODE_NR_PARTIAL] = 3;
	EXPECT(cache_read()->full, 1);
	node[SLUB_ABI_NODE_NR_PARTIAL] = 4;
	EXPECT(cache_read()->full, 0);
	node[SLUB_ABI_NODE_NR_PARTIAL] = 9;
	EXPECT(cache_read()->full, 0);
	/* With nothing in use all are empty, and with more than they have all are full. */
	make();
	file.records[0].cache.active = 0;
	file.records[0].cache.carved = 42;
	EXPECT(cache_read()->empty, 5);
	EXPECT(cache_read()->full, 0);
	EXPECT(cache_read()->cached, 0);
	file.records[0].cache.active = 51;
	EXPECT(cache_read()->active, 50);
	/* A number of slabs that cannot be is none. */
	make();
	node[SLUB_ABI_NODE_NR_SLABS] = (1ull << 40) - 2;
	EXPECT(cache_read()->slabs, (1ll << 40) - 1);
	node[SLUB_ABI_NODE_NR_SLABS]++;
	EXPECT(cache_read()->slabs, 0);
}

static void test_names(void)
{
	char *names = file.records[0].aliases;

	make();
	strcpy(names, "one");
	strcpy(names + 4, "t\awo");
	EXPECT(cache_read()->aliases[0], 0);
	file.records[0].cache.fields[SLUB_ABI_CACHE_USERS] = 3;
	EXPECT(strcmp(cache_read()->aliases, "one t?wo"), 0);
	/* A name that fills its place, and a record that has no place for names. */
	memset(names, 'x', SLUB_STATS_ALIASES);
	EXPECT(strlen(cache_read()->aliases), SLUB_STATS_ALIASES - 1);
	file.head.nr_records = 1;
	file.head.record_bytes--;
	EXPECT(cache_read()->aliases[0], 0);
}

/* What a group has in use: all that is charged, less what was charged ahead. */
static void test_live(void)
{
	struct group_view group = { .ahead_bytes = 100 };
	uint64_t *usage = &group.fields[SLUB_ABI_GROUP_USAGE];

	*usage = 100;
	EXPECT(group_live(&group), 0);
	*usage = 99;
	EXPECT(group_live(&group), 0);
	*usage = 350;
	EXPECT(group_live(&group), 250);
	/* More than any process can have. */
	*usage = (1ull << 62) - 1;
	EXPECT(group_live(&group), (1ll << 62) - 101);
	*usage = 1ull << 62;
	EXPECT(group_live(&group), 0);
}

static void test_all(void)
{
	test_live();
	test_all_of_it();
	test_cut_short();
	test_heads();
	test_records();
	test_in_use();
	test_slabs();
	test_names();
	snapshot_free(&snapshot);
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	close(mkstemp(path));
	do_twice(test_all);
	unlink(path);
	return failures != 0;
}
