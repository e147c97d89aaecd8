/* SPDX-License-Identifier: MIT */
/*
 * The rseq area that glibc registered for each thread.
 *
 * glibc says where it is (__rseq_offset, from 2.35 on).  __rseq_size is 32 in
 * glibc 2.35 to 2.39 whatever the kernel fills in, and later what the kernel
 * fills in, however long the area is; so the kernel's own word counts:
 * AT_RSEQ_FEATURE_SIZE, present from Linux 6.3 on, which is also the first with
 * mm_cid.  Nothing in the area but rseq_cs is ever written here.
 */
#include <sys/auxv.h>

#include "os/os.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

#ifndef AT_RSEQ_ALIGN
#define AT_RSEQ_ALIGN 28
#endif

/*
 * What the C library registered with, 0 until the first thread is looked at: the
 * kernel wants to hear exactly that again.
 */
static long registered_bytes;
/* The least, and all there was at first. */
#define BYTES_MIN 32

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static char *thread_pointer(void)
{
	return __builtin_thread_pointer();
}

static char *rseq_area(void)
{
	return thread_pointer() + __rseq_offset;
}

bool os_rseq_has_cpu(void)
{
	return *(volatile int32_t *)(rseq_area() + RSEQ_CPU_ID) >= 0;
}

void os_rseq_read(struct os_rseq *rseq)
{
	rseq->available = false;
	if (!&__rseq_offset || !&__rseq_size || __rseq_size == 0 ||
	    !os_rseq_is_registered())
		return;
	rseq->available = true;
	rseq->offset = (uintptr_t)__rseq_offset;
	rseq->has_mm_cid = getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_BYTES_MM_CID;
}

static long rseq_register(long bytes, long flags)
{
	return -sys_call4(SYS_rseq, (long)rseq_area(), bytes, flags,
			  RSEQ_SIGNATURE);
}

/*
 * EBUSY if this thread's area is registered with @bytes.  EINVAL: not with so many,
 * or something else is, or nothing can be.
 */
static long ask(long bytes)
{
	long err = rseq_register(bytes, 0);

	/*
	 * A thread for which it succeeds was not registered: take it back,
	 * the area is somebody else's.
	 */
	if (err == 0)
		rseq_register(bytes, 1);
	return err;
}

/* Returns as ask() for the first of the lengths that is not wrong. */
static long learn(void)
{
	size_t features = getauxval(AT_RSEQ_FEATURE_SIZE);
	size_t align = max_size(getauxval(AT_RSEQ_ALIGN), BYTES_MIN);
	/*
	 * glibc 2.35 to 2.40; from 2.41 on, where the kernel has more than fits; as
	 * some of its versions in between had it; and what it calls its own.
	 */
	const size_t lengths[] = { BYTES_MIN, features, round_up(features, align),
				   __rseq_size };
	long err = 22;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		err = ask((long)lengths[i]);
		if (err == 16)
			__atomic_store_n(&registered_bytes, (long)lengths[i],
					 __ATOMIC_RELAXED);
		if (err != 22)	/* EINVAL */
			break;
	}
	return err;
}

bool os_rseq_is_registered(void)
{
	long bytes = __atomic_load_n(&registered_bytes, __ATOMIC_RELAXED);

	if (!os_rseq_has_cpu())
		return false;
	return (bytes ? ask(bytes) : learn()) == 16;	/* EBUSY */
}
