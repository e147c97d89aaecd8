/* SPDX-License-Identifier: MIT */
/*
 * An LRU cache: the values that were used last, and no more than so many.
 *
 * Each hit moves a list node, each miss at the limit frees one entry and
 * allocates another: an allocator's daily bread.  List and index take their
 * nodes from caches of their own by slub::allocator, with a tag as the name;
 * `slub::allocator<..., lru_tag>` is all there is to it.
 *
 * The program runs a load in which few keys are asked for often, prints the
 * share of hits for several limits, and checks every answer against a plain
 * model of an LRU.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>

#include <slub/slub.hpp>

/* The nodes' caches are named after this: "lru-32" and so on. */
struct lru_tag {
	static constexpr const char *name = "lru";
};

template <class Key, class Value> class lru_cache {
public:
	explicit lru_cache(std::size_t limit) : limit_(limit)
	{
		index_.reserve(limit);
	}

	/* The value, which is the one used last now; nullptr: not here. */
	Value *find(const Key &key)
	{
		auto found = index_.find(key);

		if (found == index_.end())
			return nullptr;
		order_.splice(order_.begin(), order_, found->second);
		return &found->second->value;
	}

	/* Puts a value in; the one that was not used for longest may go. */
	void insert(const Key &key, Value value)
	{
		if (Value *present = find(key)) {
			*present = std::move(value);
			return;
		}
		if (index_.size() == limit_) {
			index_.erase(order_.back().key);
			order_.pop_back();
		}
		order_.push_front({ key, std::move(value) });
		index_.emplace(key, order_.begin());
	}

	std::size_t size() const
	{
		return index_.size();
	}

private:
	struct entry {
		Key key;
		Value value;
	};
	template <class T> using allocator = slub::allocator<T, lru_tag>;
	using order = std::list<entry, allocator<entry>>;
	using place = typename order::iterator;
	using index = std::unordered_map<Key, place, std::hash<Key>, std::equal_to<Key>,
					 allocator<std::pair<const Key, place>>>;

	order order_;	// used last in front
	index index_;
	std::size_t limit_;
};

/* What an LRU is, in the plainest words: every key with the time of its use. */
class model {
public:
	explicit model(std::size_t limit) : limit_(limit)
	{
	}
	bool use(std::uint64_t key)
	{
		auto found = used_.find(key);
		bool hit = found != used_.end();

		if (hit)
			by_time_.erase(found->second);
		else if (used_.size() == limit_) {
			used_.erase(by_time_.begin()->second);
			by_time_.erase(by_time_.begin());
		}
		used_[key] = ++now_;
		by_time_[now_] = key;
		return hit;
	}

private:
	std::map<std::uint64_t, std::uint64_t> used_, by_time_;
	std::uint64_t now_ = 0;
	std::size_t limit_;
};

/* Few keys often, many seldom: the lower a key, the likelier. */
class load {
public:
	explicit load(std::uint64_t nr_keys) : nr_keys_(static_cast<double>(nr_keys))
	{
	}
	std::uint64_t next()
	{
		double even = std::generate_canonical<double, 53>(random_);

		return static_cast<std::uint64_t>(nr_keys_ * even * even * even * even);
	}

private:
	std::mt19937_64 random_;	// the same numbers in every run
	double nr_keys_;
};

static std::string text_of(std::uint64_t key)
{
	return "value " + std::to_string(key);
}

/* How many nodes of Size bytes there is room for now. */
template <std::size_t Size> static void print_nodes()
{
	struct node {
		char bytes[Size];
	};
	slub_cache *cache = slub::allocator<node, lru_tag>::cache();
	struct slub_cache_stats stats = {};

	if (!cache || slub_cache_stats(cache, &stats))
		return;
	std::printf("%-8s %5zu bytes each, room for %llu in %llu slabs\n", slub_cache_name(cache),
		    slub_cache_stride(cache), (unsigned long long)stats.objects,
		    (unsigned long long)stats.slabs);
}

/* Prints and returns the share of hits in percent; nothing if an answer was wrong. */
static std::optional<double> run(std::size_t limit, long nr_requests, std::uint64_t nr_keys,
				 bool with_nodes)
{
	lru_cache<std::uint64_t, std::string> cache(limit);
	model expected(limit);
	load requests(nr_keys);
	long hits = 0;

	for (long i = 0; i < nr_requests; i++) {
		std::uint64_t key = requests.next();
		std::string *value = cache.find(key);

		if ((value != nullptr) != expected.use(key) || (value && *value != text_of(key))) {
			std::fprintf(stderr, "lru_cache: request %ld: wrong answer\n", i);
			return std::nullopt;
		}
		hits += value != nullptr;
		if (!value)
			cache.insert(key, text_of(key));
		if (cache.size() > limit) {
			std::fprintf(stderr, "lru_cache: more entries than %zu\n", limit);
			return std::nullopt;
		}
	}

	double share = 100.0 * static_cast<double>(hits) / static_cast<double>(nr_requests);

	std::printf("%10zu %7.1f%%\n", limit, share);
	if (with_nodes) {
		std::printf("\n");
		print_nodes<56>();	// list: two links, the key, a string
		print_nodes<24>();	// index: a link, the key, the place in the list
	}
	return share;
}

static long number(const char *option, const char *text)
{
	char *end;
	long value = std::strtol(text ? text : "", &end, 10);

	if (!text || *end || end == text || value < 1) {
		std::fprintf(stderr, "lru_cache: %s wants a number above 0\n", option);
		std::exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	long nr_requests = 200000, nr_keys = 10000;

	for (int i = 1; i < argc; i += 2) {
		if (!std::strcmp(argv[i], "--requests")) {
			nr_requests = number(argv[i], argv[i + 1]);
		} else if (!std::strcmp(argv[i], "--keys")) {
			nr_keys = number(argv[i], argv[i + 1]);
		} else {
			bool help = !std::strcmp(argv[i], "--help");

			std::fprintf(help ? stdout : stderr,
				     "usage: lru_cache [--requests N] [--keys N]\n"
				     "The share of hits of an LRU cache, for several limits.\n"
				     "  --requests N   requests for each limit (200000)\n"
				     "  --keys N       different keys (10000)\n");
			return help ? 0 : 2;
		}
	}

	std::printf("%ld requests for %ld keys\n\n%10s %8s\n", nr_requests, nr_keys, "entries",
		    "hits");
	double last = -1;
	for (std::size_t limit : { 10, 100, 1000, 10000 }) {
		std::optional<double> hits = run(limit, nr_requests, nr_keys, limit == 10000);

		if (!hits)
			return 1;
		if (*hits < last) {	// an LRU of more entries never has fewer hits
			std::fprintf(stderr, "lru_cache: fewer hits with more entries\n");
			return 1;
		}
		last = *hits;
	}
	return 0;
}
