/* SPDX-License-Identifier: MIT */
/*
 * The call stacks of samples, unwound here: the process leaves a trail of each
 * (features/profile/profile_trail.h), and elfutils finds the callers in a copy of the stack.
 */
#ifndef SLUB_TOOL_PROFILE_TRAIL_H
#define SLUB_TOOL_PROFILE_TRAIL_H

#include "index.h"
#include "features/profile/profile_trail.h"
#include "process.h"
#include "profile.h"

/* profile_trail.c: the ring, read while the process writes */
#define TRAILS_EARLY_MAX 32

struct trail_reader {
	int memory;			/* /proc/PID/mem */
	uint64_t address;		/* of the ring */
	struct trail_ring ring;
	uint64_t next;			/* the trail to be taken */
	uint64_t early[TRAILS_EARLY_MAX];	/* those before it that were not written yet */
	size_t nr_early;
	uint64_t nr_taken, nr_lost;
	bool is_gone;			/* the process has ended, or runs another program */
	struct profile_trail *trail;	/* the last one, with room for its copy */
};

/* False: there is no ring that this command knows. */
bool trail_reader_open(struct trail_reader *reader, int memory, uint64_t address);
/*
 * The next trail, until the next call; NULL: there is none yet.  @is_last: nothing is waited
 * for any more.
 */
const struct profile_trail *trail_take(struct trail_reader *reader, bool is_last);
void trail_reader_close(struct trail_reader *reader);

/* profile_unwind.c */
struct unwinder;
/* NULL: nothing can be unwound. */
struct unwinder *unwinder_open(const struct process *process);
/*
 * The addresses that the frames of @trail return to, the innermost first: how many.
 * *@is_whole: up to the outermost.
 */
size_t unwind(struct unwinder *unwinder, const struct profile_trail *trail, uint64_t *frames,
	      size_t frames_max, bool *is_whole);
void unwinder_close(struct unwinder *unwinder);

/* profile_join.c: what was unwound, and the profile with these stacks */
struct trail_book;
/* NULL: there are no trails, and nothing is unwound. */
struct trail_book *trail_book_open(const struct process *process, int memory,
				   uint64_t ring);
/* There will be no trail any more. */
bool trail_book_is_over(const struct trail_book *book);
/* Takes the trails there are, and unwinds one.  False: there was nothing to do. */
bool trail_book_work(struct trail_book *book);
/* Takes and unwinds all there are.  @is_last: none is waited for any more. */
void trail_book_finish(struct trail_book *book, bool is_last);
/* Puts the unwound stacks in place of those that the process walked, of trails behind @after. */
void trail_book_join(struct trail_book *book, struct profile *profile, uint64_t after);
void trail_book_close(struct trail_book *book);

#endif
