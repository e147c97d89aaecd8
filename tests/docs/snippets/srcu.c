/* SPDX-License-Identifier: MIT */
#include <slub/srcu.h>

#include "snippet.h"

static struct slub_srcu plugins = SLUB_SRCU_INIT;

int main(void)
{
	int section = slub_srcu_read_lock(&plugins);
	/* ... call the plugin; it may sleep ... */

	slub_srcu_read_unlock(&plugins, section);

	/* Wait until every call that could still see what was taken out is over. */
	slub_srcu_synchronize(&plugins);

	/* The same without waiting: ask now and then. */
	uint64_t cookie = slub_srcu_start_poll(&plugins);

	while (!slub_srcu_poll(&plugins, cookie))
		;		/* do something else */
	slub_srcu_destroy(&plugins);

	/* A domain that is made at run time. */
	struct slub_srcu *own = malloc(sizeof(*own));

	expect(own && slub_srcu_create(own) == 0);
	slub_srcu_destroy(own);
	free(own);
	return 0;
}
