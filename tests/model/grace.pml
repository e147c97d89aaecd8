/* SPDX-License-Identifier: MIT */
/*
 * What waits for readers: fresh, waiting, ripe, released (features/rcu/grace.c).  The queue's
 * lock makes each atomic step; readers are asked, and items released, without it.
 *
 * SRCU itself is srcu.pml.  Here a cookie is a moment, and the readers have left if
 * none is inside that came before it.
 *
 * Assertions: an item is released once, and after every reader has left that could
 * see it; who flushes the queue finds what was added before released.
 */
#define ITEMS 3

byte fresh, waiting, ripe;	/* a bit for each item */
byte cookie, unreleased, batch, done;
byte added;			/* items of each kind, as bits too */
byte released;
byte now = 1;			/* moments */
byte hand;			/* taken, and not released yet */
bool is_inside;
byte came_at, seen;		/* by the reader: when, and which items */

#define BIT(item) (1 << (item))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))
#define BATCH_OVER (unreleased == 0)	/*~ batch-not-waited-for: #define BATCH_OVER true */
#define READERS_LEFT(moment) (!is_inside || came_at >= moment)

inline begin()
{
	if
	:: waiting == 0 && fresh != 0 ->	/*~ waiting-overtaken: fresh != 0 -> */
		waiting = fresh;
		fresh = 0;
		now++;			/*~ old-cookie-kept: skip */
		cookie = now
	:: else
	fi;
	assert((fresh | waiting | ripe | hand | released) == added)
}

inline batch_done()
{
	if
	:: unreleased == 0 -> done = done + batch; batch = 0
	:: else
	fi
}

inline ripen()
{
	atomic {
		begin();
		mine = (waiting != 0 && BATCH_OVER -> cookie : 0)
	}
	if
	:: mine != 0 && READERS_LEFT(mine) ->	/*~ readers-not-asked: mine != 0 -> */
		atomic {
			if
			:: waiting != 0 && cookie == mine && BATCH_OVER ->	/*~ another-batch-ripened: waiting != 0 && BATCH_OVER -> */
				ripe = ripe | waiting;
				batch = COUNT(waiting);
				unreleased = batch;
				waiting = 0;
				begin()
			:: else
			fi
		}
	:: else
	fi
}

/* One item at the most. */
inline take_ripe()
{
	atomic {
		if
		:: ripe & 1 -> item = 1
		:: ripe & 2 -> item = 2
		:: ripe & 4 -> item = 4
		:: ripe == 0 -> item = 0
		fi;
		hand = hand | item;
		ripe = ripe & ~item	/*~ taken-and-left: skip */
	}
}

inline poll()
{
	ripen();
	take_ripe();
	if
	:: item != 0 ->
		atomic {
			assert(!(released & item));
			assert(!is_inside || !(seen & item));
			released = released | item;
			hand = hand & ~item
		}
		atomic { unreleased--; batch_done() }	/*~ counted-before-released: swap -6 */
	:: else
	fi
}

proctype adder(byte first, last)
{
	byte item, mine;

	do
	:: first <= last ->
		atomic { added = added | BIT(first); fresh = fresh | BIT(first); first++ }
		poll()
	:: else -> break
	od
}

proctype reader()
{
	byte turns = 1;

	do
	:: turns == 0 -> break
	:: else ->
		/* It finds what nobody has taken out of its sight. */
		atomic { is_inside = true; came_at = now; seen = ~added & 7; turns-- }
		is_inside = false
	od
}

proctype flusher()
{
	byte item, mine, target, wanted;

	atomic { target = COUNT(added); wanted = added }
	do
	:: done >= target -> break	/*~ flush-looks-at-none: true -> break */
	:: else ->
		!is_inside;	/* it waits for readers, and then a little more */
		poll()
	od;
	assert((released & wanted) == wanted)
}

init
{
	atomic { run adder(0, 1); run adder(2, 2); run reader(); run flusher() }
}
