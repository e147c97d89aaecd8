/* SPDX-License-Identifier: MIT */
/*
 * slub::arena_options: arenas of protobuf whose blocks come from a bucket.
 *
 *   slub::bucket requests("requests", SLUB_CACHE_ACCOUNT);         // a variable of the file
 *
 *   google::protobuf::Arena arena(slub::arena_options<requests>());
 *   auto *message = google::protobuf::Arena::CreateMessage<order>(&arena);
 *   message->ParseFromString(bytes);                               // all of it goes with the arena
 *
 * Protobuf calls functions without an argument, so the bucket is one of the program's variables.
 * Tenants share it: what a thread inside a slub::group_guard takes is charged to that group.
 * Where a limit is in the way, or no memory is left, the call of protobuf ends by
 * std::bad_alloc, as without arenas.  The arena works on; the message that was being built may
 * only end with it.  It is not in slub/slub.hpp: include it where protobuf's headers are (tried
 * with 3.21).
 */
#ifndef SLUB_INCLUDE_CPP_PROTOBUF_HPP
#define SLUB_INCLUDE_CPP_PROTOBUF_HPP

#include <cstddef>

#include <google/protobuf/arena.h>

#include <slub/cpp/bucket.hpp>

namespace slub {

namespace detail {

template <bucket &From> struct arena_blocks {
	static void *take(std::size_t bytes)
	{
		return From.allocate(bytes);
	}
	static void give_back(void *block, std::size_t) noexcept
	{
		From.deallocate(block);
	}
};

} // namespace detail

/*
 * @start: bytes of an arena's first block; each further one has twice as many, up to @most.
 * Up to 32 KiB blocks are objects of slabs, taken from and put on a list of the CPU; one that
 * is a power of two wastes nothing.  Protobuf's own are 256 bytes to 8 or 32 KiB: an arena that
 * holds a whole request is better off with more.
 *
 * @From must outlive all arenas.  Change what else there is in the result (initial_block).
 */
template <bucket &From>
google::protobuf::ArenaOptions arena_options(std::size_t start = 4096, std::size_t most = 32768)
{
	google::protobuf::ArenaOptions options;

	options.start_block_size = start;
	options.max_block_size = most;
	options.block_alloc = detail::arena_blocks<From>::take;
	options.block_dealloc = detail::arena_blocks<From>::give_back;
	return options;
}

} // namespace slub

#endif
