// SPDX-License-Identifier: MIT
// Something for the front end: much of the standard library, instantiated.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

using Value = std::variant<int, double, std::string, std::vector<int>>;

template <int N> struct Tower {
	std::unique_ptr<Tower<N - 1>> below = std::make_unique<Tower<N - 1>>();
	int height() const { return 1 + below->height(); }
};
template <> struct Tower<0> {
	int height() const { return 0; }
};

static std::map<std::string, Value> values(int count)
{
	std::mt19937 random(7);
	std::map<std::string, Value> all;
	for (int i = 0; i < count; i++) {
		std::string name = "value" + std::to_string(random() % 5000);
		switch (random() % 4) {
		case 0: all[name] = int(random() % 1000); break;
		case 1: all[name] = random() / 4096.0; break;
		case 2: all[name] = std::string(random() % 100, 'x'); break;
		default: all[name] = std::vector<int>(random() % 50, 3);
		}
	}
	return all;
}

int main()
{
	auto all = values(20000);
	std::unordered_map<size_t, std::set<std::string>> kinds;
	for (auto &[name, value] : all)
		kinds[value.index()].insert(name);
	for (size_t kind = 0; kind < 4; kind++)
		std::cout << kind << ' ' << kinds[kind].size() << '\n';
	std::ostringstream text;
	for (auto &[name, value] : all)
		std::visit([&](auto &v) {
			if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<int>>)
				text << std::accumulate(v.begin(), v.end(), 0);
			else
				text << v;
		}, value);
	std::string flat = text.str();
	std::regex digits("[0-9]+");
	std::cout << std::distance(std::sregex_iterator(flat.begin(), flat.end(), digits),
				   std::sregex_iterator()) << '\n';
	std::cout << Tower<60>().height() << '\n';
}
