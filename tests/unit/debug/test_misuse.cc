// SPDX-License-Identifier: MIT
// features/misuse/misuse.c: the line, its words, and the end, wherever the library may be just
// then.
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <regex>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "features/debug/debug.h"
#include "features/misuse/misuse.h"
}

namespace {

int block;

void choose(const char *setting, const char *verbose = "SLUB_VERBOSE=0")
{
	static std::string kept;
	kept = std::string("SLUB_ON_ERROR=") + setting;
	char *environment[] = {kept.data(), const_cast<char *>(verbose), nullptr};

	option_read(environment);
}

void find_one() { misuse_found(MISUSE_DOUBLE_FREE, "free", &block, "malloc-64"); }

bool is_abort(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT; }

size_t lines(const std::string &text)
{
	return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Misuse, ends_the_process_with_one_line)
{
	if (harness::is_emulated())
		GTEST_SKIP() << "without process_vm_readv(2) no caller is known";
	std::string errors;
	int status = harness::in_child(find_one, &errors);

	EXPECT_TRUE(is_abort(status)) << harness::describe_status(status);
	EXPECT_TRUE(std::regex_match(
		errors, std::regex("slub\\[\\d+\\]: double free: free\\(0x[0-9a-f]+\\), malloc-64, "
				   "thread \\d+, called from \\[<0x[0-9a-f]+>\\] "
				   "\\w+\\+0x[0-9a-f]+ \\(/.*misuse_test\\+0x[0-9a-f]+\\); "
				   "SLUB_DEBUG=FZPU names "
				   "who freed it first; aborting\n")))
		<< errors;
}

TEST(Misuse, each_kind_has_words)
{
	for (int kind = 0; kind < MISUSE_NR; kind++) {
		std::string errors;

		harness::in_child([=] { misuse_found(misuse(kind), nullptr, &block, nullptr); },
				  &errors);
		EXPECT_TRUE(std::regex_match(
			errors, std::regex("slub\\[\\d+\\]: [a-z ]+: 0x[0-9a-f]+, thread .*; "
					   ".*; aborting\n")))
			<< errors;
	}
}

TEST(Misuse, keeps_what_it_said_last_for_a_core)
{
	std::string errors;
	auto look = [] {
		const std::string name(200, 'n');

		choose("ignore");
		find_one();
		if (misuse_last.thread)
			_exit(1);
		choose("report");
		find_one();
		misuse_found(MISUSE_INSIDE, nullptr, &block, name.c_str());
		bool is_last = misuse_last.size == sizeof(misuse_last) && misuse_last.nr == 3 &&
			       misuse_last.address == reinterpret_cast<uintptr_t>(&block) &&
			       misuse_last.thread == static_cast<uint32_t>(gettid());

		_exit(is_last && misuse_last.what == std::string("pointer inside a block") &&
				      misuse_last.call == std::string() &&
				      misuse_last.where == name.substr(0, 63) ?
			      7 :
			      8);
	};
	int status = harness::in_child(look, &errors);

	EXPECT_EQ(WEXITSTATUS(status), 7) << errors;
}

TEST(Misuse, report_goes_on_and_ignore_says_nothing)
{
	std::string errors;
	auto twice = [] {
		find_one();
		find_one();
		_exit(misuse_nr_found() == 2 ? 7 : 8);
	};
	int status = harness::in_child(
		[=] {
			choose("report");
			twice();
		},
		&errors);

	EXPECT_EQ(WEXITSTATUS(status), 7);
	EXPECT_EQ(lines(errors), 2u) << errors;
	EXPECT_NE(errors.find("; left alone\n"), errors.npos) << errors;
	status = harness::in_child(
		[=] {
			choose("ignore");
			twice();
		},
		&errors);
	EXPECT_EQ(WEXITSTATUS(status), 7);
	EXPECT_EQ(errors, "");
}

TEST(Misuse, a_loop_does_not_fill_a_disk)
{
	std::string errors;

	harness::in_child(
		[] {
			choose("report");
			for (int i = 0; i < 1500; i++)
				find_one();
		},
		&errors);
	EXPECT_EQ(lines(errors), 1000u);
	EXPECT_NE(errors.find("further ones are not reported\n"), errors.npos);
}

TEST(Misuse, unknown_policy_is_named_and_ends_the_process)
{
	std::string errors;
	int status = harness::in_child(
		[] {
			choose("reprot", "SLUB_VERBOSE=1");
			find_one();
		},
		&errors);

	EXPECT_TRUE(is_abort(status)) << harness::describe_status(status);
	EXPECT_NE(errors.find("'reprot' is not one of abort|report|ignore; nearest is 'report'"),
		  errors.npos)
		<< errors;
}

TEST(Misuse, works_without_standard_error)
{
	EXPECT_TRUE(is_abort(harness::in_child([] {
		close(2);
		find_one();
	})));
	EXPECT_EQ(harness::in_child([] {
			  choose("report");
			  close(2);
			  find_one();
			  _exit(0);
		  }),
		  0);
}

// SIGPIPE must not end a program that was to go on, nor stay behind for it.
TEST(Misuse, a_pipe_without_a_reader_is_no_end)
{
	int status = harness::in_child([] {
		int ends[2];
		sigset_t pending;

		choose("report");
		if (pipe(ends) || dup2(ends[1], 2) != 2)
			_exit(1);
		close(ends[0]);
		find_one();
		sigpending(&pending);
		_exit(sigismember(&pending, SIGPIPE) ? 2 : 0);
	});

	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

TEST(Misuse, a_signal_that_is_blocked_or_ignored_ends_it_too)
{
	EXPECT_TRUE(is_abort(harness::in_child([] {
		sigset_t all;

		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, nullptr);
		find_one();
	})));
	EXPECT_TRUE(is_abort(harness::in_child([] {
		signal(SIGABRT, SIG_IGN);
		find_one();
	})));
}

TEST(Misuse, a_handler_runs_once_and_may_allocate)
{
	std::string errors;
	int status = harness::in_child(
		[] {
			signal(SIGABRT, [](int) {
				free(malloc(100));
				dprintf(2, "handler\n");
				find_one();
			});
			slub_thread.locks_held++; /* as if it had interrupted a holder */
			find_one();
		},
		&errors);

	EXPECT_TRUE(is_abort(status)) << harness::describe_status(status);
	EXPECT_EQ(lines(errors), 3u) << errors;
	EXPECT_EQ(errors.find("handler\n"), errors.rfind("handler\n")) << errors;
}

sigjmp_buf back;

TEST(Misuse, a_handler_may_leave)
{
	int status = harness::in_child([] {
		signal(SIGABRT, [](int) { siglongjmp(back, 1); });
		if (sigsetjmp(back, 1))
			_exit(5);
		find_one();
	});

	EXPECT_EQ(WEXITSTATUS(status), 5) << harness::describe_status(status);
}

TEST(Misuse, works_in_a_handler_and_in_a_child)
{
	EXPECT_TRUE(is_abort(harness::in_child([] {
		signal(SIGUSR1, [](int) { find_one(); });
		raise(SIGUSR1);
	})));
	EXPECT_EQ(harness::in_child([] {
			  pid_t child = fork();

			  if (!child)
				  find_one();
			  _exit(is_abort(harness::wait_for(child)) ? 0 : 1);
		  }),
		  0);
}

TEST(Misuse, debugging_goes_on_unless_it_is_asked_to_end)
{
	auto bug = [] {
		struct debug_layout layout = {};
		struct debug_case found = {};

		layout.name = "cache";
		found.layout = &layout;
		report_bug(&found, nullptr, "text");
		report_finish(&found);
		_exit(6);
	};
	std::string errors;

	EXPECT_EQ(WEXITSTATUS(harness::in_child(bug)), 6);
	EXPECT_TRUE(is_abort(harness::in_child(
		[=] {
			choose("abort");
			bug();
		},
		&errors)));
	EXPECT_NE(errors.find("aborting: SLUB_ON_ERROR=abort and a bug was found in cache"),
		  errors.npos)
		<< errors;
}

} // namespace
