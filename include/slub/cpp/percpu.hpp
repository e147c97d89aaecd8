/* SPDX-License-Identifier: MIT */
/*
 * slub::percpu<T>: counters with a copy per CPU.
 *
 *   slub::percpu<long> requests;
 *   requests += 1;                            // 14 instructions, none atomic
 *   requests.sum();                           // over all CPUs
 *
 *   struct traffic { long packets, bytes; };  // several, side by side
 *   slub::percpu<traffic> counted;
 *   counted.add(&traffic::bytes, 1500);
 *   counted.sum(&traffic::bytes);
 *
 * A counter is an integer of 4 or 8 bytes; all begin at zero.
 */
#ifndef SLUB_INCLUDE_CPP_PERCPU_HPP
#define SLUB_INCLUDE_CPP_PERCPU_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <slub/cpp/error.hpp>
#include <slub/percpu.h>

namespace slub {
namespace detail {

template <class C>
inline constexpr bool is_counter = std::is_integral_v<C> && !std::is_same_v<C, bool> &&
				   (sizeof(C) == 4 || sizeof(C) == 8);

/* Where in a T the member lies. */
template <class T, class C> std::uintptr_t offset_of(C T::*member) noexcept
{
	alignas(T) static constexpr char place[sizeof(T)] = {};
	const T *object = reinterpret_cast<const T *>(place);

	return reinterpret_cast<std::uintptr_t>(&(object->*member)) -
	       reinterpret_cast<std::uintptr_t>(object);
}

template <class C> void counter_add(std::uintptr_t word, C n) noexcept
{
	static_assert(is_counter<C>, "slub::percpu: a counter is an integer of 4 or 8 bytes");
	if constexpr (sizeof(C) == 8)
		slub_percpu_add(word, static_cast<std::int64_t>(n));
	else
		slub_percpu_add32(word, static_cast<std::int32_t>(n));
}

template <class C> C counter_sum(std::uintptr_t word) noexcept
{
	static_assert(is_counter<C>, "slub::percpu: a counter is an integer of 4 or 8 bytes");
	if constexpr (sizeof(C) == 8)
		return static_cast<C>(slub_percpu_sum(word));
	else
		return static_cast<C>(slub_percpu_sum32(word));
}

} // namespace detail

template <class T> class percpu {
	static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>,
		      "slub::percpu<T>: T must be plain data, it starts as zero bytes");
	static_assert(alignof(T) <= 4096, "slub::percpu<T>: alignment above 4096");

public:
	/*
	 * All copies zero.  Throws std::bad_alloc, or std::system_error with
	 * ENOSPC when the areas are full.
	 */
	percpu() : offset_(slub_percpu_alloc(sizeof(T), alignof(T)))
	{
		if (offset_ == 0)
			detail::fail(errno, "slub::percpu: the areas are full "
					    "(SLUB_PERCPU_BYTES is their size)");
	}
	percpu(percpu &&other) noexcept : offset_(std::exchange(other.offset_, 0))
	{
	}
	percpu &operator=(percpu &&other) noexcept
	{
		std::swap(offset_, other.offset_);
		return *this;
	}
	percpu(const percpu &) = delete;
	percpu &operator=(const percpu &) = delete;
	~percpu()
	{
		slub_percpu_free(offset_);
	}

	/* Adds to this CPU's copy.  Any thread, signal handlers too. */
	template <class C = T>
	std::enable_if_t<detail::is_counter<C>> add(std::common_type_t<C> n) noexcept
	{
		detail::counter_add<C>(offset_, n);
	}
	template <class C, class S> void add(C S::*member, std::common_type_t<C> n) noexcept
	{
		static_assert(std::is_same_v<S, T>, "slub::percpu<T>: not a member of T");
		detail::counter_add<C>(offset_ + detail::offset_of(member), n);
	}
	template <class C = T> percpu &operator+=(std::common_type_t<C> n) noexcept
	{
		detail::counter_add<C>(offset_, n);
		return *this;
	}
	template <class C = T> percpu &operator-=(std::common_type_t<C> n) noexcept
	{
		detail::counter_add<C>(offset_, static_cast<C>(C(0) - n));
		return *this;
	}
	percpu &operator++() noexcept
	{
		return *this += T(1);
	}
	percpu &operator--() noexcept
	{
		return *this -= T(1);
	}

	/* Adds, and returns the new value of the copy that was added to. */
	template <class C = T>
	std::enable_if_t<detail::is_counter<C> && sizeof(C) == 8, C>
	add_return(std::common_type_t<C> n) noexcept
	{
		return static_cast<C>(
			slub_percpu_add_return(offset_, static_cast<std::int64_t>(n)));
	}

	/*
	 * The sum over all CPUs; modulo 2^32 or 2^64.  Exact when nobody adds
	 * meanwhile.  Cost: one cache miss per CPU.
	 */
	template <class C = T>
	std::enable_if_t<detail::is_counter<C>, C> sum() const noexcept
	{
		return detail::counter_sum<C>(offset_);
	}
	template <class C, class S> C sum(C S::*member) const noexcept
	{
		static_assert(std::is_same_v<S, T>, "slub::percpu<T>: not a member of T");
		return detail::counter_sum<C>(offset_ + detail::offset_of(member));
	}

	/*
	 * Calls @visit(cpu, copy) for every CPU that has an area; the last one
	 * is SLUB_PERCPU_SHARED.  Other threads may be adding to the copies.
	 */
	template <class Visit> void for_each(Visit visit) const
	{
		for (int cpu = slub_percpu_next(-1); cpu >= 0; cpu = slub_percpu_next(cpu)) {
			void *copy = slub_percpu_ptr(offset_, static_cast<unsigned int>(cpu));

			if (copy)
				visit(cpu, *static_cast<const T *>(copy));
		}
	}

	/* For the C functions; 0 after a move. */
	std::uintptr_t offset() const noexcept
	{
		return offset_;
	}

private:
	std::uintptr_t offset_;
};

} // namespace slub

#endif
