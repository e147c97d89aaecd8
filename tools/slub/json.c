/* SPDX-License-Identifier: MIT */
/* Writes one JSON object. */
#include "json.h"

#include <inttypes.h>

/* How long the UTF-8 sequence at @text is; 0 if it is none. */
static int utf8_length(const unsigned char *text)
{
	int length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;

	if (text[0] < 0xc2 || text[0] > 0xf4)
		return 0;
	for (int i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	}
	/* Forms that are too long, surrogates, and beyond U+10FFFF. */
	if ((text[0] == 0xe0 && text[1] < 0xa0) ||
	    (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) ||
	    (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return length;
}

static void put_quoted(FILE *to, const char *string)
{
	const unsigned char *text = (const unsigned char *)string;

	fputc('"', to);
	while (*text) {
		int length = 1;

		if (*text == '"' || *text == '\\')
			fprintf(to, "\\%c", *text);
		else if (*text < 0x20 || *text == 0x7f)
			fprintf(to, "\\u%04x", *text);
		else if (*text < 0x80)
			fputc(*text, to);
		else if ((length = utf8_length(text)))
			fwrite(text, 1, length, to);
		else
			fputs("\\ufffd", to);
		text += length ? length : 1;
	}
	fputc('"', to);
}

static void put_name(struct json *json, const char *name)
{
	if (json->has_member)
		fputc(',', json->to);
	json->has_member = true;
	if (json->depth)
		fprintf(json->to, "\n%*s", 2 * json->depth, "");
	if (name) {
		put_quoted(json->to, name);
		fputs(": ", json->to);
	}
}

void json_open(struct json *json, const char *name)
{
	put_name(json, name);
	fputc('{', json->to);
	json->depth++;
	json->arrays &= ~(1ull << json->depth);
	json->has_member = false;
}

void json_open_array(struct json *json, const char *name)
{
	put_name(json, name);
	fputc('[', json->to);
	json->depth++;
	json->arrays |= 1ull << json->depth;
	json->has_member = false;
}

void json_close(struct json *json)
{
	bool is_array = json->arrays >> json->depth & 1;

	json->depth--;
	if (json->has_member)
		fprintf(json->to, "\n%*s", 2 * json->depth, "");
	fputc(is_array ? ']' : '}', json->to);
	json->has_member = true;
	if (!json->depth)
		fputc('\n', json->to);
}

void json_string(struct json *json, const char *name, const char *value)
{
	put_name(json, name);
	put_quoted(json->to, value);
}

void json_number(struct json *json, const char *name, uint64_t value)
{
	put_name(json, name);
	fprintf(json->to, "%" PRIu64, value);
}

void json_real(struct json *json, const char *name, double value)
{
	put_name(json, name);
	fprintf(json->to, "%.3f", value);
}

void json_bool(struct json *json, const char *name, bool value)
{
	put_name(json, name);
	fputs(value ? "true" : "false", json->to);
}

void json_null(struct json *json, const char *name)
{
	put_name(json, name);
	fputs("null", json->to);
}

void json_address(struct json *json, const char *name, uint64_t value)
{
	put_name(json, name);
	fprintf(json->to, "\"0x%" PRIx64 "\"", value);
}
