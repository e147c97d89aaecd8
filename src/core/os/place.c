/* SPDX-License-Identifier: MIT */
/*
 * Places for things that grow in place: spans of address space that are free and stay
 * free, although nothing is reserved there.  So a process is charged (RLIMIT_AS) for what it uses,
 * and the kernel itself refuses what is beyond its limit.
 *
 * A mapping without an address goes to the highest gap below the first one (on some
 * machines to the lowest above it), so a place lies far from there: from 33 sixty-fourths of
 * the first one's address to 42.  On x86-64 that is from 65 TiB on: above what engines of
 * scripts draw addresses from (64 TiB), and below programs (85 TiB).  Under an emulator that
 * maps from the bottom up (valgrind) it lies half a tebibyte above the first one.
 *
 * Where a place begins there is drawn for each process, from what the kernel puts on the stack: the
 * address of a library tells no address of the heap.  Where addresses are not to vary (setarch -R,
 * a debugger) nothing is drawn.
 *
 * A program may map a piece of a place all the same: see os_map_at().
 *
 * For the start: not to be called by two threads at a time.
 */
#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "core/os/os.h"

#define PLACE_ALIGN ((uintptr_t)2 << 20)
/*
 * A sanitizer's runtime has its shadow where places lie otherwise.  Each knows what lies within
 * this of the first mapping as a program's (the narrowest, ThreadSanitizer, 1.5 TiB on x86-64).
 */
#define NEAR_MOST ((uintptr_t)480 << 30)
#define NEAR_LEAST ((uintptr_t)32 << 30)
/* What arguments and environment mostly take at the end of the stack. */
#define STACK_STRINGS ((uintptr_t)1 << 20)
/* A first mapping below this has no place below it. */
#define LOW ((uintptr_t)1 << 40)
#define LOW_END ((uintptr_t)6 << 40)

/* What no place was taken of. */
static uintptr_t free_start;	/* 0: not known */
static uintptr_t free_end;
static bool is_emulated;	/* as it seems: what maps lies low */
static uint64_t nr_drawn;

static cold bool find_free(void)
{
	size_t bytes = os_page_size();
	void *first = os_map(bytes);

	if (!first)
		return false;
	os_unreserve(first, bytes);
	if (SLUB_CONFIG_PLAIN_C ||
	    (sanitizer.is_there && (uintptr_t)first >= LOW)) {
		free_start = (uintptr_t)first - NEAR_MOST;
		free_end = (uintptr_t)first - NEAR_LEAST;
	} else if ((uintptr_t)first < LOW) {
		is_emulated = true;
		free_start = (uintptr_t)first + LOW / 2;
		free_end = LOW_END;
	} else {
		free_start = (uintptr_t)first / 64 * 33;
		free_end = (uintptr_t)first / 64 * 42;
	}
	free_start = round_up(free_start, PLACE_ALIGN);
	return true;
}

/*
 * qemu-user (7.2) reserves the place for a mapping that the kernel then refuses, and does not know
 * MAP_FIXED_NOREPLACE: so a mapping is made, and taken back.
 */
static cold bool is_free_emulated(uintptr_t start, size_t bytes)
{
	long ret = sys_call6(SYS_mmap, (long)start, (long)bytes, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				     MAP_FIXED_NOREPLACE, -1, 0);

	if (sys_has_failed(ret))
		return ret == -ENOMEM;	/* beyond RLIMIT_AS, and yet free */
	os_unreserve((void *)ret, bytes);
	return ret == (long)start;
}

/*
 * Another copy of the library may be there.  A mapping that is neither private nor shared is
 * refused as such once the kernel has seen that the place is free; so none is made.
 */
static bool place_is_free(uintptr_t start, size_t bytes)
{
	long ret;

	if (is_emulated)
		return is_free_emulated(start, bytes);
	ret = sys_call6(SYS_mmap, (long)start, (long)bytes, PROT_NONE,
			MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return ret == -EINVAL;
}

/* The stack ends where the address space does, which is a power of two, if nothing moved it. */
static cold bool addresses_vary(void)
{
	uintptr_t end = (uintptr_t)getauxval(AT_RANDOM) | (STACK_STRINGS - 1);

	return (end & (end + 1)) != 0;
}

/*
 * The same words in the same order for another copy of the library.  Part of one may be an address
 * that a program prints, so both of the kernel's words go into each of its bits: it tells neither
 * of them.  No system call: a sandbox may end the process for getrandom.
 */
cold uint64_t os_drawn_word(void)
{
	uint64_t word = os_random_word(0) + ++nr_drawn * UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word ^= os_random_word(1);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return word ^ word >> 31;
}

/*
 * What is passed over in front of a place of @bytes: at most a quarter of what it leaves, so that
 * the largest heap has room behind the areas of CPUs, in half of the whole.
 */
static cold uintptr_t gap_draw(size_t bytes)
{
	uintptr_t slack = free_end - free_start;

	if (is_emulated || bytes > slack || !addresses_vary())
		return 0;
	return os_drawn_word() % ((slack - bytes) / 4 / PLACE_ALIGN + 1) * PLACE_ALIGN;
}

cold void *os_place(size_t bytes)
{
	bytes = round_up(bytes, PLACE_ALIGN);
	if (!free_start && !find_free())
		return NULL;
	free_start += gap_draw(bytes);
	while (free_start < free_end && bytes <= free_end - free_start) {
		uintptr_t start = free_start;

		free_start += bytes;
		if (place_is_free(start, bytes))
			return (void *)start;
	}
	return NULL;
}

cold void os_places_forget(void)
{
	free_start = 0;
	nr_drawn = 0;
}
