/* SPDX-License-Identifier: MIT */
/* Objects that move, and the thread that gives memory back. */
#include "pairs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- movable ---- */

enum { NOMAD = 160, PLACES = 200, NOWHERE = -1 };

struct nomad {
	int64_t place;		/* NOWHERE: free, or not to be moved */
	uint64_t number[19];
};

static struct slub_cache *nomads;
static struct nomad *places[PLACES];
static struct cell *moving;
static bool nests_in_migrate;

static void nomad_construct(void *object)
{
	((struct nomad *)object)->place = NOWHERE;
}

static void nomads_isolate(struct slub_cache *cache, void **objects, size_t nr, void *arg)
{
	(void)cache, (void)arg;
	for (size_t i = 0; i < nr; i++) {
		int64_t place = ((struct nomad *)objects[i])->place;

		if (place < 0 || place >= PLACES || places[place] != objects[i])
			objects[i] = NULL;
	}
}

/* By turns freed by the library, freed by the other's way, and refused. */
static int nomad_migrate(struct slub_cache *cache, void *from, void *to, void *arg)
{
	const struct feature *other = cell_other(moving, &feature_movable);
	unsigned int before = moving->context;
	struct nomad *old = from, *new = to;
	int64_t place = old->place;
	int result = SLUB_MIGRATED;

	(void)cache, (void)arg;
	moving->context |= IN_MIGRATE;
	if (new->place != NOWHERE)
		cell_fail(moving, "a new place is no free object");
	if (nests_in_migrate) {
		nests_in_migrate = false;
		cell_nest(moving);
	}
	memcpy(new->number, old->number, sizeof(new->number));
	new->place = place;
	old->place = NOWHERE;
	places[place] = new;
	if (place % 2 && other->release && cell_has(moving, other) &&
	    !cell_is_in(moving, other->release_not)) {
		other->release(moving, old);
		result = SLUB_MIGRATED_FREE_LATER;
	}
	moving->context = before;
	return result;
}

static void nomads_settle(struct cell *cell)
{
	for (int place = 0; place < PLACES; place++) {
		struct nomad *nomad;

		if (places[place])
			continue;
		nomad = slub_cache_alloc(nomads);
		if (!nomad)
			continue;
		for (int i = 0; i < 19; i++)
			nomad->number[i] = cell->random + (uint64_t)place;
		nomad->place = place;
		places[place] = nomad;
	}
}

static void nomads_check(struct cell *cell)
{
	for (int place = 0; place < PLACES; place++) {
		const struct nomad *nomad = places[place];

		for (int i = 1; nomad && i < 19; i++)
			if (nomad->number[i] != nomad->number[0] || nomad->place != place)
				cell_fail(cell, "an object that was moved has changed");
	}
}

/* All, or all but each 16th. */
static void nomads_drop(bool all)
{
	for (int place = 0; place < PLACES; place++) {
		struct nomad *nomad = places[place];

		if (!nomad || (!all && place % 16 == 0))
			continue;
		places[place] = NULL;
		nomad->place = NOWHERE;
		slub_cache_free(nomads, nomad);
	}
}

static void movable_enter(struct cell *cell)
{
	moving = cell;
	nomads = slub_cache_create("pair-nomads", NOMAD, 0, SLUB_CACHE_ACCOUNT, nomad_construct);
	if (!nomads)
		cell_fail(cell, "slub_cache_create: errno %d", errno);
	cell_expect(cell, slub_cache_setup_mobility(nomads, nomads_isolate, nomad_migrate, NULL),
		    "slub_cache_setup_mobility", 0);
	nomads_settle(cell);
}

static long defrag(struct cell *cell)
{
	long slabs = slub_cache_defrag(nomads, 100);

	/* Inside one of its functions it says so. */
	if (slabs < 0 && !(slabs == -EDEADLK && cell_is_in(cell, IN_MIGRATE)))
		cell_fail(cell, "slub_cache_defrag: %ld", slabs);
	return slabs;
}

static void movable_around(struct cell *cell)
{
	nomads_settle(cell);
	nomads_drop(false);
	nests_in_migrate = true;
	defrag(cell);
	if (!nests_in_migrate)
		return;
	nests_in_migrate = false;
	cell_nest(cell);
}

/* Those that others get stay where they are. */
static void *movable_alloc(struct cell *cell, size_t *size)
{
	(void)cell;
	*size = NOMAD;
	return slub_cache_alloc(nomads);
}

static void movable_free(struct cell *cell, void *block)
{
	(void)cell;
	nomad_construct(block);
	slub_cache_free(nomads, block);
}

/* Of the second kind: malloc's blocks that lie in sparse slabs. */
static void move_blocks(struct cell *cell)
{
	for (int i = 0; i < BLOCKS; i++) {
		struct block *block = &cell->blocks[i];
		char *moved;

		if (!block->at || block->maker || !slub_object_is_sparse(block->at))
			continue;
		moved = slub_object_move(block->at);
		if (moved)
			block->at = moved;
	}
}

static void movable_disturb(struct cell *cell)
{
	nomads_check(cell);
	if (cell_is_in(cell, IN_MIGRATE)) {
		defrag(cell);
		return;
	}
	nomads_settle(cell);
	nomads_drop(false);
	defrag(cell);
	nomads_check(cell);
	nomads_settle(cell);
	move_blocks(cell);
}

static bool movable_leave(struct cell *cell)
{
	nomads_drop(true);
	return cell_expect(cell, slub_cache_destroy(nomads), "slub_cache_destroy",
			   cell_is_in(cell, IN_READER) ? -EDEADLK : 0);
}

const struct feature feature_movable = {
	.name = "movable",
	.enter = movable_enter,
	.leave = movable_leave,
	.around = movable_around,
	.alloc = movable_alloc,
	.free = movable_free,
	.disturb = movable_disturb,
	.check = nomads_check,
	.around_not = IN_HANDLER | IN_MIGRATE,
	.disturb_not = IN_HANDLER,
	/* What isolate reads in a free object is what the constructor left. */
	.is_freed_by_itself = true,
};

/* ---- pressure ---- */

static int event = -1;

/* systemd's protocol, as the only source. */
void pressure_source(struct cell *cell)
{
	char path[64];

	if (event >= 0)
		return;
	snprintf(path, sizeof(path), "/tmp/pairs-%d", (int)getpid());
	if (mkfifo(path, 0600))
		cell_fail(cell, "mkfifo %s: errno %d", path, errno);
	event = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	setenv("MEMORY_PRESSURE_WATCH", path, 1);
	if (event < 0 || slub_pressure_fd() < 0)
		cell_fail(cell, "slub_pressure_fd: %d, errno %d", slub_pressure_fd(), errno);
	unlink(path);
}

void pressure_event(struct cell *cell)
{
	if (write(event, "x", 1) != 1 && errno != EAGAIN)
		cell_fail(cell, "an event: errno %d", errno);
}

static void pressure_enter(struct cell *cell)
{
	pressure_source(cell);
	cell_expect(cell, slub_pressure_start_thread(), "slub_pressure_start_thread", 0);
}

static void pressure_disturb(struct cell *cell)
{
	struct slub_pressure_stats stats;

	cell_expect(cell, slub_pressure_stats(&stats), "slub_pressure_stats", 0);
	pressure_event(cell);
}

/* A child has no such thread. */
static bool pressure_leave(struct cell *cell)
{
	cell_expect(cell, slub_pressure_stop_thread(), "slub_pressure_stop_thread",
		    cell->is_child ? -ESRCH : 0);
	return true;
}

const struct feature feature_pressure = {
	.name = "pressure",
	.enter = pressure_enter,
	.leave = pressure_leave,
	.disturb = pressure_disturb,
};
