/* SPDX-License-Identifier: MIT */
/* slub/control.h: options that are read, and changed, while the program runs. */
#include "inspect/inspect.h"

#include <errno.h>
#include <string.h>

#include "base/turn.h"
#include "slab/watch/watch.h"

#include <slub/control.h>

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
#include "inspect/change.def"
#undef OPTION_CHANGE
};

#define NR_CHANGEABLE (sizeof(changeable) / sizeof(changeable[0]))

static cold int change(enum option_id id, const char *value)
{
	int err = -EPERM;

	for (size_t i = 0; i < NR_CHANGEABLE; i++) {
		if (changeable[i].id != id)
			continue;
		err = option_change(id, value);
		if (!err)
			changeable[i].apply();
	}
	if (!err)
		options_publish_changed(id);
	return err;
}

SLUB_EXPORT cold int slub_option_set(const char *name, const char *value)
{
	enum option_id id;
	int err;

	if (!name || !value)
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!slub_start())
		return -ENOMEM;
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

usual void option_change_open(void)
{
	debug_mailbox_set = set_by_mail;
}

/* ---- what they are ---- */

SLUB_EXPORT cold int slub_option_get(const char *name, char *value, size_t size)
{
	struct text out;
	char space[OPTION_TEXT_BYTES];
	enum option_id id;

	if (!name || !value)
		return -EINVAL;
	if (!slub_start())
		return -ENOMEM;
	id = option_find(name, strlen(name));
	if (id == OPTION_NR)
		return -ENOENT;
	out = (struct text){ space, sizeof(space) - 1, 0 };
	option_print(id, &out);
	if (out.used_bytes >= size)
		return -ERANGE;
	memcpy(value, space, out.used_bytes);
	value[out.used_bytes] = '\0';
	return 0;
}
