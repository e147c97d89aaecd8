/* SPDX-License-Identifier: MIT */
/* core/os/map.c, os_is_too_much(): what the answers mean in each mode of vm.overcommit_memory. */
#include <functional>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "slub.h"

namespace {

const size_t GiB = (size_t)1 << 30, large = 64 * GiB;

sock_filter load(size_t offset)
{
	return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
const sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM);

/* What only the system call's number and its arguments say; little-endian. */
std::vector<sock_filter> mappings_of_4_gib(std::vector<sock_filter> then)
{
	std::vector<sock_filter> code = {
		load(offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
		allow,
		load(offsetof(seccomp_data, args[1]) + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		allow,
	};

	code.insert(code.end(), then.begin(), then.end());
	return code;
}

/* The answer of @ask in a child under such a filter; -1: there can be none here. */
int under(std::vector<sock_filter> code, const std::function<int()> &ask)
{
	sock_fprog program = { (unsigned short)code.size(), code.data() };
	pid_t child = fork();
	int status = 0;

	if (!child) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			_exit(77);
		_exit(ask());
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_TRUE(WIFEXITED(status));
	return WEXITSTATUS(status) == 77 ? -1 : WEXITSTATUS(status);
}

int ask_large()
{
	return os_is_too_much(large);
}

/* Mode 0 refuses the charge, and nothing else. */
TEST(overcommit, the_heuristic_refuses)
{
	int answer = under(mappings_of_4_gib({
		load(offsetof(seccomp_data, args[3])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_NORESERVE, 0, 1),
		allow,
		refuse,
	}), ask_large);

	if (answer < 0)
		GTEST_SKIP() << "no filter can be set";
	EXPECT_EQ(answer, 1);
}

/*
 * Mode 2 charges each mapping.  The heap's growth is one, and what it has grown to is charged
 * already: so the size says nothing.  The same for a lack of addresses.
 */
TEST(overcommit, the_limit_on_what_is_charged_refuses)
{
	int answer = under(mappings_of_4_gib({ refuse }), ask_large);

	if (answer < 0)
		GTEST_SKIP() << "no filter can be set";
	EXPECT_EQ(answer, 0);
}

TEST(overcommit, nothing_refuses)
{
	EXPECT_FALSE(os_is_too_much(os_page_size()));
	EXPECT_FALSE(os_is_too_much(GiB / 1024));
}

/* A process that has locked all of its future mappings pays for no memory. */
TEST(overcommit, nothing_becomes_resident)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (mlockall(MCL_FUTURE))
			_exit(77);
		os_is_too_much(GiB / 2);
		struct rusage usage;
		getrusage(RUSAGE_SELF, &usage);
		_exit(usage.ru_maxrss > 300 * 1024);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_TRUE(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "mlockall is refused";
	EXPECT_EQ(WEXITSTATUS(status), 0);
}

} /* namespace */
