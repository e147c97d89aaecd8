/* SPDX-License-Identifier: MIT */
/* The kernel's names of sizes that do not wrap around; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_SIZE_H
#define SLUB_INCLUDE_KERNEL_SIZE_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* true: the result does not fit into *@to, which has its lower bits. */
#define check_add_overflow(a, b, to) __builtin_add_overflow(a, b, to)
#define check_sub_overflow(a, b, to) __builtin_sub_overflow(a, b, to)
#define check_mul_overflow(a, b, to) __builtin_mul_overflow(a, b, to)

/* SIZE_MAX, which nothing can allocate, in place of a result that is too large. */
static inline size_t size_mul(size_t a, size_t b)
{
	size_t bytes;

	return check_mul_overflow(a, b, &bytes) ? SIZE_MAX : bytes;
}

static inline size_t size_add(size_t a, size_t b)
{
	size_t bytes;

	return check_add_overflow(a, b, &bytes) ? SIZE_MAX : bytes;
}

/* The same of a difference: what was SIZE_MAX already stays so. */
static inline size_t size_sub(size_t a, size_t b)
{
	size_t bytes;

	if (a == SIZE_MAX || b == SIZE_MAX || check_sub_overflow(a, b, &bytes))
		return SIZE_MAX;
	return bytes;
}

#define array_size(nr, size) size_mul(nr, size)
#define array3_size(nr, size, size2) size_mul(size_mul(nr, size), size2)
/* The bytes of @nr elements of the array at the end of *@p, and of both together. */
#define flex_array_size(p, member, nr)					\
	size_mul(nr, sizeof(*(p)->member))
#define struct_size(p, member, nr)					\
	size_add(sizeof(*(p)), flex_array_size(p, member, nr))
#define struct_size_t(type, member, nr)					\
	struct_size((type *)NULL, member, nr)

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
