/* SPDX-License-Identifier: MIT */
/*
 * slub::pool<T>: elements that are there whatever happens.
 *
 *   slub::pool<request> requests("request", 4);     // four of them put aside
 *   auto one = requests.wait_unique(fd);            // never without one: waits
 *   request *two = requests.make(fd);               // std::bad_alloc
 *   requests.destroy(two);
 *
 * A pool allocates from a cache for as long as there is memory.  When there is none, it hands out
 * what it has put aside, and then waits until an element comes back.  Any number of threads may
 * use one pool.
 */
#ifndef SLUB_INCLUDE_CPP_POOL_HPP
#define SLUB_INCLUDE_CPP_POOL_HPP

#include <memory>
#include <utility>

#include <slub/cpp/cache.hpp>
#include <slub/cpp/error.hpp>
#include <slub/mempool.h>

namespace slub {

using pool_stats = struct ::slub_mempool_stats;

template <class T> class [[nodiscard]] pool {
public:
	using value_type = T;

	/* Gives an element back to the pool it came from. */
	class deleter {
	public:
		constexpr deleter() noexcept = default;
		explicit deleter(slub_mempool *pool) noexcept : pool_(pool)
		{
		}
		void operator()(T *element) const noexcept
		{
			element->~T();
			slub_mempool_free(pool_, element);
		}

	private:
		slub_mempool *pool_ = nullptr;
	};
	using unique_ptr = std::unique_ptr<T, deleter>;

	/*
	 * Makes a cache of that name, and puts @min elements of it aside.  Throws as cache's
	 * constructor; also EINVAL: @min is 0 or above SLUB_MEMPOOL_NR_MAX.
	 */
	pool(const char *name, std::size_t min) : pool(slub::cache<T>(name), min)
	{
	}
	pool(slub::cache<T> &&from, std::size_t min)
		: cache_(std::move(from)), handle_(slub_mempool_create_slab(min, cache_.handle()))
	{
		if (!handle_)
			detail::fail(errno, "slub::pool: cannot be made");
	}
	pool(pool &&other) noexcept
		: cache_(std::move(other.cache_)), handle_(std::exchange(other.handle_, nullptr))
	{
	}
	pool &operator=(pool &&) = delete;
	pool(const pool &) = delete;
	pool &operator=(const pool &) = delete;
	/*
	 * Gives pool and cache back.  While elements are known to be out it cannot: both then
	 * stay as they are, for good.  It must outlive its elements; close() tells you.
	 */
	~pool()
	{
		slub_mempool_destroy(handle_);
	}

	/*
	 * The same, and says so: throws std::system_error (EBUSY: elements are out, or threads
	 * wait; EAGAIN).
	 */
	void close()
	{
		int result = slub_mempool_destroy(handle_);

		if (result < 0)
			detail::fail(-result, "slub::pool: elements are still allocated");
		handle_ = nullptr;
		cache_.close();
	}

	/*
	 * An element of the cache or of those put aside, constructed from @args; destroy() takes
	 * it back.  Throws std::bad_alloc, or what the constructor throws: the element is back
	 * in the pool then.
	 */
	template <class... Args> [[nodiscard]] T *make(Args &&...args)
	{
		return build(given(slub_mempool_alloc(handle_, 0)), std::forward<Args>(args)...);
	}
	/* The same, but returns nullptr when there is none. */
	template <class... Args> [[nodiscard]] T *try_make(Args &&...args)
	{
		void *memory = slub_mempool_alloc(handle_, 0);

		return memory ? build(memory, std::forward<Args>(args)...) : nullptr;
	}
	/*
	 * The same, but waits until there is one.  A thread that holds elements and waits for
	 * another may wait for itself.  Throws std::bad_alloc in a signal handler only, which
	 * cannot wait.
	 */
	template <class... Args> [[nodiscard]] T *wait(Args &&...args)
	{
		return build(given(slub_mempool_alloc(handle_, SLUB_POOL_WAIT)),
			     std::forward<Args>(args)...);
	}
	/* Of those put aside, without a look at the cache.  Throws std::bad_alloc. */
	template <class... Args> [[nodiscard]] T *make_reserved(Args &&...args)
	{
		return build(given(slub_mempool_alloc_reserved(handle_)),
			     std::forward<Args>(args)...);
	}
	/* make() and wait() in a pointer that destroys its element; 16 bytes. */
	template <class... Args> [[nodiscard]] unique_ptr make_unique(Args &&...args)
	{
		return unique_ptr(make(std::forward<Args>(args)...), deleter(handle_));
	}
	template <class... Args> [[nodiscard]] unique_ptr wait_unique(Args &&...args)
	{
		return unique_ptr(wait(std::forward<Args>(args)...), deleter(handle_));
	}
	/* Destructs @element and gives it back; nullptr is allowed. */
	void destroy(T *element) noexcept
	{
		static_assert(std::is_nothrow_destructible_v<T>,
			      "slub::pool<T>: the destructor of T may throw");
		if (element)
			deleter{ handle_ }(element);
	}

	/*
	 * How many are put aside from now on.  Throws std::bad_alloc, or std::system_error: EINVAL,
	 * EBUSY (another thread does the same); nothing is changed then.
	 */
	void resize(std::size_t min)
	{
		int result = slub_mempool_resize(handle_, min);

		if (result < 0)
			detail::fail(-result, "slub::pool: cannot be resized");
	}
	pool_stats stats() const noexcept
	{
		pool_stats counts = {};

		slub_mempool_stats(handle_, &counts);
		return counts;
	}
	/* What the elements come from. */
	const slub::cache<T> &cache() const noexcept
	{
		return cache_;
	}
	/* For the C functions; still owned by this.  nullptr after a move. */
	slub_mempool *handle() const noexcept
	{
		return handle_;
	}

private:
	/* An element whose constructor has not come to its end yet. */
	class unfinished {
	public:
		unfinished(slub_mempool *pool, void *memory) noexcept
			: pool_(pool), memory_(memory)
		{
		}
		unfinished(const unfinished &) = delete;
		unfinished &operator=(const unfinished &) = delete;
		~unfinished()
		{
			slub_mempool_free(pool_, memory_);
		}
		void finished() noexcept
		{
			memory_ = nullptr;
		}

	private:
		slub_mempool *pool_;
		void *memory_;
	};

	static void *given(void *memory)
	{
		if (!memory)
			detail::fail_alloc();
		return memory;
	}

	template <class... Args> T *build(void *memory, Args &&...args)
	{
		unfinished guard(handle_, memory);
		T *element = detail::construct<T>(memory, std::forward<Args>(args)...);

		guard.finished();
		return element;
	}

	slub::cache<T> cache_;		// its end comes behind the pool's
	slub_mempool *handle_;
};

} // namespace slub

#endif
