/* SPDX-License-Identifier: MIT */
/*
 * late PLUGIN: a program without threads, whose plugin (-DPLUGIN) brings the library for them, as
 * glibc before 2.34 lets it.  Each thread is then registered for rseq where the first one is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOME 3000

/* The library's, of each thread (slub/percpu.h). */
struct entrance {
	void *base;
	unsigned long rseq;
};

#ifdef PLUGIN
#include <pthread.h>

#define ROUNDS 20
#define AT_ONCE 8

extern __thread struct entrance slub_percpu_self
	__attribute__((tls_model("initial-exec")));

static void *work(void *is_bad)
{
	static __thread char *kept[64];

	for (unsigned int i = 0; i < SOME; i++) {
		char **place = &kept[i % 64];

		if (*place && (*place)[0] != (char)(i - 64))
			*(int *)is_bad = 1;
		free(*place);
		*place = malloc(16 + i % 500);
		(*place)[0] = (char)i;
	}
	for (unsigned int i = 0; i < 64; i++)
		free(kept[i]);
	if (!slub_percpu_self.rseq)
		*(int *)is_bad |= 2;
	return NULL;
}

int run(void)
{
	int is_registered = slub_percpu_self.rseq != 0;
	int is_bad[AT_ONCE] = { 0 }, bad = 0;
	pthread_t threads[AT_ONCE];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < AT_ONCE; i++)
			if (pthread_create(&threads[i], NULL, work, &is_bad[i]))
				return 4;
		for (int i = 0; i < AT_ONCE; i++) {
			pthread_join(threads[i], NULL);
			bad |= is_bad[i];
		}
	}
	return bad & (is_registered ? 3 : 1);
}

#else
#include <dlfcn.h>

static int has_loaded(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, name) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	void *plugin;
	int (*run)(void), failed;

	for (unsigned int i = 0; i < SOME; i++)
		free(malloc(16 + i % 500));
	if (argc < 2 || has_loaded("/libpthread")) {
		puts("the library for threads is there from the start");
		return 1;
	}
	plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!plugin) {
		puts(dlerror());
		return 1;
	}
	*(void **)&run = dlsym(plugin, "run");
	failed = run();
	printf("%s: %d\n", has_loaded("/libpthread") ? "threads came" : "no threads", failed);
	return failed;
}
#endif
