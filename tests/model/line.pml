/* SPDX-License-Identifier: MIT */
/*
 * A turn that is waited for in a line, asleep (core/base/line.c): three threads come, by the quick
 * way or through the line; one waits for something that another makes in its turn.
 *
 * Two ways are searched: without a look, where a wake-up that is lost is a dead end; and with
 * looks at any time, where a thread may lose patience, or end its turn while it holds a lock,
 * which wakes nobody.
 *
 * Assertions: one thread has the turn; a thread that comes later does not take it from the line
 * (LINE-1); the line goes in order; an end sends all home who have what they wait for (LINE-2);
 * nobody is told that no longer waits; in the end the turn is nobody's, and nobody waits.
 */
#define THREADS 3
#define ROUNDS 2
#define UNLESS 3	/* this one waits for what thread 1 makes */
#define WAITED 8	/* beside the owner */
#define BIT(t) (1 << (t))

#define WAITS 1
#define HAS_TURN 2
#define OVER 3
#define REFUSED 4

bool looks;		/* which way is searched */
byte owner;		/* a thread, from 1 on, and WAITED; 0: nobody */
bool locked;		/* line_lock */
byte line[THREADS], length, nr_unless;
byte state[THREADS + 1];
bool asleep[THREADS + 1];
bool made;

/* For the assertions. */
bool busy, in_line[THREADS + 1], was_left;
byte before[THREADS + 1];	/* who stood in the line when it came, and does still */
byte done;

inline lock()
{
	atomic { !locked -> locked = true }
}

inline unlock()
{
	locked = false
}

/* Under the lock: all that looks at the line has it. */
inline take_out(i)
{
	k = line[i];
	in_line[k] = false;
	if
	:: k == UNLESS -> nr_unless--
	:: else
	fi;
	for (j : 1 .. THREADS) { before[j] = before[j] & ~BIT(k) }
	for (j : i .. THREADS - 2) { line[j] = line[j + 1] }
	length--;
	line[length] = 0;
	j = 0
}

/* answer = HAS_TURN, or OVER: it is another's.  Under the lock, but owner changes without. */
inline ask()
{
	seen = owner;
	do
	:: seen == 0 ->
		atomic {
			if
			:: owner == seen ->
				owner = me;
				if
				:: length -> owner = me + WAITED
				:: else
				fi;
				answer = HAS_TURN
			:: else -> seen = owner; answer = 0
			fi
		}
		if
		:: answer -> break
		:: else
		fi
	:: else ->
		atomic {
			answer = 0;
			if
			:: owner == seen ->
				owner = owner | WAITED;	/*~ not-said-that-it-waits: skip */
				answer = OVER
			:: else -> seen = owner
			fi
		}
		if
		:: answer -> break
		:: else
		fi
	od;
	seen = 0
}

inline join()
{
	lock();
	ask();
	atomic {
		if
		:: answer == OVER ->
			state[me] = WAITS;
			for (j : 0 .. THREADS - 1) {
				if
				:: line[j] -> before[me] = before[me] | BIT(line[j])
				:: else
				fi
			}
			j = 0;
			line[length] = me;
			length++;
			in_line[me] = true;
			nr_unless = nr_unless + (me == UNLESS)
		:: else
		fi
	}
	unlock()
}

/* Also the last one, when patience is at its end. */
inline look(leaves)
{
	lock();
	answer = OVER;
	if
	:: state[me] == WAITS && in_line[me] ->	/*~ looks-though-told: true -> */
		ask();
		if
		:: answer == OVER && leaves -> answer = REFUSED
		:: else
		fi;
		atomic {
			if
			:: answer != OVER ->
				for (n : 0 .. THREADS - 1) {
					if
					:: line[n] == me -> take_out(n); break	/*~ leaves-a-name: line[n] == me -> break */
					:: else
					fi
				}
				n = 0; k = 0;
				state[me] = 0
			:: else
			fi
		}
	:: else
	fi;
	unlock()
}

inline wait_in()
{
	do
	:: state[me] != WAITS -> break
	:: else ->
		/* futex(2) looks at the word once more, in one step with going to sleep */
		atomic {
			if
			:: state[me] == WAITS -> asleep[me] = true	/*~ sleeps-unasked: true -> asleep[me] = true */
			:: else
			fi
		}
		if
		:: atomic { !asleep[me] -> answer = OVER }
		:: atomic { looks && asleep[me] -> asleep[me] = false }; look(false)
		:: atomic { looks && asleep[me] -> asleep[me] = false }; look(true)
		fi;
		if
		:: answer != OVER -> break
		:: else
		fi
	od;
	if
	:: state[me] == HAS_TURN -> answer = HAS_TURN; assert(before[me] == 0)
	:: else
	fi;
	state[me] = 0
}

/* The turn goes to the first of the line; those go home that have what they wait for. */
inline pass()
{
	lock();
	atomic {
		next = 0; over = 0; n = 0;
		do
		:: n >= length || (next && !nr_unless) -> break	/*~ stops-at-the-next: n >= length || next -> break */
		:: else ->
			if
			:: line[n] == UNLESS && made -> over = UNLESS; take_out(n)
			:: else ->
				if
				:: !next -> next = line[n]; take_out(n)	/*~ last-comes-first: !next -> next = line[length - 1]; n = length - 1; take_out(n) */
				:: else -> n++
				fi
			fi
		od;
		n = 0; k = 0;
		assert(!made || !in_line[UNLESS])
	}
	if
	:: !next -> owner = 0
	:: next && !length -> owner = next
	:: next && length -> owner = next + WAITED	/*~ waiters-forgotten: next && length -> owner = next */
	fi;
	if
	:: next -> atomic { assert(state[next] == WAITS); state[next] = HAS_TURN }
	:: else
	fi;
	unlock();
	asleep[next] = false;	/*~ next-not-woken: skip */
	if
	:: over ->
		atomic { assert(state[over] == WAITS); state[over] = OVER };	/*~ home-not-told: skip */
		asleep[over] = false	/*~ home-not-woken: skip */
	:: else
	fi;
	next = 0; over = 0
}

inline end_turn()
{
	do
	:: atomic { owner == me -> owner = 0 }; break
	/* It holds a lock: a look finds the turn free. */
	:: atomic { looks && owner == me + WAITED -> owner = 0; was_left = true }; break
	:: owner == me + WAITED -> pass(); break	/*~ waiters-not-seen: owner == me + WAITED -> owner = 0; break */
	od
}

proctype thread(byte me)
{
	byte round, answer, seen, next, over, j, k, n;

	do
	:: round == ROUNDS -> break
	:: else ->
		answer = 0;
		/* The quick way. */
		atomic {
			if
			:: owner == 0 ->
				assert(was_left || length == 0);
				owner = me;
				answer = HAS_TURN
			:: else
			fi
		}
		do
		:: answer == HAS_TURN || answer == REFUSED -> break
		:: else ->
			if
			:: me == UNLESS && made -> answer = OVER; break
			:: else
			fi;
			join();
			if
			:: answer == OVER -> wait_in()
			:: else
			fi
		od;
		if
		:: answer == HAS_TURN ->
			atomic { assert(!busy); busy = true }
			if
			:: me == 1 -> made = true
			:: else
			fi;
			busy = false;
			end_turn()
		:: else
		fi;
		assert(!in_line[me]);
		round++
	od;
	done++
}

init
{
	byte t;

	atomic {
		if
		:: looks = false
		:: looks = true
		fi;
		for (t : 1 .. THREADS) { run thread(t) }
	}
	done == THREADS;
	assert(owner == 0 && length == 0 && nr_unless == 0)
}
