/* SPDX-License-Identifier: MIT */
/*
 * The page cache of SQLite (sqlite3_pcache_methods2) on typed caches, with a shrinker.
 *
 * What SQLite keeps a page in is one object of a typed cache:
 *
 *     | content of the page | struct page | SQLite's header of it |
 *
 * The content comes first, for SQLite may read up to 16 bytes behind it in a corrupt file.
 *
 * A page is pinned while SQLite uses it or it is dirty; all others are idle.  Idle pages form
 * a ring in the order of their last use, and each of them may go at any time.  There are three
 * reasons: the cache is at its cache_size, SQLite says so, or memory is short.  In the last
 * case the library calls the shrinker, which each purgeable cache has.
 *
 * LOCKING.  SQLite itself lets one thread at a time use a cache.  The lock of a cache is for
 * the shrinker, which runs in any thread, in the middle of its malloc():
 *
 *   PCACHE-1  Nobody allocates with a lock held, so a cache that wants a page is among those
 *             that give one up for it.
 *   PCACHE-2  The shrinker tries the lock, and passes a cache by whose lock is taken.
 *   PCACHE-3  The shrinker calls nothing of SQLite: sqlite3_free() takes a mutex that the
 *             interrupted thread may hold.
 *   PCACHE-4  The shrinker only removes idle pages.  So a page that was absent is still so
 *             after the lock was given up for an allocation.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>
#include <slub/cache.h>
#include <slub/shrinker.h>

#include "pcache_slub.h"

/* What stands behind the content of a page. */
struct page {
	sqlite3_pcache_page base;	/* first: what SQLite gets is what it gives back */
	struct page *next;		/* with the same hash */
	struct page *newer, *older;	/* in the ring of idle pages; NULL: pinned */
	unsigned int key;
};

struct cache {
	struct slub_cache *objects;	/* const: where pages come from */
	size_t content_bytes;		/* const */
	bool is_purgeable;		/* const */
	bool has_shrinker;		/* const */
	struct slub_shrinker shrinker;

	pthread_mutex_t lock;
	/* under the lock */
	struct page idle;		/* of the ring: the newest is idle.older */
	struct page **table;
	unsigned int nr_slots;		/* of the table; a power of two, or 0 */
	unsigned int nr_pages, nr_idle, nr_pages_max;
	unsigned int key_max;		/* no page has a higher one */
	bool is_short;			/* memory was, and most pages are pinned */
	unsigned int nr_left;		/* pages when memory was short last; 0: it is not now */
	unsigned int nr_misses;		/* since then */
};

/* ---- the typed caches, one for each size of object ---- */

#define NR_KINDS 32	/* page sizes, and what a build of SQLite adds to a page */

static struct kind {
	size_t bytes;
	struct slub_cache *objects;
} kinds[NR_KINDS];
static pthread_mutex_t kinds_lock = PTHREAD_MUTEX_INITIALIZER;

static struct slub_cache *kind_make(size_t bytes)
{
	char name[SLUB_CACHE_NAME_MAX + 1];
	struct slub_cache *objects = NULL;

	/* Another copy of SQLite in this process may have taken a name. */
	for (int copy = 1; !objects && copy <= 9; copy++) {
		snprintf(name, sizeof(name), "sqlite-page-%zu.%d", bytes, copy);
		objects = slub_cache_create(name, bytes, 0, SLUB_CACHE_RECLAIM_ACCOUNT, NULL);
	}
	return objects;
}

static struct slub_cache *kind_of(size_t bytes)
{
	struct slub_cache *objects = NULL;

	pthread_mutex_lock(&kinds_lock);
	for (int i = 0; i < NR_KINDS && !objects; i++) {
		if (!kinds[i].objects) {
			kinds[i].objects = kind_make(bytes);
			kinds[i].bytes = bytes;
		}
		if (kinds[i].bytes == bytes) {
			objects = kinds[i].objects;
			break;
		}
	}
	pthread_mutex_unlock(&kinds_lock);
	return objects;
}

/* ---- pages ---- */

static struct page *page_new(struct cache *c)
{
	char *content = slub_cache_alloc(c->objects);
	struct page *page;

	if (!content)
		return NULL;
	page = (struct page *)(content + c->content_bytes);
	page->base.pBuf = content;
	page->base.pExtra = page + 1;
	return page;
}

static void page_free(struct cache *c, struct page *page)
{
	slub_cache_free(c->objects, page->base.pBuf);
}

static struct page **slot_of(struct cache *c, unsigned int key)
{
	return &c->table[key & (c->nr_slots - 1)];
}

static struct page *page_find(struct cache *c, unsigned int key)
{
	struct page *page = c->nr_slots ? *slot_of(c, key) : NULL;

	while (page && page->key != key)
		page = page->next;
	return page;
}

static void page_insert(struct cache *c, struct page *page, unsigned int key)
{
	struct page **slot = slot_of(c, key);

	page->key = key;
	page->next = *slot;
	*slot = page;
	if (key > c->key_max)
		c->key_max = key;
}

static void page_remove(struct cache *c, struct page *page)
{
	struct page **place = slot_of(c, page->key);

	while (*place != page)
		place = &(*place)->next;
	*place = page->next;
}

static void page_pin(struct cache *c, struct page *page)
{
	if (!page->newer)
		return;
	page->newer->older = page->older;
	page->older->newer = page->newer;
	page->newer = NULL;
	c->nr_idle--;
}

static void page_unpin(struct cache *c, struct page *page)
{
	page->newer = &c->idle;
	page->older = c->idle.older;
	page->older->newer = page;
	c->idle.older = page;
	c->nr_idle++;
}

/* The page that was idle for longest, pinned and under no key; NULL: none is idle. */
static struct page *page_take_oldest(struct cache *c)
{
	struct page *page = c->idle.newer;

	if (page == &c->idle)
		return NULL;
	page_pin(c, page);
	page_remove(c, page);
	c->nr_pages--;
	return page;
}

/* Frees idle pages until there are so many; returns how many it freed. */
static size_t trim(struct cache *c, size_t nr_pages, size_t nr_free_max)
{
	struct page *page;
	size_t n = 0;

	while (c->nr_pages > nr_pages && n < nr_free_max && (page = page_take_oldest(c))) {
		page_free(c, page);
		n++;
	}
	return n;
}

/* ---- the shrinker ---- */

static bool most_are_pinned(const struct cache *c)
{
	return c->nr_idle < c->nr_pages - c->nr_idle;
}

static struct cache *cache_of(struct slub_shrinker *shrinker)
{
	return (struct cache *)((char *)shrinker - offsetof(struct cache, shrinker));
}

static size_t count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	struct cache *c = cache_of(shrinker);
	size_t n;

	(void)control;
	if (pthread_mutex_trylock(&c->lock))
		return 0;
	n = c->nr_idle;
	c->is_short = most_are_pinned(c);
	pthread_mutex_unlock(&c->lock);
	return n;
}

static size_t scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	struct cache *c = cache_of(shrinker);
	size_t n;

	if (pthread_mutex_trylock(&c->lock))
		return SLUB_SHRINK_STOP;
	n = trim(c, 0, control->nr_to_scan);
	c->is_short = most_are_pinned(c);
	c->nr_left = c->nr_pages;
	pthread_mutex_unlock(&c->lock);
	return n;
}

/* ---- the methods: xFetch ---- */

#define NR_SLOTS_MIN 256u
#define NR_SLOTS_MAX (1u << 30)

/* Twice the slots.  Without memory for them the chains become longer; false: there are none. */
static bool table_grow(struct cache *c)
{
	unsigned int nr_old = c->nr_slots, nr_slots = nr_old ? nr_old * 2 : NR_SLOTS_MIN;
	struct page **table, **old = c->table, *page, *next;

	table = nr_old < NR_SLOTS_MAX ? sqlite3_malloc64(nr_slots * sizeof(*table)) : NULL;
	if (!table)
		return nr_old > 0;
	memset(table, 0, nr_slots * sizeof(*table));
	pthread_mutex_lock(&c->lock);
	c->table = table;
	c->nr_slots = nr_slots;
	for (unsigned int i = 0; i < nr_old; i++) {
		for (page = old[i]; page; page = next) {
			next = page->next;
			page_insert(c, page, page->key);
		}
	}
	pthread_mutex_unlock(&c->lock);
	sqlite3_free(old);
	return true;
}

/*
 * Is a new page allowed, or has SQLite to spill a dirty one first?  It has to where nine
 * tenths of cache_size are pinned, or most pages are and memory is short.
 */
static bool may_add(struct cache *c, int create)
{
	unsigned long long nr_pinned = c->nr_pages - c->nr_idle;

	if (c->is_short && !most_are_pinned(c))
		c->is_short = false;
	return create == 2 || (create == 1 && !c->is_short &&
			       nr_pinned < c->nr_pages_max * 9ull / 10);
}

/*
 * After a shortage one miss in so many takes more memory, and the others use a page anew: to
 * give pages back and to take them again costs more than a cache that is a little smaller.
 */
#define SLOW_GROWTH 8

/* Until it has grown by an eighth and nobody has asked for pages: memory is there again. */
static bool grows_slowly(struct cache *c)
{
	if (c->nr_pages > c->nr_left + c->nr_left / 8)
		c->nr_left = 0;
	return c->nr_left && c->nr_pages >= c->nr_left && ++c->nr_misses % SLOW_GROWTH;
}

/* An idle page to be used anew, where one more would be too many. */
static struct page *page_recycle(struct cache *c)
{
	if (!c->is_purgeable)
		return NULL;
	if (c->nr_pages + 1 < c->nr_pages_max && !c->is_short && !grows_slowly(c))
		return NULL;
	return page_take_oldest(c);
}

static void page_add(struct cache *c, struct page *page, unsigned int key)
{
	page->newer = NULL;
	memset(page->base.pExtra, 0, sizeof(void *));	/* to SQLite: a new page */
	page_insert(c, page, key);
	c->nr_pages++;
}

/* The key is absent, and the lock is not held: PCACHE-1, PCACHE-4. */
static struct page *page_allocate(struct cache *c, unsigned int key, bool is_full)
{
	struct page *page = !is_full || table_grow(c) ? page_new(c) : NULL;

	if (page) {
		pthread_mutex_lock(&c->lock);
		page_add(c, page, key);
		pthread_mutex_unlock(&c->lock);
	}
	return page;
}

static sqlite3_pcache_page *cache_fetch(sqlite3_pcache *p, unsigned int key, int create)
{
	struct cache *c = (struct cache *)p;
	struct page *page;
	bool may, is_full;

	pthread_mutex_lock(&c->lock);
	page = page_find(c, key);
	if (page) {
		page_pin(c, page);
		pthread_mutex_unlock(&c->lock);
		return &page->base;
	}
	may = create && may_add(c, create);
	if (may && (page = page_recycle(c)))
		page_add(c, page, key);
	is_full = c->nr_pages >= c->nr_slots;
	pthread_mutex_unlock(&c->lock);
	if (may && !page)
		page = page_allocate(c, key, is_full);
	return page ? &page->base : NULL;
}

/* ---- the other methods ---- */

static void cache_unpin(sqlite3_pcache *p, sqlite3_pcache_page *base, int discard)
{
	struct cache *c = (struct cache *)p;
	struct page *page = (struct page *)base;

	pthread_mutex_lock(&c->lock);
	if (discard || c->nr_pages > c->nr_pages_max) {
		page_remove(c, page);
		c->nr_pages--;
	} else {
		page_unpin(c, page);
		page = NULL;
	}
	pthread_mutex_unlock(&c->lock);
	if (page)
		page_free(c, page);
}

static void cache_rekey(sqlite3_pcache *p, sqlite3_pcache_page *base, unsigned int from,
			unsigned int to)
{
	struct cache *c = (struct cache *)p;
	struct page *page = (struct page *)base, *other;

	(void)from;
	pthread_mutex_lock(&c->lock);
	other = page_find(c, to);
	if (other) {	/* not pinned, by contract */
		page_pin(c, other);
		page_remove(c, other);
		c->nr_pages--;
	}
	page_remove(c, page);
	page_insert(c, page, to);
	pthread_mutex_unlock(&c->lock);
	if (other)
		page_free(c, other);
}

/* Frees the pages of @place's chain with keys from @limit on, pinned ones too. */
static void chain_truncate(struct cache *c, struct page **place, unsigned int limit)
{
	struct page *page;

	while ((page = *place)) {
		if (page->key < limit) {
			place = &page->next;
			continue;
		}
		*place = page->next;
		page_pin(c, page);
		c->nr_pages--;
		page_free(c, page);
	}
}

static void cache_truncate(sqlite3_pcache *p, unsigned int limit)
{
	struct cache *c = (struct cache *)p;
	unsigned int nr = c->nr_slots, first = 0;

	pthread_mutex_lock(&c->lock);
	if (nr && limit <= c->key_max) {
		/* A few keys are in a few slots. */
		if (c->key_max - limit < nr) {
			nr = c->key_max - limit + 1;
			first = limit;
		}
		for (unsigned int i = 0; i < nr; i++)
			chain_truncate(c, slot_of(c, first + i), limit);
		c->key_max = limit ? limit - 1 : 0;
	}
	pthread_mutex_unlock(&c->lock);
}

static void cache_set_size(sqlite3_pcache *p, int nr_pages)
{
	struct cache *c = (struct cache *)p;

	if (!c->is_purgeable)
		return;
	pthread_mutex_lock(&c->lock);
	c->nr_pages_max = nr_pages < 0 ? 0 : (unsigned int)nr_pages;
	trim(c, c->nr_pages_max, SIZE_MAX);
	pthread_mutex_unlock(&c->lock);
}

static void cache_shrink(sqlite3_pcache *p)
{
	struct cache *c = (struct cache *)p;

	if (!c->is_purgeable)
		return;
	pthread_mutex_lock(&c->lock);
	trim(c, 0, SIZE_MAX);
	pthread_mutex_unlock(&c->lock);
}

static int cache_count(sqlite3_pcache *p)
{
	struct cache *c = (struct cache *)p;
	int n;

	pthread_mutex_lock(&c->lock);
	n = (int)c->nr_pages;
	pthread_mutex_unlock(&c->lock);
	return n;
}

static sqlite3_pcache *cache_create(int content_bytes, int extra_bytes, int is_purgeable)
{
	struct cache *c = sqlite3_malloc64(sizeof(*c));

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->content_bytes = (size_t)content_bytes;
	c->is_purgeable = is_purgeable;
	c->objects = kind_of(c->content_bytes + sizeof(struct page) + (size_t)extra_bytes);
	if (!c->objects) {
		sqlite3_free(c);
		return NULL;
	}
	pthread_mutex_init(&c->lock, NULL);
	c->idle.newer = c->idle.older = &c->idle;
	c->shrinker = (struct slub_shrinker)SLUB_SHRINKER_INIT("sqlite-pages", count, scan);
	/* One that finds no place (there are 65,535) works on, and gives up no pages. */
	c->has_shrinker = is_purgeable && !slub_shrinker_create(&c->shrinker);
	return (sqlite3_pcache *)c;
}

static void cache_destroy(sqlite3_pcache *p)
{
	struct cache *c = (struct cache *)p;
	bool is_asked = c->has_shrinker && slub_shrinker_destroy(&c->shrinker);

	cache_truncate(p, 0);
	if (is_asked)	/* a callback of the program closed a database: keep what one uses */
		return;
	pthread_mutex_destroy(&c->lock);
	sqlite3_free(c->table);
	sqlite3_free(c);
}

/* ---- the methods of all caches ---- */

static int caches_start(void *arg)
{
	(void)arg;
	return SQLITE_OK;
}

/* No cache is left.  What cannot be destroyed now serves after the next start. */
static void caches_end(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&kinds_lock);
	for (int i = 0; i < NR_KINDS; i++) {
		if (kinds[i].objects && !slub_cache_destroy(kinds[i].objects))
			kinds[i].objects = NULL;
	}
	pthread_mutex_unlock(&kinds_lock);
}

int sqlite3_pcache_slub(void)
{
	static const sqlite3_pcache_methods2 methods = {
		.iVersion = 1,
		.xInit = caches_start,
		.xShutdown = caches_end,
		.xCreate = cache_create,
		.xCachesize = cache_set_size,
		.xPagecount = cache_count,
		.xFetch = cache_fetch,
		.xUnpin = cache_unpin,
		.xRekey = cache_rekey,
		.xTruncate = cache_truncate,
		.xDestroy = cache_destroy,
		.xShrink = cache_shrink,
	};

	return sqlite3_config(SQLITE_CONFIG_PCACHE2, &methods);
}

/* For a shared object to preload: programs that use the shared library of SQLite as they are. */
#ifdef PCACHE_SLUB_PRELOAD
__attribute__((constructor)) static void install(void)
{
	if (sqlite3_pcache_slub() != SQLITE_OK)
		fputs("pcache_slub: SQLite is in use: its own page cache stays\n", stderr);
}
#endif
