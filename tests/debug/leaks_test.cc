// SPDX-License-Identifier: MIT
// slub_leaks_find(): what it tells of a leak, and that it leaves the program alone: its locks, its
// signals, its children.  tests/tool/leaked_test.py has which objects are leaks, for a corpus.
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "leaks.h"
#include <slub/cache.h>
#include <slub/debug.h>

namespace {

struct seen {
	uintptr_t object;	/* masked */
	size_t bytes, beneath, beneath_bytes;
	char cache[64];
	uintptr_t frame;
	uint32_t nr_frames, is_ring;
};

struct told {
	std::vector<seen> all;
};

int note(const struct slub_leak *leak, void *arg)
{
	seen one = { masked(leak->object), leak->bytes, leak->beneath, leak->beneath_bytes, "",
		     leak->nr_frames ? leak->frames[0] : 0, leak->nr_frames, leak->is_ring };

	snprintf(one.cache, sizeof(one.cache), "%s", leak->cache);
	((told *)arg)->all.push_back(one);
	return 0;
}

TEST_F(Leaks, none)
{
	EXPECT_EQ(found(), 0);
}

TEST_F(Leaks, list_is_told)
{
	uintptr_t head = lost_list(10);
	told told;

	ASSERT_EQ(slub_leaks_find(note, &told), 10);
	ASSERT_EQ(told.all.size(), 1u);
	EXPECT_EQ(told.all[0].object, head);
	EXPECT_EQ(told.all[0].bytes, 48u);
	EXPECT_EQ(told.all[0].beneath, 9u);
	EXPECT_EQ(told.all[0].beneath_bytes, 9u * 48);
	EXPECT_STREQ(told.all[0].cache, "malloc-48");
	EXPECT_EQ(told.all[0].is_ring, 0u);
	free_list(head);
	wipe();
	EXPECT_EQ(found(), 0);
}

__attribute__((noinline)) void close_ring(uintptr_t head)
{
	node *last = unmasked(head);

	while (last->next)
		last = last->next;
	last->next = unmasked(head);
}

__attribute__((noinline)) void open_ring(uintptr_t head)
{
	node *last = unmasked(head);

	while (last->next != unmasked(head))
		last = last->next;
	last->next = nullptr;
}

TEST_F(Leaks, ring_is_one)
{
	uintptr_t head = lose_list(5);
	told told;

	close_ring(head);
	wipe();
	ASSERT_EQ(slub_leaks_find(note, &told), 5);
	ASSERT_EQ(told.all.size(), 1u);
	EXPECT_EQ(told.all[0].beneath, 4u);
	EXPECT_EQ(told.all[0].is_ring, 1u);
	open_ring(head);
	free_list(head);
}

__attribute__((noinline)) uintptr_t lose_typed(struct slub_cache *cache)
{
	return masked(slub_cache_alloc(cache));
}

TEST_F(Leaks, of_a_typed_cache)
{
	struct slub_cache *cache = slub_cache_create("leaky", 200, 0, 0, nullptr);
	uintptr_t object = lose_typed(cache);
	told told;

	wipe();
	ASSERT_EQ(slub_leaks_find(note, &told), 1);
	EXPECT_STREQ(told.all[0].cache, "leaky");
	slub_cache_free(cache, unmasked(object));
	wipe();
	EXPECT_EQ(found(), 0);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

__attribute__((noinline)) uintptr_t lose_block(size_t bytes) { return masked(malloc(bytes)); }

TEST_F(Leaks, of_a_page_and_more)
{
	uintptr_t page = lose_block(8192), large = lose_block(1 << 20);
	told told;

	wipe();
	ASSERT_EQ(slub_leaks_find(note, &told), 2);
	EXPECT_STREQ(told.all[0].cache, told.all[0].object == page ? "malloc-8192" :
								     "malloc-large");
	free(unmasked(page));
	free(unmasked(large));
	wipe();
	EXPECT_EQ(found(), 0);
}

__attribute__((noinline)) uintptr_t lose_watched() { return masked(calloc(1, 300)); }

TEST_F(Leaks, stack_by_letter)
{
	ASSERT_EQ(slub_debug("U,malloc-320"), 1);
	uintptr_t object = lose_watched();
	told told;

	wipe();
	ASSERT_EQ(slub_leaks_find(note, &told), 1);
	ASSERT_GT(told.all[0].nr_frames, 0u);
	EXPECT_LT(told.all[0].frame - (uintptr_t)lose_watched, 100u);
	EXPECT_STREQ(told.all[0].cache, "malloc-320");
	free(unmasked(object));
	ASSERT_EQ(slub_debug("-,malloc-320"), 1);
}

/* All are counted, and so many visited. */
TEST_F(Leaks, more_than_are_visited)
{
	const size_t nr = SLUB_LEAKS_VISITED_MAX + 1000;
	std::vector<uintptr_t> all(nr);
	told told;

	told.all.reserve(nr);
	for (size_t i = 0; i < nr; i++)
		all[i] = lose_block(16);
	wipe();
	EXPECT_EQ(slub_leaks_find(note, &told), (long)nr);
	EXPECT_EQ(told.all.size(), SLUB_LEAKS_VISITED_MAX);
	for (size_t i = 0; i < nr; i++)
		free(unmasked(all[i]));
}

/* More wait for a look than the search has room for at once. */
TEST_F(Leaks, wide_is_reached)
{
	const size_t nr = (1 << 20) + 5000;
	std::vector<void *> all(nr);

	for (size_t i = 0; i < nr; i++) {
		all[i] = calloc(1, 16);
		if (i % 2)	/* every second one by the one before it */
			*(void **)all[i - 1] = all[i];
	}
	EXPECT_EQ(found(), 0);
	for (size_t i = 0; i < nr; i++)
		free(all[i]);
}

/* ---- what keeps objects ---- */

thread_local node *of_thread;

/* A thread that sleeps, with a list that `hold` keeps. */
class sleeper {
public:
	explicit sleeper(void (*hold)(sleeper *))
	{
		sem_init(&ready, 0, 0);
		sem_init(&go_on, 0, 0);
		thread = std::thread(hold, this);
		sem_wait(&ready);
	}
	~sleeper()
	{
		sem_post(&go_on);
		thread.join();
	}
	void sleep()
	{
		sem_post(&ready);
		sem_wait(&go_on);
	}

private:
	sem_t ready, go_on;
	std::thread thread;
};

void hold_on_stack(sleeper *self)
{
	node *volatile held = unmasked(lose_list(10));

	self->sleep();
	free_list(masked(held));
	held = nullptr;
	wipe();		/* the C library keeps the stack */
}

void hold_in_tls(sleeper *self)
{
	of_thread = unmasked(lose_list(10));
	wipe();
	self->sleep();
	free_list(masked(of_thread));
	of_thread = nullptr;
	wipe();
}

TEST_F(Leaks, sleeping_threads_keep)
{
	sleeper on_stack(hold_on_stack), in_tls(hold_in_tls);

	EXPECT_EQ(found(), 0);
}

TEST_F(Leaks, shared_mapping_keeps)
{
	node **place = (node **)mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	place[1000] = unmasked(lost_list(10));
	EXPECT_EQ(found(), 0);
	free_list(masked(place[1000]));
	munmap(place, 1 << 16);
}

__attribute__((noinline)) void keep_list(node **place) { *place = unmasked(lost_list(10)); }

/* Closed for writing it keeps them as well; what may not even be read keeps nothing. */
TEST_F(Leaks, closed_mapping)
{
	node **place = (node **)mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	keep_list(&place[1000]);
	wipe();
	ASSERT_EQ(mprotect(place, 1 << 16, PROT_READ), 0);
	EXPECT_EQ(found(), 0);
	ASSERT_EQ(mprotect(place, 1 << 16, PROT_NONE), 0);
	EXPECT_EQ(found(), 10);
	mprotect(place, 1 << 16, PROT_READ);
	free_list(masked(place[1000]));
	munmap(place, 1 << 16);
}

/* Memory that ends the program where it is read. */
TEST_F(Leaks, closed_memory)
{
	int file = memfd_create("short", 0);
	char *beyond = (char *)mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	char *large = (char *)aligned_alloc(4096, 1 << 20);
	char *page = (char *)aligned_alloc(4096, 4096);

	ASSERT_EQ(ftruncate(file, 4096), 0);
	beyond[0] = large[0] = large[8192] = large[20000] = page[0] = 1;
	ASSERT_EQ(mprotect(large + 8192, 4096, PROT_NONE), 0);
	ASSERT_EQ(mprotect(page, 4096, PROT_NONE), 0);
	*(node **)(large + 65536) = unmasked(lost_list(10));
	EXPECT_EQ(found(), 0);
	mprotect(large + 8192, 4096, PROT_READ | PROT_WRITE);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	free_list(masked(*(node **)(large + 65536)));
	free(large);
	free(page);
	munmap(beyond, 1 << 16);
	close(file);
}

/* A tebibyte that nobody touched is not read. */
TEST_F(Leaks, untouched_memory)
{
	const size_t bytes = (size_t)1 << 36;
	node **place = (node **)mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (place == MAP_FAILED)
		GTEST_SKIP() << "no address space";
	place[bytes / 16] = unmasked(lost_list(10));
	EXPECT_EQ(found(), 0);
	free_list(masked(place[bytes / 16]));
	munmap(place, bytes);
}

/* ---- the program is left alone ---- */

std::atomic<int> nr_forks, nr_signals;

void count_fork() { nr_forks++; }
void count_signal(int) { nr_signals++; }

TEST_F(Leaks, no_handler_runs)
{
	struct sigaction counting = {}, before;

	pthread_atfork(count_fork, count_fork, count_fork);
	counting.sa_handler = count_signal;
	ASSERT_EQ(sigaction(SIGCHLD, &counting, &before), 0);
	EXPECT_EQ(found(), 0);
	sigaction(SIGCHLD, &before, nullptr);
	EXPECT_EQ(nr_forks, 0);
	EXPECT_EQ(nr_signals, 0);
	EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
	EXPECT_EQ(errno, ECHILD);
}

TEST_F(Leaks, with_locks_held)
{
	static std::mutex lock;
	std::lock_guard<std::mutex> held(lock);

	flockfile(stdout);
	EXPECT_EQ(found(), 0);
	funlockfile(stdout);
}

int search_again(const struct slub_leak *, void *arg)
{
	*(long *)arg = found();
	return 1;
}

TEST_F(Leaks, one_search_at_a_time)
{
	uintptr_t one = lost_list(1), other = lost_list(1);
	long inner = 0;

	EXPECT_EQ(slub_leaks_find(search_again, &inner), 2);
	EXPECT_EQ(inner, -EBUSY);
	EXPECT_EQ(found(), 2);
	free_list(one);
	free_list(other);
}

/* Others run meanwhile, so this is no quiet moment, and how many it finds is not said. */
TEST_F(Leaks, threads_at_once)
{
	static std::atomic<int> nr_found, nr_busy, nr_failed;
	uintptr_t head = lost_list(7);
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back([] {
			for (int k = 0; k < 5; k++) {
				long result = found();

				nr_found += result >= 0;
				nr_busy += result == -EBUSY;
				nr_failed += result < 0 && result != -EBUSY;
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_GT(nr_found, 0);
	EXPECT_EQ(nr_found + nr_busy, 20);
	EXPECT_EQ(nr_failed, 0);
	threads.clear();
	wipe();
	EXPECT_EQ(found(), 7);
	free_list(head);
}

TEST_F(Leaks, in_a_forked_child)
{
	uintptr_t head = lost_list(3);

	EXPECT_EQ(in_child([] { return (int)found(); }), 3);
	/* Forked amid a search of its parent: that is none of the child's, which finds what the
	 * visitor does not have in its hand. */
	static int inner;
	auto fork_in = [](const struct slub_leak *, void *) {
		inner = in_child([] { return (int)found(); });
		return 1;
	};
	uintptr_t other = lost_list(3);
	EXPECT_EQ(slub_leaks_find(fork_in, nullptr), 6);
	EXPECT_EQ(inner, 3);
	free_list(head);
	free_list(other);
}

} // namespace
