/* SPDX-License-Identifier: MIT */
/* The findings of slub doctor, one line each. */
#ifndef SLUB_TOOL_DOCTOR_H
#define SLUB_TOOL_DOCTOR_H

#include "elf_file.h"
#include "json.h"
#include "process.h"

enum finding {
	FINDING_OK,
	FINDING_NOTE,		/* it works, but differently */
	FINDING_PROBLEM,	/* it will not work */
};

/* Does the C library register threads for rseq?  glibc does from 2.35 on. */
enum registers {
	REGISTERS_UNKNOWN,
	REGISTERS_NONE,
	REGISTERS_THREADS,
};

struct doctor {
	struct json *json;	/* NULL: text */
	bool color;
	unsigned int nr_problems;
	enum registers registers;
};

/* Says what was found about @what. */
void find(struct doctor *doctor, enum finding finding, const char *what,
	  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* doctor_program.c: a program's file */
void doctor_examine_file(struct doctor *doctor, const char *path, int fd);
/* Allocators that the file has inside, or asks for. */
void doctor_examine_allocators(struct doctor *doctor,
			       const struct elf_file *file);

/* Looks at the loader in a process for what stands in doctor->registers. */
void doctor_ask_process(struct doctor *doctor, const struct process *process);

/* doctor_system.c: the machine, and what process @pid may use of it */
void doctor_examine_system(struct doctor *doctor, int pid);

#endif
