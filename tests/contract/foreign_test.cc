/* SPDX-License-Identifier: MIT */
/*
 * Promise: a pointer to free, realloc and malloc_usable_size that cannot be anybody's block ends
 * the process, or is left alone, as SLUB_ON_ERROR says. One that may be another allocator's is
 * left alone; they warn once where messages are asked for, and say nothing otherwise.
 */
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "features/inspect/abi.h"

static char a_static[4096];

static const struct slub_abi *library_state()
{
	return static_cast<const struct slub_abi *>(dlsym(RTLD_DEFAULT, SLUB_ABI_SYMBOL));
}

static void *anywhere(uintptr_t address)
{
	return harness::opaque(reinterpret_cast<void *>(address));
}

/* Makes the foreign pointer called `name`; the program's second argument in a child. */
static void *foreign(const std::string &name)
{
	static char *mapped = static_cast<char *>(
		mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	static void *unreadable =
		mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static thread_local char local[64];
	char stack[64];
	const struct slub_abi *state = library_state();

	if (name == "stack")
		return anywhere(reinterpret_cast<uintptr_t>(stack));
	if (name == "tls")
		return anywhere(reinterpret_cast<uintptr_t>(local));
	if (name == "static")
		return a_static;
	if (name == "static_odd")
		return a_static + 3;
	if (name == "code")
		return anywhere(reinterpret_cast<uintptr_t>(&library_state));
	if (name == "mapping")
		return mapped;
	if (name == "mapping_inside")
		return mapped + 5000;
	if (name == "unreadable")
		return unreadable;
	if (name == "eight")
		return anywhere(8);
	if (name == "minus_sixteen")
		return anywhere(uintptr_t(-16));
	if (name == "non_canonical")
		return anywhere(uintptr_t{1} << 60);
	if (name == "kernel_half")
		return anywhere(0xffff800000001000);
	if (name == "library_data")
		return const_cast<struct slub_abi *>(state);
	if (!state)
		return nullptr;
	if (name == "range_first")
		return anywhere(state->range_start);
	if (name == "range_last")
		return anywhere(state->range_start + state->range_bytes - 16);
	if (name == "range_end")
		return anywhere(state->range_start + state->range_bytes);
	if (name == "range_before")
		return anywhere(state->range_start - 16);
	if (name == "range_middle_odd")
		return anywhere(state->range_start + state->range_bytes / 2 + 0x12345);
	if (name == "heap_far_end")
		return anywhere(state->range_start + state->range_bytes - (64 << 20));
	ADD_FAILURE() << name;
	return nullptr;
}

static const char *const names[] = {
	"stack",	"tls",		    "static",	   "static_odd",    "code",
	"mapping",	"mapping_inside",   "eight",	   "minus_sixteen", "non_canonical",
	"kernel_half",	"library_data",	    "range_first", "range_last",    "range_end",
	"range_before", "range_middle_odd", "heap_far_end",
	"unreadable",
};

static void *do_nothing(void *) { return nullptr; }
static void *call_free(void *pointer)
{
	free(pointer);
	return nullptr;
}
static void *call_realloc(void *pointer)
{
	errno = 0;
	void *got = realloc(pointer, 100);
	if (got || (errno != ENOMEM && errno != EINVAL))
		_exit(90);
	return got;
}
static void *call_usable_size(void *pointer)
{
	if (malloc_usable_size(pointer) != 0)
		_exit(91);
	return nullptr;
}

static const struct {
	const char *name;
	void *(*call)(void *);
} calls[] = {
	{"nothing", do_nothing},
	{"free", call_free},
	{"realloc", call_realloc},
	{"malloc_usable_size", call_usable_size},
};

/* The part that runs in a process of its own: exit status 0 says the process went on well. */
static int act(const char *call, const char *name, int times)
{
	for (auto &one : calls)
		if (strcmp(one.name, call) == 0)
			for (int i = 0; i < times; i++)
				one.call(foreign(name));
	std::vector<void *> blocks;
	for (size_t n = 1; n < 100000; n += n / 8 + 1) {
		blocks.push_back(malloc(n));
		harness::fill(blocks.back(), n, n);
	}
	size_t i = 0;
	for (size_t n = 1; n < 100000; n += n / 8 + 1, i++) {
		if (!harness::intact(blocks[i], n, n))
			return 92;
		free(blocks[i]);
	}
	return 0;
}

/* What another allocator may have handed out. */
static bool may_be_a_block(const std::string &name)
{
	return name == "mapping" || name == "mapping_inside" || name == "tls";
}

static void run_again(const char *verbose, const char *on_error, const char *call,
		      const char *name, const char *times)
{
	setenv("SLUB_VERBOSE", verbose, 1);
	setenv("SLUB_ON_ERROR", on_error, 1);
	execl("/proc/self/exe", "foreign_test", "--act", call, name, times, nullptr);
	_exit(93);
}

static size_t lines(const std::string &text) { return std::count(text.begin(), text.end(), '\n'); }

static std::string errors_of(const char *verbose, const char *on_error, const char *call,
			     const char *name, const char *times = "1")
{
	std::string errors;
	int status = harness::in_child(
		[=] { run_again(verbose, on_error, call, name, times); }, &errors);

	EXPECT_EQ(status, 0) << call << " of " << name << ": " << harness::describe_status(status)
			     << "\n(90: realloc's answer, 91: usable size, 92: heap damaged)\n"
			     << errors;
	return errors;
}

class Foreign : public testing::TestWithParam<std::tuple<const char *, const char *>> {};

TEST_P(Foreign, SurvivedInSilence)
{
	auto [call, name] = GetParam();

	EXPECT_EQ(errors_of("0", "ignore", call, name, "3"), "");
}

TEST_P(Foreign, ReportedIfItIsCertain)
{
	auto [call, name] = GetParam();
	std::string errors = errors_of("0", "report", call, name, "3");

	EXPECT_EQ(lines(errors), may_be_a_block(name) ? 0u : 3u) << errors;
	if (!may_be_a_block(name)) {
		EXPECT_NE(errors.find(std::string(": pointer to no block: ") + call + "("),
			  errors.npos)
			<< errors;
	}
}

TEST_P(Foreign, EndsTheProcessIfItIsCertain)
{
	auto [call, name] = GetParam();
	std::string errors;
	int status = harness::in_child([c = call, n = name] { run_again("0", "abort", c, n, "1"); },
				       &errors);

	if (may_be_a_block(name))
		EXPECT_EQ(status, 0) << harness::describe_status(status);
	else
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
			<< harness::describe_status(status);
	EXPECT_EQ(lines(errors), may_be_a_block(name) ? 0u : 1u) << errors;
}

TEST_P(Foreign, WarnedOfOnceIfItIsNot)
{
	auto [call, name] = GetParam();
	static const size_t before = lines(errors_of("1", "ignore", "nothing", "static"));

	if (!may_be_a_block(name))
		return;
	std::string errors = errors_of("1", "ignore", call, name, "3");
	EXPECT_EQ(lines(errors), before + 1) << errors;
	EXPECT_NE(errors.find("slub["), errors.npos) << errors;
}

TEST(ForeignStorm, OneLineForManyPointers)
{
	size_t before = lines(errors_of("1", "ignore", "nothing", "static"));

	EXPECT_EQ(lines(errors_of("1", "ignore", "free", "mapping", "3000")), before + 1);
}

INSTANTIATE_TEST_SUITE_P(Calls, Foreign,
			 testing::Combine(testing::Values("free", "realloc", "malloc_usable_size"),
					  testing::ValuesIn(names)),
			 [](auto &info) {
				 return std::string(std::get<0>(info.param)) + "_of_" +
					std::get<1>(info.param);
			 });

/* Reached by harness/main.cc before GoogleTest reads its own arguments. */
extern "C" int act_instead(int argc, char **argv)
{
	if (argc != 5 || strcmp(argv[1], "--act") != 0)
		return -1;
	return act(argv[2], argv[3], atoi(argv[4]));
}
