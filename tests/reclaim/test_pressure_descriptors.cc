/* SPDX-License-Identifier: MIT */
/* Memory pressure in a program that closes descriptors that it does not know. */
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "pressure.h"

namespace {

/* A daemon closes all descriptors there are, the library's too: the thread sleeps all the same. */
TEST(PressureDescriptors, TheThreadSleepsWithoutItsDescriptors)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		struct timespec used;

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_start_thread() == 0);
		for (int fd = 3; fd < 256; fd++)
			close(fd);
		usleep(2000000);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
		CHECK(used.tv_sec == 0 && used.tv_nsec < 300000000);
		CHECK(slub_pressure_stop_thread() == 0);
	});
}

/* Files of the program's under all numbers that the library may have had. */
struct Strangers {
	static constexpr int FROM = 3, TO = 256;
	int event = fcntl(eventfd(5, EFD_NONBLOCK), F_DUPFD, TO);
	int poll = fcntl(epoll_create1(0), F_DUPFD, TO);

	explicit Strangers(int of_epoll)
	{
		struct epoll_event once = { EPOLLIN | EPOLLET, {} };

		CHECK(epoll_ctl(poll, EPOLL_CTL_ADD, event, &once) == 0);
		for (int fd = FROM; fd < TO; fd++)
			CHECK(dup2(fd == of_epoll ? poll : event, fd) == fd);
	}
	void are_open() const
	{
		for (int fd = FROM; fd < TO; fd++)
			CHECK(fcntl(fd, F_GETFD) >= 0);
	}
	void are_untouched() const
	{
		struct epoll_event ready;
		uint64_t value = 0;

		are_open();
		CHECK(epoll_wait(poll, &ready, 1, 0) == 1);
		CHECK(read(event, &value, sizeof(value)) == sizeof(value) && value == 5);
	}
};

void child_leaves_alone(const Strangers &strangers)
{
	pid_t child = fork();

	if (child == 0) {
		strangers.are_open();
		_exit(0);
	}
	CHECK(harness::wait_for(child) == 0);
}

/* A daemon's next files get the library's numbers: they are the daemon's. */
TEST(PressureDescriptors, AStrangersDescriptorIsLeftAlone)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Witness witness;

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		int fd = slub_pressure_fd();
		CHECK(fd >= 3);
		Strangers strangers(fd);
		child_leaves_alone(strangers);
		CHECK(slub_pressure_handle() == -EBADF);
		strangers.are_untouched();
		/* It goes on with others. */
		fd = slub_pressure_fd();
		CHECK(fd >= Strangers::TO);
		int out = open(path.c_str(), O_WRONLY);
		CHECK(write(out, "x", 1) == 1);
		CHECK(is_readable(fd, 1000) && slub_pressure_handle() == 1);
		CHECK(witness.counts == 1);
		/* Under the same number, where that is free. */
		close(fd);
		CHECK(slub_pressure_handle() == 0);
		CHECK(slub_pressure_fd() == fd);
		CHECK(write(out, "x", 1) == 1);
		CHECK(is_readable(fd, 1000) && slub_pressure_handle() == 1);
		/* Or if only the source is gone. */
		for (int other = Strangers::TO; other < 300; other++) {
			if (other != fd && other != out)
				close(other);
		}
		CHECK(slub_pressure_handle() == 0);
		CHECK(write(out, "x", 1) == 1);
		CHECK(is_readable(fd, 1000) && slub_pressure_handle() == 1);
	});
}

/* A sandbox that allows of fcntl(2) what it knows, and not the signal of a descriptor. */
bool forbid_marks(int err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETSIG, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { (unsigned short)std::size(filter), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

TEST(PressureDescriptors, WhereMarksAreRefusedAllIsAsElse)
{
	for (int err : { EPERM, EINVAL, ENOSYS }) {
		Folder folder;
		std::string path = folder.file("watch");

		ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
		expect_good([&] {
			if (!forbid_marks(err))
				return;
			Witness witness;

			setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
			int fd = slub_pressure_fd();
			CHECK(fd >= 3);
			int out = open(path.c_str(), O_WRONLY);
			CHECK(write(out, "x", 1) == 1);
			CHECK(is_readable(fd, 1000) && slub_pressure_handle() == 1);
			CHECK(witness.counts == 1);
		});
	}
}

TEST(PressureDescriptors, TheThreadLeavesStrangersDescriptorsAlone)
{
	Folder folder;
	std::string path = folder.file("watch");

	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_good([&] {
		Witness witness;

		setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1);
		CHECK(slub_pressure_start_thread() == 0);
		Strangers strangers(slub_pressure_fd());
#if !defined(__SANITIZE_THREAD__)
		child_leaves_alone(strangers);
#endif
		/* It finds out by itself, and opens its sources anew. */
		int out = open(path.c_str(), O_WRONLY);
		while (!witness.counts) {
			CHECK(write(out, "x", 1) == 1);
			usleep(10000);
		}
		CHECK(slub_pressure_stop_thread() == 0);
		strangers.are_untouched();
	});
}

} /* namespace */
