/* SPDX-License-Identifier: MIT */
/*
 * How the C++ interface reports what the C one returns as errno: no memory is
 * std::bad_alloc, everything else std::system_error with a text that says what
 * was wrong.  Built with -fno-exceptions, it writes the text and aborts.  What a
 * destructor cannot do, and nobody may go on without, ends the program with a text.
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

} // namespace detail
} // namespace slub

#endif
