/* SPDX-License-Identifier: MIT */
/*
 * features/pressure/source.c: what systemd names by $MEMORY_PRESSURE_WATCH, and what becomes of
 * files that cannot be used: no descriptor stays open.
 */
#include <arpa/inet.h>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "found_cgroup.h"

namespace {

constexpr char PATH[] = "MEMORY_PRESSURE_WATCH", WHAT[] = "MEMORY_PRESSURE_WRITE";

class Watch : public testing::Test {
protected:
	static void SetUpTestSuite() { start::percpu(); }
	void SetUp() override
	{
		char name[] = "/tmp/watch.XXXXXX";

		ASSERT_NE(mkdtemp(name), nullptr);
		folder = name;
		v2_folder = &v2;
		v1_folder = &v1;
		had = descriptors();
	}
	void TearDown() override
	{
		unsetenv(PATH);
		unsetenv(WHAT);
		for (auto &file : files)
			unlink(file.c_str());
		rmdir(folder.c_str());
		EXPECT_EQ(descriptors(), had);
	}
	static unsigned descriptors()
	{
		unsigned nr = 0;

		for (int n = 0; n < 1000; n++)
			nr += fcntl(n, F_GETFD) >= 0;
		return nr;
	}
	std::string place(const char *name)
	{
		files.push_back(folder + "/" + name);
		return files.back();
	}
	std::string put(const char *name, const std::string &text)
	{
		std::string path = place(name);
		int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);

		EXPECT_EQ(write(fd, text.data(), text.size()), (ssize_t)text.size());
		close(fd);
		return path;
	}
	std::string fifo(const char *name, int *fd)
	{
		std::string path = place(name);

		EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
		*fd = open(path.c_str(), O_RDWR | O_NONBLOCK);
		return path;
	}
	/* So that @room bytes are free in it. */
	static void fill(int fifo, size_t room)
	{
		std::string bytes(4096 - room, 'x');

		ASSERT_EQ(fcntl(fifo, F_SETPIPE_SZ, 4096), 4096);
		ASSERT_EQ(write(fifo, bytes.data(), bytes.size()), (ssize_t)bytes.size());
	}
	static std::string take(int fd)
	{
		char buf[5000];
		ssize_t n = read(fd, buf, sizeof(buf));

		return std::string(buf, n > 0 ? (size_t)n : 0);
	}
	int watch(const std::string &path, const char *what = nullptr)
	{
		setenv(PATH, path.c_str(), 1);
		if (what)
			setenv(WHAT, what, 1);
		else
			unsetenv(WHAT);
		memset(all, 0x11, sizeof(all));
		return sources_open(all);
	}
	/* What is said of @path, which cannot be used; nothing stays open. */
	std::string refusal(const std::string &path, const char *what = nullptr)
	{
		std::string said;
		int status = harness::in_child([&] {
			unsigned before = descriptors();

			log_enable(true);
			int nr = watch(path, what);
			_exit(nr ? 1 : descriptors() != before ? 2 : 0);
		}, &said);

		EXPECT_EQ(harness::describe_status(status), "exit 0") << path;
		said = said.substr(said.find(' ') + 1);
		return said.substr(0, said.find('\n'));
	}
	static int mode(int fd) { return fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK); }

	std::string folder, v2, v1;
	std::vector<std::string> files;
	struct source all[SOURCES_MAX + 1];
	unsigned had;
};

TEST_F(Watch, AFifo)
{
	int fd;
	std::string path = fifo("fifo", &fd);

	ASSERT_EQ(watch(path), 1);
	EXPECT_EQ(all[0].kind, SLUB_PRESSURE_WATCH);
	EXPECT_EQ(all[0].severity, SEVERITY_SOME);
	EXPECT_EQ(all[0].poll_events, (uint32_t)EPOLLIN);
	EXPECT_EQ(all[0].other_fd, -1);
	EXPECT_GE(all[0].fd, DESCRIPTOR_MIN);
	EXPECT_EQ(mode(all[0].fd), O_RDWR | O_NONBLOCK);
	EXPECT_EQ(fcntl(all[0].fd, F_GETFD), FD_CLOEXEC);
	EXPECT_TRUE(descriptor_is_kept(all[0].fd));
	EXPECT_EQ(source_look(&all[0]), SEVERITY_NONE) << "nothing was written there";
	ASSERT_EQ(write(fd, "x", 1), 1);
	EXPECT_EQ(source_look(&all[0]), SEVERITY_SOME);
	sources_close(all, 1);
	close(fd);
}

/* One that is set by what is written to it is a trigger, and has a twin. */
TEST_F(Watch, ARegularFile)
{
	std::string path = put("file", "");

	ASSERT_EQ(watch(path), 1);
	EXPECT_EQ(all[0].kind, SLUB_PRESSURE_WATCH);
	EXPECT_EQ(all[0].poll_events, (uint32_t)EPOLLPRI);
	EXPECT_EQ(all[0].other_fd, -1);
	EXPECT_EQ(mode(all[0].fd), O_RDONLY | O_NONBLOCK);
	sources_close(all, 1);
	ASSERT_EQ(watch(path, "QUJD"), 1);
	EXPECT_EQ(all[0].poll_events, (uint32_t)EPOLLPRI);
	EXPECT_EQ(all[0].severity, SEVERITY_SOME);
	for (int fd : { all[0].fd, all[0].other_fd }) {
		char bytes[8];

		EXPECT_GE(fd, DESCRIPTOR_MIN);
		EXPECT_EQ(mode(fd), O_RDWR | O_NONBLOCK);
		EXPECT_TRUE(descriptor_is_kept(fd));
		EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 3) << "it was written by each";
		EXPECT_EQ(pread(fd, bytes, sizeof(bytes), 0), 3);
		EXPECT_EQ(memcmp(bytes, "ABC", 3), 0);
	}
	EXPECT_NE(all[0].fd, all[0].other_fd);
	sources_close(all, 1);
	/* What stood in the environment before is forgotten. */
	ASSERT_EQ(watch(path), 1);
	EXPECT_EQ(all[0].other_fd, -1);
	sources_close(all, 1);
	unsetenv(PATH);
	int nr = sources_open(all);
	for (int i = 0; i < nr; i++)
		EXPECT_EQ(all[i].kind, SLUB_PRESSURE_PSI_MACHINE);
	sources_close(all, nr);
}

std::string base64(const std::string &bytes)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789+/";
	std::string out;
	uint32_t bits = 0;
	int nr = 0;

	for (unsigned char byte : bytes) {
		bits = bits << 8 | byte;
		for (nr += 8; nr >= 6; nr -= 6)
			out += digits[bits >> (nr - 6) & 63];
	}
	if (nr)
		out += digits[bits << (6 - nr) & 63];
	return out + std::string((4 - out.size() % 4) % 4, '=');
}

TEST_F(Watch, WhatIsToBeWritten)
{
	std::string each, many;
	int fd;
	std::string path = fifo("fifo", &fd);

	for (int i = 0; i < 256; i++)
		each += (char)i;
	for (int i = 0; i < 700; i++)
		many += (char)(i * 7 + i / 256);
	struct {
		std::string text, is;
	} const rows[] = {
		{ "", "" }, { "QQ==", "A" }, { "QUI=", "AB" }, { "QUJD", "ABC" }, { "Q", "" },
		{ "QU", "A" }, { "QU JD", "A" }, { "Q*UJD", "" }, { "=QUJD", "" },
		{ "+/+/", "\xfb\xff\xbf" }, { "AAAA", std::string(3, '\0') },
		{ base64(each), each }, { base64(each.substr(1)), each.substr(1) },
		{ base64(many.substr(0, 511)), many.substr(0, 511) },
		{ base64(many.substr(0, 512)), many.substr(0, 512) },
		/* No more than that. */
		{ base64(many.substr(0, 513)), many.substr(0, 512) },
		{ base64(many), many.substr(0, 512) },
	};

	for (auto &row : rows) {
		ASSERT_EQ(watch(path, row.text.c_str()), 1) << row.text;
		EXPECT_EQ(all[0].other_fd, -1);
		EXPECT_EQ(take(fd), row.is) << row.text;
		sources_close(all, 1);
	}
	close(fd);
}

TEST_F(Watch, ASocket)
{
	/* The longest path that an address holds, and one more. */
	for (size_t length : { folder.size() + 4, sizeof(sockaddr_un::sun_path) - 1 }) {
		std::string name(length - folder.size() - 1, 's');
		std::string path = place(name.c_str());
		struct sockaddr_un address = {};
		int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

		address.sun_family = AF_UNIX;
		memcpy(address.sun_path, path.c_str(), path.size());
		ASSERT_EQ(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
		ASSERT_EQ(listen(listener, 4), 0);
		ASSERT_EQ(watch(path, "SGVsbG8="), 1) << length;
		EXPECT_EQ(all[0].poll_events, (uint32_t)EPOLLIN);
		EXPECT_EQ(all[0].other_fd, -1);
		EXPECT_TRUE(mode(all[0].fd) & O_NONBLOCK);
		EXPECT_EQ(fcntl(all[0].fd, F_GETFD), FD_CLOEXEC);
		int other = accept(listener, nullptr, nullptr);
		ASSERT_GE(other, 0);
		EXPECT_EQ(take(other), "Hello");
		EXPECT_EQ(source_look(&all[0]), SEVERITY_NONE);
		EXPECT_FALSE(all[0].is_over);
		sources_close(all, 1);
		close(other);
		close(listener);
		EXPECT_EQ(refusal(path), "MEMORY_PRESSURE_WATCH: cannot use '" + path + "'")
			<< "nobody listens";
	}
	/* By another name it is there, but an address does not hold that. */
	std::string longer = folder + "/";
	longer += std::string(sizeof(sockaddr_un::sun_path) - longer.size() - 3, '/') + "sss";
	longer.resize(sizeof(sockaddr_un::sun_path));
	ASSERT_EQ(longer.size(), sizeof(sockaddr_un::sun_path));
	struct stat state;
	ASSERT_EQ(stat(longer.c_str(), &state), 0) << longer;
	EXPECT_EQ(refusal(longer), "MEMORY_PRESSURE_WATCH: cannot use '" + longer + "'");
}

TEST_F(Watch, WhatCannotBeUsed)
{
	std::string path = folder + "/nothing";
	int fd;

	EXPECT_EQ(refusal(path), "MEMORY_PRESSURE_WATCH: there is no '" + path + "'");
	EXPECT_EQ(refusal("/dev/null"), "MEMORY_PRESSURE_WATCH=/dev/null: memory pressure is not "
					"watched");
	EXPECT_EQ(refusal("/dev/full", "QUJD"), "MEMORY_PRESSURE_WATCH: cannot use '/dev/full'");
	path = fifo("fifo", &fd);
	fill(fd, 2);
	EXPECT_EQ(refusal(path, "QUJD"), "MEMORY_PRESSURE_WATCH: cannot use '" + path + "'");
	ASSERT_EQ(watch(path, "QUI="), 1) << "that fits";
	sources_close(all, 1);
	close(fd);
	/* The twin can be opened, and not the file itself. */
	path = put("file", "");
	std::string said;
	int status = harness::in_child([&] {
		int last = dup(2);
		struct rlimit limit = { (rlim_t)last + 1, (rlim_t)last + 1 };

		close(last);
		log_enable(true);
		unsigned before = descriptors();
		setrlimit(RLIMIT_NOFILE, &limit);
		int nr = watch(path, "QUJD");
		_exit(nr ? 1 : descriptors() != before ? 2 : 0);
	}, &said);
	EXPECT_EQ(harness::describe_status(status), "exit 0");
	EXPECT_NE(said.find("cannot use '" + path), said.npos) << said;
}

/* Of a program that has closed its standard streams. */
TEST_F(Watch, WhereTheLowestNumbersAreFree)
{
	int fd, listener = socket(AF_UNIX, SOCK_STREAM, 0);
	std::string paths[] = { fifo("fifo", &fd), put("file", ""), place("socket") };
	struct sockaddr_un address = {};

	address.sun_family = AF_UNIX;
	memcpy(address.sun_path, paths[2].c_str(), paths[2].size());
	ASSERT_EQ(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ASSERT_EQ(listen(listener, 4), 0);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(harness::describe_status(harness::in_child([&] {
			close(0);
			close(1);
			int nr = watch(paths[i], "QUJD");
			bool good = nr == 1 && all[0].fd >= DESCRIPTOR_MIN &&
				    fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0;
			_exit(good && (all[0].other_fd >= DESCRIPTOR_MIN) == (i == 1) ? 0 : 1);
		})), "exit 0") << paths[i];
	}
	EXPECT_EQ(take(fd), "ABC");
	int file = open(paths[1].c_str(), O_RDONLY), other = accept(listener, nullptr, nullptr);
	EXPECT_EQ(take(file), "ABC");
	EXPECT_EQ(take(other), "ABC");
	for (int each : { fd, file, other, listener })
		close(each);
}

/* Names that begin or end so are others'. */
TEST_F(Watch, ByItsWholeName)
{
	std::string path = put("file", "");

	setenv("MEMORY_PRESSURE_WATCHED", path.c_str(), 1);
	setenv("AMEMORY_PRESSURE_WATCH", path.c_str(), 1);
	setenv("MEMORY_PRESSURE_WRITER", "QUJD", 1);
	int nr = sources_open(all);
	for (int i = 0; i < nr; i++)
		EXPECT_EQ(all[i].kind, SLUB_PRESSURE_PSI_MACHINE);
	sources_close(all, nr);
	ASSERT_EQ(watch(path), 1);
	EXPECT_EQ(all[0].other_fd, -1) << "nothing is to be written";
	sources_close(all, 1);
	unsetenv("MEMORY_PRESSURE_WATCHED");
	unsetenv("AMEMORY_PRESSURE_WATCH");
	unsetenv("MEMORY_PRESSURE_WRITER");
}

/* ---- a group's files ---- */

class Group : public Watch {
protected:
	/* How many there are, but for the machine's. */
	int own()
	{
		int nr = sources_open(all), own = 0;

		for (int i = 0; i < nr; i++)
			own += all[i].kind != SLUB_PRESSURE_PSI_MACHINE;
		sources_close(all, nr);
		return own;
	}
};

/* A trigger needs its twin. */
TEST_F(Group, ATriggerThatCannotBeSetTwice)
{
	const size_t some = sizeof("some 150000 2000000"), full = sizeof("full 50000 2000000");
	int fd;

	fifo("memory.pressure", &fd);
	v2 = folder;
	for (auto [room, nr] : { std::pair<size_t, int>{ 0, 0 }, { some, 0 }, { 2 * some - 1, 0 },
				 { 2 * some, 1 }, { 2 * some + full, 1 },
				 { 2 * some + 2 * full, 2 } }) {
		fill(fd, room);
		EXPECT_EQ(own(), nr) << room;
		take(fd);
	}
	close(fd);
}

TEST_F(Group, OfVersionOneNeedsAllItsFiles)
{
	static const char *const names[] = { "cgroup.event_control", "memory.pressure_level",
					     "memory.usage_in_bytes", "memory.limit_in_bytes" };

	v1 = folder;
	for (unsigned set = 0; set < 16; set++) {
		for (int i = 0; i < 4; i++)
			if (set & 1u << i)
				put(names[i], i == 3 ? "80000\n" : "");
		EXPECT_EQ(own(), (set & 3) == 3 ? (set & 12) == 12 ? 2 : 1 :
				 (set & 13) == 13 ? 1 : 0) << set;
		for (auto &file : files)
			unlink(file.c_str());
		files.clear();
	}
	/* Nor can be told to a control that is full. */
	int fd;
	fifo(names[0], &fd);
	put(names[1], "");
	put(names[2], "");
	put(names[3], "80000\n");
	fill(fd, 0);
	EXPECT_EQ(own(), 0);
	take(fd);
	EXPECT_EQ(own(), 2);
	take(fd);
	put(names[3], "");
	EXPECT_EQ(own(), 1) << "nothing of what was read before is taken for a limit";
	put(names[3], "80000\n");
	take(fd);
	/* Nor where no descriptor is left. */
	int last = dup(2);
	close(last);
	for (int more = 0; more < 3; more++) {
		int status = harness::in_child([&] {
			struct rlimit limit = { (rlim_t)(last + more), (rlim_t)(last + more) };

			setrlimit(RLIMIT_NOFILE, &limit);
			unsigned before = descriptors();
			int nr = own();
			_exit(nr ? 1 : descriptors() != before ? 2 : 0);
		});
		EXPECT_EQ(harness::describe_status(status), "exit 0") << more;
	}
	close(fd);
}

TEST_F(Group, WhatIsToldOfAnEventIsTakenOnce)
{
	int control;

	fifo("cgroup.event_control", &control);
	put("memory.pressure_level", "");
	v1 = folder;
	int nr = sources_open(all);
	ASSERT_GE(nr, 1);
	struct source *level = &all[nr - 1];
	ASSERT_EQ(level->kind, SLUB_PRESSURE_V1_LEVEL);
	EXPECT_TRUE(mode(level->fd) & O_NONBLOCK);
	EXPECT_EQ(fcntl(level->fd, F_GETFD), FD_CLOEXEC);
	EXPECT_EQ(fcntl(level->other_fd, F_GETFD), FD_CLOEXEC);
	EXPECT_EQ(mode(level->other_fd), O_RDONLY | O_NONBLOCK);
	EXPECT_EQ(source_look(level), SEVERITY_NONE) << "nothing yet";
	EXPECT_FALSE(level->is_over);
	uint64_t one = 1;
	ASSERT_EQ(write(level->fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	EXPECT_EQ(source_look(level), SEVERITY_SOME);
	EXPECT_EQ(source_look(level), SEVERITY_NONE);
	sources_close(all, nr);
	close(control);
}

/* ---- a trigger that speaks ---- */

/* What a socket is sent out of band is a priority, until it is read. */
struct Urgent {
	int ends[2];

	Urgent()
	{
		struct sockaddr_in address = {};
		socklen_t size = sizeof(address);
		int listener = socket(AF_INET, SOCK_STREAM, 0);

		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		EXPECT_EQ(bind(listener, (struct sockaddr *)&address, size), 0);
		EXPECT_EQ(listen(listener, 1), 0);
		EXPECT_EQ(getsockname(listener, (struct sockaddr *)&address, &size), 0);
		ends[1] = socket(AF_INET, SOCK_STREAM, 0);
		EXPECT_EQ(connect(ends[1], (struct sockaddr *)&address, size), 0);
		ends[0] = accept(listener, nullptr, nullptr);
		close(listener);
	}
	~Urgent()
	{
		close(ends[0]);
		close(ends[1]);
	}
	void say()
	{
		struct pollfd p = { ends[0], POLLPRI, 0 };

		EXPECT_EQ(send(ends[1], "!", 1, MSG_OOB), 1);
		EXPECT_EQ(poll(&p, 1, 10000), 1);
	}
	void hear()
	{
		char byte;

		EXPECT_EQ(recv(ends[0], &byte, 1, MSG_OOB), 1);
	}
};

TEST_F(Group, EitherTwinOfATriggerSpeaks)
{
	Urgent one, two;
	struct source source = {};

	source.kind = SLUB_PRESSURE_PSI_CGROUP;
	source.severity = SEVERITY_FULL;
	source.poll_events = EPOLLPRI;
	source.fd = one.ends[0];
	source.other_fd = two.ends[0];
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	for (unsigned set = 1; set < 4; set++) {
		if (set & 1)
			one.say();
		if (set & 2)
			two.say();
		EXPECT_EQ(source_look(&source), SEVERITY_FULL) << set;
		EXPECT_FALSE(source.is_over) << set;
		if (set & 1)
			one.hear();
		if (set & 2)
			two.hear();
		EXPECT_EQ(source_look(&source), SEVERITY_NONE) << set;
	}
	source.severity = SEVERITY_SOME;
	one.say();
	EXPECT_EQ(source_look(&source), SEVERITY_SOME);
	/* An event and an error: it is over, and says nothing more. */
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	close(ends[0]);
	source.other_fd = ends[1];
	EXPECT_EQ(source_look(&source), SEVERITY_NONE);
	EXPECT_TRUE(source.is_over);
	close(ends[1]);
}

} /* namespace */
