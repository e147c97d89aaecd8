/* SPDX-License-Identifier: MIT */
/*
 * What the other headers ask of the compiler.  A program includes them, not this one.
 */
#ifndef SLUB_INCLUDE_COMPILER_H
#define SLUB_INCLUDE_COMPILER_H

/* Marks what the library exports. */
#define SLUB_API __attribute__((__visibility__("default")))

/* A function that the headers alone have: inline even where the compiler does not optimize. */
#define SLUB_INLINE static inline __attribute__((__always_inline__, __unused__))

/*
 * SLUB_SIZE, SLUB_INT - a number as a size_t or an int.
 *
 * For the macros of the headers: a C++ program may be compiled with -Wold-style-cast.
 * Context: an expression, constant if @number is.
 */
#ifdef __cplusplus
#define SLUB_SIZE(number) (static_cast<size_t>(number))
#define SLUB_INT(number) (static_cast<int>(number))
#else
#define SLUB_SIZE(number) ((size_t)(number))
#define SLUB_INT(number) ((int)(number))
#endif

/*
 * Around what is C in a C++ program: C casts, and functions that share a name with a structure
 * (slub_cache_stats), which -Wshadow takes for hidden constructors.
 */
#define SLUB_C_BEGIN							\
	_Pragma("GCC diagnostic push")					\
	_Pragma("GCC diagnostic ignored \"-Wold-style-cast\"")		\
	_Pragma("GCC diagnostic ignored \"-Wshadow\"")
#define SLUB_C_END _Pragma("GCC diagnostic pop")

/*
 * An exported function NAME may have an inline form, NAME_fast(): then a macro NAME() calls
 * that.  The address of NAME, and a call as (NAME)(...), is the function in the library.
 */

/* An exception must not leave a callback; C++17 checks the declaration. */
#if defined(__cplusplus) && __cplusplus >= 201703L
#define SLUB_NOEXCEPT noexcept
#else
#define SLUB_NOEXCEPT
#endif

/* ThreadSanitizer does not see assembler text. */
#if defined(__SANITIZE_THREAD__)
#define SLUB_NO_INLINE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLUB_NO_INLINE 1
#endif
#endif

/* Sequences are asm goto with outputs, which gcc and clang have from version 11 on. */
#if !defined(SLUB_NO_INLINE) &&						\
	((defined(__clang__) && __clang_major__ < 11) ||		\
	 (!defined(__clang__) && defined(__GNUC__) && __GNUC__ < 11))
#define SLUB_NO_INLINE 1
#endif

#endif
