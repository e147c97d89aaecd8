/* SPDX-License-Identifier: MIT */
/* Double frees, and frees of what is no block or not its start. */
#include "crime.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- the same block twice ---- */

static void free_it(void *p)
{
	free(p);
}

static void again(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	put(p, row->how);
	traffic(size, row->n);
	if (!innocent)
		put(p, row->how);
}

static void again_between(const struct row *, size_t size)
{
	char *p = get(size), *q = get(size);

	free(p);
	free(q);
	if (!innocent)
		free(p);
}

/* By then it has left the lists that are near. */
static void again_after_many(const struct row *row, size_t size)
{
	char *blocks[1024];
	char *p = get(size);

	for (size_t i = 0; i < row->n; i++)
		blocks[i] = get(size);
	free(p);
	for (size_t i = 0; i < row->n; i++)
		free(blocks[i]);
	if (!innocent)
		free(p);
}

static void again_in_thread(const struct row *row, size_t size)
{
	char *p = get(size);

	free(p);
	traffic(size, row->n);
	if (!innocent)
		in_thread(free_it, p);
}

static void again_by_realloc(const struct row *, size_t size)
{
	char *p = get(size);

	free(p);
	if (!innocent)
		hide(realloc(p, size * 2));
}

static void again_after_move(const struct row *, size_t size)
{
	char *p = get(size);
	char *wall = get(size);
	char *q = hide(realloc(p, size * 20 + 5000));

	free(innocent || p == q ? NULL : p);
	free(q);
	free(wall);
}

static void delete_then_free(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	put(p, row->how);
	if (!innocent)
		free(p);
}

/* ---- what is no block ---- */

static void interior(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	put(p + (innocent ? 0 : row->at), row->how);
}

static void past_the_end(const struct row *, size_t size)
{
	char *p = get(size);

	free(innocent ? p : p + size);
}

static void realloc_interior(const struct row *row, size_t size)
{
	char *p = get(size);

	p = hide(realloc(p + (innocent ? 0 : row->at), size * 2));
	free(p);
}

static char in_data[64] __attribute__((aligned(64))) = "data";
static thread_local char of_thread[64] __attribute__((aligned(64)));

static void static_free(const struct row *row, size_t)
{
	put(innocent ? NULL : hide(in_data), row->how);
}

static void stack_free(const struct row *row, size_t)
{
	char buf[64] __attribute__((aligned(64)));

	memset(buf, 0, sizeof(buf));
	put(innocent ? NULL : hide(buf) + row->at, row->how);
}

static void stack_realloc(const struct row *, size_t)
{
	char buf[64] __attribute__((aligned(64)));

	memset(buf, 0, sizeof(buf));
	free(hide(realloc(innocent ? NULL : hide(buf), 100)));
}

static void literal_free(const struct row *, size_t)
{
	free(innocent ? NULL : hide((void *)"a string of the program"));
}

static void code_free(const struct row *, size_t)
{
	free(innocent ? NULL : hide((void *)literal_free));
}

static void thread_local_free(const struct row *, size_t)
{
	free(innocent ? NULL : hide(of_thread));
}

static void environment_free(const struct row *, size_t)
{
	extern char **environ;

	free(innocent ? NULL : hide(environ[0]));
}

static void mapped_free(const struct row *row, size_t)
{
	void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	free(innocent ? NULL : hide(p) + row->at);
	munmap(p, 8192);
}

/* Nothing is there: neither readable nor writable. */
static void unmapped_free(const struct row *row, size_t)
{
	char *p = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p, 8192);
	free(innocent ? NULL : hide(p));
}

static void number_free(const struct row *row, size_t)
{
	free(innocent ? NULL : hide((void *)row->at));
}

/* In the heap, or near it, where nothing was ever allocated. */
static void never_allocated(const struct row *row, size_t size)
{
	char *p = get(size);

	free(innocent ? NULL : p + row->at);
	free(p);
}

#define TWICE "Object already free"
#define NO_OBJECT "Invalid object pointer"
#define FOREIGN "Invalid pointer"

static const struct row frees[] = {
	{ "double free", "double-free", again, every_size, 0, 0, MALLOC, TWICE },
	{ "double free", "double-free-after-1", again, small_sizes, 0, 1, MALLOC, TWICE },
	{ "double free", "double-free-after-5", again, of_64, 0, 5, MALLOC, TWICE },
	{ "double free", "double-free-after-500", again, of_64, 0, 500, MALLOC, TWICE },
	{ "double free", "double-free-aligned", again, of_256, 0, 0, ALIGNED, TWICE },
	{ "double free", "double-free-between", again_between, of_64, 0, 0, MALLOC, TWICE },
	{ "double free", "double-free-between-large", again_between, of_4M, 0, 0, MALLOC, TWICE },
	/* Its slab may have gone back by then. */
	{ "double free", "double-free-after-many", again_after_many, small_sizes, 0, 300, MALLOC,
	  TWICE "|" FOREIGN },
	{ "double free", "double-free-thread", again_in_thread, of_64, 0, 0, MALLOC, TWICE },
	{ "double free", "double-free-thread-after-5", again_in_thread, of_2000, 0, 5, MALLOC,
	  TWICE },
	{ "double free", "double-free-thread-large", again_in_thread, of_4M, 0, 0, MALLOC, TWICE },
	{ "double free", "realloc-freed", again_by_realloc, every_size, 0, 0, MALLOC, TWICE },
	{ "double free", "free-moved", again_after_move, of_64, 0, 0, MALLOC, TWICE },
	{ "double free", "delete-twice", again, of_64, 0, 0, NEW, TWICE },
	{ "double free", "delete-array-twice", again, of_300, 0, 0, ARRAY, TWICE },
	{ "double free", "delete-twice-large", again, of_4M, 0, 0, ARRAY, TWICE },
	{ "double free", "delete-then-free", delete_then_free, of_64, 0, 0, NEW, TWICE },
	{}
};

static const struct row pointers[] = {
	{ "invalid free", "free-interior-1", interior, small_sizes, 1, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "free-interior-8", interior, of_64, 8, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "free-interior-16", interior, of_64, 16, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "free-interior-32", interior, of_64, 32, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "free-interior-4096", interior, of_20000, 4096, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "free-before-16", interior, of_64, -16, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "free-large-16", interior, large_sizes, 16, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "free-large-4096", interior, large_sizes, 4096, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "free-large-1M", interior, of_4M, 1 << 20, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "delete-interior-16", interior, of_64, 16, 0, NEW, NO_OBJECT },
	{ "invalid free", "delete-array-interior-8", interior, of_300, 8, 0, ARRAY, NO_OBJECT },
	{ "invalid free", "free-past-the-end", past_the_end, small_sizes, 0, 0, MALLOC, NULL },
	{ "invalid free", "free-past-the-end-large", past_the_end, of_4M, 0, 0, MALLOC, NULL },
	{ "invalid free", "realloc-interior", realloc_interior, of_64, 16, 0, MALLOC, NO_OBJECT },
	{ "invalid free", "realloc-interior-large", realloc_interior, of_4M, 4096, 0, MALLOC,
	  NULL },
	{ "invalid free", "free-stack", stack_free, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-stack-odd", stack_free, of_64, 3, 0, MALLOC, FOREIGN },
	{ "invalid free", "delete-stack", stack_free, of_64, 0, 0, NEW, FOREIGN },
	{ "invalid free", "realloc-stack", stack_realloc, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-static", static_free, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "delete-array-static", static_free, of_64, 0, 0, ARRAY, FOREIGN },
	{ "invalid free", "free-literal", literal_free, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-code", code_free, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-thread-local", thread_local_free, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-environment", environment_free, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-mapped", mapped_free, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-mapped-interior", mapped_free, of_64, 100, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-unmapped", unmapped_free, of_64, 0, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-number", number_free, of_64, 1, 0, MALLOC, FOREIGN },
	{ "invalid free", "free-number-not-canonical", number_free, of_64, 0x6b6b6b6b6b6b6b6b, 0,
	  MALLOC, FOREIGN },
	{ "invalid free", "free-never-near", never_allocated, of_64, 20 * 256, 0, MALLOC, NULL },
	{ "invalid free", "free-never-far", never_allocated, of_64, 1 << 30, 0, MALLOC, NULL },
	{}
};

static const struct rows frees_here(frees);
static const struct rows pointers_here(pointers);
