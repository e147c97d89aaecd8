/* SPDX-License-Identifier: MIT */
/*
 * Instructions that the calling thread has run in user mode, and the cycles of the core that they
 * took, by the processor's own counters.
 */
#ifndef SEED_INSTRUCTIONS_H
#define SEED_INSTRUCTIONS_H

#include <stdint.h>

/* A counter for this thread, running; -1 where the machine or its settings have none. */
int instructions_open(void);
int clock_cycles_open(void);
uint64_t counter_read(int counter);
void counter_close(int counter);

#endif
