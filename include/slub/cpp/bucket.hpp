/* SPDX-License-Identifier: MIT */
/*
 * slub::bucket: blocks of any size for one subsystem, from slabs of its own.
 *
 *   slub::bucket parser("parser");
 *   void *text = parser.allocate(100);
 *   parser.deallocate(text);
 *
 *   slub::memory_resource memory(parser);           // for std::pmr containers
 *
 * Any number of threads may use one bucket at the same time.  Blocks may be freed by another
 * thread than the one that allocated them, and by std::free().
 */
#ifndef SLUB_INCLUDE_CPP_BUCKET_HPP
#define SLUB_INCLUDE_CPP_BUCKET_HPP

#include <cstddef>
#include <utility>

#include <slub/bucket.h>
#include <slub/cpp/error.hpp>
#include <slub/cpp/group.hpp>

namespace slub {

using bucket_stats = struct ::slub_bucket_stats;

class [[nodiscard]] bucket {
public:
	/*
	 * Makes a bucket; @flags: SLUB_CACHE_ACCOUNT, which lets groups be charged, or a
	 * debugging letter.  Throws std::bad_alloc, or std::system_error: EINVAL (name or
	 * flags), EEXIST (the name is taken), ENOSPC (the first bucket, and too many caches).
	 */
	explicit bucket(const char *name, unsigned long flags = 0)
		: handle_(slub_bucket_create(name, flags))
	{
		if (!handle_)
			detail::fail(errno, std::string("slub::bucket '") +
				     (name ? name : "(no name)") + "': cannot be made");
	}
	explicit bucket(const std::string &name, unsigned long flags = 0)
		: bucket(name.c_str(), flags)
	{
	}
	bucket(bucket &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
	{
	}
	bucket &operator=(bucket &&other) noexcept
	{
		std::swap(handle_, other.handle_);
		return *this;
	}
	bucket(const bucket &) = delete;
	bucket &operator=(const bucket &) = delete;
	/*
	 * Frees all blocks and the bucket; destructors of what lies in them are not called.
	 * Where the lists of another CPU cannot be emptied (no membarrier) it cannot, and the
	 * bucket stays for good.  close() tells you instead.
	 */
	~bucket()
	{
		slub_bucket_destroy_all(handle_);
	}

	/* The same; throws std::system_error (EAGAIN), with the bucket as it was. */
	void close()
	{
		int result = slub_bucket_destroy_all(handle_);

		if (result < 0)
			detail::fail(-result, "slub::bucket: cannot be closed just now");
		handle_ = nullptr;
	}

	/* A block, aligned to 16 or as asked.  Throws std::bad_alloc. */
	[[nodiscard]] void *allocate(std::size_t bytes, std::size_t align = 16)
	{
		void *block = try_allocate(bytes, align);

		if (!block)
			detail::fail_alloc();
		return block;
	}
	/* The same, but returns nullptr, with errno as of slub_bucket_alloc(). */
	[[nodiscard]] void *try_allocate(std::size_t bytes, std::size_t align = 16) noexcept
	{
		return align <= 16 ? slub_bucket_alloc(handle_, bytes)
				   : slub_bucket_aligned_alloc(handle_, align, bytes);
	}
	/*
	 * @block with room for @bytes, where it is or elsewhere in the bucket; nullptr
	 * allocates, 0 bytes free.  Throws std::bad_alloc, with the block as it was.
	 */
	[[nodiscard]] void *reallocate(void *block, std::size_t bytes)
	{
		void *moved = slub_bucket_realloc(handle_, block, bytes);

		if (!moved && bytes)
			detail::fail_alloc();
		return moved;
	}
	/* nullptr is allowed. */
	void deallocate(void *block) noexcept
	{
		slub_bucket_free(handle_, block);
	}
	/*
	 * Frees all blocks; the bucket stays.  None may be used afterwards, nor the bucket
	 * meanwhile.  false: some are left, call it again.
	 */
	[[nodiscard]] bool clear() noexcept
	{
		return slub_bucket_clear(handle_) == 0;
	}

	/*
	 * From now on what is allocated here is charged to @to, whatever group the thread is
	 * in.  Throws std::system_error: EINVAL, made without SLUB_CACHE_ACCOUNT.
	 */
	void set_group(const group &to)
	{
		change_group(to.handle());
	}
	/* To the thread's group again. */
	void unset_group()
	{
		change_group(nullptr);
	}
	/* Throws std::system_error: EAGAIN, other CPUs' lists could not be emptied. */
	bucket_stats stats() const
	{
		bucket_stats counts = {};
		int result = slub_bucket_stats(handle_, &counts);

		if (result < 0)
			detail::fail(-result, "slub::bucket: cannot be counted just now");
		return counts;
	}
	/* For the C functions; still owned by this.  nullptr after a move. */
	slub_bucket *handle() const noexcept
	{
		return handle_;
	}

private:
	void change_group(slub_group *to)
	{
		int result = slub_bucket_group_set(handle_, to);

		if (result < 0)
			detail::fail(-result, "slub::bucket: cannot be charged to a group");
	}

	slub_bucket *handle_;
};

} // namespace slub

#endif
