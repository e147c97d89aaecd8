/* SPDX-License-Identifier: MIT */
/* The kernel's names of RCU and SRCU; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_RCU_H
#define SLUB_INCLUDE_KERNEL_RCU_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};

#define kfree_rcu(p, ...) slub_free_deferred(p)
#define kvfree_rcu(p, ...) slub_free_deferred(p)
#define kfree_rcu_mightsleep(p) slub_free_deferred(p)
#define kvfree_rcu_mightsleep(p) slub_free_deferred(p)

static inline void kvfree_rcu_barrier(void)
{
	slub_deferred_barrier();
}

static inline void rcu_barrier(void)
{
	slub_deferred_barrier();
}

static inline void synchronize_rcu(void)
{
	slub_srcu_synchronize(&slub_rcu_domain);
}

/*
 * rcu_read_lock() has no index to keep, so the thread keeps that of its outermost
 * section.  Not from a signal handler.
 */
struct slub_kernel_reader {
	int index;
	unsigned int depth;
};

extern __thread struct slub_kernel_reader slub_kernel_reader;
/* One for the program, however many of its files include this. */
__attribute__((__weak__)) __thread struct slub_kernel_reader
	slub_kernel_reader = { 0, 0 };

static inline void rcu_read_lock(void)
{
	if (slub_kernel_reader.depth++ == 0)
		slub_kernel_reader.index = slub_read_lock();
}

static inline void rcu_read_unlock(void)
{
	if (--slub_kernel_reader.depth == 0)
		slub_read_unlock(slub_kernel_reader.index);
}

static inline int rcu_read_lock_held(void)
{
	return slub_kernel_reader.depth > 0;
}

#define rcu_dereference(p)						\
	__atomic_load_n(&(p), __ATOMIC_CONSUME)
#define rcu_dereference_protected(p, condition) (p)
#define rcu_access_pointer(p) __atomic_load_n(&(p), __ATOMIC_RELAXED)
#define rcu_assign_pointer(p, value)					\
	__atomic_store_n(&(p), (value), __ATOMIC_RELEASE)
#define RCU_INIT_POINTER(p, value)					\
	__atomic_store_n(&(p), (value), __ATOMIC_RELAXED)

#define srcu_struct slub_srcu
#define DEFINE_SRCU(name) struct slub_srcu name = SLUB_SRCU_INIT
#define DEFINE_STATIC_SRCU(name) static struct slub_srcu name = SLUB_SRCU_INIT
#define init_srcu_struct(domain) slub_srcu_create(domain)
#define cleanup_srcu_struct(domain) slub_srcu_destroy(domain)
#define srcu_read_lock(domain) slub_srcu_read_lock(domain)
#define srcu_read_unlock(domain, index) slub_srcu_read_unlock(domain, index)
#define synchronize_srcu(domain) slub_srcu_synchronize(domain)
#define synchronize_srcu_expedited(domain) slub_srcu_synchronize(domain)
#define start_poll_synchronize_srcu(domain) slub_srcu_start_poll(domain)
#define poll_state_synchronize_srcu(domain, cookie)			\
	slub_srcu_poll(domain, cookie)
#define srcu_dereference(p, domain) rcu_dereference(p)

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
