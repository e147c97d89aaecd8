/* SPDX-License-Identifier: MIT */
/* The clock and the CPU: the kernel's own code, system calls, and where those are refused. */
#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "slub.h"

static bool is_hidden;

extern "C" {
const struct os_vdso *__real_os_vdso(void);
const struct os_vdso *__wrap_os_vdso(void)
{
	static const struct os_vdso none = { nullptr, nullptr };

	return is_hidden ? &none : __real_os_vdso();
}
}

static uint64_t theirs(int clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

TEST(Clock, TellsWhatTheKernelTells)
{
	for (bool hidden : { false, true }) {
		is_hidden = hidden;
		for (int clock : { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_REALTIME_COARSE,
				   CLOCK_MONOTONIC_COARSE }) {
			uint64_t before = theirs(clock), ours = os_clock_read_ns(clock);

			EXPECT_LE(before, ours) << clock << hidden;
			EXPECT_LE(ours, theirs(clock)) << clock << hidden;
		}
	}
	is_hidden = false;
}

TEST(Clock, TheKernelsCodeIsFound)
{
#if defined(__x86_64__)
	EXPECT_TRUE(__real_os_vdso()->clock_gettime);
	EXPECT_TRUE(__real_os_vdso()->getcpu);
#endif
	EXPECT_EQ(__real_os_vdso(), __real_os_vdso());
}

/* From here on a clock is refused. */
static bool refuse(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clock_gettime, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, rules };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* What was known last, and 0 where nothing was. */
static int stands_still(void)
{
	uint64_t known;

	is_hidden = true;
	known = os_clock_read_ns(CLOCK_MONOTONIC);
	if (!known || !refuse())
		return 1;
	for (int i = 0; i < 3; i++) {
		if (os_clock_read_ns(CLOCK_MONOTONIC) != known ||
		    os_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) != 0)
			return 2;
	}
	return 0;
}

TEST(Clock, StandsStillWhereItIsRefused)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(stands_still());
	waitpid(pid, &status, 0);
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Cpu, IsOneOfThoseAllowed)
{
	cpu_set_t allowed;

	ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	for (bool hidden : { false, true }) {
		is_hidden = hidden;
		EXPECT_TRUE(CPU_ISSET(os_cpu_current(), &allowed));
		EXPECT_LT(os_cpu_node(), 1024u);
	}
	is_hidden = false;
}
