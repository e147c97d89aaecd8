/* SPDX-License-Identifier: MIT */
/*
 * The code of docs/api/cpp.md, which quotes it from here.  guide_quotes_test
 * compares them; indentation does not count.
 */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <gtest/gtest.h>
#include <list>
#include <map>
#include <memory_resource>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <slub/slub.hpp>

namespace {

struct session {
	explicit session(int fd) : fd(fd)
	{
	}
	int fd;
	char buffer[500];
};

TEST(cpp_guide, cache)
{
	slub::cache<session> sessions("session");

	session *s = sessions.make(7);		// allocates, then session(7)
	sessions.destroy(s);			// ~session(), then frees

	auto owned = sessions.make_unique(8);	// destroyed at the end of the block
	EXPECT_EQ(owned->fd, 8);

	try {
		sessions.close();
		FAIL();
	} catch (const std::system_error &error) {
		// slub::cache 'session': objects are still allocated: Device or resource busy
		EXPECT_NE(std::string(error.what()).find("slub::cache 'session': objects are "
							 "still allocated"), std::string::npos);
	}
}

struct traffic {
	long packets, bytes;
};

TEST(cpp_guide, percpu)
{
	slub::percpu<long> requests;
	++requests;
	requests += 10;
	long total = requests.sum();

	slub::percpu<traffic> counted;		// several, side by side
	counted.add(&traffic::packets, 1);
	counted.add(&traffic::bytes, 1500);
	long bytes = counted.sum(&traffic::bytes);

	EXPECT_EQ(total, 11);
	EXPECT_EQ(bytes, 1500);
}

struct order {
	int amount;
};

struct orders_tag {
	static constexpr const char *name = "orders";
};

TEST(cpp_guide, containers)
{
	std::map<int, order, std::less<>, slub::allocator<std::pair<const int, order>>> orders;
	std::list<order, slub::allocator<order, orders_tag>> queue;

	orders[1].amount = 5;
	queue.push_back({ 6 });
	EXPECT_STREQ(slub_cache_name(slub_cache_of(&queue.front())), "orders-24");

	slub::memory_resource memory;
	std::pmr::map<int, std::pmr::string> names(&memory);
	names[1] = "one";

	slub::bucket tenant("tenant7");			// all its blocks end with it
	{
		slub::memory_resource of_tenant(tenant);
		std::pmr::string text("all that this tenant has", &of_tenant);
	}
}

struct route {
	int port;
};

TEST(cpp_guide, readers)
{
	slub::cache<route> routes("route");
	std::atomic<route *> current = routes.make(route{ 80 });

	auto reader = [&] {
		slub::read_guard reading;
		return current.load(std::memory_order_acquire)->port;
	};

	slub::free_deferred(current.exchange(routes.make(route{ 443 })));
	EXPECT_EQ(reader(), 443);
	slub::free_deferred(current.load());
	slub::deferred_barrier();
	EXPECT_NO_THROW(routes.close());
}

TEST(cpp_guide, domains)
{
	slub::srcu plugins;
	{
		slub::srcu_guard reading(plugins);
		// ... call the plugin ...
	}
	plugins.synchronize();			// every reader that was inside has left
}

TEST(cpp_guide, pools)
{
	slub::pool<session> pool("session", 4);	// four of them put aside

	auto one = pool.wait_unique(7);		// waits; never without one
	session *two = pool.make(8);		// std::bad_alloc: nothing is left
	pool.destroy(two);
	EXPECT_EQ(one->fd, 7);

	slub::set_reserve(256 << 10);
	{
		slub::reserve_guard right;
		// ... what this block allocates may have the reserve ...
	}
	slub::set_reserve(0);
}

TEST(cpp_guide, numbers)
{
	slub::profile sampled;			// one byte in 512 KiB is a sample, until it ends
	slub::set_option("retain", "8M");
	std::uint64_t bytes = slub::value("heap.slab_bytes").number;

	slub::for_each_cache([](slub_cache *cache) {
		return std::puts(slub_cache_name(cache)) < 0;	// until it returns non-zero
	});
	EXPECT_GT(bytes, 0u);
	std::string path = "/tmp/slub-guide-" + std::to_string(getpid());
	sampled.write(path);
	std::remove(path.c_str());
}

TEST(cpp_guide, limits)
{
	std::vector<std::vector<char>> blocks;

	slub::group tenant("tenant7");
	tenant.set_limit(SLUB_GROUP_MAX, 8 << 20);
	{
		slub::group_guard inside(tenant);
		blocks.emplace_back(1 << 20);		// std::bad_alloc above 8 MiB
	}
	size_t charged = tenant.stats().usage;
	EXPECT_GE(charged, 1u << 20);
}

TEST(cpp_guide, shrinker)
{
	std::vector<int> buffers(100);
	std::mutex lock;			// of the buffers

	slub::shrinker idle("idle buffers",
		[&] {
			std::unique_lock held(lock, std::try_to_lock);
			return held ? buffers.size() : 0;
		},
		[&](size_t n) -> size_t {
			std::unique_lock held(lock, std::try_to_lock);
			if (!held)
				return SLUB_SHRINK_STOP;	// taken, perhaps by this thread
			size_t freed = std::min(n, buffers.size());
			buffers.resize(buffers.size() - freed);
			return freed;
		});
	EXPECT_GT(slub_shrink_all(), 0u);
	EXPECT_LT(buffers.size(), 100u);
	EXPECT_EQ(idle.freed(), 100 - buffers.size());
}

struct mover {
	std::set<order *> &all;			// a program with threads locks it

	bool isolate(order *o) noexcept { return all.count(o) != 0; }
	bool migrate(order *from, void *to) noexcept
	{
		all.insert(new (to) order(*from));
		all.erase(from);
		return true;
	}
};

TEST(cpp_guide, mover)
{
	slub::cache<order> orders("moving-order");
	std::set<order *> all;

	for (int i = 0; i < 20000; i++)
		all.insert(orders.make());
	for (auto o = all.begin(); o != all.end();) {
		for (int i = 0; i < 9 && o != all.end(); i++) {
			orders.destroy(*o);
			o = all.erase(o);
		}
		if (o != all.end())
			++o;
	}
	mover move{ all };
	orders.set_mover(move);
	long slabs = orders.defrag();
	EXPECT_GT(slabs, 0);
	for (order *o : all)
		orders.destroy(o);
}

} // namespace
