/* SPDX-License-Identifier: MIT */
/*
 * Where numbers are those of CPUs the local list of a slab goes along with the one thread of a
 * process (core/slab/local_over.c), while a second one begins: LOCAL-7.  local.pml has the rest of
 * the protocol, and the stop.
 *
 * A handler may run between the look at the word and the exchange, and push to the list: its thread
 * is on the list's CPU then.
 *
 * Assertions: a sequence that commits finds the word as it read it, or claimed; an object is in one
 * place; the count of a list is its length; a slab with a local list is not empty.
 */
#define THREADS 2
#define CPUS 2
#define OBJECTS 3
#define OPERATIONS(me) (me -> 3 : 5)
#define DUMMY CPUS		/* no area */
#define OFF CPUS		/* no CPU */
#define NOBODY 2
#define CLAIMED 3
#define TO_REFILL 0
#define TO_PUSH 1
#define TO_SETTLE 2

/* The word, and what stands beside it. */
byte owner = NOBODY, room, head;
byte start;			/* also the watermark, while there is a list */
bool is_listed;			/* in the list of its owner */
bool is_marked;			/* its room may be too much */
bool is_late;			/* and nobody was told, once */
/* No list has begun, nor was anything given, since its look at the watermark. */
bool is_fresh[THREADS + 1];
/* The slab's state. */
byte first, inuse;

byte link[OBJECTS + 1];
byte base[CPUS];
bool is_locked;
byte nr_threads = 1;		/* that were counted */
bool is_busy[CPUS];		/* somebody runs there */
byte cpu[THREADS];
bool in_sequence[THREADS];
bool restarts[THREADS];
byte nr_over;
byte chain[THREADS + 1];	/* what each has; the last is nobody's */

inline run_somewhere(me)
{
	atomic {
		if
		:: !is_busy[0] -> cpu[me] = 0
		:: !is_busy[1] -> cpu[me] = 1
		fi;
		is_busy[cpu[me]] = true
	}
}

inline preempted(me)
{
	atomic { is_busy[cpu[me]] = false; cpu[me] = OFF }
	run_somewhere(me)
}

/* One instruction of a sequence. */
#define STEP(what)							\
	do								\
	:: atomic { !restarts[me] -> what; break }			\
	:: atomic { restarts[me] -> goto aborted }			\
	:: preempted(me); goto aborted					\
	od

#define BEGIN								\
	in_sequence[me] = true;						\
	STEP(number = cpu[me]);						\
	STEP(area = base[number])

#define READ_WORD							\
	STEP(w_owner = owner; w_room = room; w_head = head)

#define IS_CLAIMED (owner == CLAIMED && room == w_room && head == w_head)
#define IS_AS_READ (owner == w_owner && room == w_room && head == w_head)

inline lock()
{
	atomic { !is_locked -> is_locked = true }
}

inline unlock()
{
	is_locked = false
}

/* The same by a thread, which may be sent to the abort handler with it. */
inline lock_mine()
{
	atomic { !is_locked -> is_locked = true; has_lock = true }
}

inline unlock_mine()
{
	atomic { is_locked = false; has_lock = false }
}

/* How many objects @from leads to. */
inline length(from)
{
	n = 0;
	at = from;
	do
	:: at != 0 -> n++; at = link[at]
	:: else -> break
	od
}

inline nothing_is_fresh()
{
	is_fresh[0] = false;
	is_fresh[1] = false;
	is_fresh[THREADS] = false
}

/* A chain goes to the freelist: one exchange. */
inline give(from)
{
	atomic {
		length(from);
		assert(inuse >= n);
		at = from;
		do
		:: link[at] != 0 -> at = link[at]
		:: else -> break
		od;
		link[at] = first;
		first = from;
		inuse = inuse - n;
		nothing_is_fresh();
		assert(inuse > 0 || (head == 0 && !is_listed));
		at = 0; n = 0
	}
}

/*
 * The local list is @object, with @n, where @in_use were in use.  It has room for the others but
 * one, or for fewer: how many fewer is no part of the protocol.
 */
inline begin()
{
	atomic {
		assert(head == 0 && room == 0 && !is_marked);
		head = object;
		room = in_use - n - 1;
		if
		:: room > 0 -> room = 0
		:: skip
		fi;
		start = n + room;
		is_listed = true;
		owner = number;
		is_late = is_late || (inuse != in_use && start >= inuse);
		nothing_is_fresh();
		n = 0; at = 0
	}
}

/* Behind a sequence that took it, under the lock. */
inline taken(from)
{
	atomic {
		assert(is_listed);
		length(from);
		assert(n == start - w_room);
		is_listed = false;
		is_marked = false;
		at = 0; n = 0
	}
}

/*
 * The @mine objects at @object, by the freelist.  local_join(): is the local list the rest, or its
 * room too much for what is in use then?
 */
inline join_and_give(who)
{
	atomic { at = (is_listed -> start : 0); is_fresh[who] = true }
	in_use = inuse;
	if
	:: at == 0 || in_use > at + mine
	:: else ->
		lock();
		atomic { w_owner = owner; w_room = room; w_head = head }
		atomic { in_use = inuse; is_fresh[who] = true }
		if
		:: !is_listed || w_owner >= NOBODY
		:: is_listed && w_owner < NOBODY && start - w_room + mine == in_use ->
			is_listed = false;
			is_marked = false;
			atomic {
				assert(IS_AS_READ);
				head = 0;
				room = 0
			}
			atomic {
				at = object;
				do
				:: link[at] != 0 -> at = link[at]
				:: else -> break
				od;
				link[at] = w_head
			}
		:: else -> is_marked = true
		fi;
		unlock()
	fi;
	/* A list began, or was set right, or another one gave something, behind the look. */
	atomic {
		length(object);
		is_late = is_late || (is_listed && !is_marked && !is_fresh[who] &&
				      start >= inuse - n);
		n = 0; at = 0;
		give(object)
	}
}

proctype thread(byte me)
{
	byte number, area, w_owner, w_room, w_head, object, at, n, left = OPERATIONS(me);
	byte rest;	/* of the chain */
	byte in_use, mine;
	bool has_lock, is_pushing;
	byte why;	/* the list is taken */

	run_somewhere(me);
	if
	:: me == 1 -> nr_threads++	/*~ not-counted: me == 1 -> skip */
	:: else
	fi;
choose:
	atomic {
		number = 0; area = 0; w_owner = 0; w_room = 0; w_head = 0; at = 0; n = 0;
		object = 0; rest = 0; in_use = 0; mine = 0; why = TO_REFILL
	}
	if
	:: left == 0 -> goto over
	:: else -> left--
	fi;
	if
	:: chain[me] == 0 -> goto refill
	:: chain[me] != 0 -> goto push
	:: chain[me] != 0 -> goto flush
	:: is_marked -> goto settle
	:: is_listed && nr_threads == 1 -> goto take_along
	fi;

	/* The list of the CPU is full. */
push:
	BEGIN;
	if
	:: area == DUMMY -> goto failed
	:: else
	fi;
	READ_WORD;
	if
	:: w_owner != number -> goto failed
	:: else
	fi;
	if
	:: w_room == 0 -> goto failed
	:: else
	fi;
	atomic { object = chain[me]; rest = link[object]; is_pushing = true }
	STEP(link[object] = w_head);
	STEP(assert(IS_AS_READ || IS_CLAIMED); head = object; room = w_room - 1; owner = w_owner;
	     chain[me] = rest; in_sequence[me] = false; is_pushing = false);
	goto choose;
failed:
	atomic { in_sequence[me] = false; restarts[me] = false }

	/* The slow way: put_first_or_last(). */
	number = cpu[me];
	if
	:: skip
	:: preempted(me)
	fi;
	lock_mine();
	if
	:: owner != number && owner < NOBODY && nr_threads == 1 -> unlock_mine(); goto take_along
	:: owner != number && (owner >= NOBODY || nr_threads != 1) -> unlock_mine(); goto choose
	:: else
	fi;
	in_use = inuse;		/* others make it less meanwhile */
	if
	:: !is_listed && (in_use < 2 || nr_threads != 1) ->
		unlock_mine();
		goto flush
	:: !is_listed && in_use >= 2 && nr_threads == 1 ->
		atomic {
			object = chain[me];
			chain[me] = link[object];
			link[object] = 0
		}
		n = 1;
		begin();
		unlock_mine();
		goto choose
	:: is_listed && room != 0 ->
		unlock_mine();
		goto choose
	:: is_listed && room == 0 -> why = TO_PUSH; goto take
	fi;

	/* The local list leaves its slab: for a refill, or with the last object. */
take:
	BEGIN;
	if
	:: area == DUMMY -> goto not_taken	/* it need not: the lock is held */
	:: else
	fi;
	READ_WORD;
	if
	:: w_owner != number -> goto not_taken
	:: else
	fi;
	STEP(assert(IS_AS_READ); head = 0; room = 0; in_sequence[me] = false);
	taken(w_head);
	in_use = inuse;
	atomic {
		object = w_head;
		if
		:: why == TO_PUSH ->
			object = chain[me];
			chain[me] = link[object];
			link[object] = w_head
		:: else
		fi;
		length(object);
		at = 0
	}
	if
	:: why != TO_REFILL && in_use > n ->
		/* No, others are out: with the room that is right. */
		begin();
		unlock_mine();
		goto choose
	:: else
	fi;
	unlock_mine();
	if
	:: why == TO_REFILL ->
		atomic { assert(chain[me] == 0); chain[me] = object; n = 0 }
		goto choose
	:: else ->
		atomic { mine = n; n = 0 }
		goto give_back
	fi;
not_taken:
	atomic { in_sequence[me] = false; restarts[me] = false }
	unlock_mine();
	goto choose;

refill:
	number = cpu[me];
	if
	:: skip
	:: preempted(me)
	fi;
	lock_mine();
	if
	:: is_listed && owner == number -> goto take
	:: else
	fi;
	if
	:: first == 0 -> unlock_mine(); goto choose
	:: else
	fi;
	atomic {
		chain[me] = first;
		first = 0;
		length(chain[me]);
		inuse = inuse + n;
		n = 0; at = 0
	}
	/* local_own() */
	if
	:: is_listed
	:: else -> atomic { owner = number; room = 0; head = 0 }
	fi;
	unlock_mine();
	goto choose;

	/* A list that others have marked. */
settle:
	number = cpu[me];
	if
	:: skip
	:: preempted(me)
	fi;
	lock_mine();
	if
	:: is_listed && is_marked && owner == number -> why = TO_SETTLE; goto take
	:: else -> unlock_mine(); goto choose
	fi;

take_along:
	lock_mine();
	number = cpu[me];
	atomic { w_owner = owner; w_room = room; w_head = head }
	if
	:: w_owner == number || w_owner >= NOBODY -> unlock_mine(); goto choose
	:: w_owner != number && w_owner < NOBODY && !is_listed ->
		owner = number;
		unlock_mine();
		goto choose
	:: else
	fi;
	if
	:: atomic {
		chain[me] != 0 && owner < NOBODY && !is_busy[owner] && room > 0 ->
		object = chain[me];
		chain[me] = link[object];
		link[object] = head;
		head = object;
		room--
	}
	:: skip
	fi;
	atomic {
		if
		:: IS_AS_READ -> owner = CLAIMED	/*~ stored-without-a-look: true -> owner = CLAIMED; room = w_room; head = w_head */
		:: else -> unlock_mine(); goto choose
		fi
	}
	if
	:: nr_threads == 1	/*~ looked-at-no-thread: true */
	:: nr_threads != 1 ->
		atomic {
			if
			:: IS_CLAIMED -> owner = w_owner	/*~ taken-back-without-a-look: true -> owner = w_owner; room = w_room; head = w_head */
			:: else
			fi
		}
		unlock_mine();
		goto choose
	fi;
	owner = number;
	unlock_mine();
	goto choose;

	/* Another way: by the slab's freelist. */
flush:
	atomic {
		object = chain[me];
		chain[me] = link[object];
		link[object] = 0
	}
	mine = 1;
	goto give_back;
give_back:
	join_and_give(me);
	goto choose;
aborted:
	atomic {
		in_sequence[me] = false; restarts[me] = false;
		if
		:: is_pushing -> link[object] = rest; is_pushing = false
		:: else
		fi
	}
	if
	:: has_lock -> unlock_mine()
	:: else
	fi;
	goto choose;
over:
	atomic { is_busy[cpu[me]] = false; cpu[me] = OFF; nr_over++ }
}

inline look(from)
{
	at = from;
	do
	:: at != 0 -> assert(!seen[at]); seen[at] = true; nr++; at = link[at]
	:: else -> break
	od
}

init
{
	byte at, nr, in_slab;
	bool seen[OBJECTS + 1];

	atomic {
		base[1] = 1;
		chain[0] = 1; link[1] = 2; link[2] = 0;
		chain[1] = 3;
		inuse = 3;
		owner = 0;
		cpu[0] = OFF; cpu[1] = OFF;
		run thread(0); run thread(1)
	}
	d_step {
		nr_over == THREADS ->
		look(first);
		in_slab = nr;
		assert(inuse == OBJECTS - in_slab);
		look(head);
		assert(is_listed == (head != 0) && owner != CLAIMED);
		/*
		 * The last object comes the slow way, or somebody is told; but for one thread that
		 * is late, whose slab then waits for a refill or a trim though it is whole.
		 */
		assert(!is_listed || is_marked || is_late || nr - in_slab + room < inuse);
		look(chain[0]);
		look(chain[1]);
		assert(nr == OBJECTS)
	}
}
