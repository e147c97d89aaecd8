// SPDX-License-Identifier: MIT
// What the tests of slub_leaks_find() share: objects that are lost, and children that ask.
#ifndef SLUB_TESTS_DEBUG_LEAKS_H
#define SLUB_TESTS_DEBUG_LEAKS_H

#include <cstdlib>
#include <gtest/gtest.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include <slub/leaks.h>

namespace {

struct node {
	struct node *next;
	char payload[40];
};

/* An address that nobody may find. */
inline uintptr_t masked(const void *object) { return ~(uintptr_t)object; }
inline node *unmasked(uintptr_t word) { return (node *)~word; }

__attribute__((noinline)) uintptr_t lose_list(int nr)
{
	node *head = nullptr;

	while (nr--) {
		node *made = (node *)calloc(1, sizeof(node));

		made->next = head;
		head = made;
	}
	return masked(head);
}

/* What the calls before have left on the stack. */
__attribute__((noinline)) void wipe()
{
	volatile char place[16384];

	for (size_t i = 0; i < sizeof(place); i++)
		place[i] = 0;
}

/* A test's own frame lies where this one is: it has nothing of before it. */
class Leaks : public testing::Test {
protected:
	void SetUp() override { wipe(); }
};

__attribute__((noinline)) uintptr_t lost_list(int nr)
{
	uintptr_t head = lose_list(nr);

	wipe();
	return head;
}

/* It is lost no more. */
void free_list(uintptr_t head)
{
	node *next;

	for (node *n = unmasked(head); n; n = next) {
		next = n->next;
		free(n);
	}
}

inline long found() { return slub_leaks_find(nullptr, nullptr); }

/* What @look returns in a child of its own; it is no error number. */
int in_child(int (*look)())
{
	pid_t child = fork();
	int status = 0;

	if (!child)
		_exit(look());
	EXPECT_EQ(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
}

} // namespace

#endif
