/* SPDX-License-Identifier: MIT */
/* What the compiler offers, under names of our own. */
#ifndef SLUB_BASE_COMPILER_H
#define SLUB_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Build switches are always defined, to 0 or a number, and tested by value. */
#ifndef SLUB_CONFIG_LAYOUT
#define SLUB_CONFIG_LAYOUT 0	/* 0 aligned64, 1 inner56, 2 lock56 */
#endif
#ifndef SLUB_CONFIG_SMP
#define SLUB_CONFIG_SMP 1
#endif
#ifndef SLUB_CONFIG_ASSERT
#define SLUB_CONFIG_ASSERT 0
#endif
#ifndef SLUB_CONFIG_CHECKS
#define SLUB_CONFIG_CHECKS 1	/* misuse is noticed: core/slab/key.h, core/slab/suspect.c */
#endif
#ifndef SLUB_CONFIG_INJECT
#define SLUB_CONFIG_INJECT 0
#endif

#ifndef SLUB_CONFIG_PORTABLE
#define SLUB_CONFIG_PORTABLE 0	/* plain C, as for a CPU that has no assembly here */
#endif

/* The CPUs that there is assembly for. */
#if defined(__x86_64__) && !SLUB_CONFIG_PORTABLE
#define SLUB_CPU_X86_64 1
#else
#define SLUB_CPU_X86_64 0
#endif
#if defined(__aarch64__) && !SLUB_CONFIG_PORTABLE
#define SLUB_CPU_AARCH64 1
#else
#define SLUB_CPU_AARCH64 0
#endif

#ifndef SLUB_CONFIG_SCALE
#define SLUB_CONFIG_SCALE 0	/* each access is counted: bench/scale */
#endif

/*
 * ThreadSanitizer cannot see assembly: such a build runs the plain C twins.  bench/scale counts by
 * the same calls of the compiler's and runs what every build runs.
 */
#if SLUB_CONFIG_SCALE
#define SLUB_CONFIG_PLAIN_C 0
#elif defined(__SANITIZE_THREAD__)
#define SLUB_CONFIG_PLAIN_C 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLUB_CONFIG_PLAIN_C 1
#endif
#endif
#ifndef SLUB_CONFIG_PLAIN_C
#define SLUB_CONFIG_PLAIN_C 0
#endif

/*
 * A function whose reads may race with a program's writes, for what it read is
 * thrown away then.  ThreadSanitizer cannot know that.
 */
#if SLUB_CONFIG_PLAIN_C
#define may_race	__attribute__((no_sanitize("thread"), __noinline__))
#else
#define may_race
#endif

/*
 * `_Atomic` marks what several threads look at, and no more: each access is one of
 * the __atomic builtins, with the order it needs (with and without the word the library's
 * instructions are the same, gcc 12).  clang does not take the builtins for such types.
 */
#ifdef __clang__
#define _Atomic
#endif

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#define SLUB_EXPORT	__attribute__((visibility("default")))
/* For variables of the fast path: addressed directly, not through the GOT. */
#define SLUB_INTERNAL	__attribute__((visibility("hidden")))
#define SLUB_HOT	__attribute__((__hot__, __aligned__(64)))
/* Code that a return address must be told by: a section that the linker marks the ends of. */
#define code_in(name) __attribute__((section("slub_text_" #name)))
#define cold		__attribute__((__cold__, __noinline__))
/*
 * What most programs run, as they start, grow, fork or end, of a file that few run more of: it lies
 * with its like and not there.  libslub.ld says what lies where, and why.
 */
#define usual	__attribute__((section(".text.startup")))
/*
 * A variable that each fork writes to, and its parent.  They lie side by side, and not by what they
 * belong to, for a page that is written costs a page fault in the child and one in the parent.
 */
#define fork_writes __attribute__((section("slub_fork"), aligned(64)))
/* The same for an array with a member for each node: behind the others, which are small. */
#define fork_writes_nodes __attribute__((section("slub_fork_nodes"), aligned(64)))
#define always_inline	inline __attribute__((always_inline))
#define align_to(n)	__attribute__((aligned(n)))
#define printf_like(a, b) __attribute__((format(printf, a, b)))

/*
 * For zeroed arrays that most processes never touch, or only at one end: they lie
 * behind everything else, so that what the start writes shares few pages.
 */
#if defined(__aarch64__)
#define ASSEMBLER_COMMENT "//"
#else
#define ASSEMBLER_COMMENT "#"
#endif
/* In a section of its own that takes no room in the file: gcc does not say so by itself. */
#define zeros_in(name)	\
	__attribute__((section(name ",\"aw\",@nobits" ASSEMBLER_COMMENT)))
#if defined(__x86_64__) && !defined(__clang__)
/* No linker script knows the name, so it is put behind .bss. */
#define rarely_touched	zeros_in(".bss_rare")
#else
#define rarely_touched	__attribute__((section(".bss.rare")))
#endif

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/* Keeps the compiler from moving memory accesses across; no instruction. */
#define compiler_barrier() __asm__ __volatile__("" ::: "memory")

/* The CPU's hint that this is a loop that waits. */
static inline void cpu_relax(void)
{
#if SLUB_CPU_X86_64
	__builtin_ia32_pause();
#elif SLUB_CPU_AARCH64
	__asm__ __volatile__("yield" ::: "memory");
#else
	compiler_barrier();
#endif
}

#endif
