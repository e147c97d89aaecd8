/* SPDX-License-Identifier: MIT */
/*
 * A library to be preloaded that replaces functions of the C library by ones that allocate, as
 * tools do that look for the real one at their first call.  If such a call comes from an allocation
 * in such a call, it has been made by the allocator; at the end the file that ALLOCATING_LOG names
 * gets the name of each function, and how often that was so.
 *
 * pthread_setspecific() and getauxval() are called by the allocator (foreign.py says why), and not
 * counted: they have to do no harm.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FUNCTIONS(use)							\
	use(clock_gettime) use(sched_getcpu) use(getcpu) use(memcpy) use(memset)	\
	use(memmove) use(memcmp) use(memchr) use(strlen) use(strnlen) use(strcmp)	\
	use(strncmp) use(strchr) use(strrchr) use(strstr) use(strcspn) use(strpbrk)	\
	use(getauxval) use(pthread_setspecific)

enum function {
#define NUMBER(name) NR_##name,
	FUNCTIONS(NUMBER)
	NR
};

static const char *const names[] = {
#define NAME(name) #name,
	FUNCTIONS(NAME)
};

static unsigned int recursions[NR];
/* volatile: to the compiler malloc() is a leaf, which comes back to no function here. */
static __thread volatile int inside[NR] __attribute__((tls_model("initial-exec")));

static void allocate(enum function f)
{
	if (inside[f]) {
		__atomic_fetch_add(&recursions[f], 1, __ATOMIC_RELAXED);
		return;
	}
	inside[f] = 1;
	/* Of many sizes, so that lists are empty, and the heap grows. */
	for (size_t bytes = 1; bytes < 6000; bytes += 300) {
		volatile char *block = malloc(bytes);

		if (block)
			block[0] = 1;
		free((void *)block);
	}
	inside[f] = 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	allocate(NR_clock_gettime);
	return (int)syscall(SYS_clock_gettime, clock, now);
}

int sched_getcpu(void)
{
	unsigned int cpu = 0;

	allocate(NR_sched_getcpu);
	syscall(SYS_getcpu, &cpu, NULL, NULL);
	return (int)cpu;
}

int getcpu(unsigned int *cpu, unsigned int *node)
{
	allocate(NR_getcpu);
	return (int)syscall(SYS_getcpu, cpu, node, NULL);
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	allocate(NR_memcpy);
	for (size_t i = 0; i < n; i++)
		((char *)to)[i] = ((const char *)from)[i];
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	allocate(NR_memset);
	for (size_t i = 0; i < n; i++)
		((char *)to)[i] = (char)byte;
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	allocate(NR_memmove);
	if ((uintptr_t)t - (uintptr_t)f >= n) {
		for (size_t i = 0; i < n; i++)
			t[i] = f[i];
	} else {
		while (n--)
			t[n] = f[n];
	}
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	allocate(NR_memcmp);
	for (size_t i = 0; i < n; i++) {
		if (x[i] != y[i])
			return x[i] - y[i];
	}
	return 0;
}

void *memchr(const void *start, int byte, size_t n)
{
	const unsigned char *at = start;

	allocate(NR_memchr);
	for (; n; at++, n--) {
		if (*at == (unsigned char)byte)
			return (void *)at;
	}
	return NULL;
}

static size_t length(const char *text, size_t most)
{
	size_t n = 0;

	while (n < most && text[n])
		n++;
	return n;
}

static int compare(const char *a, const char *b, size_t n)
{
	for (; n; a++, b++, n--) {
		if (*a != *b || !*a)
			return (unsigned char)*a - (unsigned char)*b;
	}
	return 0;
}

static char *find(const char *text, char letter, int is_last)
{
	const char *found = NULL;

	for (;; text++) {
		if (*text == letter && (is_last || !found))
			found = text;
		if (!*text)
			return (char *)found;
	}
}

size_t strlen(const char *text)
{
	allocate(NR_strlen);
	return length(text, SIZE_MAX);
}

size_t strnlen(const char *text, size_t most)
{
	allocate(NR_strnlen);
	return length(text, most);
}

int strcmp(const char *a, const char *b)
{
	allocate(NR_strcmp);
	return compare(a, b, SIZE_MAX);
}

int strncmp(const char *a, const char *b, size_t n)
{
	allocate(NR_strncmp);
	return compare(a, b, n);
}

char *strchr(const char *text, int letter)
{
	allocate(NR_strchr);
	return find(text, (char)letter, 0);
}

char *strrchr(const char *text, int letter)
{
	allocate(NR_strrchr);
	return find(text, (char)letter, 1);
}

char *strstr(const char *text, const char *part)
{
	size_t n = length(part, SIZE_MAX);

	allocate(NR_strstr);
	for (; compare(text, part, n); text++) {
		if (!*text)
			return NULL;
	}
	return (char *)text;
}

size_t strcspn(const char *text, const char *letters)
{
	size_t n = 0;

	allocate(NR_strcspn);
	while (text[n] && !find(letters, text[n], 0))
		n++;
	return n;
}

char *strpbrk(const char *text, const char *letters)
{
	allocate(NR_strpbrk);
	for (; *text; text++) {
		if (find(letters, *text, 0))
			return (char *)text;
	}
	return NULL;
}

unsigned long __getauxval(unsigned long type);

unsigned long getauxval(unsigned long type)
{
	allocate(NR_getauxval);
	return __getauxval(type);
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
	static int (*real)(pthread_key_t key, const void *value);

	allocate(NR_pthread_setspecific);
	if (!real)
		real = (int (*)(pthread_key_t, const void *))
			dlsym(RTLD_NEXT, "pthread_setspecific");
	return real(key, value);
}

__attribute__((destructor))
static void finish(void)
{
	const char *path = getenv("ALLOCATING_LOG");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;

	for (int f = 0; fd >= 0 && f < NR; f++) {
		if (recursions[f] && f != NR_getauxval && f != NR_pthread_setspecific)
			dprintf(fd, "%s: %u\n", names[f], recursions[f]);
	}
}
