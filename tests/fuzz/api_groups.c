/* SPDX-License-Identifier: MIT */
/* The API's target: groups with limits, and shrinkers that give objects back. */
#include "api.h"

enum { NR_SHRINKERS = 3, NR_TOKENS = 8, DEPTH_MAX = SLUB_GROUP_NESTING_MAX };

struct token {
	uint32_t token;
	size_t bytes;
};

static struct slub_group *groups[NR_GROUPS];
static struct slub_group *entered[DEPTH_MAX];
static int depth;
static struct token tokens[NR_TOKENS];
static struct slub_shrinker shrinkers[NR_SHRINKERS];
static bool is_registered[NR_SHRINKERS];
static bool has_limits;

bool groups_may_refuse(void)
{
	return has_limits;
}

static struct slub_group *group_any(struct input *in)
{
	return groups[take_below(in, NR_GROUPS)];
}

/* ---- groups ---- */

static void call_create(struct input *in)
{
	struct slub_group **group = &groups[take_below(in, NR_GROUPS)];

	expect(!slub_group_create("a blank", NULL) && errno == EINVAL);
	if (!*group)
		expect((*group = slub_group_create("fuzz-group", group_any(in))) != NULL);
}

static bool is_entered(const struct slub_group *group)
{
	for (int i = 0; i < depth; i++)
		if (entered[i] == group)
			return true;
	return false;
}

static void call_delete(struct input *in)
{
	struct slub_group **group = &groups[take_below(in, NR_GROUPS)];
	struct slub_group_stats stats;
	int error;

	if (!*group || is_entered(*group))
		return;
	expect(!slub_group_stats(*group, &stats));
	error = slub_group_destroy(*group);
	expect(error == (stats.nr_children ? -EBUSY : 0));
	if (error)
		return;
	expect(slub_group_destroy(*group) == -EINVAL);
	expect(slub_group_enter(*group) == -EINVAL);
	*group = NULL;
}

static void call_enter(struct input *in)
{
	struct slub_group *group = group_any(in);

	if (!group)
		return;
	if (depth == DEPTH_MAX) {
		expect(slub_group_enter(group) == -ENOSPC);
		return;
	}
	expect(!slub_group_enter(group));
	entered[depth++] = group;
	expect(slub_group_current() == group);
}

static void call_leave(struct input *in)
{
	struct slub_group *other = group_any(in);

	if (other && (!depth || other != entered[depth - 1]))
		expect(slub_group_leave(other) == -EINVAL);
	if (depth)
		expect(!slub_group_leave(entered[--depth]));
	expect(slub_group_current() == (depth ? entered[depth - 1] : NULL));
}

static bool handle(struct slub_group *group, size_t bytes, void *arg)
{
	(void)bytes, (void)arg;
	object_free(&objects[live_bytes % NR_OBJECTS], 0);
	return slub_group_limit_get(group, SLUB_GROUP_MAX) > 4096;
}

/* HIGH is not to slow the target down. */
static void call_limit(struct input *in)
{
	struct slub_group *group = group_any(in);
	enum slub_group_limit limit = take_below(in, 3);
	size_t bytes = take_number(in, 3);
	int error;

	if (!group)
		return;
	if (limit == SLUB_GROUP_HIGH)
		bytes += (size_t)1 << 30;
	if (take_below(in, 4) == 0)
		bytes = SLUB_GROUP_NO_LIMIT;
	if (take_below(in, 4) == 0)
		slub_group_handler_set(group, take_below(in, 2) ? handle : NULL, NULL);
	error = slub_group_limit_set(group, limit, bytes);
	expect(!error || (error == -EBUSY && limit == SLUB_GROUP_MAX));
	if (!error && bytes != SLUB_GROUP_NO_LIMIT)
		has_limits = true;
	if (!error)
		expect(slub_group_limit_get(group, limit) == bytes);
	expect(slub_group_limit_set(group, 3, bytes) == -EINVAL);
}

static void call_charge(struct input *in)
{
	struct token *token = &tokens[take_below(in, NR_TOKENS)];
	struct slub_group *group = group_any(in);
	size_t part;

	if (token->token) {
		part = take_below(in, 2) ? token->bytes : token->bytes / 2;
		slub_group_uncharge(token->token, part);
		token->bytes -= part;
		if (!token->bytes)
			token->token = 0;
		return;
	}
	token->bytes = take_number(in, 3) + 1;
	errno = 0;
	token->token = slub_group_charge(group, token->bytes);
	if (!token->token)
		expect(errno == (group || depth ? ENOMEM : EINVAL) &&
		       (has_limits || !(group || depth)));
}

static void check_group(struct slub_group *group)
{
	struct slub_group_memory memory;
	struct slub_group_stats stats;

	expect(!slub_group_stats(group, &stats));
	expect(!slub_group_memory(group, &memory));
	expect(stats.usage <= stats.peak);
	expect(memory.object_bytes + memory.large_bytes <= stats.usage);
	expect(memory.share_bytes <= memory.slab_bytes);
}

static void call_owner(struct input *in)
{
	struct cache *cache = &caches[take_below(in, NR_CACHES)];
	struct slub_group *group = group_any(in);
	int error;

	if (!cache->cache)
		return;
	error = slub_cache_group_set(cache->cache, group);
	expect(!error || error == -EINVAL);
}

/* ---- shrinkers ---- */

static bool is_mine(const struct object *object, const struct slub_shrinker *shrinker)
{
	return object->ptr && object->home == HOME_MALLOC &&
	       &shrinkers[object->seed % NR_SHRINKERS] == shrinker;
}

static size_t count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	size_t nr = 0;

	(void)control;
	for (int i = 0; i < NR_OBJECTS; i++)
		nr += is_mine(&objects[i], shrinker);
	return nr ? nr : SLUB_SHRINK_EMPTY;
}

/*
 * Frees objects of malloc, also while another of the target's calls allocates: the slot that
 * this is for is empty then.
 */
static size_t scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	size_t freed = 0;

	for (int i = 0; i < NR_OBJECTS && freed < control->nr_to_scan; i++) {
		if (!is_mine(&objects[i], shrinker))
			continue;
		/* A deferred free could wait for a section of this thread. */
		object_free(&objects[i], 0);
		freed++;
	}
	return freed ? freed : SLUB_SHRINK_STOP;
}

static void call_register(struct input *in)
{
	unsigned int nr = take_below(in, NR_SHRINKERS);
	struct slub_shrinker *shrinker = &shrinkers[nr];

	if (is_registered[nr]) {
		expect(slub_shrinker_create(shrinker) == -EEXIST);
		expect(!slub_shrinker_destroy(shrinker));
		is_registered[nr] = false;
		return;
	}
	expect(slub_shrinker_destroy(shrinker) == -EINVAL);
	*shrinker = (struct slub_shrinker){
		.name = "fuzz", .count = count, .scan = scan,
		.batch = take_below(in, 64), .seeks = take_below(in, 5),
		.flags = take_below(in, 4),
	};
	expect(!slub_shrinker_create(shrinker));
	is_registered[nr] = true;
}

static void call_mark(struct input *in)
{
	unsigned int nr = take_below(in, NR_SHRINKERS);
	bool is_aware = shrinkers[nr].flags & SLUB_SHRINKER_GROUP_AWARE;
	int error = slub_shrinker_mark(&shrinkers[nr], group_any(in), take_below(in, 2));

	expect(!error || error == -EINVAL);
	if (!is_registered[nr] || !is_aware)
		expect(error == -EINVAL);
}

void groups_call(struct input *in)
{
	struct slub_group *group;

	switch (take_below(in, 16)) {
	case 0 ... 1:
		call_create(in);
		break;
	case 2:
		call_delete(in);
		break;
	case 3 ... 4:
		call_enter(in);
		break;
	case 5 ... 6:
		call_leave(in);
		break;
	case 7 ... 8:
		call_limit(in);
		break;
	case 9 ... 10:
		call_charge(in);
		break;
	case 11:
		group = group_any(in);
		if (group)
			check_group(group);
		break;
	case 12:
		call_owner(in);
		break;
	case 13:
		call_register(in);
		break;
	case 14:
		call_mark(in);
		break;
	default:
		if (take_below(in, 4))
			slub_shrink((int)take_below(in, SLUB_SHRINK_PRIORITY_MAX + 1));
		else
			slub_shrink_all();
		break;
	}
}

/* When no object is left, no group has anything. */
void groups_end(void)
{
	struct slub_group_stats stats;
	int left = NR_GROUPS;

	while (depth)
		expect(!slub_group_leave(entered[--depth]));
	for (int i = 0; i < NR_TOKENS; i++) {
		if (tokens[i].token)
			slub_group_uncharge(tokens[i].token, tokens[i].bytes);
		tokens[i].token = 0;
	}
	for (int i = 0; i < NR_SHRINKERS; i++) {
		if (is_registered[i])
			expect(!slub_shrinker_destroy(&shrinkers[i]));
		is_registered[i] = false;
	}
	while (left--) {
		for (int i = 0; i < NR_GROUPS; i++) {
			if (!groups[i])
				continue;
			expect(!slub_group_stats(groups[i], &stats));
			if (stats.usage)
				broken("group %d still has %zu bytes", i, stats.usage);
			if (!slub_group_destroy(groups[i]))
				groups[i] = NULL;
		}
	}
	for (int i = 0; i < NR_GROUPS; i++)
		expect(!groups[i]);
	has_limits = false;
}
