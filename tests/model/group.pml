/* SPDX-License-Identifier: MIT */
/*
 * Who answers for a charge while the group is deleted (features/groups/group.c, charge.c): the
 * owner is held before the charge is made, and let go of behind its end.
 *
 * A group below the root, charged by a thread and deleted by another.  The dead group's
 * structure and the owner's are used again when nobody can have them: the
 * structure behind a grace period (GROUP-5), the owner at its last reference (GROUP-3).
 *
 * Assertions: nobody touches either afterwards; what was charged is given back up to
 * the root; each owner goes once.
 */
#define ROOT 0
#define CHILD 1
#define NONE 255

byte usage[2];
byte outstanding[2] = 1;	/* the group's own reference */
byte heir[2] = NONE;
bool owner_gone[2];
bool group_gone;		/* the structure is another group's */
bool is_alive = true;
byte inside;			/* readers of group_domain */
byte nr_over;

inline group_of(owner)
{
	assert(!owner_gone[owner]);
	group = owner;
	if
	:: heir[owner] != NONE -> group = heir[owner]
	:: else
	fi
}

inline owner_drop(owner)
{
	atomic {
		assert(!owner_gone[owner] && outstanding[owner] > 0);
		outstanding[owner]--;
		left = outstanding[owner]
	}
	if
	:: left == 0 ->
		atomic {
			assert(!owner_gone[owner] && owner != ROOT);
			owner_gone[owner] = true
		}
		atomic {
			assert(outstanding[ROOT] > 0);
			if
			:: heir[owner] != NONE -> outstanding[ROOT]--
			:: else
			fi
		}
	:: else
	fi
}

/* Not if it is at its end: then the group is deleted. */
inline owner_hold()
{
	atomic {
		if
		:: outstanding[CHILD] != 0 ->	/*~ held-from-nothing: true -> */
			outstanding[CHILD]++;
			held = true
		:: else -> held = false
		fi
	}
}

inline charge_up()
{
	if
	:: group == CHILD -> atomic { assert(!group_gone); usage[CHILD]++ }
	:: else
	fi;
	usage[ROOT]++
}

inline uncharge_up()
{
	if
	:: group == CHILD ->
		atomic {
			assert(!group_gone);
			if
			:: usage[CHILD] > 0 -> usage[CHILD]--
			:: else		/* it was deleted meanwhile, and set to 0 */
			fi
		}
	:: else
	fi;
	atomic { assert(usage[ROOT] > 0); usage[ROOT]-- }
}

proctype charger()
{
	byte group, left;
	bool held, entered;

	inside++;
	if
	:: !is_alive -> inside--; goto over
	:: else
	fi;
	owner_hold();			/*~ held-behind-the-charge: group_of(CHILD); charge_up(); owner_hold(); held = true; goto charged */
	if
	:: held -> group_of(CHILD); charge_up()
	:: else
	fi;
charged:
	atomic { inside--; group = 0 }
	if
	:: held ->
		atomic { inside++; entered = true }	/*~ given-back-outside: skip */
		group_of(CHILD);
		uncharge_up();
		atomic { inside = inside - entered; entered = false; group = 0 }
		owner_drop(CHILD)	/*~ owner-never-dropped: skip */
	:: else
	fi;
over:
	nr_over++
}

proctype deleter()
{
	byte left;

	outstanding[ROOT]++;		/*~ parent-not-held: skip */
	is_alive = false;
	heir[CHILD] = ROOT;		/*~ heir-behind-the-drop: swap */
	owner_drop(CHILD);
	usage[CHILD] = 0;
	inside == 0;			/*~ grace-skipped: skip */
	group_gone = true;
	nr_over++
}

init
{
	atomic { run charger(); run charger(); run deleter() }
	atomic {
		nr_over == 3 ->
		assert(usage[ROOT] == 0 && owner_gone[CHILD] && outstanding[ROOT] == 1)
	}
}
