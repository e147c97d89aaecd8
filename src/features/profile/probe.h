/* SPDX-License-Identifier: MIT */
/*
 * Probes for tracers (USDT): an instruction that does nothing, and a note in
 * the file that says where it is and in which registers the arguments are.  The
 * note's layout is the one of SystemTap's <sys/sdt.h>, version 3; written here so
 * that every build has the probes.
 *
 * A tracer that attaches counts up the semaphore, 16 bits in the section
 * .probes; while it is 0 the probe is not even passed.
 */
#ifndef SLUB_PROBE_H
#define SLUB_PROBE_H

#include "features/profile/sample.h"

#define PROBE_NOTE(name, offset, arguments)				\
	"990:	nop\n"							\
	"	.pushsection .note.stapsdt,\"?\",\"note\"\n"		\
	"	.balign 4\n"						\
	"	.4byte 992f-991f, 994f-993f, 3\n"			\
	"991:	.asciz \"stapsdt\"\n"					\
	"992:	.balign 4\n"						\
	"993:	.8byte 990b\n"						\
	"	.8byte _.stapsdt.base\n"				\
	"	.8byte sample_switch+" offset "\n"			\
	"	.asciz \"otel_memory\"\n"				\
	"	.asciz \"" name "\"\n"					\
	"	.asciz \"" arguments "\"\n"				\
	"994:	.balign 4\n"						\
	"	.popsection\n"						\
	"	.ifndef _.stapsdt.base\n"				\
	"	.pushsection .stapsdt.base,\"aG\",\"progbits\","	\
		".stapsdt.base,comdat\n"				\
	"	.weak _.stapsdt.base\n"					\
	"	.hidden _.stapsdt.base\n"				\
	"_.stapsdt.base: .space 1\n"					\
	"	.size _.stapsdt.base, 1\n"				\
	"	.popsection\n"						\
	"	.endif\n"

_Static_assert(offsetof(struct sample_switch, probe_alloc) == 0 &&
	       offsetof(struct sample_switch, probe_free) == 2,
	       "the semaphores in the notes");

/* otel_memory:alloc(ptr, size, weighted_bytes), of a sampled allocation. */
static always_inline void probe_alloc(const void *object, uint64_t bytes,
				      uint64_t weighted_bytes)
{
	if (unlikely(__atomic_load_n(&sample_switch.probe_alloc,
				     __ATOMIC_RELAXED)))
		__asm__ __volatile__(
			PROBE_NOTE("alloc", "0", "8@%0 8@%1 8@%2")
			:: "r"(object), "r"(bytes), "r"(weighted_bytes));
}

/* otel_memory:free(ptr), of a block whose allocation was sampled. */
static always_inline void probe_free(const void *object)
{
	if (unlikely(__atomic_load_n(&sample_switch.probe_free,
				     __ATOMIC_RELAXED)))
		__asm__ __volatile__(PROBE_NOTE("free", "2", "8@%0")
				     :: "r"(object));
}

#endif
