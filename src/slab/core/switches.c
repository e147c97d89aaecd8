/* SPDX-License-Identifier: MIT */
/* What features set, and the slow paths read: slab/core/switches.h. */
#include "slab/core/switches.h"

/* Where tracers look for the counters of the probes. */
struct sample_switch sample_switch
	__attribute__((section(".probes"), used)) = { 0, 0, 0 };
bool sample_was_on;
bool guard_watches_large;
