/* SPDX-License-Identifier: MIT */
/* Part of slub/jemalloc.h. */
#ifndef SLUB_INCLUDE_JEMALLOC_CALLS_H
#define SLUB_INCLUDE_JEMALLOC_CALLS_H

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <slub/control.h>
#include <slub/defrag.h>
#include <slub/malloc.h>
#include <slub/profile.h>
#include <slub/version.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

#ifdef SLUB_JEMALLOC_PREFIX
#define SLUB_JEMALLOC_PASTE(prefix, name) prefix##name
#define SLUB_JEMALLOC_JOIN(prefix, name) SLUB_JEMALLOC_PASTE(prefix, name)
#define SLUB_JEMALLOC(name) SLUB_JEMALLOC_JOIN(SLUB_JEMALLOC_PREFIX, name)
#else
#define SLUB_JEMALLOC(name) name
#endif

#if !defined(__GLIBC__)
int malloc_trim(size_t pad);
#endif

#define JEMALLOC_VERSION "4.0.0-libslub-" SLUB_VERSION_STRING
#define JEMALLOC_VERSION_MAJOR 4
#define JEMALLOC_VERSION_MINOR 0
#define JEMALLOC_VERSION_BUGFIX 0
#define JEMALLOC_FRAG_HINT

/* Of the flags: the low six bits are the alignment's logarithm. */
#define MALLOCX_LG_ALIGN(la) SLUB_INT(la)
#define MALLOCX_ALIGN(a) __builtin_ctzl(SLUB_SIZE(a))
#define MALLOCX_ZERO 0x40
#define MALLOCX_TCACHE(tc) SLUB_INT(((tc) + 2) << 8)
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define SLUB_JEMALLOC_TCACHES 0xfff00
#define MALLOCX_ARENA(a) SLUB_INT(((a) + 1u) << 20)
#define MALLCTL_ARENAS_ALL 4096

/* What malloc aligns to without being asked. */
#define SLUB_JEMALLOC_QUANTUM ((size_t)16)

static inline size_t slub_jemalloc_align(int flags)
{
	return (size_t)1 << (flags & 63);
}

/* ---- blocks ---- */

/* Past the lists of the CPU, where the last object of a sparse slab would come from again. */
static inline void *slub_jemalloc_dense(size_t size)
{
	void *block = slub_malloc(size), *moved = slub_object_move(block);

	return moved ? moved : block;
}

static inline void *SLUB_JEMALLOC(mallocx)(size_t size, int flags)
{
	size_t align = slub_jemalloc_align(flags);
	void *block;

	if (align <= SLUB_JEMALLOC_QUANTUM) {
		size = size < align ? align : size;
		if (flags & MALLOCX_ZERO)
			return slub_calloc(1, size);
		return (flags & SLUB_JEMALLOC_TCACHES) == MALLOCX_TCACHE_NONE ?
			       slub_jemalloc_dense(size) : slub_malloc(size);
	}
	block = slub_aligned_alloc(align, size);
	if (block && flags & MALLOCX_ZERO)
		memset(block, 0, slub_usable_size(block));
	return block;
}

static inline size_t SLUB_JEMALLOC(sallocx)(const void *block, int flags)
{
	(void)flags;
	return slub_usable_size(block);
}

static inline void SLUB_JEMALLOC(dallocx)(void *block, int flags)
{
	(void)flags;
	slub_free(block);
}

static inline void SLUB_JEMALLOC(sdallocx)(void *block, size_t size, int flags)
{
	(void)size, (void)flags;
	slub_free(block);
}

static inline void *SLUB_JEMALLOC(rallocx)(void *block, size_t size, int flags)
{
	size_t align = slub_jemalloc_align(flags), before = slub_usable_size(block), after;
	char *moved;

	if (align <= SLUB_JEMALLOC_QUANTUM) {
		moved = (char *)slub_realloc(block, size < align ? align : size);
	} else {
		moved = (char *)slub_aligned_alloc(align, size);
		if (moved) {
			memcpy(moved, block, before < size ? before : size);
			slub_free(block);
		}
	}
	after = moved && flags & MALLOCX_ZERO ? slub_usable_size(moved) : 0;
	if (after > before)
		memset(moved + before, 0, after - before);
	return moved;
}

static inline size_t SLUB_JEMALLOC(xallocx)(void *block, size_t size, size_t extra,
					    int flags)
{
	(void)size, (void)extra, (void)flags;
	return slub_usable_size(block);
}

/* At the least; of an alignment above 16 the block may have more. */
static inline size_t SLUB_JEMALLOC(nallocx)(size_t size, int flags)
{
	size_t align = slub_jemalloc_align(flags);

	if (size > SIZE_MAX - align)
		return 0;
	if (align > SLUB_JEMALLOC_QUANTUM)
		size = (size + align - 1) & ~(align - 1);
	return slub_good_size(size < align ? align : size);
}

/* Would the block be better off elsewhere?  As Redis's own patch of jemalloc says it. */
static inline int SLUB_JEMALLOC(get_defrag_hint)(void *block)
{
	return slub_object_is_sparse(block);
}

#ifdef SLUB_JEMALLOC_PREFIX
static inline void *SLUB_JEMALLOC(malloc)(size_t size)
{
	return slub_malloc(size);
}

static inline void *SLUB_JEMALLOC(calloc)(size_t nr, size_t size)
{
	return slub_calloc(nr, size);
}

static inline void *SLUB_JEMALLOC(realloc)(void *block, size_t size)
{
	return slub_realloc(block, size);
}

static inline void *SLUB_JEMALLOC(aligned_alloc)(size_t align, size_t size)
{
	return slub_aligned_alloc(align, size);
}

static inline void SLUB_JEMALLOC(free)(void *block)
{
	slub_free(block);
}

static inline size_t SLUB_JEMALLOC(malloc_usable_size)(const void *block)
{
	return slub_usable_size(block);
}
#endif

/* ---- what is told ---- */

static inline int slub_jemalloc_tell(void *old, size_t *old_size, const void *value,
				     size_t size)
{
	if (!old || !old_size)
		return 0;
	if (*old_size == size) {
		memcpy(old, value, size);
		return 0;
	}
	/* As much as there is room for, as jemalloc does. */
	if (*old_size > size)
		*old_size = size;
	memcpy(old, value, *old_size);
	return EINVAL;
}

enum slub_jemalloc_part {
	SLUB_JEMALLOC_USED, SLUB_JEMALLOC_ACTIVE, SLUB_JEMALLOC_SLABS, SLUB_JEMALLOC_LARGE,
	SLUB_JEMALLOC_IDLE, SLUB_JEMALLOC_COMMITTED, SLUB_JEMALLOC_PARTS,
};

/* What the heap held at the last write to "epoch". */
struct slub_jemalloc_look {
	uint64_t epoch;		/* 0: nobody has looked yet */
	size_t parts[SLUB_JEMALLOC_PARTS];
};

extern struct slub_jemalloc_look slub_jemalloc_look;
/* One for the program, however many of its files include this. */
__attribute__((__weak__)) struct slub_jemalloc_look slub_jemalloc_look = { 0, { 0 } };

struct slub_jemalloc_found {
	size_t parts[SLUB_JEMALLOC_PARTS];
	int nr;
};

/* A visitor, which ends before the caches' values: these cost a walk of their own. */
static inline int slub_jemalloc_visit(const char *name, const struct slub_value *value, void *arg)
{
	static const char *const names[SLUB_JEMALLOC_PARTS] = {
		"objects.used_bytes", "heap.active_bytes", "heap.slab_bytes",
		"heap.large_bytes", "heap.idle_bytes", "heap.committed_bytes",
	};
	struct slub_jemalloc_found *found = (struct slub_jemalloc_found *)arg;

	for (int i = 0; i < SLUB_JEMALLOC_PARTS; i++) {
		if (!strcmp(names[i], name)) {
			found->parts[i] = (size_t)value->number;
			found->nr++;
		}
	}
	return found->nr == SLUB_JEMALLOC_PARTS;
}

/* One walk over the heap, for all that is read until the next. */
static inline int slub_jemalloc_refresh(void)
{
	struct slub_jemalloc_found found = { { 0 }, 0 };

	if (slub_value_for_each(slub_jemalloc_visit, &found) < 0)
		return EAGAIN;
	for (int i = 0; i < SLUB_JEMALLOC_PARTS; i++)
		__atomic_store_n(&slub_jemalloc_look.parts[i], found.parts[i], __ATOMIC_RELAXED);
	/* release: a thread that sees the epoch sees what was found */
	__atomic_add_fetch(&slub_jemalloc_look.epoch, 1, __ATOMIC_RELEASE);
	return 0;
}

/* The sum of those whose bits are in @parts. */
static inline int slub_jemalloc_sum(unsigned int parts, size_t *sum)
{
	int err = __atomic_load_n(&slub_jemalloc_look.epoch, __ATOMIC_ACQUIRE) ?
			  0 : slub_jemalloc_refresh();

	*sum = 0;
	for (int i = 0; i < SLUB_JEMALLOC_PARTS; i++) {
		if (parts & 1u << i)
			*sum += __atomic_load_n(&slub_jemalloc_look.parts[i], __ATOMIC_RELAXED);
	}
	return err;
}

static inline int slub_jemalloc_number(const char *name, size_t *number)
{
	enum {
		USED = 1 << SLUB_JEMALLOC_USED, ACTIVE = 1 << SLUB_JEMALLOC_ACTIVE,
		SLABS = 1 << SLUB_JEMALLOC_SLABS, LARGE = 1 << SLUB_JEMALLOC_LARGE,
		IDLE = 1 << SLUB_JEMALLOC_IDLE, COMMITTED = 1 << SLUB_JEMALLOC_COMMITTED,
	};
	static const struct {
		const char *name;
		unsigned int parts;
	} sums[] = {
		{ "stats.allocated", USED | LARGE },
		{ "stats.active", ACTIVE | LARGE },
		{ "stats.resident", SLABS | LARGE | IDLE },
		{ "stats.mapped", COMMITTED },
		{ "stats.arenas.0.small.allocated", USED },
		{ "stats.arenas.0.large.allocated", LARGE },
	};

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		if (!strcmp(sums[i].name, name))
			return slub_jemalloc_sum(sums[i].parts, number);
	}
	*number = 4096;
	if (!strcmp(name, "arenas.page"))
		return 0;
	*number = SLUB_JEMALLOC_QUANTUM;
	return strcmp(name, "arenas.quantum") ? ENOENT : 0;
}

/* ---- what is done ---- */

/* "arena.3.purge": is it that act, of any arena? */
static inline bool slub_jemalloc_is_act(const char *name, const char *act)
{
	size_t digits;

	if (strncmp(name, "arena.", 6) != 0)
		return false;
	digits = strspn(name + 6, "0123456789");
	return digits && !strcmp(name + 6 + digits, act);
}

/* True: it is one of those that take and give nothing. */
static inline bool slub_jemalloc_act(const char *name)
{
	if (slub_jemalloc_is_act(name, ".purge") || slub_jemalloc_is_act(name, ".decay")) {
		malloc_trim(0);
		return true;
	}
	return !strcmp(name, "thread.tcache.flush");
}

static inline int slub_jemalloc_profile(const char *name, const void *value, size_t size)
{
	const char *path;
	bool on;
	int err;

	if (!strcmp(name, "prof.active")) {
		if (!value || size != sizeof(on))
			return EINVAL;
		memcpy(&on, value, sizeof(on));
		err = on ? slub_profile_start(512 << 10) : slub_profile_stop();
		return err ? -err : 0;
	}
	if (strcmp(name, "prof.dump") != 0)
		return ENOENT;
	if (!value || size != sizeof(path))
		return EINVAL;
	memcpy(&path, value, sizeof(path));
	return path && slub_profile_write(path) >= 0 ? 0 : EFAULT;
}

/* Whatever is written, the numbers are looked up anew; read is how often they were. */
static inline int slub_jemalloc_epoch(void *old, size_t *old_size, const void *value, size_t size)
{
	uint64_t epoch;
	int err = 0;

	if (value && size != sizeof(epoch))
		return EINVAL;
	if (value || !__atomic_load_n(&slub_jemalloc_look.epoch, __ATOMIC_RELAXED))
		err = slub_jemalloc_refresh();
	epoch = __atomic_load_n(&slub_jemalloc_look.epoch, __ATOMIC_RELAXED);
	return err ? err : slub_jemalloc_tell(old, old_size, &epoch, sizeof(epoch));
}

static inline int SLUB_JEMALLOC(mallctl)(const char *name, void *old, size_t *old_size,
					 void *value, size_t size)
{
	static const char *const version = "libslub " SLUB_VERSION_STRING;
	unsigned int arenas = 1;
	size_t number;
	int err;

	if (!name)
		return EINVAL;
	if (!strcmp(name, "epoch"))
		return slub_jemalloc_epoch(old, old_size, value, size);
	if (!strncmp(name, "prof.", 5))
		return old ? EPERM : slub_jemalloc_profile(name, value, size);
	if (slub_jemalloc_act(name))
		return old || value ? EPERM : 0;
	if (!strcmp(name, "version") || !strcmp(name, "arenas.narenas")) {
		if (value)
			return EPERM;
		return *name == 'v' ?
			       slub_jemalloc_tell(old, old_size, &version, sizeof(version)) :
			       slub_jemalloc_tell(old, old_size, &arenas, sizeof(arenas));
	}
	err = slub_jemalloc_number(name, &number);
	if (err || value)
		return err ? err : EPERM;
	return slub_jemalloc_tell(old, old_size, &number, sizeof(number));
}

static inline void SLUB_JEMALLOC(malloc_stats_print)(void (*write)(void *arg, const char *text),
						     void *arg, const char *options)
{
	long size = slub_stats_json(NULL, 0) + 16384;
	char *text = size > 0 ? (char *)slub_malloc((size_t)size) : NULL;

	(void)options;
	if (text && slub_stats_json(text, (size_t)size) >= 0) {
		if (write)
			write(arg, text);
		else
			fputs(text, stderr);
	}
	slub_free(text);
}

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
