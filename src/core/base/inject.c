/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "core/base/inject.h"

#if SLUB_CONFIG_INJECT

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/syscall.h"
#include "core/base/thread.h"

#define SLEEP_US 200

enum settings_state { SETTINGS_NOT_READ, SETTINGS_BEING_READ, SETTINGS_READ };

/* const once they are read */
static uint64_t rate;
static uint64_t seed;
static uint64_t sleep_us;
static uint64_t points;
static uint32_t settings;	/* enum settings_state */

static const char *const names[] = {
#define INJECT_POINT(name, what) #name,
#include "core/base/inject.def"
};

_Static_assert(INJECT_NR <= 64, "a bit for each");

/* ---- SLUB_INJECT ---- */

/* The number behind @name in @s, else @otherwise. */
static uint64_t inject_number(const char *s, const char *name, uint64_t otherwise)
{
	const char *at = strstr(s, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : otherwise;
}

/* Those that "points=" in @s names, else all. */
static uint64_t points_of(const char *s)
{
	const char *at = strstr(s, "points=");
	uint64_t bits = 0;

	if (!at)
		return ~0ull;
	at = strchr(at, '=');
	while (*at == '=' || *at == '+') {
		size_t n = strcspn(++at, "+,");

		for (int i = 0; i < INJECT_NR; i++) {
			if (strlen(names[i]) == n && !memcmp(names[i], at, n))
				bits |= 1ull << i;
		}
		at += n;
	}
	return bits;
}

static void read_settings(const char *s)
{
	rate = inject_number(s, "rate=", 0);
	seed = inject_number(s, "seed=", 0);
	sleep_us = inject_number(s, "sleep=", SLEEP_US);
	points = points_of(s);
}

/* Before the C library has started there is no environment: later, then. */
static bool settings_are_read(void)
{
	uint32_t now = __atomic_load_n(&settings, __ATOMIC_ACQUIRE);

	if (now == SETTINGS_READ)
		return true;
	if (now != SETTINGS_NOT_READ || !environ ||
	    !__atomic_compare_exchange_n(&settings, &now, SETTINGS_BEING_READ,
					 false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	for (char **e = environ; *e; e++) {
		if (strncmp(*e, "SLUB_INJECT=", 12) == 0)
			read_settings(*e + 12);
	}
	__atomic_store_n(&settings, SETTINGS_READ, __ATOMIC_RELEASE);
	return true;
}

/* ---- a passage ---- */

static uint64_t random_here(void)
{
	static __thread uint64_t state
		__attribute__((tls_model("initial-exec")));
	static uint64_t nr_threads;

	if (!state)
		state = (seed + __atomic_add_fetch(&nr_threads, 1,
						   __ATOMIC_RELAXED)) *
			0xd1342543de82ef95ull;
	return random_next(&state);
}

bool inject_is_hit(enum inject_point point)
{
	return settings_are_read() && rate && points >> point & 1 &&
	       random_here() % rate == 0;
}

void inject_wait(enum inject_point point)
{
	uint64_t dice;

	if (likely(!inject_is_hit(point)))
		return;
	dice = random_here();
	switch (dice % 4) {
	case 0:
		for (uint64_t i = 0; i < dice / 4 % 2000; i++)
			compiler_barrier();
		break;
	case 1:
		sys_sleep_ns(1000 * (dice / 4 % (sleep_us + 1)));
		break;
	default:
		sys_call4(SYS_sched_yield, 0, 0, 0, 0);
	}
}

#endif
