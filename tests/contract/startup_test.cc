/* SPDX-License-Identifier: MIT */
/*
 * Promise: the library serves before the first constructor and after the last destructor, in
 * libraries that come and go, and linked statically.
 */
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <vector>

#include "harness.h"

static std::string output_of(const std::string &command, int *status)
{
	std::string text;
	FILE *stream = popen(command.c_str(), "r");
	char line[256];

	while (stream && fgets(line, sizeof(line), stream))
		text += line;
	*status = stream ? pclose(stream) : -1;
	return text;
}

TEST(Startup, ConstructorOfHighestPriority)
{
	int status;

	EXPECT_EQ(output_of(harness::folder() + "/early", &status), "early\n");
	EXPECT_EQ(status, 0) << harness::describe_status(status)
			     << " (51: early block lost, 52: not ready, 53: after exit)";
}

TEST(Startup, StaticProgram)
{
	int status;
	std::string program = harness::folder() + "/static_program";

	if (access(program.c_str(), X_OK) != 0)
		GTEST_SKIP() << "no libslub.a in this build";
	EXPECT_EQ(output_of(program, &status).substr(0, 7), "static ");
	EXPECT_EQ(status, 0) << harness::describe_status(status)
			     << " (54: not ready, 55: malloc is not the library's)";
}

TEST(Startup, NonPieStaticProgram)
{
	int status;
	std::string program = harness::folder() + "/static_fixed_program";

	if (access(program.c_str(), X_OK) != 0)
		GTEST_SKIP() << "no libslub.a in this build";
	EXPECT_EQ(output_of(program, &status).substr(0, 7), "static ");
	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

using Make = void *(*)(size_t);
using Release = void (*)(void *);

TEST(Startup, LibraryLoadedAndUnloaded)
{
	std::string path = harness::folder() + "/libplugin.so";
	std::vector<void *> blocks;

	for (int round = 0; round < 50; round++) {
		void *plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
		ASSERT_NE(plugin, nullptr) << dlerror();
		auto make = reinterpret_cast<Make>(dlsym(plugin, "plugin_make"));
		auto release = reinterpret_cast<Release>(dlsym(plugin, "plugin_release"));
		blocks.push_back(make(1 + round * 100));
		release(malloc(1 + round * 300));
		EXPECT_EQ(dlclose(plugin), 0);
	}
	for (size_t round = 0; round < blocks.size(); round++) {
		auto *bytes = static_cast<char *>(blocks[round]);
		EXPECT_EQ(bytes[0], 'p');
		EXPECT_EQ(bytes[round * 100], 'p');
		free(blocks[round]);
	}
}

/* A second copy in a program whose malloc is another's: it must load, serve and stay. */
TEST(Startup, LibraryOpenedBySomebodyElse)
{
	int status;
	Dl_info info = {};

	dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info);
	std::string script = "import ctypes\n"
		"for _ in range(5):\n"
		"    lib = ctypes.CDLL('" + std::string(info.dli_fname) + "')\n"
		"    lib.malloc.restype = ctypes.c_void_p\n"
		"    lib.free.argtypes = [ctypes.c_void_p]\n"
		"    blocks = [lib.malloc(n) for n in range(1, 5000, 7)]\n"
		"    assert all(blocks)\n"
		"    for b, n in zip(blocks, range(1, 5000, 7)): ctypes.memset(b, 1, n)\n"
		"    for b in blocks: lib.free(b)\n"
		"print('served')\n";
	std::string text = output_of("env -u LD_PRELOAD /usr/bin/env python3 -c \"" + script + "\"",
				     &status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		GTEST_SKIP() << "no python3";
	EXPECT_EQ(text, "served\n");
	EXPECT_EQ(status, 0) << harness::describe_status(status);
}
