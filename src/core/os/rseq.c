/* SPDX-License-Identifier: MIT */
/*
 * The rseq area of each thread: the one that glibc registered, or, under a C library that
 * knows nothing of these areas, slub_thread.scratch, which the library registers itself
 * (docs/internals/rseq.md, "Registration").  Nothing in it but rseq_cs is ever written here.
 *
 * What __rseq_size says varies with glibc's version, so the kernel's own word counts:
 * AT_RSEQ_FEATURE_SIZE, present from Linux 6.3 on, which is also the first with mm_cid.
 */
#include <sys/auxv.h>

#include "core/os/os.h"

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
/* Of our own: every kernel takes that many, and mm_cid lies within. */
#define OWN_BYTES 32
_Static_assert(sizeof(slub_thread.scratch) == OWN_BYTES &&
	       RSEQ_BYTES_MM_CID <= OWN_BYTES, "the area");

#ifndef RSEQ_FLAG_UNREGISTER
#define RSEQ_FLAG_UNREGISTER 1
#endif

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static char *thread_pointer(void)
{
	return __builtin_thread_pointer();
}

static bool rseq_is_ours(void)
{
	return !&__rseq_offset;
}

static char *rseq_area(void)
{
	return rseq_is_ours() ? (char *)slub_thread.scratch :
			   thread_pointer() + __rseq_offset;
}

int32_t os_rseq_cpu(void)
{
	return *(volatile int32_t *)(rseq_area() + RSEQ_CPU_ID);
}

bool os_rseq_has_cpu(void)
{
	return os_rseq_cpu() >= 0;
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
static long rseq_ask(long bytes)
{
	long err = rseq_register(bytes, 0);

	/*
	 * A thread for which it succeeds was not registered: take it back,
	 * the area is somebody else's.
	 */
	if (err == 0)
		rseq_register(bytes, RSEQ_FLAG_UNREGISTER);
	return err;
}

/* Returns as rseq_ask() for the first of the lengths that is not wrong. */
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
		err = rseq_ask((long)lengths[i]);
		if (err == 16)
			__atomic_store_n(&registered_bytes, (long)lengths[i],
					 __ATOMIC_RELAXED);
		if (err != 22)	/* EINVAL */
			break;
	}
	return err;
}

static bool kernel_says_so(void)
{
	long bytes = __atomic_load_n(&registered_bytes, __ATOMIC_RELAXED);

	return (bytes ? rseq_ask(bytes) : learn()) == 16;	/* EBUSY */
}

/* Words that the kernel alone writes, and that are 0 in a descriptor that nobody registered. */
static bool kernel_has_written(void)
{
	const volatile uint32_t *words = (const volatile uint32_t *)rseq_area();

	return words[RSEQ_CPU_ID / 4] | words[RSEQ_NODE_ID / 4] | words[RSEQ_MM_CID / 4];
}

/*
 * The kernel is asked as little as can be, for a sandbox that lets no new thread register may
 * end the process for this call too.  A thread that glibc has not made has a descriptor of zeros,
 * and looks like one on CPU 0 with number 0; one that glibc has made has a stack there, and
 * glibc has registered it, or has said in the area that it could not.
 */
bool os_rseq_is_registered(void)
{
	uintptr_t low, high;

	if (!os_rseq_has_cpu())
		return false;
	return kernel_has_written() || os_thread_stack(&low, &high) || kernel_says_so();
}

cold bool os_rseq_register(void)
{
	return rseq_register(OWN_BYTES, 0) == 0;
}

cold void os_rseq_unregister(void)
{
	rseq_register(OWN_BYTES, RSEQ_FLAG_UNREGISTER);
}

cold bool os_thread_is_first(void)
{
	return sys_tid() == sys_pid();
}

void os_rseq_read(struct os_rseq *rseq)
{
	rseq->is_ours = rseq_is_ours();
	if (rseq->is_ours) {
		/* One that is taken back at once says whether the kernel takes any. */
		rseq->available = os_rseq_register();
		if (rseq->available)
			os_rseq_unregister();
	} else {
		rseq->available = &__rseq_size && __rseq_size && os_rseq_has_cpu() &&
				  kernel_says_so();
	}
	rseq->offset = (uintptr_t)(rseq_area() - thread_pointer());
	rseq->has_mm_cid = rseq->available &&
			   getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_BYTES_MM_CID;
}
