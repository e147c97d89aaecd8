/* SPDX-License-Identifier: MIT */
/*
 * What the C library knows of the calling thread, read where it keeps it: a sandbox may end the
 * process for the system calls that say the same.
 *
 * glibc's descriptor of a thread begins at the thread pointer on x86-64.  Where in it something
 * is differs from version to version, and is told by what is around it.  Elsewhere, and under
 * other C libraries, nothing is known.
 */
#include "os/os.h"

#if defined(__GLIBC__) && SLUB_CPU_X86_64
#define IS_KNOWN 1
#else
#define IS_KNOWN 0
#endif

/* glibc 2.36 has 2,304 bytes and the rseq area. */
#define DESCRIPTOR_BYTES 2304
/* A stack ends so near behind the descriptor at the most. */
#define STACK_ROOM ((uintptr_t)64 << 10)
#define PAGE_LEAST 4096

/* From the thread pointer; 0: not known.  const after start */
static uint32_t id_offset;

/*
 * How much of the descriptor can be read for certain: that of a thread lies at the end of its
 * stack, most of it in one page, and the first thread's begins in the middle of one.
 */
static size_t readable_bytes(uintptr_t self)
{
	return IS_KNOWN ? min_size(DESCRIPTOR_BYTES, PAGE_LEAST - self % PAGE_LEAST) : 0;
}

/*
 * Three words in a row: the block, its bytes, and those of its guard (glibc's stackblock;
 * pthread_getattr_np(3) would allocate).  The first thread's are 0, and so are those of a thread
 * that somebody else has made.
 */
bool os_thread_stack(uintptr_t *low, uintptr_t *high)
{
	const uintptr_t *words = __builtin_thread_pointer();
	uintptr_t self = (uintptr_t)words;
	size_t nr = readable_bytes(self) / sizeof(*words);

	for (size_t i = 0; i + 2 < nr; i++) {
		uintptr_t start = words[i], bytes = words[i + 1];
		uintptr_t guard = words[i + 2];

		if (start && start < self && bytes > self - start &&
		    bytes - (self - start) <= STACK_ROOM &&
		    guard < self - start) {
			*low = start + guard;
			*high = self;
			return true;
		}
	}
	return false;
}

/* glibc 2.32 and later. */
extern char __libc_single_threaded __attribute__((weak));

cold bool os_is_alone(void)
{
	return &__libc_single_threaded && *(volatile char *)&__libc_single_threaded;
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
