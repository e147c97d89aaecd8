/* SPDX-License-Identifier: MIT */
/*
 * Memory for the standard containers.
 *
 *   std::map<int, order, std::less<>, slub::allocator<std::pair<const int, order>>> orders;
 *
 *   slub::memory_resource memory;
 *   std::pmr::vector<int> numbers(&memory);
 *
 * slub::allocator<T> gives single objects, which is what the nodes of lists,
 * maps and sets are, from a cache of their size, inline in your program; arrays
 * come from malloc.
 */
#ifndef SLUB_INCLUDE_CPP_MEMORY_HPP
#define SLUB_INCLUDE_CPP_MEMORY_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <type_traits>

#include <slub/bucket.h>
#include <slub/cache.h>
#include <slub/cpp/bucket.hpp>
#include <slub/cpp/error.hpp>

namespace slub {

/* Any tag of yours with a name puts your nodes into caches of their own. */
struct shared_nodes {
	static constexpr const char *name = "node";
};

namespace detail {

/* malloc's blocks of 16 bytes and more are aligned to 16, smaller ones to 8. */
inline bool malloc_aligns(std::size_t bytes, std::size_t align) noexcept
{
	return align <= 8 || (align <= 16 && bytes >= 16);
}

inline void *malloc_aligned(std::size_t bytes, std::size_t align) noexcept
{
	void *memory;

	if (malloc_aligns(bytes, align))
		return std::malloc(bytes);
	return posix_memalign(&memory, align, bytes) == 0 ? memory : nullptr;
}

/*
 * The cache of nodes of one size, alignment and tag; made when first used and
 * never destroyed, as static containers may outlive everything else.
 */
template <std::size_t Size, std::size_t Align, class Tag> class node_cache {
public:
	/* nullptr: none can be had, for good; use malloc. */
	static slub_cache *get() noexcept
	{
		slub_cache *cache = made_.load(std::memory_order_acquire);

		return __builtin_expect(cache != nullptr, 1) ? cache : make();
	}

private:
	__attribute__((__noinline__)) static slub_cache *make() noexcept
	{
		static slub_cache *const cache = create();

		made_.store(cache, std::memory_order_release);
		return cache;
	}

	/*
	 * "node-48", or "node-48.2" in the second library of a process that has
	 * this template for itself: then the name is taken.
	 */
	static slub_cache *create() noexcept
	{
		/* A tag is asked for to be apart: then SLUB_MERGE=1 does not count. */
		constexpr unsigned long flags =
			std::is_same_v<Tag, shared_nodes> ? 0 : SLUB_CACHE_NO_MERGE;
		char name[SLUB_CACHE_NAME_MAX + 1];

		for (int copy = 1; copy < 100; copy++) {
			int end = std::snprintf(name, sizeof(name), "%.30s-%zu", Tag::name, Size);

			if (Align > 8)
				end += std::snprintf(name + end, sizeof(name) - size_t(end),
						     "a%zu", Align);
			if (copy > 1)
				std::snprintf(name + end, sizeof(name) - size_t(end), ".%d", copy);
			slub_cache *cache = slub_cache_create(name, Size, Align, flags, nullptr);

			if (cache || errno != EEXIST)
				return cache;
		}
		return nullptr;
	}

	inline static std::atomic<slub_cache *> made_{ nullptr };
};

/* Looked at when the allocator is used: T may be incomplete before. */
template <class T, class Tag> struct nodes_of {
	static constexpr std::size_t align = alignof(T) > 8 ? alignof(T) : 8;
	static constexpr std::size_t size = (sizeof(T) + 7) / 8 * 8;
	static constexpr bool has_cache = sizeof(T) >= 16 && align <= 4096 &&
					  size <= SLUB_CACHE_SIZE_MAX;

	static slub_cache *cache() noexcept
	{
		if constexpr (has_cache)
			return node_cache<size, align, Tag>::get();
		else
			return nullptr;
	}
};

} // namespace detail

/*
 * A standard allocator.  All of one Tag are equal, whatever their T.
 *
 * Single objects of 16 bytes and more come from the cache "TAG-SIZE", of the
 * size rounded up to 8 bytes; so containers of one tag whose nodes are equally
 * large share a cache.  With a tag of your own,
 *
 *   struct orders_tag { static constexpr const char *name = "orders"; };
 *   std::list<order, slub::allocator<order, orders_tag>>
 *
 * a freed node's memory is never used for anything but the nodes of that tag,
 * and shows under that name.
 *
 * allocate() throws std::bad_alloc; std::bad_array_new_length for an absurd
 * number.
 */
template <class T, class Tag = shared_nodes> class allocator {
public:
	using value_type = T;
	using is_always_equal = std::true_type;
	using propagate_on_container_move_assignment = std::true_type;
	template <class U> struct rebind {
		using other = allocator<U, Tag>;
	};

	constexpr allocator() noexcept = default;
	template <class U> constexpr allocator(const allocator<U, Tag> &) noexcept
	{
	}

	[[nodiscard]] T *allocate(std::size_t n)
	{
		void *memory;

		if (n == 1)
			memory = one();
		else if (n <= std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T))
			memory = detail::malloc_aligned(n * sizeof(T), alignof(T));
		else
			bad_length();
		if (__builtin_expect(!memory, 0))
			detail::fail_alloc();
		return static_cast<T *>(memory);
	}

	/* @n is what allocate() was asked for. */
	void deallocate(T *memory, std::size_t n) noexcept
	{
		slub_cache *from = n == 1 ? cache() : nullptr;

		if (from)
			slub_cache_free(from, memory);
		else
			std::free(memory);
	}

	template <class U> bool operator==(const allocator<U, Tag> &) const noexcept
	{
		return true;
	}
	template <class U> bool operator!=(const allocator<U, Tag> &) const noexcept
	{
		return false;
	}

	/* The cache of single objects; nullptr if they come from malloc. */
	static slub_cache *cache() noexcept
	{
		return detail::nodes_of<T, Tag>::cache();
	}

private:
	static void *one() noexcept
	{
		slub_cache *from = cache();

		return from ? slub_cache_alloc(from)
			    : detail::malloc_aligned(sizeof(T), alignof(T));
	}

	[[noreturn]] static void bad_length()
	{
#if defined(__cpp_exceptions)
		throw std::bad_array_new_length();
#else
		detail::fail_alloc();
#endif
	}
};

/*
 * Memory for std::pmr containers: malloc's, or a bucket's (slub/cpp/bucket.hpp).
 *
 * The bucket stays the caller's and must outlive the resource's blocks and the resource.
 * Resources of the same bucket are equal, and so are those of malloc: one may
 * free what another allocated.  Throws std::bad_alloc.
 */
class memory_resource : public std::pmr::memory_resource {
public:
	memory_resource() noexcept = default;
	explicit memory_resource(slub_bucket *bucket) noexcept : bucket_(bucket)
	{
	}
	explicit memory_resource(slub::bucket &from) noexcept : bucket_(from.handle())
	{
	}

	slub_bucket *bucket() const noexcept
	{
		return bucket_;
	}

	/*
	 * Frees all blocks of the bucket, whichever resource they are from, without
	 * destructors; none may be used afterwards, nor meanwhile.  Does nothing
	 * without a bucket.  false: some are left, call it again; all, inside a
	 * read_guard of this thread.
	 */
	bool release() noexcept
	{
		return !bucket_ || slub_bucket_clear(bucket_) == 0;
	}

private:
	void *do_allocate(std::size_t bytes, std::size_t align) override
	{
		void *memory = bucket_ ? slub_bucket_aligned_alloc(bucket_, align, bytes)
				       : detail::malloc_aligned(bytes, align);

		if (!memory)
			detail::fail_alloc();
		return memory;
	}

	void do_deallocate(void *memory, std::size_t, std::size_t) override
	{
		if (!bucket_)
			std::free(memory);
		else
			slub_bucket_free(bucket_, memory);
	}

	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
#if defined(__cpp_rtti)
		auto *same = dynamic_cast<const memory_resource *>(&other);

		return same && same->bucket_ == bucket_;
#else
		return this == &other;
#endif
	}

	slub_bucket *bucket_ = nullptr;
};

} // namespace slub

#endif
