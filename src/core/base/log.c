/* SPDX-License-Identifier: MIT */
#include "core/base/log.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/assert.h"
#include "core/base/syscall.h"

static bool enabled, complains;

static void text_char(struct text *text, char c)
{
	if (text->used_bytes < text->size_bytes)
		text->buf[text->used_bytes++] = c;
}

static void text_string(struct text *text, const char *s, int width)
{
	int len = 0;

	for (; s && s[len]; len++)
		text_char(text, s[len]);
	for (; len < width; len++)
		text_char(text, ' ');
}

static void text_number(struct text *text, unsigned long value,
			unsigned int base, int width, char pad)
{
	char digits[24];
	int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	for (int i = n; i < width; i++)
		text_char(text, pad);
	while (n)
		text_char(text, digits[--n]);
}

static void text_signed(struct text *text, long value, int width)
{
	unsigned long digits = (unsigned long)value;

	if (value < 0) {
		text_char(text, '-');
		digits = -digits;
	}
	text_number(text, digits, 10, width, ' ');
}

/* Handles one conversion; *@format points behind the '%'. */
static void text_convert(struct text *text, const char **format, va_list *args)
{
	const char *f = *format;
	bool is_long = false;
	char pad = ' ';
	int width = 0;

	if (*f == '-')		/* strings are always set left */
		f++;
	if (*f == '0')
		pad = '0';
	for (; *f >= '0' && *f <= '9'; f++)
		width = width * 10 + (*f - '0');
	for (; *f == 'l' || *f == 'z'; f++)
		is_long = true;
	/* The caller has copied the list: NOLINTBEGIN(*-valist.Uninitialized) */
	switch (*f) {
	case 's':
		text_string(text, va_arg(*args, const char *), width);
		break;
	case 'c':
		text_char(text, (char)va_arg(*args, int));
		break;
	case 'd':
		text_signed(text, is_long ? va_arg(*args, long) :
			    va_arg(*args, int), width);
		break;
	case 'u':
	case 'x':
		text_number(text, is_long ? va_arg(*args, unsigned long) :
			    va_arg(*args, unsigned int),
			    *f == 'u' ? 10 : 16, width, pad);
		break;
	case 'p':
		text_string(text, "0x", 0);
		text_number(text, (unsigned long)va_arg(*args, void *), 16, 0,
			    ' ');
		break;
	default:
		text_char(text, *f);
	}
	/* NOLINTEND(*-valist.Uninitialized) */
	*format = *f ? f + 1 : f;
}

cold void text_vprintf(struct text *text, const char *format, va_list args)
{
	va_list copy;

	va_copy(copy, args);
	while (*format) {
		if (*format == '%') {
			format++;
			text_convert(text, &format, &copy);
		} else {
			text_char(text, *format++);
		}
	}
	va_end(copy);
}

void text_printf(struct text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text_vprintf(text, format, args);
	va_end(args);
}

void text_make_printable(struct text *text)
{
	for (size_t i = 0; i < text->used_bytes; i++) {
		char *c = &text->buf[i];

		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
}

static cold void log_line(const char *format, va_list args)
{
	char buf[512];
	struct text text = { buf, sizeof(buf) - 1, 0 };

	text_printf(&text, "slub[%ld]: ", sys_pid());
	text_vprintf(&text, format, args);
	text_make_printable(&text);
	buf[text.used_bytes] = '\n';
	sys_call4(SYS_write, 2, (long)buf, (long)text.used_bytes + 1, 0);
}

cold void log_message(const char *format, ...)
{
	va_list args;

	if (!enabled)
		return;
	va_start(args, format);
	log_line(format, args);
	va_end(args);
}

cold void log_always(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(format, args);
	va_end(args);
}

/* A write would neither wait nor raise SIGPIPE. */
static cold bool is_writable(int fd)
{
	struct pollfd poll = { .fd = fd, .events = POLLOUT };
	struct timespec now = { 0, 0 };

	return sys_call6(SYS_ppoll, (long)&poll, 1, (long)&now, 0, 0, 0) == 1 &&
	       poll.revents == POLLOUT;
}

cold void log_complaint(const char *format, ...)
{
	va_list args;

	if (!complains || !is_writable(2))
		return;
	va_start(args, format);
	log_line(format, args);
	va_end(args);
}

void log_complain(bool on)
{
	complains = on;
}

void log_enable(bool on)
{
	enabled = on;
}

bool log_is_enabled(void)
{
	return enabled;
}

void assert_failed(const char *condition, const char *file, int line)
{
	log_always("assertion failed: %s (%s:%d)", condition, file, line);
	abort();
}
