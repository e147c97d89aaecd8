/* SPDX-License-Identifier: MIT */
/* slub shrink: has a process give back what its caches do not need. */
#include "mailbox.h"
#include "slub.h"

#include <inttypes.h>

static void print_shrink_help(FILE *to)
{
	fputs("usage: slub debug shrink [OPTION...] [-p] PID [CACHE]\n\n"
	      "Has a process empty its caches' lists and give their empty slabs\n"
	      "back.  CACHE is a name; '*' and '?' in it make it a pattern.  All\n"
	      "caches without it.\n\n"
	      "  slub debug shrink 1234 'malloc-*'\n\n", to);
	mailbox_print_help(to);
}

/* Bytes of the slabs now, all of them: the heap goes on living meanwhile. */
static int slab_bytes(struct mailbox *mailbox, uint64_t *bytes)
{
	struct snapshot now;
	int status = source_snapshot(&mailbox->source, &now);

	if (status)
		return status;
	*bytes = now.slab_bytes;
	snapshot_free(&now);
	return 0;
}

static int print_shrunk(struct mailbox *mailbox)
{
	struct json json = { .to = stdout };
	uint64_t before, after;
	int64_t nr;
	int status = slab_bytes(mailbox, &before);

	if (!status)
		status = mailbox_ask(mailbox, MAILBOX_SHRINK, mailbox->pattern,
				     &nr);
	if (!status)
		status = slab_bytes(mailbox, &after);
	if (status)
		return status;
	if (mailbox->json) {
		mailbox_json_open(mailbox, &json);
		json_number(&json, "caches", (uint64_t)nr);
		json_number(&json, "slab_bytes_before", before);
		json_number(&json, "slab_bytes_after", after);
		json_close(&json);
		return 0;
	}
	printf("%" PRId64 " cache%s shrunk; all slabs: %" PRIu64 " KiB before, %"
	       PRIu64 " KiB after\n", nr, nr == 1 ? "" : "s", before / 1024,
	       after / 1024);
	return 0;
}

static int shrink(int argc, char **argv)
{
	struct mailbox mailbox = {
		.command = "shrink", .seconds = MAILBOX_SECONDS,
	};
	int status = mailbox_arguments(&mailbox, argc, argv);

	if (status)
		return status;
	if (mailbox.help) {
		print_shrink_help(stdout);
		return 0;
	}
	status = mailbox_open(&mailbox);
	if (status)
		return status;
	status = print_shrunk(&mailbox);
	mailbox_close(&mailbox);
	return status;
}

const struct command cmd_shrink = {
	.name = "shrink",
	.summary = "has a process give back what its caches do not need",
	.print_help = print_shrink_help,
	.main = shrink,
};
