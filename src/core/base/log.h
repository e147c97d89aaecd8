/* SPDX-License-Identifier: MIT */
/*
 * Messages on stderr, one line each: "slub[PID]: text".  Nothing is ever
 * written unless SLUB_VERBOSE asks for it, apart from what precedes an abort and from what is
 * said of an option that is not understood.
 * Formats %s %d %u %lu %zu %lx %p %c only, with a width; zeros in front as in %02x are for
 * numbers without a sign.  Allocates nothing.
 */
#ifndef SLUB_BASE_LOG_H
#define SLUB_BASE_LOG_H

#include <stdarg.h>

#include "core/base/compiler.h"

/* A buffer that lines are built in; what does not fit is dropped. */
struct text {
	char *buf;
	size_t size_bytes;
	size_t used_bytes;
};

void text_vprintf(struct text *text, const char *format, va_list args);
void text_printf(struct text *text, const char *format, ...)
	printf_like(2, 3);
/* What the program was given may be anything; a message is one line of text. */
void text_make_printable(struct text *text);

/* Writes the line when messages are asked for. */
void log_message(const char *format, ...) printf_like(1, 2);
void log_always(const char *format, ...) printf_like(1, 2);
/*
 * Of an option: unless complaints are switched off, as they are until options are read.  Nobody
 * waits for it or dies of it: on a pipe that is full or without a reader it is dropped.
 */
void log_complaint(const char *format, ...) printf_like(1, 2);
void log_complain(bool on);
/* The first time alone. */
#define log_once(...)							\
	do {								\
		static _Atomic bool said_;				\
									\
		if (!__atomic_exchange_n(&said_, true, __ATOMIC_RELAXED)) \
			log_message(__VA_ARGS__);			\
	} while (0)
/* Until the options are read, messages are dropped. */
void log_enable(bool on);
bool log_is_enabled(void);

#endif
