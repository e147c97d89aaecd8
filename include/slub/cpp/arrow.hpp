/* SPDX-License-Identifier: MIT */
/*
 * slub::arrow_pool: a MemoryPool of Apache Arrow on a bucket, with the limit of a group.
 *
 *   slub::group tenant("tenant7");
 *   tenant.set_limit(SLUB_GROUP_MAX, 64 << 20);
 *   slub::bucket memory("tenant7", SLUB_CACHE_ACCOUNT);
 *   memory.set_group(tenant);
 *   slub::arrow_pool pool(memory);
 *
 *   arrow::compute::ExecContext context(&pool);     // arrow::Status::OutOfMemory above 64 MiB
 *
 * Whichever thread of Arrow's allocates, the group is charged; tenant.stats().usage is exact.
 * It is not in slub/slub.hpp: include it where Arrow's headers are (tried with 26.0).
 */
#ifndef SLUB_INCLUDE_CPP_ARROW_HPP
#define SLUB_INCLUDE_CPP_ARROW_HPP

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <arrow/memory_pool.h>
#include <arrow/status.h>

#include <slub/control.h>
#include <slub/cpp/bucket.hpp>
#include <slub/malloc.h>

namespace slub {

/*
 * Any number of threads may use it.  The bucket stays the caller's, and outlives the pool and
 * all buffers from it; its end, or clear(), frees what buffers were lost.
 */
class arrow_pool : public arrow::MemoryPool {
public:
	explicit arrow_pool(slub::bucket &from) noexcept : bucket_(from.handle())
	{
	}

	using arrow::MemoryPool::Allocate;
	using arrow::MemoryPool::Free;
	using arrow::MemoryPool::Reallocate;

	arrow::Status Allocate(std::int64_t size, std::int64_t align, std::uint8_t **out) override
	{
		*out = empty();
		return Reallocate(0, size, align, out);
	}
	/* *@memory stays as it was where this fails. */
	arrow::Status Reallocate(std::int64_t old_size, std::int64_t size, std::int64_t align,
				 std::uint8_t **memory) override
	{
		std::uint8_t *moved = empty();

		if (size < 0)
			return arrow::Status::Invalid("slub::arrow_pool: negative size");
		if (size)
			moved = move(*memory, old_size, size, align);
		else if (*memory != empty())
			slub_bucket_free(bucket_, *memory);
		if (!moved)
			return arrow::Status::OutOfMemory("slub::arrow_pool: ", size, " bytes: ",
							  std::strerror(errno));
		*memory = moved;
		count(size - old_size);
		return arrow::Status::OK();
	}
	void Free(std::uint8_t *memory, std::int64_t size, std::int64_t) override
	{
		if (memory != empty())
			slub_bucket_free(bucket_, memory);
		allocated_ -= size;
	}
	/* Gives back what lies free in this process, not what this pool freed alone. */
	void ReleaseUnused() override
	{
		slub_node_shrink(SLUB_NODE_ANY);
	}
	void PrintStats() override
	{
		bucket_stats counts = {};

		slub_bucket_stats(bucket_, &counts);
		std::fprintf(stderr, "slub::arrow_pool: %zu bytes in %zu blocks, slabs of %zu\n",
			     counts.live_bytes, counts.live_blocks, counts.slab_bytes);
	}

	/* As asked for.  The group is charged with what the bucket rounds them up to. */
	std::int64_t bytes_allocated() const override { return allocated_; }
	std::int64_t max_memory() const override { return peak_; }
	std::int64_t total_bytes_allocated() const override { return total_; }
	std::int64_t num_allocations() const override { return calls_; }
	std::string backend_name() const override { return "slub"; }

private:
	/* What Arrow gets for 0 bytes. */
	static std::uint8_t *empty() noexcept
	{
		alignas(4096) static std::uint8_t zero[1];

		return zero;
	}

	std::uint8_t *move(std::uint8_t *from, std::int64_t old_size, std::int64_t size,
			   std::int64_t align) noexcept
	{
		constexpr std::int64_t pages = 64 << 10;
		std::size_t bytes = std::size_t(size);
		std::size_t room = from == empty() ? 0 : slub_usable_size(from);
		void *to;

		if (bytes <= room && bytes > room / 2)
			return from;
		/* Such blocks begin at a page, and the library moves pages, not bytes. */
		if (old_size >= pages && size >= pages && align <= 4096)
			return static_cast<std::uint8_t *>(
				slub_bucket_realloc(bucket_, from, bytes));
		to = slub_bucket_aligned_alloc(bucket_, std::size_t(align), bytes);
		if (to && room) {
			std::memcpy(to, from, std::size_t(std::min(old_size, size)));
			slub_bucket_free(bucket_, from);
		}
		return static_cast<std::uint8_t *>(to);
	}

	void count(std::int64_t bytes) noexcept
	{
		std::int64_t now = allocated_ += bytes, peak = peak_;

		total_ += std::max<std::int64_t>(bytes, 0);
		calls_++;
		while (now > peak && !peak_.compare_exchange_weak(peak, now))
			;
	}

	slub_bucket *bucket_;
	std::atomic<std::int64_t> allocated_{ 0 }, peak_{ 0 }, total_{ 0 }, calls_{ 0 };
};

} // namespace slub

#endif
