/* SPDX-License-Identifier: MIT */
#include "fire.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "features/inspect/abi.h"

static int arg_count;
static char **arg_values;

/* -- options ------------------------------------------------------------ */

static bool known_option(const char *arg, const char *known)
{
	size_t length = strcspn(arg, "=");
	const char *at = known;

	while (at && *at) {
		size_t word = strcspn(at, " ");

		if (word == length && !strncmp(at, arg, word))
			return true;
		at += word;
		at += strspn(at, " ");
	}
	return length == 4 && !strncmp(arg, "seed", 4);
}

/*
 * Where tests preload the library, they leave out what with_mode preloads into
 * all programs: it comes back by a second start.
 */
static void take_companion(char **argv)
{
	const char *companion = getenv("FIRE_COMPANION");
	const char *loaded = getenv("LD_PRELOAD");
	char both[4096];

	if (!companion || (loaded && strstr(loaded, companion)))
		return;
	snprintf(both, sizeof(both), "%s %s", loaded ? loaded : "", companion);
	setenv("LD_PRELOAD", both, 1);
	execv("/proc/self/exe", argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	exit(2);
}

void fire_start(int argc, char **argv, const char *known)
{
	take_companion(argv);
	arg_count = argc;
	arg_values = argv;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--"))
			return;
		if (!strncmp(argv[i], "--", 2) && strchr(argv[i], '=') &&
		    known_option(argv[i] + 2, known))
			continue;
		fprintf(stderr, "%s: no such option: %s\n"
			"known, each as --NAME=VALUE: seed %s\n",
			argv[0], argv[i], known);
		exit(2);
	}
}

const char *fire_opt_str(const char *name, const char *otherwise)
{
	size_t length = strlen(name);

	for (int i = 1; i < arg_count; i++) {
		const char *arg = arg_values[i];

		if (!strcmp(arg, "--"))
			break;
		if (!strncmp(arg, "--", 2) && !strncmp(arg + 2, name, length) &&
		    arg[2 + length] == '=')
			return arg + 3 + length;
	}
	return otherwise;
}

uint64_t fire_opt(const char *name, uint64_t otherwise)
{
	const char *text = fire_opt_str(name, NULL);
	uint64_t value;
	char *end;

	if (!text)
		return otherwise;
	value = strtoull(text, &end, 0);
	switch (*end) {
	case 'G':
		return value * 1000000000;
	case 'M':
		return value * 1000000;
	case 'K':
	case 'k':
		return value * 1000;
	case '\0':
		if (end != text)
			return value;
	}
	fprintf(stderr, "--%s=%s: a number is wanted, as 100, 20K, 3M or 1G\n",
		name, text);
	exit(2);
}

/* SLUB_TEST_SCALE=0.1 asks every program for a tenth of its default work. */
double fire_scale(void)
{
	const char *text = getenv("SLUB_TEST_SCALE");
	double value = text ? strtod(text, NULL) : 1.0;

	return value > 0 ? value : 1.0;
}

uint64_t fire_count(const char *name, uint64_t otherwise)
{
	uint64_t value;

	if (fire_opt_str(name, NULL))
		return fire_opt(name, otherwise);
	value = (uint64_t)((double)otherwise * fire_scale());
	return value ? value : 1;
}

uint64_t fire_seed(void)
{
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = fire_opt("seed", (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec);
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	return fire_rng_state(seed);
}

/* -- the library -------------------------------------------------------- */

int fire_backend(void)
{
	const struct slub_abi *state = dlsym(RTLD_DEFAULT, SLUB_ABI_SYMBOL);

	return state && state->ready ? (int)state->backend : 0;
}

const char *fire_backend_name(int backend)
{
	static const char *const names[] = {
		"none", "rseq", "thread", "tid", "lock",
	};

	return backend >= 0 && backend <= 4 ? names[backend] : "unknown";
}

void fire_require_library(void)
{
	const char *expect = getenv("FIRE_EXPECT_LIB");
	const char *forced = getenv("SLUB_FASTPATH");
	void *volatile first = malloc(1);
	int backend = fire_backend();

	free(first);
	printf("malloc: %s, backend %s\n", backend ? "libslub" : "another",
	       fire_backend_name(backend));
	fflush(stdout);
	if (!expect || strcmp(expect, "1"))
		return;
	if (!backend)
		fire_fail("libslub is not the malloc in use (LD_PRELOAD=%s)",
			  getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "");
	if (forced && strcmp(forced, "auto") &&
	    strcmp(forced, fire_backend_name(backend)))
		fire_fail("SLUB_FASTPATH=%s, but the backend is %s", forced,
			  fire_backend_name(backend));
}

/* -- ends --------------------------------------------------------------- */

/* vsnprintf into the stack and write(2): stdio might allocate. */
static void say(const char *word, const char *format, va_list args)
{
	char text[600];
	int used = snprintf(text, sizeof(text), "[%d] %s: ", getpid(), word);
	int more = vsnprintf(text + used, sizeof(text) - used - 1, format, args);
	size_t length = strlen(text);

	(void)more;
	text[length++] = '\n';
	if (write(2, text, length) < 0)
		return;
}

void fire_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("FAIL", format, args);
	va_end(args);
	if (getenv("FIRE_ABORT"))
		abort();
	_exit(1);
}

void fire_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("skipped", format, args);
	va_end(args);
	_exit(FIRE_SKIP);
}

static void watchdog_barks(int signal)
{
	static const char text[] = "FAIL: hung, ended by the watchdog\n";

	(void)signal;
	if (getenv("FIRE_ABORT"))
		abort();
	if (write(2, text, sizeof(text) - 1) >= 0)
		_exit(FIRE_HUNG);
	_exit(FIRE_HUNG);
}

void fire_watchdog(unsigned int seconds)
{
	struct sigaction action = { .sa_handler = watchdog_barks };
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF,
	};
	struct itimerspec when = { .it_value.tv_sec = seconds };
	static timer_t timer;
	static bool made;

	if (!made && (sigaction(SIGPROF, &action, NULL) ||
		      timer_create(CLOCK_MONOTONIC, &event, &timer)))
		fire_fail("watchdog: %s", strerror(errno));
	/* Written once, before there are threads. */
	if (!made)
		made = true;
	if (timer_settime(timer, 0, &when, NULL))
		fire_fail("watchdog: %s", strerror(errno));
}

int fire_wait(pid_t child, unsigned int seconds)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	struct timespec start, now;
	int status;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (;;) {
		pid_t got = waitpid(child, &status, WNOHANG);

		if (got == child)
			return status;
		if (got < 0 && errno != EINTR)
			fire_fail("waitpid %d: %s", child, strerror(errno));
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - start.tv_sec > (time_t)seconds)
			break;
		nanosleep(&pause, NULL);
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return -1;
}

static void pass_on(int status)
{
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	fprintf(stderr, "ended by signal %d (%s)\n", WTERMSIG(status),
		strsignal(WTERMSIG(status)));
	_exit(1);
}

/* Runs the caller in a child; the parent ends as the child does. */
static void run_in_child(void)
{
	pid_t child, got;
	int status;

	fflush(NULL);
	child = fork();
	if (child < 0)
		fire_fail("fork: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return;
	}
	do
		got = wait(&status);
	while (got != child && (got > 0 || errno == EINTR));
	pass_on(status);
}

void fire_isolate(void)
{
	bool own = !unshare(CLONE_NEWPID | CLONE_NEWNS);

	run_in_child();
	if (!own)
		return;
	if (!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		mount("proc", "/proc", "proc", 0, NULL);
	/* The first process of a namespace ignores signals; be the second. */
	run_in_child();
}

/* -- sizes and stamps --------------------------------------------------- */

size_t fire_size(uint64_t *state)
{
	uint64_t kind = fire_below(state, 1000);

	if (kind < 700)
		return 8 + fire_below(state, 121);
	if (kind < 920)
		return 128 + fire_below(state, 897);
	if (kind < 990)
		return 1024 + fire_below(state, 7169);
	return 8192 + fire_below(state, 65536 - 8192 + 1);
}

static inline uint64_t stamp_word(uint64_t id, size_t index)
{
	return (id + index) * 0x9e3779b97f4a7c15ull ^ id;
}

void fire_stamp(void *object, size_t size, uint64_t id)
{
	uint64_t *words = object;
	size_t count = size / 8;
	uint64_t tail = stamp_word(id, count);

	for (size_t i = 0; i < count; i++)
		words[i] = stamp_word(id, i);
	memcpy(words + count, &tail, size % 8);
}

size_t fire_stamp_differs(const void *object, size_t size, uint64_t id)
{
	const uint64_t *words = object;
	size_t count = size / 8;
	uint64_t tail = stamp_word(id, count);
	uint64_t differs = 0;

	for (size_t i = 0; i < count; i++)
		differs |= words[i] ^ stamp_word(id, i);
	if (!differs && !memcmp(words + count, &tail, size % 8))
		return size;
	for (size_t i = 0; i < count; i++)
		if (words[i] != stamp_word(id, i))
			return i * 8;
	return count * 8;
}

void fire_unstamp(void *object, size_t size, uint64_t id, const char *where)
{
	size_t offset = fire_stamp_differs(object, size, id);
	uint64_t found = 0;

	if (offset == size) {
		memset(object, 0xdd, size < 64 ? size : 64);
		return;
	}
	memcpy(&found, (char *)object + offset,
	       size - offset < 8 ? size - offset : 8);
	fire_fail("%s: object %p of %zu bytes, stamp %#llx, damaged at byte "
		  "%zu (found %#llx)", where, object, size,
		  (unsigned long long)id, offset, (unsigned long long)found);
}
