/* SPDX-License-Identifier: MIT */
/*
 * What another process asks for (features/debug/mailbox.h), done by the next thread that comes by.
 *
 * That thread is in the middle of malloc or free, and has no time and perhaps no stack:
 *
 * ANSWER-1: A piece is one cache, or about 1 MiB of watched slabs, and waits for nobody:
 * where another thread would have to be waited for, the next slow path tries again.  A slow
 * path does one piece.  Where slow paths are rare one does more, for a part of the time since
 * the last: a program with twenty requests a second would be at some hundred caches for long.
 * ANSWER-2: No piece is done in a signal handler, as far as that can be known
 * (core/os/signal.c), nor by a thread that is in the library already, by a handler or a
 * callback: it has something in hand that a piece would look for, or wait for.
 * ANSWER-3: One thread at a time does a piece.  `work` is that thread's.
 */
#include "core/base/glob.h"
#include "core/base/turn.h"
#include "core/os/start_only.h"
#include "features/debug/mailbox.h"
#include "features/typed/typed.h"
#include "features/movable/movable.h"

#include <errno.h>
#include <string.h>

#include "features/watch/watch.h"
#include "features/guard/guard.h"
#include "features/profile/sample.h"

#include <slub/debug.h>

/* How often a cache is come back to, before it is taken as it is. */
#define TRIES_MAX 1000
/* A slow path takes this part of the time since the last piece, if that was long. */
#define TIME_SHARE 8
#define RARE_NS 1000000u
#define SLOW_PATH_NS_MAX 10000000u
/* So long at a time by a thread that does nothing else, or waits. */
#define SERVE_NS 20000000u

int (*debug_mailbox_set)(char *text) start_only;
long (*debug_mailbox_profile)(const char *text) start_only;

/* How far the request with this id is. */
static struct {
	uint64_t id;
	uint32_t number;	/* the next cache's; 0: not begun */
	uint32_t tries;		/* of this cache */
	char *at;		/* in the heap */
	long result;
	uint64_t ended_ns;	/* the last piece; 0: none */
} work;
/* By ANSWER-3. */
static struct turn answering;

bool debug_is_meant(const struct slub_cache *cache, const char *pattern)
{
	char name[SLUB_CACHE_NAME_MAX + 1];
	size_t length = strlen(pattern);
	bool found;

	if (cache_is_twin(cache) || !cache_name_copy(cache, name))
		return false;
	found = !length || glob_matches(pattern, length, name, strlen(name));
	/* Or one of the names that it is shared under. */
	for (unsigned int n = 0; !found && slub_cache_alias(cache, n, name); n++)
		found = glob_matches(pattern, length, name, strlen(name));
	return found;
}

/* ---- a piece: true when all is done ---- */

static bool done(long result)
{
	work.result = result;
	return true;
}

/* To be tried again, unless that was often enough. */
static bool busy(void)
{
	return ++work.tries >= TRIES_MAX && done(-EBUSY);
}

static uint32_t next_number(void)
{
	uint32_t next = percpu_next_number(work.number);

	return next ? next : percpu_numbers_end();
}

/*
 * One cache that is meant, by the order of their slots: these stay, whatever caches come
 * and go.  @act returns 1, 0 of a cache that is not meant, or -errno: EAGAIN and EBUSY
 * to be called again.
 */
static bool next_cache(const char *text,
		       int (*act)(struct slub_cache *cache, const char *text))
{
	for (; work.number < percpu_numbers_end(); work.number = next_number()) {
		struct slub_cache *cache = cache_numbered(work.number);
		int ret;

		if (!cache || entry_number(cache->slot) != work.number)
			continue;
		ret = act(cache, text);
		if (!ret)
			continue;
		if ((ret == -EAGAIN || ret == -EBUSY) &&
		    ++work.tries < TRIES_MAX)
			return false;
		if (ret < 0 && ret != -EAGAIN)
			return done(ret);
		work.tries = 0;
		work.result++;
		work.number = next_number();
		return false;
	}
	return true;
}

static void tell_progress(uint64_t so_far, uint64_t total)
{
	slub_debug_mailbox.done = so_far;
	slub_debug_mailbox.total = total;
}

static bool of_caches(const char *text,
		      int (*act)(struct slub_cache *cache, const char *text))
{
	bool is_done = next_cache(text, act);

	tell_progress(work.number, percpu_numbers_end());
	return is_done;
}

static int act_debug(struct slub_cache *cache, const char *setting)
{
	return cache_debug_by(cache, setting, SWITCH_AT_ONCE);
}

static int act_shrink(struct slub_cache *cache, const char *pattern)
{
	struct cache_hold pin;

	if (!debug_is_meant(cache, pattern) || !cache_pin(cache, &pin))
		return 0;
	/* Not slub_cache_shrink(): this may be a reader itself. */
	cache_flush_now(cache);
	cache_give_back_slabs(cache);
	/* In one piece, as malloc_trim(): pages without an object that slabs in use have. */
	cache_purge_objects(cache);
	cache_unpin(&pin);
	return 1;
}

/* Sampling has ended: what lies in its lists. */
static int act_unguard(struct slub_cache *cache, const char *unused)
{
	(void)unused;
	return cache_sample_slot(cache) ? act_shrink(cache, "") : 0;
}

static bool do_debug(const char *setting)
{
	if (!debug_letters_valid(setting))
		return done(-EINVAL);
	/* By its name one is meant that nobody has used yet. */
	if (!work.number && !caches_are_made())
		return busy();
	return of_caches(setting, act_debug);
}

static bool can_validate(const char *pattern)
{
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		if (debug_is_meant(c, pattern) && watch_next(c, NULL))
			return true;
	}
	return false;
}

static bool do_validate(const char *pattern)
{
	bool more;

	if (!work.at && !can_validate(pattern))
		return done(-EINVAL);
	more = debug_validate_some(&work.at, &work.result, pattern);
	tell_progress((uintptr_t)work.at - heap_start, pagemap_committed());
	return !more;
}

/* What was drawn for guards and samples counts no more, cache by cache. */
static bool unguard_all(void)
{
	return of_caches("", act_unguard) && done(0);
}

/* A switch answered @result; @is_off: then unguard_all().  False: once more, or later. */
static bool switched(long result, bool is_off)
{
	if (result == -EBUSY)
		return busy();
	if (result || !is_off)
		return done(result);
	work.tries = 0;
	work.number = 1;
	return unguard_all();
}

static bool do_guard(const char *text)
{
	size_t every = os_parse_number(&text);

	if (*text || !guard_switch)
		return done(-EINVAL);
	return work.number ? unguard_all() : switched(guard_switch(every), !every);
}

/* In one piece: a system call for each run of free pages, and page_budget() bounds them. */
static cold bool do_node(const char *text)
{
	size_t node = os_parse_number(&text);

	if (*text || node >= slab_nr_nodes())
		return done(-EINVAL);
	return done((long)(page_purge_node((uint32_t)node) * PAGE_BYTES));
}

/* What was asked of an option is done at once. */
static cold bool do_set(char *text)
{
	int result = debug_mailbox_set ? debug_mailbox_set(text) : -EINVAL;

	return result == -EBUSY ? busy() : done(result);
}

static cold bool do_profile(const char *text)
{
	if (work.number)
		return unguard_all();
	return switched(debug_mailbox_profile ? debug_mailbox_profile(text) : -EINVAL,
			!strcmp(text, "stop"));
}

static bool do_piece(struct debug_request *request)
{
	if (work.id != request->id) {
		memset(&work, 0, sizeof(work));
		work.id = request->id;
		tell_progress(0, 0);
		slub_debug_mailbox.begun = work.id;
	}
	switch (request->operation) {
	case MAILBOX_DEBUG:
		return do_debug(request->text);
	case MAILBOX_VALIDATE:
		return do_validate(request->text);
	case MAILBOX_SHRINK:
		return of_caches(request->text, act_shrink);
	case MAILBOX_GUARD:
		return do_guard(request->text);
	case MAILBOX_SET:
		return do_set(request->text);
	case MAILBOX_PROFILE:
		return do_profile(request->text);
	case MAILBOX_NODE:
		return do_node(request->text);
	}
	return done(-EINVAL);
}

/* ---- the protocol ---- */

static void leave(uint32_t taken, uint32_t next)
{
	/* release: what was written comes first; else it was not for us any more */
	__atomic_compare_exchange_n(&slub_debug_mailbox.state, &taken, next,
				    false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/*
 * Copies the request that this thread has just taken.  False: it was withdrawn, or
 * others are writing theirs.
 */
static bool copy_request(uint32_t number, struct debug_request *request)
{
	/* seq_cst: after TAKEN was stored; pairs with the asker's system calls */
	uint64_t id = __atomic_load_n(&slub_debug_mailbox.request.id,
				      __ATOMIC_SEQ_CST);

	memcpy(request, &slub_debug_mailbox.request, sizeof(*request));
	return id && id == request->id && MAILBOX_NUMBER(id) == number &&
	       request->check == debug_request_check(request) &&
	       !request->text[DEBUG_MAILBOX_TEXT_MAX];
}

static void answer(uint32_t number)
{
	struct debug_mailbox *box = &slub_debug_mailbox;
	uint32_t taken = number | MAILBOX_TAKEN;
	struct debug_request request;

	if (!copy_request(number, &request)) {
		leave(taken, MAILBOX_IDLE);
	} else if (!do_piece(&request)) {
		work.ended_ns = os_clock_ns();
		leave(taken, number | MAILBOX_REQUEST);
	} else {
		box->result = work.result;
		work.id = 0;
		/* release: the result is there when the asker reads its id */
		__atomic_store_n(&box->answered, request.id, __ATOMIC_RELEASE);
		leave(taken, MAILBOX_IDLE);
	}
}

/* ANSWER-2 */
bool debug_mailbox_is_outside(void)
{
	const uint32_t inside = THREAD_IN_STATS | THREAD_IN_RECLAIM |
				THREAD_IN_INIT | THREAD_FORKING |
				THREAD_IN_DEFRAG | THREAD_SIGNALS_WAIT;

	return !slub_thread.locks_held && !(slub_thread.flags & inside) &&
	       !thread_holds_cache();
}

static bool may_answer(void)
{
	uint32_t flags = __atomic_load_n(&slub_debug_mailbox.request.flags,
					 __ATOMIC_RELAXED);

	if (!debug_mailbox_is_outside())
		return false;
	if (!os_is_on_signal_stack() &&
	    (flags & MAILBOX_BLOCKED_TOO || !os_blocks_handled_signal()))
		return true;
	__atomic_fetch_add(&slub_debug_mailbox.nr_refused, 1, __ATOMIC_RELAXED);
	return false;
}

static bool is_off(void)
{
	size_t attach = option_value(OPTION_attach);

	return attach == ATTACH_NO ||
	       (attach == ATTACH_AUTO && SLUB_CONFIG_HARDENED);
}

/* Does a request wait? */
static bool is_asked(uint32_t *request)
{
	*request = __atomic_load_n(&slub_debug_mailbox.state, __ATOMIC_RELAXED);
	return (*request & MAILBOX_STATE) == MAILBOX_REQUEST;
}

/* By the thread whose turn it is.  True: it did a piece, and there is more to do. */
static bool take_piece(void)
{
	uint32_t request, number;

	if (!is_asked(&request))
		return false;
	number = request & ~(uint32_t)MAILBOX_STATE;
	/* seq_cst: what was asked was written before; MAILBOX-3 */
	if (__atomic_compare_exchange_n(&slub_debug_mailbox.state, &request,
					number | MAILBOX_TAKEN, false,
					__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		answer(number);
	return is_asked(&request);
}

/* Pieces for @ns, one at the least, and none that would have to wait for another thread. */
static bool take_pieces(uint64_t ns)
{
	uint64_t end = os_clock_ns() + ns;
	bool more;

	do {
		more = take_piece();
	} while (more && !work.tries && os_clock_ns() < end);
	return more;
}

/* By ANSWER-1: 0 for one piece. */
static uint64_t slow_path_ns(void)
{
	uint64_t now = os_clock_ns();
	uint64_t since = work.id && work.ended_ns ? now - work.ended_ns : 0;

	return since < RARE_NS ? 0 : min_size(since / TIME_SHARE, SLOW_PATH_NS_MAX);
}

cold void debug_mailbox_answer(void)
{
	uint32_t request;

	if (is_off() || !is_asked(&request) || !may_answer() || !turn_try(&answering))
		return;
	take_pieces(slow_path_ns());
	turn_end(&answering);
}

cold bool debug_mailbox_serve(void)
{
	uint32_t request;
	bool more;

	if (is_off() || !is_asked(&request) || !debug_mailbox_is_outside())
		return false;
	if (!turn_try(&answering))
		return true;
	more = take_pieces(SERVE_NS);
	turn_end(&answering);
	return more;
}

usual void debug_mailbox_configure(void)
{
	slub_debug_mailbox.is_off = is_off();
}

/* Whatever is in it, and was being answered: the parent was asked. */
usual void debug_mailbox_after_fork(void)
{
	/* Nobody has asked anything, mostly: nothing is written. */
	if (likely(!work.id && !slub_debug_mailbox.request.id &&
		   __atomic_load_n(&slub_debug_mailbox.state, __ATOMIC_RELAXED) == MAILBOX_IDLE))
		return;
	work.id = 0;
	slub_debug_mailbox.request.id = 0;
	__atomic_store_n(&slub_debug_mailbox.state, MAILBOX_IDLE,
			 __ATOMIC_RELAXED);
}
