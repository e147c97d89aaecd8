/* SPDX-License-Identifier: MIT */
/*
 * A program that is not relocated, with a crime of its own, and those of plugins that are opened
 * one after the other, mostly at the same place.
 *
 * usage: plugs PLUGIN...
 */
#include <dlfcn.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	char *p = malloc(100);

	p[100] = 1;
	free(p);
	for (int i = 1; i < argc; i++) {
		void *plugin = dlopen(argv[i], RTLD_NOW);
		void (*crime)(void) = plugin ? (void (*)(void))dlsym(plugin, "overrun") : NULL;

		if (!crime)
			return 1;
		crime();
		dlclose(plugin);
	}
	return 0;
}
