/* SPDX-License-Identifier: MIT */
/* group.h: how long a request waits that leaves a group above its high limit. */
#include <cerrno>
#include <csignal>
#include <ctime>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#include <slub/slub.h>

#if defined(__x86_64__) && defined(SYS_futex)
namespace {

size_t usage(slub_group *group)
{
	struct slub_group_stats stats;

	EXPECT_EQ(slub_group_stats(group, &stats), 0);
	return stats.usage;
}

std::vector<long> pauses_ns;

/* In place of a wait for a futex: for how long is written down, and nobody waits. */
void note_pause(int, siginfo_t *, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const auto *pause = (const struct timespec *)regs[REG_R10];

	pauses_ns.push_back(pause->tv_sec * 1000000000 + pause->tv_nsec);
	regs[REG_RAX] = -ETIMEDOUT;
}

bool trap_pauses()
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { (unsigned short)std::size(filter), filter };
	struct sigaction action = {};

	pauses_ns.reserve(100);
	action.sa_sigaction = note_pause;
	action.sa_flags = SA_SIGINFO;
	return !sigaction(SIGSYS, &action, nullptr) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The pause of a request that leaves @over above the bound. */
long pause_for(slub_group *group, size_t high, size_t over)
{
	pauses_ns.clear();
	uint32_t token = slub_group_charge(group, high + over);

	EXPECT_EQ(usage(group), high + over);
	EXPECT_EQ(pauses_ns.size(), over ? 1u : 0u) << over;
	slub_group_uncharge(token, high + over);
	return pauses_ns.empty() ? 0 : pauses_ns[0];
}

/* By how much it is above: a hundredth of the way costs a hundredth of 10 ms. */
void expect_pauses()
{
	constexpr size_t HIGH = 8 << 20, EIGHTH = HIGH / 8;
	constexpr long MOST_NS = 10000000;
	slub_group *group = slub_group_create("group", nullptr);

	slub_group_limit_set(group, SLUB_GROUP_HIGH, HIGH);
	for (size_t part : { 0, 1, 10, 50, 90, 99 })
		EXPECT_NEAR(pause_for(group, HIGH, EIGHTH / 100 * part), MOST_NS / 100 * part,
			    MOST_NS / 200) << part;
	EXPECT_EQ(pause_for(group, HIGH, 1), 0);
	EXPECT_LT(pause_for(group, HIGH, EIGHTH - 1), MOST_NS);
	EXPECT_EQ(pause_for(group, HIGH, EIGHTH), MOST_NS);
	EXPECT_EQ(pause_for(group, HIGH, 10 * EIGHTH), MOST_NS);
	slub_group_destroy(group);
}

} /* namespace */

TEST(GroupPause, AboveHighARequestPausesByHowMuch)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (!trap_pauses())
			_exit(77);
		expect_pauses();
		_exit(HasFailure());
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "no filter of system calls";
	EXPECT_EQ(status, 0);
}
#endif
