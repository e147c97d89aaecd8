/* SPDX-License-Identifier: MIT */
/*
 * Torture: readers without locks against writers that free and reuse.  No reader ever sees freed
 * memory (deferred free) or an object of another type (SLUB_CACHE_TYPESAFE_BY_RCU).
 *
 *	SLUB_TORTURE_READS=100000000   reads in each test (a million)
 */
#include <atomic>
#include <sched.h>
#include <thread>

#include "api.h"

namespace {

const uint64_t alive = 0xa11fe0b5ec7a11fe, dead = 0xdeadbeefdeadbeef;
const size_t nr_places = 64, nr_readers = 3;

uint64_t wanted_reads()
{
	const char *reads = getenv("SLUB_TORTURE_READS");

	return reads ? strtoull(reads, nullptr, 0) : api::scaled(1000000);
}

/* Fills a page-sized object's first cache lines too; all words are atomic for all. */
struct object {
	std::atomic<uint64_t> type, self, generation, check;
};

uint64_t check_of(const void *o, uint64_t generation)
{
	return ((uintptr_t)o ^ generation) * 0x9e3779b97f4a7c15;
}

struct torture {
	std::atomic<struct object *> places[nr_places];
	std::atomic<uint64_t> reads{ 0 }, wrong{ 0 }, reused{ 0 }, replaced{ 0 };
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	void finish()
	{
		/* Writers may have come late. */
		while ((reads < wanted_reads() || replaced <= 1000) && !wrong)
			usleep(2000);
		stop = true;
		for (auto &thread : threads)
			thread.join();
		EXPECT_EQ(wrong, 0u);
		EXPECT_GT(replaced, 1000u);
	}
	template <typename F> void readers(F read)
	{
		for (size_t t = 0; t < nr_readers; t++) {
			threads.emplace_back([this, read, t] {
				harness::Random random(t + 1);

				while (!stop) {
					for (int i = 0; i < 100; i++)
						wrong += read(random);
					reads += 100;
				}
			});
		}
	}
};

/* Some readers sleep inside; what they found must still be there. */
void linger(harness::Random &random)
{
	uint64_t dice = random.below(2000);

	if (dice == 0)
		usleep(50);
	else if (dice < 20)
		sched_yield();
}

/* ---- deferred ---- */

struct object *make_deferred(struct slub_cache *cache, uint64_t generation)
{
	void *memory = cache ? slub_cache_alloc(cache) : malloc(96);
	auto *o = static_cast<struct object *>(memory);

	if (!o)
		abort();
	o->type.store(alive, std::memory_order_relaxed);
	o->self.store((uintptr_t)o, std::memory_order_relaxed);
	o->generation.store(generation, std::memory_order_relaxed);
	o->check.store(check_of(o, generation), std::memory_order_relaxed);
	return o;
}

bool read_deferred(torture &t, harness::Random &random)
{
	int index = slub_read_lock();
	struct object *o = t.places[random.below(nr_places)].load(std::memory_order_acquire);
	uint64_t before = o->generation.load(std::memory_order_relaxed);
	bool wrong = o->type != alive || o->self != (uintptr_t)o || o->check != check_of(o, before);

	linger(random);
	wrong |= o->generation != before || o->type != alive || o->check != check_of(o, before);
	slub_read_unlock(index);
	return wrong;
}

void torture_deferred(struct slub_cache *cache)
{
	torture t;
	std::atomic<uint64_t> generation{ 1 };

	for (auto &place : t.places)
		place = make_deferred(cache, generation++);
	t.readers([&t](harness::Random &random) { return read_deferred(t, random); });
	for (int w = 0; w < 2; w++) {
		t.threads.emplace_back([&, w] {
			harness::Random random(w + 100);

			while (!t.stop) {
				struct object *made = make_deferred(cache, generation++);
				auto *old = t.places[random.below(nr_places)].exchange(made);

				slub_free_deferred(old);
				t.replaced++;
			}
		});
	}
	/* Takes what became free, and writes over it. */
	t.threads.emplace_back([&] {
		std::vector<void *> mine;

		while (!t.stop) {
			for (int i = 0; i < 200; i++) {
				void *block = cache ? slub_cache_alloc(cache) : malloc(96);
				auto *words = static_cast<std::atomic<uint64_t> *>(block);

				for (size_t k = 0; k < sizeof(struct object) / 8; k++)
					words[k].store(dead, std::memory_order_relaxed);
				mine.push_back(block);
			}
			for (void *block : mine)
				free(block);
			mine.clear();
			slub_deferred_barrier();
		}
	});
	t.finish();
	for (auto &place : t.places)
		slub_free(place);
	slub_deferred_barrier();
}

TEST(reader_torture, deferred_free_of_malloc) { torture_deferred(nullptr); }

TEST(reader_torture, deferred_free_of_a_cache)
{
	api::cache cache(96);

	torture_deferred(cache);
}

/* ---- typesafe ---- */

void construct(void *memory)
{
	auto *o = static_cast<struct object *>(memory);

	o->type.store(alive, std::memory_order_relaxed);
	o->self.store((uintptr_t)memory, std::memory_order_relaxed);
}

/* The object may be another one of the type by now: then its generation says so. */
bool read_typesafe(torture &t, harness::Random &random)
{
	auto &place = t.places[random.below(nr_places)];
	int index = slub_read_lock();
	struct object *o = place.load(std::memory_order_acquire);
	bool wrong = o->type.load(std::memory_order_relaxed) != alive ||
		     o->self.load(std::memory_order_relaxed) != (uintptr_t)o;

	linger(random);
	wrong |= o->type.load(std::memory_order_relaxed) != alive ||
		 o->self.load(std::memory_order_relaxed) != (uintptr_t)o;
	if (place.load(std::memory_order_acquire) != o)
		t.reused++;
	slub_read_unlock(index);
	return wrong;
}

void torture_typesafe(size_t size)
{
	api::cache cache(size, 0, SLUB_CACHE_TYPESAFE_BY_RCU, construct), other(size);
	torture t;

	for (auto &place : t.places)
		place = static_cast<struct object *>(slub_cache_alloc(cache));
	t.readers([&t](harness::Random &random) { return read_typesafe(t, random); });
	for (int w = 0; w < 2; w++) {
		t.threads.emplace_back([&, w] {
			harness::Random random(w + 100);

			for (uint64_t g = 1; !t.stop; g++) {
				auto *made = static_cast<struct object *>(slub_cache_alloc(cache));

				if (!made || made->type != alive || made->self != (uintptr_t)made)
					t.wrong++;
				made->generation.store(g, std::memory_order_relaxed);
				auto *old = t.places[random.below(nr_places)].exchange(made);
				if (random.below(3))
					slub_cache_free(cache, old);
				else
					free(old);
				t.replaced++;
			}
		});
	}
	/* Makes slabs of it empty and gives them back; others want their pages. */
	t.threads.emplace_back([&] {
		std::vector<void *> mine, others;

		while (!t.stop) {
			for (int i = 0; i < 300; i++)
				mine.push_back(slub_cache_alloc(cache));
			slub_cache_free_bulk(cache, mine.size(), mine.data());
			mine.clear();
			slub_cache_shrink(cache);
			for (int i = 0; i < 300; i++) {
				others.push_back(slub_cache_alloc(other));
				memset(others.back(), 0xde, size);
			}
			slub_cache_free_bulk(other, others.size(), others.data());
			others.clear();
			slub_cache_shrink(other);
		}
	});
	t.finish();
	for (auto &place : t.places)
		slub_cache_free(cache, place);
}

TEST(reader_torture, typesafe) { torture_typesafe(96); }

TEST(reader_torture, typesafe_with_links_in_descriptors) { torture_typesafe(4096); }

} /* namespace */
