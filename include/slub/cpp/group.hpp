/* SPDX-License-Identifier: MIT */
/*
 * slub::group: limits inside a process, for a tenant or a request.
 *
 *   slub::group tenant("tenant7");
 *   tenant.set_limit(SLUB_GROUP_MAX, 8 << 20);
 *   {
 *           slub::group_guard inside(tenant);
 *           ... what this block allocates is charged to the tenant ...
 *   }
 *   tenant.stats().usage;
 */
#ifndef SLUB_INCLUDE_CPP_GROUP_HPP
#define SLUB_INCLUDE_CPP_GROUP_HPP

#include <utility>

#include <slub/cpp/error.hpp>
#include <slub/group.h>

namespace slub {

using group_stats = struct ::slub_group_stats;

class [[nodiscard]] group {
public:
	/*
	 * Makes a group below the root.  Throws std::bad_alloc, or
	 * std::system_error: EINVAL (a bad name), ENOSPC (too many groups).
	 */
	explicit group(const char *name) : handle_(create(name, nullptr))
	{
	}
	/* The same below @parent; also E2BIG: too many groups above it. */
	group(const char *name, const group &parent) : handle_(create(name, parent.handle_))
	{
	}
	group(group &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
	{
	}
	group &operator=(group &&other) noexcept
	{
		std::swap(handle_, other.handle_);
		return *this;
	}
	group(const group &) = delete;
	group &operator=(const group &) = delete;
	/*
	 * The group ends; what is still charged to it, its parent is charged with.
	 * While there are groups below it, it stays.
	 */
	~group()
	{
		if (handle_)
			slub_group_destroy(handle_);
	}

	/*
	 * Bytes, or SLUB_GROUP_NO_LIMIT.  Throws std::system_error: EBUSY, when
	 * more is used than SLUB_GROUP_MAX is to be, and stays so.
	 */
	void set_limit(slub_group_limit limit, std::size_t bytes)
	{
		int result = slub_group_limit_set(handle_, limit, bytes);

		if (result < 0)
			detail::fail(-result, result == -EBUSY ?
				     "slub::group: more is in use than this limit" :
				     "slub::group: no such limit");
	}
	std::size_t limit(slub_group_limit limit) const noexcept
	{
		return slub_group_limit_get(handle_, limit);
	}
	group_stats stats() const noexcept
	{
		group_stats counts = {};

		slub_group_stats(handle_, &counts);
		return counts;
	}
	/*
	 * @handler is called before a request is refused: slub_group_handler_set().  It runs in
	 * the middle of an allocation: SHARED DATA in slub/shrinker.h.  When
	 * this returns, nobody is in the one before.  Throws std::system_error: EDEADLK, in
	 * a handler or callback, where another thread may be in it still.
	 */
	void set_handler(slub_group_handler_fn *handler, void *arg)
	{
		int result = slub_group_handler_set(handle_, handler, arg);

		if (result < 0)
			detail::fail(-result, "slub::group: the handler before may still run");
	}
	/* For the C functions; still owned by this.  nullptr after a move. */
	slub_group *handle() const noexcept
	{
		return handle_;
	}

private:
	static slub_group *create(const char *name, slub_group *parent)
	{
		slub_group *made = slub_group_create(name, parent);

		if (!made)
			detail::fail(errno, std::string("slub::group '") +
				     (name ? name : "(no name)") + "': cannot be made");
		return made;
	}

	slub_group *handle_;
};

/*
 * This thread works for a group for the guard's life.  They nest, and end in the
 * reverse order, as blocks do.  The group may be deleted meanwhile.
 */
class [[nodiscard]] group_guard {
public:
	/* Throws std::system_error: ENOSPC, nested too deep; EINVAL, no group. */
	explicit group_guard(const group &of) : handle_(of.handle())
	{
		int result = slub_group_enter(handle_);

		if (result < 0)
			detail::fail(-result, "slub::group_guard: the group cannot be entered");
	}
	group_guard(const group_guard &) = delete;
	group_guard &operator=(const group_guard &) = delete;
	~group_guard()
	{
		slub_group_leave(handle_);
	}

private:
	slub_group *handle_;
};

} // namespace slub

#endif
