/* SPDX-License-Identifier: MIT */
/*
 * The options as they are in force, for other processes to read; and slub/control.h: options
 * that are read, and changed, while the program runs.
 */
#include "features/inspect/inspect.h"

#include <errno.h>
#include <string.h>

#include "core/base/turn.h"
#include "features/watch/watch.h"

#include <slub/control.h>

static const uint8_t kinds[] = {
	[KIND_ENUM] = SLUB_ABI_OPTION_ENUM, [KIND_SIZE] = SLUB_ABI_OPTION_SIZE,
	[KIND_AUTO] = SLUB_ABI_OPTION_SIZE, [KIND_NUMBER] = SLUB_ABI_OPTION_NUMBER,
	[KIND_TEXT] = SLUB_ABI_OPTION_TEXT, [KIND_WORDS] = SLUB_ABI_OPTION_TEXT,
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
	const struct option_row *row = &option_rows[id];
	size_t room = sizeof(out->text) - 1;
	const char *given = option_text(id);

	memcpy(out->name, row->name, strnlen(row->name, sizeof(out->name) - 1));
	out->kind = kinds[row->kind];
	out->given = option_was_given(id);
	out->value = option_value(id);
	out->min = row->min;
	out->max = row->max;
	if (row->kind == KIND_ENUM)
		put_choice(out->text, room, row->choices, out->value);
	else if (given)
		memcpy(out->text, given, strnlen(given, room));
}

/* ---- change ---- */

/* One at a time: what an option is and what follows from it belong together. */
static struct turn changing;

static cold void apply_nothing(void)
{
}

static cold void apply_verbose(void)
{
	log_enable(option_value(OPTION_verbose) == 1);
}

static cold void apply_retain(void)
{
	slub_abi_state.retain_bytes = option_value(OPTION_retain);
	page_retain_changed();
}

static const struct {
	enum option_id id;
	void (*apply)(void);
} changeable[] = {
#define OPTION_CHANGE(name, function) { OPTION_##name, function },
#include "features/inspect/change.def"
#undef OPTION_CHANGE
};

static cold int change(enum option_id id, const char *value)
{
	struct slub_abi_option *out = &slub_abi_options[id];
	size_t i = 0;
	int err;

	while (i < ARRAY_SIZE(changeable) && changeable[i].id != id)
		i++;
	if (i == ARRAY_SIZE(changeable))
		return -EPERM;
	err = option_change(id, value);
	if (err)
		return err;
	changeable[i].apply();
	if (out->kind == SLUB_ABI_OPTION_ENUM)
		memset(out->text, 0, sizeof(out->text));
	publish_one(id);
	out->given = SLUB_ABI_GIVEN_LATER;
	return 0;
}

SLUB_EXPORT cold int slub_option_set(const char *name, const char *value)
{
	int err = name && value ? slub_begin() : -EINVAL;
	enum option_id id;

	if (err)
		return err;
	id = option_find(name, strlen(name));
	if (id == OPTION_NR)
		return -ENOENT;
	if (!turn_try(&changing))
		return -EBUSY;
	err = change(id, value);
	turn_end(&changing);
	return err;
}

/* "NAME=VALUE", which is taken apart. */
static cold int set_by_mail(char *text)
{
	char *equals = strchr(text, '=');
	int err;

	if (!equals)
		return -EINVAL;
	*equals = '\0';
	err = slub_option_set(text, equals + 1);
	*equals = '=';
	return err;
}

usual void options_publish(void)
{
	for (int i = 0; i < OPTION_NR; i++)
		publish_one((enum option_id)i);
	debug_mailbox_set = set_by_mail;
}

/* ---- what they are ---- */

SLUB_EXPORT cold int slub_option_get(const char *name, char *value, size_t size)
{
	char buf[32] = "";
	struct text number = { buf, sizeof(buf) - 1, 0 };
	const char *text = buf;
	enum option_id id;

	if (!name || !value)
		return -EINVAL;
	if (!slub_start())
		return -ENOMEM;
	id = option_find(name, strlen(name));
	if (id == OPTION_NR)
		return -ENOENT;
	if (kinds[option_rows[id].kind] == SLUB_ABI_OPTION_TEXT)
		text = option_text(id) ? option_text(id) : "";
	else if (option_rows[id].kind == KIND_ENUM)
		put_choice(buf, sizeof(buf) - 1, option_rows[id].choices, option_value(id));
	else if (option_value(id) == OPTION_VALUE_AUTO)
		text = "auto";
	else
		text_printf(&number, "%zu", option_value(id));
	if (strlen(text) >= size)
		return -ERANGE;
	memcpy(value, text, strlen(text) + 1);
	return 0;
}
