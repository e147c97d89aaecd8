/* SPDX-License-Identifier: MIT */
/* group.h: until when the argument of a group's handler is used. */
#include <atomic>
#include <errno.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <semaphore.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <slub/slub.h>

namespace {

/* A handler that says when it is in, and stays until it is told to go. */
struct Stay {
	sem_t in, go;
	std::atomic<bool> is_over{false};

	Stay()
	{
		sem_init(&in, 0, 0);
		sem_init(&go, 0, 0);
	}
	~Stay()
	{
		sem_destroy(&in);
		sem_destroy(&go);
	}
	static bool handler(slub_group *, size_t, void *arg) noexcept
	{
		auto *stay = (Stay *)arg;

		sem_post(&stay->in);
		while (sem_wait(&stay->go))
			continue;
		stay->is_over = true;
		return false;
	}
};

slub_group *small_group(const char *name)
{
	slub_group *group = slub_group_create(name, nullptr);

	EXPECT_NE(group, nullptr);
	EXPECT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 1000), 0);
	return group;
}

/* A thread that is in the handler of @group. */
class Inside {
public:
	Inside(slub_group *group, Stay *stay) : stay(stay)
	{
		EXPECT_EQ(slub_group_handler_set(group, Stay::handler, stay), 0);
		thread = std::thread([=] { EXPECT_EQ(slub_group_charge(group, 2000), 0u); });
		while (sem_wait(&stay->in))
			continue;
	}
	void leave()
	{
		sem_post(&stay->go);
		thread.join();
	}

private:
	Stay *stay;
	std::thread thread;
};

/* @end is called while a thread is in the handler of @group, and returns when it is not. */
void expect_to_wait(slub_group *group, const std::function<int()> &end)
{
	Stay stay;
	Inside inside(group, &stay);
	std::atomic<bool> is_over{false};
	std::thread other([&] {
		EXPECT_EQ(end(), 0);
		EXPECT_TRUE(stay.is_over);
		is_over = true;
	});

	usleep(50000);
	EXPECT_FALSE(is_over) << "its argument could have been freed";
	inside.leave();
	other.join();
}

TEST(GroupHandler, WhoSetsAnotherWaitsForTheOldOne)
{
	slub_group *group = small_group("replaced");

	expect_to_wait(group, [=] { return slub_group_handler_set(group, nullptr, nullptr); });
	EXPECT_EQ(slub_group_destroy(group), 0);
}

TEST(GroupHandler, WhoDeletesTheGroupWaitsForIt)
{
	slub_group *group = small_group("deleted");

	expect_to_wait(group, [=] { return slub_group_destroy(group); });
}

TEST(GroupHandler, OtherGroupsAreNotWaitedFor)
{
	slub_group *group = small_group("busy"), *other = small_group("idle");
	Stay stay, unused;
	Inside inside(group, &stay);

	EXPECT_EQ(slub_group_handler_set(other, Stay::handler, &unused), 0);
	EXPECT_EQ(slub_group_handler_set(other, nullptr, nullptr), 0);
	EXPECT_EQ(slub_group_destroy(other), 0);
	inside.leave();
	EXPECT_EQ(slub_group_destroy(group), 0);
}

TEST(GroupHandler, InTheHandlerItselfItIsNotWaitedFor)
{
	static int err;
	slub_group *group = small_group("own");

	err = 1;
	slub_group_handler_set(group, [](slub_group *own, size_t, void *) noexcept {
		err = slub_group_handler_set(own, nullptr, nullptr);
		return false;
	}, nullptr);
	EXPECT_EQ(slub_group_charge(group, 2000), 0u);
	EXPECT_EQ(err, 0);
	slub_group_handler_set(group, [](slub_group *own, size_t, void *) noexcept {
		err = slub_group_destroy(own);
		return false;
	}, nullptr);
	err = 1;
	EXPECT_EQ(slub_group_charge(group, 2000), 0u);
	EXPECT_EQ(err, 0);
	EXPECT_EQ(slub_group_destroy(group), -EINVAL);
}

/* Else two handlers could wait for each other. */
TEST(GroupHandler, InAHandlerAnotherThreadIsNotWaitedFor)
{
	struct Errors {
		slub_group *busy;
		int set, again, deleted;
	} errors = { small_group("busy"), 1, 1, 1 };
	slub_group *group = small_group("asks");
	Stay stay;
	Inside inside(errors.busy, &stay);

	slub_group_handler_set(group, [](slub_group *, size_t, void *arg) noexcept {
		auto *e = (Errors *)arg;

		e->set = slub_group_handler_set(e->busy, nullptr, nullptr);
		e->again = slub_group_handler_set(e->busy, nullptr, nullptr);
		e->deleted = slub_group_destroy(e->busy);
		return false;
	}, &errors);
	EXPECT_EQ(slub_group_charge(group, 2000), 0u);
	EXPECT_EQ(errors.set, -EDEADLK);
	EXPECT_EQ(errors.again, -EDEADLK);
	EXPECT_EQ(errors.deleted, -EDEADLK);
	EXPECT_EQ(slub_group_destroy(errors.busy), -EINVAL);
	inside.leave();
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* Calls of the new handler come all the time, and do not keep whoever waits for the old. */
TEST(GroupHandler, ArgumentsAreFreedBesideCalls)
{
	struct Argument {
		std::atomic<bool> is_good{true};
	};
	static std::atomic<int> calls, late;
	auto handler = [](slub_group *, size_t, void *arg) noexcept {
		calls++;
		std::this_thread::yield();
		late += !((Argument *)arg)->is_good;
		return false;
	};
	std::vector<std::unique_ptr<Argument>> all;
	std::atomic<bool> is_over{false};
	std::vector<std::thread> threads;
	slub_group *group = small_group("storm");

	calls = late = 0;
	for (int t = 0; t < 3; t++)
		threads.emplace_back([&] {
			while (!is_over)
				EXPECT_EQ(slub_group_charge(group, 2000), 0u);
		});
	for (int i = 0; i < 2000 || (calls < 100 && i < 1000000); i++) {
		all.emplace_back(new Argument);
		EXPECT_EQ(slub_group_handler_set(group, handler, all.back().get()), 0);
		if (i)
			all[all.size() - 2]->is_good = false;
	}
	EXPECT_EQ(slub_group_handler_set(group, nullptr, nullptr), 0);
	all.back()->is_good = false;
	usleep(2000);
	is_over = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_GT(calls, 0);
	EXPECT_EQ(late, 0) << "of " << calls;
	EXPECT_EQ(slub_group_destroy(group), 0);
}

} /* namespace */

/* Frees what it was given, and says so. */
struct Spare {
	void *block;
	size_t asked = 0;
	int calls = 0;

	static bool handler(slub_group *group, size_t bytes, void *arg) noexcept
	{
		auto *spare = (Spare *)arg;

		EXPECT_EQ(group, slub_group_root());
		spare->asked = bytes;
		spare->calls++;
		if (!spare->block)
			return false;
		free(spare->block);
		spare->block = nullptr;
		return true;
	}
};

TEST(GroupHandler, OfTheRootIsTheProcesses)
{
	const size_t bytes = 40 << 20;
	struct slub_cache *cache = slub_cache_create("handler-large", 200000, 0, 0, nullptr);
	Spare spare = { malloc(bytes) };
	std::vector<void *> objects;
	void *block, *object;

	ASSERT_NE(spare.block, nullptr);
	ASSERT_NE(cache, nullptr);
	ASSERT_EQ(slub_option_set("limit", "64M"), 0);
	ASSERT_EQ(slub_group_handler_set(slub_group_root(), Spare::handler, &spare), 0);
	block = malloc(bytes);
	EXPECT_NE(block, nullptr) << "the handler made room";
	EXPECT_EQ(spare.calls, 1);
	EXPECT_EQ(spare.asked, bytes);
	EXPECT_EQ(malloc(bytes), nullptr) << "it has nothing left";
	EXPECT_EQ(spare.calls, 2);
	EXPECT_EQ(malloc(size_t(1) << 45), nullptr);
	EXPECT_EQ(spare.calls, 2) << "which could never be had";

	/* A cache asks too. */
	spare.block = block;
	while (spare.block && objects.size() < 1000)
		objects.push_back(slub_cache_alloc(cache));
	EXPECT_EQ(spare.calls, 3);
	EXPECT_EQ(spare.asked, 200000u);
	object = objects.back();
	EXPECT_NE(object, nullptr);
	EXPECT_EQ(slub_group_handler_set(slub_group_root(), nullptr, nullptr), 0);
	EXPECT_EQ(slub_option_set("limit", "0"), 0);
	for (void *each : objects)
		slub_cache_free(cache, each);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}
