/* SPDX-License-Identifier: MIT */
/*
 * SLUB_STATS_FILE: the numbers of abi.h in a file that outlives the process.
 *
 * docs/operate/inspection.md draws it.  The file is a shared mapping, and its room is
 * allocated at the start, for a store into a hole on a full disk would raise a signal.
 *
 * A child lets go of its parent's file.  If a signal handler interrupts an update and forks,
 * the update goes on in the child, in a copy at the same address, and the child lets go of
 * the copy afterwards.
 *
 * No locks: the sequence of a record is odd while a thread writes the record, and any
 * other thread that finds it odd leaves the record alone.  The census, which walks the
 * heap, takes a sixty-fourth of the time at the most.
 */
#define _GNU_SOURCE
#include "core/base/turn.h"
#include "core/slab/local.h"
#include "features/inspect/inspect.h"
#include "features/rcu/rcu.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define CENSUS_PERIOD_NS 100000000ull
#define CENSUS_SHARE 64
#define FILE_ALIGN 4096
/* Room for all there can be takes eight times as much on the disk, from the start. */
#define RECORDS 2048

static struct slub_stats_head *head;	/* NULL: there is no file */
/* The mapping: of the head, of a head in the making, or a child's copy (is_copy). */
static struct slub_stats_head *mapped;
static size_t file_bytes;
static bool is_copy;
static _Atomic uint32_t is_wanted;	/* the next update opens a file */
static struct turn counting;
static _Atomic uint64_t census_due_ns;
/* Objects in each cache's local lists, as of the last census: to count them is to walk slabs. */
static size_t nr_local[RECORDS] rarely_touched;

/* ---- records ---- */

static struct slub_stats_cache *record_at(size_t number)
{
	return (struct slub_stats_cache *)((char *)head +
		head->records_offset + number * head->record_bytes);
}

static struct slub_stats_groups *groups_part(struct slub_stats_head *file)
{
	return (struct slub_stats_groups *)((char *)file + file->groups_offset);
}

static void record_write(const struct slub_cache *cache,
			 const struct cache_census *census)
{
	size_t number = entry_number(cache->slot);
	struct slub_stats_cache *record = record_at(number);

	if (number >= RECORDS || !record_begin(&record->sequence))
		return;
	/* The cache may have gone, and another with a name of its own has the place. */
	if (census) {
		record->fields[SLUB_ABI_CACHE_NAME] = 0;
		nr_local[number] = local_nr(cache);
	}
	census_record_since(cache, head->nr_nodes, nr_local[number], record);
	if (census) {
		record->slabs = census->slabs;
		record->active = census->active;
		record->carved = census->carved;
		record->partial = census->partial;
	}
	record->slot = cache->slot;
	record_end(&record->sequence);
	if (head->nr_records <= number)
		head->nr_records = (uint32_t)number + 1;
}

static void record_clear(size_t number)
{
	struct slub_stats_cache *record = record_at(number);

	if (!record->slot || !record_begin(&record->sequence))
		return;
	record->slot = 0;
	record_end(&record->sequence);
}

static void records_write_all(void)
{
	struct cache_census *all = census_all();
	uint64_t active_bytes = 0;

	for (size_t i = 0; i < RECORDS; i++) {
		const struct slub_cache *cache = census_cache_at(i);

		active_bytes += all ? all[i].active_bytes : 0;
		if (cache)
			record_write(cache, all ? &all[i] : NULL);
		else if (i < head->nr_records)
			record_clear(i);
	}
	if (all) {
		head->totals[SLUB_STATS_ACTIVE_BYTES] = active_bytes;
		census_all_free(all);
	}
	groups_record(groups_part(head));
	head->census_ns = os_clock_read_ns(CLOCK_REALTIME);
}

static void census_if_due(void)
{
	uint64_t begin, end;

	if (os_clock_ns() < __atomic_load_n(&census_due_ns, __ATOMIC_RELAXED) ||
	    !turn_try(&counting))
		return;
	begin = os_clock_read_ns(CLOCK_MONOTONIC);
	records_write_all();
	end = os_clock_read_ns(CLOCK_MONOTONIC);
	__atomic_store_n(&census_due_ns,
			 end + max_size(CENSUS_PERIOD_NS,
					(end - begin) * CENSUS_SHARE),
			 __ATOMIC_RELAXED);
	turn_end(&counting);
}

static void head_update(void)
{
	struct deferred_numbers deferred;

	deferred_count(&deferred);
	head->totals[SLUB_STATS_DEFERRED_BYTES] = deferred.bytes;
	head->totals[SLUB_STATS_DEFERRED_OBJECTS] = deferred.objects;
	head->totals[SLUB_STATS_COMMITTED_BYTES] = pagemap_committed();
	head->totals[SLUB_STATS_LARGE_BYTES] = large_nr_pages() * PAGE_BYTES;
	head->totals[SLUB_STATS_IDLE_BYTES] = page_nr_dirty() * PAGE_BYTES;
	head->totals[SLUB_STATS_REFUSED_BYTES] = page_nr_stuck() * PAGE_BYTES;
	head->totals[SLUB_STATS_MOVED_RUNS] = run_nr_moved();
	head->abi.heap_bytes = pagemap_committed();
	head->update_ns = os_clock_read_ns(CLOCK_REALTIME_COARSE);
}

/* ---- one writer at a time ---- */

static void file_drop(void)
{
	struct slub_stats_head *file = mapped;
	const char *given = option_text(OPTION_stats_file);

	head = NULL;
	mapped = NULL;
	/* A handler that forks from here on has nothing to copy. */
	compiler_barrier();
	if (file)
		sys_call4(SYS_munmap, (long)file, (long)file_bytes, 0, 0);
	/* The child gets a file of its own when it has something to say. */
	if (given && strstr(given, "%p"))
		__atomic_store_n(&is_wanted, 1, __ATOMIC_RELAXED);
}

static void copy_drop(void)
{
	while (unlikely(__atomic_exchange_n(&is_copy, false, __ATOMIC_RELAXED)))
		file_drop();
}

/* False: this is a handler, and the thread that it interrupted is writing. */
static bool writing_begin(void)
{
	if (slub_thread.flags & THREAD_IN_STATS)
		return false;
	slub_thread.flags |= THREAD_IN_STATS;
	compiler_barrier();
	copy_drop();
	return true;
}

static void writing_end(void)
{
	copy_drop();
	compiler_barrier();
	slub_thread.flags &= ~(uint32_t)THREAD_IN_STATS;
}

/* Without memory for a copy the rest of an update goes to the parent's file. */
static void copy_make(void)
{
	long copy = sys_call6(SYS_mmap, 0, (long)file_bytes,
			      PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_has_failed(copy))
		return;
	memcpy((void *)copy, mapped, file_bytes);
	sys_call6(SYS_mremap, copy, (long)file_bytes, (long)file_bytes,
		  MREMAP_MAYMOVE | MREMAP_FIXED, (long)mapped, 0);
}

usual void stats_file_after_fork(void)
{
	if (!mapped)
		return;
	if (slub_thread.flags & THREAD_IN_STATS) {
		copy_make();
		is_copy = true;
	} else {
		is_copy = false;
		file_drop();
	}
}

/* ---- the file ---- */

#define STARTTIME 22	/* which field of /proc/PID/stat it is */

/* When a process began, in ticks since the boot; 0: not known, or there is none. */
static uint64_t began_ticks(uint32_t pid)
{
	char path[32], line[1024];
	struct text text = { path, sizeof(path) - 1, 0 };
	const char *s = line;
	int field = 2;

	text_printf(&text, "/proc/%u/stat", pid);
	path[text.used_bytes] = '\0';
	if (os_file_read(path, line, sizeof(line)) <= 0)
		return 0;
	/* The second field is a name in brackets, which may contain any character. */
	for (const char *c = line; *c; c++) {
		if (*c == ')')
			s = c;
	}
	for (; *s && field < STARTTIME; s++)
		field += *s == ' ';
	return os_parse_number(&s);
}

/* Does the process live that made this file?  Another may have its PID by now. */
static bool is_written(const struct slub_stats_head *old)
{
	uint64_t began = old->version == SLUB_STATS_VERSION ?
			 old->totals[SLUB_STATS_BEGAN_TICKS] : 0;
	uint64_t now;

	if (old->state != SLUB_STATS_RUNNING ||
	    old->pid == (uint32_t)sys_pid() ||
	    sys_call4(SYS_kill, old->pid, 0, 0, 0) == -ESRCH)
		return false;
	now = began_ticks(old->pid);
	return !began || !now || began == now;
}

/* Is it an older statistics file that no living process writes? */
static bool may_replace(const char *path)
{
	struct slub_stats_head old;
	long fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	long n;

	if (fd < 0)
		return false;
	n = sys_call4(SYS_read, fd, (long)&old, sizeof(old), 0);
	sys_close(fd);
	if (n != sizeof(old) || memcmp(old.magic, SLUB_STATS_MAGIC, 8)) {
		log_message("option stats_file: '%s' exists and is no "
			    "statistics file; choose another name", path);
		return false;
	}
	if (is_written(&old)) {
		log_message("option stats_file: '%s' is being written by "
			    "process %u; %%p in the name is the PID", path,
			    old.pid);
		return false;
	}
	return true;
}

static long create(const char *path)
{
	long fd = os_output_open(path, O_EXCL);

	if (fd != -EEXIST)
		return fd;
	if (!may_replace(path))
		return -EEXIST;
	/* A new file: readers and writers of the old one keep it. */
	sys_call4(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0);
	return os_output_open(path, O_EXCL);
}

/* Room for every byte, or an error. */
static long allocate(long fd, size_t bytes)
{
	/* The smallest block that a file system may have: every start reads what lies here. */
	static const char zeros[512];
	long err = sys_call4(SYS_fallocate, fd, 0, 0, (long)bytes);

	if (err != -EOPNOTSUPP)	/* by hand */
		return err;
	for (size_t at = 0; at < bytes; at += sizeof(zeros)) {
		long n = sys_call4(SYS_pwrite64, fd, (long)zeros,
				   sizeof(zeros), (long)at);

		if (n != sizeof(zeros))
			return n < 0 ? n : -ENOSPC;
	}
	return 0;
}

static void *map_file(const char *path, size_t bytes)
{
	long fd = create(path), ret;

	if (fd < 0) {
		if (fd != -EEXIST)
			log_message("option stats_file: cannot create '%s' "
				    "(error %ld)", path, -fd);
		return NULL;
	}
	ret = allocate(fd, bytes);
	if (!ret)
		ret = sys_call6(SYS_mmap, 0, (long)bytes,
				PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	sys_close(fd);
	if (sys_has_failed(ret)) {
		sys_call4(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0);
		log_message("option stats_file: no room for %zu bytes in '%s' "
			    "(error %ld)", bytes, path, -ret);
		return NULL;
	}
	return (void *)ret;
}

static void write_names(struct slub_stats_head *out)
{
	long n = os_file_read("/proc/self/comm", out->name, sizeof(out->name));

	if (n > 0 && out->name[n - 1] == '\n')
		out->name[n - 1] = '\0';
	n = os_file_read("/proc/self/cmdline", out->command,
			 sizeof(out->command));
	/* The arguments end with a NUL each. */
	for (long i = 0; i < n - 1; i++) {
		if (!out->command[i])
			out->command[i] = ' ';
	}
}

static size_t record_bytes(void)
{
	return sizeof(struct slub_stats_cache) + SLUB_STATS_ALIASES +
	       slub_abi_state.nr_nodes * sizeof(uint64_t) *
		       SLUB_ABI_NODE_FIELDS;
}

static void write_head(struct slub_stats_head *out, size_t records_offset)
{
	out->version = SLUB_STATS_VERSION;
	out->size = sizeof(*out);
	out->state = SLUB_STATS_RUNNING;
	out->pid = (uint32_t)sys_pid();
	out->start_ns = os_clock_read_ns(CLOCK_REALTIME);
	out->totals[SLUB_STATS_BEGAN_TICKS] = began_ticks(out->pid);
	out->options_offset = sizeof(*out);
	out->nr_options = OPTION_NR;
	out->option_bytes = sizeof(struct slub_abi_option);
	out->records_offset = (uint32_t)records_offset;
	out->nr_nodes = slub_abi_state.nr_nodes;
	out->record_bytes = (uint32_t)record_bytes();
	out->groups_offset = (uint32_t)(records_offset +
					RECORDS * record_bytes());
	groups_file_begin(groups_part(out));
	out->abi = slub_abi_state;
	memcpy(out + 1, slub_abi_options, sizeof(slub_abi_options));
	write_names(out);
}

static cold void file_make(const char *given)
{
	size_t records_offset = round_up(sizeof(*head) +
					 sizeof(slub_abi_options), FILE_ALIGN);
	uint32_t forks = turn_forks;
	struct slub_stats_head *new;
	char buf[OS_PATH_BYTES];
	const char *path;

	path = os_path(given, buf, sizeof(buf));
	if (!path) {
		log_message("option stats_file: '%s' is too long", given);
		return;
	}
	file_bytes = round_up(records_offset + RECORDS * record_bytes() +
			      STATS_GROUPS_BYTES, FILE_ALIGN);
	new = map_file(path, file_bytes);
	if (!new)
		return;
	mapped = new;
	compiler_barrier();
	/* This is the child of a handler, and the file the parent's. */
	if (forks != *(volatile uint32_t *)&turn_forks) {
		is_copy = true;
		return;
	}
	write_head(new, records_offset);
	/* release: a thread that finds the head finds it filled in */
	__atomic_store_n(&head, new, __ATOMIC_RELEASE);
	head_update();
	records_write_all();
	/* Last: a reader trusts the head of a file that has the magic. */
	memcpy(head->magic, SLUB_STATS_MAGIC, sizeof(head->magic));
	slab_is_told = true;
}

static usual void file_open(void)
{
	const char *given = option_text(OPTION_stats_file);

	if (given && *given)
		file_make(given);
}

usual void stats_file_open(void)
{
	if (!writing_begin())
		return;
	file_open();
	writing_end();
}

static void update(struct slub_cache *cache)
{
	if (cache)
		record_write(cache, NULL);
	groups_update(groups_part(head));
	census_if_due();
	head_update();
}

void stats_file_update(struct slub_cache *cache)
{
	if (!writing_begin())
		return;
	if (head)
		update(cache);
	else if (__atomic_load_n(&is_wanted, __ATOMIC_RELAXED) &&
		 __atomic_exchange_n(&is_wanted, 0, __ATOMIC_ACQUIRE))
		file_open();
	writing_end();
}

__attribute__((destructor))
static usual void stats_file_finish(void)
{
	/* The end may come in a handler. */
	bool begun = writing_begin();

	if (head) {
		head_update();
		records_write_all();
		head->state = SLUB_STATS_EXITED;
	}
	if (begun)
		writing_end();
}
