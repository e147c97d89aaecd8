/* SPDX-License-Identifier: MIT */
/*
 * Call stacks, each stored once.
 *
 * A program may be compiled without frame pointers: unwind.h says how its callers
 * are found, and where that fails the register may hold anything.  So a frame is
 * read only where a stack is known to be: up to the end of the thread's own stack,
 * which is there as long as the thread is, or, on a stack of the program's making
 * (a coroutine, a signal stack), as far as the kernel says that the next pages can
 * be read.
 *
 * What can be read below the end of the thread's stack need not be that stack: below one
 * without a guard page another mapping may begin, and go.
 *
 * The store: records one after the other, found through a table of buckets by
 * a hash of the frames.  Nothing is ever taken out.  No lock: a record is
 * complete before its bucket names it.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/auxv.h>

#include "core/base/hash.h"
#include "features/debug/debug.h"
#include "features/debug/unwind.h"

/* ---- how far a stack goes ---- */

/* The first thread's stack is looked at as far as this. */
#define OWN_BYTES_MAX ((uintptr_t)256 << 20)
/* A stack of unknown kind is followed as far as this. */
#define WINDOW_PAGES 16

/* Known to be readable for as long as this thread lives. */
static __thread uintptr_t own_low
	__attribute__((tls_model("initial-exec")));
/* 0: nobody has looked; OWN_UNKNOWN: in vain */
static __thread uintptr_t own_high
	__attribute__((tls_model("initial-exec")));
#define OWN_UNKNOWN ((uintptr_t)1)

/* Of the first thread; the dynamic linker's, or the C library's. */
extern void *__libc_stack_end __attribute__((weak));

static bool range_is_readable(uintptr_t low, uintptr_t high)
{
	return os_is_readable((void *)low, round_up(high - low, PAGE_BYTES));
}

/* How many of @nr pages from @page on can be read. */
static size_t pages_readable(uintptr_t page, size_t nr)
{
	size_t end = nr + 1, there = 0;

	while (end - there > 1) {
		size_t middle = end == nr + 1 ? nr : (there + end) / 2;

		if (range_is_readable(page, page + middle * PAGE_BYTES))
			there = middle;
		else
			end = middle;
	}
	return there;
}

/* Where the stack that @sp is in ends at the least. */
static uintptr_t stack_end(uintptr_t sp)
{
	uintptr_t first = &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0;
	uintptr_t low = round_down(sp, PAGE_BYTES);

	if (unlikely(!own_high) && !os_thread_stack(&own_low, &own_high))
		own_high = OWN_UNKNOWN;
	if (sp >= own_low && sp < own_high)
		return own_high;
	/* The first thread's grows: more of it may be known by now. */
	if (first > sp && first - sp < OWN_BYTES_MAX &&
	    (own_high == OWN_UNKNOWN || own_high == first) &&
	    range_is_readable(low, own_high == first ? own_low : first)) {
		own_low = low;
		own_high = first;
		return first;
	}
	return low + pages_readable(low, WINDOW_PAGES) * PAGE_BYTES;
}

bool stack_has(const void *ptr)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);

	stack_end(sp);
	return sp >= own_low && sp < own_high && (uintptr_t)ptr >= sp &&
	       (uintptr_t)ptr < own_high;
}

size_t stack_copy(void *to, size_t bytes, uintptr_t from, bool *is_whole)
{
	size_t there = stack_end(from) - from;
	long got = (long)min_size(bytes, there);

	if (from >= own_low && from < own_high)
		memcpy(to, (void *)from, (size_t)got);
	else	/* the kernel stops where a load would end the process */
		got = os_peek(to, (void *)from, (size_t)got);

	*is_whole = got >= 0 && (size_t)got == there;
	return got > 0 ? (size_t)got : 0;
}

/* ---- reading ---- */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((weak));

/* A part of a static program: then its text is not only the library's. */
static bool is_static(void)
{
	uintptr_t headers = getauxval(AT_PHDR);

	return headers - (uintptr_t)__ehdr_start < PAGE_BYTES;
}

static bool is_ours(uintptr_t address)
{
	static uintptr_t end;
	uintptr_t now = __atomic_load_n(&end, __ATOMIC_RELAXED);

	if (!now) {
		now = is_static() || !etext ? 1 : (uintptr_t)etext;
		__atomic_store_n(&end, now, __ATOMIC_RELAXED);
	}
	return address >= (uintptr_t)__ehdr_start && address < now;
}

struct frame {
	uintptr_t next;
	uintptr_t address;
};

/*
 * The code of the operators: features/cxx/cxx_new.c.  The linker names the ends of a section.
 * Weak: a program without operators, linked with --gc-sections by lld, has none, and
 * the two ends are the same then.
 */
#define END_OF_CODE SLUB_INTERNAL __attribute__((weak))
extern const char __start_slub_text_new[] END_OF_CODE;
extern const char __stop_slub_text_new[] END_OF_CODE;
extern const char __start_slub_text_new_many[] END_OF_CODE;
extern const char __stop_slub_text_new_many[] END_OF_CODE;

static enum alloc_call call_of(uintptr_t address)
{
	if (address - (uintptr_t)__start_slub_text_new <
	    (size_t)(__stop_slub_text_new - __start_slub_text_new))
		return CALL_NEW;
	if (address - (uintptr_t)__start_slub_text_new_many <
	    (size_t)(__stop_slub_text_new_many - __start_slub_text_new_many))
		return CALL_NEW_MANY;
	return CALL_MALLOC;
}

/*
 * The function of this library that the program called.  An operator that found no
 * memory asks the C++ library's, which calls malloc(): whose block that is cannot be
 * told from a block that a new_handler allocates.
 */
static void note_call(struct stack *stack, uintptr_t address)
{
	enum alloc_call call = call_of(address);

	if (!stack->nr)
		stack->call = call;
	else if (call != CALL_MALLOC)
		stack->call = CALL_UNKNOWN;
}

/* Notes a function that is called, and says whether there is room for another one. */
static bool note_frame(struct stack *stack, uintptr_t address)
{
	if (is_ours(address))
		note_call(stack, address);
	else
		stack->frames[stack->nr++] = address;
	return stack->nr < STACK_DEPTH_MAX;
}

/*
 * This library has frame pointers, and its callers may have none.  Where no tables say how these
 * lie, frame pointers must do: the register holds anything then, and where it leads to is checked.
 */
void stack_read(struct stack *stack, const void *frame)
{
	uintptr_t at = (uintptr_t)frame, end = stack_end(at);
	const struct frame *first = frame;
	struct place place;

	stack->nr = 0;
	stack->call = CALL_MALLOC;
	if (at % sizeof(void *) || at >= end || end - at < sizeof(*first))
		return;
	place = (struct place){ first->address, at + sizeof(*first), first->next };
	do {
		if (place.pc < PAGE_BYTES || !note_frame(stack, place.pc))
			break;
	} while (unwind_step(&place, end));
}

void stack_read_caller(struct stack *stack, const void *frame)
{
	uintptr_t at = (uintptr_t)frame, end = stack_end(at);
	const struct frame *here = frame;

	stack->nr = 0;
	stack->call = CALL_MALLOC;
	while (!(at % sizeof(void *)) && at < end && end - at >= sizeof(*here) &&
	       is_ours(here->address)) {
		note_call(stack, here->address);
		here = (const struct frame *)here->next;
		if ((uintptr_t)here <= at)
			return;
		at = (uintptr_t)here;
	}
	if (here == frame)	/* a static program: none is told apart */
		stack_read(stack, frame);
	else if (!(at % sizeof(void *)) && at < end && end - at >= sizeof(*here))
		stack->frames[stack->nr++] = here->address;
}

/* ---- the store ---- */

#define STORE_BYTES ((size_t)16 << 20)
#define BUCKETS 16384

struct store {
	uint32_t buckets[BUCKETS];	/* numbers of records */
	char records[];
};

struct store *stack_store_made;
/* Offset 0 means none. */
static _Atomic size_t used_bytes = sizeof(struct store) + STACK_UNIT;
static _Atomic bool is_hopeless;

/* Each of several threads makes a store, the first one's stays: none may wait for a handler's. */
static cold struct store *store_open(void)
{
	struct store *made, *other = NULL;

	if (__atomic_load_n(&is_hopeless, __ATOMIC_RELAXED))
		return NULL;
	made = os_map(STORE_BYTES);
	if (!made) {
		__atomic_store_n(&is_hopeless, true, __ATOMIC_RELAXED);
		return NULL;
	}
	/* release: pairs with the acquire in stack_store() */
	if (__atomic_compare_exchange_n(&stack_store_made, &other, made, false,
					__ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
		return made;
	os_unreserve(made, STORE_BYTES);
	return other;
}

static struct stack_record *record_at(struct store *s, uint32_t offset)
{
	return (struct stack_record *)((char *)s + (size_t)offset * STACK_UNIT);
}

static uint32_t hash_of(const struct stack *stack)
{
	uint64_t h = stack->nr;

	for (uint32_t i = 0; i < stack->nr; i++)
		h = (h ^ stack->frames[i]) * HASH_MULTIPLIER ^ h >> 29;
	return (uint32_t)(h >> 32);
}

static bool record_is(const struct stack_record *r, uint32_t hash,
		      const struct stack *stack)
{
	if (r->hash != hash || r->nr != stack->nr)
		return false;
	for (uint32_t i = 0; i < r->nr; i++) {
		if (r->frames[i] != stack->frames[i])
			return false;
	}
	return true;
}

static uint32_t record_find(struct store *s, uint32_t at, uint32_t hash,
			    const struct stack *stack)
{
	while (at && !record_is(record_at(s, at), hash, stack))
		at = record_at(s, at)->next;
	return at;
}

/* A record of @stack that no bucket names yet; 0: the store is full. */
static uint32_t record_make(struct store *s, uint32_t hash, const struct stack *stack)
{
	size_t bytes = sizeof(struct stack_record) + stack->nr * sizeof(uintptr_t);
	size_t at = __atomic_load_n(&used_bytes, __ATOMIC_RELAXED);
	struct stack_record *r;

	do {
		if (at + bytes > STORE_BYTES)
			return 0;
	} while (!__atomic_compare_exchange_n(&used_bytes, &at, at + bytes,
					      true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	r = record_at(s, (uint32_t)(at / STACK_UNIT));
	r->hash = hash;
	r->nr = stack->nr;
	for (uint32_t i = 0; i < stack->nr; i++)
		r->frames[i] = stack->frames[i];
	return (uint32_t)(at / STACK_UNIT);
}

uint32_t stack_store(const struct stack *stack)
{
	struct store *s = __atomic_load_n(&stack_store_made, __ATOMIC_ACQUIRE);
	uint32_t hash = hash_of(stack), first, found, mine = 0;
	uint32_t *bucket;

	if (!stack->nr || (!s && !(s = store_open())))
		return 0;
	bucket = &s->buckets[hash % BUCKETS];
	/* acquire: pairs with the release below, for the record's words */
	first = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);
	do {
		found = record_find(s, first, hash, stack);
		/* With a record of its own another thread was quicker, and the room is lost. */
		if (found)
			return found;
		if (!mine && !(mine = record_make(s, hash, stack)))
			return 0;
		record_at(s, mine)->next = first;
	} while (!__atomic_compare_exchange_n(bucket, &first, mine, false,
					      __ATOMIC_RELEASE,
					      __ATOMIC_ACQUIRE));
	return mine;
}

const uintptr_t *stack_frames(uint32_t number, uint32_t *nr)
{
	struct store *s = __atomic_load_n(&stack_store_made, __ATOMIC_ACQUIRE);
	const struct stack_record *r;

	*nr = 0;
	/* A track may have been written over. */
	if (!s || (size_t)number * STACK_UNIT < sizeof(*s) ||
	    (size_t)number * STACK_UNIT + sizeof(*r) >
		    __atomic_load_n(&used_bytes, __ATOMIC_RELAXED))
		return NULL;
	r = record_at(s, number);
	if (!r->nr || r->nr > STACK_DEPTH_MAX)
		return NULL;
	*nr = r->nr;
	return r->frames;
}

uintptr_t stack_store_base(void)
{
	struct store *s = __atomic_load_n(&stack_store_made, __ATOMIC_ACQUIRE);

	return (uintptr_t)(s ? s : store_open());
}
