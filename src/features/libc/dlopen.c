/* SPDX-License-Identifier: MIT */
/*
 * dlopen() with RTLD_DEEPBIND: a plugin opened so finds the malloc and free of the C library
 * first, while the blocks that the program gives it to free are ours (PHP opens its extensions
 * so).  So the flag is dropped; SLUB_DEEPBIND=keep keeps it, for a program whose plugins bring
 * symbols that the program has too, and which never pass on a block.
 *
 * Only in the shared library: a program that is linked statically has no such plugins.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "core/malloc/malloc.h"

#if (SLUB_CPU_X86_64 || SLUB_CPU_AARCH64) && defined(__GLIBC__)

struct dlopen_call {
	void *next;	/* the function to go on with; NULL: there is none */
	uint64_t flags;
};

/* Another allocator may have been preloaded before us; then its plugins are its own. */
static bool malloc_is_ours(void)
{
	Dl_info used, own;

	return dladdr(dlsym(RTLD_DEFAULT, "malloc"), &used) &&
	       dladdr((void *)malloc_open, &own) && used.dli_fbase == own.dli_fbase;
}

__attribute__((visibility("hidden"), used))
struct dlopen_call slub_dlopen_prepare(int flags);

struct dlopen_call slub_dlopen_prepare(int flags)
{
	struct dlopen_call call = { dlsym(RTLD_NEXT, "dlopen"), (uint32_t)flags };

	if (likely(!(flags & RTLD_DEEPBIND)) ||
	    option_value(OPTION_deepbind) == DEEPBIND_KEEP || !malloc_is_ours())
		return call;
	log_once("dlopen: RTLD_DEEPBIND is dropped, for a plugin would have a malloc of "
		 "its own; SLUB_DEEPBIND=keep keeps it");
	call.flags &= ~(uint64_t)RTLD_DEEPBIND;
	return call;
}

/*
 * The C library takes the caller, whose RUNPATH it searches, from the return address: so
 * this goes on by a jump.
 */
#if SLUB_CPU_X86_64
__asm__(".pushsection .text\n\t"
	".globl dlopen\n\t.type dlopen, @function\n"
	"dlopen:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"			/* it is called by way of a table */
	"pushq %rdi\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"subq $16, %rsp\n\t"
	".cfi_adjust_cfa_offset 16\n\t"
	"movl %esi, %edi\n\t"
	"call slub_dlopen_prepare\n\t"
	"addq $16, %rsp\n\t"
	".cfi_adjust_cfa_offset -16\n\t"
	"popq %rdi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"movl %edx, %esi\n\t"
	"testq %rax, %rax\n\t"
	"jz 1f\n\t"
	"jmp *%rax\n"
	"1:\tret\n\t"
	".cfi_endproc\n\t"
	".size dlopen, .-dlopen\n\t"
	".popsection");
#else
__asm__(".pushsection .text\n\t"
	".globl dlopen\n\t.type dlopen, @function\n"
	"dlopen:\n\t"
	".cfi_startproc\n\t"
	"hint #34\n\t"			/* bti c */
	"stp x0, x30, [sp, #-16]!\n\t"
	".cfi_adjust_cfa_offset 16\n\t"
	".cfi_rel_offset 30, 8\n\t"
	"mov w0, w1\n\t"
	"bl slub_dlopen_prepare\n\t"
	"mov x16, x0\n\t"
	"ldp x0, x30, [sp], #16\n\t"
	".cfi_restore 30\n\t"
	".cfi_adjust_cfa_offset -16\n\t"
	"cbz x16, 1f\n\t"
	"br x16\n"
	"1:\tmov x0, #0\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size dlopen, .-dlopen\n\t"
	".popsection");
#endif

#endif
