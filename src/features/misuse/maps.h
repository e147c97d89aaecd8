/* SPDX-License-Identifier: MIT */
/* The mappings of this process, by /proc/self/maps; nothing is allocated, no lock taken. */
#ifndef SLUB_MAPS_H
#define SLUB_MAPS_H

#include "core/page/page.h"

struct mapping {
	uintptr_t start, end;
	bool is_readable, is_code;
	/* Is the address of an ELF file, variables included?  Then by so much it is relocated. */
	bool is_image;
	uintptr_t bias;
	uintptr_t image;	/* where its first byte lies */
	/* The file's, or "[stack]"; empty: none, or cut off. */
	char name[512];
};

/* A line of the file. */
struct maps_line {
	uintptr_t start, end, offset;
	bool is_readable, is_writable, is_code, is_shared;
	const char *name;	/* the file's, or "[stack]"; "": none */
};

/* True: it was the last that is wanted. */
typedef bool maps_user(const struct maps_line *line, void *arg);

/*
 * Calls @use with the lines in turn, by way of @buffer.  1: it said true; 0: there are no more;
 * below: they cannot be read, or one of them is too long for the buffer.
 */
int maps_each(char *buffer, size_t bytes, maps_user *use, void *arg);

/* The hexadecimal number at *@s, which is moved behind it; 0: there is none. */
uintptr_t hex_read(const char **s);

/* Finds the mapping of @address; 0: there is none, below: that is not known. */
int maps_find(uintptr_t address, struct mapping *found);

#endif
