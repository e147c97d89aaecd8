/* SPDX-License-Identifier: MIT */
#include <slub/rcu.h>

#include "snippet.h"

struct config {
	int timeout;
};

static struct config *current;

static int timeout(void)
{
	int section = slub_read_lock();			/* waits for nobody */
	struct config *c = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
	int value = c->timeout;

	slub_read_unlock(section);
	return value;
}

static void replace(int value)
{
	struct config *c = malloc(sizeof(*c)), *old;

	expect(c);
	c->timeout = value;
	old = __atomic_exchange_n(&current, c, __ATOMIC_ACQ_REL);
	slub_free_deferred(old);			/* freed when all readers left */
}

int main(void)
{
	replace(30);
	replace(60);
	expect(timeout() == 60);
	expect(slub_deferred_barrier() == 0);		/* all of it is freed now */
	expect(slub_deferred_pending() == 0);
	return 0;
}
