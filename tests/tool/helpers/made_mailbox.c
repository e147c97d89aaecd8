/* SPDX-License-Identifier: MIT */
/*
 * A mailbox (features/debug/mailbox.h) for the heap that is made by hand.  A thread answers by
 * what is asked: of a cache by its name, of a number below 200 with that errno; and `slub
 * options` prints what it was asked last, as the value of stats_file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "features/debug/mailbox.h"
#include "made.h"

#define SILENT INT64_MAX

struct debug_mailbox slub_debug_mailbox = {
	.magic = { 'S', 'L', 'U', 'B', 'M', 'B', 'O', 'X' },
	.version = DEBUG_MAILBOX_VERSION,
	.size = sizeof(struct debug_mailbox),
};

static const struct {
	const char *cache;
	int64_t result;
} of_caches[] = {
	{ "plain-64", 1 }, { "two-nodes", 0 }, { "far-1024", -EBUSY }, { "owned-128", -E2BIG },
	{ "owned-page", -EINVAL }, { "idle-32", SILENT }, { "watched", SILENT },
	{ "plain-a", -5000 }, { "*", 2 },
};

static const char heap[] =
	"heap profile: 1: 100 [2: 200] @ heapprofile\n# slub-profile 1\n# mean_bytes 64\n"
	"# pid 1\n# start_ns 1600000000000000000\n# written_ns 1600000001000000000\n# lost 0\n"
	"# samples 1 2\n1: 100 [2: 200] @ 0x700000001000 0x700000002000\nMAPPED_LIBRARIES:\n";

static int profile = -1;

static int64_t of_cache(struct debug_mailbox *box, const char *name)
{
	for (size_t i = 0; i < sizeof(of_caches) / sizeof(of_caches[0]); i++) {
		if (strcmp(of_caches[i].cache, name))
			continue;
		if (of_caches[i].result == SILENT && *name == 'w') {
			box->done = 3;
			box->total = 9;
			box->begun = box->request.id;
		} else if (of_caches[i].result == SILENT) {
			box->nr_refused++;
		}
		return of_caches[i].result;
	}
	return 7;
}

static int64_t of_number(const char *text)
{
	long number = strtol(text, NULL, 10);

	return number < 200 ? -number : 0;
}

static int64_t of_profile(const char *text)
{
	if (!strcmp(text, "trails"))
		return -EINVAL;
	if (!strncmp(text, "start ", 6))
		return !strcmp(text, "start 777") ? 1 : of_number(text + 6);
	if (!strcmp(text, "close"))
		close(profile);
	if (strcmp(text, "write"))
		return 0;
	profile = memfd_create("profile", 0);
	if (write(profile, heap, sizeof(heap) - 1) < 0)
		return -EIO;
	return profile;
}

static int64_t answer_to(struct debug_mailbox *box)
{
	const char *text = box->request.text, *behind;

	switch (box->request.operation) {
	case MAILBOX_DEBUG:
		behind = strchr(text, ',');
		return of_cache(box, behind ? behind + 1 : "");
	case MAILBOX_VALIDATE:
	case MAILBOX_SHRINK:
		return of_cache(box, text);
	case MAILBOX_GUARD:
		return of_number(text);
	case MAILBOX_SET:
		behind = strchr(text, '=');
		return behind ? of_number(behind + 1) : -EINVAL;
	case MAILBOX_PROFILE:
		return of_profile(text);
	case MAILBOX_NODE:
		return 1 << 20;
	}
	return -ENOSYS;
}

static void answer(struct debug_mailbox *box)
{
	uint32_t state = __atomic_load_n(&box->state, __ATOMIC_SEQ_CST);
	uint64_t id = __atomic_load_n(&box->request.id, __ATOMIC_SEQ_CST);
	static uint64_t last;
	int64_t result;

	if (state != (MAILBOX_REQUEST | MAILBOX_NUMBER(id)) || id == last ||
	    box->request.check != debug_request_check(&box->request))
		return;
	last = id;
	snprintf(made_options[4].text, sizeof(made_options[4].text), "%u,%u,%s",
		 box->request.operation, box->request.flags, box->request.text);
	result = answer_to(box);
	if (result == SILENT)
		return;
	box->result = result;
	__atomic_store_n(&box->answered, id, __ATOMIC_SEQ_CST);
	__atomic_store_n(&box->state, MAILBOX_IDLE, __ATOMIC_SEQ_CST);
}

static void *answer_all(void *unused)
{
	(void)unused;
	for (;;) {
		answer(&slub_debug_mailbox);
		usleep(300);
	}
	return NULL;
}

char *made_box_at(unsigned long n)
{
	(void)n;
	return (char *)&slub_debug_mailbox;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, answer_all, NULL))
		abort();
}
