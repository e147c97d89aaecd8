/* SPDX-License-Identifier: MIT */
/* Instructions that the calling thread has run in user mode, by the processor's own counter. */
#ifndef SEED_INSTRUCTIONS_H
#define SEED_INSTRUCTIONS_H

#include <stdint.h>

/* A counter for this thread, running; -1 where the machine or its settings have none. */
int instructions_open(void);
uint64_t instructions_read(int counter);
void instructions_close(int counter);

#endif
