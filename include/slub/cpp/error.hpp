/* SPDX-License-Identifier: MIT */
/*
 * How the C++ interface reports what the C one returns as errno: no memory is
 * std::bad_alloc, everything else std::system_error with a text that says what
 * was wrong.  Built with -fno-exceptions, it writes the text and aborts.  What a
 * destructor cannot do, and nobody may go on without, ends the program with a text.
 *
 * No exception gets into C's frames.  One of a function that C calls for its caller, a visitor, is
 * kept and goes on behind the C call.  One of a function that is called in the middle of anybody's
 * allocation (shrinkers, handlers of groups, movers) has nowhere to go: std::terminate().
 */
#ifndef SLUB_INCLUDE_CPP_ERROR_HPP
#define SLUB_INCLUDE_CPP_ERROR_HPP

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <system_error>

namespace slub {
namespace detail {

[[noreturn]] inline void fail_alloc()
{
#if defined(__cpp_exceptions)
	throw std::bad_alloc();
#else
	std::fputs("slub: out of memory\n", stderr);
	std::abort();
#endif
}

[[noreturn]] inline void fail(int error, const std::string &what)
{
	if (error == ENOMEM)
		fail_alloc();
#if defined(__cpp_exceptions)
	throw std::system_error(error, std::generic_category(), what);
#else
	std::fprintf(stderr, "%s (error %d)\n", what.c_str(), error);
	std::abort();
#endif
}

[[noreturn]] inline void stop(const char *what) noexcept
{
	std::fprintf(stderr, "%s\n", what);
	std::terminate();
}

/* What a visitor threw, until C has returned to its caller. */
class kept_exception {
public:
	template <class Call> int call(int otherwise, Call &&call) noexcept
	{
#if defined(__cpp_exceptions)
		try {
			return call();
		} catch (...) {
			exception_ = std::current_exception();
			return otherwise;
		}
#else
		static_cast<void>(otherwise);
		return call();
#endif
	}
	void rethrow()
	{
#if defined(__cpp_exceptions)
		if (exception_)
			std::rethrow_exception(exception_);
#endif
	}

private:
	std::exception_ptr exception_;
};

} // namespace detail
} // namespace slub

#endif
