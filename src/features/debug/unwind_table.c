/* SPDX-License-Identifier: MIT */
/*
 * Reads .eh_frame of the file that an address lies in.  What gcc and clang write for functions in
 * C and C++ is understood; an expression, or a table of another form, makes the rule unknown.
 *
 *   .eh_frame_hdr   { where code begins, its FDE } for each function, in order
 *   FDE             the function's range, and instructions that go with it
 *   CIE             what many FDEs have in common, and instructions that come first
 *
 * The instructions change a row, the rule at an address, and then go on to the next address.
 */
#define _GNU_SOURCE
#include "features/debug/unwind.h"
#include "features/debug/unwind_table.h"

#include <dlfcn.h>
#include <string.h>

#if defined(__x86_64__) && defined(__ELF__)

/* struct dl_find_object of glibc 2.35. */
struct found_object {
	unsigned long long flags;
	void *start, *end;
	void *link_map;
	const unsigned char *eh_frame_hdr;
	unsigned long long reserved[7];
};
typedef int finder(void *address, struct found_object *found);

/* The C library's, which takes no lock.  By name, for a program may have an older one. */
static finder *find_object;

usual void unwind_start(void)
{
	finder *found = (finder *)dlsym(RTLD_DEFAULT, "_dl_find_object");

	__atomic_store_n(&find_object, found, __ATOMIC_RELAXED);
}

/* Registers by their numbers there. */
enum { REGISTER_FP = 6, REGISTER_SP = 7, REGISTER_PC = 16 };

/* Encodings of addresses: 4 bytes with a sign, relative to where they stand or to the table. */
enum { PCREL_SDATA4 = 0x1b, DATAREL_SDATA4 = 0x3b, UDATA4 = 0x03, OMIT = 0xff };

/* Bytes that are read from the front.  Past the end all is 0, and `is_bad`. */
struct reader {
	const unsigned char *at, *end;
	bool is_bad;
};

static uint64_t read_bytes(struct reader *r, size_t n)
{
	uint64_t value = 0;

	if ((size_t)(r->end - r->at) < n) {
		r->is_bad = true;
		r->at = r->end;
		return 0;
	}
	memcpy(&value, r->at, n);
	r->at += n;
	return value;
}

/* LEB128: seven bits a byte.  @sign: what the bits beyond are, if the last one is set. */
static uint64_t read_leb(struct reader *r, uint64_t sign)
{
	uint64_t value = 0, byte;
	unsigned int shift = 0;

	do {
		byte = read_bytes(r, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (byte & 0x40 && shift < 64)
		value |= sign << shift;
	return value;
}

static uint64_t read_uleb(struct reader *r)
{
	return read_leb(r, 0);
}

static int64_t read_sleb(struct reader *r)
{
	return (int64_t)read_leb(r, ~0ull);
}

static void skip(struct reader *r, uint64_t n)
{
	if (n > (size_t)(r->end - r->at))
		r->is_bad = true;
	r->at = r->is_bad ? r->end : r->at + n;
}

/* ---- which FDE ---- */

struct head_entry {
	int32_t code, fde;	/* from the table's start */
};

static const unsigned char *fde_find(const unsigned char *head, uintptr_t pc)
{
	const struct head_entry *entries = (const struct head_entry *)(head + 12);
	uint32_t low = 0, high;
	int64_t at = (int64_t)(pc - (uintptr_t)head);

	if (head[0] != 1 || head[1] != PCREL_SDATA4 || head[2] != UDATA4 ||
	    head[3] != DATAREL_SDATA4)
		return NULL;
	memcpy(&high, head + 8, sizeof(high));
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (entries[middle].code <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? head + entries[low - 1].fde : NULL;
}

/* An entry of .eh_frame without its length; false: it has a form of its own. */
static bool entry_open(struct reader *r, const unsigned char *entry,
		       const struct found_object *file)
{
	uint32_t bytes;

	if (entry < (const unsigned char *)file->start ||
	    entry >= (const unsigned char *)file->end - sizeof(bytes))
		return false;
	memcpy(&bytes, entry, sizeof(bytes));
	r->at = entry + sizeof(bytes);
	r->end = (const unsigned char *)file->end;
	r->is_bad = false;
	if (!bytes || bytes > (size_t)(r->end - r->at))
		return false;
	r->end = r->at + bytes;
	return true;
}

struct common {
	uint64_t code_unit;
	int64_t data_unit;
	bool is_signal, has_more;	/* its FDEs have bytes of their own kind */
	struct reader code;
};

static bool letters_read(struct reader *r, struct common *common, const char *letters)
{
	for (; *letters; letters++) {
		switch (*letters) {
		case 'z':
			common->has_more = true;
			read_uleb(r);
			break;
		case 'R':
			if (read_bytes(r, 1) != PCREL_SDATA4)
				return false;
			break;
		case 'L':
			read_bytes(r, 1);
			break;
		case 'P':	/* of the exceptions: 4 bytes, or 8 where none of these bits is */
			skip(r, (read_bytes(r, 1) & 7) == UDATA4 ? 4 : 8);
			break;
		case 'S':
			common->is_signal = true;
			break;
		default:
			return false;
		}
	}
	return !r->is_bad;
}

static bool common_read(struct common *common, const unsigned char *cie,
			const struct found_object *file)
{
	struct reader *r = &common->code;
	const char *letters;
	uint64_t version;

	*common = (struct common){ .is_signal = false };
	if (!entry_open(r, cie, file) || read_bytes(r, 4))
		return false;
	version = read_bytes(r, 1);
	letters = (const char *)r->at;
	skip(r, strnlen(letters, (size_t)(r->end - r->at)) + 1);
	common->code_unit = read_uleb(r);
	common->data_unit = read_sleb(r);
	return (version == 1 || version == 3) && read_uleb(r) == REGISTER_PC && !r->is_bad &&
	       letters_read(r, common, letters);
}

/* ---- the instructions ---- */

struct row {
	uint64_t cfa_register;
	int64_t cfa;
	int64_t fp;		/* 0: still in the register */
	int64_t pc;
	bool is_unknown, is_end;
};

#define ROWS_MAX 4

struct machine {
	const struct common *common;
	uintptr_t at, pc;	/* of the row; of the call */
	struct row row, first, kept[ROWS_MAX];
	unsigned int nr_kept;
};

static void put_offset(struct row *row, uint64_t number, int64_t offset)
{
	if (number == REGISTER_FP)
		row->fp = offset;
	else if (number == REGISTER_PC)
		row->pc = offset;
}

/* A register whose value comes in a way that no rule has. */
static void put_unknown(struct row *row, uint64_t number)
{
	row->is_unknown |= number == REGISTER_FP || number == REGISTER_PC;
}

static void put_back(struct machine *m, uint64_t number)
{
	if (number == REGISTER_FP)
		m->row.fp = m->first.fp;
	else if (number == REGISTER_PC)
		m->row.pc = m->first.pc;
}

static void keep(struct machine *m, bool is_back)
{
	if (is_back && m->nr_kept)
		m->row = m->kept[--m->nr_kept];
	else if (!is_back && m->nr_kept < ROWS_MAX)
		m->kept[m->nr_kept++] = m->row;
	else
		m->row.is_unknown = true;
}

enum {
	NOP = 0x00, ADVANCE_1 = 0x02, ADVANCE_2, ADVANCE_4, OFFSET_EXTENDED, RESTORE_EXTENDED,
	UNDEFINED, SAME_VALUE, REGISTER, REMEMBER, RESTORE_STATE, DEF_CFA, DEF_CFA_REGISTER,
	DEF_CFA_OFFSET, DEF_CFA_EXPRESSION, EXPRESSION, OFFSET_EXTENDED_SF, DEF_CFA_SF,
	DEF_CFA_OFFSET_SF, VAL_EXPRESSION = 0x16, GNU_ARGS_SIZE = 0x2e,
};

static void advance(struct machine *m, uint64_t units)
{
	m->at += units * m->common->code_unit;
}

static void define_cfa(struct machine *m, struct reader *r, unsigned int what)
{
	if (what == DEF_CFA || what == DEF_CFA_REGISTER || what == DEF_CFA_SF)
		m->row.cfa_register = read_uleb(r);
	if (what == DEF_CFA || what == DEF_CFA_OFFSET)
		m->row.cfa = (int64_t)read_uleb(r);
	if (what == DEF_CFA_SF || what == DEF_CFA_OFFSET_SF)
		m->row.cfa = read_sleb(r) * m->common->data_unit;
	if (what == DEF_CFA_EXPRESSION) {
		m->row.cfa_register = UINT64_MAX;
		skip(r, read_uleb(r));
	}
}

static void define_register(struct machine *m, struct reader *r, unsigned int what)
{
	uint64_t number = read_uleb(r);

	if (what == OFFSET_EXTENDED)
		put_offset(&m->row, number, (int64_t)read_uleb(r) * m->common->data_unit);
	else if (what == OFFSET_EXTENDED_SF)
		put_offset(&m->row, number, read_sleb(r) * m->common->data_unit);
	else if (what == RESTORE_EXTENDED)
		put_back(m, number);
	else if (what == SAME_VALUE)
		put_offset(&m->row, number, 0);
	else if (what == UNDEFINED)
		m->row.is_end |= number == REGISTER_PC;
	else
		put_unknown(&m->row, number);
	if (what == EXPRESSION || what == VAL_EXPRESSION)
		skip(r, read_uleb(r));
	else if (what == REGISTER)
		read_uleb(r);
}

static void execute(struct machine *m, struct reader *r)
{
	unsigned int what = (unsigned int)read_bytes(r, 1), low = what & 0x3f;

	switch (what >> 6) {
	case 1:
		advance(m, low);
		return;
	case 2:
		put_offset(&m->row, low, (int64_t)read_uleb(r) * m->common->data_unit);
		return;
	case 3:
		put_back(m, low);
		return;
	}
	if (what >= ADVANCE_1 && what <= ADVANCE_4)
		advance(m, read_bytes(r, (size_t)1 << (what - ADVANCE_1)));
	else if (what == REMEMBER || what == RESTORE_STATE)
		keep(m, what == RESTORE_STATE);
	else if ((what >= DEF_CFA && what <= DEF_CFA_EXPRESSION) || what == DEF_CFA_SF ||
		 what == DEF_CFA_OFFSET_SF)
		define_cfa(m, r, what);
	else if ((what >= OFFSET_EXTENDED && what <= REGISTER) || what == EXPRESSION ||
		 what == OFFSET_EXTENDED_SF || what == VAL_EXPRESSION)
		define_register(m, r, what);
	else if (what == GNU_ARGS_SIZE)
		read_uleb(r);
	else if (what != NOP)
		r->is_bad = true;
}

/* Up to the row of the call. */
static void run(struct machine *m, struct reader *r)
{
	struct row row = m->row;

	while (!r->is_bad && r->at < r->end && m->at <= m->pc) {
		row = m->row;
		execute(m, r);
	}
	if (m->at > m->pc)
		m->row = row;
	m->row.is_unknown |= r->is_bad;
}

static bool fits(int64_t offset)
{
	return offset % 8 == 0 && offset / 8 == (int16_t)(offset / 8);
}

static struct rule rule_from(const struct machine *m)
{
	const struct row *row = &m->row;
	struct rule rule = { .kind = RULE_UNKNOWN };

	if (m->common->is_signal)
		rule.kind = RULE_SIGNAL;
	else if (row->is_end)
		rule.kind = RULE_END;
	else if (!row->is_unknown && row->pc == -8 && fits(row->cfa) && fits(row->fp))
		rule = (struct rule){
			row->cfa_register == REGISTER_SP ? RULE_SP :
			row->cfa_register == REGISTER_FP ? RULE_FP : RULE_UNKNOWN,
			(int32_t)row->cfa, (int32_t)row->fp,
		};
	return rule;
}

static struct rule rule_in(const unsigned char *fde, uintptr_t pc,
			   const struct found_object *file)
{
	struct rule unknown = { .kind = RULE_UNKNOWN };
	struct machine m = { .pc = pc };
	struct common common;
	struct reader r;
	const unsigned char *at;
	uint64_t back, bytes;

	if (!entry_open(&r, fde, file))
		return unknown;
	at = r.at;
	back = read_bytes(&r, 4);
	if (!back || back > (uint64_t)(at - (const unsigned char *)file->start) ||
	    !common_read(&common, at - back, file))
		return unknown;
	at = r.at;
	m.at = (uintptr_t)at + (uintptr_t)(intptr_t)(int32_t)read_bytes(&r, 4);
	bytes = read_bytes(&r, 4);
	if (common.has_more)
		skip(&r, read_uleb(&r));
	if (r.is_bad || pc < m.at || pc - m.at >= bytes)
		return unknown;
	m.common = &common;
	run(&m, &common.code);
	m.first = m.row;
	run(&m, &r);
	return rule_from(&m);
}

struct rule table_rule(uintptr_t pc)
{
	struct rule unknown = { .kind = RULE_UNKNOWN };
	finder *find = __atomic_load_n(&find_object, __ATOMIC_RELAXED);
	struct found_object file;
	const unsigned char *fde;

	/* The call lies in front of what it returns to. */
	pc--;
	if (!find || find((void *)pc, &file) || !file.eh_frame_hdr)
		return unknown;
	fde = fde_find(file.eh_frame_hdr, pc);
	return fde ? rule_in(fde, pc, &file) : unknown;
}

#else

void unwind_start(void)
{
}

struct rule table_rule(uintptr_t pc)
{
	(void)pc;
	return (struct rule){ .kind = RULE_UNKNOWN };
}

#endif
