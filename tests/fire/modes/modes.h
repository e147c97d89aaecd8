/* SPDX-License-Identifier: MIT */
/* Work that the programs of the modes have in common. */
#ifndef SLUB_TESTS_FIRE_MODES_H
#define SLUB_TESTS_FIRE_MODES_H

#include "fire.h"

/*
 * Allocates, stamps, leaves to other threads, checks and frees.  `own`: with a
 * critical section of the program's own before and after each call, whose
 * descriptor stays the thread's current one during the call.
 */
void modes_work(uint64_t *rng, uint64_t ops, bool own);
/* The same without the C library's locks: for a thread it does not know. */
void modes_work_alone(uint64_t *rng, uint64_t ops);
/* Frees what the threads left to each other. */
void modes_drain(void);
/* Ends the program unless the own section counted each of its calls once. */
void modes_check_own(void);

#endif
