/* SPDX-License-Identifier: MIT */
/*
 * The system calls that a thread may be woken out of.
 *
 * A call that a tracer interrupts ends with one of the kernel's codes for "once more", which
 * the kernel obeys when the thread goes on, for sleeps and poll() with the time that is left.
 * Some end with EINTR instead (signal(7), "even in the absence of signal handlers").  What is
 * not listed here may do half of its work, as a long write(), so no thread is woken out of it.
 */
#include "wake_call.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

/* Headers of Debian 11 do not have these; the numbers are those of every machine. */
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* What has to hold of the arguments besides. */
enum call_rule {
	RULE_NONE,
	RULE_FUTEX,		/* a wait, none that is moved to another futex */
	RULE_NO_TIME,		/* no pointer to a time, its 3rd argument */
	RULE_NO_TIME_4,		/* or its 4th */
	RULE_SOCKET,		/* if it is one, without SO_RCVTIMEO */
	RULE_MESSAGE,		/* likewise, without MSG_WAITALL in the 4th argument */
	RULE_MESSAGE_3,		/* or in the 3rd */
	RULE_MILLISECONDS,	/* for ever, or CALL_TIMED */
};

static const struct {
	long number;
	const char *name;
	enum call_kind kind;
	enum call_rule rule;
} calls[] = {
	{ SYS_futex, "futex", CALL_RESTARTS, RULE_FUTEX },
	{ SYS_ppoll, "ppoll", CALL_RESTARTS, RULE_NONE },
	{ SYS_pselect6, "pselect6", CALL_RESTARTS, RULE_NONE },
	{ SYS_nanosleep, "nanosleep", CALL_RESTARTS, RULE_NONE },
	{ SYS_clock_nanosleep, "clock_nanosleep", CALL_RESTARTS, RULE_NONE },
	{ SYS_rt_sigsuspend, "rt_sigsuspend", CALL_RESTARTS, RULE_NONE },
	/* A sleep or a poll() that was interrupted before goes on by it, as often as it takes. */
	{ SYS_restart_syscall, "restart_syscall", CALL_RESTARTS, RULE_NONE },
	{ SYS_wait4, "wait4", CALL_RESTARTS, RULE_NONE },
	{ SYS_waitid, "waitid", CALL_RESTARTS, RULE_NONE },
	{ SYS_flock, "flock", CALL_RESTARTS, RULE_NONE },
	{ SYS_read, "read", CALL_RESTARTS, RULE_SOCKET },
	{ SYS_readv, "readv", CALL_RESTARTS, RULE_SOCKET },
	{ SYS_accept, "accept", CALL_RESTARTS, RULE_SOCKET },
	{ SYS_accept4, "accept4", CALL_RESTARTS, RULE_SOCKET },
	{ SYS_recvfrom, "recvfrom", CALL_RESTARTS, RULE_MESSAGE },
	{ SYS_recvmsg, "recvmsg", CALL_RESTARTS, RULE_MESSAGE_3 },
	{ SYS_rt_sigtimedwait, "rt_sigtimedwait", CALL_AGAIN, RULE_NO_TIME },
	{ SYS_semtimedop, "semtimedop", CALL_AGAIN, RULE_NO_TIME_4 },
	{ SYS_semop, "semop", CALL_AGAIN, RULE_NONE },
	{ SYS_epoll_pwait, "epoll_pwait", CALL_AGAIN, RULE_MILLISECONDS },
	{ SYS_epoll_pwait2, "epoll_pwait2", CALL_AGAIN, RULE_NO_TIME_4 },
#ifdef SYS_poll
	{ SYS_poll, "poll", CALL_RESTARTS, RULE_NONE },
	{ SYS_select, "select", CALL_RESTARTS, RULE_NONE },
	{ SYS_pause, "pause", CALL_RESTARTS, RULE_NONE },
	{ SYS_epoll_wait, "epoll_wait", CALL_AGAIN, RULE_MILLISECONDS },
#endif
};

static bool is_plain_futex(uint64_t operation)
{
	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_LOCK_PI:
		return true;
	}
	return false;
}

/* Is descriptor @number of the process no socket, or one whose calls wait for ever? */
static bool waits_for_ever(pid_t process, int number)
{
	int of_process = (int)syscall(SYS_pidfd_open, process, 0), copy = -1;
	struct timeval time = { 0 };
	socklen_t size = sizeof(time), low_size = sizeof(int);
	bool is_endless = false;
	int low = 1;

	if (of_process >= 0)
		copy = (int)syscall(SYS_pidfd_getfd, of_process, number, 0);
	if (copy >= 0) {
		is_endless = getsockopt(copy, SOL_SOCKET, SO_RCVTIMEO, &time, &size) ?
			     errno == ENOTSOCK : !time.tv_sec && !time.tv_usec;
		/* Else it may end with a part. */
		if (!getsockopt(copy, SOL_SOCKET, SO_RCVLOWAT, &low, &low_size) && low > 1)
			is_endless = false;
		close(copy);
	}
	if (of_process >= 0)
		close(of_process);
	return is_endless;
}

static enum call_kind judge(const struct wake_thread *thread, enum call_kind kind,
			    enum call_rule rule)
{
	const uint64_t *arguments = thread->arguments;
	bool holds = true;

	switch (rule) {
	case RULE_NONE:
		break;
	case RULE_FUTEX:
		holds = is_plain_futex(arguments[1]);
		break;
	case RULE_NO_TIME:
		holds = !arguments[2];
		break;
	case RULE_NO_TIME_4:
		holds = !arguments[3];
		break;
	case RULE_MESSAGE:
		holds = !(arguments[3] & MSG_WAITALL) &&
			waits_for_ever(thread->process, (int)arguments[0]);
		break;
	case RULE_MESSAGE_3:
		holds = !(arguments[2] & MSG_WAITALL) &&
			waits_for_ever(thread->process, (int)arguments[0]);
		break;
	case RULE_SOCKET:
		holds = waits_for_ever(thread->process, (int)arguments[0]);
		break;
	case RULE_MILLISECONDS:
		return (int32_t)arguments[3] < 0 ? kind : CALL_TIMED;
	}
	return holds ? kind : CALL_NOT;
}

enum call_kind call_kind(const struct wake_thread *thread, const char **name)
{
	*name = "";
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if ((uint64_t)calls[i].number != thread->call)
			continue;
		*name = calls[i].name;
		return judge(thread, calls[i].kind, calls[i].rule);
	}
	return CALL_NOT;
}
