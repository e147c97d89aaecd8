/* SPDX-License-Identifier: MIT */
/*
 * The rseq area that glibc registered for each thread.
 *
 * glibc says where it is (__rseq_offset, from 2.35 on).  __rseq_size is 32 in
 * glibc 2.35 to 2.39 whatever the kernel fills in, so the kernel's own word
 * counts: AT_RSEQ_FEATURE_SIZE, present from Linux 6.3 on, which is also the
 * first with mm_cid.  Nothing in the area but rseq_cs is ever written here.
 */
#include <sys/auxv.h>

#include "os/os.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

/*
 * What glibc registers: 32 bytes up to 2.40, more once the kernel has more
 * features than fit.  Learnt from the first thread that is looked at.
 */
static long registered_bytes = 32;

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

void os_rseq_read(struct os_rseq *rseq)
{
	int32_t cpu_id;

	rseq->available = false;
	if (!&__rseq_offset || !&__rseq_size || __rseq_size == 0)
		return;
	cpu_id = *(volatile int32_t *)(rseq_area() + RSEQ_CPU_ID);
	if (cpu_id < 0 || !os_rseq_is_registered())
		return;
	rseq->available = true;
	rseq->offset = (uintptr_t)__rseq_offset;
	rseq->has_mm_cid = getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_BYTES_MM_CID;
}

/* Returns EBUSY if exactly this area is registered for this thread. */
static long rseq_register(char *area, long bytes, long flags)
{
	return -sys_call4(SYS_rseq, (long)area, bytes, flags, RSEQ_SIGNATURE);
}

bool os_rseq_is_registered(void)
{
	char *area = rseq_area();
	long features = (long)getauxval(AT_RSEQ_FEATURE_SIZE);
	long err;

	if (*(volatile int32_t *)(area + RSEQ_CPU_ID) < 0)
		return false;
	err = rseq_register(area, registered_bytes, 0);
	if (err == 22 && features > registered_bytes) {	/* EINVAL: length */
		features = (long)round_up((size_t)features, 32);
		err = rseq_register(area, features, 0);
		if (err == 16)
			registered_bytes = features;
	}
	/*
	 * A thread for which it succeeds was not registered: take it back,
	 * the area is somebody else's.
	 */
	if (err == 0)
		rseq_register(area, registered_bytes, 1);
	return err == 16;	/* EBUSY */
}
