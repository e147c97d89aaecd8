/* SPDX-License-Identifier: MIT */
/*
 * A group's handler is replaced, and its argument freed, while threads call it
 * (features/groups/handler.c): HANDLER-1, HANDLER-2.
 *
 * Two threads call it again and again; a third replaces it, frees the old argument, deletes
 * the group and frees the new one.  A walker's number of walks tells one call from the
 * next; each call finds a walker of its own or that of a call before.  Stores are seen in
 * the order of the program here: the fences of HANDLER-1 see to that.
 *
 * Assertions: nobody has an argument that was freed.
 */
#define CALLERS 2
#define CALLS 2
#define NONE 0

byte handler = 1;		/* the argument names it */
bool is_freed[3];
bool is_taken[CALLERS];		/* walkers */
bool handles[CALLERS];
byte walks[CALLERS];
byte nr_over;

proctype caller()
{
	byte left = CALLS, walker, arg;

	do
	:: left == 0 -> break
	:: else ->
		left--;
		atomic {
			if
			:: !is_taken[0] -> walker = 0
			:: !is_taken[1] -> walker = 1
			fi;
			is_taken[walker] = true
		}
		walks[walker]++;	/*~ counted-behind-the-read: swap 2 */
		handles[walker] = true;	/*~ announced-behind-the-read: swap */
		arg = handler;
		assert(!is_freed[arg]);
		assert(!is_freed[arg]);	/* at its end */
		arg = NONE;		/*~ over-in-the-middle: handles[walker] = false; assert(!is_freed[arg]); arg = NONE */
		handles[walker] = false;
		is_taken[walker] = false
	od;
	nr_over++
}

inline wait_for_calls()
{
	seen = walks[0];
	!handles[0] || walks[0] != seen;	/*~ first-not-waited-for: skip */
	seen = walks[1];
	!handles[1] || walks[1] != seen;	/*~ second-not-waited-for: skip */
	seen = 0
}

proctype changer()
{
	byte seen;

	handler = 2;			/*~ looked-before-the-change: wait_for_calls(); handler = 2; goto waited */
	wait_for_calls();
waited:
	is_freed[1] = true;
	handler = NONE;			/*~ deleted-with-its-handler: skip */
	wait_for_calls();
	is_freed[2] = true;
	nr_over++
}

init
{
	atomic { run caller(); run caller(); run changer() }
	nr_over == CALLERS + 1
}
