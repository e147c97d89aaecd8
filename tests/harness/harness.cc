/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

namespace harness {

static inline uint64_t word_of(uint64_t seed, size_t index)
{
	return (seed + 1) * 0x9e3779b97f4a7c15ull + index * 0xbf58476d1ce4e5b9ull;
}

void fill(void *block, size_t n, uint64_t seed)
{
	auto *bytes = static_cast<unsigned char *>(block);
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		uint64_t word = word_of(seed, i / 8);
		memcpy(bytes + i, &word, 8);
	}
	if (i < n) {
		uint64_t word = word_of(seed, i / 8);
		memcpy(bytes + i, &word, n - i);
	}
}

size_t first_damage(const void *block, size_t n, uint64_t seed)
{
	auto *bytes = static_cast<const unsigned char *>(block);

	for (size_t i = 0; i < n; i += 8) {
		uint64_t word = word_of(seed, i / 8);
		size_t length = std::min<size_t>(8, n - i);
		if (memcmp(bytes + i, &word, length) == 0)
			continue;
		for (size_t j = 0; j < length; j++)
			if (bytes[i + j] != reinterpret_cast<unsigned char *>(&word)[j])
				return i + j;
	}
	return n;
}

size_t first_nonzero(const void *block, size_t n)
{
	auto *bytes = static_cast<const unsigned char *>(block);

	if (n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0))
		return n;
	for (size_t i = 0; i < n; i++)
		if (bytes[i])
			return i;
	return n;
}

std::vector<size_t> sizes()
{
	std::vector<size_t> list;
	const size_t limit = 4u << 20;

	for (size_t n = 0; n <= 2048; n++)
		list.push_back(n);
	for (size_t n = 2048; n <= 64 << 10; n += 61)
		list.push_back(n);
	for (size_t n = 64 << 10; n <= limit; n += 32749)
		list.push_back(n);
	for (size_t power = 4096; power <= limit; power *= 2)
		for (size_t n : {power - 1, power, power + 1, power + power / 2})
			list.push_back(n);
	std::sort(list.begin(), list.end());
	list.erase(std::unique(list.begin(), list.end()), list.end());
	return list;
}

std::vector<size_t> classes(size_t limit)
{
	std::vector<size_t> list;

	for (size_t n = 1; n <= limit;) {
		void *block = malloc(n);
		size_t usable = malloc_usable_size(block);

		free(block);
		list.push_back(usable);
		/* Where a block has no byte to spare, sizes go up by a sixteenth. */
		n = usable > n ? usable + 1 : n + n / 16 + 1;
	}
	return list;
}

std::string folder()
{
	char path[4096] = {};

	if (!realpath("/proc/self/exe", path))
		return ".";
	return std::string(path).substr(0, std::string(path).rfind('/'));
}

void stay_on_this_cpu()
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* The beginning of a file of /proc; allocates nothing. */
template <size_t N>
static void read_beginning(const char *path, char (&text)[N])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	memset(text, 0, N);
	if (fd < 0 || read(fd, text, N - 1) <= 0)
		abort();
	close(fd);
}

size_t resident_bytes()
{
	char text[64];

	read_beginning("/proc/self/statm", text);
	const char *second = strchr(text, ' ');
	return strtoull(second, nullptr, 10) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

bool is_emulated()
{
	char name[16];

	read_beginning("/proc/self/comm", name);
	return !strncmp(name, "qemu-", 5);
}

size_t opaque(size_t value)
{
	asm volatile("" : "+r"(value));
	return value;
}

void *opaque(void *pointer)
{
	asm volatile("" : "+r"(pointer) : : "memory");
	return pointer;
}

bool knows_sizes()
{
	void *p = malloc(1);
	bool knows = malloc_usable_size(p) == 1;

	free(p);
	return knows;
}

uint64_t Random::next()
{
	state += 0x9e3779b97f4a7c15ull;
	uint64_t z = state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

int wait_for(int pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static std::string read_all(int fd)
{
	std::string text;
	char buffer[4096];

	for (;;) {
		ssize_t got = read(fd, buffer, sizeof(buffer));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		text.append(buffer, static_cast<size_t>(got));
	}
	return text;
}

/* What an emulator says of the process's end is not the process's. */
static void take_out_lines(std::string &text, const std::string &start)
{
	std::string::size_type at = 0;

	while (at < text.size()) {
		std::string::size_type next = std::min(text.find('\n', at), text.size() - 1) + 1;

		if (text.compare(at, start.size(), start) == 0)
			text.erase(at, next - at);
		else
			at = next;
	}
}

int in_child(const std::function<void()> &body, std::string *errors, unsigned seconds)
{
	int ends[2] = {-1, -1};

	fflush(nullptr);
	if (errors && pipe2(ends, O_CLOEXEC) != 0)
		abort();
	int pid = fork();
	if (pid == 0) {
		alarm(seconds);
		if (errors)
			dup2(ends[1], 2);
		body();
		fflush(nullptr);
		_exit(0);
	}
	if (errors) {
		close(ends[1]);
		*errors = read_all(ends[0]);
		if (is_emulated())
			take_out_lines(*errors, "qemu: ");
		close(ends[0]);
	}
	return wait_for(pid);
}

bool is_library(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	return strncmp(name, "libslub", 7) == 0 && strstr(name, ".so") != nullptr;
}

std::string describe_status(int status)
{
	if (WIFEXITED(status))
		return "exit " + std::to_string(WEXITSTATUS(status));
	if (WIFSIGNALED(status))
		return "signal " + std::to_string(WTERMSIG(status)) + " (" +
		       strsignal(WTERMSIG(status)) + ")";
	return "status " + std::to_string(status);
}

} /* namespace harness */
