/* SPDX-License-Identifier: MIT */
/*
 * Promise: a plugin that is opened with RTLD_DEEPBIND allocates where the program does, unless
 * SLUB_DEEPBIND=keep says otherwise; and who opens it finds what it would find without libslub.
 */
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>

#include "harness.h"

using Make = void *(*)(size_t);
using Release = void (*)(void *);
using Address = void *(*)();
using Open = void *(*)(const char *, int);

/* Not where libslub is linked statically, or a sanitizer has a dlopen() of its own. */
static bool dlopen_is_ours()
{
	Dl_info info = {};

	return dladdr(reinterpret_cast<void *>(dlopen), &info) &&
	       harness::is_library(info.dli_fname);
}

class DeepBind : public ::testing::Test {
protected:
	void SetUp() override
	{
		if (!dlopen_is_ours())
			GTEST_SKIP() << "dlopen is not the library's";
	}
	void TearDown() override
	{
		if (plugin)
			dlclose(plugin);
	}
	template <typename Function> Function symbol(const char *name)
	{
		return reinterpret_cast<Function>(dlsym(plugin, name));
	}
	bool open(int flags)
	{
		plugin = dlopen((harness::folder() + "/libplugin.so").c_str(), flags);
		return plugin != nullptr;
	}
	void *plugin = nullptr;
};

TEST_F(DeepBind, BlocksGoBothWays)
{
	ASSERT_TRUE(open(RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) << dlerror();
	auto make = symbol<Make>("plugin_make");
	auto release = symbol<Release>("plugin_release");

	for (size_t bytes = 1; bytes < 200000; bytes = bytes * 3 + 1) {
		char *made = static_cast<char *>(make(bytes));
		ASSERT_EQ(made[bytes - 1], 'p');
		free(made);
		release(malloc(bytes));
	}
	EXPECT_EQ(symbol<Address>("plugin_malloc")(), dlsym(RTLD_DEFAULT, "malloc"));
}

/* Run by KeptWhereAskedFor, in a process with SLUB_DEEPBIND=keep. */
TEST_F(DeepBind, DISABLED_HasAMallocOfItsOwn)
{
	ASSERT_TRUE(open(RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) << dlerror();
	EXPECT_NE(symbol<Address>("plugin_malloc")(), dlsym(RTLD_DEFAULT, "malloc"));
}

TEST_F(DeepBind, KeptWhereAskedFor)
{
	std::string command = "SLUB_DEEPBIND=keep '" + harness::folder() +
		"/deepbind_test' --gtest_also_run_disabled_tests "
		"--gtest_filter=*HasAMallocOfItsOwn > /dev/null";

	EXPECT_EQ(system(command.c_str()), 0);
}

/* The C library searches the RUNPATH of whoever called dlopen(). */
TEST_F(DeepBind, TheCallersPathIsSearched)
{
	void *opener = dlopen((harness::folder() + "/libopener.so").c_str(), RTLD_NOW);

	ASSERT_NE(opener, nullptr) << dlerror();
	auto open_there = reinterpret_cast<Open>(dlsym(opener, "opener_open"));
	EXPECT_EQ(dlopen("libhidden.so", RTLD_NOW), nullptr) << "not by the program's path";
	for (int flags : { RTLD_NOW, RTLD_NOW | RTLD_DEEPBIND }) {
		plugin = open_there("libhidden.so", flags);
		ASSERT_NE(plugin, nullptr) << dlerror();
		symbol<Release>("plugin_release")(malloc(10));
		dlclose(plugin);
		plugin = nullptr;
	}
	dlclose(opener);
}

TEST_F(DeepBind, ErrorsAreTheCLibrarys)
{
	EXPECT_EQ(dlopen("/nowhere/libnothing.so", RTLD_NOW | RTLD_DEEPBIND), nullptr);
	const char *error = dlerror();
	ASSERT_NE(error, nullptr);
	EXPECT_NE(std::string(error).find("/nowhere/libnothing.so"), std::string::npos) << error;
	void *self = dlopen(nullptr, RTLD_NOW);
	EXPECT_NE(self, nullptr);
	EXPECT_EQ(dlsym(self, "malloc"), dlsym(RTLD_DEFAULT, "malloc"));
}
