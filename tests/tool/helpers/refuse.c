/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the command: of what it asks the C library for itself, the request REFUSE_AT,
 * counted from 1, finds no memory.  Those behind it do.  At the exit the descriptor REFUSE_TOLD
 * has a byte if there were fewer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t nr, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

static uintptr_t start, end;	/* of the program's code */
static long refused_at, nr_asked;

static int find_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
			start = info->dlpi_addr + part->p_vaddr;
			end = start + part->p_memsz;
		}
	}
	return 1;
}

__attribute__((constructor)) static void begin(void)
{
	dl_iterate_phdr(find_program, NULL);
	refused_at = atol(getenv("REFUSE_AT"));
}

__attribute__((destructor)) static void over(void)
{
	if (nr_asked < refused_at)
		(void)!write(atoi(getenv("REFUSE_TOLD")), "", 1);
}

static int is_refused(const void *caller)
{
	if ((uintptr_t)caller - start >= end - start || ++nr_asked != refused_at)
		return 0;
	errno = ENOMEM;
	return 1;
}

#define IS_REFUSED() is_refused(__builtin_return_address(0))
#define OF_LIBC(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *malloc(size_t bytes)
{
	return IS_REFUSED() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t nr, size_t bytes)
{
	return IS_REFUSED() ? NULL : __libc_calloc(nr, bytes);
}

void *realloc(void *old, size_t bytes)
{
	return IS_REFUSED() ? NULL : __libc_realloc(old, bytes);
}

void *reallocarray(void *old, size_t nr, size_t bytes)
{
	return IS_REFUSED() ? NULL : __libc_realloc(old, nr * bytes);
}

char *strdup(const char *text)
{
	return IS_REFUSED() ? NULL : OF_LIBC(strdup)(text);
}

char *strndup(const char *text, size_t length)
{
	return IS_REFUSED() ? NULL : OF_LIBC(strndup)(text, length);
}

int vasprintf(char **text, const char *format, va_list args)
{
	return IS_REFUSED() ? -1 : OF_LIBC(vasprintf)(text, format, args);
}

FILE *open_memstream(char **text, size_t *length)
{
	return IS_REFUSED() ? NULL : OF_LIBC(open_memstream)(text, length);
}

FILE *fdopen(int fd, const char *mode)
{
	return IS_REFUSED() ? NULL : OF_LIBC(fdopen)(fd, mode);
}

ssize_t getline(char **line, size_t *size, FILE *file)
{
	return IS_REFUSED() ? -1 : OF_LIBC(getline)(line, size, file);
}
