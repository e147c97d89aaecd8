/* SPDX-License-Identifier: MIT */
/* The account of a process's memory: sums, and words for them. */
#include "account.h"
#include "slub.h"
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t less(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

static uint64_t rest(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

/* ---- sums ---- */

/* What of its slabs is which part; an object that nobody has written to has no memory. */
static void split(const struct account_cache *cache, uint64_t parts[ACCOUNT_PARTS])
{
	parts[ACCOUNT_LIVE] = less(cache->used, cache->slabs);
	parts[ACCOUNT_LISTS] = less(cache->cached, cache->slabs - parts[ACCOUNT_LIVE]);
	parts[ACCOUNT_HOLES] = cache->slabs - parts[ACCOUNT_LIVE] - parts[ACCOUNT_LISTS];
}

static void find_why(struct account *account)
{
	for (enum account_part part = 0; part < ACCOUNT_PARTS; part++) {
		if (account->parts[part] > account->parts[account->why])
			account->why = part;
	}
	account->why_bytes = account->parts[account->why];
}

/* The cache with most of the part that is the cause; large blocks together are no cache. */
static void find_largest(struct account *account, const struct account_input *input)
{
	account->largest = ACCOUNT_NO_CACHE;
	if (account->why == ACCOUNT_LIVE)
		account->largest_bytes = input->large;
	for (size_t i = 0; account->why <= ACCOUNT_HOLES && i < input->nr_caches; i++) {
		uint64_t parts[ACCOUNT_PARTS];

		split(&input->caches[i], parts);
		if (parts[account->why] > account->largest_bytes) {
			account->largest = i;
			account->largest_bytes = parts[account->why];
		}
	}
}

/* Where objects of lists lie is not known: they are spread over all slabs alike. */
static uint64_t held_of_sparse(const struct account_cache *cache)
{
	uint64_t taken = cache->used + cache->cached;

	return taken ? (uint64_t)((double)cache->sparse_used * (double)cache->used /
				  (double)taken) : 0;
}

/* Slabs with holes, and how much of them the program holds. */
static void count_sparse(struct account *account, const struct account_input *input)
{
	uint64_t sparse = 0, used = 0, room = 0;

	for (size_t i = 0; i < input->nr_caches; i++) {
		const struct account_cache *cache = &input->caches[i];

		sparse += cache->sparse;
		used += held_of_sparse(cache);
		room += cache->sparse_room;
	}
	if (account->why == ACCOUNT_HOLES && sparse > account->why_bytes)
		account->why_bytes = sparse;
	account->kept_percent = room ? (used * 100 + room / 2) / room : 0;
}

void account_sum(struct account *account, const struct account_input *input)
{
	uint64_t heap, spare = 0, parts[ACCOUNT_PARTS];

	*account = (struct account){ .has_rss = input->rss, .largest = ACCOUNT_NO_CACHE };
	account->parts[ACCOUNT_LIVE] = input->large;
	account->parts[ACCOUNT_HELD] = input->held;
	account->parts[ACCOUNT_TABLES] = input->tables;
	for (size_t i = 0; i < input->nr_caches; i++) {
		split(&input->caches[i], parts);
		account->parts[ACCOUNT_LIVE] += parts[ACCOUNT_LIVE];
		account->parts[ACCOUNT_LISTS] += parts[ACCOUNT_LISTS];
		account->parts[ACCOUNT_HOLES] += parts[ACCOUNT_HOLES];
		spare += less(input->caches[i].spare, parts[ACCOUNT_HOLES]);
	}
	heap = account->parts[ACCOUNT_LIVE] + account->parts[ACCOUNT_LISTS] +
	       account->parts[ACCOUNT_HOLES] + input->held + input->tables;
	/* It changes under the reader's eyes: the sum of the parts stays the whole. */
	account->parts[ACCOUNT_ELSEWHERE] = rest(input->rss, heap);
	account->all = heap + account->parts[ACCOUNT_ELSEWHERE];
	find_why(account);
	find_largest(account, input);
	count_sparse(account, input);
	account->back = spare + rest(input->held, input->retain);
	if (account->why == ACCOUNT_LISTS)
		account->back += account->parts[ACCOUNT_LISTS];
}

/* ---- words ---- */

static const struct {
	const char *name, *title, *what;
} words[ACCOUNT_PARTS] = {
	[ACCOUNT_LIVE] = { "live", "live", "objects and blocks that the program holds" },
	[ACCOUNT_LISTS] = { "lists", "in lists", "freed objects in the lists of CPUs" },
	[ACCOUNT_HOLES] = { "holes", "in holes", "free memory of slabs that an object keeps" },
	[ACCOUNT_HELD] = { "held", "held", "free pages, kept for the next requests" },
	[ACCOUNT_TABLES] = { "tables", "tables", "the library's own" },
	[ACCOUNT_ELSEWHERE] = { "elsewhere", "elsewhere",
				"no part of the heap: code, stacks, files, mappings" },
};

const char *account_part_name(enum account_part part)
{
	return words[part].name;
}

static const char *largest_name(const struct account *account,
				const struct snapshot *snapshot)
{
	return account->largest < snapshot->nr_caches ?
	       snapshot->caches[account->largest].name : "large blocks";
}

/* What would help, if anything does. */
static char *remedy(const struct account *account, const struct snapshot *snapshot)
{
	char back[SIZE_TEXT];

	if (!account->may_shrink)
		return must_have(strdup(""));
	if (account->back < account->all / 100 && account->why == ACCOUNT_HELD)
		return text_of("; `slub set %u retain 0` would give them back", snapshot->pid);
	if (account->back < account->all / 100)
		return text_of("; each page goes back with its last object");
	return text_of("; `slub shrink %u` would give about %s back", snapshot->pid,
		       size_text(back, account->back, false));
}

static char *why_of_heap(const struct account *account, const struct snapshot *snapshot)
{
	const char *name = largest_name(account, snapshot);
	char *after = remedy(account, snapshot), all[SIZE_TEXT], *text;

	size_text(all, account->why_bytes, false);
	switch (account->why) {
	case ACCOUNT_LISTS:
		text = text_of("%s of freed objects in the lists of CPUs: largest %s%s", all,
			       name, after);
		break;
	case ACCOUNT_HOLES:
		text = text_of("%s in slabs that %" PRIu64 " %% of their objects keep: "
			       "largest %s%s", all, account->kept_percent, name, after);
		break;
	default:
		text = text_of("%s of free pages, kept for the next requests%s", all, after);
	}
	free(after);
	return text;
}

/* Its objects lie in mappings of its own, which nobody would guess. */
static const char *of_python(const struct account *account, const struct snapshot *snapshot)
{
	return !strncmp(snapshot->name, "python", 6) && !strcmp(account->place, ACCOUNT_NO_FILE) ?
	       "; PYTHONMALLOC=malloc from the start puts Python's objects on libslub" : "";
}

char *account_why(const struct account *account, const struct snapshot *snapshot)
{
	char all[SIZE_TEXT], largest[SIZE_TEXT];

	size_text(all, account->why_bytes, false);
	size_text(largest, account->largest_bytes, false);
	switch (account->why) {
	case ACCOUNT_LIVE:
		return text_of(account->may_shrink ?
			       "the program holds %s: most in %s (%s); `slub leaks %u` looks "
			       "for what is lost" : "the program holds %s: most in %s (%s)",
			       all, largest_name(account, snapshot), largest, snapshot->pid);
	case ACCOUNT_TABLES:
		return text_of("%s are the library's own tables, which grow with CPUs, "
			       "caches and the heap", all);
	case ACCOUNT_ELSEWHERE:
		if (!account->place[0])
			return text_of("%s are no part of libslub's heap", all);
		return text_of("%s are no part of libslub's heap: largest %s (%s)%s", all,
			       account->place, largest, of_python(account, snapshot));
	default:
		return why_of_heap(account, snapshot);
	}
}

/* ---- output ---- */

static bool is_known(const struct account *account, enum account_part part)
{
	return account->has_rss || part < ACCOUNT_TABLES;
}

void account_print(FILE *to, const struct account *account, const struct snapshot *snapshot)
{
	char *why = account_why(account, snapshot), text[SIZE_TEXT];

	fprintf(to, "%-12s %10s %14" PRIu64 "  %s\n", account->has_rss ? "RSS" : "heap",
		size_text(text, account->all, false), account->all,
		account->has_rss ? "the sum of these:" : "the sum of these; RSS is not known");
	for (enum account_part part = 0; part < ACCOUNT_PARTS; part++) {
		if (is_known(account, part))
			fprintf(to, "  %-10s %10s %14" PRIu64 "  %s\n", words[part].title,
				size_text(text, account->parts[part], false),
				account->parts[part], words[part].what);
	}
	fprintf(to, "%-12s %s\n", "why", why);
	free(why);
}

/*
 * Breaks at a blank, once: what does not fit into two lines is cut by the terminal.  Returns how
 * many lines it has.
 */
static size_t print_broken(FILE *to, const char *text, size_t columns)
{
	size_t cut = strlen(text);

	if (cut + 1 > columns && columns > 1) {
		for (cut = columns - 1; cut && text[cut] != ' '; cut--)
			;
	}
	if (!cut)
		cut = strlen(text);
	fprintf(to, " %.*s\n", (int)cut, text);
	if (!text[cut])
		return 1;
	fprintf(to, " %s\n", text + cut + 1);
	return 2;
}

size_t account_print_short(FILE *to, const struct account *account,
			   const struct snapshot *snapshot, size_t columns)
{
	char *why = account_why(account, snapshot), text[SIZE_TEXT];
	size_t lines;

	fprintf(to, " %10s", account->has_rss ? "RSS" : "heap");
	for (enum account_part part = 0; part < ACCOUNT_PARTS; part++)
		fprintf(to, " %10s", words[part].title);
	fprintf(to, "\n %10s", size_text(text, account->all, false));
	for (enum account_part part = 0; part < ACCOUNT_PARTS; part++)
		fprintf(to, " %10s", is_known(account, part) ?
			size_text(text, account->parts[part], false) : "-");
	fputc('\n', to);
	lines = 2 + print_broken(to, why, columns);
	free(why);
	return lines;
}

void account_json(struct json *json, const struct account *account,
		  const struct snapshot *snapshot)
{
	char *why = account_why(account, snapshot), name[32];

	json_open(json, "memory");
	if (account->has_rss)
		json_number(json, "rss_bytes", account->all);
	else
		json_null(json, "rss_bytes");
	for (enum account_part part = 0; part < ACCOUNT_PARTS; part++) {
		snprintf(name, sizeof(name), "%s_bytes", words[part].name);
		if (is_known(account, part))
			json_number(json, name, account->parts[part]);
		else
			json_null(json, name);
	}
	json_number(json, "shrink_bytes", account->back);
	json_string(json, "why", words[account->why].name);
	json_string(json, "sentence", why);
	json_close(json);
	free(why);
}
