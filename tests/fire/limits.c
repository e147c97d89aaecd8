/* SPDX-License-Identifier: MIT */
/*
 * Start and service where memory, address space or CPUs are short.
 *
 *	limits --case=as|data|late|maps|huge|cgroup|affinity|cpuset|overcommit|hotplug
 *
 * Two cases change the whole machine and run only when asked for: overcommit
 * with SLUB_TEST_OVERCOMMIT=1, hotplug with SLUB_TEST_HOTPLUG=1.
 */
#include "fire.h"
#include "limits.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LIVE 2048

static uint64_t rng;
static atomic_int stop;
static char **program;

static void write_file(const char *path, const char *text, bool must)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 &&
		    write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	if (!done && must)
		fire_skip("%s: cannot write '%s': %s", path, text,
			  strerror(errno));
}

/* This program once more, with another --case, under limits just set. */
static int run_again(const char *part, unsigned int seconds)
{
	char argument[64];
	pid_t child = fork();

	snprintf(argument, sizeof(argument), "--case=%s", part);
	if (child < 0)
		fire_fail("fork: %s", strerror(errno));
	if (!child) {
		execl("/proc/self/exe", program[0], argument, NULL);
		_exit(126);
	}
	return fire_wait(child, seconds);
}

static void expect_good(int status, const char *what)
{
	if (status == -1)
		fire_fail("%s: hung", what);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fire_fail("%s: status %#x", what, status);
	printf("%s: good\n", what);
}

/* ---- service: at most `bytes` live, many times that passing through ---- */

static void serve(uint64_t ops, size_t bytes)
{
	static struct object live[LIVE];
	size_t in_use = 0;

	while (ops--) {
		struct object *one = &live[fire_below(&rng, LIVE)];

		if (one->start) {
			fire_unstamp(one->start, one->size, one->id, "service");
			free(one->start);
			in_use -= one->size;
			one->start = NULL;
			continue;
		}
		one->size = fire_size(&rng) * (1 + fire_below(&rng, 4));
		if (in_use + one->size > bytes)
			continue;
		one->start = malloc(one->size);
		if (!one->start)
			fire_fail("service: %zu bytes with %zu in use: %s",
				  one->size, in_use, strerror(errno));
		one->id = fire_rng(&rng);
		fire_stamp(one->start, one->size, one->id);
		in_use += one->size;
	}
	for (int i = 0; i < LIVE; i++)
		if (live[i].start) {
			fire_unstamp(live[i].start, live[i].size, live[i].id,
				     "service");
			free(live[i].start);
			live[i].start = NULL;
		}
}

static void *serve_in_thread(void *unused)
{
	serve(20000, 4 * MIB);
	return unused;
}

static void service(void)
{
	pthread_t thread;

	serve(fire_count("ops", 300000), 12 * MIB);
	if (!pthread_create(&thread, NULL, serve_in_thread, NULL))
		pthread_join(thread, NULL);
	else
		fire_fail("pthread_create: %s", strerror(errno));
}

/* ---- exhaustion: NULL + ENOMEM, and all is well after frees ---- */

struct filled {
	struct filled *next;
	size_t size;
};

static size_t fill(size_t size, struct filled **list)
{
	size_t total = 0;

	for (;;) {
		struct filled *one;

		errno = 0;
		one = malloc(size);
		if (!one)
			break;
		one->next = *list;
		one->size = size;
		*list = one;
		total += size;
	}
	if (errno != ENOMEM)
		fire_fail("exhausted: errno %d (%s), not ENOMEM", errno,
			  strerror(errno));
	return total;
}

static void release(struct filled **list)
{
	while (*list) {
		struct filled *one = *list;

		*list = one->next;
		memset(one, 0xdd, sizeof(*one));
		free(one);
	}
}

/* ---- what was freed goes back, whatever was refused before ---- */

/* Run again by other cases, under what they have set. */
static void give_back(void)
{
	size_t before;

	serve(20000, 8 * MIB);
	malloc_trim(0);
	before = resident_bytes();
	for (int turn = 0; turn < 3; turn++) {
		serve(30000, 48 * MIB);
		grow(96 * MIB);
	}
	expect_given_back("all was freed", before);
}

/* In a control group of 64 MiB: with as much alive, and little more held, the process goes on. */
static void at_the_edge(void)
{
	const char *mib = getenv("FIRE_EDGE_MIB");
	size_t alive = (mib ? strtoul(mib, NULL, 10) : 54) * MIB, before;

	serve(20000, 8 * MIB);
	malloc_trim(0);
	before = resident_bytes();
	for (int turn = 0; turn < 3; turn++) {
		change_sizes(alive);
		serve(30000, alive / 2);
	}
	expect_given_back("all was freed at the edge", before);
}

/* Under the limit of the address space that the parent has set. */
static void exhaust(void)
{
	static const size_t sizes[] = {
		1 << 20, 100000, 20000, 4096, 1000, 100, 32,
	};
	struct filled *list = NULL;

	for (int turn = 0; turn < 3; turn++) {
		size_t total = 0;

		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			total += fill(sizes[i], &list);
		if (total < 16 * MIB)
			fire_fail("only %zu bytes before exhaustion", total);
		printf("exhausted after %zu KiB\n", total >> 10);
		release(&list);
		malloc_trim(0);
		serve(20000, 8 * MIB);
	}
}

static void limit(int resource, size_t bytes)
{
	struct rlimit rlimit = { bytes, bytes };

	if (setrlimit(resource, &rlimit))
		fire_fail("setrlimit: %s", strerror(errno));
}

static void under_as(void)
{
	limit(RLIMIT_AS, 64 * MIB);
	expect_good(run_again("service", 60), "service, RLIMIT_AS 64 MiB");
	expect_good(run_again("exhaust", 60), "exhaustion, RLIMIT_AS 64 MiB");
}

static void under_data(void)
{
	limit(RLIMIT_DATA, 64 * MIB);
	expect_good(run_again("service", 60), "service, RLIMIT_DATA 64 MiB");
	expect_good(run_again("exhaust", 60), "exhaustion, RLIMIT_DATA 64 MiB");
}

/* The limit comes when the library has long reserved its range. */
static void under_late_as(void)
{
	char line[64] = "";
	size_t pages = 0, before;
	FILE *statm = fopen("/proc/self/statm", "r");

	serve(20000, 8 * MIB);
	if (statm && fgets(line, sizeof(line), statm))
		pages = strtoul(line, NULL, 10);
	if (statm)
		fclose(statm);
	malloc_trim(0);
	before = resident_bytes();
	limit(RLIMIT_AS, pages * 4096 + 32 * MIB);
	serve(100000, 8 * MIB);
	grow(64 * MIB);
	limit(RLIMIT_DATA, 48 * MIB);
	exhaust();
	grow(64 * MIB);
	expect_given_back("limits that came late", before);
}

/* ---- mappings: as many as a process may have, but for a few ---- */

#define MAPS_SPARE 40

/* Every second page may be written, so each is a mapping; how many the kernel allowed. */
static size_t use_up_mappings(char *start, size_t bytes, size_t page)
{
	size_t at = 0;

	while (at < bytes && !mprotect(start + at, page, PROT_READ | PROT_WRITE))
		at += 2 * page;
	for (int i = 0; at && i < MAPS_SPARE / 2; i++) {
		at -= 2 * page;
		mprotect(start + at, page, PROT_NONE);
	}
	return at / page;
}

static void with_few_mappings(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 70000 * 2 * page, before, used;
	char *start = mmap(NULL, bytes, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		fire_skip("no room for mappings: %s", strerror(errno));
	serve(20000, 8 * MIB);
	malloc_trim(0);
	before = resident_bytes();
	used = use_up_mappings(start, bytes, page);
	if (used * page + 2 * page >= bytes)
		fire_skip("this system bounds no mappings");
	printf("%zu mappings, and some %d more may be had\n", used, MAPS_SPARE);
	for (int turn = 0; turn < 3; turn++) {
		serve(30000, 16 * MIB);
		grow(96 * MIB);
	}
	expect_given_back("with few mappings", before);
	munmap(start, bytes);
	give_back();
}

/* ---- huge pages: wanted, not wanted, and not to be had ---- */

static void with_huge_pages(void)
{
	static const char *const settings[] = { "always", "block", "never" };

	for (int i = 0; i < 3; i++) {
		setenv("SLUB_HUGE", settings[i], 1);
		expect_good(run_again("back", 100), settings[i]);
	}
	/* Inherited, also by execve(2). */
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		fire_skip("PR_SET_THP_DISABLE: %s", strerror(errno));
	setenv("SLUB_HUGE", "always", 1);
	expect_good(run_again("back", 100), "always, but the kernel gives none");
}

/* ---- control groups (v1, as on this kind of machine, or v2) ---- */

static const char *make_group(const char *controller, char *path, size_t size)
{
	const char *roots[] = { "/sys/fs/cgroup/%s", "/sys/fs/cgroup" };

	for (int i = 0; i < 2; i++) {
		size_t used = snprintf(path, size, i ? "%s" : roots[0],
				       i ? roots[1] : controller);

		if (access(path, W_OK))
			continue;
		snprintf(path + used, size - used, "/slub-test-%d", getpid());
		if (!mkdir(path, 0755))
			return path;
	}
	fire_skip("no writable control group for %s", controller);
}

static bool set_in_group(const char *group, const char *name, const char *text)
{
	char path[300];
	int fd;
	bool done;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, text, strlen(text)) > 0;
	if (fd >= 0)
		close(fd);
	return done;
}

static int run_in_group(const char *group, const char *part)
{
	char pid[24];
	pid_t child = fork();
	int status;

	if (!child) {
		snprintf(pid, sizeof(pid), "%d", getpid());
		if (!set_in_group(group, "cgroup.procs", pid))
			_exit(FIRE_SKIP);
		status = run_again(part, 100);
		/* The kernel ends what needs more than its group has. */
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : FIRE_HUNG);
	}
	return fire_wait(child, 110);
}

static void in_memory_group(void)
{
	char group[200];
	int status;

	make_group("memory", group, sizeof(group));
	if (!set_in_group(group, "memory.limit_in_bytes", "64M") &&
	    !set_in_group(group, "memory.max", "64M")) {
		rmdir(group);
		fire_skip("%s: no memory limit there", group);
	}
	set_in_group(group, "memory.swap.max", "0");
	status = run_in_group(group, "service");
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		status = run_in_group(group, "edge");
	rmdir(group);
	if (WIFEXITED(status) && WEXITSTATUS(status) == FIRE_SKIP)
		fire_skip("cannot enter a control group");
	expect_good(status, "service and edge, control group of 64 MiB");
}

/* ---- CPUs that come and go ---- */

static void *busy(void *argument)
{
	uint64_t own = fire_rng_state((uintptr_t)argument);
	struct object held[128] = { { 0 } };

	while (!atomic_load(&stop)) {
		struct object *one = &held[fire_below(&own, 128)];

		if (one->start) {
			fire_unstamp(one->start, one->size, one->id, "churn");
			free(one->start);
			one->start = NULL;
			continue;
		}
		one->size = fire_size(&own);
		one->id = fire_rng(&own);
		one->start = malloc(one->size);
		if (!one->start)
			fire_fail("%zu bytes: %s", one->size, strerror(errno));
		fire_stamp(one->start, one->size, one->id);
	}
	for (int i = 0; i < 128; i++)
		free(held[i].start);
	return NULL;
}

static void churn_while(void (*change)(unsigned int turn), unsigned int turns)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		if (pthread_create(&threads[i], NULL, busy,
				   (void *)(uintptr_t)fire_rng(&rng)))
			fire_fail("pthread_create: %s", strerror(errno));
	for (unsigned int turn = 0; turn < turns; turn++) {
		change(turn);
		nanosleep(&pause, NULL);
		malloc_trim(0);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	printf("%u changes\n", turns);
}

/* All threads of this process, by their directory in /proc. */
static void change_affinity(unsigned int turn)
{
	static cpu_set_t all;
	cpu_set_t now;

	if (turn == 0)
		sched_getaffinity(0, sizeof(all), &all);
	now = all;
	if (turn % 2 == 0) {
		unsigned int keep = turn / 2 % CPU_COUNT(&all);

		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &all) && keep-- != 0)
				CPU_CLR(cpu, &now);
	}
	for (pid_t tid = getpid(); tid < getpid() + 64; tid++)
		sched_setaffinity(tid, sizeof(now), &now);
}

static char cpuset[200];

static void change_cpuset(unsigned int turn)
{
	static const char *const sets[] = { "0", "0-1", "1", "0-1" };

	if (!set_in_group(cpuset, "cpuset.cpus", sets[turn % 4]))
		fire_skip("%s: cpuset.cpus: %s", cpuset, strerror(errno));
}

static void leave_cpuset(void)
{
	char *end = strrchr(cpuset, '/');
	char pid[24];

	snprintf(pid, sizeof(pid), "%d", getpid());
	*end = '\0';
	set_in_group(cpuset, "cgroup.procs", pid);
	*end = '/';
	rmdir(cpuset);
}

static void in_cpuset(void)
{
	char pid[24];

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		fire_skip("one CPU only");
	make_group("cpuset", cpuset, sizeof(cpuset));
	atexit(leave_cpuset);
	snprintf(pid, sizeof(pid), "%d", getpid());
	if (!set_in_group(cpuset, "cpuset.cpus", "0-1")) {
		rmdir(cpuset);
		fire_skip("%s: no cpuset there", cpuset);
	}
	set_in_group(cpuset, "cpuset.mems", "0");
	if (!set_in_group(cpuset, "cgroup.procs", pid)) {
		rmdir(cpuset);
		fire_skip("%s: cannot enter", cpuset);
	}
	churn_while(change_cpuset, fire_count("turns", 60));
}

static void change_online(unsigned int turn)
{
	write_file("/sys/devices/system/cpu/cpu1/online",
		   turn % 2 ? "1" : "0", true);
}

static void with_hotplug(void)
{
	if (!getenv("SLUB_TEST_HOTPLUG"))
		fire_skip("takes CPU 1 of the machine offline; "
			  "SLUB_TEST_HOTPLUG=1 allows it");
	churn_while(change_online, 40);
	write_file("/sys/devices/system/cpu/cpu1/online", "1", false);
}

static void under_overcommit(void)
{
	int status;

	if (!getenv("SLUB_TEST_OVERCOMMIT"))
		fire_skip("changes vm.overcommit_memory of the machine; "
			  "SLUB_TEST_OVERCOMMIT=1 allows it");
	write_file("/proc/sys/vm/overcommit_memory", "2", true);
	status = run_again("service", 60);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		status = run_again("back", 100);
	write_file("/proc/sys/vm/overcommit_memory", "0", false);
	expect_good(status, "service, overcommit 2");
}

static void shrink_affinity(void)
{
	churn_while(change_affinity, fire_count("turns", 60));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "as", under_as }, { "data", under_data },
	{ "late", under_late_as }, { "cgroup", in_memory_group },
	{ "affinity", shrink_affinity }, { "cpuset", in_cpuset },
	{ "overcommit", under_overcommit }, { "hotplug", with_hotplug },
	{ "maps", with_few_mappings }, { "huge", with_huge_pages },
	/* what the cases above run under their limits */
	{ "service", service }, { "exhaust", exhaust }, { "back", give_back },
	{ "edge", at_the_edge },
};

int main(int argc, char **argv)
{
	const char *wanted;

	program = argv;
	fire_start(argc, argv, "case ops turns limit");
	fire_require_library();
	fire_watchdog(fire_opt("limit", 200));
	rng = fire_seed();
	wanted = fire_opt_str("case", "service");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, wanted)) {
			cases[i].run();
			return 0;
		}
	fprintf(stderr, "--case=%s: none of that name; known:", wanted);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		fprintf(stderr, " %s", cases[i].name);
	fprintf(stderr, "\n");
	return 2;
}
