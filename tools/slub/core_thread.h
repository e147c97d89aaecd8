/* SPDX-License-Identifier: MIT */
/* The thread that a process died by: its registers in the core file, and its call stack. */
#ifndef SLUB_TOOL_CORE_THREAD_H
#define SLUB_TOOL_CORE_THREAD_H

#include "process.h"

#define CORE_REGISTERS 32
#define CORE_FRAMES_MAX 64

/* Numbers of registers in DWARF. */
#if defined(__x86_64__)
#define CORE_STACK_POINTER 7
#elif defined(__aarch64__)
#define CORE_STACK_POINTER 31
#define CORE_LINK_REGISTER 30
#endif

struct core_thread {
	pid_t id;			/* 0: the core names none */
	uint64_t pc;
	uint64_t registers[CORE_REGISTERS];	/* by their numbers in DWARF */
	uint32_t known;			/* a bit for each that is */
	uint32_t sp;			/* the stack pointer's number */
};

/* The first note of a thread: the kernel writes that of the thread that died first. */
void core_thread_read(struct core_thread *thread, const char *note, size_t bytes);

struct core_stack {
	uint64_t frames[CORE_FRAMES_MAX];	/* the first one: its instruction, and one more */
	size_t nr;			/* 0: it is not known */
	bool is_whole;			/* up to the outermost */
};

void core_stack_read(struct core_stack *stack, const struct process *process);

#endif
