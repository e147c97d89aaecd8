/* SPDX-License-Identifier: MIT */
/* What sandboxed.c has done under its filter: sandboxed_work.c. */
#ifndef SLUB_TEST_SANDBOXED_H
#define SLUB_TEST_SANDBOXED_H

/* Before the filter. */
void work_prepare(void);
/* One thread, that asks the kernel for nothing itself. */
void work_alone(void);
/* Threads and children; and caches, where there is an interface for them. */
void work_all(void);

#endif
