/* SPDX-License-Identifier: MIT */
/*
 * Writes one JSON object, member by member, nested up to 63 deep.  What is in
 * an array has no name.
 * A string of other bytes than UTF-8 gets U+FFFD in their place.
 */
#ifndef SLUB_TOOL_JSON_H
#define SLUB_TOOL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *to;
	int depth;
	uint64_t arrays;		/* bit per depth: it is an array */
	bool has_member;		/* at this depth */
};

/* Without a name: the outermost object. */
void json_open(struct json *json, const char *name);
void json_open_array(struct json *json, const char *name);
/* Closes the object or array that was opened last. */
void json_close(struct json *json);

void json_string(struct json *json, const char *name, const char *value);
void json_number(struct json *json, const char *name, uint64_t value);
void json_real(struct json *json, const char *name, double value);
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);

/* As a string "0x...": a JSON number may not hold all 64 bits. */
void json_address(struct json *json, const char *name, uint64_t value);

#endif
