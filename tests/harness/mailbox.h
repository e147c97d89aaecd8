// SPDX-License-Identifier: MIT
// Requests to a mailbox (features/debug/mailbox.h), as another process writes them.
#pragma once

#include <stdio.h>

#include "features/debug/mailbox.h"

namespace harness {

inline struct debug_request request(uint64_t id, uint32_t operation, const char *text,
				    uint32_t flags = 0)
{
	struct debug_request made = {};

	made.id = id;
	made.operation = operation;
	made.flags = flags;
	snprintf(made.text, sizeof(made.text), "%s", text);
	made.check = debug_request_check(&made);
	return made;
}

// Into this process's own.
inline void post(struct debug_mailbox *box, const struct debug_request &request)
{
	box->request = request;
	__atomic_store_n(&box->state, MAILBOX_NUMBER(request.id) | MAILBOX_REQUEST,
			 __ATOMIC_SEQ_CST);
}

inline bool is_answered(const struct debug_mailbox *box, uint64_t id)
{
	return __atomic_load_n(&box->answered, __ATOMIC_ACQUIRE) == id &&
	       __atomic_load_n(&box->state, __ATOMIC_ACQUIRE) == MAILBOX_IDLE;
}

} // namespace harness
