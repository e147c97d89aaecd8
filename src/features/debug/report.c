/* SPDX-License-Identifier: MIT */
/*
 * Reports, in the form of the kernel's.
 *
 * A report shows bytes that are put right under the node's lock.  So it is built under that
 * lock, in one of a few buffers, and written when the lock is free; the text of a bug that is
 * found while all buffers are in use is dropped.
 */
#include "core/base/turn.h"
#include "features/debug/debug.h"

#include <string.h>

#include "features/misuse/misuse.h"

#define REPORTS 4
#define REPORT_BYTES ((size_t)40 << 10)
/* Texts written per process; a loop that corrupts must not fill a disk. */
#define TEXTS_MAX 1000
/* Bytes of an object, and of what is around it, that are shown. */
#define OBJECT_SHOWN ((size_t)512)
#define AROUND_SHOWN ((size_t)64)
#define ROW 16

struct report {
	struct turn taken;
	struct text text;
	char buf[REPORT_BYTES];
};

static struct report reports[REPORTS] rarely_touched;
static _Atomic uint64_t nr_bugs, nr_dropped, nr_texts;

void report_total(void)
{
	uint64_t bugs = __atomic_load_n(&nr_bugs, __ATOMIC_RELAXED);

	if (bugs)
		log_message("%lu bugs found, %lu of their reports not written",
			    (unsigned long)bugs, (unsigned long)
			    __atomic_load_n(&nr_dropped, __ATOMIC_RELAXED));
}

static const char *destination(void)
{
	const char *path = option_text(OPTION_debug_report);

	if (path && *path)
		return path;
	/* SLUB_DEBUG asks for what it finds. */
	return option_text(OPTION_debug) || log_is_enabled() ||
			       misuse_ends_debugging() ?
		       "stderr" : NULL;
}

bool report_is_wanted(void)
{
	return destination() != NULL;
}

static struct report *report_take(void)
{
	for (int i = 0; i < REPORTS; i++) {
		struct report *r = &reports[i];

		if (!turn_try(&r->taken))
			continue;
		r->text = (struct text){ r->buf, REPORT_BYTES, 0 };
		sink_forget();
		return r;
	}
	return NULL;
}

/* The text to add to; NULL: nobody will read it. */
static struct text *text_of(struct debug_case *found)
{
	if (!found->report && report_is_wanted() &&
	    __atomic_load_n(&nr_texts, __ATOMIC_RELAXED) < TEXTS_MAX)
		found->report = report_take();
	return found->report ? &found->report->text : NULL;
}

/* ---- pieces ---- */

static void text_line(struct text *text, char c)
{
	for (int i = 0; i < 77; i++)
		text_printf(text, "%c", c);
	text_printf(text, "\n");
}

/* "Object   0x7f...: 6b 6b ...  kkk" in rows of 16. */
static void text_bytes(struct text *text, const char *what,
		       const unsigned char *p, size_t n)
{
	for (size_t row = 0; row < n; row += ROW) {
		size_t length = min_size(n - row, ROW);

		text_printf(text, "%-8s %p: ", what, (const void *)(p + row));
		for (size_t i = 0; i < ROW; i++) {
			if (i < length)
				text_printf(text, "%02x ", p[row + i]);
			else
				text_printf(text, "   ");
		}
		text_printf(text, " ");
		for (size_t i = 0; i < length; i++) {
			unsigned char c = p[row + i];

			text_printf(text, "%c", c >= ' ' && c <= '~' ? c : '.');
		}
		text_printf(text, "\n");
	}
}

static void text_track(struct text *text, const char *what,
		       const struct track *track)
{
	const uintptr_t *frames;
	uint64_t now = os_clock_ns();
	uint32_t nr;

	if (!track || !track->caller)
		return;
	if (track->when_ns > now) {
		text_printf(text, "%s by somebody whose record was overwritten\n", what);
		return;
	}
	text_printf(text, "%s in ", what);
	sink_describe(text, track->caller);
	text_printf(text, " age=%lums cpu=%u pid=%u\n",
		    (unsigned long)((now - track->when_ns) / 1000000),
		    track->cpu, track->thread);
	frames = stack_frames(track->stack, &nr);
	sink_describe_all(text, frames, nr);
}

static void text_slab(struct text *text, const struct debug_slab *slab)
{
	text_printf(text, "Slab %p objects=%u used=%u fp=%p flags=0x%x\n",
		    (const void *)slab->page, slab->objects, slab->inuse,
		    slab->freelist,
		    slab->page ? page_flags_read(slab->page) : 0);
}

static void text_object(struct text *text, const struct debug_case *found,
			const unsigned char *object)
{
	const struct debug_layout *l = found->layout;
	size_t left = min_size(l->left, AROUND_SHOWN);
	const void *next = NULL;

	if (l->link != DEBUG_LINK_OUTSIDE)
		memcpy(&next, object + l->link, sizeof(next));
	text_printf(text, "Object %p @offset=%zu fp=%p\n\n",
		    (const void *)object,
		    (size_t)((const char *)object - found->slab.start), next);
	text_bytes(text, "Redzone", object - left, left);
	text_bytes(text, "Object", object,
		   min_size(l->object_size, OBJECT_SHOWN));
	if (l->flags & SLUB_CACHE_RED_ZONE)
		text_bytes(text, "Redzone", object + l->object_size,
			   l->inuse - l->object_size);
	text_bytes(text, "Padding", object + l->end,
		   min_size(l->stride - l->left - l->end, AROUND_SHOWN));
}

static void text_whose(struct text *text, const struct debug_case *found)
{
	char name[32] = "";

	if (os_file_read("/proc/self/comm", name, sizeof(name)) > 0)
		name[strcspn(name, "\n")] = '\0';
	text_printf(text, "CPU: %u PID: %ld Thread: %ld Comm: %s\n", os_cpu_current(), sys_pid(),
		    sys_tid(), name);
	if (misuse_is_exiting()) {
		text_printf(text, "Found at exit\n");
		return;
	}
	text_printf(text, "Call Trace:\n");
	sink_describe_all(text, found->stack.frames, found->stack.nr);
}

/* Does @object begin where an object of the slab may? */
static bool is_object(const struct debug_case *found, const char *object)
{
	const struct debug_layout *l = found->layout;
	const char *start = found->slab.start;

	return object && start && object >= start + l->left && object < start + found->slab.bytes &&
	       (size_t)(object - start - l->left) % l->stride == 0;
}

static void text_trailer(struct text *text, struct debug_case *found,
			 const void *object)
{
	if (object && found->shown == object)
		return;
	if (is_object(found, object)) {
		text_track(text, "Allocated",
			   track_of(found->layout, object, TRACK_ALLOC));
		text_track(text, "Freed",
			   track_of(found->layout, object, TRACK_FREE));
	}
	if (found->slab.start)
		text_slab(text, &found->slab);
	if (is_object(found, object))
		text_object(text, found, object);
	if (!found->shown) {
		text_whose(text, found);
		if (is_object(found, object))
			text_printf(text, "Source lines: slub explain %ld %p, of a core file "
				    "slub explain CORE %p\n", sys_pid(), object, object);
	}
	found->shown = object;
}

/* ---- what the checks call ---- */

static void begin_bug(struct debug_case *found, struct text *text)
{
	found->bugs++;
	__atomic_fetch_add(&nr_bugs, 1, __ATOMIC_RELAXED);
	if (!text) {
		__atomic_fetch_add(&nr_dropped, 1, __ATOMIC_RELAXED);
		return;
	}
	text_line(text, '=');
	text_printf(text, "BUG %s (%ld): ", found->layout->name, sys_pid());
}

static void end_bug_line(struct debug_case *found, struct text *text)
{
	text_printf(text, "\n");
	text_line(text, '-');
	text_printf(text, found->meaning ? "%s\n\n" : "%s\n", found->meaning ? found->meaning : "");
	found->meaning = NULL;
}

void report_bug(struct debug_case *found, const void *object,
		const char *format, ...)
{
	struct text *text = text_of(found);
	va_list args;

	begin_bug(found, text);
	if (!text) {
		found->meaning = NULL;
		return;
	}
	va_start(args, format);
	text_vprintf(text, format, args);
	va_end(args);
	end_bug_line(found, text);
	text_trailer(text, found, object);
}

void report_bytes(struct debug_case *found, const void *object,
		  const char *what, const unsigned char *from,
		  const unsigned char *end, unsigned char right)
{
	struct text *text = text_of(found);

	begin_bug(found, text);
	if (!text) {
		found->meaning = NULL;
		return;
	}
	text_printf(text, "%s overwritten", what);
	end_bug_line(found, text);
	text_printf(text, "%p-%p @offset=%zu. First byte 0x%x instead of "
		    "0x%x\n", (const void *)from, (const void *)(end - 1),
		    (size_t)((const char *)from - found->slab.start),
		    *from, right);
	/* What is shown of a large object may not reach as far. */
	text_bytes(text, "Bytes", from,
		   min_size((size_t)(end - from), AROUND_SHOWN));
	text_trailer(text, found, object);
}

void report_also(struct debug_case *found, const void *object)
{
	struct text *text = text_of(found);

	if (!text)
		return;
	text_printf(text, "Object %p @offset=%zu\n", object,
		    (size_t)((const char *)object - found->slab.start));
	text_track(text, "Allocated",
		   track_of(found->layout, object, TRACK_ALLOC));
	text_track(text, "Freed", track_of(found->layout, object, TRACK_FREE));
}

void report_track(struct debug_case *found, const char *what,
		  const struct track *track)
{
	struct text *text = text_of(found);

	if (text)
		text_track(text, what, track);
}

void report_fix(struct debug_case *found, const char *format, ...)
{
	struct text *text = text_of(found);
	va_list args;

	found->fixes++;
	if (!text)
		return;
	text_printf(text, "FIX %s: ", found->layout->name);
	va_start(args, format);
	text_vprintf(text, format, args);
	va_end(args);
	text_printf(text, "\n\n");
}

void report_finish(struct debug_case *found)
{
	struct report *report = found->report;
	const char *path = destination();

	if (report) {
		if (path)
			sink_write(path, report->buf, report->text.used_bytes);
		if (__atomic_add_fetch(&nr_texts, 1, __ATOMIC_RELAXED) ==
		    TEXTS_MAX)
			log_message("%u reports written; further ones are "
				    "only counted", TEXTS_MAX);
		turn_end(&report->taken);
		found->report = NULL;
	}
	if (found->bugs && misuse_ends_debugging()) {
		log_always("aborting: SLUB_ON_ERROR=abort and a bug was found in %s",
			   found->layout->name);
		misuse_keep("a bug in a watched cache", found->shown, found->layout->name);
		misuse_end();
	}
}

void report_trace(const struct debug_layout *layout, const char *what,
		  const void *object, const struct debug_slab *slab)
{
	char buf[192];
	struct text text = { buf, sizeof(buf), 0 };
	const char *path = destination();

	if (!path)
		return;
	text_printf(&text, "TRACE %s %s %p inuse=%u fp=%p\n", layout->name,
		    what, object, slab->inuse, slab->freelist);
	sink_write(path, buf, text.used_bytes);
}
