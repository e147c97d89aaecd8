/* SPDX-License-Identifier: MIT */
/* core/base/list.h against std::deque. */
#include <deque>
#include <gtest/gtest.h>

#include "harness.h"
#include "slub.h"

namespace {

struct item {
	int number;
	struct list links;
};

/* Both directions must tell the same as the model. */
void expect_same(struct list *head, const std::deque<struct item *> &model)
{
	struct list *i = head->next;

	for (struct item *want : model) {
		ASSERT_NE(i, head);
		ASSERT_EQ(container_of(i, struct item, links), want);
		ASSERT_EQ(i->next->prev, i);
		i = i->next;
	}
	ASSERT_EQ(i, head);
	ASSERT_EQ(list_is_empty(head), model.empty());
	if (!model.empty()) {
		ASSERT_EQ(container_of(head->prev, struct item, links), model.back());
	}
}

TEST(list, does_what_a_deque_does)
{
	static struct item items[64];
	std::vector<struct item *> idle;
	std::deque<struct item *> model;
	harness::Random random(1);
	struct list head;

	list_init(&head);
	for (auto &item : items)
		idle.push_back(&item);
	for (int i = 0; i < 20000; i++) {
		if (!idle.empty() && random.below(2)) {
			struct item *item = idle.back();

			idle.pop_back();
			if (random.below(2)) {
				list_add_head(&head, &item->links);
				model.push_front(item);
			} else {
				list_add_tail(&head, &item->links);
				model.push_back(item);
			}
		} else if (!model.empty()) {
			size_t at = random.below(model.size());
			struct item *item = model[at];

			list_remove(&item->links);
			ASSERT_EQ(item->links.next, nullptr);
			ASSERT_EQ(item->links.prev, nullptr);
			model.erase(model.begin() + (ptrdiff_t)at);
			idle.push_back(item);
		}
		ASSERT_NO_FATAL_FAILURE(expect_same(&head, model));
	}
}

TEST(list, second_removal_faults)
{
	GTEST_FLAG_SET(death_test_style, "fast");
	struct list head, one;

	list_init(&head);
	list_add_head(&head, &one);
	list_remove(&one);
	EXPECT_DEATH(list_remove(&one), "");
}

} /* namespace */
