/* SPDX-License-Identifier: MIT */
/* What is known of sanitizers' runtimes: their names, and what they want to hear. */
#include "core/base/sanitizer.h"

#define RUNTIME(type, name, ...) extern type name(__VA_ARGS__) __attribute__((weak))

RUNTIME(void, __asan_init, void);
RUNTIME(void, __tsan_init, void);
RUNTIME(void, __msan_init, void);
RUNTIME(void, __lsan_init, void);
RUNTIME(void, __asan_poison_memory_region, const volatile void *start, size_t bytes);
RUNTIME(void, __asan_unpoison_memory_region, const volatile void *start, size_t bytes);
RUNTIME(void, __tsan_acquire, void *key);
RUNTIME(void, __tsan_release, void *key);
RUNTIME(void, __tsan_write_range, void *start, size_t bytes);
RUNTIME(void, __msan_allocated_memory, const volatile void *start, size_t bytes);
RUNTIME(void, __msan_unpoison, const volatile void *start, size_t bytes);
RUNTIME(void, __lsan_register_root_region, const void *start, size_t bytes);
RUNTIME(void *, __interceptor_malloc, size_t bytes);
RUNTIME(void, __interceptor_free, void *ptr);
RUNTIME(void *, __interceptor_calloc, size_t nr, size_t bytes);
RUNTIME(void *, __interceptor_realloc, void *ptr, size_t bytes);
RUNTIME(void *, __interceptor_memalign, size_t align, size_t bytes);
RUNTIME(size_t, __interceptor_malloc_usable_size, void *ptr);

struct sanitizer sanitizer;

usual void sanitizer_find(void)
{
	/* bench/scale has that name, for the compiler calls it, and is no such runtime. */
	bool has_tsan = __tsan_init && !SLUB_CONFIG_SCALE;
	bool is_any = __asan_init || has_tsan || __msan_init || __lsan_init;

	if (likely(!is_any))
		return;
	/* The build that a sanitizer looks at is to use itself. */
	sanitizer.is_there = !SLUB_INSTRUMENTED;
	sanitizer.owns_malloc = sanitizer.is_there &&
				__interceptor_malloc && __interceptor_free &&
				__interceptor_calloc && __interceptor_realloc &&
				__interceptor_memalign &&
				__interceptor_malloc_usable_size;
}

/* A runtime that starts itself later has no shadow yet; each starts once, whoever asks. */
static cold void sanitizers_start(const void *heap, size_t bytes)
{
	if (__asan_init)
		__asan_init();
	if (__tsan_init)
		__tsan_init();
	if (__msan_init)
		__msan_init();
	if (__lsan_register_root_region)
		__lsan_register_root_region(heap, bytes);
	sanitizer.is_told = true;
}

usual void sanitizer_begin(const void *heap, size_t bytes)
{
	if (unlikely(sanitizer.is_there))
		sanitizers_start(heap, bytes);
}

/* ---- what ThreadSanitizer knows as an order ---- */

/*
 * Three kinds of words, which the runtime tells apart by their addresses: an object, a page
 * that was written to by whom it belonged to, and a slab that was made of such pages.
 */
#define KEY_PAGE 1
#define KEY_SLAB 2
#define KEY_PAGE_BYTES ((uintptr_t)4096)

static void order(uintptr_t key, bool is_release)
{
	if (!key)
		return;
	if (is_release && __tsan_release)
		__tsan_release((void *)key);
	else if (!is_release && __tsan_acquire)
		__tsan_acquire((void *)key);
}

static void order_pages(const void *start, size_t bytes, uintptr_t key, bool is_release)
{
	uintptr_t page = (uintptr_t)start & -KEY_PAGE_BYTES;

	for (; __tsan_acquire && page < (uintptr_t)start + bytes; page += KEY_PAGE_BYTES)
		order(page + key, is_release);
}

cold void sanitizer_tell_order(const void *key, bool is_release)
{
	order((uintptr_t)key, is_release);
}

/* ---- objects ---- */

cold void sanitizer_tell_out(void *object, size_t bytes, bool is_kept)
{
	order(((uintptr_t)object & -KEY_PAGE_BYTES) + KEY_SLAB, false);
	order((uintptr_t)object, false);
	if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(object, bytes);
	if (__msan_allocated_memory && !is_kept)
		__msan_allocated_memory(object, bytes);
}

cold void sanitizer_tell_back(void *object, size_t bytes, bool is_kept,
			      bool is_readable)
{
	/* By slub_free_deferred() it was another thread's. */
	order((uintptr_t)object, false);
	/* A thread that uses it still races with this one. */
	if (__tsan_write_range && !is_readable)
		__tsan_write_range(object, bytes);
	order((uintptr_t)object, true);
	order_pages(object, bytes, KEY_PAGE, true);
	if (__asan_poison_memory_region && !is_readable)
		__asan_poison_memory_region(object, bytes);
	/* It says where it was freed, too. */
	if (__msan_allocated_memory && !is_kept)
		__msan_allocated_memory(object, bytes);
}

cold void sanitizer_tell_slab(void *slab, size_t bytes, enum sanitizer_slab now)
{
	if (now == SANITIZER_SLAB_BEGINS)
		order_pages(slab, bytes, KEY_PAGE, false);
	else if (now == SANITIZER_SLAB_READY)
		order_pages(slab, bytes, KEY_SLAB, true);
	else
		order_pages(slab, bytes, KEY_SLAB, false);
	if (now == SANITIZER_SLAB_ENDS)
		order_pages(slab, bytes, KEY_PAGE, true);
	/* What takes its pages next says so, as all that hand out blocks of pages do. */
	if (now != SANITIZER_SLAB_BEGINS && __asan_poison_memory_region)
		__asan_poison_memory_region(slab, bytes);
	else if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(slab, bytes);
	if (now == SANITIZER_SLAB_BEGINS && __msan_unpoison)
		__msan_unpoison(slab, bytes);
}

cold void sanitizer_tell_block(void *block, size_t bytes, bool is_out)
{
	order_pages(block, bytes, KEY_PAGE, !is_out);
	if (is_out && __asan_unpoison_memory_region)
		__asan_unpoison_memory_region(block, bytes);
	else if (__asan_poison_memory_region)
		__asan_poison_memory_region(block, bytes);
	if (__msan_allocated_memory)
		__msan_allocated_memory(block, bytes);
}

cold void sanitizer_tell_use(void *block, size_t bytes, size_t have)
{
	if (!__asan_poison_memory_region || !__asan_unpoison_memory_region)
		return;
	__asan_unpoison_memory_region(block, bytes);
	__asan_poison_memory_region((char *)block + bytes, have - bytes);
}

cold void sanitizer_tell_written(const void *start, size_t bytes)
{
	if (__msan_unpoison)
		__msan_unpoison(start, bytes);
}

/* ---- the runtime's malloc ---- */

cold void *sanitizer_malloc(size_t bytes)
{
	return __interceptor_malloc(bytes);
}

cold void *sanitizer_calloc(size_t nr, size_t bytes)
{
	return __interceptor_calloc(nr, bytes);
}

cold void *sanitizer_realloc(void *ptr, size_t bytes)
{
	return __interceptor_realloc(ptr, bytes);
}

cold void *sanitizer_memalign(size_t align, size_t bytes)
{
	return __interceptor_memalign(align, bytes);
}

cold void sanitizer_free(void *ptr)
{
	__interceptor_free(ptr);
}

cold size_t sanitizer_usable_size(void *ptr)
{
	return __interceptor_malloc_usable_size(ptr);
}
