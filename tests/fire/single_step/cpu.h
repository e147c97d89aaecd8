/* SPDX-License-Identifier: MIT */
/* What single_step has to know of the CPU: its registers and its breakpoints. */
#ifndef SLUB_TESTS_FIRE_STEP_CPU_H
#define SLUB_TESTS_FIRE_STEP_CPU_H

#include "fire.h"

#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

/* Ends a round of the tracee. */
#if defined(__x86_64__)
#define STEP_TRAP "int3"
#else
#define STEP_TRAP "brk #1"
#endif

#if defined(__x86_64__)

/* The thread is behind the trap, and goes on there. */
#define CPU_TRAP_BYTES 1
#define CPU_TRAP 0xccl
#define CPU_TRAP_MASK 0xffl
#define CPU_ROUND_BYTES 0

#define CPU_RESUME_FLAG (1ul << 16)
#define CPU_DEBUG_REGISTER(n) (offsetof(struct user, u_debugreg) + (n) * 8)

static inline long cpu_registers_read(pid_t pid, struct user_regs_struct *to)
{
	return ptrace(PTRACE_GETREGS, pid, 0, to);
}

static inline long cpu_registers_write(pid_t pid, struct user_regs_struct *from)
{
	/* Else the next instruction would pass a debug register unseen. */
	from->eflags &= ~CPU_RESUME_FLAG;
	return ptrace(PTRACE_SETREGS, pid, 0, from);
}

#define cpu_place(registers) ((registers)->rip)

/* A debug register that stops at @address; 0: at none. */
static inline long cpu_watch(pid_t pid, uint64_t address)
{
	if (address && ptrace(PTRACE_POKEUSER, pid, CPU_DEBUG_REGISTER(0), address))
		return -1;
	return ptrace(PTRACE_POKEUSER, pid, CPU_DEBUG_REGISTER(7), address != 0);
}

#elif defined(__aarch64__)

#include <asm/ptrace.h>
#include <elf.h>

/* The thread is at the trap, and stays there unless it is told to go on behind it. */
#define CPU_TRAP_BYTES 0
#define CPU_TRAP 0xd4200000l	/* brk #0 */
#define CPU_TRAP_MASK 0xffffffffl
#define CPU_ROUND_BYTES 4

/* Enabled, at user level, all four bytes of an instruction. */
#define CPU_WATCH_CONTROL (0xf << 5 | 2 << 1 | 1)

static inline long cpu_registers_read(pid_t pid, struct user_regs_struct *to)
{
	struct iovec place = { to, sizeof(*to) };

	return ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &place);
}

static inline long cpu_registers_write(pid_t pid, struct user_regs_struct *from)
{
	struct iovec place = { from, sizeof(*from) };

	return ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &place);
}

#define cpu_place(registers) ((registers)->pc)

static inline long cpu_watch(pid_t pid, uint64_t address)
{
	struct user_hwdebug_state state = { 0 };
	struct iovec place = { &state, offsetof(struct user_hwdebug_state, dbg_regs) +
				       sizeof(state.dbg_regs[0]) };

	if (address) {
		state.dbg_regs[0].addr = address;
		state.dbg_regs[0].ctrl = CPU_WATCH_CONTROL;
	}
	return ptrace(PTRACE_SETREGSET, pid, NT_ARM_HW_BREAK, &place);
}

#endif

#endif
