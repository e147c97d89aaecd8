/* SPDX-License-Identifier: MIT */
/*
 * Barns in the areas of CPUs (core/slab/barn.c): put, get by the CPU's own threads and by others, the
 * look at the budget, which another cache may give a chain for, a flush, and a fork.
 *
 * Two CPUs have a barn of the cache, number 2 is the only one of another cache.  A thread asks
 * once where it is and may be moved then, so it is on any CPU in each operation.  Numbers of
 * entries start just before they wrap.
 *
 * Assertions: a chain is in one place and none is lost; a barn's bounds; its own CPU gets the
 * chain that was put there last, everybody else the first; the child of a fork finds whole
 * entries, and each chain once; no more chains are held beyond the budget than other threads
 * looked at it at once; when all is quiet counts are exact, and each chain is found from any CPU.
 */
#define CPUS 2
#define OTHER 2			/* the barn of another cache */
#define ROOM 2			/* BARN_CHAINS */
#define CHAINS 4
#define THREADS 2
#define OPERATIONS 2
#define BUDGET 2
#define CREDIT_PER_GET 2
#define CREDIT_MAX 2

typedef barn_type {
	bool locked;
	byte oldest, newest;
	byte chains[ROOM];
	byte first, last	/* for assertions: the chains in the order they came; 0: none */
};
barn_type barn[CPUS + 1];

byte credit = 1, refused;
short in_barns, kept;		/* chains: of this cache, and of all */
bool in_slabs[CHAINS + 1];
byte held[THREADS + 1];
byte ended;

#define NR(b) ((barn[b].newest - barn[b].oldest) & 255)
#define AT(number) ((number) & (ROOM - 1))
#define LAST(b) barn[b].chains[AT(barn[b].newest + 255)]
#define FIRST(b) barn[b].chains[AT(barn[b].oldest)]

inline came(b, chain)
{
	if
	:: barn[b].first == 0 -> barn[b].first = chain
	:: else -> assert(barn[b].last == 0); barn[b].last = chain
	fi
}

inline newest_went(b)
{
	if
	:: barn[b].last != 0 -> assert(entry == barn[b].last); barn[b].last = 0
	:: else -> assert(entry == barn[b].first); barn[b].first = 0
	fi
}

inline oldest_went(b)
{
	assert(entry != 0 && entry == barn[b].first);
	barn[b].first = barn[b].last;
	barn[b].last = 0
}

inline lock(b) { atomic { !barn[b].locked -> barn[b].locked = true } }
inline unlock(b) { barn[b].locked = false }

inline take_newest(b)
{
	lock(b);	/*~ newest-taken-without-lock: skip; */
	if
	:: barn[b].newest != barn[b].oldest ->	/*~ newest-not-looked-at-again: true -> */
		entry = LAST(b);	/*~ own-gets-the-oldest: entry = FIRST(b) */
		atomic {
			newest_went(b);
			barn[b].newest--	/*~ newest-stays: skip */
		}
	:: else
	fi;
	assert(NR(b) <= ROOM);
	unlock(b)
}

inline take_oldest(b)
{
	lock(b);	/*~ oldest-taken-without-lock: skip; */
	if
	:: barn[b].newest != barn[b].oldest ->	/*~ oldest-not-looked-at-again: true -> */
		entry = FIRST(b);	/*~ others-get-the-newest: entry = LAST(b) */
		atomic {
			oldest_went(b);
			barn[b].oldest++	/*~ oldest-stays: skip */
		}
	:: else
	fi;
	assert(NR(b) <= ROOM);
	unlock(b)
}

inline credit_earn()
{
	seen = credit + CREDIT_PER_GET;
	if
	:: seen > CREDIT_MAX -> seen = CREDIT_MAX	/*~ credit-unbounded: seen > CREDIT_MAX -> skip */
	:: else
	fi;
	credit = seen;
	assert(credit <= CREDIT_MAX)
}

inline missed()
{
	seen = refused;
	if
	:: seen != 0 ->
		refused = seen - 1;
		credit_earn()
	:: else
	fi;
	atomic {
		if
		:: in_slabs[1] -> held[me] = 1; in_slabs[1] = false
		:: !in_slabs[1] && in_slabs[2] -> held[me] = 2; in_slabs[2] = false
		:: else
		fi
	}
}

/* On CPU number @cpu, of @THREADS threads and the end. */
inline get()
{
	entry = 0;
	if
	:: in_barns == 0		/* a look at a count that may be late */
	:: else ->
		if
		:: NR(cpu) != 0 -> take_newest(cpu)
		:: else
		fi;
		if
		:: entry == 0 && NR(1 - cpu) != 0 -> take_oldest(1 - cpu)	/*~ others-not-asked: false -> skip */
		:: else
		fi;
		if
		:: entry == 0 && NR(cpu) != 0 -> take_oldest(cpu)
		:: else
		fi
	fi;
	if
	:: entry != 0 ->
		held[me] = entry;
		atomic { in_barns--; kept-- }	/*~ get-not-counted: skip */
		credit_earn()
	:: else -> missed()
	fi
}

inline refuse()
{
	if
	:: refused < CREDIT_MAX -> refused++
	:: else
	fi;
	atomic { in_slabs[held[me]] = true; held[me] = 0 }
}

/* The other cache gives its oldest chain. */
inline make_room()
{
	entry = 0;
	if
	:: NR(OTHER) != 0 -> take_oldest(OTHER)
	:: else
	fi;
	if
	:: entry != 0 -> atomic { kept--; in_slabs[entry] = true }	/*~ room-not-counted: in_slabs[entry] = true */
	:: else
	fi
}

inline put()
{
	allowed = false;
	put_seen = credit;
	if
	:: put_seen != 0 && kept < BUDGET -> allowed = true	/*~ budget-not-asked: put_seen != 0 -> allowed = true */
	:: put_seen != 0 && kept >= BUDGET ->
		make_room();
		allowed = (kept < BUDGET)
	:: else
	fi;
	if
	:: allowed ->
		lock(cpu);	/*~ put-without-lock: skip; */
		allowed = (NR(cpu) < ROOM);	/*~ bound-not-asked: allowed = true; */
		if
		:: allowed ->
			barn[cpu].chains[AT(barn[cpu].newest)] = held[me];	/*~ number-before-entry: swap */
			atomic { came(cpu, held[me]); barn[cpu].newest++ }
			held[me] = 0	/*~ put-and-held: skip */
		:: else
		fi;
		assert(NR(cpu) <= ROOM);
		unlock(cpu)
	:: else
	fi;
	if
	:: allowed ->
		credit = put_seen - 1;	/*~ credit-read-again: credit = credit - 1; */
		assert(credit <= CREDIT_MAX);
		atomic { in_barns++; kept++ };	/*~ put-not-counted: skip; */
		assert(kept <= BUDGET + THREADS - 1)
	:: else -> refuse()
	fi
}

proctype thread(byte me)
{
	byte cpu, entry, seen, put_seen, left = OPERATIONS;
	bool allowed;

	do
	:: left == 0 -> break
	:: left != 0 ->
		if
		:: cpu = 0
		:: cpu = 1
		fi;
		if
		:: held[me] == 0 -> get()
		:: else -> put()
		fi;
		left--;
		/* What was left over makes no other states. */
		atomic { cpu = 0; entry = 0; seen = 0; put_seen = 0; allowed = false }
	od;
	ended++
}

/* Every CPU's barn, one chain each. */
proctype flush()
{
	byte entry, cpu;

	do
	:: cpu == CPUS -> break
	:: else ->
		entry = 0;
		if
		:: NR(cpu) != 0 -> take_oldest(cpu)
		:: else
		fi;
		if
		:: entry != 0 -> atomic { in_barns--; kept--; in_slabs[entry] = true }	/*~ flush-not-counted: in_slabs[entry] = true */
		:: else
		fi;
		cpu++
	od;
	ended++
}

inline see(what)
{
	assert(what != 0 && !seen_chain[what]);
	seen_chain[what] = true
}

/* What the child of a fork finds: at any moment all barns are whole. */
proctype fork()
{
	bool seen_chain[CHAINS + 1];
	byte b, number;

	atomic {
		do
		:: b > CPUS -> break
		:: else ->
			number = barn[b].oldest;
			do
			:: number == barn[b].newest -> break
			:: else -> see(barn[b].chains[AT(number)]); number++
			od;
			b++
		od
	}
}

/* When all is quiet: where the chains are, and that a thread on CPU 0 finds those of the cache. */
inline check_all()
{
	i = 0;
	do
	:: i > CPUS -> break
	:: else ->
		number = barn[i].oldest;
		do
		:: number == barn[i].newest -> break
		:: else ->
			see(barn[i].chains[AT(number)]);
			number++;
			nr++
		od;
		i++
	od;
	assert(kept == nr && in_barns == nr - NR(OTHER));
	i = 1;
	do
	:: i > CHAINS -> break
	:: else ->
		if
		:: in_slabs[i] -> see(i)
		:: else
		fi;
		i++
	od;
	i = 0;
	do
	:: i == THREADS -> break
	:: else ->
		if
		:: held[i] != 0 -> see(held[i])
		:: else
		fi;
		i++
	od;
	assert(seen_chain[1] && seen_chain[2] && seen_chain[3] && seen_chain[4])
}

init
{
	byte i, number, nr, entry, seen, cpu, me = THREADS;
	bool seen_chain[CHAINS + 1];

	atomic {
		i = 0;
		do
		:: i > CPUS -> break
		:: else -> barn[i].oldest = 255; barn[i].newest = 255; i++
		od;
		held[0] = 1; held[1] = 2;
		barn[0].chains[AT(255)] = 3; barn[0].newest = 0;
		barn[OTHER].chains[AT(255)] = 4; barn[OTHER].newest = 0;
		in_barns = 1; kept = 2;
		barn[0].first = 3; barn[OTHER].first = 4;
		run thread(0); run thread(1); run flush(); run fork()
	}
	atomic { ended == THREADS + 1 -> check_all() };
	do
	:: NR(0) + NR(1) == 0 -> break
	:: else -> held[me] = 0; get(); assert(held[me] != 0)
	od
}
