/* SPDX-License-Identifier: MIT */
/* A library that allocates while it is loaded and unloaded, and hands blocks out and in. */
#include <stdlib.h>
#include <string.h>

static char *kept;

__attribute__((constructor)) static void on_load(void)
{
	free(malloc(100));
	kept = malloc(5000);
	memset(kept, 'k', 5000);
}

__attribute__((destructor)) static void on_unload(void)
{
	kept = realloc(kept, 50000);
	if (!kept || kept[4999] != 'k')
		abort();
	free(kept);
	free(calloc(3, 1000));
}

void *plugin_make(size_t n);
void plugin_release(void *block);
void *plugin_malloc(void);

void *plugin_make(size_t n)
{
	return memset(malloc(n), 'p', n);
}

void plugin_release(void *block)
{
	free(block);
}

/* Which malloc it was given. */
void *plugin_malloc(void)
{
	return (void *)malloc;
}
