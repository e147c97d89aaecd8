/* SPDX-License-Identifier: MIT */
/*
 * The barn: chains put on credit and fetched, under the node's lock but for a first
 * look (slab/barn.c).
 *
 * Assertions: a chain is with one thread or in the barn; its credit and its number
 * of chains stay in bounds.
 */
#define CHAINS 2
#define NR_MAX 1
#define CREDIT_PER_GET 2
#define OPERATIONS 3

byte barn[NR_MAX + 1];		/* a place too many, to see what goes beyond */
byte nr, credit = 1, refused;
bool locked;
byte held[3];			/* a chain, or 0 */
byte nr_over;

inline get()
{
	if
	:: nr == 0			/* a look without the lock */
	:: nr != 0 ->
		atomic { !locked -> locked = true }	/*~ fetched-without-lock: skip */
		if
		:: nr != 0 ->		/*~ not-looked-at-again: true -> */
			n = nr - 1;
			held[me] = barn[n];
			nr = n;
			credit = credit + CREDIT_PER_GET;
			if
			:: credit > NR_MAX -> credit = NR_MAX	/*~ credit-unbounded: credit > NR_MAX -> skip */
			:: else
			fi;
			assert(held[me] != 0 && n < NR_MAX)
		:: else
		fi;
		assert(credit <= NR_MAX);
		locked = false
	fi
}

inline put()
{
	atomic { !locked -> locked = true }	/*~ put-without-lock: skip */
	if
	:: credit != 0 && nr < NR_MAX ->	/*~ bound-not-asked: credit != 0 -> */
		n = nr;
		barn[n] = held[me];
		nr = n + 1;
		credit--;
		held[me] = 0
	:: else ->
		if
		:: refused < NR_MAX -> refused++
		:: else
		fi
	fi;
	assert(nr <= NR_MAX);
	locked = false
}

proctype thread(byte me)
{
	byte n, left = OPERATIONS;

	do
	:: left == 0 -> break
	:: left != 0 && held[me] == 0 -> get(); left--; n = 0
	:: left != 0 && held[me] != 0 -> put(); left--; n = 0
	od;
	nr_over++
}

init
{
	byte i;
	bool seen[CHAINS + 1];

	atomic {
		held[0] = 1; barn[0] = 2; nr = 1;
		run thread(0); run thread(1); run thread(2)
	}
	atomic {
		nr_over == 3 ->
		do
		:: i < 3 ->
			if
			:: held[i] != 0 -> assert(!seen[held[i]]); seen[held[i]] = true
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < nr -> assert(!seen[barn[i]]); seen[barn[i]] = true; i++
		:: else -> break
		od;
		assert(seen[1] && seen[2])
	}
}
