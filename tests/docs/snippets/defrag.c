/* SPDX-License-Identifier: MIT */
#include <slub/defrag.h>

#include "snippet.h"

/* A session is free, in use, or just being moved; the table says where it is. */
struct session {
	int state;
	unsigned int number;
	char data[232];
};

enum { FREE, USED, MOVING };

static struct session *table[20000];

/* Runs once per place, when its memory is new: free objects say so. */
static void construct(void *object)
{
	((struct session *)object)->state = FREE;
}

static void isolate(struct slub_cache *cache, void **objects, size_t nr,
		    void *arg)
{
	(void)cache, (void)arg;
	/* A program with threads locks its table here ... */
	for (size_t i = 0; i < nr; i++) {
		struct session *s = objects[i];

		if (s->state == USED)
			s->state = MOVING;	/* nobody may free it now */
		else
			objects[i] = NULL;
	}
}

static int migrate(struct slub_cache *cache, void *from, void *to, void *arg)
{
	struct session *old = from, *new = to;

	(void)cache, (void)arg;
	/* ... and here. */
	*new = *old;
	table[new->number] = new;
	new->state = USED;
	old->state = FREE;
	return SLUB_MIGRATED;
}

static void fill(struct slub_cache *sessions)
{
	for (unsigned int i = 0; i < 20000; i++) {
		table[i] = slub_cache_alloc(sessions);
		expect(table[i]);
		table[i]->state = USED;
		table[i]->number = i;
	}
	for (unsigned int i = 0; i < 20000; i++) {
		if (i % 10) {
			table[i]->state = FREE;
			slub_cache_free(sessions, table[i]);
		}
	}
}

static void move_strings(void)
{
	char *names[1000];

	for (size_t i = 0; i < 1000; i++)
		names[i] = malloc(200);
	for (size_t i = 0; i < 1000; i++) {
		if (i % 10)
			free(names[i]);
	}
	for (size_t i = 0; i < 1000; i += 10) {
		char *moved = NULL;

		if (slub_object_is_sparse(names[i]))
			moved = slub_object_move(names[i]);
		if (moved)
			names[i] = moved;	/* the only pointer to it */
	}
	for (size_t i = 0; i < 1000; i += 10)
		free(names[i]);
}

int main(void)
{
	struct slub_cache *sessions = slub_cache_create(
		"sessions", sizeof(struct session), 0, 0, construct);

	expect(sessions);
	expect(slub_cache_setup_mobility(sessions, isolate, migrate, NULL) == 0);
	fill(sessions);
	/* One session in ten is left, on as many slabs as before. */
	expect(slub_cache_defrag(sessions, 100) > 0);
	for (unsigned int i = 0; i < 20000; i += 10) {
		expect(table[i]->number == i);
		slub_cache_free(sessions, table[i]);
	}
	expect(slub_cache_destroy(sessions) == 0);
	move_strings();
	return 0;
}
