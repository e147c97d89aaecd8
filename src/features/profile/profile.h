/* SPDX-License-Identifier: MIT */
/*
 * The heap profile: what is known of the sampled allocations (features/profile/sample.h).
 *
 * Words
 *   site     a call stack that allocated, with the sums over its samples
 *   sample   a sampled block that has not been freed yet
 *   weight   how many allocations a sampled one stands for; sums of it and of
 *            it times the bytes asked for are estimates of all allocations
 *
 * Tests: tests/unit/inspect/test_profile.cc, tests/unit/inspect/test_trail*.cc,
 * tests/unit/slab/test_sample.cc, tests/profile.
 * Page: docs/operate/profile.md.
 */
#ifndef SLUB_PROFILE_INTERNAL_H
#define SLUB_PROFILE_INTERNAL_H

#include "features/debug/debug.h"
#include "features/inspect/inspect.h"
#include "features/profile/sample.h"
#include "slub/profile.h"

/* Weights are counted in parts of 256. */
#define WEIGHT_ONE 256

struct profile_sums {
	uint64_t samples;
	uint64_t weight;
	uint64_t bytes;		/* weighted */
};

struct profile_site {
	uint32_t stack;		/* stack_store(); 0: not known */
	uint32_t next;		/* in its bucket, + 1 */
	struct profile_sums all;
	struct profile_sums live;
};

struct profile_state {
	size_t mean_bytes;	/* 0: there was never a profile */
	uint64_t start_ns;	/* CLOCK_REALTIME */
	uint64_t lost;		/* samples that there was no room for */
	uint32_t nr_sites;
	const struct profile_site *sites;
	/* since the ring of trails was first on (profile_trail.h); those of samples alive */
	uint64_t last_trail;		/* 0: there were never any */
	uint32_t nr_trails;
	const uint64_t *trails;
};

/* profile.c */
/* A copy, until profile_copy_free(); 0 or -errno. */
int profile_copy(struct profile_state *copy);
void profile_copy_free(struct profile_state *copy);

/* The number of the stack that allocated @object, if that is a sample, else 0; takes no lock. */
uint32_t profile_stack_of(const void *object);

/* Is there a profile? */
bool profile_has_begun(void);
/* Without waiting; 0, 1: it is on already, or -errno. */
int profile_begin(size_t mean);
int profile_stop(bool may_wait);

/* profile_file.c: 0 or -errno */
long profile_write(const char *path);
/* To what is open as @fd; @with_modules takes the dynamic linker's lock. */
int profile_write_to(long fd, bool with_modules);

/* profile_mail.c: what another process asks for, features/debug/mailbox.h */
long profile_by_mail(const char *text);

/* Called by src/core/slub.c */
void profile_init(void);
void profile_start_by_option(void);
void profile_finish(void);
void profile_fork(enum fork_step step);

#endif
