/* SPDX-License-Identifier: MIT */
/*
 * Starts the layers below the one under test, as src/core/slub.c does, but in sizes that suit a
 * test.
 */
#ifndef SLUB_TESTS_UNIT_START_H
#define SLUB_TESTS_UNIT_START_H

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>

#include "harness.h"
#include "slub.h"

namespace start {

/* One more option as if it stood in the environment; before the layers start. */
inline void option(const std::string &assignment)
{
	static std::string kept[16];
	static int nr;
	char *environment[2] = { nullptr, nullptr };

	kept[nr] = "SLUB_" + assignment;
	environment[0] = kept[nr++].data();
	option_read(environment);
}

/* A suite may be set up more than once in a process; the layers start once. */
template <typename Start> void once(Start start)
{
	static bool started;

	if (!started)
		start();
	started = true;
}

/* The backend that SLUB_FASTPATH asks for runs, or the test has nothing to say. */
inline bool has_wanted_backend()
{
	static const char *const names[] = { "", "rseq", "thread", "tid", "lock" };
	const char *wanted = getenv("SLUB_FASTPATH");

	return !wanted || std::string(wanted) == "auto" ||
	       std::string(wanted) == names[percpu_backend];
}

/* A uniprocessor build leaves out what more than one CPU would need. */
inline void stay_if_uniprocessor()
{
	if (!SLUB_CONFIG_SMP)
		os_cpu_pin();
}

inline void percpu()
{
	struct os_cpus cpus;

	stay_if_uniprocessor();
	option_read(environ);
	os_cpus_read(&cpus);
	if (percpu_init())
		abort();
	percpu_start(&cpus);
	percpu_thread_init();
}

/*
 * A heap of @reserve bytes that keeps @retain free bytes resident; what SLUB_RETAIN is by
 * default is not given, so it counts as at most that much.
 */
inline void page(size_t reserve, size_t retain, uint32_t nr_nodes = 1)
{
	struct os_limits limits = { (size_t)1 << 34, SIZE_MAX };
	struct os_cpus cpus;

	stay_if_uniprocessor();
	option_read(environ);
	option("ADDRESS_SPACE=" + std::to_string(reserve));
	if (retain != option_value(OPTION_retain))
		option("RETAIN=" + std::to_string(retain));
	option("HUGE=never");
	limits.memory_bytes = (size_t)1 << 34;
	limits.address_bytes = SIZE_MAX;
	os_cpus_read(&cpus);
	if (percpu_init() || pagemap_init(&limits))
		abort();
	if (superblock_init(nr_nodes))
		abort();
	page_purge_init(&limits);
	block_init(nr_nodes);
	percpu_start(&cpus);
	percpu_thread_init();
	percpu_enter();
}

/* @nr_nodes: of which this thread is on the first, whatever the machine has. */
inline void slab(size_t reserve, size_t retain, uint32_t nr_nodes = 1)
{
	struct os_cpus cpus;

	os_cpus_read(&cpus);
	page(reserve, retain, nr_nodes);
	slab_init(nr_nodes);
}

/* A thread that stays on a CPU that has lists. */
struct one_cpu : harness::one_cpu {
	one_cpu() { percpu_enter(); }
};

} /* namespace start */

#endif
