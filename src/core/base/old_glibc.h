/* SPDX-License-Identifier: MIT */
/*
 * Names of glibc as version 2.28 has them, for a file that is linked on a newer one.
 *
 * glibc 2.34 moved the threads and the loader's functions into libc.so.6 under a new version, and
 * kept the old one for programs of before.  A link takes the new one, and what is linked so does
 * not start on an older system.  OLD_NAME() declares a function of the old version, of those that
 * libc.so.6 had then.  The others are searched for in what is loaded (core/os/loaded.h).
 */
#ifndef SLUB_BASE_OLD_GLIBC_H
#define SLUB_BASE_OLD_GLIBC_H

/* The first version that glibc has for the processor. */
#if defined(__x86_64__)
#define OLD_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLD_VERSION "GLIBC_2.17"
#else
#define OLD_VERSION "GLIBC_2.27"	/* riscv64 */
#endif

#define OLD_NAME(result, name, ...)					\
	__asm__(".symver old_" #name ", " #name "@" OLD_VERSION);	\
	extern result old_##name(__VA_ARGS__)

/* The linker puts it in the place of @name (--wrap). */
#define IN_PLACE_OF(result, name, ...)					\
	extern __attribute__((visibility("hidden")))			\
	result __wrap_##name(__VA_ARGS__);				\
	result __wrap_##name(__VA_ARGS__)

#endif
