/* SPDX-License-Identifier: MIT */
/* What the library says on standard error, whole. */
#ifndef SLUB_TESTS_UNIT_SAYS_H
#define SLUB_TESTS_UNIT_SAYS_H

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "slub.h"

/* What is said, where messages are asked for, without "slub[PID]: ". */
inline std::string said(const std::function<void()> &act)
{
	static char on[] = "SLUB_VERBOSE=1", off[] = "SLUB_VERBOSE=0";
	char *wordy[] = { on, nullptr }, *silent[] = { off, nullptr };
	std::string head = "slub[" + std::to_string(getpid()) + "]: ", text;

	option_read(wordy);
	testing::internal::CaptureStderr();
	act();
	text = testing::internal::GetCapturedStderr();
	option_read(silent);
	return text.rfind(head, 0) == 0 ? text.substr(head.size()) : text;
}

inline std::string text_of(const void *pointer)
{
	char text[32];

	snprintf(text, sizeof(text), "%p", pointer);
	return text;
}

#endif
