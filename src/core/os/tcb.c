/* SPDX-License-Identifier: MIT */
/*
 * What the C library knows of the calling thread, read where it keeps it: a sandbox may end the
 * process for the system calls that say the same.
 *
 * glibc's descriptor of a thread begins at the thread pointer on x86-64.  Where in it something
 * is differs from version to version, and is told by what is around it.  Elsewhere, and under
 * other C libraries, nothing is known.
 */
#define _GNU_SOURCE
#include "core/os/os.h"

#include <dlfcn.h>

#if defined(__GLIBC__) && SLUB_CPU_X86_64
#define IS_KNOWN 1
#else
#define IS_KNOWN 0
#endif

/* glibc 2.36 has 2,304 bytes and the rseq area; the thread's number is at byte 720 in all. */
#define DESCRIPTOR_BYTES 2304
#define DESCRIPTOR_LEAST 1024
/* A stack ends so near behind the descriptor at the most. */
#define STACK_ROOM ((uintptr_t)64 << 10)
#define PAGE_LEAST 4096

/* From the thread pointer; 0: not known.  const after start */
static uint32_t id_offset;

/*
 * How much of the descriptor can be read for certain: what no version has less than, and the rest
 * of its page.  That of a thread lies at the end of its stack, most of it in one page; where the
 * first thread's begins depends on how many libraries the loader had to remember.
 */
static size_t readable_bytes(uintptr_t self)
{
	size_t page = min_size(DESCRIPTOR_BYTES, PAGE_LEAST - self % PAGE_LEAST);

	return IS_KNOWN ? max_size(DESCRIPTOR_LEAST, page) : 0;
}

/*
 * Three words in a row: the block, its bytes, and those of its guard (glibc's stackblock;
 * pthread_getattr_np(3) would allocate).  The first thread's are 0, and so are those of a thread
 * that somebody else has made.
 */
static bool stack_low(const uintptr_t *words, size_t nr, uintptr_t *low)
{
	uintptr_t self = (uintptr_t)words;

	for (size_t i = 0; i + 2 < nr; i++) {
		uintptr_t start = words[i], bytes = words[i + 1];
		uintptr_t guard = words[i + 2];

		if (start && start < self && bytes > self - start &&
		    bytes - (self - start) <= STACK_ROOM &&
		    guard < self - start) {
			*low = start + guard;
			return true;
		}
	}
	return false;
}

bool os_thread_stack(uintptr_t *low, uintptr_t *high)
{
	const uintptr_t *words = __builtin_thread_pointer();
	uintptr_t self = (uintptr_t)words;

	if (!stack_low(words, readable_bytes(self) / sizeof(*words), low))
		return false;
	*high = self;
	return true;
}

/* glibc 2.32 and later; in libslub.so another stands in its place (old_glibc.c). */
extern char __libc_single_threaded __attribute__((weak));
/* NULL: not known.  const after the constructor */
static const volatile char *alone;

/* By name, for a program may have an older C library; a static one has no names. */
cold void os_alone_find(void)
{
	const char *found = dlsym(RTLD_DEFAULT, "__libc_single_threaded");

	alone = found ? found : &__libc_single_threaded;
}

cold bool os_is_alone(void)
{
	return alone && *alone;
}

/* The thread's number, half a word of nothing, and a ring of robust mutexes that is empty. */
void os_thread_id_find(uint32_t first)
{
	const uintptr_t *words = __builtin_thread_pointer();
	uintptr_t self = (uintptr_t)words;
	size_t nr = readable_bytes(self) / sizeof(*words);

	for (size_t i = 1; i + 2 < nr; i++) {
		uintptr_t ring = (uintptr_t)&words[i + 2];

		if ((uint32_t)words[i] == first && words[i + 1] == ring && words[i + 2] == ring)
			id_offset = (uint32_t)(i * sizeof(*words));
	}
}

cold uint32_t os_thread_id(void)
{
	const char *self = __builtin_thread_pointer();
	uint32_t id = id_offset ? *(const volatile uint32_t *)(self + id_offset) : 0;

	return id ? id : (uint32_t)sys_tid();
}

/*
 * A descriptor names itself twice, and has no thread's number any more: 0, which the kernel writes
 * at the thread's end, or -1, which pthread_join(3) does.  What is read may be anybody's memory,
 * so nothing but all of that is one.
 */
cold bool os_stack_left(uintptr_t start, uintptr_t end, struct os_stack_left *left)
{
	uintptr_t at = round_up(end - min_size(end - start, STACK_ROOM), 64);

	for (; IS_KNOWN && id_offset && at + DESCRIPTOR_BYTES <= end; at += 64) {
		const uintptr_t *words = (const uintptr_t *)at;
		const uintptr_t *id = (const uintptr_t *)(at + id_offset);
		uintptr_t ring = (uintptr_t)&id[2];
		uint32_t number = (uint32_t)id[0];

		if (words[0] != at || words[2] != at || (number && number != UINT32_MAX) ||
		    id[1] != ring || id[2] != ring ||
		    !stack_low(words, DESCRIPTOR_BYTES / sizeof(*words), &left->low))
			continue;
		left->high = at;
		left->kept = number ? at + id_offset : at + DESCRIPTOR_BYTES;
		left->end = at + DESCRIPTOR_BYTES;
		return true;
	}
	return false;
}
