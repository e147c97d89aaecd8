/* SPDX-License-Identifier: MIT */
/*
 * Variables that only the start writes, and that say where the library goes on: the functions that
 * one part has been given by another, and those found in the C library and in the vDSO.
 *
 * In libslub.so they have a page of their own (src/libslub.ld).  It is read-only once the
 * library's constructors have run: a write to any address, by an attacker with a flaw of the
 * program, makes no call of the library's lead elsewhere.  In a program that is linked with
 * libslub.a they lie where its other variables do, and can be written.
 */
#ifndef SLUB_OS_START_ONLY_H
#define SLUB_OS_START_ONLY_H

#define start_only __attribute__((section("slub_start_only")))

/* Nothing is written to them any more. */
void start_only_close(void);

#endif
