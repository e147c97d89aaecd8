/* SPDX-License-Identifier: MIT */
/* The options as they are in force, for other processes to read. */
#include "inspect/inspect.h"

#include <string.h>

struct option_kind_row {
	const char *name;
	const char *choices;
	uint32_t kind;
	size_t min;
	size_t max;
};

static const struct option_kind_row rows[OPTION_NR] = {
#define OPTION_ENUM(name, value, choices, ...) \
	{ #name, choices, SLUB_ABI_OPTION_ENUM, 0, 0 },
#define OPTION_SIZE(name, value, min, max, ...) \
	{ #name, "", SLUB_ABI_OPTION_SIZE, min, max },
#define OPTION_AUTO(...) OPTION_SIZE(__VA_ARGS__)
#define OPTION_NUMBER(name, value, min, max, ...) \
	{ #name, "", SLUB_ABI_OPTION_NUMBER, min, max },
#define OPTION_TEXT(name, ...) { #name, "", SLUB_ABI_OPTION_TEXT, 0, 0 },
#include "base/option.def"
};

struct slub_abi_option slub_abi_options[OPTION_NR];

/* The @index-th word of "a|b|c". */
static usual void put_choice(char *out, size_t room, const char *choices,
		       size_t index)
{
	for (; *choices && index; choices++)
		index -= *choices == '|';
	for (index = 0; choices[index] && choices[index] != '|';)
		index++;
	memcpy(out, choices, min_size(index, room));
}

static usual void publish_one(enum option_id id)
{
	struct slub_abi_option *out = &slub_abi_options[id];
	size_t room = sizeof(out->text) - 1;
	const char *given = option_text(id);

	memcpy(out->name, rows[id].name,
	       strnlen(rows[id].name, sizeof(out->name) - 1));
	out->kind = rows[id].kind;
	out->given = option_was_given(id);
	out->value = option_value(id);
	out->min = rows[id].min;
	out->max = rows[id].max;
	if (out->kind == SLUB_ABI_OPTION_ENUM)
		put_choice(out->text, room, rows[id].choices, out->value);
	else if (given)
		memcpy(out->text, given, strnlen(given, room));
}

usual void options_publish(void)
{
	for (int i = 0; i < OPTION_NR; i++)
		publish_one((enum option_id)i);
}

cold void options_publish_changed(enum option_id id)
{
	struct slub_abi_option *out = &slub_abi_options[id];

	if (out->kind == SLUB_ABI_OPTION_ENUM)
		memset(out->text, 0, sizeof(out->text));
	publish_one(id);
	out->given = SLUB_ABI_GIVEN_LATER;
}

cold void option_print(enum option_id id, struct text *out)
{
	char choice[32] = "";

	if (rows[id].kind == SLUB_ABI_OPTION_TEXT) {
		if (option_text(id))
			text_printf(out, "%s", option_text(id));
	} else if (rows[id].kind == SLUB_ABI_OPTION_ENUM) {
		put_choice(choice, sizeof(choice) - 1, rows[id].choices,
			   option_value(id));
		text_printf(out, "%s", choice);
	} else if (option_value(id) == OPTION_VALUE_AUTO) {
		text_printf(out, "auto");
	} else {
		text_printf(out, "%zu", option_value(id));
	}
}

usual const char *option_text_named(const char *name)
{
	for (int i = 0; i < OPTION_NR; i++) {
		if (strcmp(rows[i].name, name) == 0)
			return option_text((enum option_id)i);
	}
	return NULL;
}
