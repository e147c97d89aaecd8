/* SPDX-License-Identifier: MIT */
/*
 * SHEAF-1 (features/rcu/deferred.c): while there is a barrier that has waited for the callers,
 * the CPU's list of sheaves is its own.  It takes the list by an exchange, for there may be
 * two.  A thread that is short of memory does the same without waiting: it takes the list only
 * if it finds no caller.  A caller that finds no sheaf makes one outside of its section, for
 * that may call back, and enters another.  SHEAF-3: whoever takes the list is a caller, too.
 *
 * Sequences of callers are one step here, against an exchange too; deferred.pml has what plain
 * stores can do.
 *
 * Assertions: no sheaf is in two hands; a barrier finds all that was freed, by calls
 * that had returned, before it began.
 */
#define CALLERS 2
#define CALLS 2
#define NONE 0

byte list;			/* a sheaf: 1, 2 or 3; one CPU, of which the list holds one */
byte queued;			/* sheaves that were handed over, as bits */
byte held[4];			/* objects in each sheaf, as bits */
bool is_new[4];			/* nobody has it yet */
byte barriers;
byte calls[4];			/* begun and ended: odd while inside; 2, 3: who takes lists */
byte freed;			/* objects whose calls have returned */
byte given;			/* objects in the queue */
bool in_hand[4];

#define BIT(n) (1 << (n))

inline hand_over(sheaf)
{
	atomic {
		assert(in_hand[sheaf]);
		in_hand[sheaf] = false;
		given = given | held[sheaf];
		held[sheaf] = 0;
		is_new[sheaf] = true
	}
}

inline sheaf_get()
{
	sheaf = NONE;
	if
	:: barriers == 0 ->	/*~ taken-beside-a-barrier: true -> */
		/* Off the list, in one sequence. */
		atomic {
			sheaf = list;
			list = NONE;
			if
			:: sheaf != NONE -> assert(!in_hand[sheaf]); in_hand[sheaf] = true
			:: else
			fi
		}
	:: else
	fi
}

/* Outside of the section. */
inline sheaf_make()
{
	atomic {
		if
		:: is_new[1] -> sheaf = 1
		:: !is_new[1] && is_new[2] -> sheaf = 2
		:: !is_new[1] && !is_new[2] && is_new[3] -> sheaf = 3
		fi;
		is_new[sheaf] = false;
		in_hand[sheaf] = true
	}
}

inline sheaf_add(object)
{
	held[sheaf] = held[sheaf] | BIT(object);
	if
	:: barriers != 0 -> hand_over(sheaf)
	:: else ->
		atomic {
			if
			:: list == NONE -> list = sheaf; in_hand[sheaf] = false; kept = true
			:: else -> kept = false
			fi
		}
		if
		:: !kept -> hand_over(sheaf)
		:: else
		fi
	fi
}

proctype caller(byte me)
{
	byte sheaf, call;
	bool kept;

	do
	:: call == CALLS -> break
	:: else ->
		calls[me]++;		/*~ not-a-reader: skip */
		sheaf_get();
		if
		:: sheaf == NONE ->
			calls[me]++;
			sheaf_make();
			calls[me]++
		:: else
		fi;
		sheaf_add(me * CALLS + call);
		calls[me]++;
		atomic { freed = freed | BIT(me * CALLS + call); call++; sheaf = NONE; kept = false }
	od
}

inline wait_for(who)
{
	before = calls[who];
	(before % 2 == 0 || calls[who] != before)
}

proctype barrier()
{
	byte before, sheaf, wanted;

	wanted = freed;
	barriers++;		/*~ barrier-not-said: skip */
	wait_for(0);		/*~ callers-not-waited-for: skip */
	wait_for(1);
	atomic { sheaf = list; list = NONE }	/*~ list-taken-first: swap -3 */
	if
	:: sheaf != NONE ->
		atomic { assert(!in_hand[sheaf]); in_hand[sheaf] = true }
		hand_over(sheaf)
	:: else
	fi;
	if
	:: barriers > 1 -> wait_for(2)	/*~ takers-not-waited-for: barriers > 1 -> skip */
	:: else
	fi;
	if
	:: barriers != 0 -> barriers--
	:: else
	fi;
	assert((given & wanted) == wanted)
}

/* deferred_drain(): one look at each caller. */
proctype drain()
{
	byte sheaf;
	bool nobody;

	barriers++;	/*~ drain-not-said: skip */
	nobody = calls[0] % 2 == 0;
	nobody = nobody && calls[1] % 2 == 0;
	if
	:: nobody ->
		calls[2]++;
		atomic { sheaf = list; list = NONE }
		if
		:: sheaf != NONE ->
			atomic { assert(!in_hand[sheaf]); in_hand[sheaf] = true }
			hand_over(sheaf)
		:: else
		fi;
		calls[2]++
	:: else
	fi;
	if
	:: barriers != 0 -> barriers--
	:: else
	fi
}

init
{
	atomic {
		is_new[1] = true; is_new[2] = true; is_new[3] = true;
		run caller(0); run caller(1); run drain(); run barrier()
	}
}
