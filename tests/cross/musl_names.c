/* SPDX-License-Identifier: MIT */
/* What glibc's headers and libstdc++.a refer to, and musl 1.2.3 does not have: see musl-g++. */
#define _GNU_SOURCE
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

char __libc_single_threaded;	/* nobody knows: atomic operations are used */

/* Where the unwind table of an address lies: glibc's structure, as far as libgcc reads it. */
struct found {
	unsigned long long flags;
	void *start, *end, *link_map, *eh_frame;
};

struct search {
	uintptr_t address;
	struct found *found;
};

static int look(struct dl_phdr_info *object, size_t size, void *arg)
{
	struct search *search = arg;
	const ElfW(Phdr) *table = NULL;
	int is_it = 0;

	(void)size;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_GNU_EH_FRAME)
			table = part;
		if (part->p_type != PT_LOAD || search->address - start >= part->p_memsz)
			continue;
		is_it = 1;
		search->found->start = (void *)start;
		search->found->end = (void *)(start + part->p_memsz);
	}
	if (!is_it || !table)
		return is_it;
	search->found->eh_frame = (void *)(object->dlpi_addr + table->p_vaddr);
	return 1;
}

int _dl_find_object(void *address, void *found)
{
	struct search search = { (uintptr_t)address, found };

	search.found->flags = 0;
	search.found->link_map = search.found->eh_frame = NULL;
	dl_iterate_phdr(look, &search);
	return search.found->eh_frame ? 0 : -1;
}

/*
 * libstdc++ finds the tables of characters in glibc's structure.  musl looks at the first words of
 * its own, and where these are NULL it is in locale "C".
 */
const unsigned short **__ctype_b_loc(void);
const int **__ctype_tolower_loc(void);
const int **__ctype_toupper_loc(void);

locale_t __newlocale(int mask, const char *name, locale_t base)
{
	static struct {
		void *parts[13];
		const unsigned short *classes;
		const int *lower, *upper;
		const char *names[13];
	} c_locale;

	(void)mask;
	(void)name;
	(void)base;
	c_locale.classes = *__ctype_b_loc();
	c_locale.lower = *__ctype_tolower_loc();
	c_locale.upper = *__ctype_toupper_loc();
	for (int i = 0; i < 13; i++)
		c_locale.names[i] = "C";
	return (locale_t)&c_locale;
}

locale_t __duplocale(locale_t locale)
{
	return locale;
}

void __freelocale(locale_t locale)
{
	(void)locale;
}

/* What a thread's own C++ objects are ended by; the first thread's are not. */
struct ending {
	void (*call)(void *object);
	void *object;
	struct ending *before;
};

static _Thread_local struct ending *last_ending;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void end_all(void *unused)
{
	(void)unused;
	while (last_ending) {
		struct ending *one = last_ending;

		last_ending = one->before;
		one->call(one->object);
		free(one);
	}
}

static void make_key(void)
{
	pthread_key_create(&key, end_all);
}

int __cxa_thread_atexit_impl(void (*call)(void *object), void *object, void *dso)
{
	struct ending *one = malloc(sizeof(*one));

	(void)dso;
	if (!one)
		return -1;
	*one = (struct ending){ call, object, last_ending };
	last_ending = one;
	pthread_once(&once, make_key);
	return pthread_setspecific(key, one);
}

uint32_t arc4random(void)
{
	uint32_t value = 0;

	getentropy(&value, sizeof(value));
	return value;
}

size_t __strftime_l(char *text, size_t size, const char *format, const struct tm *time,
		    locale_t locale)
{
	return strftime_l(text, size, format, time, locale);
}

int __vfprintf_chk(FILE *file, int flag, const char *format, va_list args)
{
	(void)flag;
	return vfprintf(file, format, args);
}

#define PRINTS(call)				\
	va_list args;				\
	int ret;				\
						\
	(void)flag;				\
	va_start(args, format);			\
	ret = call;				\
	va_end(args);				\
	return ret

int __fprintf_chk(FILE *file, int flag, const char *format, ...)
{
	PRINTS(vfprintf(file, format, args));
}

int __printf_chk(int flag, const char *format, ...)
{
	PRINTS(vprintf(format, args));
}

int __snprintf_chk(char *text, size_t size, int flag, size_t room, const char *format, ...)
{
	(void)room;
	PRINTS(vsnprintf(text, size, format, args));
}
