/* SPDX-License-Identifier: MIT */
/*
 * slub::cache<T>: objects of one type, from slabs of their own.
 *
 *   slub::cache<session> sessions("session");
 *   session *s = sessions.make(fd);      // allocates and constructs
 *   sessions.destroy(s);                 // destructs and frees
 *   auto owned = sessions.make_unique(fd);
 *
 * Any number of threads may use one cache at the same time.  An object may be
 * destroyed by another thread than the one that made it.
 */
#ifndef SLUB_INCLUDE_CPP_CACHE_HPP
#define SLUB_INCLUDE_CPP_CACHE_HPP

#include <cctype>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include <slub/cache.h>
#include <slub/cpp/error.hpp>
#include <slub/defrag.h>

namespace slub {
namespace detail {

/* Why slub_cache_create_args() refused @args, in words. */
inline std::string why_no_cache(const slub_cache_args &args, int error)
{
	std::string what = "slub::cache '";

	what += args.name ? args.name : "(no name)";
	what += "': ";
	if (error == EEXIST)
		return what + "there is a cache of that name";
	if (error == ENOSPC)
		return what + "too many caches, the areas have no slot left";
	if (error != EINVAL)
		return what + "cannot be made";

	size_t length = args.name ? std::strlen(args.name) : 0;
	bool good = length >= 1 && length <= SLUB_CACHE_NAME_MAX;

	for (size_t i = 0; i < length; i++)
		good = good && std::isgraph(static_cast<unsigned char>(args.name[i]));
	if (!good)
		return what + "a name has 1 to " + std::to_string(SLUB_CACHE_NAME_MAX) +
		       " printable characters and no blanks";
	return what + "a flag, offset or alignment is not allowed (flags " +
	       std::to_string(args.flags) + ", align " + std::to_string(args.align) + ")";
}

/* The memory of an object whose constructor has not come to its end yet. */
class unfinished {
public:
	explicit unfinished(slub_cache *cache, void *memory) noexcept
		: cache_(cache), memory_(memory)
	{
	}
	unfinished(const unfinished &) = delete;
	unfinished &operator=(const unfinished &) = delete;
	~unfinished()
	{
		if (memory_)
			slub_cache_free(cache_, memory_);
	}
	void finished() noexcept
	{
		memory_ = nullptr;
	}

private:
	slub_cache *cache_;
	void *memory_;
};

/* T(args...), or T{args...} for an aggregate, which has no constructor. */
template <class T, class... Args> T *construct(void *memory, Args &&...args)
{
	if constexpr (std::is_constructible_v<T, Args &&...>)
		return ::new (memory) T(std::forward<Args>(args)...);
	else
		return ::new (memory) T{ std::forward<Args>(args)... };
}

} // namespace detail

using cache_stats = struct ::slub_cache_stats;

template <class T> class [[nodiscard]] cache {
	static_assert(std::is_object_v<T> && !std::is_array_v<T>,
		      "slub::cache<T>: T is a type of objects, not an array");
	static_assert(sizeof(T) <= SLUB_CACHE_SIZE_MAX,
		      "slub::cache<T>: T is larger than SLUB_CACHE_SIZE_MAX");
	static_assert(alignof(T) <= 4096,
		      "slub::cache<T>: T asks for an alignment above 4096");

public:
	using value_type = T;

	/* Gives an object back to the cache it came from. */
	class deleter {
	public:
		constexpr deleter() noexcept = default;
		explicit deleter(slub_cache *cache) noexcept : cache_(cache)
		{
		}
		void operator()(T *object) const noexcept
		{
			object->~T();
			slub_cache_free(cache_, object);
		}

	private:
		slub_cache *cache_ = nullptr;
	};
	using unique_ptr = std::unique_ptr<T, deleter>;

	/*
	 * Makes a cache; @flags: enum slub_cache_flag.
	 *
	 * Throws std::bad_alloc, or std::system_error: EINVAL (name or flags),
	 * EEXIST (the name is taken), ENOSPC (too many caches).
	 */
	explicit cache(const char *name, unsigned long flags = 0)
		: handle_(create(arguments(name, flags)))
	{
	}
	explicit cache(const std::string &name, unsigned long flags = 0)
		: cache(name.c_str(), flags)
	{
	}
	/*
	 * The same with all that can be said; a size or alignment of 0 becomes
	 * the type's.  A constructor is refused (EINVAL): make() constructs.
	 */
	explicit cache(slub_cache_args args) : handle_(create(args))
	{
	}

	cache(cache &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
	{
	}
	cache &operator=(cache &&other) noexcept
	{
		if (this != &other) {
			slub_cache_destroy(handle_);
			handle_ = std::exchange(other.handle_, nullptr);
		}
		return *this;
	}
	cache(const cache &) = delete;
	cache &operator=(const cache &) = delete;

	/*
	 * Gives the cache and its memory back.  While objects are left, it
	 * cannot: the cache then stays as it is, for good, so that the objects
	 * remain valid; SLUB_VERBOSE=1 names them.  close() tells you instead.
	 */
	~cache()
	{
		slub_cache_destroy(handle_);
	}

	/*
	 * The same, and says so when it cannot be done: throws
	 * std::system_error (EBUSY: objects are left; EAGAIN; EDEADLK: inside a
	 * read_guard of this thread), with the cache
	 * unchanged and usable.
	 */
	void close()
	{
		int result = slub_cache_destroy(handle_);

		if (result == -EBUSY)
			detail::fail(EBUSY, "slub::cache '" + std::string(name()) +
						    "': objects are still allocated");
		if (result < 0)
			detail::fail(-result, "slub::cache: cannot be closed");
		handle_ = nullptr;
	}

	/*
	 * Allocates an object and constructs it from @args.
	 *
	 * The caller owns it until destroy().  Throws std::bad_alloc, or what
	 * the constructor throws; the memory is back in the cache then.
	 */
	template <class... Args> [[nodiscard]] T *make(Args &&...args)
	{
		void *memory = slub_cache_alloc(handle_);

		if (__builtin_expect(!memory, 0))
			detail::fail_alloc();
		return build(memory, std::forward<Args>(args)...);
	}

	/* The same, but returns nullptr when there is no memory. */
	template <class... Args> [[nodiscard]] T *try_make(Args &&...args)
	{
		void *memory = slub_cache_alloc(handle_);

		return memory ? build(memory, std::forward<Args>(args)...) : nullptr;
	}

	/* The same in a pointer that destroys its object; 16 bytes. */
	template <class... Args> [[nodiscard]] unique_ptr make_unique(Args &&...args)
	{
		return unique_ptr(make(std::forward<Args>(args)...), deleter(handle_));
	}

	/* Destructs @object and frees its memory; nullptr is allowed. */
	void destroy(T *object) noexcept
	{
		static_assert(std::is_nothrow_destructible_v<T>,
			      "slub::cache<T>: the destructor of T may throw");
		if (object) {
			object->~T();
			slub_cache_free(handle_, object);
		}
	}

	/* What slub_cache_shrink() does; true: nothing unused is left. */
	bool shrink() noexcept
	{
		return slub_cache_shrink(handle_) == 0;
	}
	/*
	 * Lets @mover's functions move objects, so that sparse slabs can be
	 * emptied (slub/defrag.h):
	 *
	 *   bool isolate(T *object) noexcept;    may it move?  Then nobody frees it
	 *                                        before migrate() was called.  It
	 *                                        may be free: do not trust it
	 *   bool migrate(T *from, void *to) noexcept;   moved: construct it at @to,
	 *                                        destruct @from, and let all that
	 *                                        pointed to @from point to @to
	 *
	 * @mover must live as long as the cache, or until pin().  Throws
	 * std::system_error: EBUSY (shared with another).
	 */
	template <class Mover> void set_mover(Mover &mover)
	{
		int result = slub_cache_setup_mobility(handle_, isolate<Mover>, migrate<Mover>,
						       &mover);

		if (result < 0)
			detail::fail(-result, "slub::cache: objects of this cache cannot be moved");
	}
	/* Objects stay where they are from now on; waits for a thread that moves some. */
	void pin() noexcept
	{
		slub_cache_setup_mobility(handle_, nullptr, nullptr, nullptr);
	}
	/*
	 * Empties slabs that are filled up to @max_fill percent.  Returns how many
	 * went back, or what slub_cache_defrag() has for an error, negative.
	 */
	long defrag(unsigned int max_fill = 100) noexcept
	{
		return slub_cache_defrag(handle_, max_fill);
	}
	const char *name() const noexcept
	{
		return slub_cache_name(handle_);
	}
	/* Bytes from one object to the next. */
	std::size_t stride() const noexcept
	{
		return slub_cache_stride(handle_);
	}
	cache_stats stats() const noexcept
	{
		cache_stats counts = {};

		slub_cache_stats(handle_, &counts);
		return counts;
	}
	/* For the C functions; the cache still owns it.  nullptr after a move. */
	slub_cache *handle() const noexcept
	{
		return handle_;
	}

private:
	static slub_cache_args arguments(const char *name, unsigned long flags) noexcept
	{
		slub_cache_args args = {};

		args.name = name;
		args.flags = flags;
		return args;
	}

	static slub_cache *create(slub_cache_args args)
	{
		if (args.size == 0)
			args.size = sizeof(T);
		if (args.align == 0)
			args.align = alignof(T);
		if (args.size < sizeof(T) || args.align < alignof(T))
			detail::fail(EINVAL, "slub::cache: size or alignment is "
					     "less than the type's");
		if (args.ctor)
			detail::fail(EINVAL, "slub::cache: has no place for a ctor; "
					     "make() calls the type's constructor");
		/* Its readers may look at an object while make() writes it. */
		if ((args.flags & SLUB_CACHE_TYPESAFE_BY_RCU) &&
		    !std::is_trivially_destructible_v<T>)
			detail::fail(EINVAL, "slub::cache: SLUB_CACHE_TYPESAFE_BY_RCU needs a "
					     "type without destructor");

		slub_cache *handle = slub_cache_create_args(&args);

		if (!handle) {
			int error = errno;
			detail::fail(error, detail::why_no_cache(args, error));
		}
		return handle;
	}

	template <class Mover>
	static void isolate(slub_cache *, void **objects, std::size_t nr, void *mover) noexcept
	{
		for (std::size_t i = 0; i < nr; i++) {
			if (!static_cast<Mover *>(mover)->isolate(static_cast<T *>(objects[i])))
				objects[i] = nullptr;
		}
	}
	template <class Mover>
	static int migrate(slub_cache *, void *from, void *to, void *mover) noexcept
	{
		bool moved = static_cast<Mover *>(mover)->migrate(static_cast<T *>(from), to);

		return moved ? SLUB_MIGRATED : SLUB_MIGRATE_FAILED;
	}

	template <class... Args> T *build(void *memory, Args &&...args)
	{
		detail::unfinished guard(handle_, memory);
		T *object = detail::construct<T>(memory, std::forward<Args>(args)...);

		guard.finished();
		return object;
	}

	slub_cache *handle_;
};

} // namespace slub

#endif
