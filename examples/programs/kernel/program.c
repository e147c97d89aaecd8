/* SPDX-License-Identifier: MIT */
/*
 * Runs kernel modules and their own tests, and what stand_in.h and kunit.h promise them.
 *
 *   program ROUNDS SEED [wait]
 *
 * Loads the modules, runs the KUnit suites ROUNDS times, and loads and unloads once those
 * modules whose name begins with test_.  Prints one line of JSON.  "wait": before modules
 * are unloaded, waits for the end of standard input, so that somebody may look.
 */
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "kunit.h"

#define NR_MAX 8

static struct module {
	const char *name;
	int (*init)(void);
	void (*exit)(void);
} modules[NR_MAX];
static struct kunit_suite *suites[NR_MAX];
static int nr_modules, nr_suites, nr_warnings, nr_messages;
static u32 seed;	/* what the tests take for chance */

/* ---- what the files of the kernel call ---- */

void kernel_module(const char *name, int (*init)(void), void (*exit)(void))
{
	struct module *m = modules;

	while (m < modules + nr_modules && strcmp(m->name, name))
		m++;
	if (m == modules + nr_modules)
		nr_modules++;
	m->name = name;
	m->init = init ? init : m->init;
	m->exit = exit ? exit : m->exit;
}

void kunit_suite_add(struct kunit_suite *suite)
{
	suites[nr_suites++] = suite;
}

int vprintk(const char *format, va_list words)
{
	return nr_messages++ < 20 ? vfprintf(stderr, format, words) : 0;
}

void kernel_print(const char *format, ...)
{
	va_list words;

	va_start(words, format);
	vprintk(format, words);
	va_end(words);
}

void kunit_err(struct kunit *test, const char *format, ...)
{
	va_list words;

	kernel_print("%s: ", test->name);
	va_start(words, format);
	vprintk(format, words);
	va_end(words);
}

void kernel_bug(const char *what, const char *function)
{
	fprintf(stderr, "BUG: %s in %s()\n", what, function);
	abort();
}

void kernel_warn(const char *what, const char *function)
{
	nr_warnings++;
	kernel_print("WARNING: %s in %s()\n", what, function);
}

unsigned long kernel_jiffies(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (unsigned long)t.tv_sec * 1000 + (unsigned long)t.tv_nsec / 1000000;
}

void prandom_seed_state(struct rnd_state *rnd, u64 of)
{
	*rnd = (struct rnd_state){ RND_STATE_OF(of) };
}

u32 prandom_u32_state(struct rnd_state *rnd)
{
	rnd->state ^= rnd->state << 13;
	rnd->state ^= rnd->state >> 7;
	rnd->state ^= rnd->state << 17;
	return (u32)(rnd->state >> 16);
}

u32 drm_prandom_u32_max_state(u32 end, struct rnd_state *rnd)
{
	return (u32)((u64)prandom_u32_state(rnd) * end >> 32);
}

u32 get_random_u32(void)
{
	return seed;
}

/* 0 to @nr - 1 in any order; the caller has to kfree() it. */
unsigned int *drm_random_order(unsigned int nr, struct rnd_state *rnd)
{
	unsigned int *order = kmalloc_array(nr, sizeof(*order), GFP_KERNEL);

	for (unsigned int i = 0; order && i < nr; i++) {
		unsigned int other = drm_prandom_u32_max_state(i + 1, rnd);

		order[i] = order[other];
		order[other] = i;
	}
	return order;
}

unsigned long next_prime_number(unsigned long x)
{
	for (unsigned long part = 2; ;) {
		if (part == 2)
			x++;
		if (part * part > x)
			return x;
		part = x % part ? part + 1 : 2;
	}
}

/* ---- the tests ---- */

static int run_test(struct kunit_suite *suite, struct kunit_case *one)
{
	struct kunit test = { .name = one->name };

	if (suite->init && suite->init(&test))
		return 1;
	if (!setjmp(test.end))
		one->run(&test);
	return test.has_failed;
}

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Each returns the number of tests that failed. */
static int run_suites(int *nr_tests)
{
	int nr_failed = 0;

	for (int i = 0; i < nr_suites; i++) {
		for (struct kunit_case *one = suites[i]->test_cases; one->run; one++) {
			nr_failed += run_test(suites[i], one);
			++*nr_tests;
		}
	}
	return nr_failed;
}

static int run_modules(int *nr_tests)
{
	int nr_failed = 0;

	for (struct module *m = modules; m < modules + nr_modules; m++) {
		if (strncmp(m->name, "test_", 5))
			continue;
		++*nr_tests;
		if (m->init())
			nr_failed++;
		else if (m->exit)
			m->exit();
	}
	return nr_failed;
}

static void load(void)
{
	for (struct module *m = modules; m < modules + nr_modules; m++) {
		int error = m->init && strncmp(m->name, "test_", 5) ? m->init() : 0;

		if (error) {
			fprintf(stderr, "program: %s: %s\n", m->name, strerror(-error));
			exit(1);
		}
	}
}

static void unload(void)
{
	for (struct module *m = modules + nr_modules; m-- > modules;) {
		if (m->exit && strncmp(m->name, "test_", 5))
			m->exit();
	}
}

/* The peak of this program itself; that of getrusage() begins with its parent's. */
static long peak_kib(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long kib = 0;

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "VmHWM: %ld", &kib);
	if (status)
		fclose(status);
	return kib;
}

int main(int argc, char **argv)
{
	int nr_rounds = argc > 1 ? atoi(argv[1]) : 0, nr_tests = 0, nr_failed = 0;
	double start, of_suites = 0, of_modules;
	char byte;

	seed = argc > 2 ? (u32)atol(argv[2]) : 0;
	if (nr_rounds <= 0 || !seed) {
		fprintf(stderr, "usage: program ROUNDS SEED [wait]\n");
		return 2;
	}
	load();
	for (int i = 0; i < nr_rounds; i++) {
		start = cpu_seconds();
		nr_failed += run_suites(&nr_tests);
		of_suites += cpu_seconds() - start;
	}
	start = cpu_seconds();
	nr_failed += run_modules(&nr_tests);
	of_modules = cpu_seconds() - start;
	printf("{\"tests\": %d, \"failed\": %d, \"warnings\": %d, \"suite_seconds\": %.3f, "
	       "\"module_seconds\": %.3f, \"peak_mib\": %.1f}\n", nr_tests, nr_failed, nr_warnings, of_suites,
	       of_modules, (double)peak_kib() / 1024);
	fflush(stdout);
	if (argc > 3 && !strcmp(argv[3], "wait")) {
		while (read(0, &byte, 1) > 0)
			;
	}
	unload();
	return nr_failed > 0;
}
