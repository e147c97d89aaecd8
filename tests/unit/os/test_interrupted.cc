/* SPDX-License-Identifier: MIT */
/*
 * core/os/file.c under a sandbox whose answer to each read, or write, is that it was interrupted.
 */
#include <cerrno>
#include <functional>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slub.h"

namespace {

enum { NO_FILTER = 77, WRONG = 1, RIGHT = 0 };

/* How a child ends that asks where @call is never let through; one that never ends is killed. */
int refused(long call, const std::function<bool()> &ask)
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINTR),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	sock_fprog program = { 4, code };
	rlimit seconds = { 5, 5 };
	pid_t child = fork();
	int status = 0;

	if (!child) {
		setrlimit(RLIMIT_CPU, &seconds);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			_exit(NO_FILTER);
		_exit(ask() ? RIGHT : WRONG);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_TRUE(WIFEXITED(status)) << "it asked without end";
	return WEXITSTATUS(status);
}

TEST(interrupted, a_read_that_always_is_ends)
{
	int answer = refused(SYS_read, [] {
		char buf[64];

		return os_file_read("/proc/self/stat", buf, sizeof(buf)) == 0 && !buf[0];
	});

	if (answer == NO_FILTER)
		GTEST_SKIP() << "no filter of system calls here";
	EXPECT_EQ(answer, RIGHT);
}

TEST(interrupted, a_write_that_always_is_ends)
{
	int pipes[2];

	ASSERT_EQ(pipe(pipes), 0);
	int answer = refused(SYS_write, [&] {
		return os_write_all(pipes[1], "text", 4) == -EINTR;
	});

	if (answer == NO_FILTER)
		GTEST_SKIP() << "no filter of system calls here";
	EXPECT_EQ(answer, RIGHT);
	close(pipes[0]);
	close(pipes[1]);
}

} /* namespace */
