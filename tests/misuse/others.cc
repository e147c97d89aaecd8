/* SPDX-License-Identifier: MIT */
/* Wrong sizes, kinds that do not match, no size, leaks, what was never written. */
#include "crime.h"

#include <dlfcn.h>
#include <malloc.h>
#include <new>

/* Of C23: glibc has them from version 2.43 on. */
static void free_sized(void *p, size_t size)
{
	static auto *call = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");

	if (call)
		call(p, size);
	else
		free(p);
}

static void free_aligned_sized(void *p, size_t align, size_t size)
{
	static auto *call = (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT,
								    "free_aligned_sized");

	if (call)
		call(p, align, size);
	else
		free(p);
}

/* ---- sizes ---- */

static void delete_sized(const struct row *row, size_t size)
{
	char *p = get(size, NEW);

	operator delete(p, size + (innocent ? 0 : row->at));
}

static void delete_array_sized(const struct row *row, size_t size)
{
	char *p = get(size, ARRAY);

	operator delete[](p, size + (innocent ? 0 : row->at));
}

static void delete_aligned_sized(const struct row *row, size_t size)
{
	void *p = operator new(size, std::align_val_t(64));

	operator delete(hide(p), size + (innocent ? 0 : row->at), std::align_val_t(64));
}

static void free_with_size(const struct row *row, size_t size)
{
	char *p = get(size);

	free_sized(p, size + (innocent ? 0 : row->at));
}

static void free_aligned_with_size(const struct row *row, size_t size)
{
	char *p = get(size, ALIGNED);

	free_aligned_sized(p, 64, size + (innocent ? 0 : row->at));
}

static void usable_size(const struct row *row, size_t size)
{
	char *p = get(size);

	if (row->n)
		free(p);
	if (!innocent)
		malloc_usable_size(p + row->at);
	if (!row->n)
		free(p);
}

static void usable_size_stack(const struct row *, size_t)
{
	char buf[64] __attribute__((aligned(64)));

	memset(buf, 0, sizeof(buf));
	malloc_usable_size(innocent ? NULL : hide(buf));
}

/* ---- kinds ---- */

static void mismatch(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	put(p, innocent ? row->how : (enum how)row->n);
}

static void mismatch_realloc(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	if (innocent)
		put(p, row->how);
	else
		put(hide(realloc(p, size * 3)));
}

static void mismatch_strdup(const struct row *, size_t)
{
	char *p = hide(strdup("a string"));

	put(p, innocent ? MALLOC : NEW);
}

/* ---- no size ---- */

static volatile char seen;

static void zero_write(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	begin_wrong();
	if (!innocent)
		*(volatile char *)p = 'z';
	end_wrong();
	put(p, row->how);
}

static void zero_read(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	begin_wrong();
	if (!innocent)
		seen = *(volatile char *)p;
	end_wrong();
	put(p, row->how);
}

/* ---- lost, and never written ---- */

static void leak(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	if (innocent)
		put(p, row->how);
	hide(NULL);
}

static void leak_by_realloc(const struct row *row, size_t size)
{
	char *p = get(size);
	char *q = hide(realloc(p, (size_t)-1 / 4));

	/* It failed, and p is still there. */
	free(innocent ? p : q);
}

/* A block that was used before, as a program finds it that forgot to write it. */
static char **not_written(size_t size)
{
	put(get(size));
	return (char **)hide(innocent ? calloc(1, size) : malloc(size));
}

static void free_not_written(const struct row *, size_t size)
{
	char **p = not_written(size);

	free(p[size / sizeof(*p) - 1]);
	free(p);
}

static void write_by_not_written(const struct row *, size_t size)
{
	char **p = not_written(size);
	char *to = p[size / sizeof(*p) - 1];

	begin_wrong();
	if (to)
		*(volatile char *)to = 'n';
	end_wrong();
	free(p);
}

#define WRONG_SIZE "Wrong size"
#define KIND "Wrong kind"
#define SIZE_OF_NONE "Invalid object pointer|Object is free|Invalid pointer"

static const struct row others[] = {
	{ "wrong size", "sized-delete-larger", delete_sized, of_64, 16, 0, NEW, WRONG_SIZE },
	{ "wrong size", "sized-delete-smaller", delete_sized, of_64, -40, 0, NEW, WRONG_SIZE },
	{ "wrong size", "sized-delete-by-1", delete_sized, of_50, 1, 0, NEW, WRONG_SIZE },
	{ "wrong size", "sized-delete-base-class", delete_sized, of_2000, -1900, 0, NEW,
	  WRONG_SIZE },
	{ "wrong size", "sized-delete-large", delete_sized, of_4M, -(2 << 20), 0, NEW,
	  WRONG_SIZE },
	{ "wrong size", "sized-delete-array", delete_array_sized, of_300, -200, 0, ARRAY,
	  WRONG_SIZE },
	{ "wrong size", "sized-delete-aligned", delete_aligned_sized, of_300, -200, 0, NEW,
	  WRONG_SIZE },
	{ "wrong size", "free-sized-wrong", free_with_size, of_300, -200, 0, MALLOC, WRONG_SIZE },
	{ "wrong size", "free-sized-wrong-large", free_with_size, of_4M, -(2 << 20), 0, MALLOC,
	  WRONG_SIZE },
	{ "wrong size", "free-aligned-sized-wrong", free_aligned_with_size, of_256, 1, 0, MALLOC,
	  WRONG_SIZE },
	{ "size asked of no block", "usable-size-freed", usable_size, every_size, 0, 1, MALLOC,
	  SIZE_OF_NONE },
	{ "size asked of no block", "usable-size-interior", usable_size, every_size + 1, 8, 0,
	  MALLOC, SIZE_OF_NONE },
	{ "size asked of no block", "usable-size-stack", usable_size_stack, of_64, 0, 0, MALLOC,
	  NULL },
	{ "kinds mixed", "malloc-delete", mismatch, of_64, 0, NEW, MALLOC, KIND },
	{ "kinds mixed", "malloc-delete-array", mismatch, of_300, 0, ARRAY, MALLOC, KIND },
	{ "kinds mixed", "calloc-delete", mismatch, of_64, 0, NEW, CALLOC, KIND },
	{ "kinds mixed", "realloc-delete-array", mismatch, of_64, 0, ARRAY, REALLOC, KIND },
	{ "kinds mixed", "strdup-delete", mismatch_strdup, of_64, 0, 0, MALLOC, KIND },
	{ "kinds mixed", "new-free", mismatch, of_64, 0, MALLOC, NEW, KIND },
	{ "kinds mixed", "new-delete-array", mismatch, of_64, 0, ARRAY, NEW, KIND },
	{ "kinds mixed", "array-free", mismatch, of_300, 0, MALLOC, ARRAY, KIND },
	{ "kinds mixed", "array-delete", mismatch, of_300, 0, NEW, ARRAY, KIND },
	{ "kinds mixed", "new-realloc", mismatch_realloc, of_64, 0, 0, NEW, KIND },
	{ "kinds mixed", "malloc-delete-large", mismatch, of_4M, 0, NEW, MALLOC, KIND },
	{ "kinds mixed", "array-delete-large", mismatch, of_4M, 0, NEW, ARRAY, KIND },
	{ "no size", "zero-write", zero_write, of_0, 0, 0, MALLOC, NULL },
	{ "no size", "zero-write-new", zero_write, of_0, 0, 0, NEW, NULL },
	{ "no size", "zero-write-array", zero_write, of_0, 0, 0, ARRAY, NULL },
	{ "no size", "zero-read", zero_read, of_0, 0, 0, MALLOC, NULL },
	{ "no size", "zero-read-array", zero_read, of_0, 0, 0, ARRAY, NULL },
	{ "leak", "leak", leak, every_size, 0, 0, MALLOC, NULL },
	{ "leak", "leak-new", leak, of_64, 0, 0, NEW, NULL },
	{ "leak", "leak-by-realloc", leak_by_realloc, of_64, 0, 0, MALLOC, NULL },
	{ "not written", "free-not-written", free_not_written, every_size + 2, 0, 0, MALLOC, NULL },
	{ "not written", "write-by-not-written", write_by_not_written, every_size + 2, 0, 0, MALLOC,
	  NULL },
	{}
};

static const struct rows others_here(others);
