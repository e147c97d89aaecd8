/* SPDX-License-Identifier: MIT */
/* What the tables of call frame information say of one instruction. */
#ifndef SLUB_UNWIND_TABLE_H
#define SLUB_UNWIND_TABLE_H

#include "core/base/base.h"

enum rule_kind {
	RULE_UNKNOWN,		/* no table, or more than a rule can say */
	RULE_END,		/* nobody has called it */
	RULE_SIGNAL,		/* the kernel has, for a signal */
	RULE_SP,		/* the caller's stack pointer from the stack pointer */
	RULE_FP,		/* ... from the frame pointer */
};

struct rule {
	enum rule_kind kind;
	int32_t cfa;		/* added to either; the address to return to is below that */
	int32_t fp;		/* from there: the caller's frame pointer; 0: in its register */
};

/* Of the call that returns to @pc. */
struct rule table_rule(uintptr_t pc);

#endif
