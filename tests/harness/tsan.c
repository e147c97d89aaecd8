/* SPDX-License-Identifier: MIT */
/*
 * Options that ThreadSanitizer's runtime asks a program for.  Handlers of tests allocate on
 * purpose, and children leave while they have threads.
 */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
	return "report_signal_unsafe=0:report_thread_leaks=0";
}
