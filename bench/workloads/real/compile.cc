// SPDX-License-Identifier: MIT
// Imitates building C++: a file that is compiled, with headers that instantiate much.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

template <int N> struct Node {
	std::map<std::string, std::shared_ptr<Node<N - 1>>> child;
	std::function<int(int)> call = [](int x) { return x + N; };
};
template <> struct Node<0> {
	std::vector<std::unordered_map<int, std::string>> leaf;
};

int main()
{
	std::vector<std::string> names = { "b2", "a1", "c3" };
	Node<12> node;

	std::sort(names.begin(), names.end(), std::greater<std::string>());
	std::cout << names[0] << node.call(1) << "\n";
	return 0;
}
