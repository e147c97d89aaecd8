/* SPDX-License-Identifier: MIT */
#include "fire.h"
#include "limits.h"

#include <malloc.h>

size_t resident_bytes(void)
{
	char line[256];
	size_t kib = 0;
	FILE *file = fopen("/proc/self/smaps_rollup", "r");

	while (file && !kib && fgets(line, sizeof(line), file))
		sscanf(line, "Rss: %zu kB", &kib);
	if (file)
		fclose(file);
	return kib << 10;
}

void expect_given_back(const char *what, size_t before)
{
	size_t after;

	malloc_trim(0);
	after = resident_bytes();
	printf("%s: %zu KiB resident, then %zu\n", what, before >> 10, after >> 10);
	if (before && after > before + 16 * MIB)
		fire_fail("%s: %zu bytes stay resident of what was freed", what,
			  after - before);
}

void grow(size_t most)
{
	enum { BLOCKS = 12 };
	struct object block[BLOCKS] = { { 0 } };
	void *more;

	for (size_t bytes = MIB; bytes <= most / BLOCKS; bytes += bytes / 2)
		for (int i = 0; i < BLOCKS; i++) {
			struct object *one = &block[i];

			errno = 0;
			if (one->start)
				fire_unstamp(one->start, one->size, one->id, "growth");
			more = realloc(one->start, bytes);
			if (!more && errno != ENOMEM)
				fire_fail("realloc: errno %d, not ENOMEM", errno);
			if (more)
				*one = (struct object){ more, bytes, one->id + 1 };
			if (one->start)
				fire_stamp(one->start, one->size, one->id);
		}
	for (int i = 0; i < BLOCKS; i++)
		if (block[i].start) {
			fire_unstamp(block[i].start, block[i].size, block[i].id, "growth");
			free(block[i].start);
		}
}

struct link {
	struct link *next;
};

static struct link *all_of(size_t size, size_t most)
{
	struct link *list = NULL;

	for (size_t total = 0; total + size <= most; total += size) {
		struct link *one = malloc(size);

		if (!one)
			fire_fail("%zu bytes after %zu of %zu: %s", size, total, most,
				  strerror(errno));
		memset(one, 0x5a, size);
		one->next = list;
		list = one;
	}
	return list;
}

void change_sizes(size_t most)
{
	static const size_t sizes[] = {
		3 << 20, 64, 100000, 1000, 700000, 5000, 30000, 48, 1 << 20, 250, 12 << 20,
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (struct link *one = all_of(sizes[i], most), *next; one; one = next) {
			next = one->next;
			free(one);
		}
}
