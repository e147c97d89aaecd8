/* SPDX-License-Identifier: MIT */
/*
 * slub::shrinker: what may be freed when memory is short.
 *
 *   slub::shrinker idle("idle buffers",
 *           [&] { return pool.idle(); },             // how many could be freed
 *           [&](std::size_t n) { return pool.drop(n); });  // frees up to n
 *
 * The functions are called in any thread that reclaims, without any lock of the
 * library; they may allocate and free.  The thread may be in the middle of a malloc(),
 * while it changes the data that they look at.  So they try a lock, as
 * std::mutex::try_lock(), and return 0 if it is taken.  The lock is needed with one
 * thread, too: compilers do not know that malloc() and new may change a variable of the
 * program (SHARED DATA in slub/shrinker.h).  An exception that leaves one ends the program.
 *
 *   slub::shrinker mine(tenant, "tenant's buffers", count, scan);
 *
 * is asked when the group slub::group tenant comes to its limit, too.
 */
#ifndef SLUB_INCLUDE_CPP_SHRINKER_HPP
#define SLUB_INCLUDE_CPP_SHRINKER_HPP

#include <functional>
#include <utility>

#include <slub/cpp/error.hpp>
#include <slub/cpp/group.hpp>
#include <slub/shrinker.h>

namespace slub {

class [[nodiscard]] shrinker {
public:
	using count_function = std::function<std::size_t()>;
	using scan_function = std::function<std::size_t(std::size_t)>;

	/*
	 * Asked from now on.  @name must live as long as this; @seeks: what it
	 * costs to make an object anew.  Throws std::system_error: EINVAL (an
	 * empty function, seeks above 1,000,000), ENOSPC.
	 */
	shrinker(const char *name, count_function count, scan_function scan,
		 unsigned int seeks = SLUB_SHRINKER_SEEKS)
		: count_(std::move(count)), scan_(std::move(scan)), shrinker_()
	{
		create(name, seeks, 0);
	}
	/*
	 * The same for what is charged to @of: asked when that group, or one above it, comes to
	 * its limit, and when memory is short for all.  A shrinker of no group is asked in the
	 * last case alone.  Once the group is deleted, its parent takes its place.  Throws also
	 * std::bad_alloc: no memory for the map of groups; EINVAL: @of was moved from.
	 */
	shrinker(const group &of, const char *name, count_function count, scan_function scan,
		 unsigned int seeks = SLUB_SHRINKER_SEEKS)
		: count_(std::move(count)), scan_(std::move(scan)), shrinker_()
	{
		create(name, seeks, SLUB_SHRINKER_GROUP_AWARE);

		/* After a move there is none; nullptr would stand for all that is in no group. */
		int result = of.handle() ? slub_shrinker_mark(&shrinker_, of.handle(), 0) :
					   -EINVAL;

		if (result < 0) {
			slub_shrinker_destroy(&shrinker_);
			detail::fail(-result, "slub::shrinker: no such group");
		}
	}
	shrinker(const shrinker &) = delete;
	shrinker &operator=(const shrinker &) = delete;
	/*
	 * Waits for calls that are under way; not to be run by such a call.  Where a call
	 * of another shrinker runs it, and a call of this one waits for that in its turn
	 * (two that destroy each other), neither can go on: std::terminate(), with a text.
	 * C's slub_shrinker_destroy() tells (EDEADLK), and can be called again.
	 * Likewise in a signal handler that interrupted the library.
	 */
	~shrinker()
	{
		if (slub_shrinker_destroy(&shrinker_))
			detail::stop("slub::shrinker: destroyed where its calls cannot be "
				     "waited for");
	}

	/* Objects that scan said it freed. */
	std::uint64_t freed() const noexcept
	{
		return __atomic_load_n(&shrinker_.freed, __ATOMIC_RELAXED);
	}

private:
	void create(const char *name, unsigned int seeks, unsigned int flags)
	{
		shrinker_.name = name;
		shrinker_.count = count_ ? call_count : nullptr;
		shrinker_.scan = scan_ ? call_scan : nullptr;
		shrinker_.data = this;
		shrinker_.seeks = seeks;
		shrinker_.flags = flags;

		int result = slub_shrinker_create(&shrinker_);

		if (result < 0)
			detail::fail(-result, result == -EINVAL ?
				     "slub::shrinker: needs two functions, seeks up to 1000000" :
				     "slub::shrinker: cannot be registered");
	}
	static shrinker *self(slub_shrinker *shrinker_of) noexcept
	{
		return static_cast<shrinker *>(shrinker_of->data);
	}
	static std::size_t call_count(slub_shrinker *of, slub_shrink_control *) noexcept
	{
		return self(of)->count_();
	}
	static std::size_t call_scan(slub_shrinker *of, slub_shrink_control *control) noexcept
	{
		return self(of)->scan_(control->nr_to_scan);
	}

	count_function count_;
	scan_function scan_;
	slub_shrinker shrinker_;
};

} // namespace slub

#endif
