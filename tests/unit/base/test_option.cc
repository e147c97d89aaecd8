/* SPDX-License-Identifier: MIT */
/* core/base/option.c: every kind of option, lists of them, and what bad input is told. */
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "slub.h"

namespace {

/* The options as one process finds them; each reading happens in a child, for it lasts. */
struct reading {
	size_t value[OPTION_NR];
	bool given[OPTION_NR];
	bool has_text[OPTION_NR];
	char text[OPTION_NR][1024];
	bool verbose;
};

struct parsed : reading {
	std::string errors;
};

parsed parse(const std::vector<std::string> &variables)
{
	auto *shared = (struct reading *)mmap(nullptr, sizeof(struct reading),
					      PROT_READ | PROT_WRITE,
					      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	parsed result = {};

	int status = harness::in_child([&] {
		std::vector<char *> environment;

		for (auto &variable : variables)
			environment.push_back(const_cast<char *>(variable.c_str()));
		environment.push_back(nullptr);
		option_read(environment.data());
		for (int i = 0; i < OPTION_NR; i++) {
			auto id = (enum option_id)i;

			shared->value[i] = option_value(id);
			shared->given[i] = option_was_given(id);
			shared->has_text[i] = option_text(id) != nullptr;
			if (option_text(id))
				snprintf(shared->text[i], 1024, "%s", option_text(id));
		}
		shared->verbose = log_is_enabled();
	}, &result.errors);
	EXPECT_EQ(status, 0) << harness::describe_status(status);
	static_cast<reading &>(result) = *shared;
	munmap(shared, sizeof(*shared));
	return result;
}

/* The same with messages asked for. */
parsed parse_loud(std::vector<std::string> variables)
{
	variables.push_back("SLUB_VERBOSE=1");
	return parse(variables);
}

size_t count_of(const std::string &text, const std::string &what)
{
	size_t n = 0;

	for (size_t at = text.find(what); at != std::string::npos;
	     at = text.find(what, at + 1))
		n++;
	return n;
}

TEST(option, defaults)
{
	parsed p = parse({"PATH=/bin", "SLUBX=1", "SLUB", "XSLUB_HUGE=never"});

	EXPECT_EQ(p.value[OPTION_fastpath], (size_t)FASTPATH_AUTO);
	EXPECT_EQ(p.value[OPTION_verbose], 0u);
	EXPECT_EQ(p.value[OPTION_huge], (size_t)HUGE_AUTO);
	EXPECT_EQ(p.value[OPTION_retain], 16ul << 20);
	EXPECT_EQ(p.value[OPTION_address_space], 0u);
	EXPECT_FALSE(p.has_text[OPTION_debug_leaks]);
	for (bool given : p.given)
		EXPECT_FALSE(given);
	EXPECT_EQ(p.errors, "");
}

TEST(option, every_choice_of_every_enum)
{
	const struct {
		enum option_id id;
		const char *name;
		std::vector<const char *> choices;
	} rows[] = {
		{OPTION_fastpath, "FASTPATH", {"auto", "rseq", "thread", "tid", "lock"}},
		{OPTION_verbose, "VERBOSE", {"0", "1"}},
		{OPTION_huge, "HUGE", {"never", "block", "always", "auto"}},
		{OPTION_mode, "MODE", {"balanced", "compact", "fast"}},
	};

	for (auto &row : rows) {
		for (size_t i = 0; i < row.choices.size(); i++) {
			std::string assignment = std::string("SLUB_") + row.name + "=" +
						 row.choices[i];
			parsed p = parse({assignment});

			EXPECT_EQ(p.value[row.id], i) << assignment;
			EXPECT_TRUE(p.given[row.id]) << assignment;
			EXPECT_EQ(p.errors, "");
		}
	}
}

TEST(option, case_does_not_matter_in_names_and_choices)
{
	parsed p = parse({"SLUB_FastPath=TID", "SLUB_OPTIONS=HUGE=Never,ReTain=3k"});

	EXPECT_EQ(p.value[OPTION_fastpath], (size_t)FASTPATH_TID);
	EXPECT_EQ(p.value[OPTION_huge], (size_t)HUGE_NEVER);
	EXPECT_EQ(p.value[OPTION_retain], 3072u);
}

TEST(option, sizes)
{
	const std::pair<const char *, size_t> good[] = {
		{"0", 0}, {"1", 1}, {"4096", 4096}, {"007", 7}, {"64K", 64ul << 10},
		{"64k", 64ul << 10}, {"3M", 3ul << 20}, {"3m", 3ul << 20}, {"5G", 5ul << 30},
		{"5g", 5ul << 30}, {"2T", 2ul << 40}, {"2t", 2ul << 40}, {"64T", 1ul << 46},
		{"70368744177664", 1ul << 46}, {"512Mi", 512ul << 20}, {"64MB", 64ul << 20},
		{"64mb", 64ul << 20}, {"64MiB", 64ul << 20}, {"64mib", 64ul << 20},
		{"1Ki", 1024}, {"1KB", 1024}, {"1kB", 1024}, {"1KiB", 1024}, {"2Gi", 2ul << 30},
		{"2GB", 2ul << 30}, {"2GiB", 2ul << 30}, {"1Ti", 1ul << 40}, {"1TB", 1ul << 40},
		{"1TiB", 1ul << 40}, {"77B", 77},
	};

	for (auto &row : good) {
		parsed p = parse_loud({std::string("SLUB_RETAIN=") + row.first});

		EXPECT_EQ(p.value[OPTION_retain], row.second) << row.first;
		EXPECT_TRUE(p.given[OPTION_retain]) << row.first;
		EXPECT_EQ(p.errors, "") << row.first;
	}
}

TEST(option, bad_sizes_leave_the_default_and_say_what_is_right)
{
	for (const char *bad : {" 1", "1 ", "-1", "+1", "M", "64MM", "64iB", "64i",
				"64BM", "64 MB", "64Mib1", "64MBi", "64KK", "1.5M", "0x10",
				"1e6", "12P", "64T1", "65T", "70368744177665", "16777216T",
				"18446744073709551615", "18446744073709551616",
				"99999999999999999999999999", "eight"}) {
		parsed p = parse_loud({std::string("SLUB_RETAIN=") + bad});

		EXPECT_EQ(p.value[OPTION_retain], 16ul << 20) << bad;
		EXPECT_FALSE(p.given[OPTION_retain]) << bad;
		EXPECT_EQ(count_of(p.errors, "\n"), 1u) << p.errors;
		EXPECT_NE(p.errors.find("option retain: '"), std::string::npos) << p.errors;
		EXPECT_NE(p.errors.find("from 0 to 70368744177664"), std::string::npos)
			<< p.errors;
	}
}

TEST(option, a_limit_may_be_chosen_by_itself)
{
	EXPECT_EQ(parse({}).value[OPTION_limit], 0u);
	EXPECT_EQ(parse({"SLUB_LIMIT=Auto"}).value[OPTION_limit], OPTION_VALUE_AUTO);
	EXPECT_EQ(parse({"SLUB_OPTIONS=limit=2G"}).value[OPTION_limit], 2ul << 30);
	parsed p = parse_loud({"SLUB_LIMIT=automatic"});
	EXPECT_EQ(p.value[OPTION_limit], 0u);
	EXPECT_NE(p.errors.find("not 'auto', 0, or a number of bytes from 1048576 to"),
		  std::string::npos) << p.errors;
	/* The word means nothing elsewhere. */
	EXPECT_FALSE(parse({"SLUB_RETAIN=auto"}).given[OPTION_retain]);
}

TEST(option, numbers_that_are_not_of_bytes)
{
	EXPECT_EQ(parse({}).value[OPTION_reclaim_rate], 10u);
	EXPECT_EQ(parse({"SLUB_RECLAIM_RATE=0"}).value[OPTION_reclaim_rate], 0u);
	EXPECT_EQ(parse({"SLUB_RECLAIM_RATE=250"}).value[OPTION_reclaim_rate], 250u);
	parsed p = parse_loud({"SLUB_RECLAIM_RATE=often"});
	EXPECT_EQ(p.value[OPTION_reclaim_rate], 10u);
	EXPECT_NE(p.errors.find("'often' is not a number from 0 to 1000000"), std::string::npos)
		<< p.errors;
}

TEST(option, a_size_has_a_least_value_but_0)
{
	EXPECT_EQ(parse({"SLUB_ADDRESS_SPACE=8M"}).value[OPTION_address_space], 8ul << 20);
	EXPECT_EQ(parse({"SLUB_ADDRESS_SPACE=8388607"}).value[OPTION_address_space], 0u);
	EXPECT_FALSE(parse({"SLUB_ADDRESS_SPACE=1"}).given[OPTION_address_space]);
	EXPECT_TRUE(parse({"SLUB_ADDRESS_SPACE=0"}).given[OPTION_address_space]);
	EXPECT_NE(parse_loud({"SLUB_ADDRESS_SPACE=1"}).errors.find(
			  "'1' is not 0, or a number of bytes from 8388608 to"),
		  std::string::npos);
	EXPECT_NE(parse_loud({"SLUB_GUARD_PLACES=1"}).errors.find(
			  "'1' is not 0, or a number from 16 to 16384"),
		  std::string::npos);
}

TEST(option, bad_choice_names_the_nearest)
{
	const std::pair<const char *, const char *> rows[] = {
		{"SLUB_FASTPATH=reseq", "nearest is 'rseq'"},
		{"SLUB_FASTPATH=thraed", "nearest is 'thread'"},
		{"SLUB_FASTPATH=locks", "nearest is 'lock'"},
		{"SLUB_HUGE=blocks", "nearest is 'block'"},
	};

	for (auto &row : rows) {
		parsed p = parse_loud({row.first});

		EXPECT_EQ(p.value[OPTION_fastpath], (size_t)FASTPATH_AUTO);
		EXPECT_EQ(p.value[OPTION_huge], (size_t)HUGE_AUTO);
		EXPECT_NE(p.errors.find(row.second), std::string::npos) << p.errors;
	}
	EXPECT_NE(parse_loud({"SLUB_FASTPATH=x"}).errors.find("auto|rseq|thread|tid|lock"),
		  std::string::npos);
}

TEST(option, a_choice_that_nothing_is_near_names_no_nearest)
{
	for (const char *row : {"SLUB_FASTPATH=bogus", "SLUB_FASTPATH=yes", "SLUB_FASTPATH=xyz",
				"SLUB_HUGE=nonsense", "SLUB_HUGE=on", "SLUB_VERBOSE=2",
				"SLUB_MERGE=yes"}) {
		parsed p = parse_loud({row});

		EXPECT_EQ(p.errors.find("nearest"), std::string::npos) << p.errors;
		EXPECT_EQ(count_of(p.errors, " is not one of "), 1u) << row << p.errors;
	}
}

TEST(option, unknown_name_names_the_nearest)
{
	for (const char *name : {"FASTPAHT=rseq", "fast_path=tid", "FASTPATHS=lock"}) {
		parsed p = parse_loud({std::string("SLUB_") + name});

		EXPECT_NE(p.errors.find("unknown option '"), std::string::npos) << p.errors;
		EXPECT_NE(p.errors.find("nearest is 'fastpath'"), std::string::npos) << p.errors;
		EXPECT_FALSE(p.given[OPTION_fastpath]);
	}
	EXPECT_NE(parse_loud({"SLUB_RETIAN=1"}).errors.find("nearest is 'retain'"),
		  std::string::npos);
}

TEST(option, one_that_is_gone_names_what_does_the_same)
{
	const std::pair<const char *, const char *> rows[] = {
		{"SLUB_RESERVE=1G", "'reserve' is gone and ignored; use address_space"},
		{"SLUB_OPTIONS=percpu=static", "'percpu' is gone and ignored; use percpu_bytes"},
		{"SLUB_DEBUG_ABORT=1", "use on_error=abort"},
		{"SLUB_PERCPU_HUGE=1", "use huge=always"},
		{"SLUB_ZERO_ON_FREE=1", "use free_fill=1G"},
	};

	for (auto &row : rows) {
		parsed p = parse_loud({row.first});

		EXPECT_NE(p.errors.find(row.second), std::string::npos) << p.errors;
		EXPECT_EQ(count_of(p.errors, "\n"), 1u) << p.errors;
		EXPECT_EQ(p.errors.find("unknown"), std::string::npos) << p.errors;
		for (int i = 0; i < OPTION_NR; i++)
			EXPECT_EQ(p.given[i], i == OPTION_verbose) << i;
	}
}

TEST(option, a_name_that_nothing_is_near_lists_all)
{
	for (const char *name : {"X=1", "NONSENSE=1", "=1", "WHATEVER=tid", "QQQ=1"}) {
		parsed p = parse_loud({std::string("SLUB_") + name});

		EXPECT_EQ(count_of(p.errors, "\n"), 1u) << p.errors;
		EXPECT_EQ(p.errors.find("nearest"), std::string::npos) << p.errors;
		EXPECT_NE(p.errors.find("none of verbose|mode|"), std::string::npos)
			<< p.errors;
		EXPECT_NE(p.errors.find("|check_calls\n"), std::string::npos) << p.errors;
	}
}

TEST(option, very_long_names_and_values_are_survived)
{
	std::string longest(20000, 'q');
	parsed p = parse_loud({"SLUB_" + longest + "=1", "SLUB_HUGE=" + longest,
			       "SLUB_RETAIN=" + longest, "SLUB_OPTIONS=" + longest});

	EXPECT_EQ(count_of(p.errors, "\n"), 4u) << p.errors;
	EXPECT_LT(p.errors.size(), 4 * 512u);
}

TEST(option, text_is_kept_whole)
{
	parsed p = parse({"SLUB_DEBUG_LEAKS=/tmp/a=b,c %p"});

	EXPECT_STREQ(p.text[OPTION_debug_leaks], "/tmp/a=b,c %p");
	p = parse({"SLUB_OPTIONS=debug_leaks=/tmp/x,huge=never"});
	EXPECT_STREQ(p.text[OPTION_debug_leaks], "/tmp/x");
	EXPECT_EQ(p.value[OPTION_huge], (size_t)HUGE_NEVER);
	p = parse({"SLUB_DEBUG_LEAKS=" + std::string(511, 'p')});
	EXPECT_EQ(p.text[OPTION_debug_leaks], std::string(511, 'p'));
}

TEST(option, text_that_is_too_long_is_refused)
{
	/* Its beginning would be the name of another file. */
	parsed p = parse_loud({"SLUB_DEBUG_LEAKS=" + std::string(512, 'p')});

	EXPECT_FALSE(p.has_text[OPTION_debug_leaks]);
	EXPECT_EQ(count_of(p.errors, "option debug_leaks: longer than 511 bytes; ignored"), 1u)
		<< p.errors;
}

TEST(option, an_empty_name_is_no_file)
{
	parsed p = parse_loud({"SLUB_OPTIONS=profile_file="});

	EXPECT_FALSE(p.has_text[OPTION_profile_file]);
	EXPECT_EQ(p.errors, "");
}

/* "VARIABLE= command" clears it: each is as if it were not there, and SLUB_OPTIONS counts. */
TEST(option, an_empty_variable_is_none)
{
	parsed none = parse_loud({});

	for (int i = 0; i < OPTION_NR; i++) {
		std::string name = option_rows[i].name;

		for (char &c : name)
			c = (char)toupper(c);
		/* parse_loud() has a verbose of its own. */
		if (i == OPTION_verbose)
			continue;
		parsed p = parse_loud({"SLUB_" + name + "="});

		EXPECT_EQ(p.errors, "") << name;
		EXPECT_FALSE(p.given[i]) << name;
		EXPECT_FALSE(p.has_text[i]) << name;
		EXPECT_EQ(p.value[i], none.value[i]) << name;
	}
	parsed p = parse_loud({"SLUB_OPTIONS=retain=1M", "SLUB_RETAIN="});
	EXPECT_EQ(p.value[OPTION_retain], 1ul << 20);
}

TEST(option, list)
{
	parsed p = parse_loud({"SLUB_OPTIONS=fastpath=lock,retain=1M,huge=always,verbose=1"});

	EXPECT_EQ(p.value[OPTION_fastpath], (size_t)FASTPATH_LOCK);
	EXPECT_EQ(p.value[OPTION_retain], 1ul << 20);
	EXPECT_EQ(p.value[OPTION_huge], (size_t)HUGE_ALWAYS);
	EXPECT_EQ(p.errors, "");
}

TEST(option, list_goes_on_behind_a_bad_item)
{
	parsed p = parse_loud({
		"SLUB_OPTIONS=nonsense,huge=x,fastpath=tid,retain=y,address_space=16M"
	});

	EXPECT_EQ(p.value[OPTION_fastpath], (size_t)FASTPATH_TID);
	EXPECT_EQ(p.value[OPTION_address_space], 16ul << 20);
	EXPECT_EQ(count_of(p.errors, "\n"), 3u) << p.errors;
	EXPECT_EQ(count_of(p.errors, "unknown option 'nonsense'"), 1u) << p.errors;
}

TEST(option, empty_list_and_a_comma_at_the_end)
{
	EXPECT_EQ(parse_loud({"SLUB_OPTIONS="}).errors, "");
	parsed p = parse_loud({"SLUB_OPTIONS=huge=never,"});
	EXPECT_EQ(p.errors, "");
	EXPECT_EQ(p.value[OPTION_huge], (size_t)HUGE_NEVER);
}

TEST(option, the_last_of_two_in_a_list_counts)
{
	EXPECT_EQ(parse({"SLUB_OPTIONS=huge=never,huge=always"}).value[OPTION_huge],
		  (size_t)HUGE_ALWAYS);
}

TEST(option, single_variable_wins_wherever_it_stands)
{
	EXPECT_EQ(parse({"SLUB_HUGE=never", "SLUB_OPTIONS=huge=always"}).value[OPTION_huge],
		  (size_t)HUGE_NEVER);
	EXPECT_EQ(parse({"SLUB_OPTIONS=huge=always", "SLUB_HUGE=never"}).value[OPTION_huge],
		  (size_t)HUGE_NEVER);
	/* A bad single variable leaves what the list said. */
	EXPECT_EQ(parse({"SLUB_HUGE=x", "SLUB_OPTIONS=huge=always"}).value[OPTION_huge],
		  (size_t)HUGE_ALWAYS);
}

TEST(option, what_is_not_understood_is_told_always)
{
	for (const char *row : {"SLUB_HUGE=x", "SLUB_LIMIT=512Mx", "SLUB_LIMT=64M",
				"SLUB_RETIAN=1M", "SLUB_OPTIONS=limt=64M", "SLUB_DEBUG_ABORT=1",
				"SLUB_GUARD=1MB"}) {
		std::string errors = parse({row}).errors;

		EXPECT_EQ(count_of(errors, "\n"), 1u) << row << errors;
		EXPECT_EQ(errors.find("slub["), 0u) << errors;
	}
	EXPECT_NE(parse({"SLUB_LIMT=64M"}).errors.find("nearest is 'limit'"), std::string::npos);
}

TEST(option, variables_of_others_are_left_alone)
{
	parsed p = parse({"SLUB_LIBRARY=/x", "SLUB_LIB_DIR=/x", "SLUB_LINK=shared",
			  "SLUB_DEBIAN=http://x", "SLUB_TEST_SCALE=10", "SLUB_BENCH_ROOT=/x",
			  "SLUB_BUILD=/x", "SLUB_FUZZ_SECONDS=1", "SLUB_STORM_CYCLES=1"});

	EXPECT_EQ(p.errors, "");
	/* But those that are in the table. */
	EXPECT_EQ(parse({"SLUB_TEST_CPUS=64"}).value[OPTION_test_cpus], 64u);
	EXPECT_NE(parse({"SLUB_TEST=1"}).errors, "");
	EXPECT_NE(parse({"SLUB_LIBRARYS=1"}).errors, "");
}

/* Nobody waits for a line, and nobody dies of it. */
TEST(option, a_pipe_that_nobody_reads_gets_none)
{
	EXPECT_EQ(harness::in_child([] {
		char bad[] = "SLUB_HUGE=x";
		char *environment[] = {bad, nullptr};
		int ends[2];

		if (pipe(ends) || dup2(ends[1], 2) != 2)
			_exit(1);
		close(ends[0]);
		close(ends[1]);
		option_read(environment);
	}), 0);
	EXPECT_EQ(harness::in_child([] {
		char bad[] = "SLUB_HUGE=x", full[4096] = {};
		char *environment[] = {bad, nullptr};
		int ends[2];

		if (pipe2(ends, O_NONBLOCK) || dup2(ends[1], 2) != 2)
			_exit(1);
		while (write(2, full, sizeof(full)) > 0)
			;
		if (fcntl(2, F_SETFL, 0))
			_exit(2);
		option_read(environment);
	}), 0);
	EXPECT_EQ(harness::in_child([] {
		char bad[] = "SLUB_HUGE=x";
		char *environment[] = {bad, nullptr};

		close(2);
		option_read(environment);
	}), 0);
}

TEST(option, verbose_0_wants_no_line_wherever_it_stands)
{
	EXPECT_EQ(parse({"SLUB_HUGE=x", "SLUB_VERBOSE=0"}).errors, "");
	EXPECT_NE(parse({"SLUB_HUGE=x", "SLUB_VERBOSE=1"}).errors, "");
	EXPECT_NE(parse({"SLUB_OPTIONS=huge=x,verbose=1"}).errors, "");
	EXPECT_TRUE(parse({"SLUB_VERBOSE=1"}).verbose);
	EXPECT_TRUE(parse({"SLUB_OPTIONS=verbose=1"}).verbose);
	EXPECT_FALSE(parse({"SLUB_VERBOSE=0"}).verbose);
}

TEST(option, single_verbose_wins_for_messages_too)
{
	parsed p = parse({"SLUB_VERBOSE=0", "SLUB_OPTIONS=verbose=1,huge=x"});

	EXPECT_FALSE(p.verbose);
	EXPECT_EQ(p.errors, "");
	EXPECT_NE(parse({"SLUB_VERBOSE=1", "SLUB_OPTIONS=verbose=0,huge=x"}).errors, "");
}

TEST(option, the_command_s_variable_is_none)
{
	parsed p = parse_loud({"SLUB_LIBRARY=/usr/lib/libslub.so"});

	EXPECT_EQ(p.errors, "");
}

TEST(option, no_environment_at_all)
{
	EXPECT_EQ(harness::in_child([] { option_read(nullptr); }), 0);
}

} /* namespace */
