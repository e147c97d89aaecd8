/* SPDX-License-Identifier: MIT */
/* core/base/log.c: the formats against snprintf, and what reaches stderr. */
#include <climits>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness.h"
#include "slub.h"

namespace {

/* Both printers get the same arguments. */
#define EXPECT_SAME(format, ...)						\
	do {									\
		char want_[256], got_[256] = {};				\
		struct text text_ = { got_, sizeof(got_) - 1, 0 };		\
		snprintf(want_, sizeof(want_), format, ##__VA_ARGS__);		\
		text_printf(&text_, format, ##__VA_ARGS__);			\
		EXPECT_STREQ(got_, want_);					\
		EXPECT_EQ(text_.used_bytes, strlen(want_));			\
	} while (0)

TEST(text, numbers_as_printf)
{
	harness::Random random(7);

	for (int i = 0; i < 20000; i++) {
		uint64_t n = random.next() >> random.below(64);
		auto number = (int)n;

		EXPECT_SAME("%d|%u|%x", number, (unsigned int)n, (unsigned int)n);
		EXPECT_SAME("%lu|%zu|%lx", (unsigned long)n, (size_t)n, (unsigned long)n);
		EXPECT_SAME("%12zu|%6u|%3d|%20lu", (size_t)n, (unsigned int)n, number,
			    (unsigned long)n);
		EXPECT_SAME("%ld", (long)n);
		EXPECT_SAME("%02x|%04u|%012lx|%10x", (unsigned int)(n & 0xff),
			    (unsigned int)n, (unsigned long)n, (unsigned int)n);
	}
	EXPECT_SAME("%d %d %d", 0, INT_MIN, INT_MAX);
	EXPECT_SAME("%ld %ld %lu", LONG_MIN, LONG_MAX, ULONG_MAX);
}

TEST(text, strings_and_the_rest)
{
	EXPECT_SAME("%s", "");
	EXPECT_SAME("a%sb%-17s|%c%%", "x", "malloc-16", 'z');
	EXPECT_SAME("%-3s|", "longer than three");
	EXPECT_SAME("%p %p", (void *)0x1234, (void *)&text_printf);
	EXPECT_SAME("no conversion");
}

TEST(text, null_string_is_empty)
{
	char buf[8] = "#######";
	struct text text = { buf, 7, 0 };
	const char *none = nullptr;

	text_printf(&text, "<%s>", (char *)harness::opaque((void *)none));
	EXPECT_EQ(text.used_bytes, 2u);
	EXPECT_EQ(std::string(buf, 2), "<>");
}

TEST(text, drops_what_does_not_fit)
{
	for (size_t size = 0; size <= 12; size++) {
		char buf[16];
		struct text text = { buf, size, 0 };

		memset(buf, '#', sizeof(buf));
		text_printf(&text, "%s-%u", "abc", 1234567u);
		EXPECT_EQ(text.used_bytes, std::min<size_t>(size, 11));
		EXPECT_EQ(std::string(buf, text.used_bytes),
			  std::string("abc-1234567").substr(0, text.used_bytes));
		for (size_t i = text.used_bytes; i < sizeof(buf); i++)
			EXPECT_EQ(buf[i], '#');
	}
}

TEST(text, a_lone_percent_at_the_end_is_harmless)
{
	char buf[8] = {}, format[] = "ab%";
	struct text text = { buf, 7, 0 };

	text_printf(&text, (char *)harness::opaque(format));
	EXPECT_EQ(std::string(buf, 2), "ab");
	EXPECT_LE(text.used_bytes, 3u);
}

std::string errors_of(const std::function<void()> &body)
{
	std::string errors;

	EXPECT_EQ(harness::in_child(body, &errors), 0);
	return errors;
}

TEST(log, silent_until_asked)
{
	EXPECT_FALSE(log_is_enabled());
	EXPECT_EQ(errors_of([] { log_message("quiet"); }), "");
	EXPECT_EQ(errors_of([] {
		log_enable(true);
		log_enable(false);
		log_message("quiet");
	}), "");
}

TEST(log, one_line_with_the_process)
{
	int pid = 0;
	std::string errors = errors_of([] {
		log_enable(true);
		log_message("number %u", 5u);
	});

	ASSERT_EQ(sscanf(errors.c_str(), "slub[%d]: number 5", &pid), 1) << errors;
	EXPECT_NE(pid, getpid());
	EXPECT_EQ(errors, "slub[" + std::to_string(pid) + "]: number 5\n");
}

TEST(log, always_needs_no_option)
{
	EXPECT_NE(errors_of([] { log_always("%s", "loud"); }).find("]: loud\n"),
		  std::string::npos);
}

TEST(log, what_is_no_text_is_shown_as_such)
{
	std::string errors = errors_of([] { log_always("'%s'", "a\nb\t\x1b[31m\x7f\xc3\xa4"); });

	EXPECT_NE(errors.find("'a?b??[31m?\xc3\xa4'\n"), std::string::npos) << errors;
}

TEST(log, a_long_line_is_cut_and_still_a_line)
{
	std::string errors = errors_of([] {
		std::string text(5000, 'y');

		log_always("%s", text.c_str());
	});

	EXPECT_LE(errors.size(), 512u);
	EXPECT_GT(errors.size(), 400u);
	EXPECT_EQ(errors.find('\n'), errors.size() - 1);
}

TEST(log, keeps_errno)
{
	EXPECT_EQ(errors_of([] {
		close(2);
		errno = 77;
		log_always("into a closed stderr");
		if (errno != 77)
			abort();
	}), "");
}

TEST(assertion, reports_and_aborts)
{
	EXPECT_DEATH(assert_failed("one == two", "file.c", 12),
		     "assertion failed: one == two \\(file.c:12\\)");
}

} /* namespace */
