/* SPDX-License-Identifier: MIT */
/* The kernel's names of copies and texts in memory of their own; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_STRING_H
#define SLUB_INCLUDE_KERNEL_STRING_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

static inline void *kmemdup(const void *from, size_t bytes, gfp_t gfp)
{
	void *p = kmalloc(bytes, gfp);

	if (p)
		memcpy(p, from, bytes);
	return p;
}

#define kvmemdup kmemdup

/* @bytes of @from, and a 0 behind them. */
static inline char *kmemdup_nul(const char *from, size_t bytes, gfp_t gfp)
{
	char *p = from ? (char *)kmalloc(size_add(bytes, 1), gfp) : NULL;

	if (p) {
		memcpy(p, from, bytes);
		p[bytes] = 0;
	}
	return p;
}

static inline char *kstrdup(const char *s, gfp_t gfp)
{
	return s ? (char *)kmemdup(s, strlen(s) + 1, gfp) : NULL;
}

static inline char *kstrndup(const char *s, size_t bytes_max, gfp_t gfp)
{
	const char *end = s ? (const char *)memchr(s, 0, bytes_max) : NULL;

	return kmemdup_nul(s, end ? (size_t)(end - s) : bytes_max, gfp);
}

__attribute__((__format__(__printf__, 2, 0)))
static inline char *kvasprintf(gfp_t gfp, const char *format, va_list words)
{
	va_list again;
	char *p = NULL;
	int length;

	va_copy(again, words);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (length >= 0)
		p = (char *)kmalloc((size_t)length + 1, gfp);
	if (p)
		vsnprintf(p, (size_t)length + 1, format, words);
	return p;
}

__attribute__((__format__(__printf__, 2, 3)))
static inline char *kasprintf(gfp_t gfp, const char *format, ...)
{
	va_list words;
	char *p;

	va_start(words, format);
	p = kvasprintf(gfp, format, words);
	va_end(words);
	return p;
}

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
