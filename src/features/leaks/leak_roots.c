/* SPDX-License-Identifier: MIT */
/*
 * Where a program keeps its pointers: data of each object file, stacks, thread-local storage, and
 * whatever else it has mapped.  The heap, what the library knows of each object, and the search
 * itself are no roots.
 *
 * Pages that nobody touched are left out: there may be a tebibyte of them.  Of private memory the
 * page tables tell, which the child has a copy of; of shared memory it has none, and what the
 * kernel keeps of it counts.
 */
#define _GNU_SOURCE
#include "features/leaks/leak.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "features/misuse/maps.h"
#include "features/inspect/inspect.h"

/* A leaf function may use so much below the stack pointer. */
#define RED_ZONE 128
#define PAGES_AT_ONCE 512
#define PAGE_IS_THERE (3ull << 62)	/* in memory, or in swap */
#define NAME_BYTES 256
#define LINE_BYTES 8192

struct range {
	uintptr_t start, end;
};

struct leak_mapping {
	struct range range;
	bool is_readable, is_writable, is_code, is_shared;
	char name[NAME_BYTES];		/* may be cut */
};

struct hunt {
	struct leak_search *search;
	struct range holes[16];		/* what is no root */
	size_t nr_holes;
	uintptr_t stack;		/* of this thread */
	/* mappings behind one another; the middle one is looked at */
	struct leak_mapping before, now, next;
};

/* ---- threads ---- */

/* "NUMBER 0xARGUMENT... 0xSP 0xPC", "-1 0xSP 0xPC", or "running". */
static void syscall_note(struct leak_shared *shared, const char *line)
{
	uintptr_t words[LEAK_THREAD_WORDS + 2];
	uint32_t nr = 0;

	while (nr < LEAK_THREAD_WORDS + 2 && (line = strstr(line, " 0x"))) {
		line += 3;
		words[nr++] = hex_read(&line);
	}
	if (nr < 2)
		return;
	shared->stacks[shared->nr_stacks++] = words[nr - 2];
	for (uint32_t i = 0; i < nr - 2; i++)
		shared->words[shared->nr_words++] = words[i];
}

static void thread_note(struct leak_shared *shared, const char *tid)
{
	static const char front[] = "/proc/self/task/", back[] = "/syscall";
	char path[64], line[256];
	size_t length = strlen(tid);

	if (*tid < '1' || *tid > '9' || length > 20 || shared->nr_stacks == LEAK_THREADS_MAX)
		return;
	memcpy(path, front, sizeof(front) - 1);
	memcpy(path + sizeof(front) - 1, tid, length);
	memcpy(path + sizeof(front) - 1 + length, back, sizeof(back));
	if (os_file_read_once(path, line, sizeof(line)) > 0)
		syscall_note(shared, line);
}

struct folder_entry {
	uint64_t inode;
	int64_t offset;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

void leak_threads(struct leak_shared *shared)
{
	uint64_t entries[256];
	long fd = sys_open("/proc/self/task", O_RDONLY | O_DIRECTORY, 0), n;
	size_t self = (size_t)sys_tid();

	if (fd < 0)
		return;
	while ((n = sys_call4(SYS_getdents64, fd, (long)entries, sizeof(entries), 0)) > 0) {
		for (long at = 0; at < n;) {
			const struct folder_entry *entry = (void *)((char *)entries + at);
			const char *name = entry->name;

			/* Of this one the kernel says where this call has its stack. */
			if (os_parse_number(&name) != self)
				thread_note(shared, entry->name);
			at += entry->bytes;
		}
	}
	sys_close(fd);
}

/* ---- what is there of a mapping ---- */

/* Page by page, where not all can be read. */
static void pieces_use(struct leak_search *search, uintptr_t start, uintptr_t end,
		       leak_words_user *use)
{
	while (start < end) {
		size_t bytes = min_size(end - start, LEAK_BUFFER_BYTES);
		long n = search->is_blunt ? (long)bytes :
			 os_peek(search->buffer, (void *)start, bytes);

		if (n == -ENOSYS || n == -EPERM) {
			search->is_blunt = true;
			continue;
		}
		if (n > 0)
			use(search, search->is_blunt ? (uintptr_t *)start :
						       (uintptr_t *)search->buffer,
			    (size_t)n / sizeof(uintptr_t));
		/* Behind what could be read one page could not. */
		start += n > 0 ? (size_t)n : 0;
		if (n < (long)bytes)
			start = round_down(start, PAGE_BYTES) + PAGE_BYTES;
	}
}

/* Which of @nr pages from @start on are there: a byte for each, whose lowest bit says so. */
static bool pages_look(const struct leak_search *search, uintptr_t start, size_t nr,
		       bool is_shared, unsigned char *there)
{
	size_t page = os_page_size();
	uint64_t entries[PAGES_AT_ONCE];

	if (!is_shared && search->pagemap >= 0 &&
	    sys_call4(SYS_pread64, search->pagemap, (long)entries, (long)(nr * sizeof(*entries)),
		      (long)(start / page * sizeof(*entries))) ==
		    (long)(nr * sizeof(*entries))) {
		for (size_t i = 0; i < nr; i++)
			there[i] = (entries[i] & PAGE_IS_THERE) != 0;
		return true;
	}
	return !sys_call4(SYS_mincore, (long)start, (long)(nr * page), (long)there, 0);
}

void leak_read(struct leak_search *search, uintptr_t start, uintptr_t end, bool is_shared,
	       leak_words_user *use)
{
	unsigned char there[PAGES_AT_ONCE];
	size_t page = os_page_size();

	start = round_up(start, sizeof(uintptr_t));
	while (start < end) {
		uintptr_t at = round_down(start, page);
		size_t nr = min_size((end - at + page - 1) / page, PAGES_AT_ONCE);

		if (!pages_look(search, at, nr, is_shared, there))
			memset(there, 0, nr);
		for (size_t i = 0, n; i < nr; i += n) {
			for (n = 1; i + n < nr && !((there[i] ^ there[i + n]) & 1); n++)
				;
			if (there[i] & 1)
				pieces_use(search, max_size(at + i * page, start),
					   min_size(at + (i + n) * page, end), use);
		}
		start = at + nr * page;
	}
}

/* ---- what is no root ---- */

static void hole_add(struct hunt *hunt, uintptr_t start, size_t bytes)
{
	if (bytes && hunt->nr_holes < sizeof(hunt->holes) / sizeof(hunt->holes[0]))
		hunt->holes[hunt->nr_holes++] = (struct range){ start, start + bytes };
}

static void holes_find(struct hunt *hunt)
{
	const struct leak_search *search = hunt->search;
	size_t pages = search->heap_bytes >> PAGE_SHIFT;
	char *heap = (char *)search->heap;
	const uintptr_t *book = (uintptr_t *)profile_book.place;

	hole_add(hunt, search->heap, heap_reserved_bytes);
	hole_add(hunt, pagemap_base, (pagemap_index(heap) + pages) * sizeof(uint16_t));
	hole_add(hunt, (uintptr_t)page_of(heap), pages * sizeof(struct page));
	hole_add(hunt, (uintptr_t)page_link(page_link_bias, heap), pages * sizeof(void *));
	hole_add(hunt, *book, *book ? profile_book.bytes : 0);
	for (int i = 0; i < GUARD_POOLS; i++) {
		hole_add(hunt, guard_pools[i].base, guard_pools[i].bytes);
		hole_add(hunt, guard_pools[i].places,
			 guard_pools[i].bytes ? guard_pools[i].nr_places *
						sizeof(struct guard_place) : 0);
	}
	/* An object may begin where the heap does. */
	hole_add(hunt, (uintptr_t)&slub_abi_state, sizeof(slub_abi_state));
	hole_add(hunt, (uintptr_t)&heap_start, sizeof(heap_start));
	/* LEAK-2 */
	hole_add(hunt, (uintptr_t)search->memory, search->memory_bytes);
	hole_add(hunt, (uintptr_t)search->shared, sizeof(*search->shared));
}

/* An address in an instruction lies at any byte. */
static void mark_code(struct leak_search *search, const uintptr_t *words, size_t nr)
{
	const char *bytes = (const char *)words;

	for (size_t at = 0; at + sizeof(uintptr_t) <= nr * sizeof(uintptr_t); at++) {
		uintptr_t word;

		memcpy(&word, bytes + at, sizeof(word));
		leak_mark_words(search, &word, 1);
	}
}

/* All of it but the holes. */
static void mark_around(const struct hunt *hunt, struct range range, bool is_code)
{
	while (range.start < range.end) {
		uintptr_t end = range.end, behind = range.start;

		for (size_t i = 0; i < hunt->nr_holes; i++) {
			const struct range *hole = &hunt->holes[i];

			if (hole->start <= range.start && hole->end > range.start)
				behind = max_size(behind, hole->end);
			else if (hole->start > range.start && hole->start < end)
				end = hole->start;
		}
		if (behind == range.start)
			leak_read(hunt->search, range.start, behind = end, hunt->now.is_shared,
				  is_code ? mark_code : leak_mark_words);
		range.start = behind;
	}
}

/* ---- mappings ---- */

static bool is_special(const char *name)
{
	if (has_prefix(name, "/dev/"))
		return !has_prefix(name, "/dev/shm/") && !has_prefix(name, "/dev/zero");
	return has_prefix(name, "[vvar") || has_prefix(name, "[vdso") ||
	       has_prefix(name, "[vsyscall");
}

/* Nobody uses what a thread that has ended had on its stack, but what it returned. */
static void mark_left(const struct hunt *hunt, struct range range)
{
	struct os_stack_left left;

	if (os_stack_left(range.start, range.end, &left)) {
		mark_around(hunt, (struct range){ range.start, left.low }, false);
		mark_around(hunt, (struct range){ left.high, left.kept }, false);
		range.start = left.end;
	}
	mark_around(hunt, range, false);
}

/* A stack is one from its pointer on: what lies below was left there by calls that are over. */
static void mark_stack(const struct hunt *hunt, struct range range, bool is_stack)
{
	const struct leak_shared *shared = hunt->search->shared;
	uintptr_t lowest = range.end;

	if (hunt->stack >= range.start && hunt->stack < lowest) {
		lowest = hunt->stack;
		is_stack = true;
	}
	for (uint32_t i = 0; i < shared->nr_stacks; i++) {
		uintptr_t sp = shared->stacks[i];

		if (sp >= range.start && sp < lowest)
			lowest = sp < range.start + RED_ZONE ? range.start : sp - RED_ZONE;
	}
	if (is_stack && lowest == range.end) {
		mark_left(hunt, range);
		return;
	}
	if (is_stack)
		range.start = round_down(lowest, sizeof(uintptr_t));
	mark_around(hunt, range, false);
}

/* The one in the middle, by what lies beside it. */
static void mapping_mark(const struct hunt *hunt)
{
	const struct leak_mapping *now = &hunt->now, *before = &hunt->before, *next = &hunt->next;
	bool is_anonymous = !now->name[0] || now->name[0] == '[';
	/* Data that the loader closed once it was relocated lies before what is still written. */
	bool is_closed_data = !now->is_code && next->is_writable && now->name[0] &&
			      now->range.end == next->range.start &&
			      !strcmp(now->name, next->name);
	bool is_guarded = before->range.end == now->range.start && !before->is_readable;

	if (!now->is_readable || is_special(now->name))
		return;
	if (now->is_code && is_anonymous)
		mark_around(hunt, now->range, true);
	else if (now->is_writable || is_anonymous || is_closed_data)
		mark_stack(hunt, now->range, !strcmp(now->name, "[stack]") ||
			   (!now->name[0] && is_guarded));
}

static void mapping_push(struct hunt *hunt)
{
	hunt->before = hunt->now;
	hunt->now = hunt->next;
	memset(&hunt->next, 0, sizeof(hunt->next));
}

static bool line_use(const struct maps_line *line, void *arg)
{
	struct hunt *hunt = arg;
	struct leak_mapping *next = &hunt->next;
	size_t length = min_size(strlen(line->name), NAME_BYTES - 1);

	next->range = (struct range){ line->start, line->end };
	next->is_readable = line->is_readable;
	next->is_writable = line->is_writable;
	next->is_code = line->is_code;
	next->is_shared = line->is_shared;
	memcpy(next->name, line->name, length);
	next->name[length] = '\0';
	mapping_mark(hunt);
	mapping_push(hunt);
	return false;
}

int leak_roots(struct leak_search *search, uintptr_t stack)
{
	struct hunt hunt = { .search = search, .stack = stack };
	char buffer[LINE_BYTES];
	int error;

	search->pagemap = sys_open("/proc/self/pagemap", O_RDONLY, 0);
	holes_find(&hunt);
	leak_mark_words(search, &search->shared->arg, 1);
	leak_mark_words(search, search->shared->words, search->shared->nr_words);
	error = maps_each(buffer, sizeof(buffer), line_use, &hunt);
	mapping_mark(&hunt);
	return error;
}
