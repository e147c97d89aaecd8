/* SPDX-License-Identifier: MIT */
/* slub info: the kernel's slabinfo, for the caches of a process. */
#include "attribute.h"
#include "cache_name.h"
#include "groups.h"
#include "openmetrics.h"
#include "request.h"
#include "totals.h"
#include "view.h"

#include <inttypes.h>
#include <string.h>

#define NR_ALL 1e9

struct info {
	bool aliases, activity, show_empty, ctors, numa, report, totals;
	bool extended, with_empty, single, inverted, exact, only_empty;
	bool unreclaim, groups;
	bool first_alias;	/* a cache has no other name to be shown by */
	enum sort_key key;
	double nr_max;
	const char *pattern;
	int status;
	/* What another command is to do: its letter, and debugging's letters. */
	int action;
	const char *letters;
};

static void print_info_help(FILE *to)
{
	fputs("usage: slub info [OPTION...] TARGET [CACHE]\n\n"
	      "Prints the caches of a process, as slabinfo does.  CACHE is a name; '*' and\n"
	      "'?' in it make it a pattern.  slub-info(1) explains each option.\n\n"
	      "  slub info -S -N 5 1234\n\n"
	      "Which:  -a, --aliases  -e, --empty  -o, --ops  -U, --unreclaim  -z, --zero\n"
	      "        -1, --1ref  -f, --first-alias  -G, --groups  -N, --lines=K\n"
	      "Order:  -A, --activity  -i, --inverted  -l, --slabs  -L, --sort-loss\n"
	      "        -P, --partial  -S, --size\n"
	      "What:   -B, --bytes  -D, --display-active  -n, --numa  -r, --report\n"
	      "        -T, --totals  -X, --xtotals\n"
	      "As slub debug, shrink, traces and validate, with -p only:\n"
	      "        -d, --debug[=LETTERS]  -s, --shrink  -t, --tracking  -v, --validate\n\n",
	      to);
	request_print_help(to, true);
}

/* ---- which ---- */

static bool is_shown(const struct info *info, const struct snapshot *now,
		     const struct cache_view *cache)
{
	uint64_t aliases = cache_aliases(cache);

	if (info->pattern && !cache_is_called(now, cache, info->pattern))
		return false;
	if (!cache->slabs && !info->with_empty && !info->pattern)
		return false;
	if (info->only_empty && !cache->empty)
		return false;
	if (info->ctors && !cache_field(cache, SLUB_ABI_CACHE_CTOR))
		return false;
	if (info->unreclaim && cache_field(cache, SLUB_ABI_CACHE_FLAGS) &
			       SLUB_ABI_FLAG_RECLAIM_ACCOUNT)
		return false;
	return !(info->aliases && !aliases) && !(info->single && aliases);
}

/* The snapshot keeps those that are shown, in their order. */
static void select_caches(struct snapshot *now, const struct info *info)
{
	size_t nr = 0;

	cache_sort(now, NULL, info->key);
	for (size_t i = 0; i < now->nr_caches; i++) {
		if (is_shown(info, now, &now->caches[i]))
			now->caches[nr++] = now->caches[i];
	}
	for (size_t i = 0; info->inverted && i < nr / 2; i++) {
		struct cache_view swapped = now->caches[i];

		now->caches[i] = now->caches[nr - 1 - i];
		now->caches[nr - 1 - i] = swapped;
	}
	if (nr > info->nr_max)
		nr = (size_t)info->nr_max;
	now->nr_caches = nr;
}

/* ---- how ---- */

/* slabinfo's letters, where the thing exists here. */
static const char *flag_letters(const struct cache_view *cache, char *buf)
{
	uint64_t debug = cache_field(cache, SLUB_ABI_CACHE_DEBUG);
	uint64_t flags = cache_field(cache, SLUB_ABI_CACHE_FLAGS);
	static const char letters[] = "FZPUT";
	char *out = buf;

	if (cache_aliases(cache))
		*out++ = '*';
	if (flags & SLUB_ABI_FLAG_HWCACHE_ALIGN)
		*out++ = 'A';
	if (flags & SLUB_ABI_FLAG_RECLAIM_ACCOUNT)
		*out++ = 'a';
	for (int i = 0; letters[i]; i++) {
		if (debug >> i & 1)
			*out++ = letters[i];
	}
	if (cache->damaged)
		*out++ = '?';
	*out = '\0';
	return buf;
}

static void print_size_line(const struct info *info,
			    const struct snapshot *now,
			    const struct cache_view *cache)
{
	uint64_t bytes = cache_bytes(now, cache);
	uint64_t used = cache->active *
			cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE);
	char slabs[64], size[SIZE_TEXT], slack[SIZE_TEXT], flags[16];

	snprintf(slabs, sizeof(slabs), "%" PRIu64 "/%" PRIu64 "/%" PRIu64,
		 cache->slabs, cache_partial(cache), cache->carving);
	printf("%-21s %8" PRIu64 " %7" PRIu64 " %15s %14s %4" PRIu64
	       " %1" PRIu64 " %3.0f %3.0f %7s %s\n", cache->name, cache->active,
	       cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE),
	       size_text(size, info->key == SORT_WASTE ?
			 cache_waste(now, cache) : bytes, info->exact),
	       slabs, cache_field(cache, SLUB_ABI_CACHE_OBJECTS),
	       cache_field(cache, SLUB_ABI_CACHE_ORDER),
	       percent(cache_partial(cache), cache->slabs),
	       percent(used, bytes), slack_text(slack, cache, info->exact),
	       flag_letters(cache, flags));
}

static void print_activity_line(const struct snapshot *now,
				const struct cache_view *cache)
{
	uint64_t allocs = cache->stats[SLUB_ABI_STAT_ALLOC_REFILL] +
			  cache->stats[SLUB_ABI_STAT_ALLOC_BARN] +
			  cache->stats[SLUB_ABI_STAT_ALLOC_SPARE];
	uint64_t frees = cache->stats[SLUB_ABI_STAT_FREE_SPARE] +
			 cache->stats[SLUB_ABI_STAT_FREE_BARN] +
			 cache->stats[SLUB_ABI_STAT_FREE_FLUSH];

	(void)now;
	printf("%-21s %8" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64
	       " %8" PRIu64 " %8" PRIu64 " %5.0f %1" PRIu64 " %4" PRIu64 "\n",
	       cache->name, cache->active, allocs,
	       cache->stats[SLUB_ABI_STAT_ALLOC_REFILL], frees,
	       cache->stats[SLUB_ABI_STAT_SLAB_ALLOC],
	       cache->stats[SLUB_ABI_STAT_SLAB_FREE],
	       cache_fast_percent(cache),
	       cache_field(cache, SLUB_ABI_CACHE_ORDER),
	       cache->stats[SLUB_ABI_STAT_CMPXCHG_DOUBLE_FAIL]);
}

static void print_numa_line(const struct snapshot *now,
			    const struct cache_view *cache)
{
	printf("%-21s %8" PRIu64 " %8" PRIu64, cache->name, cache->active,
	       cache->slabs);
	for (uint32_t n = 0; n < now->abi.nr_nodes; n++)
		printf("  N%u=%" PRIu64, n,
		       cache->nodes[n][SLUB_ABI_NODE_NR_SLABS]);
	putchar('\n');
}

static void print_head(const struct info *info, const struct request *request)
{
	const char *bold = request->color ? "\033[1m" : "";
	const char *plain = request->color ? "\033[0m" : "";

	if (info->numa)
		printf("%s%-21s %8s %8s  %s%s\n", bold, "Name", "Objects",
		       "Slabs", "Slabs of each node", plain);
	else if (info->activity)
		printf("%s%-21s %8s %10s %10s %10s %8s %8s %5s %1s %4s%s\n",
		       bold, "Name", "Objects", "Lists", "Refills", "Retired",
		       "NewSlab", "FreeSlab", "%Fast", "O", "CmpX", plain);
	else
		printf("%s%-21s %8s %7s %15s %14s %4s %1s %3s %3s %7s %s%s\n",
		       bold, "Name", "Objects", "Objsize",
		       info->key == SORT_WASTE ? "Loss" : "Space",
		       "Slabs/Part/Cpu", "O/S", "O", "%Fr", "%Ef", "Slack",
		       "Flg", plain);
}

static void print_report(const struct snapshot *now)
{
	for (size_t i = 0; i < now->nr_caches; i++) {
		printf("%sCache %s\n", i ? "\n" : "", now->caches[i].name);
		attributes_print(now, &now->caches[i]);
	}
}

static void print_table(const struct info *info, const struct snapshot *now,
			const struct request *request)
{
	print_head(info, request);
	for (size_t i = 0; i < now->nr_caches; i++) {
		if (info->numa)
			print_numa_line(now, &now->caches[i]);
		else if (info->activity)
			print_activity_line(now, &now->caches[i]);
		else
			print_size_line(info, now, &now->caches[i]);
	}
}

/* "cache <- alias alias", or with -i "alias -> cache", as slabinfo does. */
static void print_aliases(const struct info *info, const struct snapshot *now)
{
	for (size_t i = 0; i < now->nr_caches; i++) {
		const struct cache_view *cache = &now->caches[i];
		char names[ALIASES_SIZE], *rest = names, *name;

		memcpy(names, cache->aliases, sizeof(names));
		if (!info->inverted)
			printf("%-21s <- %s\n", cache->name, names);
		while (info->inverted && (name = strsep(&rest, " ")) != NULL)
			printf("%-21s -> %s\n", name, cache->name);
	}
}

static void print_json(const struct snapshot *now)
{
	struct json json = { .to = stdout };

	json_open_snapshot(&json, now, "info");
	json_totals(&json, now, "heap");
	json_open_array(&json, "caches");
	for (size_t i = 0; i < now->nr_caches; i++) {
		json_open(&json, NULL);
		attributes_put(&json, now, &now->caches[i]);
		json_close(&json);
	}
	json_close(&json);
	json_close(&json);
}

/* The top of each list is printed from a copy: the order of one spoils none. */
static void print_extended(struct snapshot *now, struct info *info,
			   const struct request *request)
{
	size_t all = now->nr_caches;

	totals_print(now, info->exact);
	for (int round = 0; round < 2; round++) {
		now->nr_caches = all;
		info->key = round ? SORT_WASTE : SORT_BYTES;
		cache_sort(now, NULL, info->key);
		if (now->nr_caches > 5)
			now->nr_caches = 5;
		printf("\nCaches by %s\n", round ? "loss" : "size");
		print_table(info, now, request);
	}
	now->nr_caches = all;
}

static void print(struct snapshot *now, const struct snapshot *before,
		  const struct request *request, void *arg)
{
	struct info *info = arg;

	(void)before;
	if (info->groups) {
		info->status = groups_show(now, request, info->key != SORT_BYTES,
					   info->exact, (size_t)info->nr_max);
		return;
	}
	select_caches(now, info);
	if (request->format == FORMAT_JSON)
		print_json(now);
	else if (request->format == FORMAT_OPENMETRICS)
		metrics_print(stdout, METRICS_OPENMETRICS, now);
	else if (info->extended)
		print_extended(now, info, request);
	else if (info->totals)
		totals_print(now, info->exact);
	else if (info->report)
		print_report(now);
	else if (info->aliases)
		print_aliases(info, now);
	else
		print_table(info, now, request);
}

/* ---- options ---- */

static int set_order(int letter, void *arg)
{
	struct info *info = arg;

	switch (letter) {
	case 'A':
		info->key = SORT_ACTIVITY;
		info->activity = true;
		break;
	case 'l':
		info->key = SORT_NAME;
		break;
	case 'L':
		info->key = SORT_WASTE;
		break;
	case 'P':
		info->key = SORT_PARTIAL;
		break;
	case 'S':
		info->key = SORT_BYTES;
		break;
	}
	return 0;
}

static int set_action(int letter, void *arg)
{
	struct info *info = arg;

	info->action = letter;
	if (letter == 'd')
		info->letters = optarg ? optarg : "FZPU";
	return 0;
}

static int run(const struct command *command, int argc, char **argv)
{
	optind = 0;	/* getopt begins anew */
	return command->main(argc, argv);
}

/* slabinfo's options that are commands of their own here. */
static int act(const struct info *info, const struct request *request)
{
	char *target = (char *)request->target;
	char *cache = (char *)(info->pattern ? info->pattern : "*");
	char *asked[] = { "info", "-p", target, cache, NULL };
	char *watched[] = { "info", target, cache, (char *)info->letters, NULL };

	switch (info->action) {
	case 'd':
		return run(&cmd_debug, 4, watched);
	case 's':
		return run(&cmd_shrink, 4, asked);
	case 't':
		return run(&cmd_traces, 4, asked);
	}
	return run(&cmd_validate, 4, asked);
}

static int parse(int argc, char **argv, struct request *request,
		 struct info *info)
{
	const struct own_option own[] = {
		{ "aliases", 'a', .on = &info->aliases },
		{ "activity", 'A', .set = set_order },
		{ "bytes", 'B', .on = &info->exact },
		{ "display-active", 'D', .on = &info->activity },
		{ "empty", 'e', .on = &info->only_empty },
		{ "first-alias", 'f', .on = &info->first_alias },
		{ "groups", 'G', .on = &info->groups },
		{ "inverted", 'i', .on = &info->inverted },
		{ "slabs", 'l', .set = set_order },
		{ "sort-loss", 'L', .set = set_order },
		{ "numa", 'n', .on = &info->numa },
		{ "lines", 'N', .number = &info->nr_max, .min = 1, .max = NR_ALL },
		{ "ops", 'o', .on = &info->ctors },
		{ "partial", 'P', .set = set_order },
		{ "report", 'r', .on = &info->report },
		{ "size", 'S', .set = set_order },
		{ "totals", 'T', .on = &info->totals },
		{ "unreclaim", 'U', .on = &info->unreclaim },
		{ "xtotals", 'X', .on = &info->extended },
		{ "zero", 'z', .on = &info->with_empty },
		{ "1ref", '1', .on = &info->single },
		{ "debug", 'd', .set = set_action, .argument = optional_argument },
		{ "shrink", 's', .set = set_action },
		{ "tracking", 't', .set = set_action },
		{ "validate", 'v', .set = set_action },
	};
	int status = request_parse(request, argc, argv, own,
				   sizeof(own) / sizeof(own[0]), info);

	if (status)
		return status;
	if (request->help)
		return 0;
	status = request_check(request, argc, argv, !info->groups);
	info->pattern = !status && optind < argc ? argv[optind] : NULL;
	request->cache = info->pattern;
	return status;
}

static int info_main(int argc, char **argv)
{
	struct info info = { .key = SORT_NAME, .nr_max = NR_ALL };
	struct request request;
	int status;

	request_init(&request, "info");
	status = parse(argc, argv, &request, &info);
	if (status)
		return status;
	if (request.help) {
		print_info_help(stdout);
		return 0;
	}
	if (info.action)
		return act(&info, &request);
	status = request_run(&request, print, &info);
	return status ? status : info.status;
}

const struct command cmd_info = {
	.name = "info",
	.summary = "prints the caches of a process, as slabinfo does",
	.print_help = print_info_help,
	.main = info_main,
};
