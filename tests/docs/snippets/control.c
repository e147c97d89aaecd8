/* SPDX-License-Identifier: MIT */
#include <slub/control.h>

#include "snippet.h"

static int count(const char *name, const struct slub_value *value, void *arg)
{
	(void)name, (void)value;
	++*(int *)arg;
	return 0;
}

static void read_values(void)
{
	void *volatile block = malloc(60);	/* else a compiler may leave it out */
	int nr = 0;

	expect(block);
	struct slub_value used;

	expect(slub_value_read("caches.malloc-64.objects", &used) == 0);
	expect(used.kind == SLUB_VALUE_NUMBER && used.number > 0);
	expect(slub_value_for_each(count, &nr) == 0);	/* all names there are */
	expect(nr > 100);
	free(block);
}

int main(void)
{
	char value[32];

	expect(slub_option_set("retain", "8M") == 0);	/* from now on, as SLUB_RETAIN=8M */
	expect(slub_option_get("retain", value, sizeof(value)) == 0);
	expect(!strcmp(value, "8388608"));
	expect(slub_option_set("fastpath", "lock") == -EPERM);	/* counts at the start only */
	expect(slub_node_shrink(0) >= 0);	/* so many bytes */
	expect(slub_node_shrink(1000) == -EINVAL);	/* there is no such node */
	read_values();
	return 0;
}
