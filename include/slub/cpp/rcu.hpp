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

#include <cstdint>
#include <type_traits>

#include <slub/cpp/error.hpp>
#include <slub/rcu.h>
#include <slub/srcu.h>

namespace slub {

/*
 * This thread is a reader for the guard's life; they nest.
 *
 * What would wait for readers would wait for this one: the end of a cache, clear() and the end
 * of a bucket, deferred_barrier().  The C functions answer EDEADLK meanwhile.
 */
class [[nodiscard]] read_guard {
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
 * A domain of its own: its readers do not delay the writers of another, and may sleep.
 *
 *   slub::srcu plugins;
 *   {
 *           slub::srcu_guard reading(plugins);
 *           ...
 *   }
 *   plugins.synchronize();          // all readers that were inside have left
 *
 * It stays where it is: neither copied nor moved.
 */
class srcu {
public:
	/* Where there is no memory for counters readers use atomic instructions. */
	srcu() noexcept
	{
		slub_srcu_create(&domain_);
	}
	srcu(const srcu &) = delete;
	srcu &operator=(const srcu &) = delete;
	/*
	 * No reader may be inside, and nobody may wait.  If a reader is, the counters are left
	 * to it for ever, and SLUB_VERBOSE=1 says so.
	 */
	~srcu()
	{
		slub_srcu_destroy(&domain_);
	}

	/* Waits for every reader that is inside; not to be called by one. */
	void synchronize() noexcept
	{
		slub_srcu_synchronize(&domain_);
	}
	/* Have the readers left that are inside now?  poll() tells, by what this returns. */
	[[nodiscard]] std::uint64_t start_poll() noexcept
	{
		return slub_srcu_start_poll(&domain_);
	}
	[[nodiscard]] bool poll(std::uint64_t cookie) noexcept
	{
		return slub_srcu_poll(&domain_, cookie);
	}
	/* For the C functions; still owned by this. */
	slub_srcu *handle() noexcept
	{
		return &domain_;
	}

private:
	slub_srcu domain_ = {};
};

/* A reader of a domain, for the guard's life; they nest. */
class [[nodiscard]] srcu_guard {
public:
	explicit srcu_guard(srcu &of) noexcept
		: domain_(of.handle()), index_(slub_srcu_read_lock(domain_))
	{
	}
	srcu_guard(const srcu_guard &) = delete;
	srcu_guard &operator=(const srcu_guard &) = delete;
	~srcu_guard()
	{
		slub_srcu_read_unlock(domain_, index_);
	}

private:
	slub_srcu *domain_;
	int index_;
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

/*
 * Waits until all that was deferred before has been freed.  Throws std::system_error (EDEADLK)
 * inside a read_guard of this thread, which it would wait for.
 */
inline void deferred_barrier()
{
	int result = slub_deferred_barrier();

	if (result < 0)
		detail::fail(-result, "slub::deferred_barrier: called by a reader");
}

} // namespace slub

#endif
