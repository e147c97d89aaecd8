/* SPDX-License-Identifier: MIT */
/*
 * pairs: tests of two features where they meet.
 *
 *   pairs                  the table: each cell, and what is in it
 *   pairs CELL             in this process, as the environment says
 *   pairs CELL LIBRARY     in each mode: four backends; the same with LIBRARY, the hardened one, in
 *                          place of the other; and in compact mode
 *
 * PAIRS_ROUNDS: how often each composition allocates and frees (1).  PAIRS_WATCHDOG: seconds, 100,
 * after which a cell that does not end is ended, with its name.  PAIRS_MEETING: no compositions
 * where there is a meeting.
 */
#include "pairs.h"

#include <sys/wait.h>

static const struct feature *const features[] = {
#define FEATURE(name, ...) &feature_##name,
#include "table.def"
};

enum { FEATURES = sizeof(features) / sizeof(*features) };

struct entry {
	const char *one, *other, *text;
	meeting *meeting;	/* NULL: nothing meets, and text says why */
};

static const struct entry entries[] = {
#define MEETING(one, other, text) { #one, #other, text, meet_##one##_x_##other },
#define EMPTY(one, other, text) { #one, #other, text, NULL },
#include "table.def"
	{ "", "", "", NULL },
};

static const struct entry *entry_of(int one, int other)
{
	const struct entry *entry = entries;

	for (; *entry->one; entry++)
		if (!strcmp(entry->one, features[one]->name) &&
		    !strcmp(entry->other, features[other]->name))
			return entry;
	return NULL;
}

static void cell_name(char *name, size_t size, int one, int other)
{
	snprintf(name, size, "%s_x_%s", features[one]->name, features[other]->name);
}

static int table(void)
{
	for (int one = 0; one < FEATURES; one++) {
		for (int other = one + 1; other < FEATURES; other++) {
			const struct entry *entry = entry_of(one, other);
			char name[64];

			cell_name(name, sizeof(name), one, other);
			printf("%s\t%s\t%s\n", name,
			       !entry ? "composed" : entry->meeting ? "meeting" : "empty",
			       entry ? entry->text : "");
		}
	}
	return 0;
}

/* Of another name for a cell that is not there, NULL. */
static struct cell *find(const char *name, const struct entry **entry)
{
	static struct cell cell;

	for (int one = 0; one < FEATURES; one++) {
		for (int other = one + 1; other < FEATURES; other++) {
			cell_name(cell.name, sizeof(cell.name), one, other);
			if (strcmp(cell.name, name))
				continue;
			cell.pair[0] = features[one];
			cell.pair[1] = features[other];
			*entry = entry_of(one, other);
			return &cell;
		}
	}
	return NULL;
}

/* There a block has what was asked for. */
static bool is_hardened(void)
{
	void *block = slub_malloc(21);
	bool knows = slub_usable_size(block) == 21;

	slub_free(block);
	return knows;
}

static int run(const char *name)
{
	const char *rounds = getenv("PAIRS_ROUNDS"), *wanted = getenv("SLUB_FASTPATH");
	const struct entry *entry = NULL;
	struct cell *cell = find(name, &entry);
	int backend;

	if (!cell) {
		printf("pairs: there is no cell %s\n", name);
		return 2;
	}
	if (entry && !entry->meeting) {
		printf("pairs.%s is empty: %s\n", name, entry->text);
		return 2;
	}
	backend = fire_backend();
	if (!backend || (wanted && strcmp(wanted, fire_backend_name(backend)))) {
		printf("pairs.%s: the backend is %s\n", name, fire_backend_name(backend));
		return FIRE_SKIP;
	}
	if (getenv("PAIRS_HARDENED") && !is_hardened()) {
		printf("pairs.%s: the hardened library is not there\n", name);
		return 2;
	}
	cell->rounds = rounds ? (unsigned int)atoi(rounds) : 1;
	cell_run(cell, entry ? entry->meeting : NULL);
	return 0;
}

/* ---- in each mode ---- */

static const struct {
	const char *name;
	const char *mode;	/* SLUB_MODE */
	bool is_hardened;
} builds[] = {
	{ "default", "balanced", false },
	{ "hardened", "balanced", true },
	{ "compact", "compact", false },
};

static void become(const char *program, const char *cell, const char *backend, int build,
		   const char *library)
{
	char mode[64];

	snprintf(mode, sizeof(mode), "%s, %s", backend, builds[build].name);
	setenv("PAIRS_MODE", mode, 1);
	setenv("SLUB_FASTPATH", backend, 1);
	setenv("SLUB_MODE", builds[build].mode, 1);
	setenv("SLUB_ATTACH", "1", 1);
	if (builds[build].is_hardened) {
		setenv("LD_PRELOAD", library, 1);
		setenv("PAIRS_HARDENED", "1", 1);
	}
	execl(program, program, cell, (char *)NULL);
	_exit(2);
}

static int run_all(const char *program, const char *cell, const char *library)
{
	static const char *const backends[] = { "rseq", "thread", "tid", "lock" };
	int failed = 0, skipped = 0;

	/* Of two that never end there is no need to wait for more. */
	for (int i = 0; i < 12 && failed < 2; i++) {
		int build = i / 4, status = 0;
		pid_t child = fork();

		if (!child)
			become(program, cell, backends[i % 4], build, library);
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 2;
		if (!WIFEXITED(status) || (WEXITSTATUS(status) &&
					   WEXITSTATUS(status) != FIRE_SKIP)) {
			printf("pairs.%s [%s, %s]: status %#x\n", cell, backends[i % 4],
			       builds[build].name, status);
			failed++;
		} else if (status) {
			skipped++;
		}
	}
	if (failed)
		printf("pairs.%s: %d modes failed\n", cell, failed);
	return failed ? 1 : skipped == 12 ? FIRE_SKIP : 0;
}

int main(int argc, char **argv)
{
	if (argc == 1)
		return table();
	if (argc == 2)
		return run(argv[1]);
	return run_all("/proc/self/exe", argv[1], argv[2]);
}
