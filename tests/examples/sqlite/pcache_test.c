/* SPDX-License-Identifier: MIT */
/*
 * The page cache of examples/programs/sqlite by its methods alone: against a model, with
 * another thread that runs the shrinkers all the time; then what SQLite may count on.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>
#include <slub/cache.h>
#include <slub/shrinker.h>

#include "pcache_slub.h"

#define EXPECT(condition)							\
	do {									\
		if (!(condition)) {						\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);						\
		}								\
	} while (0)

#define PAGE_BYTES 4096
#define EXTRA_BYTES 224
#define NR_KEYS 150

static sqlite3_pcache_methods2 m;

static sqlite3_pcache *make(int is_purgeable)
{
	sqlite3_pcache *c = m.xCreate(PAGE_BYTES, EXTRA_BYTES, is_purgeable);

	EXPECT(c);
	m.xCachesize(c, 100000);
	return c;
}

/* A page as SQLite keeps it: its header says whether somebody has filled it in. */
static int is_new(const sqlite3_pcache_page *page)
{
	return !*(void **)page->pExtra;
}

static void fill(sqlite3_pcache_page *page, unsigned int value)
{
	*(void **)page->pExtra = page;
	memset((char *)page->pExtra + 8, (int)value, EXTRA_BYTES - 8);
	memset(page->pBuf, (int)value, PAGE_BYTES);
}

static int is_filled(const sqlite3_pcache_page *page, unsigned int value)
{
	const unsigned char *content = page->pBuf, *extra = page->pExtra;

	for (int i = 0; i < PAGE_BYTES; i++) {
		if (content[i] != (unsigned char)value)
			return 0;
	}
	return *(void **)page->pExtra == page && extra[8] == (unsigned char)value &&
	       extra[EXTRA_BYTES - 1] == (unsigned char)value;
}

/* ---- the model ---- */

struct model {
	sqlite3_pcache *c;
	sqlite3_pcache_page *pinned[NR_KEYS];	/* NULL: idle, or gone */
	unsigned int values[NR_KEYS];
	unsigned int random, nr_found, nr_made;
};

static unsigned int any(struct model *model, unsigned int end)
{
	model->random = model->random * 1664525u + 1013904223u;
	return (model->random >> 8) % end;
}

static int nr_pinned(const struct model *model)
{
	int n = 0;

	for (int i = 0; i < NR_KEYS; i++)
		n += model->pinned[i] != NULL;
	return n;
}

static void model_fetch(struct model *model, unsigned int key, int create)
{
	sqlite3_pcache_page *page = m.xFetch(model->c, key, create), *was = model->pinned[key];

	if (was) {
		EXPECT(page == was);
		EXPECT(is_filled(page, model->values[key]));
		return;
	}
	EXPECT(page || create < 2);
	if (!page)
		return;
	if (is_new(page)) {
		EXPECT(create);
		fill(page, model->values[key] = any(model, 256));
		model->nr_made++;
	} else {
		EXPECT(is_filled(page, model->values[key]));
		model->nr_found++;
	}
	model->pinned[key] = page;
}

static void model_rekey(struct model *model, unsigned int from, unsigned int to)
{
	if (!model->pinned[from] || model->pinned[to] || from == to)
		return;
	m.xRekey(model->c, model->pinned[from], from, to);
	model->pinned[to] = model->pinned[from];
	model->values[to] = model->values[from];
	model->pinned[from] = NULL;
	EXPECT(!m.xFetch(model->c, from, 0));
	EXPECT(m.xFetch(model->c, to, 0) == model->pinned[to]);
}

static void model_truncate(struct model *model, unsigned int limit)
{
	m.xTruncate(model->c, limit);
	for (unsigned int i = limit; i < NR_KEYS; i++) {
		model->pinned[i] = NULL;
		EXPECT(!m.xFetch(model->c, i, 0));
	}
}

static void model_step(struct model *model)
{
	unsigned int key = any(model, NR_KEYS), what = any(model, 1000);

	if (what < 500) {
		model_fetch(model, key, (int)any(model, 3));
	} else if (what < 950) {
		if (!model->pinned[key])
			return;
		m.xUnpin(model->c, model->pinned[key], what < 520);
		model->pinned[key] = NULL;
	} else if (what < 980) {
		model_rekey(model, key, any(model, NR_KEYS));
	} else if (what < 990) {
		m.xCachesize(model->c, (int)any(model, NR_KEYS));
	} else if (what < 995) {
		m.xShrink(model->c);
		EXPECT(m.xPagecount(model->c) == nr_pinned(model));
	} else {
		model_truncate(model, NR_KEYS - any(model, what < 999 ? 20 : NR_KEYS));
	}
	EXPECT(m.xPagecount(model->c) >= nr_pinned(model));
}

static void *model_run(void *arg)
{
	struct model model = { .c = make(1), .random = *(unsigned int *)arg };

	for (int i = 0; i < 60000; i++)
		model_step(&model);
	EXPECT(model.nr_made > 1000);
	m.xDestroy(model.c);
	*(unsigned int *)arg = model.nr_found;
	return NULL;
}

static atomic_int stop;

static void *shrink_run(void *arg)
{
	for (int i = 0; !stop; i++)
		slub_shrink(i % 8);
	return arg;
}

static void matches_the_model(void)
{
	pthread_t threads[2], shrink;
	unsigned int seeds[2] = { 1, 2 }, alone = 3;

	model_run(&alone);	/* which has become the number of pages found */
	EXPECT(alone > 500);
	pthread_create(&shrink, NULL, shrink_run, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, model_run, &seeds[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	stop = 1;
	pthread_join(shrink, NULL);
}

/* ---- what SQLite may count on ---- */

/* Pages 1 to @nr, pinned. */
static void pin(sqlite3_pcache *c, sqlite3_pcache_page **pages, int nr)
{
	for (int i = 0; i < nr; i++) {
		pages[i] = m.xFetch(c, (unsigned int)i + 1, 2);
		EXPECT(pages[i]);
		if (is_new(pages[i]))
			fill(pages[i], (unsigned int)i);
	}
}

static void only_idle_pages_go(void)
{
	sqlite3_pcache_page *pages[200];
	sqlite3_pcache *c = make(1);

	pin(c, pages, 200);
	for (int i = 0; i < 200; i += 2)
		m.xUnpin(c, pages[i], 0);
	EXPECT(slub_shrink_all() >= 100);
	EXPECT(m.xPagecount(c) == 100);
	for (int i = 0; i < 200; i++) {
		EXPECT(m.xFetch(c, (unsigned int)i + 1, 0) == (i % 2 ? pages[i] : NULL));
		EXPECT(i % 2 == 0 || is_filled(pages[i], (unsigned int)i));
	}
	m.xDestroy(c);
}

static void a_database_in_memory_stays(void)
{
	sqlite3_pcache_page *pages[200];
	sqlite3_pcache *c = make(0);

	pin(c, pages, 200);
	slub_shrink_all();
	m.xShrink(c);
	EXPECT(m.xPagecount(c) == 200);
	m.xDestroy(c);
}

static void most_pages_dirty_and_memory_short_means_spill(void)
{
	sqlite3_pcache_page *pages[100];
	sqlite3_pcache *c = make(1);

	pin(c, pages, 100);
	EXPECT(m.xFetch(c, 101, 1));
	slub_shrink(0);
	EXPECT(!m.xFetch(c, 102, 1));
	/* One was spilled, and is the one that is used anew. */
	m.xUnpin(c, pages[3], 0);
	EXPECT(m.xFetch(c, 102, 2) == pages[3]);
	EXPECT(!m.xFetch(c, 4, 0));
	/* The transaction ends. */
	for (int i = 0; i < 100; i++) {
		if (i != 3)
			m.xUnpin(c, pages[i], 0);
	}
	EXPECT(m.xFetch(c, 103, 1));
	m.xDestroy(c);
}

static void cache_size_is_the_most(void)
{
	sqlite3_pcache *c = make(1);

	m.xCachesize(c, 50);
	for (unsigned int i = 1; i <= 500; i++) {
		sqlite3_pcache_page *page = m.xFetch(c, i, 2);

		EXPECT(page && is_new(page));
		m.xUnpin(c, page, 0);
		EXPECT(m.xPagecount(c) <= 50);
	}
	EXPECT(m.xFetch(c, 500, 0));
	EXPECT(!m.xFetch(c, 1, 0));
	m.xDestroy(c);
}

/* A shrinker of the program that uses SQLite, while the cache is asked too. */
static sqlite3_pcache *other;

static size_t count_some(struct slub_shrinker *s, struct slub_shrink_control *control)
{
	(void)s, (void)control;
	return 100;
}

static size_t scan_with_pages(struct slub_shrinker *s, struct slub_shrink_control *control)
{
	sqlite3_pcache_page *page = m.xFetch(other, 7, 2);

	(void)s, (void)control;
	EXPECT(page);
	m.xUnpin(other, page, 0);
	return 0;	/* it never frees anything */
}

static void a_callback_may_use_pages(void)
{
	struct slub_shrinker s = SLUB_SHRINKER_INIT("program", count_some, scan_with_pages);

	other = make(1);
	EXPECT(!slub_shrinker_create(&s));
	slub_shrink_all();
	EXPECT(!slub_shrinker_destroy(&s));
	EXPECT(s.scans > 0);
	m.xDestroy(other);
}

static void a_name_that_is_taken(void)
{
	struct slub_cache *taken;
	sqlite3_pcache *c;
	char name[50];

	for (size_t bytes = 512; bytes < 512 + 400; bytes += 8) {
		snprintf(name, sizeof(name), "sqlite-page-%zu.1", bytes);
		taken = slub_cache_create(name, 64, 0, 0, NULL);
		EXPECT(taken || slub_cache_find(name));
	}
	c = m.xCreate(512, EXTRA_BYTES, 1);
	EXPECT(c && m.xFetch(c, 1, 2));
	m.xDestroy(c);
}

int main(void)
{
	EXPECT(sqlite3_pcache_slub() == SQLITE_OK);
	EXPECT(sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &m) == SQLITE_OK);
	EXPECT(sqlite3_initialize() == SQLITE_OK);
	only_idle_pages_go();
	a_database_in_memory_stays();
	most_pages_dirty_and_memory_short_means_spill();
	cache_size_is_the_most();
	a_callback_may_use_pages();
	a_name_that_is_taken();
	matches_the_model();
	EXPECT(sqlite3_shutdown() == SQLITE_OK);
	/* Started again, it works again. */
	EXPECT(sqlite3_initialize() == SQLITE_OK);
	only_idle_pages_go();
	EXPECT(sqlite3_shutdown() == SQLITE_OK);
	EXPECT(sqlite3_initialize() == SQLITE_OK);
	EXPECT(sqlite3_pcache_slub() == SQLITE_MISUSE);
	return 0;
}
