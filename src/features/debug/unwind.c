/* SPDX-License-Identifier: MIT */
/* Call frame information, as far as it is about stack pointer, frame pointer and return address. */
#define _GNU_SOURCE
#include "features/debug/unwind.h"

#include <string.h>

#include "core/base/hash.h"
#include "features/debug/unwind_table.h"

/* ---- rules that were looked up ---- */

#define RULES 8192
#define TAG_BITS 24

static _Atomic uint64_t rules[RULES] rarely_touched;

static uint64_t hash_of(uintptr_t pc)
{
	return (uint64_t)pc * HASH_MULTIPLIER;
}

/* One word: 24 bits of the hash, 16 of each offset in words, 3 of the kind.  Never 0. */
static uint64_t pack(uint64_t hash, const struct rule *rule)
{
	return hash >> (64 - TAG_BITS) << 40 | (uint64_t)(uint16_t)(rule->cfa / 8) << 24 |
	       (uint64_t)(uint16_t)(rule->fp / 8) << 8 | (uint64_t)rule->kind << 1 | 1;
}

static struct rule unpack(uint64_t word)
{
	return (struct rule){
		.kind = (enum rule_kind)(word >> 1 & 7),
		.cfa = (int32_t)(int16_t)(word >> 24) * 8,
		.fp = (int32_t)(int16_t)(word >> 8) * 8,
	};
}

static struct rule rule_of(uintptr_t pc)
{
	uint64_t hash = hash_of(pc), word;
	_Atomic uint64_t *kept = &rules[hash >> 16 & (RULES - 1)];
	struct rule rule;

	word = __atomic_load_n(kept, __ATOMIC_RELAXED);
	if (word && word >> 40 == hash >> (64 - TAG_BITS))
		return unpack(word);
	rule = table_rule(pc);
	__atomic_store_n(kept, pack(hash, &rule), __ATOMIC_RELAXED);
	return rule;
}

/* ---- steps ---- */

static bool word_at(uintptr_t address, uintptr_t low, uintptr_t end, uintptr_t *word)
{
	if (address < low || address % sizeof(*word) || address >= end ||
	    end - address < sizeof(*word))
		return false;
	*word = *(const uintptr_t *)address;
	return true;
}

/* The kernel's frame of a signal, with the registers of what it interrupted: struct ucontext. */
static bool step_signal(struct place *at, uintptr_t end)
{
	enum { FP = 120, SP = 160, PC = 168 };
	struct place next;

	if (!word_at(at->sp + FP, at->sp, end, &next.fp) ||
	    !word_at(at->sp + SP, at->sp, end, &next.sp) ||
	    !word_at(at->sp + PC, at->sp, end, &next.pc) || next.sp <= at->sp)
		return false;
	/* It is no address that is returned to, but the next instruction. */
	next.pc++;
	*at = next;
	return true;
}

static bool step_frame(struct place *at, const struct rule *rule, uintptr_t end)
{
	uintptr_t cfa = (rule->kind == RULE_SP ? at->sp : at->fp) + (uintptr_t)(intptr_t)rule->cfa;
	struct place next = { .sp = cfa, .fp = at->fp };

	if (cfa <= at->sp || cfa > end ||
	    !word_at(cfa - sizeof(uintptr_t), at->sp, end, &next.pc))
		return false;
	if (rule->fp && !word_at(cfa + (uintptr_t)(intptr_t)rule->fp, at->sp, end, &next.fp))
		return false;
	*at = next;
	return true;
}

bool unwind_step(struct place *at, uintptr_t end)
{
	/* What a frame pointer points to: the caller's, and an address to return to. */
	static const struct rule plain = { .kind = RULE_FP, .cfa = 16, .fp = -16 };
	struct rule rule = rule_of(at->pc);

	switch (rule.kind) {
	case RULE_END:
		return false;
	case RULE_SIGNAL:
		return step_signal(at, end);
	case RULE_UNKNOWN:
		return step_frame(at, &plain, end);
	case RULE_SP:
	case RULE_FP:
		return step_frame(at, &rule, end);
	}
	return false;
}
