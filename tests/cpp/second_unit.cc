/* SPDX-License-Identifier: MIT */
/*
 * The same templates as in container_test.cc: the linker keeps one copy of each
 * function, and must find that the sequences in the other went with it.
 */
#include <map>

#include <slub/slub.hpp>

int sum_in_second_unit(int n)
{
	std::map<int, int, std::less<int>, slub::allocator<std::pair<const int, int>>> squares;
	slub::cache<long> cache("cpp-second");
	int sum = 0;

	for (int i = 0; i < n; i++)
		squares[i] = i * i;
	for (auto [key, square] : squares)
		sum += square;
	auto held = cache.make_unique(sum);
	return static_cast<int>(*held);
}
