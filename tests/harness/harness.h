/* SPDX-License-Identifier: MIT */
/*
 * What every test program shares: contents that can be checked later, the
 * sizes worth trying, and the process's own view of its memory.
 */
#ifndef SLUB_TESTS_HARNESS_H
#define SLUB_TESTS_HARNESS_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <sched.h>
#include <string>
#include <vector>

namespace harness {

/* Writes a pattern whose byte i depends on `seed` and i alone, not on n. */
void fill(void *block, size_t n, uint64_t seed);

/* Index of the first byte that fill() did not write, or n when all are there. */
size_t first_damage(const void *block, size_t n, uint64_t seed);

inline bool intact(const void *block, size_t n, uint64_t seed)
{
	return first_damage(block, n, seed) == n;
}

/* Index of the first byte that is not zero, or n. */
size_t first_nonzero(const void *block, size_t n);

/* Every size to 2 KiB, then ever sparser up to 4 MiB, powers of two and their neighbours. */
std::vector<size_t> sizes();

/* One request per size class of the allocator in use, found by malloc_usable_size. */
std::vector<size_t> classes(size_t limit);

/* Resident bytes of this process, read without allocating. */
size_t resident_bytes();

/* Where this program lies. */
std::string folder();

/* Keeps the calling thread where it is: its CPU number then stays the same. */
void stay_on_this_cpu();

/* The same until its end. */
class one_cpu {
public:
	one_cpu()
	{
		sched_getaffinity(0, sizeof(before), &before);
		stay_on_this_cpu();
	}
	~one_cpu() { sched_setaffinity(0, sizeof(before), &before); }
	one_cpu(const one_cpu &) = delete;

private:
	cpu_set_t before;
};

/*
 * Under qemu-user?  There limits of address space, and what /proc and madvise(2) say of memory, are
 * the emulator's own.
 */
bool is_emulated();

/* A number that the compiler cannot see through: keeps calls and arguments as written. */
size_t opaque(size_t value);
void *opaque(void *pointer);

/* Does malloc_usable_size() say what was asked for?  The hardened build's does. */
bool knows_sizes();

/* A small generator: same seed, same sequence; safe in a signal handler. */
struct Random {
	uint64_t state;
	explicit Random(uint64_t seed) : state(seed) {}
	uint64_t next();
	uint64_t below(uint64_t limit) { return next() % limit; }
};

/*
 * Runs `body` in a forked child with a watchdog of `seconds`, so that a hang ends as death by
 * SIGALRM.  Returns waitpid's status; what the child wrote on stderr goes to *errors if given.
 */
int in_child(const std::function<void()> &body, std::string *errors = nullptr,
	     unsigned seconds = 30);

/* Keeps on waiting through interruptions; returns the status. */
int wait_for(int pid);

/* Is that the library's file?  A clone lies in a folder of its name. */
bool is_library(const char *path);

/* "exit 3" or "signal 11 (Segmentation fault)", for messages. */
std::string describe_status(int status);

} /* namespace harness */

#endif
