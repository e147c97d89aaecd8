/* SPDX-License-Identifier: MIT */
/* What is said of a process that was woken. */
#include "slub.h"
#include "wake.h"

void wake_tell(const struct mailbox *mailbox)
{
	const struct woken *woken = &mailbox->woken;

	if (!woken->nr || mailbox->json)
		return;
	complain("%s: %s was idle: its thread %d (%s) was woken from %s%s, worked for %.1f ms and "
		 "waits again", mailbox->command, mailbox->source.label, (int)woken->thread,
		 woken->name, woken->call, woken->nr > 1 ? " more than once" : "", woken->ms);
}

void wake_json(const struct mailbox *mailbox, struct json *json)
{
	const struct woken *woken = &mailbox->woken;

	if (!woken->nr)
		return;
	json_open(json, "woken");
	json_number(json, "times", woken->nr);
	json_number(json, "thread", (uint64_t)woken->thread);
	json_string(json, "name", woken->name);
	json_string(json, "call", woken->call);
	json_number(json, "us", (uint64_t)(woken->ms * 1000));
	json_close(json);
}
