/* SPDX-License-Identifier: MIT */
/*
 * Readers without a lock, and freeing what they may still look at.
 *
 *   {
 *           slub::read_guard reading;
 *           const route *r = current.load(std::memory_order_acquire);
 *           ... r stays valid to the end of the block ...
 *   }
 *   slub::free_deferred(current.exchange(next));
 */
#ifndef SLUB_INCLUDE_CPP_RCU_HPP
#define SLUB_INCLUDE_CPP_RCU_HPP

#include <type_traits>

#include <slub/rcu.h>

namespace slub {

/* This thread is a reader for the guard's life; they nest. */
class read_guard {
public:
	read_guard() noexcept : token_(slub_read_lock())
	{
	}
	read_guard(const read_guard &) = delete;
	read_guard &operator=(const read_guard &) = delete;
	~read_guard()
	{
		slub_read_unlock(token_);
	}

private:
	decltype(slub_read_lock()) token_;
};

/*
 * Frees @object, of any cache or malloc, after every present reader has left.
 * nullptr is allowed.  No destructor is called, so the type must need none.
 */
template <class T> void free_deferred(T *object) noexcept
{
	static_assert(std::is_void_v<T> || std::is_trivially_destructible_v<T>,
		      "slub::free_deferred: the destructor of this type would not be called");
	slub_free_deferred(const_cast<std::remove_cv_t<T> *>(object));
}

/* A deleter for smart pointers: std::unique_ptr<T, slub::deferred_deleter>. */
struct deferred_deleter {
	template <class T> void operator()(T *object) const noexcept
	{
		free_deferred(object);
	}
};

/* Waits until all that was deferred before has been freed. */
inline void deferred_barrier()
{
	slub_deferred_barrier();
}

} // namespace slub

#endif
