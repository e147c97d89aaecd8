/* SPDX-License-Identifier: MIT */
/* The memory groups of a statistics file, and those of whatever is read. */
#include "groups.h"
#include "slub.h"
#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NR_PLACES_MAX (1u << 16)

static void read_place(struct groups *groups, size_t number, const char *bytes)
{
	struct group_view *view = &groups->views[number];
	struct slub_stats_group place;

	memcpy(&place, bytes, sizeof(place));
	if (place.number != number)
		return;
	memcpy(view->fields, place.fields, sizeof(view->fields));
	memcpy(view->name, place.name, sizeof(view->name));
	clean_text(view->name, sizeof(view->name));
	view->number = place.number;
	view->damaged = place.sequence & 1;
	view->parent = place.parent < groups->nr ? place.parent : 0;
	view->nr_threads = place.nr_threads;
	view->ahead_bytes = place.stock_bytes;
	view->objects = place.objects;
	view->object_bytes = place.object_bytes;
	view->slab_bytes = place.slab_bytes;
	view->large_bytes = place.large_bytes;
}

int groups_of_file(struct snapshot *snapshot, const char *bytes, size_t size)
{
	struct slub_stats_groups head;
	struct groups groups;

	if (size < sizeof(head))
		return -ENODATA;
	memcpy(&head, bytes, sizeof(head));
	snapshot->groups_version = head.version;
	/* A command that does not ask for groups need not care. */
	if (head.version != SLUB_ABI_GROUPS_VERSION)
		return 0;
	if (head.size < sizeof(head) || head.nr_groups > NR_PLACES_MAX ||
	    head.group_bytes < sizeof(struct slub_stats_group))
		return -EBADMSG;
	if (head.size > size ||
	    (uint64_t)head.nr_groups * head.group_bytes > size - head.size)
		return -ENODATA;
	groups.nr = head.nr_groups;
	groups.views = must_have(calloc(groups.nr, sizeof(*groups.views)));
	for (size_t n = 1; n < groups.nr; n++)
		read_place(&groups, n, bytes + head.size +
				       n * head.group_bytes);
	snapshot->groups = groups.views;
	snapshot->nr_groups = groups.nr;
	snapshot->nr_groups_beyond = head.nr_beyond;
	return 0;
}

static int of_snapshot(struct groups *groups, const struct snapshot *snapshot,
		       uint32_t *version)
{
	size_t size = snapshot->nr_groups * sizeof(*groups->views);

	*version = snapshot->groups_version;
	if (!*version)
		return -ENODATA;
	if (*version != SLUB_ABI_GROUPS_VERSION)
		return -EPROTO;
	groups->views = must_have(malloc(size));
	if (size)
		memcpy(groups->views, snapshot->groups, size);
	groups->nr = snapshot->nr_groups;
	groups->nr_beyond = snapshot->nr_groups_beyond;
	return 0;
}

uint64_t group_live(const struct group_view *group)
{
	uint64_t usage = group->fields[SLUB_ABI_GROUP_USAGE];

	/* Beside who charges one of them may be older than the other. */
	return usage > group->ahead_bytes && usage < 1ull << 62 ?
		       usage - group->ahead_bytes : 0;
}

int groups_read(struct groups *groups, const struct snapshot *snapshot,
		const char *command)
{
	uint32_t version = 0;
	int error;

	*groups = (struct groups){ NULL, 0, 0 };
	error = snapshot->process ?
		groups_of_process(groups, snapshot, &version) :
		of_snapshot(groups, snapshot, &version);
	if (!error)
		return 0;
	groups_free(groups);
	if (error == -ENODATA)
		complain("%s: %s: its libslub says nothing about groups", command,
			 snapshot->target);
	else if (error == -EPROTO)
		complain_version_of(command, snapshot->target,
				    snapshot->abi.library_version, "its groups",
				    version, SLUB_ABI_GROUPS_VERSION);
	else if (error == -ESRCH)
		complain("%s: no %s", command, snapshot->target);
	else
		complain("%s: %s: what it says of its groups makes no sense",
			 command, snapshot->target);
	return error == -ESRCH ? STATUS_NO_TARGET : STATUS_UNREADABLE;
}

void groups_free(struct groups *groups)
{
	free(groups->views);
	*groups = (struct groups){ NULL, 0, 0 };
}
