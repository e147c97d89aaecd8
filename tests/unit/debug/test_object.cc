// SPDX-License-Identifier: MIT
// The bytes of one place: where everything lies, and that each wrong byte of it is found.
#include <gtest/gtest.h>
#include <string.h>
#include <vector>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "features/debug/debug.h"
}

namespace {

const uint32_t ALL = DEBUG_DEFAULT;

struct Place {
	struct debug_layout layout;
	std::vector<char> bytes;
	struct debug_case found = {};

	Place(size_t size, size_t align, uint32_t flags)
	{
		EXPECT_TRUE(debug_layout_make(&layout, "test", size, align, flags, 1 << 20));
		bytes.resize(layout.stride);
		object_init(&layout, bytes.data());
		found.layout = &layout;
		found.slab.start = bytes.data();
		found.slab.bytes = bytes.size();
	}
	char *object() { return bytes.data() + layout.left; }
};

TEST(Layout, parts_do_not_overlap)
{
	for (uint32_t flags = 0; flags < 16; flags++) {
		uint32_t f = flags << 8;	// F Z P U

		for (size_t size = 1; size < 300; size++) {
			for (size_t align = 8; align <= 64; align *= 2) {
				struct debug_layout l;

				ASSERT_TRUE(debug_layout_make(&l, "t", size, align,
							      f | DEBUG_SIZED, 1 << 20));
				EXPECT_EQ(l.stride % align, 0u);
				EXPECT_EQ(l.left % align, 0u);
				EXPECT_GE(l.inuse, size);
				EXPECT_LE(l.link + sizeof(void *), l.end);
				EXPECT_LE(l.left + l.end, l.stride);
				if (f & SLUB_CACHE_RED_ZONE) {
					EXPECT_GT(l.inuse, size);
					EXPECT_GE(l.link, l.inuse);
				}
				if (l.track) {
					EXPECT_GE(l.track, l.inuse);
				}
			}
		}
	}
}

TEST(Layout, too_large)
{
	struct debug_layout l;

	EXPECT_FALSE(debug_layout_make(&l, "t", 1000, 8, ALL, 1000));
	EXPECT_FALSE(debug_layout_make(&l, "t", 1001, 8, 0, 1000));
}

TEST(Layout, link_of_a_large_object_is_outside)
{
	struct debug_layout l;

	ASSERT_TRUE(debug_layout_make(&l, "t", 5000, 8, ALL, 1 << 20));
	EXPECT_EQ(l.link, DEBUG_LINK_OUTSIDE);
}

TEST(Object, new_one_is_whole)
{
	Place p(50, 16, ALL | DEBUG_SIZED);

	EXPECT_TRUE(object_check(&p.found, p.object(), OBJECT_FREE));
	EXPECT_EQ(p.found.bugs, 0u);
	EXPECT_EQ((unsigned char)p.object()[0], 0x6b);
	EXPECT_EQ((unsigned char)p.object()[49], 0xa5);
	EXPECT_EQ((unsigned char)p.object()[50], 0xbb);
	EXPECT_EQ((unsigned char)p.object()[-1], 0xbb);
	object_mark(&p.layout, p.object(), OBJECT_USED, 20);
	EXPECT_EQ((unsigned char)p.object()[20], 0xcc);
	EXPECT_EQ(object_requested(&p.layout, p.object()), 20u);
	EXPECT_TRUE(object_check(&p.found, p.object(), OBJECT_USED));
}

// Every byte of a free place but the link and the size is watched; what is no track is put right.
TEST(Object, each_byte_of_a_free_one)
{
	Place p(50, 16, ALL | DEBUG_SIZED);

	for (size_t i = 0; i < p.bytes.size(); i++) {
		size_t at = i - p.layout.left;
		bool known = i < p.layout.left || at < p.layout.inuse || at >= p.layout.end;
		char was = p.bytes[i];

		if (!known)
			continue;
		p.bytes[i] ^= 1;
		p.found.bugs = p.found.fixes = 0;
		EXPECT_FALSE(object_check(&p.found, p.object(), OBJECT_FREE)) << i;
		EXPECT_EQ(p.found.bugs, 1u) << i;
		EXPECT_EQ(p.found.fixes, 1u) << i;
		EXPECT_EQ(p.bytes[i], was) << i;
	}
}

// By a write that jumps over the zones.  What it was is forgotten, and so it is said once.
TEST(Object, each_byte_of_a_track)
{
	Place p(50, 16, ALL | DEBUG_SIZED);
	struct stack stack = { 2, { 0x1234, 0x5678 }, 0 };
	struct track track;

	for (enum track_kind kind : { TRACK_ALLOC, TRACK_FREE }) {
		for (size_t i = 0; i < offsetof(struct track, call); i++) {
			track_now(&track, &stack);
			track_store(&p.layout, p.object(), kind, &track);
			struct track *place = track_of(&p.layout, p.object(), kind);
			place->is_freed = 1;
			place->call |= CALL_TOLD;
			EXPECT_TRUE(object_check(&p.found, p.object(), OBJECT_FREE));
			((char *)place)[i] ^= 1;
			p.found.bugs = p.found.fixes = 0;
			EXPECT_FALSE(object_check(&p.found, p.object(), OBJECT_FREE)) << i;
			EXPECT_EQ(p.found.bugs, 1u) << i;
			EXPECT_EQ(p.found.fixes, 1u) << i;
			EXPECT_EQ(place->caller, 0u) << i;
			EXPECT_TRUE(object_check(&p.found, p.object(), OBJECT_FREE)) << i;
		}
	}
}

TEST(Object, a_used_one_may_be_written_and_nothing_else)
{
	Place p(50, 16, ALL | DEBUG_SIZED);

	object_mark(&p.layout, p.object(), OBJECT_USED, 33);
	memset(p.object(), 0, 33);
	EXPECT_TRUE(object_check(&p.found, p.object(), OBJECT_USED));
	for (size_t at = 33; at < p.layout.inuse; at++) {
		p.object()[at] ^= 1;
		EXPECT_FALSE(object_check(&p.found, p.object(), OBJECT_USED)) << at;
	}
}

TEST(Object, constructed_ones_keep_their_bytes)
{
	Place p(64, 8, ALL | DEBUG_KEPT);

	memset(p.object(), 'c', 64);
	object_mark(&p.layout, p.object(), OBJECT_USED, 64);
	object_mark(&p.layout, p.object(), OBJECT_FREE, 64);
	EXPECT_EQ(p.object()[0], 'c');
	EXPECT_EQ(p.object()[63], 'c');
	EXPECT_TRUE(object_check(&p.found, p.object(), OBJECT_FREE));
}

TEST(Stack, the_same_number_for_the_same_stack)
{
	struct stack a = { 2, { 0x1234, 0x5678 }, 0 }, b = { 2, { 0x1234, 0x5679 }, 0 }, none = {};
	uint32_t nr, first = stack_store(&a);

	ASSERT_NE(first, 0u);
	EXPECT_EQ(stack_store(&a), first);
	EXPECT_NE(stack_store(&b), first);
	EXPECT_EQ(stack_store(&none), 0u);
	const uintptr_t *frames = stack_frames(first, &nr);
	ASSERT_EQ(nr, 2u);
	EXPECT_EQ(frames[1], 0x5678u);
	// Numbers that nobody gave out, as in a track that was written over.
	EXPECT_EQ(stack_frames(0, &nr), nullptr);
	EXPECT_EQ(stack_frames(0x41414141, &nr), nullptr);
	EXPECT_EQ(nr, 0u);
}

TEST(Stack, garbage_for_a_frame_is_survived)
{
	struct stack s;

	stack_read(&s, __builtin_frame_address(0));
	EXPECT_LE(s.nr, (uint32_t)STACK_DEPTH_MAX);
	if (harness::is_emulated())
		return;	/* process_vm_readv(2) is missing: no frame is known to be readable */
	uintptr_t frame[2] = { 1, 0x1234567 };	// no next frame
	stack_read(&s, frame);
	EXPECT_EQ(s.nr, 1u);
	frame[0] = (uintptr_t)-16;
	stack_read(&s, frame);
	EXPECT_EQ(s.nr, 1u);
	stack_read_caller(&s, frame);
	EXPECT_EQ(s.nr, 1u);
	EXPECT_EQ(s.frames[0], 0x1234567u);
	stack_read_caller(&s, (void *)1);
	EXPECT_EQ(s.nr, 0u);
}

} // namespace
