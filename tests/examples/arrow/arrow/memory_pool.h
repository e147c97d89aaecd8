/* SPDX-License-Identifier: MIT */
/* What slub/cpp/arrow.hpp uses of Arrow's interface, for where Arrow is not. */
#ifndef SLUB_TESTS_ARROW_MEMORY_POOL_H
#define SLUB_TESTS_ARROW_MEMORY_POOL_H

#include <cstdint>
#include <string>

#include <arrow/status.h>

namespace arrow {

class MemoryPool {
public:
	virtual ~MemoryPool() = default;
	Status Allocate(std::int64_t size, std::uint8_t **out) { return Allocate(size, 64, out); }
	virtual Status Allocate(std::int64_t size, std::int64_t align, std::uint8_t **out) = 0;
	Status Reallocate(std::int64_t old_size, std::int64_t size, std::uint8_t **memory)
	{
		return Reallocate(old_size, size, 64, memory);
	}
	virtual Status Reallocate(std::int64_t old_size, std::int64_t size, std::int64_t align,
				  std::uint8_t **memory) = 0;
	void Free(std::uint8_t *memory, std::int64_t size) { Free(memory, size, 64); }
	virtual void Free(std::uint8_t *memory, std::int64_t size, std::int64_t align) = 0;
	virtual void ReleaseUnused() {}
	virtual void PrintStats() {}
	virtual std::int64_t bytes_allocated() const = 0;
	virtual std::int64_t max_memory() const = 0;
	virtual std::int64_t total_bytes_allocated() const = 0;
	virtual std::int64_t num_allocations() const = 0;
	virtual std::string backend_name() const = 0;
};

} // namespace arrow

#endif
