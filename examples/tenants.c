/* SPDX-License-Identifier: MIT */
/*
 * A server for several tenants, one of whom wants more than it may have.
 *
 * Each tenant is a group with a limit.  What a request needs for itself comes from a
 * bucket of the tenant and is dropped at once when the request is done.  Replies are
 * kept for the next time, as many as the limit allows: a shrinker drops the oldest of
 * the tenant that needs room, and of no other.
 *
 * There is one thread, and all memory is asked for by slub_*(): so no lock.  A program that
 * calls malloc() while its shrinker is registered needs one, even with one thread: SHARED
 * DATA in slub/shrinker.h.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slub/slub.h>

#define NR_TENANTS 4
#define LIMIT ((size_t)512 << 10)
#define REPLY_BYTES 1024

struct reply {
	struct reply *newer;
	char text[REPLY_BYTES - sizeof(struct reply *)];
};

struct tenant {
	struct slub_group *group;
	struct slub_bucket *scratch;
	struct reply *oldest, **newest;
	size_t kept, dropped;
	size_t asked;		/* times its limit was in the way of it */
};

static struct tenant tenants[NR_TENANTS];
static struct slub_cache *replies;

static struct tenant *tenant_of(const struct slub_group *group)
{
	for (int i = 0; i < NR_TENANTS; i++) {
		if (tenants[i].group == group)
			return &tenants[i];
	}
	return NULL;
}

/* ---- replies that are kept ---- */

static void drop_oldest(struct tenant *tenant)
{
	struct reply *reply = tenant->oldest;

	tenant->oldest = reply->newer;
	if (!tenant->oldest)
		tenant->newest = &tenant->oldest;
	slub_cache_free(replies, reply);
	tenant->kept--;
}

static size_t count_replies(struct slub_shrinker *shrinker,
			    struct slub_shrink_control *control)
{
	struct tenant *tenant = tenant_of(control->group);

	(void)shrinker;
	return tenant && tenant->kept ? tenant->kept : SLUB_SHRINK_EMPTY;
}

static size_t drop_replies(struct slub_shrinker *shrinker,
			   struct slub_shrink_control *control)
{
	struct tenant *tenant = tenant_of(control->group);
	size_t done = 0;

	(void)shrinker;
	for (; tenant && tenant->kept && done < control->nr_to_scan; done++)
		drop_oldest(tenant);
	if (tenant)
		tenant->dropped += done;
	return done ? done : SLUB_SHRINK_STOP;
}

static struct slub_shrinker shrinker =
	SLUB_SHRINKER_INIT("replies", count_replies, drop_replies);

static bool keep_reply(struct tenant *tenant, long number)
{
	struct reply *reply = slub_cache_alloc(replies);

	if (!reply)
		return false;
	reply->newer = NULL;
	snprintf(reply->text, sizeof(reply->text), "reply %ld", number);
	*tenant->newest = reply;
	tenant->newest = &reply->newer;
	tenant->kept++;
	/* From now on this shrinker has something of this group. */
	return slub_shrinker_mark(&shrinker, slub_group_current(), 0) == 0;
}

/* ---- requests ---- */

/* The last word before a request is refused, after replies have been dropped. */
static bool at_the_limit(struct slub_group *group, size_t bytes, void *arg)
{
	struct tenant *tenant = arg;

	(void)group, (void)bytes;
	tenant->asked++;
	return false;
}

/* Scratch memory of all sizes; nobody notes down what was allocated. */
static bool work(struct tenant *tenant, size_t pieces)
{
	char *page = slub_bucket_aligned_alloc(tenant->scratch, 64, 4096);

	for (size_t i = 0; page && i < pieces; i++) {
		char *piece = slub_bucket_alloc(tenant->scratch, 16 + 37 * i % 2000);

		if (!piece)
			return false;
		piece[0] = page[0] = (char)i;
	}
	return page != NULL;
}

static bool serve(struct tenant *tenant, long number, size_t pieces)
{
	bool is_done = slub_group_enter(tenant->group) == 0;

	is_done = is_done && work(tenant, pieces) && keep_reply(tenant, number);
	return slub_bucket_clear(tenant->scratch) == 0 &&
	       slub_group_leave(tenant->group) == 0 && is_done;
}

/* ---- beginning and end ---- */

static bool tenant_begin(struct tenant *tenant, int number)
{
	char name[32];

	snprintf(name, sizeof(name), "tenant-%d", number);
	tenant->newest = &tenant->oldest;
	tenant->group = slub_group_create(name, NULL);
	tenant->scratch = slub_bucket_create(name, SLUB_CACHE_ACCOUNT);
	return tenant->group && tenant->scratch &&
	       slub_bucket_group_set(tenant->scratch, tenant->group) == 0 &&
	       slub_group_handler_set(tenant->group, at_the_limit, tenant) == 0 &&
	       slub_group_limit_set(tenant->group, SLUB_GROUP_MAX, LIMIT) == 0;
}

static int tenant_end(struct tenant *tenant)
{
	while (tenant->oldest)
		drop_oldest(tenant);
	/* With the scratch memory of a request that was not done, if there is one. */
	return slub_bucket_destroy_all(tenant->scratch) ||
	       slub_group_destroy(tenant->group);
}

static int show(struct slub_group *group, void *arg)
{
	const struct tenant *tenant = tenant_of(group);
	struct slub_group_stats stats;

	(void)arg;
	if (!tenant || slub_group_stats(group, &stats))
		return 0;
	printf("%-10s %5zu KiB in use, %4zu replies kept, %6zu dropped, %4zu refusals\n",
	       stats.name, stats.usage >> 10, tenant->kept, tenant->dropped, tenant->asked);
	return 0;
}

static int show_shrinker(struct slub_shrinker *each, void *arg)
{
	(void)arg;
	printf("shrinker %s: %llu freed in %llu scans\n", each->name,
	       (unsigned long long)each->freed, (unsigned long long)each->scans);
	return 0;
}

static int usage(FILE *to, int status)
{
	fputs("usage: tenants [--requests N]\n\n"
	      "Serves N requests (default: 4000) of four tenants, the last of whom\n"
	      "asks for more than its limit now and then.\n", to);
	return status;
}

static long parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "requests", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	long requests = 4000;
	int letter;
	char *end;

	while ((letter = getopt_long(argc, argv, "n:h", options, NULL)) != -1) {
		if (letter == 'h')
			exit(usage(stdout, 0));
		if (letter != 'n')
			exit(usage(stderr, 2));
		requests = strtol(optarg, &end, 10);
		if (*end || requests < 1)
			exit(usage(stderr, 2));
	}
	return requests;
}

int main(int argc, char **argv)
{
	long requests = parse(argc, argv), wrong = 0;
	struct slub_group_stats all;

	replies = slub_cache_create("reply", sizeof(struct reply), 8, SLUB_CACHE_ACCOUNT, NULL);
	shrinker.flags = SLUB_SHRINKER_GROUP_AWARE;
	if (!replies || slub_shrinker_create(&shrinker))
		return 1;
	for (int i = 0; i < NR_TENANTS; i++)
		wrong += !tenant_begin(&tenants[i], i);

	for (long n = 0; n < requests; n++) {
		struct tenant *tenant = &tenants[n % NR_TENANTS];
		/* One in a hundred of the last tenant's is too much for any limit. */
		bool is_too_much = n % 400 == 399;

		if (serve(tenant, n, is_too_much ? 2000 : 20) == is_too_much)
			wrong++;
	}
	slub_group_for_each(show, NULL);
	slub_shrinker_for_each(show_shrinker, NULL);

	for (int i = 0; i < NR_TENANTS; i++)
		wrong += tenant_end(&tenants[i]) != 0;
	wrong += slub_group_stats(slub_group_root(), &all) || all.usage != 0;
	wrong += slub_shrinker_destroy(&shrinker) != 0;
	wrong += slub_cache_destroy(replies) != 0;
	printf("%ld requests, %ld of them not as they should be\n", requests, wrong);
	return wrong != 0;
}
