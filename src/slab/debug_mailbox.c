/* SPDX-License-Identifier: MIT */
/* What another process asks for (debug/mailbox.h). */
#include "debug/mailbox.h"

#include <errno.h>
#include <string.h>

#include "slab/debug.h"
#include "slab/guard.h"

#include <slub/debug.h>

SLUB_EXPORT struct debug_mailbox slub_debug_mailbox = {
	.magic = { 'S', 'L', 'U', 'B', 'M', 'B', 'O', 'X' },
	.version = DEBUG_MAILBOX_VERSION,
	.size = sizeof(struct debug_mailbox),
};

static bool is_meant(const struct slub_cache *cache, const char *pattern)
{
	char name[SLUB_CACHE_NAME_MAX + 1];
	size_t length = strlen(pattern);
	bool found;

	if (cache_is_twin(cache) || !cache_name_copy(cache, name))
		return false;
	found = !length || debug_name_matches(pattern, length, name);
	/* Or one of the names that it is shared under. */
	for (unsigned int n = 0; !found && slub_cache_alias(cache, n, name); n++)
		found = debug_name_matches(pattern, length, name);
	return found;
}

static long validate_matching(const char *pattern)
{
	long bugs = 0, err = -EINVAL;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		long n;

		if (!is_meant(c, pattern))
			continue;
		n = slub_cache_validate(c);
		if (n >= 0)
			err = 0;
		bugs += n > 0 ? n : 0;
	}
	return err ? err : bugs;
}

static long shrink_matching(const char *pattern)
{
	long nr = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		struct cache_hold pin;

		if (!is_meant(c, pattern) || !cache_pin(c, &pin))
			continue;
		/* Not slub_cache_shrink(): this may be a reader itself. */
		cache_give_back(c);
		cache_unpin(&pin);
		nr++;
	}
	return nr;
}

static long guard_as_told(const char *text)
{
	size_t every = os_parse_number(&text);

	return *text || !guard_switch ? -EINVAL : guard_switch(every);
}

static long answer(uint32_t operation, const char *text)
{
	switch (operation) {
	case MAILBOX_DEBUG:
		return slub_debug(text);
	case MAILBOX_VALIDATE:
		return validate_matching(text);
	case MAILBOX_SHRINK:
		return shrink_matching(text);
	case MAILBOX_GUARD:
		return guard_as_told(text);
	}
	return -EINVAL;
}

/*
 * Copies the request that this thread has just taken.  False: it was withdrawn,
 * or has given way to another while this thread was held up.
 */
static bool copy_request(struct debug_mailbox *box, uint32_t number,
			 uint32_t *operation, char *text)
{
	uint32_t taken = number | MAILBOX_TAKEN;

	*operation = box->operation;
	memcpy(text, box->text, DEBUG_MAILBOX_TEXT_MAX);
	text[DEBUG_MAILBOX_TEXT_MAX] = '\0';
	/* seq_cst: after TAKEN was stored; pairs with the asker's system calls */
	if (__atomic_load_n(&box->withdrawn, __ATOMIC_SEQ_CST) != number ||
	    !number)
		return __atomic_load_n(&box->state, __ATOMIC_SEQ_CST) == taken;
	__atomic_compare_exchange_n(&box->state, &taken, MAILBOX_IDLE, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return false;
}

cold void debug_mailbox_answer(void)
{
	struct debug_mailbox *box = &slub_debug_mailbox;
	char text[DEBUG_MAILBOX_TEXT_MAX + 1];
	uint32_t request = __atomic_load_n(&box->state, __ATOMIC_RELAXED);
	uint32_t number = request & ~(uint32_t)MAILBOX_STATE;
	uint32_t taken = number | MAILBOX_TAKEN, operation;

	/* seq_cst: what was asked was written before; see copy_request() */
	if (slub_thread.locks_held ||
	    (request & MAILBOX_STATE) != MAILBOX_REQUEST ||
	    !__atomic_compare_exchange_n(&box->state, &request, taken, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED) ||
	    !copy_request(box, number, &operation, text))
		return;
	box->result = answer(operation, text);
	/* release: the result is there when the asker reads DONE */
	__atomic_compare_exchange_n(&box->state, &taken, number | MAILBOX_DONE,
				    false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
