/* SPDX-License-Identifier: MIT */
/*
 * The area of a CPU is made while others look for it, and a thread remembers an area
 * that it uses only where the area's number is its CPU's (core/percpu/area.c,
 * SLUB_SEQ_HERE in slub/arch/x86_64.h).
 *
 * Two threads add to counters and change CPUs in between.  An addition is a sequence:
 * it is whole, unless two CPUs are in one area.
 *
 * Assertions: an area is used by its CPU alone and when it is made; no addition is lost.
 */
#define CPUS 2
#define NO_NUMBER 255
#define ADDITIONS 2

byte number[CPUS];		/* of a new area: zeros, as the kernel gives them */
bool is_live[CPUS];
bool is_made[CPUS];
byte counter[CPUS];
byte user[CPUS] = NO_NUMBER;	/* the CPU that is in the middle of a sequence there */
byte cpu[2];
byte nr_over, added;

inline area_make(c)
{
	/* area_lock: one at a time. */
	atomic { !making -> making = true }
	if
	:: !is_made[c] ->
		is_live[c] = true;
		number[c] = NO_NUMBER;	/*~ number-zero-meanwhile: skip */
		is_made[c] = true;	/*~ made-before-it-has-no-number: swap -1 */
		number[c] = c
	:: else
	fi;
	making = false
}

bool making;

/* What the thread is to work on from now: the area of the CPU that it is on, if it has one. */
inline remember()
{
	atomic {
		if
		:: is_made[cpu[me]] -> here = cpu[me]
		:: else -> here = NO_NUMBER
		fi
	}
}

#define IS_MINE (here != NO_NUMBER && number[here] == cpu[me])	/*~ number-not-asked: #define IS_MINE (here != NO_NUMBER) */

inline add()
{
	if
	:: atomic { IS_MINE ->
		assert(is_live[here] && user[here] == NO_NUMBER);
		user[here] = cpu[me] }
	   value = counter[here];
	   atomic { counter[here] = value + 1; user[here] = NO_NUMBER; added++ }
	:: !IS_MINE -> made = cpu[me]; area_make(made); made = 0; remember()
	fi
}

/* Between two sequences a thread may find itself on another CPU. */
proctype thread(byte me)
{
	byte here = NO_NUMBER, value, made, left = ADDITIONS;

	do
	:: left == 0 -> break
	:: left != 0 -> add(); left--; value = 0
	:: left != 0 && is_made[cpu[me]] -> remember()
	:: atomic { left != 0 && cpu[0] != cpu[1] && user[0] == NO_NUMBER && user[1] == NO_NUMBER ->
		cpu[0] = 1 - cpu[0]; cpu[1] = 1 - cpu[1] }
	od;
	nr_over++
}

init
{
	atomic {
		cpu[1] = 1;
		run thread(0); run thread(1)
	}
	atomic { nr_over == 2 -> assert(counter[0] + counter[1] == added) }
}
