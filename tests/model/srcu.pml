/* SPDX-License-Identifier: MIT */
/*
 * A grace period of SRCU: readers in two phases, counted per CPU; one writer takes an
 * object out of sight and waits, another waits only (features/rcu/srcu.c).
 *
 * Stores wait in the buffer of whoever made them, in order, until the memory takes
 * them at any time, a fence of its own, or a membarrier of somebody's.  Both
 * ways are searched: readers without a fence and writers with a membarrier; and
 * a fence on each side.
 *
 * Assertion: nobody looks at an object that was freed (SRCU-1 to SRCU-3).
 */
#define READERS 2
#define WRITERS 2
#define CPUS 2
#define IDLE 0
#define DRAIN_OLD 1
#define DRAIN_LEFT 2

bool has_membarrier;
byte entered[4], gone[4];	/* by phase * CPUS + CPU */
bool phase;			/* of the next reader */
byte started, completed, step, driver;
bool in_sight = true, freed;

/* What is buffered: a reader's two additions, a writer's two stores. */
#define NOTHING 255
byte adds_entered[READERS], adds_gone[READERS];
bool hides[WRITERS], starts[WRITERS];

inline drain_reader(r)
{
	if
	:: adds_entered[r] != NOTHING -> entered[adds_entered[r]]++
	:: else
	fi;
	adds_entered[r] = NOTHING;
	if
	:: adds_gone[r] != NOTHING -> gone[adds_gone[r]]++
	:: else
	fi;
	adds_gone[r] = NOTHING
}

inline drain_writer(w)
{
	if
	:: hides[w] -> in_sight = false
	:: else
	fi;
	hides[w] = false;
	if
	:: starts[w] -> started++
	:: else
	fi;
	starts[w] = false
}

inline membarrier()
{
	atomic { drain_reader(0); drain_reader(1); drain_writer(0); drain_writer(1); skip }
}

/* The memory takes a store when it likes, the older one first. */
active proctype memory()
{
	byte i;
end:
	do
	:: atomic { adds_entered[0] != NOTHING ->
		entered[adds_entered[0]]++; adds_entered[0] = NOTHING }
	:: atomic { adds_entered[1] != NOTHING ->
		entered[adds_entered[1]]++; adds_entered[1] = NOTHING }
	:: atomic { adds_entered[0] == NOTHING && adds_gone[0] != NOTHING ->
		gone[adds_gone[0]]++; adds_gone[0] = NOTHING }
	:: atomic { adds_entered[1] == NOTHING && adds_gone[1] != NOTHING ->
		gone[adds_gone[1]]++; adds_gone[1] = NOTHING }
	:: atomic { hides[0] -> in_sight = false; hides[0] = false }
	:: atomic { starts[0] && !hides[0] -> started++; starts[0] = false }
	:: atomic { starts[1] -> started++; starts[1] = false }
	od
}

inline look()
{
	if
	:: found -> assert(!freed)
	:: else
	fi
}

inline reader_fence()
{
	if
	:: !has_membarrier -> atomic { drain_reader(me); skip }
	:: else
	fi
}

/* The first looks at an object; the second comes and goes.  Both are moved meanwhile. */
proctype reader(byte me)
{
	bool index, found;

	index = phase;
	adds_entered[me] = index * CPUS + me;
	reader_fence();		/*~ fence-behind-entering-dropped: skip */
	if
	:: me == 0 ->
		atomic { found = in_sight; look() }
	:: else
	fi;
	reader_fence();
	look();			/*~ left-before-the-look: swap */
	adds_gone[me] = index * CPUS + !me
}

/* Not at one moment: CPU by CPU. */
#define SUM(total, counters, which)					\
	total = counters[(which) * CPUS];				\
	total = total + counters[(which) * CPUS + 1]

inline writer_fence()
{
	atomic { drain_writer(me); skip }
}

inline fence_everybody()
{
	if
	:: has_membarrier -> membarrier()	/*~ membarrier-dropped: has_membarrier -> skip */
	:: else -> writer_fence()
	fi
}

inline nobody_inside(which)
{
	SUM(left, gone, which);		/*~ left-summed-last: swap 2 */
	fence_everybody();
	SUM(came, entered, which);
	nobody = (came == left)
}

inline advance()
{
	if
	:: step == IDLE ->
		starts[me] = true;
		writer_fence();
		step = DRAIN_OLD	/*~ old-readers-forgotten: step = DRAIN_LEFT; phase = !phase */
	:: step == DRAIN_OLD ->
		nobody_inside(!phase);
		if
		:: nobody ->
			atomic {
				phase = !phase;		/*~ phase-stays: skip */
				drain_writer(me);
				step = DRAIN_LEFT
			}
		:: else -> looks = false
		fi
	:: step == DRAIN_LEFT ->
		nobody_inside(!phase);
		if
		:: nobody -> atomic { step = IDLE; completed = started }
		:: else -> looks = false	/*~ readers-not-waited-for: else -> atomic { step = IDLE; completed = started } */
		fi
	fi
}

proctype writer(byte me)
{
	byte cookie, left, came;
	bool nobody, looks;

	hides[me] = (me == 0);
	writer_fence();			/*~ fence-before-cookie-dropped: skip */
	cookie = started + 1;		/*~ cookie-of-a-period-under-way: cookie = started */
	do
	:: completed >= cookie -> break
	:: atomic { completed < cookie && driver == 0 -> driver = 1; looks = true }	/*~ two-drivers: atomic { completed < cookie -> looks = true } */
	   do
	   :: completed < cookie && looks -> advance()
	   :: else -> break
	   od;
	   atomic { driver = 0; left = 0; came = 0; nobody = false }
	od;
	freed = (me == 0 || freed)	/*~ freed-before-the-end: swap -10 */
}

init
{
	atomic {
		adds_entered[0] = NOTHING; adds_entered[1] = NOTHING;
		adds_gone[0] = NOTHING; adds_gone[1] = NOTHING;
		if
		:: has_membarrier = true
		:: has_membarrier = false
		fi;
		run reader(0); run reader(1); run writer(0); run writer(1)
	}
}
