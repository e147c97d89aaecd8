/* SPDX-License-Identifier: MIT */
/*
 * Control while the program runs: options by their names.
 *
 * An option is what SLUB_NAME=VALUE sets at the start (libslub(7), `slub options`); here
 * its name is without SLUB_, in letters of either case, and its value is the same text.
 * Some may be changed later:
 *
 *   retain         free memory that stays resident, from then on as if it had been given
 *   limit          most memory in use; what is in use beyond a lower one stays
 *   reclaim_rate   how often a second shrinkers are asked
 *   verbose        messages
 *   on_error, debug_abort, debug_fail
 *                  what follows upon misuse, and which allocations letter A fails
 *   attach         whether other processes are answered
 *
 * `slub set PID NAME VALUE` does the same from outside.  Letters (slub_debug()), the
 * profile (slub_profile_start()) and the pressure thread
 * (slub_pressure_start_thread()) have functions of their own.
 */
#ifndef SLUB_INCLUDE_CONTROL_H
#define SLUB_INCLUDE_CONTROL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks what the library exports. */
#define SLUB_API __attribute__((__visibility__("default")))

/*
 * slub_option_get - what an option is, as text.
 *
 * @value: room for @size bytes, which gets the value with a NUL behind it: a number
 * without a suffix, "auto", one of the option's words, or a text, empty if none was
 * given.
 * Returns 0; -ENOENT: there is no such option; -ERANGE: @size is too small, and
 * *@value unchanged; -EINVAL: @name or @value is NULL; -ENOMEM: the library could not
 * start.
 * Context: any thread.  Cost: a search through about forty names.
 */
SLUB_API int slub_option_get(const char *name, char *value, size_t size);

/*
 * slub_option_set - change an option that may change while the program runs.
 *
 * @value: as in the environment, such as "64M".
 * Returns 0, or with nothing changed -ENOENT: there is no such option; -EPERM: it counts
 * at the start only; -EINVAL: it cannot have that value, or @name or @value is NULL;
 * -EBUSY: another thread sets an option just now; -EAGAIN: called by a signal handler
 * that interrupted the allocator; -ENOMEM: the library could not start.
 * Context: any thread.  Cost: a search; with a lower retain or limit, also giving
 * free memory back.
 */
SLUB_API int slub_option_set(const char *name, const char *value);

#ifdef __cplusplus
}
#endif

#endif
