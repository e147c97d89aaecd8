/* SPDX-License-Identifier: MIT */
/*
 * Disturbs a thread at every instruction boundary of every restartable
 * sequence of a library, and lets the thread's own checks judge.
 *
 *	single_step --library=build/libslub.so --breakpoint=hardware|instruction
 *	single_step_api --library=self	the sequences in its own text
 *
 * --rounds=N: how many rounds of the tracee may pass before a boundary counts as
 * not reached.
 *
 * --allow=NAME,... names functions whose sequences the tracee cannot reach.
 *
 * For machines that take long for a round:
 * --only=NAME,... steps through the sequences of these functions alone;
 * --sparse=N makes one of N disturbances at each boundary, the next one at the next;
 * --bulk=N is how many objects of a size a round holds at once, in place of 1200;
 * --limit=SECONDS is how long one sequence may take.
 */
#include "single_step/tracer.h"
#include "single_step/step.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum disturbance {
	SIGNAL_MALLOC,
	SIGNAL_FORK,
	MIGRATE,
	STOP_CONT,
	OTHER_ALLOCATES,
	OTHER_TRIMS,
	OTHER_FORKS,
	MIGRATE_AND_OTHER,
	DISTURBANCES,
};

static const char *const names[] = {
	"signal whose handler allocates", "signal whose handler forks",
	"move to another CPU", "SIGSTOP and SIGCONT",
	"another thread allocates", "another thread trims",
	"another thread forks", "move, and another thread allocates",
};

struct counts {
	unsigned int cases, aborts, no_aborts, missed;
	unsigned int by[DISTURBANCES];
};

static struct step_shared *shared;
static struct sequence sequences[STEP_SEQUENCES_MAX];
static unsigned int sequence_count;
static uint64_t base;
static struct tracer tracee;
static unsigned int patience;
static struct counts counts;
static const char *doing = "start";
static bool rival_asked;
static bool preload;	/* the library comes in by LD_PRELOAD */

static void died(void)
{
	if (WIFSIGNALED(tracee.status))
		fire_fail("%s: the tracee was ended by signal %d (%s)", doing,
			  WTERMSIG(tracee.status),
			  strsignal(WTERMSIG(tracee.status)));
	fire_fail("%s: the tracee ended with status %d", doing,
		  WEXITSTATUS(tracee.status));
}

/* Goes on to the armed address, for some rounds; false: not met. */
static bool run_to(uint64_t offset, unsigned int rounds)
{
	tracer_arm(&tracee, base + offset);
	while (rounds) {
		switch (tracer_run(&tracee, 0)) {
		case STOP_BREAKPOINT:
			return true;
		case STOP_ROUND:
			rounds--;
			break;
		case STOP_END:
			died();
		}
	}
	tracer_disarm(&tracee);
	return false;
}

static int other_cpu(int cpu)
{
	cpu_set_t all;

	if (sched_getaffinity(0, sizeof(all), &all))
		return cpu;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (i != cpu && CPU_ISSET(i, &all))
			return i;
	return cpu;
}

/* The CPU that the stopped thread was on: field 39 of its stat. */
static int cpu_of(pid_t pid)
{
	char path[64], text[1024] = "", *at;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	stat = fopen(path, "r");
	if (!stat || !fgets(text, sizeof(text), stat))
		fire_fail("%s: %s", path, strerror(errno));
	fclose(stat);
	at = strrchr(text, ')');
	for (int field = 2; at && field < 39; field++)
		at = strchr(at + 1, ' ');
	return at ? atoi(at) : 0;
}

static bool rival_done(unsigned int milliseconds)
{
	struct timespec until;
	uint64_t when;

	clock_gettime(CLOCK_REALTIME, &until);
	when = until.tv_nsec + milliseconds * 1000000ull;
	until.tv_sec += when / 1000000000;
	until.tv_nsec = when % 1000000000;
	if (rival_asked && !sem_timedwait(&shared->done, &until))
		rival_asked = false;
	return !rival_asked;
}

/*
 * Has the rival do something while the tracee stands.  It may need a lock that
 * the tracee holds; then it ends after the tracee went on.
 */
static void ask_rival(enum rival_task task, int cpu)
{
	if (rival_asked)
		return;		/* still at what it was asked before */
	shared->task = task;
	shared->cpu = cpu;
	rival_asked = true;
	sem_post(&shared->asked);
	rival_done(30);
}

static void move(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(tracee.pid, sizeof(one), &one))
		fire_fail("sched_setaffinity: %s", strerror(errno));
}

/* Disturbs the stopped tracee and goes on to its next stop. */
static enum stop disturb(enum disturbance kind)
{
	int cpu = cpu_of(tracee.pid);

	switch (kind) {
	case SIGNAL_MALLOC:
		return tracer_run(&tracee, STEP_SIGNAL_MALLOC);
	case SIGNAL_FORK:
		return tracer_run(&tracee, STEP_SIGNAL_FORK);
	case STOP_CONT:
		return tracer_stop_and_continue(&tracee);
	case MIGRATE:
		move(other_cpu(cpu));
		break;
	case OTHER_ALLOCATES:
		ask_rival(RIVAL_ALLOCATE, cpu);
		break;
	case OTHER_TRIMS:
		ask_rival(RIVAL_TRIM, cpu);
		break;
	case OTHER_FORKS:
		ask_rival(RIVAL_FORK, cpu);
		break;
	case MIGRATE_AND_OTHER:
		move(other_cpu(cpu));
		ask_rival(RIVAL_ALLOCATE, cpu);
		ask_rival(RIVAL_ALLOCATE, other_cpu(cpu));
		break;
	case DISTURBANCES:
		break;
	}
	return tracer_run(&tracee, 0);
}

/* To the end of the round in hand, where the tracee has checked itself. */
static void finish_round(enum stop stop)
{
	while (stop == STOP_BREAKPOINT)
		stop = tracer_run(&tracee, 0);
	if (stop == STOP_END)
		died();
	if (!rival_done(10000))
		fire_fail("%s: the other thread hangs", doing);
}

static void one_case(const struct sequence *one, unsigned int boundary,
		     enum disturbance kind)
{
	unsigned int handled = shared->handled;
	static char text[240];
	enum stop stop;
	bool inside = one->boundary[boundary] != one->commit && boundary >= one->entered;

	snprintf(text, sizeof(text), "%s, boundary %u of %u, %s", one->name,
		 boundary, one->count - 1, names[kind]);
	doing = text;
	if (!run_to(one->boundary[boundary], patience)) {
		counts.missed++;
		return;
	}
	/* A breakpoint instruction must not be met by others, nor inherited. */
	if (inside && (tracee.hardware || kind == SIGNAL_MALLOC ||
		       kind == MIGRATE || kind == STOP_CONT))
		tracer_arm(&tracee, base + one->abort);
	stop = disturb(kind);
	if (stop == STOP_END)
		died();
	if (stop == STOP_BREAKPOINT)
		counts.aborts++;
	else if (tracee.armed)
		counts.no_aborts++;
	tracer_disarm(&tracee);
	finish_round(stop);
	if (kind <= SIGNAL_FORK && shared->handled == handled)
		fire_fail("%s: the handler did not run", doing);
	counts.cases++;
	counts.by[kind]++;
}

/* Is the function of sequence @name in the list of option @option? */
static bool listed(const char *name, const char *option)
{
	const char *list = fire_opt_str(option, "");
	size_t length = strcspn(name, "+");

	while (*list) {
		size_t word = strcspn(list, ",");

		if (word == length && !strncmp(list, name, word))
			return true;
		list += word;
		list += strspn(list, ",");
	}
	return false;
}

static unsigned int all_cases(const struct sequence *one)
{
	unsigned int before = counts.missed, sparse = fire_opt("sparse", 1);

	if (!sparse)
		sparse = 1;

	for (unsigned int b = 0; b < one->count; b++)
		for (int kind = 0; kind < DISTURBANCES; kind++)
			if ((b + kind) % sparse == 0)
				one_case(one, b, kind);
	return counts.missed - before;
}

/* The tracee: this program again, with the library preloaded. */
static void start_tracee(const char *library, int shared_fd)
{
	char fd_text[24], bulk_text[32];
	int gate[2];
	pid_t pid;

	snprintf(fd_text, sizeof(fd_text), "--tracee=%d", shared_fd);
	snprintf(bulk_text, sizeof(bulk_text), "--bulk=%llu",
		 (unsigned long long)fire_opt("bulk", STEP_BULK));
	if (pipe(gate))
		fire_fail("pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		char byte;

		if (preload)
			setenv("LD_PRELOAD", library, 1);
		if (read(gate[0], &byte, 1) == 1)
			execl("/proc/self/exe", "single_step", fd_text, bulk_text,
			      NULL);
		_exit(126);
	}
	tracer_attach(&tracee, pid);
	if (write(gate[1], "g", 1) != 1)
		fire_fail("pipe: %s", strerror(errno));
	waitpid(pid, &tracee.status, __WALL);	/* the exec */
	tracer_choose(&tracee, fire_opt_str("breakpoint", "any"));
	if (tracer_run(&tracee, 0) != STOP_ROUND)
		died();
}

static void make_shared(int *fd)
{
	*fd = memfd_create("step", 0);
	if (*fd < 0 || ftruncate(*fd, sizeof(*shared)))
		fire_fail("memfd_create: %s", strerror(errno));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED,
		      *fd, 0);
	if (shared == MAP_FAILED)
		fire_fail("mmap: %s", strerror(errno));
	sem_init(&shared->asked, 1, 0);
	sem_init(&shared->done, 1, 0);
}

/* A lost object stays in use for good: one or more at each case would show. */
static void check_accounts(uint64_t before)
{
	uint64_t after = shared->outstanding;

	printf("in use after a round: %llu bytes before, %llu after\n",
	       (unsigned long long)before, (unsigned long long)after);
	if (after > before + fire_opt("slack", 0))
		fire_fail("objects were lost");
}

static unsigned int disturb_all(void)
{
	unsigned int unreached = 0;
	bool some = *fire_opt_str("only", "");

	for (unsigned int i = 0; i < sequence_count; i++) {
		struct sequence *one = &sequences[i];
		unsigned int missed;

		if (some && !listed(one->name, "only"))
			continue;

		/* For each: all take minutes on a busy machine, and hang not. */
		fire_watchdog(fire_opt("limit", 240));
		if (!run_to(one->start, 12)) {
			printf("%-36s not reached\n", one->name);
			unreached += !listed(one->name, "allow");
			continue;
		}
		finish_round(STOP_BREAKPOINT);
		missed = all_cases(one);
		printf("%-36s %2u boundaries", one->name, one->count);
		printf(missed ? ", %u cases missed\n" : "\n", missed);
	}
	return unreached;
}

static void warm_up(unsigned int rounds)
{
	while (rounds--) {
		if (tracer_run(&tracee, STEP_SIGNAL_MALLOC) != STOP_ROUND)
			died();
		ask_rival(RIVAL_ALLOCATE, rounds % 2 ? other_cpu(0) : 0);
		if (!rival_done(10000))
			fire_fail("the other thread hangs");
	}
}

static void skip_other_backends(void)
{
	const char *forced = getenv("SLUB_FASTPATH");

	if (forced && strcmp(forced, "auto") && strcmp(forced, "rseq"))
		fire_skip("SLUB_FASTPATH=%s: no sequence runs", forced);
}

int main(int argc, char **argv)
{
	const char *library;
	unsigned int unreached;
	uint64_t before;
	int fd;

	fire_start(argc, argv,
		   "library rounds allow only sparse bulk breakpoint slack "
		   "limit tracee");
	if (fire_opt_str("tracee", NULL)) {
		fire_require_library();
		step_tracee(fire_opt("tracee", 0));
	}
	skip_other_backends();
	library = fire_opt_str("library", "build/libslub.so");
	preload = strcmp(library, "self") != 0;
	if (!preload)
		library = realpath("/proc/self/exe", NULL);
	patience = fire_opt("rounds", 12);
	fire_watchdog(fire_opt("limit", 240));
	make_shared(&fd);
	start_tracee(library, fd);
	sequence_count = step_sequences(tracee.pid, library, sequences, &base);
	if (!sequence_count)
		fire_skip("%s has no section __rseq_cs", library);
	warm_up(40);
	before = shared->outstanding;
	unreached = disturb_all();
	printf("%u sequences, %u cases with breakpoints by %s: %u aborts, "
	       "%u cases not reached\n", sequence_count, counts.cases,
	       tracee.hardware ? "debug register" : "instruction",
	       counts.aborts, counts.missed);
	for (int i = 0; i < DISTURBANCES; i++)
		printf("%6u  %s\n", counts.by[i], names[i]);
	printf("%llu objects checked, %u handlers, %u children\n",
	       (unsigned long long)shared->objects, shared->handled,
	       shared->forked);
	check_accounts(before);
	kill(tracee.pid, SIGKILL);
	if (unreached || counts.no_aborts || !counts.cases)
		fire_fail("%u sequences never reached, %u boundaries at which "
			  "the kernel did not abort", unreached,
			  counts.no_aborts);
	return 0;
}
