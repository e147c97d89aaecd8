// SPDX-License-Identifier: MIT
// Promise: guarded objects of a SLUB_CACHE_TYPESAFE_BY_RCU cache stay readable and of their type
// until the readers that may look at them have left, then nobody may touch them.
#include "guard.h"

namespace {

// Can it be read?  The kernel says so without a signal.
bool is_readable(const void *p)
{
	int pipes[2];
	ssize_t n = pipe(pipes) ? 0 : write(pipes[1], p, 1);

	close(pipes[0]);
	close(pipes[1]);
	return n == 1;
}

void construct_typesafe(void *object)
{
	memset(object, 'c', 72);
}

struct slub_cache *typesafe_cache(const char *name)
{
	return slub_cache_create(name, 72, 0, SLUB_CACHE_TYPESAFE_BY_RCU, construct_typesafe);
}

char *guarded_typesafe(struct slub_cache *cache)
{
	for (int i = 0; i < 2000000; i++) {
		char *p = (char *)slub_cache_alloc(cache);

		if (is_guarded(p))
			return p;
		slub_cache_free(cache, p);
	}
	return nullptr;
}

TEST(GuardReaders, takes_one_in_n_of_what_readers_may_look_at)
{
	const uint64_t nr = every() == 1 ? 2000 : 200000;
	struct slub_cache *cache = typesafe_cache("guarded-rcu");
	uint64_t errors = pool()->errors;

	expect_share(count(nr, [=] { return slub_cache_alloc(cache); },
			   [=](void *p) { slub_cache_free(cache, p); }), nr);
	EXPECT_EQ(0, slub_cache_destroy(cache));
	EXPECT_EQ(errors, pool()->errors);
}

// Freed, and frees of others behind it: a reader that is inside sees the object as it was, and may
// write it; its place is nobody else's.  When he has left it cannot be touched.
TEST(GuardReaders, what_readers_look_at_stays_until_they_leave)
{
	struct slub_cache *cache = typesafe_cache("guarded-readers");
	uint64_t errors = pool()->errors;
	int index = slub_read_lock();
	char *p = guarded_typesafe(cache);

	ASSERT_NE(nullptr, p);
	memset(p, 'r', 72);
	slub_cache_free(cache, p);
	for (int i = 0; i < 2000; i++) {
		char *other = guarded_typesafe(cache);

		ASSERT_TRUE(!other || other + 72 <= p || other >= p + 72);
		slub_cache_free(cache, other);
	}
	ASSERT_TRUE(is_readable(p));
	for (int i = 0; i < 72; i++)
		ASSERT_EQ('r', p[i]);
	*(volatile char *)p = 'w';
	EXPECT_EQ(cache, slub_cache_of(p));
	slub_read_unlock(index);
	EXPECT_EQ(0, slub_cache_destroy(cache));
	EXPECT_FALSE(is_readable(p));
	EXPECT_EQ(errors, pool()->errors);
}

// Without anybody who waits for it: later allocations see to it.
TEST(GuardReaders, what_nobody_looks_at_is_protected_soon)
{
	struct slub_cache *cache = typesafe_cache("guarded-soon");
	char *p = guarded_typesafe(cache);

	slub_cache_free(cache, p);
	for (int i = 0; i < 1000 && is_readable(p); i++)
		slub_cache_free(cache, guarded_typesafe(cache));
	EXPECT_FALSE(is_readable(p));
	EXPECT_EQ(0, slub_cache_destroy(cache));
}

// Readers find objects in a table, and check that they are of this kind; a writer replaces them.
TEST(GuardReaders, readers_and_a_writer)
{
	struct slub_cache *cache = typesafe_cache("guarded-table");
	std::atomic<char *> table[16] = {};
	std::atomic<bool> is_over(false);
	std::atomic<int> wrong(0);
	std::vector<std::thread> readers;

	for (int t = 0; t < 2; t++)
		readers.emplace_back([&] {
			while (!is_over) {
				int index = slub_read_lock();

				for (auto &entry : table) {
					char *p = entry;

					// What a constructor made stays; the rest is the writer's.
					wrong += p && p[71] != 'c';
				}
				slub_read_unlock(index);
			}
		});
	for (int i = 0; i < 20000; i++) {
		char *made = (char *)slub_cache_alloc(cache);

		made[0] = (char)i;
		made = table[i % 16].exchange(made);
		if (made)
			slub_cache_free(cache, made);
	}
	is_over = true;
	for (auto &reader : readers)
		reader.join();
	for (auto &entry : table)
		slub_cache_free(cache, entry);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, slub_cache_destroy(cache));
}

TEST(GuardReaders, what_readers_look_at_is_freed_once)
{
	struct slub_cache *cache = typesafe_cache("guarded-twice");
	uint64_t errors = pool()->errors;
	int index = slub_read_lock();
	char *p = guarded_typesafe(cache);

	slub_cache_free(cache, p);
	slub_cache_free(cache, p);
	EXPECT_EQ(errors + 1, pool()->errors);
	slub_read_unlock(index);
	EXPECT_EQ(0, slub_cache_destroy(cache));
}

} // namespace
