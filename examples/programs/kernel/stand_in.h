/* SPDX-License-Identifier: MIT */
/*
 * What stands for the headers of the kernel, in the files that steps names: memory is
 * slub/kernel.h, and all else is here, as far as those files use it.  Compiled with
 * KERNEL_ON_MALLOC, memory is malloc's.
 */
#ifndef KERNEL_STAND_IN_H
#define KERNEL_STAND_IN_H

#ifdef KERNEL_ON_MALLOC
#include "on_malloc.h"
#else
#include <slub/kernel.h>
#endif
#include <stdint.h>

#include "list.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;

/* ---- bits and numbers ---- */

#define U64_MAX (~0ull)
#define SZ_1M (1ul << 20)
#define BIT(n) (1ul << (n))
#define BIT_ULL(n) (1ull << (n))
#define GENMASK_ULL(high, low) ((~0ull << (low)) & (~0ull >> (63 - (high))))
#define min(a, b) ({							\
	__auto_type a_ = (a);						\
	__auto_type b_ = (b);						\
	a_ < b_ ? a_ : b_; })
#define max(a, b) ({							\
	__auto_type a_ = (a);						\
	__auto_type b_ = (b);						\
	a_ > b_ ? a_ : b_; })
#define round_down(x, to) ((x) & ~((__typeof__(x))(to) - 1))
#define round_up(x, to) ((((x) - 1) | ((__typeof__(x))(to) - 1)) + 1)
#define IS_ALIGNED(x, to) (((x) & ((__typeof__(x))(to) - 1)) == 0)
#define is_power_of_2(x) ((x) && !((x) & ((x) - 1)))
#define ilog2(x) (63 - __builtin_clzll(x))
#define fls(x) ((unsigned int)(x) ? 32 - __builtin_clz((unsigned int)(x)) : 0)
#define hweight64(x) ((unsigned long)__builtin_popcountll(x))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- errors ---- */

#define ERR_PTR(error) ((void *)(intptr_t)(error))
#define PTR_ERR(p) ((int)(intptr_t)(p))
#define IS_ERR(p) ((uintptr_t)(p) >= (uintptr_t)-4095)

#define BUG_ON(condition)						\
	do {								\
		if (unlikely(condition))				\
			kernel_bug(#condition, __func__);		\
	} while (0)
#define WARN_ON(condition) ({						\
	bool is_wrong_ = !!(condition);					\
	if (unlikely(is_wrong_))					\
		kernel_warn(#condition, __func__);			\
	is_wrong_; })

void kernel_bug(const char *what, const char *function) __attribute__((noreturn));
void kernel_warn(const char *what, const char *function);

/* ---- messages ---- */

#define __printf(format, first) __attribute__((__format__(__printf__, format, first)))
#ifndef pr_fmt
#define pr_fmt(format) format
#endif
#define pr_err(format, ...) kernel_print(pr_fmt(format), ##__VA_ARGS__)
#define pr_info(...) ((void)0)

void kernel_print(const char *format, ...) __printf(1, 2);
int vprintk(const char *format, va_list words);

struct drm_printer {
	FILE *to;
};

#define drm_printf(p, ...) fprintf((p)->to, __VA_ARGS__)

/* ---- time; one thread runs, and nobody signals it ---- */

#define jiffies kernel_jiffies()
#define MAX_SCHEDULE_TIMEOUT LONG_MAX
#define time_before(a, b) ((long)((a) - (b)) < 0)
#define current NULL
#define signal_pending(task) ((void)(task), false)
#define cond_resched() ((void)0)

unsigned long kernel_jiffies(void);

/* ---- chance, the same in each run ---- */

struct rnd_state {
	u64 state;
};

#define RND_STATE_OF(seed) (((seed) + 1ull) * 0x9e3779b97f4a7c15ull | 1)
#define DRM_RND_STATE(name, seed) struct rnd_state name = { RND_STATE_OF(seed) }

void prandom_seed_state(struct rnd_state *rnd, u64 of);
u32 prandom_u32_state(struct rnd_state *rnd);
u32 drm_prandom_u32_max_state(u32 end, struct rnd_state *rnd);
unsigned int *drm_random_order(unsigned int nr, struct rnd_state *rnd);
u32 get_random_u32(void);

unsigned long next_prime_number(unsigned long x);
#define for_each_prime_number_from(prime, from, last)			\
	for (prime = (from); prime <= (last); prime = next_prime_number(prime))

/* ---- modules ---- */

#define __init
#define __exit
#define EXPORT_SYMBOL(name) extern int kernel_no_symbol
#define MODULE_LICENSE(text) extern int kernel_no_symbol
#define MODULE_AUTHOR(text) extern int kernel_no_symbol
#define MODULE_DESCRIPTION(text) extern int kernel_no_symbol

/* Called before main(); it is main() that runs them. */
void kernel_module(const char *name, int (*init)(void), void (*exit)(void));

#define module_init(function)						\
	__attribute__((__constructor__)) static void module_init_(void)	\
	{								\
		kernel_module(KBUILD_MODNAME, function, NULL);		\
	}								\
	extern int kernel_no_symbol
#define module_exit(function)						\
	__attribute__((__constructor__)) static void module_exit_(void)	\
	{								\
		kernel_module(KBUILD_MODNAME, NULL, function);		\
	}								\
	extern int kernel_no_symbol

#endif
