/* SPDX-License-Identifier: MIT */
/*
 * SHEAF-1 (features/rcu/deferred.c): while there is a barrier that has waited for the callers,
 * the CPU's list of sheaves is its own.  It takes the list by plain stores.
 *
 * Assertions: no sheaf is in two hands; a barrier finds all that was freed, by calls
 * that had returned, before it began.
 */
#define CALLERS 2
#define CALLS 2
#define NONE 0

byte list;			/* a sheaf: 1 or 2; one CPU, of which the list holds one */
byte queued;			/* sheaves that were handed over, as bits */
byte held[3];			/* objects in each sheaf, as bits */
bool is_new[3];			/* nobody has it yet */
byte barriers;
byte calls[CALLERS];		/* begun and ended: odd while inside */
byte freed;			/* objects whose calls have returned */
byte given;			/* objects in the queue */
bool in_hand[3];

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
	fi;
	if
	:: sheaf == NONE ->
		atomic {
			if
			:: is_new[1] -> sheaf = 1
			:: !is_new[1] && is_new[2] -> sheaf = 2
			fi;
			is_new[sheaf] = false;
			in_hand[sheaf] = true
		}
	:: else
	fi
}

inline sheaf_add(object)
{
	held[sheaf] = held[sheaf] | BIT(object);
	if
	:: barriers != 0 -> hand_over(sheaf)	/*~ put-back-beside-a-barrier: false -> skip */
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
	sheaf = list;		/*~ list-taken-first: swap -3 */
	list = NONE;
	if
	:: sheaf != NONE ->
		atomic { assert(!in_hand[sheaf]); in_hand[sheaf] = true }
		hand_over(sheaf)
	:: else
	fi;
	if
	:: barriers != 0 -> barriers--
	:: else
	fi;
	assert((given & wanted) == wanted)
}

init
{
	atomic {
		is_new[1] = true; is_new[2] = true;
		run caller(0); run caller(1); run barrier()
	}
}
