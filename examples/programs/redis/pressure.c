/* SPDX-License-Identifier: MIT */
/*
 * maxmemory that follows memory pressure: a shrinker that says how far used memory is to fall.
 * steps puts this file into Redis's src/; libslub.patch calls it.
 *
 * A shrinker runs in the middle of any malloc(), where no key can go.  So it frees nothing: it
 * lowers maxmemory_wanted, and Redis evicts as it does for maxmemory, before the next command and
 * in its time events.  Evicted keys leave holes, which the active defragmentation closes.
 *
 *   PRESSURE-1  One walk asks for a sixteenth of the used memory at the most, whatever its
 *               priority: what it asked for is not there yet when it asks again.
 *   PRESSURE-2  An event comes once, when the group's memory crosses a mark, and says neither how
 *               much is too much nor that a neighbour goes on.  So ten times a second the group's
 *               own numbers are read, and the bound falls until the resident memory, holes
 *               included, is as much smaller.  Where they cannot be read it falls by an eighth.
 *   PRESSURE-3  Then, after a second without a wish, it rises by a sixty-fourth, until it is twice
 *               what is used: then it is none.
 */
#include "server.h"
#include "atomicvar.h"

#include <slub/slub.h>
#include <slub/pressure.h>
#include <slub/shrinker.h>

#include <fcntl.h>

#define UNIT_BYTES 4096		/* one object of the shrinker */
#define WISH_SHARE 16
#define RSS_SHARE 8
#define ROOM_SHARE 8		/* of the group's limit: what is to stay free */
#define STEP_SHARE 64

static redisAtomic size_t maxmemory_wanted;	/* 0: no bound but maxmemory */
static redisAtomic size_t nr_wishes;
static size_t rss_wanted;	/* 0: nothing; of the main thread */

static size_t count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	UNUSED(shrinker);
	UNUSED(control);
	return zmalloc_used_memory() / UNIT_BYTES;
}

static size_t scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	size_t used = zmalloc_used_memory(), wanted;

	UNUSED(shrinker);
	atomicGet(maxmemory_wanted, wanted);
	if (!wanted || wanted > used)
		wanted = used;
	if (wanted < used - used / WISH_SHARE + control->nr_to_scan * UNIT_BYTES)
		return SLUB_SHRINK_STOP;
	atomicSet(maxmemory_wanted, wanted - control->nr_to_scan * UNIT_BYTES);
	atomicIncr(nr_wishes, 1);
	return 0;
}

static struct slub_shrinker shrinker = SLUB_SHRINKER_INIT("redis-keys", count, scan);

/* ---- the control group ---- */

static int usage_fd = -1, limit_fd = -1, stat_fd = -1;

/* A file of the memory controller, by its name in either version of control groups. */
static int group_open(const char *v1, const char *v2)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX], path[PATH_MAX + 64];
	int fd = -1;

	/* NUMBER:CONTROLLERS:PLACE */
	while (fd < 0 && file && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *place = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!place)
			continue;
		*place++ = '\0';
		place[strcspn(place, "\n")] = '\0';
		if (!strcmp(controllers, ":memory"))
			snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/%s", place, v1);
		else if (!controllers[1])
			snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", place, v2);
		else
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (file)
		fclose(file);
	return fd;
}

/* The number at the start of a file, or behind @name in it; 0: there is none. */
static size_t group_number(int fd, const char *name)
{
	char text[8192], *at = text;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (name)
		at = strstr(text, name);
	return at ? strtoull(at + (name ? strlen(name) : 0), NULL, 10) : 0;
}

/* By how much the group has too much, files that may go not counted; false: it is not known. */
static int group_excess(size_t *excess)
{
	size_t limit = group_number(limit_fd, NULL), usage = group_number(usage_fd, NULL);
	size_t files;

	*excess = 0;
	if (!limit || !usage)
		return 0;
	limit -= limit / ROOM_SHARE;
	if (usage > limit) {
		files = group_number(stat_fd, "\ninactive_file ");
		usage -= min(usage, files);
	}
	*excess = usage > limit ? usage - limit : 0;
	return 1;
}

/* ---- how far it falls ---- */

static void want_less(int is_event)
{
	size_t rss, excess;
	int is_known = group_excess(&excess);

	if (is_known ? !excess : !is_event)
		return;
	rss = zmalloc_get_rss();
	if (!is_known)
		excess = rss / RSS_SHARE;
	rss_wanted = rss - min(excess, rss / 2);
}

static void readable(aeEventLoop *loop, int fd, void *data, int mask)
{
	UNUSED(loop);
	UNUSED(fd);
	UNUSED(data);
	UNUSED(mask);
	if (slub_pressure_handle() > 0)
		want_less(1);
}

void pressureInit(void)
{
	int fd = server.maxmemory_pressure ? slub_pressure_fd() : -1;

	if (!server.maxmemory_pressure)
		return;
	usage_fd = group_open("memory.usage_in_bytes", "memory.current");
	limit_fd = group_open("memory.limit_in_bytes", "memory.max");
	stat_fd = group_open("memory.stat", "memory.stat");
	if (slub_shrinker_create(&shrinker))
		serverLog(LL_WARNING, "maxmemory-pressure: no shrinker");
	if (fd < 0 || aeCreateFileEvent(server.el, fd, AE_READABLE, readable, NULL) == AE_ERR)
		serverLog(LL_WARNING, "maxmemory-pressure: no events here, only the heap's limit");
}

/* What maxmemory is now; 0: no bound. */
unsigned long long pressureMaxmemory(void)
{
	size_t wanted;

	atomicGet(maxmemory_wanted, wanted);
	if (!wanted || (server.maxmemory && server.maxmemory < wanted))
		return server.maxmemory;
	return wanted;
}

/* What is used keeps to the bound: where does this go next? */
static size_t step(size_t wanted, size_t used, int rises)
{
	slub_node_shrink(SLUB_NODE_ANY);
	if (rss_wanted && zmalloc_get_rss() > rss_wanted)
		return used - used / STEP_SHARE;
	rss_wanted = 0;
	if (!rises)
		return wanted;
	wanted += wanted / STEP_SHARE;
	return wanted / 2 > used ? 0 : wanted;
}

/* Ten times a second: a wish is answered though no command comes. */
void pressureCron(int is_second)
{
	static size_t nr_seen;
	size_t wanted, nr, used = zmalloc_used_memory();

	if (!server.maxmemory_pressure)
		return;
	want_less(0);
	atomicGet(maxmemory_wanted, wanted);
	atomicGet(nr_wishes, nr);
	if (!wanted && !rss_wanted)
		return;
	if (wanted && used > wanted)
		performEvictions();
	else if (rss_wanted || is_second)
		atomicSet(maxmemory_wanted, step(wanted, used, is_second && nr == nr_seen));
	if (is_second)
		nr_seen = nr;
}
