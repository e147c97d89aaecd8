/* SPDX-License-Identifier: MIT */
/*
 * Memory for a thread that needs some in order to free more.
 *
 *   slub::set_reserve(1 << 20);
 *   {
 *           slub::reserve_guard right;
 *           ... this block's allocations have the reserve when there is no other memory ...
 *   }
 */
#ifndef SLUB_INCLUDE_CPP_RESERVE_HPP
#define SLUB_INCLUDE_CPP_RESERVE_HPP

#include <cstddef>

#include <slub/cpp/error.hpp>
#include <slub/reserve.h>

namespace slub {

/*
 * Keeps @bytes aside from now on, for the whole process; 0 gives all back.  Throws std::bad_alloc,
 * with the reserve as it was.
 */
inline void set_reserve(std::size_t bytes)
{
	int result = slub_reserve_set(bytes);

	if (result < 0)
		detail::fail(-result, "slub::set_reserve(" + std::to_string(bytes) + ")");
}

/* What lies in the reserve now. */
inline std::size_t reserve_bytes() noexcept
{
	return slub_reserve_bytes();
}

/* This thread has the right to the reserve for the guard's life; they nest. */
class [[nodiscard]] reserve_guard {
public:
	/* Throws std::system_error: ENOSPC, nested 63 times. */
	reserve_guard()
	{
		int result = slub_reserve_enter();

		if (result < 0)
			detail::fail(-result, "slub::reserve_guard: nested too deep");
	}
	reserve_guard(const reserve_guard &) = delete;
	reserve_guard &operator=(const reserve_guard &) = delete;
	~reserve_guard()
	{
		slub_reserve_leave();
	}
};

} // namespace slub

#endif
