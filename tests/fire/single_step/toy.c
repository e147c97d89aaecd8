/* SPDX-License-Identifier: MIT */
/*
 * A toy malloc with one pop and one push sequence, to test the harness on.
 * It hands out 256-byte slots of a fixed pool through one list, CPU 0's and
 * CPU 1's alike, and everything else through mmap().  TOY_MUTANT leaves out
 * the store to rseq_cs: the sequences look right but are never restarted, and
 * the harness must find that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>

#define CPUS 256
#define SLOT 256
#define POOL (64ul << 20)

struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

static void *heads[CPUS];
static char *pool;
static unsigned long pool_used;

static struct rseq *own_rseq(void)
{
	return (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

#if defined(__x86_64__)

#ifdef TOY_MUTANT
#define ENTER_STORE "nop\n\t"
#else
#define ENTER_STORE "movq %%rax, 8(%[rseq])\n\t"
#endif

#define ENTER								\
	".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"			\
	"3: .long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n"	\
	"5:\n\tleaq 3b(%%rip), %%rax\n\t" ENTER_STORE			\
	"1:\n\tmovl 4(%[rseq]), %%eax\n\t"				\
	"leaq (%[heads], %%rax, 8), %%rdx\n\t"

#define LEAVE								\
	"2:\n\tjmp 6f\n\t"						\
	".byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"			\
	"4:\n\tjmp 5b\n"						\
	"6:\n\t"

/* One sequence each, whatever the compiler would inline. */
static __attribute__((__noinline__)) void *pop(void)
{
	void *object;

	__asm__ volatile(ENTER
		"movq (%%rdx), %[object]\n\t"
		"testq %[object], %[object]\n\t"
		"jz 6f\n\t"
		"movq (%[object]), %%rax\n\t"
		"movq %%rax, (%%rdx)\n"
		LEAVE
		: [object] "=&r"(object)
		: [rseq] "r"(own_rseq()), [heads] "r"(heads)
		: "rax", "rdx", "memory", "cc");
	return object;
}

static __attribute__((__noinline__)) void push(void *object)
{
	__asm__ volatile(ENTER
		"movq (%%rdx), %%rax\n\t"
		"movq %%rax, (%[object])\n\t"
		"movq %[object], (%%rdx)\n"
		LEAVE
		:: [object] "r"(object), [rseq] "r"(own_rseq()),
		   [heads] "r"(heads)
		: "rax", "rdx", "memory", "cc");
}

#elif defined(__aarch64__)

#ifdef TOY_MUTANT
#define ENTER_STORE "nop\n\t"
#else
#define ENTER_STORE "str x9, [%[rseq], #8]\n\t"
#endif

#define ENTER								\
	".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"			\
	"3: .long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n"	\
	"5:\n\tadrp x9, 3b\n\tadd x9, x9, :lo12:3b\n\t" ENTER_STORE	\
	"1:\n\tldr w9, [%[rseq], #4]\n\t"				\
	"add x10, %[heads], x9, lsl #3\n\t"

#define LEAVE								\
	"2:\n\tb 6f\n\t"						\
	".inst 0xd428bc00\n"						\
	"4:\n\tb 5b\n"							\
	"6:\n\t"

static __attribute__((__noinline__)) void *pop(void)
{
	void *object;

	__asm__ volatile(ENTER
		"ldr %[object], [x10]\n\t"
		"cbz %[object], 6f\n\t"
		"ldr x9, [%[object]]\n\t"
		"str x9, [x10]\n"
		LEAVE
		: [object] "=&r"(object)
		: [rseq] "r"(own_rseq()), [heads] "r"(heads)
		: "x9", "x10", "memory", "cc");
	return object;
}

static __attribute__((__noinline__)) void push(void *object)
{
	__asm__ volatile(ENTER
		"ldr x9, [x10]\n\t"
		"str x9, [%[object]]\n\t"
		"str %[object], [x10]\n"
		LEAVE
		:: [object] "r"(object), [rseq] "r"(own_rseq()),
		   [heads] "r"(heads)
		: "x9", "x10", "memory", "cc");
}

#endif

/* 16 bytes before a large object: where its mapping starts and how long. */
struct large {
	char *map;
	size_t bytes;
};

static void *large_alloc(size_t align, size_t size)
{
	size_t bytes = size + align + sizeof(struct large);
	char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t start = (uintptr_t)map + sizeof(struct large);

	if (map == MAP_FAILED)
		return NULL;
	start = (start + align - 1) / align * align;
	((struct large *)start)[-1] = (struct large){ map, bytes };
	return (void *)start;
}

static void *pool_alloc(void)
{
	unsigned long at;

	if (!pool)
		pool = mmap(NULL, POOL, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	at = __atomic_fetch_add(&pool_used, SLOT, __ATOMIC_RELAXED);
	return at + SLOT <= POOL ? pool + at : NULL;
}

void *memalign(size_t align, size_t size)
{
	void *object;

	if (size > SLOT || align > 16)
		return large_alloc(align < 16 ? 16 : align, size);
	object = pop();
	return object ? object : pool_alloc();
}

void *malloc(size_t size)
{
	return memalign(16, size);
}

static int in_pool(void *object)
{
	return pool && (char *)object >= pool && (char *)object < pool + POOL;
}

void free(void *object)
{
	int saved = errno;
	struct large *large = object;

	if (object && in_pool(object))
		push(object);
	else if (object)
		munmap(large[-1].map, large[-1].bytes);
	errno = saved;
}

void *calloc(size_t n, size_t size)
{
	void *object = malloc(n * size);

	return object ? memset(object, 0, n * size) : NULL;
}

void *realloc(void *object, size_t size)
{
	struct large *large = object;
	void *other = malloc(size);
	size_t old = SLOT;

	if (!object || !other)
		return other;
	if (!in_pool(object))
		old = large[-1].map + large[-1].bytes - (char *)object;
	memcpy(other, object, old < size ? old : size);
	free(object);
	return other;
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **object, size_t align, size_t size)
{
	*object = memalign(align, size);
	return *object ? 0 : ENOMEM;
}

void *reallocarray(void *object, size_t n, size_t size)
{
	return realloc(object, n * size);
}

size_t malloc_usable_size(void *object)
{
	return object ? SLOT : 0;
}

int malloc_trim(size_t pad)
{
	(void)pad;
	return 0;
}

/* What was never on a list, as a stand-in for what is in use. */
struct mallinfo2 mallinfo2(void)
{
	return (struct mallinfo2){ .uordblks = 0 };
}
