// SPDX-License-Identifier: MIT
// SLUB_DEBUG: the documented examples of the kernel's slab_debug, and what is no letter.
#include <gtest/gtest.h>

#include "slub.h"

extern "C" {
#include "features/debug/debug.h"
}

namespace {

const uint32_t F = SLUB_CACHE_CONSISTENCY_CHECKS, Z = SLUB_CACHE_RED_ZONE, P = SLUB_CACHE_POISON,
	       U = SLUB_CACHE_STORE_USER, T = SLUB_CACHE_TRACE, A = SLUB_CACHE_FAILSLAB;
const uint32_t ALL = F | Z | P | U, NONE = 0, KEEP = 77, O = DEBUG_NO_GROWTH;

uint32_t letters(const char *setting, const char *name)
{
	return debug_letters_for(setting, name, KEEP);
}

TEST(Letters, documented_examples)
{
	EXPECT_EQ(letters("", "dentry"), ALL);
	EXPECT_EQ(letters("FZ", "dentry"), F | Z);
	EXPECT_EQ(letters(",dentry", "dentry"), ALL);
	EXPECT_EQ(letters(",dentry", "inode"), KEEP);
	EXPECT_EQ(letters("P,kmalloc-*,dentry", "kmalloc-64"), P);
	EXPECT_EQ(letters("P,kmalloc-*,dentry", "dentry"), P);
	EXPECT_EQ(letters("P,kmalloc-*,dentry", "dentry2"), KEEP);
	EXPECT_EQ(letters("Z,dentry;U,kmalloc-*", "dentry"), Z);
	EXPECT_EQ(letters("Z,dentry;U,kmalloc-*", "kmalloc-8"), U);
	EXPECT_EQ(letters("FZ;-,zs_handle,zspage", "zspage"), NONE);
	EXPECT_EQ(letters("FZ;-,zs_handle,zspage", "other"), F | Z);
	EXPECT_EQ(letters("O", "dentry"), O);
}

TEST(Letters, o_is_a_letter_of_its_block)
{
	EXPECT_EQ(letters("FZPUO", "x"), ALL | O);
	EXPECT_EQ(letters("F,nothing;FZPUO", "x"), ALL | O);
	EXPECT_EQ(letters("FZPUO,other;FZPU", "x"), ALL);
	EXPECT_EQ(letters("Zo,x;F", "x"), Z | O);
}

TEST(Letters, every_letter_in_either_case)
{
	EXPECT_EQ(letters("fzputa", "x"), ALL | T | A);
	EXPECT_EQ(letters("FZPUTA", "x"), ALL | T | A);
	EXPECT_EQ(letters("F-Z", "x"), NONE);
}

TEST(Letters, order_of_blocks)
{
	// The first block with the name wins, else the last one without names.
	EXPECT_EQ(letters("F,a;Z,a", "a"), F);
	EXPECT_EQ(letters("F;Z", "a"), Z);
	EXPECT_EQ(letters("F;Z;", "a"), Z);
	EXPECT_EQ(letters("F,b;Z", "a"), Z);
}

TEST(Letters, o_is_of_its_block)
{
	EXPECT_TRUE(debug_letters_for("FZPUO", "a", 0) & DEBUG_NO_GROWTH);
	EXPECT_TRUE(debug_letters_for("oFZ,a", "a", 0) & DEBUG_NO_GROWTH);
	EXPECT_TRUE(debug_letters_for("P,a;FZPUO", "b", 0) & DEBUG_NO_GROWTH);
	EXPECT_FALSE(debug_letters_for("P,a;FZPUO", "a", 0) & DEBUG_NO_GROWTH);
	EXPECT_TRUE(debug_letters_for("P;FZPUO,a", "a", 0) & DEBUG_NO_GROWTH);
	EXPECT_FALSE(debug_letters_for("P;FZPUO,a", "b", 0) & DEBUG_NO_GROWTH);
	EXPECT_FALSE(debug_letters_for("FZPU,O", "O", 0) & DEBUG_NO_GROWTH);
	EXPECT_FALSE(debug_letters_for("FZPUO,a", "b", 0) & DEBUG_NO_GROWTH);
	EXPECT_FALSE(debug_letters_for("", "a", 0) & DEBUG_NO_GROWTH);
	EXPECT_FALSE(debug_letters_for(nullptr, "a", 0) & DEBUG_NO_GROWTH);
}

TEST(Letters, odd_settings)
{
	EXPECT_EQ(debug_letters_for(nullptr, "a", KEEP), KEEP);
	EXPECT_EQ(letters("F,", "a"), KEEP);
	EXPECT_EQ(letters("F,,a", "a"), F);
	EXPECT_EQ(letters("F,*", "anything"), F);
	EXPECT_TRUE(debug_letters_valid("FZPUTAO-,x;F"));
	EXPECT_TRUE(debug_letters_valid(""));
	EXPECT_FALSE(debug_letters_valid("FX"));
	EXPECT_FALSE(debug_letters_valid("F,x;Q,y"));
}

TEST(Letters, as_text)
{
	char buf[8];

	EXPECT_STREQ(debug_letters_text(ALL, buf), "FZPU");
	EXPECT_STREQ(debug_letters_text(ALL | T | A, buf), "FZPUTA");
	EXPECT_STREQ(debug_letters_text(0, buf), "-");
}

} // namespace
