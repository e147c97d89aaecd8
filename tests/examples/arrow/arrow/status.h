/* SPDX-License-Identifier: MIT */
/* What slub/cpp/arrow.hpp uses of Arrow's interface, for where Arrow is not. */
#ifndef SLUB_TESTS_ARROW_STATUS_H
#define SLUB_TESTS_ARROW_STATUS_H

#include <sstream>
#include <string>

namespace arrow {

class Status {
public:
	static Status OK() { return Status(0, ""); }
	template <class... Words> static Status OutOfMemory(Words &&...words)
	{
		return Status(1, joined(words...));
	}
	template <class... Words> static Status Invalid(Words &&...words)
	{
		return Status(4, joined(words...));
	}
	bool ok() const { return code_ == 0; }
	bool IsOutOfMemory() const { return code_ == 1; }
	bool IsInvalid() const { return code_ == 4; }
	const std::string &message() const { return message_; }

private:
	Status(int code, std::string message) : code_(code), message_(std::move(message)) {}
	template <class... Words> static std::string joined(const Words &...words)
	{
		std::ostringstream text;

		static_cast<void>((text << ... << words));
		return text.str();
	}

	int code_;
	std::string message_;
};

} // namespace arrow

#endif
