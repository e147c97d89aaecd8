/* SPDX-License-Identifier: MIT */
/*
 * What all barns hold together: SLUB_RETAIN at the most, or what the page layer lets
 * lie idle if that is more, and no more than the heap, so that a small one keeps little.
 *
 * That bound rises, up to BARN_BYTES, while chains that it refused are wanted again fast
 * (8 MiB within an eighth of a second): each has been given to its slabs object by
 * object, and taken from there.  It rises by no more than that, at most doubles from
 * one window to the next, and halves with each second since: a program that fills
 * and empties a cache twice is not one that does so all the time.  What is left when the
 * program falls silent counts, too: so it rises up to half of the heap until twelve
 * times the heap was wanted again, as the page layer's limit does (page/purge.c).
 * `slab_test` of 2 KiB, 20 MiB in a round: 12 and 11 cycles for a malloc and a free
 * before, 10 and 8 now.
 *
 * Where there is no room, the chains of barns that have not been used lately
 * make some.  Else the first cache that filled its barn would keep it,
 * and the others went to their slabs: `slab_test`, 8 bytes after 16 KiB, 12 cycles a free
 * and not 5.
 *
 * The bound is looked at without a lock, so it may be passed by a chain for each thread.
 */
#include "slab/account.h"

#define AGAIN_BYTES ((size_t)8 << 20)
#define HEAP_SHARE 2
#define PATIENCE 12
#define AGAIN_NS 125000000ull
#define DECAY_NS 1000000000ull
/* Puts without room after which barns that were not used meanwhile are idle, or half. */
#define TURN_PUTS 16
/* Chains that one put may send away: they may be shorter than its own. */
#define SENT_MAX 4

/* Estimates: a lost update raises the bound a little later. */
static _Atomic size_t raised_bytes;	/* the bound; 0: it is not raised */
static _Atomic size_t paid_bytes;	/* wanted again fast; halved too */
static _Atomic uint64_t raised_at_ns;	/* or halved */
static _Atomic bool was_low;		/* less than half of it was held since then */
static _Atomic size_t again_bytes;	/* refused, and wanted in this window */
static _Atomic uint64_t window_at_ns;
static _Atomic uint32_t puts_in_vain;	/* in this turn; 0: nobody looked yet */
static _Atomic bool some_sent;

_Atomic uint32_t barn_turn = 2;		/* 0 and 1: never used */

/* ---- the bound ---- */

usual static size_t bound_usual(void)
{
	return max_size(page_idle_limit(), option_value(OPTION_retain));
}

/*
 * For each second since it was raised.  Who looks holds more than the bound would be
 * without that: if less than half was there in this very second, it is in use.
 * `slab_test` of 8 KiB, written, 19 to 28 cycles as the second ended, and 18 to 20 now.
 */
static void bound_halve(uint64_t now)
{
	uint64_t at = __atomic_load_n(&raised_at_ns, __ATOMIC_RELAXED);
	uint64_t seconds;
	size_t raised;

	/* Another thread may have raised it since this one looked at the clock. */
	if ((int64_t)(now - at) < (int64_t)DECAY_NS)
		return;
	seconds = (now - at) / DECAY_NS;
	/* One thread halves it for these seconds. */
	if (!__atomic_compare_exchange_n(&raised_at_ns, &at,
					 at + seconds * DECAY_NS, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	if (__atomic_exchange_n(&was_low, false, __ATOMIC_RELAXED) &&
	    seconds == 1)
		return;
	seconds = min_size(seconds, 63);
	raised = size_read(&raised_bytes) >> seconds;
	size_write(&raised_bytes,
		   raised > option_value(OPTION_retain) ? raised : 0);
	size_write(&paid_bytes, size_read(&paid_bytes) >> seconds);
}

static size_t bound_raised(void)
{
	if (likely(!size_read(&raised_bytes)))
		return 0;
	bound_halve(os_clock_ns());
	return min_size(size_read(&raised_bytes), page_idle_most());
}

/* How far it may rise. */
static size_t bound_most(void)
{
	size_t heap = superblock_nr_used() * SUPERBLOCK_BYTES;
	size_t most = min_size(page_idle_most(), BARN_BYTES);

	if (size_read(&paid_bytes) / PATIENCE < heap)
		most = min_size(most, heap / HEAP_SHARE);
	return most;
}

static cold void bound_raise(size_t bytes)
{
	uint64_t now = os_clock_ns();
	uint64_t before = __atomic_exchange_n(&window_at_ns, now,
					      __ATOMIC_RELAXED);
	size_t from, most;

	if (now - before >= AGAIN_NS)
		return;
	bound_halve(now);
	size_write(&paid_bytes, size_read(&paid_bytes) + bytes);
	from = max_size(bound_usual(), size_read(&raised_bytes));
	most = bound_most();
	if (from >= most)
		return;
	__atomic_store_n(&raised_at_ns, now, __ATOMIC_RELAXED);
	size_write(&raised_bytes, min_size(from + min_size(from, bytes), most));
}

usual void barns_again(size_t bytes)
{
	bytes = __atomic_add_fetch(&again_bytes, bytes, __ATOMIC_RELAXED);
	if (likely(bytes < AGAIN_BYTES))
		return;
	/* Others may have seen as much: it counts once. */
	bytes = __atomic_exchange_n(&again_bytes, 0, __ATOMIC_RELAXED);
	if (bytes >= AGAIN_BYTES)
		bound_raise(bytes);
}

/* A look for bound_halve(). */
static void note_low(ptrdiff_t bytes)
{
	size_t raised = size_read(&raised_bytes);

	if (unlikely(raised) && bytes < (ptrdiff_t)(raised / 2) &&
	    !__atomic_load_n(&was_low, __ATOMIC_RELAXED))
		__atomic_store_n(&was_low, true, __ATOMIC_RELAXED);
}

/*
 * Measured with an eighth, a quarter and half of the heap: 100,000 objects freed
 * and allocated anew, in rounds, take 10 % more time and up to 40 % more faults.
 */
usual bool barns_have_room(void)
{
	size_t heap = superblock_nr_used() * SUPERBLOCK_BYTES;
	ptrdiff_t bytes = __atomic_load_n(&page_kept_bytes, __ATOMIC_RELAXED);

	note_low(bytes);
	if (bytes > (ptrdiff_t)max_size(heap, SUPERBLOCK_BYTES))
		return false;
	/* First what is mostly enough, and cheap. */
	return bytes <= (ptrdiff_t)option_value(OPTION_retain) ||
	       bytes <= (ptrdiff_t)page_idle_limit() ||
	       bytes <= (ptrdiff_t)bound_raised();
}

/* ---- room ---- */

/* Is it worth looking for idle barns?  Not again in a turn in which there were none. */
static bool turn_is_new(void)
{
	uint32_t puts = __atomic_load_n(&puts_in_vain, __ATOMIC_RELAXED);

	if (!puts)
		return true;
	if (puts < TURN_PUTS) {
		__atomic_store_n(&puts_in_vain, puts + 1, __ATOMIC_RELAXED);
		return false;
	}
	__atomic_store_n(&puts_in_vain, 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&barn_turn, 1, __ATOMIC_RELAXED);
	return true;
}

/* What is in @barn, if it was not used in the last turn. */
static size_t idle_bytes(const struct barn *barn, uint32_t turn)
{
	uint32_t used = __atomic_load_n(&barn->used, __ATOMIC_RELAXED);

	/* Signed: others may have begun the next turn meanwhile. */
	if ((int32_t)(turn - used) < 2)
		return 0;
	return __atomic_load_n(&barn->bytes, __ATOMIC_RELAXED);
}

/* The largest idle barn gives a chain to its slabs; false: there is none. */
cold static bool send_one(uint32_t turn)
{
	struct slub_cache *cache = NULL;
	size_t most = 0;
	uint32_t node = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
			size_t bytes = idle_bytes(&c->nodes[n]->barn, turn);

			if (bytes <= most)
				continue;
			most = bytes;
			cache = c;
			node = n;
		}
	}
	return cache && cache_empty_barn_by_one(cache, node);
}

cold bool barns_make_room(void)
{
	uint32_t turn;
	int i;

	if (!turn_is_new())
		return false;
	turn = __atomic_load_n(&barn_turn, __ATOMIC_RELAXED);
	for (i = 0; i < SENT_MAX && !barns_have_room(); i++) {
		if (!send_one(turn)) {
			__atomic_store_n(&puts_in_vain, 1, __ATOMIC_RELAXED);
			return false;
		}
		__atomic_store_n(&some_sent, true, __ATOMIC_RELAXED);
	}
	return i < SENT_MAX;
}

usual bool barns_have_sent(void)
{
	if (likely(!__atomic_load_n(&some_sent, __ATOMIC_RELAXED)))
		return false;
	return __atomic_exchange_n(&some_sent, false, __ATOMIC_RELAXED);
}

/* A chain too many or too few, also below 0: a handler may have forked amid a change. */
void barns_after_fork(void)
{
	ptrdiff_t bytes = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		for (uint32_t n = 0; n < slab_nr_nodes(); n++)
			bytes += (ptrdiff_t)c->nodes[n]->barn.bytes;
	}
	__atomic_store_n(&page_kept_bytes, bytes, __ATOMIC_RELAXED);
}
