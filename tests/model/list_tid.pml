/* SPDX-License-Identifier: MIT */
/*
 * A list under backend tid: {head, transaction id} changed by one compare-exchange from
 * any CPU, and read in two loads, the id first (core/percpu/list.c).
 *
 * Assertions: an object that is taken off the list was in it; at the end each is in the
 * list or with one thread.
 */
#define THREADS 2
#define OBJECTS 3
#define OPERATIONS(me) (me -> 4 : 2)

byte head = 1, id;
byte link[OBJECTS + 1];
bool is_listed[OBJECTS + 1];
byte held[THREADS * 2];		/* two objects each */
byte nr_over;

inline list_read()
{
	old_id = id;
	old_head = head
}

inline exchange(new_head)
{
	if
	:: head == old_head && id == old_id ->	/*~ id-not-compared: head == old_head -> */
		head = new_head;
		id++;			/*~ id-stays: skip */
		done = true
	:: else -> old_head = head; old_id = id; done = false
	fi
}

inline pop(place)
{
	list_read();
	do
	:: old_head == 0 -> break
	:: else ->
		next = link[old_head];	/*~ link-not-read-again: next = (next -> next : link[old_head]) */
		atomic {
			exchange(next);
			if
			:: done ->
				assert(is_listed[old_head]);
				is_listed[old_head] = false;
				held[place] = old_head;
				break
			:: else
			fi
		}
	od
}

inline push(place)
{
	list_read();
	do
	:: true ->
		link[held[place]] = old_head;
		atomic {
			exchange(held[place]);
			if
			:: done ->
				assert(!is_listed[held[place]]);
				is_listed[held[place]] = true;
				held[place] = 0;
				break
			:: else
			fi
		}
	od
}

proctype thread(byte me)
{
	byte old_head, old_id, next, left = OPERATIONS(me);
	bool done;

	do
	:: left == 0 -> break
	:: left != 0 ->
		left--;
		if
		:: held[me * 2] == 0 -> pop(me * 2)
		:: held[me * 2] != 0 -> push(me * 2)
		:: held[me * 2 + 1] == 0 -> pop(me * 2 + 1)
		:: held[me * 2 + 1] != 0 -> push(me * 2 + 1)
		fi;
		atomic { old_head = 0; old_id = 0; next = 0; done = false }
	od;
	nr_over++
}

init
{
	byte at, i;
	bool seen[OBJECTS + 1];

	atomic {
		link[1] = 2; link[2] = 3;
		is_listed[1] = true; is_listed[2] = true; is_listed[3] = true;
		run thread(0); run thread(1)
	}
	atomic {
		nr_over == THREADS ->
		at = head;
		do
		:: at != 0 -> assert(!seen[at]); seen[at] = true; at = link[at]
		:: else -> break
		od;
		do
		:: i < THREADS * 2 ->
			if
			:: held[i] != 0 -> assert(!seen[held[i]]); seen[held[i]] = true
			:: else
			fi;
			i++
		:: else -> break
		od;
		assert(seen[1] && seen[2] && seen[3])
	}
}
