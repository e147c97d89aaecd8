/* SPDX-License-Identifier: MIT */
/*
 * What the targets of the command's readers share: commands run in this process, what they print
 * is looked at, and a file is a piece of memory with a path.
 */
#ifndef SLUB_TESTS_FUZZ_READERS_H
#define SLUB_TESTS_FUZZ_READERS_H

#include "fuzz.h"

#include "../../tools/slub/slub.h"

/* The path of a file with these bytes; good until the next call. */
const char *reader_file(const uint8_t *bytes, size_t size);

/*
 * Runs @command with @arguments, NULL behind the last; its exit status.  What it printed is text
 * for a terminal, and with @is_json, if it succeeded, one JSON value.
 */
int reader_run(const struct command *command, const char *const *arguments, bool is_json);

/*
 * One of the commands that read a snapshot, chosen by @choice, of @target; @address for explain,
 * or NULL.  The exit status is one that the commands' help names.
 */
void reader_run_any(uint8_t choice, const char *target, const char *address);

/* For what is called directly: exit() in @call returns here. */
void reader_call(void (*call)(void *), void *arg);

#endif
