/* SPDX-License-Identifier: MIT */
/*
 * The local list of a slab (core/slab/local.h): pushed to by the sequences of the CPU that owns the
 * slab, begun, taken and given to another CPU under the node's lock, and taken off CPUs that are
 * stopped.  LOCAL-1 to LOCAL-5.
 *
 * Threads run on CPUs, one on each at a time.  In a sequence a thread may be preempted before
 * each step, then it begins anew wherever it runs next; a membarrier sends everybody who is in one
 * to the abort handler.  Behind a look at the number of its CPU a thread may be elsewhere.
 *
 * Assertions: a sequence that commits finds the word as it read it; an object is in one place; the
 * count of a list is its length; a slab with a local list is not empty.
 */
#define THREADS 2
#define CPUS 2
#define OBJECTS 3
#define OPERATIONS(me) (me -> 3 : 2)
#define DUMMY CPUS		/* no area */
#define OFF CPUS		/* no CPU */
#define NOBODY 2
#define EMPTIED 3
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
bool is_busy[CPUS];		/* somebody runs there */
byte cpu[THREADS];
bool in_sequence[THREADS];
bool restarts[THREADS];
byte nr_over;
byte chain[THREADS + 1];	/* what each has; the last is the collector's */

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
		room = in_use - n - 1;	/*~ room-for-the-last: room = in_use - n */
		if
		:: room > 0 -> room = 0
		:: skip
		fi;
		start = n + room;	/*~ watermark-too-low: start = n */
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
	:: at == 0 || in_use > at + mine	/*~ not-looked: true */
	:: else ->
		lock();
		atomic { w_owner = owner; w_room = room; w_head = head }
		atomic { in_use = inuse; is_fresh[who] = true }	/*~ rest-guessed: in_use = start - w_room + mine; is_fresh[who] = true */
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
		:: else -> is_marked = true	/*~ not-marked: skip */
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
	:: w_owner != number -> goto failed	/*~ push-to-others: false -> skip */
	:: else
	fi;
	if
	:: w_room == 0 -> goto failed	/*~ push-without-room: false -> skip */
	:: else
	fi;
	atomic { object = chain[me]; rest = link[object]; is_pushing = true }
	STEP(link[object] = w_head);
	STEP(assert(IS_AS_READ); head = object; room = w_room - 1; owner = w_owner;
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
	lock_mine();		/*~ begin-without-lock: has_lock = true */
	if
	:: owner != number -> unlock_mine(); goto choose
	:: else
	fi;
	in_use = inuse;		/* others make it less meanwhile */
	if
	:: !is_listed && in_use >= 2 ->
		atomic {
			object = chain[me];
			chain[me] = link[object];
			link[object] = 0
		}
		n = 1;
		begin();
		unlock_mine();
		goto choose
	:: !is_listed && in_use < 2 ->
		unlock_mine();
		goto flush
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
	:: w_owner != number -> goto not_taken	/*~ take-of-others: false -> skip */
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
	unlock_mine();		/*~ unlisted-behind-the-lock: swap -22 */
	if
	:: why == TO_REFILL ->
		atomic { assert(chain[me] == 0); chain[me] = object; n = 0 }
		goto choose
	:: else ->
		atomic { mine = n; n = 0 }
		goto give_back	/*~ not-joined: give(object); goto choose */
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
	:: is_listed	/*~ owner-of-a-list-changes: false */
	:: owner == EMPTIED	/*~ owner-of-an-emptied-one-changes: false */
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

inline membarrier()
{
	atomic {
		restarts[0] = in_sequence[0];
		restarts[1] = in_sequence[1]
	}
}

inline empty_cpu(c)
{
	lock();
	if
	:: is_listed && owner == c ->
		atomic { length(head); assert(n == start - room); mine = n; n = 0; at = 0 }
		atomic {
			chain[THREADS] = head;
			owner = EMPTIED;
			room = 0;
			is_listed = false;
			is_marked = false;
			was = c
		}
	:: else
	fi;
	unlock()
}

proctype collector()
{
	byte w_owner, w_room, w_head, object, mine, in_use, at, n, was;

	base[0] = DUMMY;	/*~ stop-skipped: skip */
	base[1] = DUMMY;	/*~ stop-behind-the-barrier: swap */
	membarrier();		/*~ barrier-skipped: skip */
	empty_cpu(0);
	base[0] = 0;		/*~ restart-before-emptying: swap -1 */
	empty_cpu(1);
	base[1] = 1;
	if
	:: chain[THREADS] != 0 ->
		lock();
		atomic { owner = was; head = 0; room = 0 }
		unlock();
		atomic { object = chain[THREADS]; chain[THREADS] = 0 }
		join_and_give(THREADS)
	:: else
	fi;
	/* Forgotten: else each would be a state of its own. */
	atomic {
		w_owner = 0; w_room = 0; w_head = 0; object = 0; mine = 0; in_use = 0; was = 0;
		nr_over++
	}
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
		run thread(0); run thread(1); run collector()
	}
	d_step {
		nr_over == THREADS + 1 ->
		look(first);
		in_slab = nr;
		assert(inuse == OBJECTS - in_slab);
		look(head);
		assert(is_listed == (head != 0));
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
