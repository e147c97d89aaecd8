/* SPDX-License-Identifier: MIT */
/* slub shrink: has a process give back what its caches do not need. */
#include "mailbox.h"
#include "resident.h"
#include "slub.h"
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct option options[] = {
	{ "node", required_argument, NULL, MAILBOX_OF_NODE },
	MAILBOX_OPTIONS,
};

static void print_shrink_help(FILE *to)
{
	fputs("usage: slub shrink [OPTION...] PID [CACHE]\n\n"
	      "Has a process empty its caches' lists and give their empty slabs\n"
	      "back.  CACHE is a name; '*' and '?' in it make it a pattern.  All\n"
	      "caches without it.\n\n"
	      "  slub shrink 1234 'malloc-*'\n\n"
	      "      --node=N           all free pages of NUMA node N too\n", to);
	mailbox_print_help(to);
}

struct shrunk {
	int64_t nr_caches;
	int64_t node_bytes;		/* of the node's free pages */
	uint64_t before, after;		/* bytes of all slabs */
	uint64_t rss_before, rss_after;	/* 0: not known */
};

/* Slabs in use give pages back too: less of the process is worth a word from here on. */
#define RSS_STEP ((uint64_t)1 << 20)

static uint64_t rss_bytes(pid_t pid)
{
	struct resident resident;
	uint64_t bytes = resident_open(&resident, pid) ? resident.rss_bytes : 0;

	resident_close(&resident);
	return bytes;
}

/* Bytes of the slabs now, all of them: the heap goes on living meanwhile. */
static int slab_bytes(struct mailbox *mailbox, uint64_t *bytes, uint32_t *nr_nodes)
{
	struct snapshot now;
	int status = source_snapshot(&mailbox->source, &now);

	if (status)
		return status;
	*bytes = now.slab_bytes;
	*nr_nodes = now.abi.nr_nodes;
	snapshot_free(&now);
	return 0;
}

/* 0, or an exit status after a message. */
static int check_node(const struct mailbox *mailbox, uint32_t nr_nodes)
{
	char *end;
	unsigned long node = strtoul(mailbox->node, &end, 10);

	if (*mailbox->node >= '0' && *mailbox->node <= '9' && !*end &&
	    node < nr_nodes)
		return 0;
	if (nr_nodes == 1)
		complain("shrink: there is no node '%s'; the process has node 0 alone",
			 mailbox->node);
	else
		complain("shrink: there is no node '%s'; the process has nodes 0 to %u",
			 mailbox->node, nr_nodes - 1);
	return STATUS_USAGE;
}

static int ask(struct mailbox *mailbox, struct shrunk *done)
{
	uint32_t nr_nodes;
	int status = slab_bytes(mailbox, &done->before, &nr_nodes);

	if (!status && mailbox->node)
		status = check_node(mailbox, nr_nodes);
	done->rss_before = rss_bytes(mailbox->source.process.pid);
	if (!status)
		status = mailbox_ask(mailbox, MAILBOX_SHRINK, mailbox->pattern,
				     &done->nr_caches);
	if (!status && mailbox->node)
		status = mailbox_ask(mailbox, MAILBOX_NODE, mailbox->node,
				     &done->node_bytes);
	done->rss_after = rss_bytes(mailbox->source.process.pid);
	return status ? status : slab_bytes(mailbox, &done->after, &nr_nodes);
}

static void put_rss(struct json *json, const char *name, uint64_t bytes)
{
	if (bytes)
		json_number(json, name, bytes);
	else
		json_null(json, name);
}

static void print_json(const struct mailbox *mailbox, const struct shrunk *done)
{
	struct json json = { .to = stdout };

	mailbox_json_open(mailbox, &json);
	json_number(&json, "caches", (uint64_t)done->nr_caches);
	json_number(&json, "slab_bytes_before", done->before);
	json_number(&json, "slab_bytes_after", done->after);
	put_rss(&json, "rss_bytes_before", done->rss_before);
	put_rss(&json, "rss_bytes_after", done->rss_after);
	if (mailbox->node) {
		json_number(&json, "node", strtoul(mailbox->node, NULL, 10));
		json_number(&json, "node_bytes", (uint64_t)done->node_bytes);
	}
	json_close(&json);
}

static void print_rss(const struct shrunk *done)
{
	char before[SIZE_TEXT], after[SIZE_TEXT];

	if (done->rss_after && done->rss_after + RSS_STEP <= done->rss_before)
		printf("RSS: %s before, %s after\n", size_text(before, done->rss_before, false),
		       size_text(after, done->rss_after, false));
}

static int print_shrunk(struct mailbox *mailbox)
{
	struct shrunk done;
	int status = ask(mailbox, &done);

	if (status)
		return status;
	if (mailbox->json) {
		print_json(mailbox, &done);
		return 0;
	}
	printf("%" PRId64 " cache%s shrunk; all slabs: %" PRIu64 " KiB before, %"
	       PRIu64 " KiB after\n", done.nr_caches, done.nr_caches == 1 ? "" : "s",
	       done.before / 1024, done.after / 1024);
	print_rss(&done);
	if (mailbox->node)
		printf("node %s: %" PRId64 " KiB of free pages given back\n",
		       mailbox->node, done.node_bytes / 1024);
	return 0;
}

static int shrink(int argc, char **argv)
{
	struct mailbox mailbox = {
		.command = "shrink", .seconds = MAILBOX_SECONDS,
		.options = options,
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
