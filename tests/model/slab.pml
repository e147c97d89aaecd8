/* SPDX-License-Identifier: MIT */
/*
 * A slab's word {freelist, counters} and its place in the node: refilled from,
 * carved, freed to without a lock, listed, given back (core/slab/node.c).
 *
 * The word changes by one compare-exchange; it is read in two loads, and may be
 * torn.  The page layer is modelled by `is_gone`: a slab that was given back is
 * nobody's until it is taken anew.
 *
 * Assertions: SLAB-1 to SLAB-4 (core/slab/slab.h); a slab is on the partial list if and only
 * if it says so, and then it has free objects or some to carve; nobody touches one that
 * is gone; an object is handed out once, and at the end each is free or held.
 */
#define SLABS 2
#define EACH 2			/* objects of a slab */
#define THREADS 2
#define OPERATIONS(me) (me -> 3 : 5)
#define NOBODY 255
#define NONE 255

typedef word {
	byte first;		/* of the freelist; 0: it is empty */
	byte inuse;
	bool frozen;
	bool listed
}

word state[SLABS];
byte count[SLABS];		/* carved */
bool is_gone[SLABS];
bool on_list[SLABS];
byte carve = NONE;		/* a slab */
byte nr_partial;
byte lock = NOBODY;		/* the node's */

/* Object o of slab s has the number s * EACH + o + 1. */
byte link[SLABS * EACH + 1];
byte holder[SLABS * EACH + 1];
byte nr_over;

#define slab_of(object) ((object - 1) / EACH)

inline check_slab(s)
{
	assert(!(state[s].frozen && state[s].listed));			/* SLAB-1 */
	assert(state[s].frozen || state[s].listed ||
	       (state[s].first == 0 && count[s] == EACH));		/* SLAB-2 */
	assert(on_list[s] == state[s].listed);
	assert((carve == s) == state[s].frozen);
	assert(!state[s].listed || state[s].first != 0 || count[s] < EACH)
}

/* What the lock protects is whole when it is let go of. */
inline check_node()
{
	if
	:: !is_gone[0] && !leaves[0] -> check_slab(0)
	:: else
	fi;
	if
	:: !is_gone[1] && !leaves[1] -> check_slab(1)
	:: else
	fi;
	assert(nr_partial == on_list[0] + on_list[1])
}

bool leaves[SLABS];		/* it is out of the node, and not given back yet */

inline acquire()
{
	atomic { lock == NOBODY -> lock = me }
}

inline release()
{
	atomic { assert(lock == me); check_node(); lock = NOBODY }
}

inline partial_add(s)
{
	atomic { assert(lock == me && !on_list[s]); on_list[s] = true; nr_partial++ }
}

inline partial_remove(s)
{
	atomic { assert(lock == me && on_list[s]); on_list[s] = false; nr_partial-- }
}

inline slab_read(s)
{
	atomic {
		assert(!is_gone[s]);
		old.inuse = state[s].inuse;
		old.frozen = state[s].frozen;
		old.listed = state[s].listed
	}
	old.first = state[s].first
}

#define SAME_COUNTERS(s) (state[s].inuse == old.inuse &&			\
	state[s].frozen == old.frozen && state[s].listed == old.listed)

inline copy(to, from)
{
	to.first = from.first;
	to.inuse = from.inuse;
	to.frozen = from.frozen;
	to.listed = from.listed
}

/* Where it fails, @old is what was found. */
inline slab_update(s)
{
	atomic {
		assert(!is_gone[s]);
		if
		:: state[s].first == old.first &&
			SAME_COUNTERS(s) ->	/*~ counters-not-compared: true -> */
			copy(state[s], new); done = true
		:: else -> copy(old, state[s]); done = false
		fi
	}
}

/* All that the freelist at @object has is this thread's. */
inline chain_taken(object)
{
	at = object;
	do
	:: at != 0 ->
		assert(holder[at] == NOBODY);
		holder[at] = me;
		at = link[at]
	:: else -> break
	od
}

/* ---- refill: under the lock ---- */

/* @bits: is it listed, frozen still. */
inline take_freelist(s, is_listed, is_frozen)
{
	slab_read(s);
	do
	:: old.first == 0 -> taken = 0; break
	:: else ->
		atomic {
			new.first = 0;
			new.inuse = count[s];
			new.listed = is_listed;
			new.frozen = is_frozen
		}
		slab_update(s);
		if
		:: done -> atomic { taken = old.first; chain_taken(taken); break }
		:: else
		fi
	od
}

inline carve_one(s)
{
	slab_read(s);
	atomic { object = s * EACH + count[s] + 1; count[s]++ }
	do
	:: atomic {
		copy(new, old);
		new.inuse++;
		if
		:: count[s] == EACH ->
			new.frozen = false;
			new.listed = false;
			new.listed = (old.first != 0)	/*~ carved-not-listed: skip */
		:: else
		fi;
		skip
	   }
	   slab_update(s);	/*~ carved-without-exchange: atomic { copy(state[s], new); done = true } */
	   if
	   :: done -> break
	   :: else
	   fi
	od;
	atomic { assert(holder[object] == NOBODY); holder[object] = me }
	if
	:: count[s] < EACH
	:: else ->
		if
		:: old.frozen ->
			carve = NONE;
			if
			:: new.listed -> partial_add(s)
			:: else
			fi
		:: else ->
			if
			:: !new.listed -> partial_remove(s)
			:: else
			fi
		fi
	fi
}

inline refill()
{
	acquire();
	if
	:: on_list[0] || on_list[1] ->
		if
		:: on_list[0] -> slab = 0
		:: on_list[1] -> slab = 1
		fi;
		take_freelist(slab, (count[slab] < EACH), false);	/*~ emptied-stays-listed: take_freelist(slab, true, false) */
		if
		:: taken == 0 -> carve_one(slab)
		:: taken != 0 && count[slab] == EACH -> partial_remove(slab)
		:: else
		fi
	:: else ->
		if
		:: carve != NONE ->
			slab = carve;
			take_freelist(slab, false, true);
			if
			:: taken == 0 -> carve_one(slab)
			:: else
			fi
		:: else -> slab = NONE
		fi
	fi;
	release()
}

/* A slab from the page layer, if it has one. */
inline grow()
{
	atomic {
		if
		:: is_gone[0] -> slab = 0; is_gone[0] = false; leaves[0] = true
		:: !is_gone[0] && is_gone[1] -> slab = 1; is_gone[1] = false; leaves[1] = true
		:: else -> slab = NONE
		fi
	}
	if
	:: slab != NONE ->
		acquire();
		atomic {
			count[slab] = 0;
			leaves[slab] = false;
			state[slab].first = 0;
			state[slab].inuse = 0;
			state[slab].frozen = (carve == NONE);
			state[slab].listed = (carve != NONE)
		}
		if
		:: carve == NONE -> carve = slab
		:: else -> partial_add(slab)
		fi;
		release()
	:: else
	fi
}

/* ---- slabs go ---- */

inline give_back(s)
{
	atomic {
		assert(state[s].inuse == 0 && !on_list[s] && carve != s);	/* SLAB-4 */
		assert(holder[s * EACH + 1] == NOBODY && holder[s * EACH + 2] == NOBODY);
		is_gone[s] = true;
		leaves[s] = false
	}
}

/* ---- free ---- */

inline fate_of(s)
{
	atomic {
		is_full = !old.frozen && !old.listed;
		empties = old.inuse == 1 && !old.frozen;
		discards = empties && nr_partial >= is_full;
		lists = is_full && !discards
	}
}

/* One object.  Nobody else can give its slab back until the exchange. */
inline free(freed)
{
	slab = slab_of(freed);
	locked = false;
	slab_read(slab);
	fate_of(slab);
	do
	:: fate_of(slab);	/*~ fate-not-looked-at-again: skip */
	   if
	   :: (lists || empties) && !locked ->	/*~ lock-behind-exchange: false -> */
		acquire();
		locked = true;
		slab_read(slab)
	   :: else ->
		link[freed] = old.first;	/*~ link-behind-exchange: swap 7 */
		atomic {
			copy(new, old);
			new.first = freed;
			new.inuse--;
			new.listed = (old.listed || lists) && !discards
		}
		atomic { slab_update(slab); if :: done -> holder[freed] = NOBODY; leaves[slab] = discards :: else fi }
		if
		:: done -> break
		:: else
		fi
	   fi
	od;
	if
	:: !locked && (lists || empties) -> acquire(); locked = true
	:: else
	fi;
	if
	:: locked ->
		if
		:: lists -> partial_add(slab)	/*~ listing-skipped: lists -> skip */
		:: else
		fi;
		if
		:: discards && old.listed -> partial_remove(slab)
		:: else
		fi;
		release();
		if
		:: discards -> give_back(slab)
		:: else
		fi
	:: else
	fi
}

/* An empty slab leaves the node: take_empty() and what follows. */
inline shrink()
{
	acquire();		/*~ shrink-without-lock: skip */
	slab = NONE;
	if
	:: on_list[0] && state[0].inuse == 0 -> slab = 0
	:: on_list[1] && state[1].inuse == 0 -> slab = 1
	:: carve != NONE && state[carve].inuse == 0 -> slab = carve	/*~ carved-slab-in-use: carve != NONE -> slab = carve */
	:: else
	fi;
	if
	:: slab != NONE ->
		if
		:: on_list[slab] -> atomic { on_list[slab] = false; nr_partial-- }
		:: else -> carve = NONE
		fi;
		leaves[slab] = true
	:: else
	fi;
	if
	:: lock == me -> release()
	:: else
	fi;
	if
	:: slab != NONE -> give_back(slab)
	:: else
	fi
}

proctype thread(byte me)
{
	word old, new;
	byte slab, taken, object, at, left = OPERATIONS(me);
	bool done, locked, is_full, empties, discards, lists;

	do
	:: left == 0 -> break
	:: left != 0 ->
		left--;
		if
		:: refill(); if :: slab == NONE -> grow() :: else fi
		:: shrink()
		:: holder[1] == me -> free(1)
		:: holder[2] == me -> free(2)
		:: holder[3] == me -> free(3)
		:: holder[4] == me -> free(4)
		fi;
		atomic {
			old.first = 0; old.inuse = 0; old.frozen = 0; old.listed = 0;
			new.first = 0; new.inuse = 0; new.frozen = 0; new.listed = 0;
			slab = 0; taken = 0; object = 0; at = 0; done = 0;
			locked = 0; is_full = 0; empties = 0; discards = 0; lists = 0
		}
	od;
	nr_over++
}

/* Each carved object is on its slab's freelist or with somebody. */
inline count_slab(s)
{
	nr = 0;
	at = state[s].first;
	do
	:: at != 0 ->
		assert(holder[at] == NOBODY && slab_of(at) == s && nr < EACH);
		nr++;
		at = link[at]
	:: else -> break
	od;
	assert(is_gone[s] || count[s] - nr == state[s].inuse);
	assert(is_gone[s] || state[s].inuse ==
	       (holder[s * EACH + 1] != NOBODY) + (holder[s * EACH + 2] != NOBODY))
}

init
{
	byte nr, at, me = NOBODY;

	/* A full slab, whose objects both threads have, and none. */
	atomic {
		count[0] = EACH; state[0].inuse = EACH; is_gone[1] = true;
		holder[1] = 0; holder[2] = 1; holder[3] = NOBODY; holder[4] = NOBODY;
		run thread(0); run thread(1)
	}
	atomic {
		nr_over == THREADS ->
		check_node(); count_slab(0); count_slab(1)
	}
}
