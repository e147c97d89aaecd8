/* SPDX-License-Identifier: MIT */
/*
 * debug: the bytes of one object that is being watched.
 *
 * Knows nothing of caches: features/watch/debug.c decides which objects are watched, and
 * calls this layer with one object at a time.
 *
 * Words
 *   letter   one kind of watching, as in the kernel: F Z P U T A
 *   place    the bytes from one object to the next: the object and all around
 *   zone     bytes around an object that nobody may write (letter Z)
 *   poison   what a free object is filled with (letter P)
 *   track    the thread and the stack of the last allocation or free (letter U)
 *   case     one look at one object: what was found, and the report of it
 *   bug      something that is not as it must be
 *   fix      what was done so that the program can go on
 *
 * One place, low to high (not to scale; what is not asked for is not there):
 *
 *   +------+---------------+------+------+-------+------+------+-------+---------+
 *   | left | object        |right | link | alloc | free | size | owner | padding |
 *   | zone |        :......| zone |      | track | track|      |       |         |
 *   +------+---------------+------+------+-------+------+------+-------+---------+
 *   0      left            |      inuse  track          size   owner   end   stride
 *          ^ the pointer   object_size
 *
 *   :....  from the requested size on: belongs to the right zone while the
 *          object is allocated
 *
 * All offsets but `left` and `stride` count from the pointer that the program
 * has.  The bytes, as the kernel's: 0x6b poison, 0xa5 its last byte, 0x5a
 * padding, 0xbb zone of a free object, 0xcc zone of an allocated one.
 *
 * Tests: tests/unit/debug, tests/debug.
 * Pages: docs/internals/debugging.md, docs/operate/debugging.md.
 */
#ifndef SLUB_DEBUG_H
#define SLUB_DEBUG_H

#include "features/debug/track.h"
#include "core/page/page.h"

#define SLUB_LIBRARY 1
#include <slub/cache.h>

#define DEBUG_POISON 0x6b
#define DEBUG_POISON_END 0xa5
#define DEBUG_PADDING 0x5a
#define DEBUG_ZONE_FREE 0xbb
#define DEBUG_ZONE_USED 0xcc

#define DEBUG_LETTERS (SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE | \
		       SLUB_CACHE_POISON | SLUB_CACHE_STORE_USER | SLUB_CACHE_TRACE | \
		       SLUB_CACHE_FAILSLAB)
#define DEBUG_DEFAULT (SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE | \
		       SLUB_CACHE_POISON | SLUB_CACHE_STORE_USER)

/* What a place is made for, beside the letters. */
enum debug_kind {
	DEBUG_SIZED = 1 << 24,	/* malloc's: each has a size of its own */
	DEBUG_KEPT = 1 << 25,	/* constructed or TYPESAFE: no poison in it */
	DEBUG_OWNED = 1 << 26,	/* each has an owner: features/groups/owned.h */
};

/* Letter O, beside the others: not those that would make the smallest slab larger. */
#define DEBUG_NO_GROWTH (1u << 27)

struct debug_layout {
	const char *name;
	uint32_t flags;		/* letters, enum debug_kind */
	uint32_t object_size;
	uint32_t left;		/* 0: no left zone */
	uint32_t inuse;
	uint32_t link;		/* DEBUG_LINK_OUTSIDE: in the descriptor */
	uint32_t track;		/* 0: no tracks */
	uint32_t size;		/* 0: no requested size */
	uint32_t owner;		/* 0: none */
	uint32_t end;
	uint32_t stride;
	uint32_t align;
};

#define DEBUG_LINK_OUTSIDE UINT32_MAX

/* Bytes that @object was asked for. */
static inline size_t object_requested(const struct debug_layout *layout,
				      const void *object)
{
	uint64_t size;

	if (!layout->size)
		return layout->object_size;
	__builtin_memcpy(&size, (const char *)object + layout->size, sizeof(size));
	/* A write there has gone over the zones, too. */
	return min_size(size, layout->object_size);
}

/* object_bytes.c */
/*
 * Fills *@layout; @size at least 1, @align a power of two.  @name is kept.
 * Returns false if a place would be larger than @most bytes.
 */
bool debug_layout_make(struct debug_layout *layout, const char *name,
		       size_t size, size_t align, uint32_t flags, size_t most);

/* letters.c: SLUB_DEBUG */
/*
 * The letters that @setting gives to the cache @name, DEBUG_NO_GROWTH among them;
 * @by_default for what it does not speak of.  The grammar: slub-debug(7).
 */
uint32_t debug_letters_for(const char *setting, const char *name,
			   uint32_t by_default);
/*
 * Does a block of @setting name it?  *@flags: that block's letters, else those of the
 * last block without names, if there is one.
 */
bool debug_letters_named(const char *setting, const char *name,
			 uint32_t *flags);
/* Has it nothing but letters where letters must be? */
bool debug_letters_valid(const char *setting);
/* Reports what in @setting is no letter. */
void debug_letters_complain(const char *setting);
/* "FZPU" of @flags; @buf has room for 8 characters. */
const char *debug_letters_text(uint32_t flags, char *buf);

/* stack.c */
#define STACK_DEPTH_MAX 128

struct stack {
	uint32_t nr;
	uintptr_t frames[STACK_DEPTH_MAX];
	uint32_t call;		/* enum alloc_call */
};

/*
 * The callers of the function that has the frame @frame, without those in this
 * library.
 */
void stack_read(struct stack *stack, const void *frame);
/* The nearest of them alone, by frame pointers, which the functions of this library have. */
void stack_read_caller(struct stack *stack, const void *frame);
/* Is @ptr on this thread's own stack, as far as that is known? */
bool stack_has(const void *ptr);
/*
 * Copies this thread's stack from @from, which lies on it, up to its end as far as that is
 * known, @bytes at most.  Returns how many; *@is_whole: that is all of them.
 */
size_t stack_copy(void *to, size_t bytes, uintptr_t from, bool *is_whole);
/* A number for @stack, each stored once; 0: no room is left. */
uint32_t stack_store(const struct stack *stack);
/* The frames behind a number, and how many; NULL for 0. */
const uintptr_t *stack_frames(uint32_t number, uint32_t *nr);
/* The record with number n (struct stack_record) is at the store's address + n * this. */
#define STACK_UNIT 8
/* NULL: no stack was stored yet. */
extern struct store *stack_store_made SLUB_INTERNAL;
/* The same, which this makes if need be; 0: no memory. */
uintptr_t stack_store_base(void);

/* object_bytes.c */
/* Do operator delete and its like look how their block was allocated?  Const after start. */
extern bool debug_calls_are_told SLUB_INTERNAL;
/* May a block of @was not be freed as one of @call?  Not if a delete has looked before. */
bool call_is_wrong(uint32_t was, enum alloc_call call);
/* "new[]" */
static inline const char *call_name(enum alloc_call call)
{
	if (call == CALL_MALLOC)
		return "malloc";
	return call == CALL_NEW ? "new" : "new[]";
}
/* "operator delete[]": the function that frees such a block. */
static inline const char *call_free_name(enum alloc_call call)
{
	if (call == CALL_MALLOC)
		return "free";
	return call == CALL_NEW ? "operator delete" : "operator delete[]";
}

enum track_kind { TRACK_ALLOC, TRACK_FREE };

/* What is now; to be called without locks. */
void track_now(struct track *track, const struct stack *stack);
/* The same of stack_read(), or, not @is_whole, of stack_read_caller(). */
void track_frame_now(struct track *track, const void *frame, bool is_whole);
struct track *track_of(const struct debug_layout *layout, const void *object,
		       enum track_kind kind);
/* Writes @track to that place, with its sum: object_check() looks at it. */
void track_store(const struct debug_layout *layout, void *object, enum track_kind kind,
		 const struct track *track);

/* report.c */
struct report;

/* What a report says about the slab of an object. */
struct debug_slab {
	const char *start;
	size_t bytes;
	const struct page *page;
	uint32_t objects;
	uint32_t inuse;
	const void *freelist;
};

struct debug_case {
	const struct debug_layout *layout;
	struct debug_slab slab;
	struct stack stack;	/* of the thread that looks */
	const char *meaning;	/* of the next bug, as a sentence; NULL: its words say all */
	/* the rest is set by this layer */
	struct report *report;	/* NULL: none, or none is free */
	uint32_t bugs;
	uint32_t fixes;
	const void *shown;	/* the object whose bytes the report has */
};

/*
 * A bug: the line "BUG name (pid): text".  @object: what it is about, or NULL;
 * its tracks and bytes follow.  The kernel's object_err() and slab_err().
 */
void report_bug(struct debug_case *found, const void *object,
		const char *format, ...) printf_like(3, 4);
/* The same with a line that names bytes of @object that are wrong. */
void report_bytes(struct debug_case *found, const void *object,
		  const char *what, const unsigned char *from,
		  const unsigned char *end, unsigned char right);
/* Names one more object of the last bug, and who allocated and freed it. */
void report_also(struct debug_case *found, const void *object);
/* "Allocated in ..." and the stack, of the last bug; nothing if it never was. */
void report_track(struct debug_case *found, const char *what,
		  const struct track *track);
/* "FIX name: text" */
void report_fix(struct debug_case *found, const char *format, ...)
	printf_like(2, 3);
/* A line of its own, without a bug: letter T. */
void report_trace(const struct debug_layout *layout, const char *what,
		  const void *object, const struct debug_slab *slab);
/*
 * Writes what was found to where SLUB_DEBUG_REPORT says, and aborts if
 * SLUB_ON_ERROR=abort is given and there was a bug.  Without locks.
 */
void report_finish(struct debug_case *found);
/* Says how many bugs there were, if messages are asked for. */
void report_total(void);
/* Is there a place that reports go to? */
bool report_is_wanted(void);

/* sink.c: where text goes */
/* Appends to @path, which is "stderr" or a file (%p: the PID). */
void sink_write(const char *path, const char *text, size_t bytes);
/* What is described from now on is looked up anew. */
void sink_forget(void);
/*
 * "function+0x12 (file+0x1166)" of a code address, or "file+0x1166" where nobody knows the
 * function: the file by /proc/self/maps, and what addr2line(1) wants of it.
 */
void sink_describe(struct text *text, uintptr_t address);
/* The same of each, in lines of their own. */
void sink_describe_all(struct text *text, const uintptr_t *addresses, uint32_t nr);

/* object_bytes.c */
/* The first of @n bytes that is not @right; NULL: all are. */
const unsigned char *bytes_wrong(const unsigned char *p, size_t n, unsigned char right);
enum object_state { OBJECT_FREE, OBJECT_USED };

/* Fills a place anew, @place being its first byte, as a free object. */
void object_init(const struct debug_layout *layout, char *place);
/* Zones and poison for what it is now; @size: as requested, if it is used. */
void object_mark(const struct debug_layout *layout, void *object,
		 enum object_state state, size_t size);
/*
 * Is everything around @object, and in it if it is free, as @state wants it?
 * What is not is reported, and put right.
 */
bool object_check(struct debug_case *found, void *object,
		  enum object_state state);
/* The same for the bytes between @from and @end of the slab, which are padding. */
void object_check_padding(struct debug_case *found, char *from, char *end);

#endif
