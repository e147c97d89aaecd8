/* SPDX-License-Identifier: MIT */
/*
 * The C library's functions over bytes and strings that this library calls, as its own.
 *
 * A sanitizer's runtime or another preloaded library may have replaced the C library's: by ones
 * that have not started when the first malloc() comes, that allocate, or that look at an access of
 * the allocator as if it were the program's.  The names are the usual ones, for compilers call them
 * by themselves, too; but they are hidden, so the linker binds to them what lies in this library
 * and nothing else (libslub.a: objcopy --localize-hidden).  Built without what would make a loop
 * here into a call of the function that it stands in (cmake/library.cmake).
 *
 * From REP_BYTES on the processor's own string instructions do what glibc's do (Zen 4: within 3 %
 * from 2 KiB to 8 MiB); below, vectors of 32 bytes where there are any.
 */
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/sanitizer.h"

/* An instrumented build has the runtime's, which see what the library does. */
#if !SLUB_INSTRUMENTED

#define OWN SLUB_INTERNAL __attribute__((__used__))

typedef uint8_t v16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t v32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t u64 __attribute__((aligned(1), may_alias));
typedef uint32_t u32 __attribute__((aligned(1), may_alias));

#define AT(type, start, offset) (*(type *)((char *)(start) + (offset)))

#define REP_BYTES 2048
#define WIDE_BYTES 128

#if SLUB_CPU_X86_64
#include <cpuid.h>

#define WIDE __attribute__((target("avx2")))
static bool has_wide;		/* const after start */

/* The processor has them, and the kernel keeps their upper halves. */
void bytes_init(void)
{
	const unsigned int kept = bit_OSXSAVE | bit_AVX;
	unsigned int a, b, c, d, state;

	if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kept) != kept)
		return;
	__asm__("xgetbv" : "=a"(state), "=d"(d) : "c"(0));
	has_wide = (state & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
		   b & bit_AVX2;
}

static inline void *rep_fill(void *to, int byte, size_t n)
{
	void *at = to;

	__asm__ __volatile__("rep stosb" : "+D"(at), "+c"(n) : "a"(byte) : "memory");
	return to;
}

static inline void *rep_copy(void *to, const void *from, size_t n)
{
	void *at = to;

	__asm__ __volatile__("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
	return to;
}
#else
#define WIDE
#define has_wide false
#define rep_fill(to, byte, n) fill_long(to, byte, n)
#define rep_copy(to, from, n) copy_long(to, from, n)

void bytes_init(void)
{
}
#endif

/* ---- fill ---- */

static inline void fill_short(char *to, uint64_t word, size_t n)
{
	char *end = to + n;

	if (n >= 8) {
		AT(u64, to, 0) = word;
		AT(u64, end, -8) = word;
	} else if (n >= 4) {
		AT(u32, to, 0) = (uint32_t)word;
		AT(u32, end, -4) = (uint32_t)word;
	} else if (n) {
		to[0] = to[n / 2] = end[-1] = (char)word;
	}
}

/* Vectors of either length, for n from one of them on; what is at the end overlaps. */
#define FILL_LOOP(type, to, all, n)					\
	do {								\
		char *fill_at_ = (to), *fill_end_ = (to) + (n);		\
		const long fill_step_ = sizeof(type);			\
									\
		for (; fill_end_ - fill_at_ > 4 * fill_step_; fill_at_ += 4 * fill_step_) { \
			AT(type, fill_at_, 0) = (all);			\
			AT(type, fill_at_, fill_step_) = (all);		\
			AT(type, fill_at_, 2 * fill_step_) = (all);	\
			AT(type, fill_at_, 3 * fill_step_) = (all);	\
		}							\
		for (; fill_end_ - fill_at_ > fill_step_; fill_at_ += fill_step_)	\
			AT(type, fill_at_, 0) = (all);			\
		AT(type, fill_end_, -fill_step_) = (all);		\
	} while (0)

/* They return @to, as what jumps to them does. */
static always_inline void *fill_long(char *to, int byte, size_t n)
{
	const v16 all = (v16){ 0 } + (uint8_t)byte;

	FILL_LOOP(v16, to, all, n);
	return to;
}

WIDE static __attribute__((__noinline__)) void *fill_wide(char *to, int byte, size_t n)
{
	const v32 all = (v32){ 0 } + (uint8_t)byte;

	FILL_LOOP(v32, to, all, n);
	return to;
}

OWN void *memset(void *to, int byte, size_t n)
{
	if (n < 16) {
		fill_short(to, 0x0101010101010101u * (uint8_t)byte, n);
		return to;
	}
	if (n >= REP_BYTES)
		return rep_fill(to, byte, n);
	return has_wide && n >= WIDE_BYTES ? fill_wide(to, byte, n) : fill_long(to, byte, n);
}

/* ---- copy ---- */

/* All is read before anything is written, so the two may overlap. */
static inline void copy_short(char *to, const char *from, size_t n)
{
	if (n >= 16) {
		v16 first = AT(const v16, from, 0);
		v16 last = AT(const v16, from, n - 16);

		AT(v16, to, 0) = first;
		AT(v16, to, n - 16) = last;
	} else if (n >= 8) {
		uint64_t first = AT(const u64, from, 0);
		uint64_t last = AT(const u64, from, n - 8);

		AT(u64, to, 0) = first;
		AT(u64, to, n - 8) = last;
	} else if (n >= 4) {
		uint32_t first = AT(const u32, from, 0);
		uint32_t last = AT(const u32, from, n - 4);

		AT(u32, to, 0) = first;
		AT(u32, to, n - 4) = last;
	} else if (n) {
		char first = from[0], middle = from[n / 2], last = from[n - 1];

		to[0] = first;
		to[n / 2] = middle;
		to[n - 1] = last;
	}
}

/* From the start on; n is one vector at least.  The last is read before anything is written. */
#define COPY_LOOP(type, to, from, n)					\
	do {								\
		char *copy_to_ = (to), *copy_end_ = (to) + (n);		\
		const char *copy_from_ = (from);			\
		const long copy_step_ = sizeof(type);			\
		type copy_last_ = AT(const type, (from) + (n), -copy_step_);	\
									\
		for (; copy_end_ - copy_to_ > 4 * copy_step_; copy_to_ += 4 * copy_step_) { \
			type a_ = AT(const type, copy_from_, 0);	\
			type b_ = AT(const type, copy_from_, copy_step_);	\
			type c_ = AT(const type, copy_from_, 2 * copy_step_);	\
			type d_ = AT(const type, copy_from_, 3 * copy_step_);	\
									\
			AT(type, copy_to_, 0) = a_;			\
			AT(type, copy_to_, copy_step_) = b_;		\
			AT(type, copy_to_, 2 * copy_step_) = c_;	\
			AT(type, copy_to_, 3 * copy_step_) = d_;	\
			copy_from_ += 4 * copy_step_;			\
		}							\
		for (; copy_end_ - copy_to_ > copy_step_; copy_to_ += copy_step_) {	\
			AT(type, copy_to_, 0) = AT(const type, copy_from_, 0);	\
			copy_from_ += copy_step_;			\
		}							\
		AT(type, copy_end_, -copy_step_) = copy_last_;		\
	} while (0)

static always_inline void *copy_long(char *to, const char *from, size_t n)
{
	COPY_LOOP(v16, to, from, n);
	return to;
}

WIDE static __attribute__((__noinline__)) void *copy_wide(char *to, const char *from, size_t n)
{
	COPY_LOOP(v32, to, from, n);
	return to;
}

OWN void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	if (n < 32) {
		copy_short(to, from, n);
		return to;
	}
	if (n >= REP_BYTES)
		return rep_copy(to, from, n);
	return has_wide && n >= WIDE_BYTES ? copy_wide(to, from, n) : copy_long(to, from, n);
}

/* Texts only: no need to be quick. */
OWN cold void *memmove(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	if ((uintptr_t)t - (uintptr_t)f >= n) {
		for (size_t i = 0; i < n; i++)
			t[i] = f[i];
	} else {
		while (n--)
			t[n] = f[n];
	}
	return to;
}

/* ---- look ---- */

OWN int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	for (size_t i = 0; i < n; i++) {
		if (x[i] != y[i])
			return x[i] - y[i];
	}
	return 0;
}

OWN cold void *memchr(const void *start, int byte, size_t n)
{
	const unsigned char *at = start;

	for (; n; at++, n--) {
		if (*at == (unsigned char)byte)
			return (void *)at;
	}
	return NULL;
}

OWN size_t strnlen(const char *text, size_t most)
{
	size_t n = 0;

	while (n < most && text[n])
		n++;
	return n;
}

OWN size_t strlen(const char *text)
{
	return strnlen(text, SIZE_MAX);
}

OWN int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; a++, b++, n--) {
		if (*a != *b || !*a)
			return (unsigned char)*a - (unsigned char)*b;
	}
	return 0;
}

OWN int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}

OWN char *strchr(const char *text, int letter)
{
	for (; *text != (char)letter; text++) {
		if (!*text)
			return NULL;
	}
	return (char *)text;
}

OWN cold char *strrchr(const char *text, int letter)
{
	const char *found = NULL;

	for (;; text++) {
		if (*text == (char)letter)
			found = text;
		if (!*text)
			return (char *)found;
	}
}

OWN cold size_t strcspn(const char *text, const char *letters)
{
	size_t n = 0;

	while (text[n] && !strchr(letters, text[n]))
		n++;
	return n;
}

OWN cold char *strpbrk(const char *text, const char *letters)
{
	text += strcspn(text, letters);
	return *text ? (char *)text : NULL;
}

OWN cold char *strstr(const char *text, const char *part)
{
	size_t n = strlen(part);

	for (; strncmp(text, part, n); text++) {
		if (!*text)
			return NULL;
	}
	return (char *)text;
}

#else

void bytes_init(void)
{
}

#endif
