// SPDX-License-Identifier: MIT
// slub_leaks_find() where it may not search: what the kernel refuses, and what the caller does.
#include <cerrno>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "leaks.h"

namespace {

const int skipped = 200;

jmp_buf left;

int leave(const struct slub_leak *, void *) { longjmp(left, 1); }

int left_by_a_jump()
{
	static volatile int first;

	if (!setjmp(left))
		slub_leaks_find(leave, nullptr);
	first = (int)-found();
	/* A child has no search of its own yet. */
	pid_t child = fork();
	int status = 0;

	if (!child)
		_exit(found() == 1 ? 0 : 1);
	waitpid(child, &status, 0);
	return status ? 100 : first;
}

/* The rule of the header: nobody leaves a search by a jump. */
TEST_F(Leaks, left_by_a_jump)
{
	uintptr_t head = lost_list(1);

	EXPECT_EQ(in_child(left_by_a_jump), EBUSY);
	free_list(head);
}

int without_proc()
{
	if (chroot("/sys") || chdir("/"))
		return skipped;
	return (int)-found();
}

TEST_F(Leaks, without_proc)
{
	int result = in_child(without_proc);

	if (result == skipped)
		GTEST_SKIP() << "may not change its root";
	EXPECT_EQ(result, ENOENT);
}

int without_memory()
{
	struct rlimit limit = { 1 << 20, 1 << 20 };

	if (setrlimit(RLIMIT_AS, &limit))
		return skipped;
	return (int)-found();
}

TEST_F(Leaks, without_memory)
{
	EXPECT_EQ(in_child(without_memory), ENOMEM);
}

/* From here on system call @number fails with EPERM, or does @action. */
bool forbid(unsigned int number, unsigned int action = SECCOMP_RET_ERRNO | EPERM)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

template <unsigned int number> int without_call()
{
	return forbid(number) ? (int)(found() < 0 ? 100 : found()) : skipped;
}

template <unsigned int number> int refused_by_call()
{
	return forbid(number) ? (int)-found() : skipped;
}

TEST_F(Leaks, without_a_child)
{
	int result = in_child(refused_by_call<SYS_clone>);

	if (result == skipped)
		GTEST_SKIP() << "may not have a filter";
	EXPECT_EQ(result, EPERM);
}

int without_a_process_more()
{
	struct rlimit none = { 0, 0 };

	/* Root may have as many as it likes. */
	if ((!geteuid() && setresuid(65534, 65534, 65534)) || setrlimit(RLIMIT_NPROC, &none))
		return skipped;
	return (int)-found();
}

TEST_F(Leaks, without_a_process_more)
{
	int result = in_child(without_a_process_more);

	if (result == skipped)
		GTEST_SKIP() << "may not become another user";
	EXPECT_EQ(result, EAGAIN);
}

/* prctl() is the first call that the child makes. */
int with_a_child_that_is_killed()
{
	return forbid(SYS_prctl, SECCOMP_RET_KILL_PROCESS) ? (int)-found() : skipped;
}

TEST_F(Leaks, with_a_child_that_is_killed)
{
	int result = in_child(with_a_child_that_is_killed);

	if (result == skipped)
		GTEST_SKIP() << "may not have a filter";
	EXPECT_EQ(result, EIO);
}

void find_and_end(int) { _exit((int)-found()); }

/* The heap grows with a lock held, and a handler interrupts that. */
int amid_the_allocator()
{
	signal(SIGSYS, find_and_end);
	if (!forbid(SYS_mprotect, SECCOMP_RET_TRAP))
		return skipped;
	for (int i = 0; i < 1000000; i++) {
		if (!malloc(500))
			return 101;
	}
	return 100;
}

TEST_F(Leaks, amid_the_allocator)
{
	int result = in_child(amid_the_allocator);

	if (result == skipped)
		GTEST_SKIP() << "may not have a filter";
	EXPECT_EQ(result, EDEADLK);
}

/* It makes do without these. */
TEST_F(Leaks, without_a_call)
{
	uintptr_t head = lost_list(3);

	if (in_child(without_call<SYS_process_vm_readv>) == skipped)
		GTEST_SKIP() << "may not have a filter";
	EXPECT_EQ(in_child(without_call<SYS_process_vm_readv>), 3);
	EXPECT_EQ(in_child(without_call<SYS_pread64>), 3);
	EXPECT_EQ(in_child(without_call<SYS_getdents64>), 3);
	EXPECT_EQ(in_child(without_call<SYS_prctl>), 3);
	free_list(head);
}

} // namespace
