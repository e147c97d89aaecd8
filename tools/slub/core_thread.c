/* SPDX-License-Identifier: MIT */
#include "core_thread.h"
#include "core.h"

#include <string.h>
#include <sys/procfs.h>
#include <sys/user.h>

#if defined(__x86_64__)

static void take(struct core_thread *thread, const struct user_regs_struct *from)
{
	const uint64_t registers[] = {
		from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi, from->rbp,
		from->rsp, from->r8, from->r9, from->r10, from->r11, from->r12, from->r13,
		from->r14, from->r15,
	};

	memcpy(thread->registers, registers, sizeof(registers));
	thread->known = 0xffff;
	thread->pc = from->rip;
}

#elif defined(__aarch64__)

static void take(struct core_thread *thread, const struct user_regs_struct *from)
{
	memcpy(thread->registers, from->regs, sizeof(from->regs));
	thread->registers[CORE_STACK_POINTER] = from->sp;
	thread->known = UINT32_MAX;
	thread->pc = from->pc;
}

#endif

void core_thread_read(struct core_thread *thread, const char *note, size_t bytes)
{
#ifdef CORE_STACK_POINTER
	struct user_regs_struct registers;
	struct elf_prstatus status;

	if (thread->id || bytes < sizeof(status))
		return;
	memcpy(&status, note, sizeof(status));
	_Static_assert(sizeof(registers) <= sizeof(status.pr_reg), "the same registers");
	memcpy(&registers, &status.pr_reg, sizeof(registers));
	thread->id = status.pr_pid;
	thread->sp = CORE_STACK_POINTER;
	take(thread, &registers);
#else
	(void)thread, (void)note, (void)bytes;
#endif
}
