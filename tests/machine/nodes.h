/* SPDX-License-Identifier: MIT */
/* What the kernel says of nodes, and where memory really is. */
#ifndef SLUB_TESTS_MACHINE_NODES_H
#define SLUB_TESTS_MACHINE_NODES_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace nodes {

/* The numbers in a list such as "0-3,8"; empty: there is no such file. */
inline std::vector<int> numbers_in(const std::string &path)
{
	std::vector<int> numbers;
	FILE *file = fopen(path.c_str(), "r");
	int from, to;

	while (file && fscanf(file, "%d", &from) == 1) {
		if (fscanf(file, "-%d", &to) != 1)
			to = from;
		for (; from <= to; from++)
			numbers.push_back(from);
		if (fgetc(file) != ',')
			break;
	}
	if (file)
		fclose(file);
	return numbers;
}

inline std::vector<int> with_memory()
{
	return numbers_in("/sys/devices/system/node/has_memory");
}

inline std::vector<int> cpus_of(int node)
{
	return numbers_in("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
}

inline void go_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0) << "CPU " << cpu;
}

/* A thread of its own on @cpu: the test's stays where it is. */
template <typename Body> void on_cpu(int cpu, Body body)
{
	std::thread([&] {
		go_to_cpu(cpu);
		body();
	}).join();
}

/* Nodes that have memory and an own processor. */
inline std::vector<int> complete()
{
	std::vector<int> found;

	for (int node : with_memory()) {
		if (!cpus_of(node).empty())
			found.push_back(node);
	}
	return found;
}

/* The node of the page at @address, or -errno: no memory is behind it. */
inline int node_of(const void *address)
{
	void *page = (void *)((uintptr_t)address & -4096ul);
	int status = -1;

	if (syscall(SYS_move_pages, 0, 1ul, &page, nullptr, &status, 0))
		return -1;
	return status;
}

/* How many of the pages of a block are on @node; all of them were written. */
inline size_t pages_on(const void *block, size_t bytes, int node)
{
	size_t n = 0;

	for (size_t at = 0; at < bytes; at += 4096)
		n += node_of((const char *)block + at) == node;
	return n;
}

inline int set_policy(int mode, int node)
{
	unsigned long mask = node < 0 ? 0 : 1ul << node;

	return (int)syscall(SYS_set_mempolicy, mode, &mask, 64);
}

} /* namespace nodes */

#define SKIP_WITHOUT_NODES()                                                                       \
	do {                                                                                       \
		if (nodes::complete().size() < 2)                                                  \
			GTEST_SKIP() << "there are no two NUMA nodes with processors and memory: " \
					"tests/machine/run --numa 2";                              \
	} while (0)

#endif
