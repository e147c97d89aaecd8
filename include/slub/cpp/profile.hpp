/* SPDX-License-Identifier: MIT */
/*
 * slub::profile: which call stacks have allocated how much, while it lives.
 *
 *   slub::profile sampled;                  // one byte in 512 KiB is a sample
 *   ... the program ...
 *   sampled.write("heap.%p");               // for slub-profile(1)
 *
 * There is one profile in a process: a second one begins it anew, and the first to end ends it.
 */
#ifndef SLUB_INCLUDE_CPP_PROFILE_HPP
#define SLUB_INCLUDE_CPP_PROFILE_HPP

#include <cstddef>
#include <utility>

#include <slub/cpp/error.hpp>
#include <slub/profile.h>

namespace slub {

class [[nodiscard]] profile {
public:
	/*
	 * Samples from now on; @bytes: as slub_profile_start().  Throws std::bad_alloc, or
	 * std::system_error: EINVAL (too large), ENOSPC, EBUSY (another thread does the same).
	 */
	explicit profile(std::size_t bytes = 0)
	{
		int result = slub_profile_start(bytes);

		if (result < 0)
			detail::fail(-result, "slub::profile: cannot be started");
	}
	profile(profile &&other) noexcept : is_on_(std::exchange(other.is_on_, false))
	{
	}
	profile &operator=(profile &&) = delete;
	profile(const profile &) = delete;
	profile &operator=(const profile &) = delete;
	/*
	 * Samples no more.  Where another thread starts or stops at that moment it cannot, and
	 * sampling goes on or ends as that one says; stop() tells you.
	 */
	~profile()
	{
		if (is_on_)
			slub_profile_stop();
	}

	/* The same; throws std::system_error: EBUSY. */
	void stop()
	{
		int result = slub_profile_stop();

		if (result < 0)
			detail::fail(-result, "slub::profile: cannot be stopped just now");
		is_on_ = false;
	}
	/*
	 * Writes the profile as it is now, also behind stop(); %p in @path is the process's number.
	 * Throws std::bad_alloc, or std::system_error with what the system says of the file.
	 */
	void write(const std::string &path) const
	{
		int result = slub_profile_write(path.c_str());

		if (result < 0)
			detail::fail(-result, "slub::profile: '" + path + "'");
	}

private:
	bool is_on_ = true;
};

} // namespace slub

#endif
