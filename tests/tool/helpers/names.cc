// SPDX-License-Identifier: MIT
/*
 * Allocates from functions with names that only C++ has, prints "ready", and frees one object twice
 * if SLUB_GUARD is set; ends at the end of its input.
 *
 * usage: names
 */
#include <stdio.h>
#include <stdlib.h>
#include <utility>
#include <vector>

namespace shop {

static void *volatile last;

template <class Key> class Store {
public:
	__attribute__((noinline)) void *take(const Key &key, std::pair<int, char> how)
	{
		last = malloc(96);
		asm volatile("" : : "r"(&key), "r"(&how));
		return last;
	}
	__attribute__((noinline)) void drop()
	{
		free(last);
		asm volatile("");
	}
};

} // namespace shop

int main()
{
	shop::Store<std::vector<int>> store;
	std::vector<int> key(3);

	for (int i = 0; i < 50; i++)
		store.take(key, { i, 'a' });
	if (getenv("SLUB_GUARD")) {
		store.drop();
		store.drop();
	}
	puts("ready");
	fflush(stdout);
	return getchar() == EOF ? 0 : 1;
}
