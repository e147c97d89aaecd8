/* SPDX-License-Identifier: MIT */
/*
 * vfork(): the child shares its parent's thread-local storage, but not its registration with
 * the kernel.  No sequence may run in it, so the thread is put on the dummy table first, and
 * the fast paths of malloc and free are closed.  The parent sleeps meanwhile, gets its table
 * back when it wakes up, and the fast paths in its next slow call.  (clone():
 * features/libc/clone.c; docs/internals/locking.md has all the ways to make a child.)
 */
#include <errno.h>

#include "core/percpu/percpu.h"

#include "core/percpu/percpu_internal.h"

__attribute__((used)) void percpu_share(uintptr_t saved[2])
{
	saved[1] = slub_thread.flags;
	if (percpu_backend == BACKEND_RSEQ)
		slub_thread.flags |= THREAD_CHECKED;
	compiler_barrier();
	saved[0] = (uintptr_t)slub_thread.self.base;
	if (percpu_backend != BACKEND_RSEQ)
		return;
	/* A signal handler that comes in between gets no table, for the flag is set. */
	percpu_leave();
}

void percpu_unshare(const uintptr_t saved[2])
{
	slub_thread.self.base = (void **)saved[0];
	slub_thread.flags = (uint16_t)saved[1];
}

/* The end of the assembly below, in the parent. */
__attribute__((visibility("hidden"), used))
long slub_vfork_leave(long ret, uintptr_t table, uintptr_t flags)
{
	percpu_unshare((uintptr_t[2]){ table, flags });
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

/*
 * The child runs on the parent's stack and returns from here first; it may
 * overwrite everything above the stack pointer, so what the parent needs
 * afterwards stays in registers: the return address, and what
 * percpu_share() saved.
 */
#if SLUB_CPU_X86_64
__asm__(".pushsection .text\n\t"
	".globl vfork\n\t.type vfork, @function\n"
	".globl __vfork\n\t.type __vfork, @function\n"
	"vfork:\n__vfork:\n\t"
	"endbr64\n\t"			/* it is called by way of a table */
	"subq $24, %rsp\n\t"
	"movq %rsp, %rdi\n\t"
	"call percpu_share\n\t"
	"movq (%rsp), %r8\n\t"		/* table */
	"movq 8(%rsp), %r9\n\t"		/* flags */
	"addq $24, %rsp\n\t"
	"popq %r10\n\t"			/* return address */
	"movl $58, %eax\n\t"		/* SYS_vfork */
	"syscall\n\t"
	"pushq %r10\n\t"
	"testq %rax, %rax\n\t"
	"jz 1f\n\t"			/* the child */
	"movq %rax, %rdi\n\t"
	"movq %r8, %rsi\n\t"
	"movq %r9, %rdx\n\t"
	"jmp slub_vfork_leave\n"
	/*
	 * The child.  Its shadow stack, where there is one, is the parent's: what it called
	 * would overwrite the entry that it has popped.  So it goes back by a jump.
	 */
	"1:\txorl %ecx, %ecx\n\t"
	"rdsspq %rcx\n\t"		/* leaves it where there is none */
	"testq %rcx, %rcx\n\t"
	"jz 2f\n\t"
	"popq %rdi\n\t"
	"jmp *%rdi\n"
	"2:\tret\n\t"
	".size vfork, .-vfork\n\t"
	".popsection");
#elif SLUB_CPU_AARCH64
/* The return address is in a register anyway, x30; clone(CLONE_VFORK | CLONE_VM | SIGCHLD). */
__asm__(".pushsection .text\n\t"
	".globl vfork\n\t.type vfork, @function\n"
	".globl __vfork\n\t.type __vfork, @function\n"
	"vfork:\n__vfork:\n\t"
	".cfi_startproc\n\t"
	"hint #34\n\t"			/* bti c: it is called by way of a table */
	"sub sp, sp, #32\n\t"
	".cfi_adjust_cfa_offset 32\n\t"
	"str x30, [sp, #16]\n\t"
	".cfi_rel_offset 30, 16\n\t"
	"mov x0, sp\n\t"
	"bl percpu_share\n\t"
	"ldp x9, x10, [sp]\n\t"		/* table, flags */
	"ldr x30, [sp, #16]\n\t"
	".cfi_restore 30\n\t"
	"add sp, sp, #32\n\t"
	".cfi_adjust_cfa_offset -32\n\t"
	"mov x0, #0x4111\n\t"
	"mov x1, #0\n\t"
	"mov x8, #220\n\t"			/* SYS_clone */
	"svc #0\n\t"
	"cbz x0, 1f\n\t"			/* the child */
	"mov x1, x9\n\t"
	"mov x2, x10\n\t"
	"b slub_vfork_leave\n"
	"1:\tret\n\t"
	".cfi_endproc\n\t"
	".size vfork, .-vfork\n\t"
	".popsection");
#endif
