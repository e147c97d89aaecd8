/* SPDX-License-Identifier: MIT */
/*
 * The lists of CPUs under backend rseq: pop, push, take and put as sequences
 * (core/arch/rseq.h), and the lists of all CPUs emptied together (core/percpu/collect.c).
 *
 * Threads run on CPUs, one on each at a time.  In a sequence a thread may be
 * preempted before each step, then it begins anew wherever it runs next; a
 * membarrier sends everybody who is in one to the abort handler.
 * malloc and free find the area by two tables, which the collector changes one after
 * the other; RSEQ-2, AREA-1, AREA-3.
 *
 * Assertions: an object that is taken off a list was in a list, and in one
 * only; at the end all of them are there, none twice.
 */
#define THREADS 2
#define CPUS 2
#define OBJECTS 3
#define OPERATIONS(me) (me -> 3 : 1)
#define DUMMY CPUS		/* an area that is empty for ever */
#define OFF CPUS		/* no CPU */

byte head[CPUS + 1];
byte link[OBJECTS + 1];
byte base[CPUS];		/* malloc's table */
byte map_base[CPUS];		/* free's */
bool is_busy[CPUS];		/* somebody runs there */
byte cpu[THREADS];
bool in_sequence[THREADS];
bool restarts[THREADS];
bool is_listed[OBJECTS + 1];	/* in some CPU's list */
byte nr_over;

byte held[THREADS];		/* one object each */
byte chain[THREADS + CPUS];	/* and a list; the last are the collector's */

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
	:: preempted(me); goto aborted	/*~ abort-handler-skipped: preempted(me) */ \
	od

#define BEGIN(table)							\
	in_sequence[me] = true;						\
	STEP(area = table[cpu[me]])

#define COMMIT(what)							\
	STEP(head[area] = what; in_sequence[me] = false;		\
	     assert(area != DUMMY || what == 0))

inline mark(first, value)
{
	at = first;
	do
	:: at != 0 ->
		assert(is_listed[at] != value);
		is_listed[at] = value;
		at = link[at]
	:: else -> break
	od
}

proctype thread(byte me)
{
	byte area, object, next, at, left = OPERATIONS(me);

	run_somewhere(me);
choose:
	atomic { area = 0; object = 0; next = 0; at = 0 }
	if
	:: left == 0 -> goto over
	:: else -> left--
	fi;
	if
	:: held[me] == 0 -> goto pop
	:: held[me] != 0 -> goto push
	:: chain[me] == 0 -> goto take
	:: chain[me] != 0 -> goto put
	fi;
pop:
	BEGIN(base);
	STEP(object = head[area]);
	if
	:: object == 0 -> goto failed
	:: else
	fi;
	STEP(next = link[object]);
	STEP(head[area] = next; in_sequence[me] = false;
	     assert(is_listed[object]); is_listed[object] = false;
	     held[me] = object);
	goto choose;
push:
	BEGIN(map_base);
	if
	:: area == DUMMY -> goto failed	/*~ push-on-dummy: area == DUMMY -> skip */
	:: else
	fi;
	STEP(link[held[me]] = head[area]);
	STEP(head[area] = held[me]; in_sequence[me] = false;
	     assert(area != DUMMY && !is_listed[held[me]]);
	     is_listed[held[me]] = true; held[me] = 0);
	goto choose;
take:
	BEGIN(base);
	STEP(object = head[area]);
	if
	:: object == 0 -> goto failed
	:: else
	fi;
	STEP(head[area] = 0; in_sequence[me] = false;
	     mark(object, false); chain[me] = object);
	goto choose;
put:
	BEGIN(base);
	if
	:: area == DUMMY -> goto failed
	:: else
	fi;
	STEP(object = head[area]);
	if
	:: object != 0 -> goto failed	/*~ put-on-full: object != 0 -> skip */
	:: else
	fi;
	STEP(head[area] = chain[me]; in_sequence[me] = false;
	     mark(chain[me], true); chain[me] = 0);
	goto choose;
aborted:
	atomic { in_sequence[me] = false; restarts[me] = false; left++ }
	goto choose;
failed:
	/* The sequence is left by a jump: a restart of it is no more. */
	atomic { in_sequence[me] = false; restarts[me] = false }
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

inline stop(c)
{
	base[c] = DUMMY;	/*~ stop-skipped: skip */
	map_base[c] = DUMMY	/*~ one-table-stopped: skip */
}

/* By words, as move_slots() does. */
inline move(c)
{
	chain[THREADS + c] = head[c];
	atomic { head[c] = 0; mark(chain[THREADS + c], false) }	/*~ restart-before-move: swap 2 */
	base[c] = c;
	map_base[c] = c
}

proctype collector()
{
	byte at;

	stop(0);
	stop(1);		/*~ stop-behind-the-barrier: swap */
	membarrier();		/*~ barrier-skipped: skip */
	move(0);
	move(1);
	nr_over++
}

/* Each object is in one place. */
inline count_all()
{
	i = 0;
	do
	:: i < CPUS ->
		at = head[i];
		do
		:: at != 0 -> assert(!seen[at]); seen[at] = true; at = link[at]
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < THREADS + CPUS ->
		at = chain[i];
		do
		:: at != 0 -> assert(!seen[at]); seen[at] = true; at = link[at]
		:: else -> break
		od;
		if
		:: i < THREADS && held[i] != 0 ->
			assert(!seen[held[i]]); seen[held[i]] = true
		:: else
		fi;
		i++
	:: else -> break
	od;
	assert(seen[1] && seen[2] && seen[3]);
	assert(head[DUMMY] == 0)
}

init
{
	byte i, at;
	bool seen[OBJECTS + 1];

	atomic {
		base[1] = 1; map_base[1] = 1;
		head[0] = 1; link[1] = 2;
		is_listed[1] = true; is_listed[2] = true;
		held[1] = 3;
		cpu[0] = OFF; cpu[1] = OFF;
		run thread(0); run thread(1); run collector()
	}
	d_step { nr_over == THREADS + 1 -> count_all() }
}
