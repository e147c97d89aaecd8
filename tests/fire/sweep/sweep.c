/* SPDX-License-Identifier: MIT */
/*
 * System calls that fail: the k-th one, for every k of a scripted workload and
 * each of two errors; then storms, in which one in a hundred, in ten, in two
 * fails.
 *
 *	sweep --library=build/libslub.so --from=mark|library --storm=100K
 *
 * --step=N tries every N-th k only (4 where SLUB_TEST_SCALE is below 1);
 * --single=0 leaves the single faults out; --percent=P makes one storm only;
 * --only=NAME fails calls of that name only.
 * --cells=some|all refuses each call of the library always, every second time and from some time
 * on, with its first error or with each (refusals.c), and does nothing else.
 */
#include "sweep/sweep.h"

#include <sys/wait.h>

static unsigned long failed;

/* Says what went wrong and goes on: one run shows all that is wrong. */
static void judge(const struct outcome *outcome, const char *kind,
		  unsigned long which)
{
	if (WIFEXITED(outcome->status) && !WEXITSTATUS(outcome->status))
		return;
	failed++;
	if (WIFSIGNALED(outcome->status))
		printf("FAIL: %s %lu (%s): ended by signal %d (%s)\n", kind,
		       which, outcome->failed, WTERMSIG(outcome->status),
		       strsignal(WTERMSIG(outcome->status)));
	else
		printf("FAIL: %s %lu (%s): ended with status %d\n", kind, which,
		       outcome->failed, WEXITSTATUS(outcome->status));
}

static unsigned long single_faults(const char *library, enum from from,
				   unsigned long step)
{
	struct plan plan = { .from = from };
	struct outcome outcome;
	unsigned long runs = 0;

	for (plan.variant = 0; plan.variant < 2; plan.variant++) {
		for (plan.which = 1;; plan.which += step) {
			supervise(library, &plan, &outcome);
			judge(&outcome, "call", plan.which);
			if (!outcome.failures)
				break;
			runs++;
		}
		printf("%lu calls, each failed once, error %u of 2\n",
		       outcome.calls, plan.variant + 1);
	}
	return runs;
}

static unsigned long storm(const char *library, enum from from, double chance,
		  unsigned long failures, uint64_t *rng)
{
	struct plan plan = {
		.from = from, .chance = chance, .failures_wanted = failures,
		.variant = (unsigned int)fire_below(rng, 2),
		.rng = fire_rng(rng),
	};
	struct outcome outcome;

	supervise(library, &plan, &outcome);
	judge(&outcome, "storm, failure", outcome.failures);
	printf("p = %g: %lu of %lu calls failed\n", chance, outcome.failures,
	       outcome.calls);
	failed += outcome.failures < failures && outcome.status == 0;
	return outcome.failures;
}

int main(int argc, char **argv)
{
	/* Rare failures take many calls each; common ones are most. */
	static const struct { double chance, share; } storms[] = {
		{ 0.01, 0.05 }, { 0.1, 0.25 }, { 0.5, 0.7 },
	};
	static char library[4096];
	unsigned long runs = 0, failures, happened = 0;
	uint64_t rng, percent;
	enum from from;

	fire_start(argc, argv,
		   "library from storm percent only step single workload counted cells");
	if (fire_opt_str("workload", NULL))
		sweep_workload(fire_opt("workload", 0), fire_opt("counted", 0),
			       fire_opt("seed", 1));
	if (!realpath(fire_opt_str("library", "build/libslub.so"), library))
		fire_fail("--library: %s", strerror(errno));
	if (fire_opt_str("cells", NULL)) {
		failed = refusals(library, !strcmp(fire_opt_str("cells", ""), "all"));
		if (failed)
			fire_fail("%lu cells went wrong", failed);
		return 0;
	}
	from = strcmp(fire_opt_str("from", "mark"), "library") ?
		FROM_MARK : FROM_LIBRARY;
	failures = fire_count("storm", 5000);
	rng = fire_seed();
	if (fire_opt("single", 1))
		runs = single_faults(library, from, fire_opt(
			"step", fire_scale() < 1 ? 4 : 1));
	percent = fire_opt("percent", 0);
	if (percent)
		happened = storm(library, from, percent / 100.0,
				 failures, &rng);
	for (int i = 0; !percent && from == FROM_MARK && i < 3; i++)
		happened += storm(library, from, storms[i].chance,
				  (double)failures * storms[i].share + 1, &rng);
	printf("%lu single faults, %lu failures in storms\n", runs, happened);
	if (fire_opt("single", 1) && !runs)
		fire_fail("the library made no call: is it %s?", library);
	if (failed)
		fire_fail("%lu runs went wrong", failed);
	return 0;
}
