/* SPDX-License-Identifier: MIT */
/*
 * A list under backend thread: the owner says that it is busy and reads the table; who
 * empties the list changes the table and asks whether the owner is busy
 * (core/percpu/list.c, core/percpu/collect.c).  A signal handler may interrupt the owner anywhere.
 *
 * The owner's stores wait in its buffer, in order: `busy`, then what it does to the list.
 *
 * Assertions: the owner, its handler and the collector are never in the list at once, and
 * the collector finds what the owner has done.
 */
#define OPERATIONS 2

bool base_is_own = true;	/* the table; else the dummy area */
bool busy;			/* as the memory has it */
byte in_list;			/* who is in the middle of an operation */
byte objects;			/* in the list, as the memory has it */
byte pushed;			/* and as the owner knows */

/* The owner's buffer: busy = 1, an object pushed, busy = 0. */
bool sets_busy, adds_object, ends_busy;

inline drain_busy()
{
	if
	:: sets_busy -> busy = true; sets_busy = false
	:: else
	fi
}

inline drain()
{
	drain_busy();
	if
	:: adds_object -> objects++; adds_object = false
	:: else
	fi;
	if
	:: ends_busy -> busy = false; ends_busy = false
	:: else
	fi
}

active proctype memory()
{
end:
	do
	:: atomic { sets_busy -> drain_busy() }
	:: atomic { !sets_busy && adds_object -> objects++; adds_object = false }
	:: atomic { !sets_busy && !adds_object && ends_busy ->
		busy = false; ends_busy = false }
	od
}

/* A thread sees its own stores. */
#define OWN_BUSY ((busy || sets_busy) && !ends_busy)

inline handler()
{
	if
	:: OWN_BUSY -> skip	/*~ handler-does-not-look: false -> skip */
	:: else -> atomic { in_list++; assert(in_list == 1); in_list-- }
	fi
}

inline owner_operation()
{
	atomic { drain(); skip }	/* of the operation before */
	sets_busy = true;		/*~ busy-behind-the-table: swap */
	own = base_is_own;
	if
	:: own ->
		atomic { in_list++; assert(in_list == 1) }
		handler();
		atomic { adds_object = true; pushed++; in_list-- }
	:: else
	fi;
	ends_busy = true		/*~ busy-ended-first: swap -4 */
}

proctype owner()
{
	byte left = OPERATIONS;
	bool own;

	do
	:: left == 0 -> break
	:: else -> owner_operation(); left--
	od
}

proctype collector()
{
	byte before;

	base_is_own = false;		/*~ stop-skipped: skip */
	atomic { drain(); skip }	/*~ membarrier-dropped: skip */
	!busy;				/*~ busy-not-waited-for: skip */
	atomic { in_list++; assert(in_list == 1); before = objects }
	atomic { assert(objects == before && pushed == before); objects = 0; pushed = 0 }
	in_list--;
	base_is_own = true
}

init
{
	atomic { run owner(); run collector() }
}
