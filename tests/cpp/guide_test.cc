/* SPDX-License-Identifier: MIT */
/*
 * The code of docs/api-cpp.md, which quotes it from here.  guide_quotes_test
 * compares them; indentation does not count.
 */
#include <atomic>
#include <cstdio>
#include <gtest/gtest.h>
#include <list>
#include <map>
#include <memory_resource>
#include <string>
#include <thread>

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

	slub_bucket *tenant = slub_bucket_create("tenant7", 0);
	{
		slub::memory_resource of_tenant(tenant);
		std::pmr::string text("all that this tenant has", &of_tenant);
	}
	slub_bucket_destroy(tenant);
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

} // namespace
