/* SPDX-License-Identifier: MIT */
/*
 * Promise: a program sees what a callback did in the middle of its malloc(), whatever the compiler
 * takes for granted of malloc(), if it shares the data as slub/shrinker.h says: under a lock, as an
 * atomic, or as a volatile variable; and as any variable where it allocates by slub_*() only.
 *
 * Built as programs are, in C and in C++, by users_test.py.  The data are static and their
 * addresses go nowhere: that is where compilers are boldest.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
#include <memory>
#include <new>
#include <string>
#include <vector>
#endif
#include <malloc.h>

#include <slub/slub.h>

#define BIG ((size_t)20 << 20)		/* two of these are more than the limit */
#define LIMIT "32M"

static int nr_failures;
static char text[BIG];

/* A block has a user, so that no compiler leaves out its allocation. */
static void *volatile used;

static void check(int is_so, const char *kind, const char *how, const char *what)
{
	if (is_so)
		return;
	printf("%s, %s: %s\n", kind, how, what);
	nr_failures++;
}

/* What a kind of data needs: KIND_get(), KIND_set(), and KIND_try() for the callback. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *locked;

static char *locked_get(void)
{
	char *block;

	pthread_mutex_lock(&lock);
	block = locked;
	pthread_mutex_unlock(&lock);
	return block;
}

static void locked_set(char *block)
{
	pthread_mutex_lock(&lock);
	locked = block;
	pthread_mutex_unlock(&lock);
}

static char *locked_take(void)
{
	char *block = NULL;

	if (pthread_mutex_trylock(&lock) == 0) {
		block = locked;
		locked = NULL;
		pthread_mutex_unlock(&lock);
	}
	return block;
}

static char *atomic_one;

static char *atomic_get(void)
{
	return __atomic_load_n(&atomic_one, __ATOMIC_ACQUIRE);
}

static void atomic_set(char *block)
{
	__atomic_store_n(&atomic_one, block, __ATOMIC_RELEASE);
}

static char *atomic_take(void)
{
	return __atomic_exchange_n(&atomic_one, (char *)NULL, __ATOMIC_ACQ_REL);
}

static char *volatile volatile_one;

static char *volatile_get(void)
{
	return volatile_one;
}

static void volatile_set(char *block)
{
	volatile_one = block;
}

static char *volatile_take(void)
{
	char *block = volatile_one;

	volatile_one = NULL;
	return block;
}

static char *plain;

static char *plain_get(void)
{
	return plain;
}

static void plain_set(char *block)
{
	plain = block;
}

static char *plain_take(void)
{
	char *block = plain;

	plain = NULL;
	return block;
}

/* A shrinker and a handler that free the block; how often they did is volatile for all kinds. */
static volatile int nr_freed;

#define CALLBACKS(kind)								\
	static size_t kind##_count(struct slub_shrinker *s,			\
				   struct slub_shrink_control *c) SLUB_NOEXCEPT	\
	{									\
		(void)s, (void)c;						\
		return kind##_get() ? 1 : 0;					\
	}									\
	static size_t kind##_scan(struct slub_shrinker *s,			\
				  struct slub_shrink_control *c) SLUB_NOEXCEPT	\
	{									\
		char *block = kind##_take();					\
										\
		(void)s, (void)c;						\
		free(block);							\
		nr_freed = nr_freed + (block != NULL);				\
		return block ? 1 : SLUB_SHRINK_STOP;				\
	}									\
	static bool kind##_handler(struct slub_group *g, size_t bytes,		\
				   void *arg) SLUB_NOEXCEPT			\
	{									\
		char *block = kind##_take();					\
										\
		(void)g, (void)bytes, (void)arg;				\
		free(block);							\
		nr_freed = nr_freed + (block != NULL);				\
		return block != NULL;						\
	}									\
	static struct slub_shrinker kind##_shrinker =				\
		SLUB_SHRINKER_INIT(#kind, kind##_count, kind##_scan)

CALLBACKS(locked);
CALLBACKS(atomic);
CALLBACKS(volatile);
CALLBACKS(plain);

/*
 * One way to allocate, with one kind of data.  No function is called between the two looks that a
 * compiler could take for one that changes the data.
 */
#define TRY(kind, how, allocate, release)					\
	do {									\
		char *before, *after;						\
		int nr;								\
										\
		nr_freed = 0;							\
		kind##_set((char *)malloc(BIG));				\
		before = kind##_get();						\
		used = allocate;						\
		after = kind##_get();						\
		nr = nr_freed;							\
		kind##_set(NULL);						\
		check(before != NULL, #kind, how, "no block to begin with");	\
		check(used != NULL, #kind, how, "the callback made no room");	\
		check(nr == 1, #kind, how, "the callback did not run");		\
		check(nr == 0 || !after, #kind, how, "the program did not see what it did"); \
		if (nr == 0)							\
			free(before);						\
		release;							\
		malloc_trim(0);							\
	} while (0)

static void *aligned(void)
{
	void *block;

	return posix_memalign(&block, 4096, BIG) ? NULL : block;
}

#define OF_C(kind)								\
	do {									\
		TRY(kind, "malloc", malloc(BIG), free(used));			\
		TRY(kind, "calloc", calloc(2, BIG / 2), free(used));		\
		TRY(kind, "realloc", realloc(malloc(100), BIG), free(used));	\
		TRY(kind, "aligned_alloc", aligned_alloc(64, BIG), free(used));	\
		TRY(kind, "posix_memalign", aligned(), free(used));		\
		TRY(kind, "memalign", memalign(64, BIG), free(used));		\
		TRY(kind, "reallocarray", reallocarray(NULL, 2, BIG / 2), free(used)); \
		TRY(kind, "strdup", strdup(text), free(used));			\
	} while (0)

#define OF_SLUB(kind)								\
	do {									\
		TRY(kind, "slub_malloc", slub_malloc(BIG), slub_free(used));	\
		TRY(kind, "slub_calloc", slub_calloc(2, BIG / 2), slub_free(used)); \
		TRY(kind, "slub_realloc", slub_realloc(slub_malloc(100), BIG),	\
		    slub_free(used));						\
		TRY(kind, "slub_aligned_alloc", slub_aligned_alloc(64, BIG),	\
		    slub_free(used));						\
	} while (0)

#ifdef __cplusplus
#define OF_CXX(kind)								\
	do {									\
		TRY(kind, "new", new char[BIG], delete[] static_cast<char *>(used)); \
		TRY(kind, "new (nothrow)", new (std::nothrow) char[BIG],	\
		    delete[] static_cast<char *>(used));			\
		TRY(kind, "operator new", ::operator new(BIG), ::operator delete(used)); \
		TRY(kind, "vector", new std::vector<char>(BIG),			\
		    delete static_cast<std::vector<char> *>(used));		\
		TRY(kind, "string", new std::string(BIG, 'x'),			\
		    delete static_cast<std::string *>(used));			\
		TRY(kind, "make_unique", std::make_unique<char[]>(BIG).release(), \
		    delete[] static_cast<char *>(used));			\
	} while (0)
#else
#define OF_CXX(kind) ((void)0)
#endif

#define ALL(kind)		\
	do {			\
		OF_C(kind);	\
		OF_SLUB(kind);	\
		OF_CXX(kind);	\
	} while (0)

/* The data are the shrinker's, or the handler's, for the time of @work. */
#define WITH_SHRINKER(kind, work)						\
	do {									\
		check(slub_shrinker_create(&kind##_shrinker) == 0, #kind, "shrinker", "create"); \
		work(kind);							\
		check(slub_shrinker_destroy(&kind##_shrinker) == 0, #kind, "shrinker", "destroy"); \
	} while (0)

#define WITH_HANDLER(kind, work)						\
	do {									\
		check(slub_group_handler_set(slub_group_root(), kind##_handler, NULL) == 0, \
		      #kind, "handler", "set");					\
		work(kind);							\
	} while (0)

/*
 * The same without a lock, an atomic or volatile, for a look at what compilers do: each failure is
 * one that slub/shrinker.h warns of.
 */
#ifdef SHOW_THE_TRAP
#define OF_PLAIN ALL
#else
#define OF_PLAIN OF_SLUB
#endif

int main(void)
{
	memset(text, 'x', BIG - 1);
	check(slub_option_set("limit", LIMIT) == 0, "all", "limit", "not set");

	WITH_SHRINKER(locked, ALL);
	WITH_SHRINKER(atomic, ALL);
	WITH_SHRINKER(volatile, ALL);
	WITH_SHRINKER(plain, OF_PLAIN);

	WITH_HANDLER(locked, ALL);
	WITH_HANDLER(atomic, ALL);
	WITH_HANDLER(volatile, ALL);
	WITH_HANDLER(plain, OF_PLAIN);
	return nr_failures != 0;
}
