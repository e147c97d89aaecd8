/* SPDX-License-Identifier: MIT */
/*
 * Allocating and freeing watched objects: one at a time, under the node's
 * lock, with everything looked at that the letters ask for.
 *
 *   F  the slab and its freelist; a second free; a pointer that is no object
 *   Z  the zones of an object that is allocated or freed
 *   P  the poison of an object that is allocated
 *   U  the stacks that allocate and free; the requested size
 *
 * Locks: node->lock.  Reports are built under it and written without it.
 */
#include "features/groups/owned.h"
#include "features/watch/watch.h"
#include "features/guard/guard.h"

/* ---- cases ---- */

void case_begin(struct debug_case *found, const struct slub_cache *twin,
		const void *frame)
{
	*found = (struct debug_case){ .layout = twin->debug };
	if (frame && (twin->debug->flags & SLUB_CACHE_STORE_USER ||
		      report_is_wanted()))
		stack_read(&found->stack, frame);
}

void case_end(struct debug_case *found, const struct slub_cache *twin)
{
	struct watch *watch = watch_of(twin);

	if (likely(!found->bugs && !found->fixes))
		return;
	__atomic_fetch_add(&watch->errors, found->bugs + found->fixes,
			   __ATOMIC_RELAXED);
	__atomic_fetch_add(&watch->bugs, found->bugs, __ATOMIC_RELAXED);
	report_finish(found);
}

static bool wants(const struct slub_cache *twin, uint32_t letters)
{
	return twin->debug->flags & letters;
}

/* Are freed objects used again as late as possible?  malloc's. */
static bool is_quarantined(const struct slub_cache *twin)
{
	return twin->debug->flags & DEBUG_SIZED;
}

/* ---- lists ---- */

/* There every object is carved from the start. */
static void count_slab(struct slub_cache *twin, struct cache_node *node, int n)
{
	node_count_slab(twin, node, n);
	node->nr_carved += (size_t)n * twin->objects;
}

/* ---- alloc ---- */

/*
 * Letter A: every so many allocations one fails.  An allocation, not a try: a thread that finds no
 * memory comes back after a reclaim, and would find the next number; see cache_refused().
 */
static bool must_fail(const struct slub_cache *twin)
{
	static _Atomic uint64_t count;
	size_t every = option_value(OPTION_debug_fail);

	if (!wants(twin, SLUB_CACHE_FAILSLAB) || !every)
		return false;
	if (!(slub_thread.flags & THREAD_REFUSED) &&
	    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) % every == 0)
		slub_thread.flags |= THREAD_REFUSED;
	return slub_thread.flags & THREAD_REFUSED;
}

/* The next object of @slab; NULL: it has none after all. */
static void *take_from(struct debug_case *found, struct slub_cache *twin,
		       struct cache_node *node, struct page *slab)
{
	struct double_word state;
	struct free_marks marks;
	void *object, *next = NULL;
	uintptr_t counters;

	if (wants(twin, SLUB_CACHE_CONSISTENCY_CHECKS))
		watched_check_slab(found, twin, slab);
	object = (void *)slab_read(slab).first;
	/* Else the slab is looked through, and what cannot be told free is left alone. */
	if (object && !watched_is_object(twin, slab, object))
		watched_check(found, twin, slab, &marks);
	object = (void *)slab_read(slab).first;
	if (object) {
		next = *link_of(twin, object);
		if (next && !watched_is_object(twin, slab, next)) {
			watched_check(found, twin, slab, &marks);
			next = *link_of(twin, object);
		}
		case_slab(found, twin, slab);
		if (wants(twin, SLUB_CACHE_RED_ZONE | SLUB_CACHE_POISON))
			object_check(found, object, OBJECT_FREE);
	}
	state = slab_read(slab);
	counters = state.second + (object != NULL);
	if (!next) {
		partial_remove(node, slab);
		counters &= ~STATE_LISTED;
	} else if (is_quarantined(twin)) {
		/* Take turns: what was freed rests longer. */
		list_remove(&slab->list);
		list_add_tail(&node->partial, &slab->list);
	}
	watched_set_state(slab, next, counters);
	/* It may lie amid the object, where a program that searches memory would follow it. */
	if (object)
		*link_of(twin, object) = NULL;
	return object;
}

static void *take_locked(struct debug_case *found, struct slub_cache *twin,
			 struct cache_node *node)
{
	while (!list_is_empty(&node->partial)) {
		struct page *slab = container_of(node->partial.next,
						 struct page, list);
		void *object = take_from(found, twin, node, slab);

		if (object)
			return object;
	}
	return NULL;
}

static bool grow(struct slub_cache *twin, struct cache_node *node)
{
	struct page *slab = watched_slab_new(twin, node->node);

	if (!slab)
		return false;
	lock_acquire(&node->lock);
	count_slab(twin, node, 1);
	watched_set_state(slab, (void *)slab_read(slab).first,
			  slab_read(slab).second | STATE_LISTED);
	partial_add(node, slab, true);
	pagemap_set(page_address(slab), (size_t)1 << twin->order, twin->slot);
	lock_release(&node->lock);
	slab_tell(twin);
	return true;
}

static void trace(const struct debug_case *found, const char *what,
		  const struct slub_cache *twin, const void *object)
{
	if (wants(twin, SLUB_CACHE_TRACE))
		report_trace(twin->debug, what, object, &found->slab);
}

/* An object of @node; NULL: no memory.  @track: the caller, with letter U. */
static void *alloc_of(struct debug_case *found, struct slub_cache *twin,
		      struct cache_node *node, size_t bytes,
		      const struct track *track)
{
	void *object;

	do {
		lock_acquire(&node->lock);
		object = take_locked(found, twin, node);
		if (object) {
			object_mark(twin->debug, object, OBJECT_USED, bytes);
			if (wants(twin, SLUB_CACHE_STORE_USER))
				track_store(twin->debug, object, TRACK_ALLOC, track);
		}
		lock_release(&node->lock);
		case_end(found, twin);
	} while (!object && grow(twin, node));
	return object;
}

void *debug_alloc(struct slub_cache *twin, size_t bytes)
{
	struct debug_case found;
	struct track track;
	void *object = NULL;
	uint32_t own;

	if (slub_thread.locks_held || must_fail(twin))
		return NULL;
	/* Nothing of it may be touched, which zones would only tell of writes. */
	if (!bytes && guard_watches_block())
		object = guard_alloc(cache_original(twin), 0,
				     twin->debug->align);
	if (object)
		return object;
	cache_free_postponed();
	percpu_enter();
	case_begin(&found, twin, __builtin_frame_address(0));
	if (wants(twin, SLUB_CACHE_STORE_USER))
		track_now(&track, &found.stack);
	own = os_node_current();
	for (uint32_t n = 0; !object && n < slab_nr_nodes(); n++)
		object = alloc_of(&found, twin,
				  twin->nodes[(own + n) % slab_nr_nodes()],
				  bytes, &track);
	if (object) {
		sanitizer_out(object, bytes, twin->debug->flags & DEBUG_KEPT);
		/* Its slab may be older than the runtime, which then takes the rest for used. */
		sanitizer_use(object, bytes, twin->object_size);
		stat_add(twin, STAT_OBJECTS_OUT);
		stat_add(twin, STAT_ALLOC_DIRECT);
		trace(&found, "alloc", twin, object);
	}
	return object;
}

/* ---- free ---- */

/* @ptr is not where an object begins.  Whose is it? */
static cold void report_inside(struct debug_case *found, const struct slub_cache *twin,
			       struct page *slab, const void *ptr)
{
	uint32_t index = watched_index(twin, slab, ptr);

	found->meaning = "The call trace hands over a pointer that is not where a block begins.";
	report_bug(found, NULL, "Invalid object pointer %p", ptr);
	if (index < twin->objects)
		report_also(found, watched_object(twin, slab, index));
}

/* Is it an object, and allocated?  *@last: the end of the freelist. */
static bool check_pointer(struct debug_case *found,
			  const struct slub_cache *twin, struct page *slab,
			  void *object, void **last)
{
	struct free_marks marks;

	case_slab(found, twin, slab);
	*last = NULL;
	if (!watched_is_object(twin, slab, object)) {
		report_inside(found, twin, slab, object);
		report_fix(found, "Object at %p not freed", object);
		return false;
	}
	if (!wants(twin, SLUB_CACHE_CONSISTENCY_CHECKS))
		return true;
	watched_check(found, twin, slab, &marks);
	*last = marks.last;
	if (!mark_is_set(&marks, watched_index(twin, slab, object)))
		return true;
	stat_add(twin, STAT_DOUBLE_FREE);
	found->meaning = "The call trace frees this block a second time.";
	report_bug(found, object, "Object already free");
	report_fix(found, "Object at %p not freed", object);
	return false;
}

/* @call: as what it is freed; CALL_MALLOC: by free(), or after a delete told. */
static void check_call(struct debug_case *found, const struct slub_cache *twin,
		       const void *object, enum alloc_call call)
{
	struct track *track = track_of(twin->debug, object, TRACK_ALLOC);

	if (!track || !call_is_wrong(track->call, call))
		return;
	report_bug(found, object, "Wrong kind. %p of %s, not of %s",
		   object, call_name((enum alloc_call)track->call),
		   call_name(call));
	report_fix(found, "Object at %p freed as what it is", object);
}

void debug_free_call(void *object, enum alloc_call call)
{
	struct slub_cache *twin = cache_of(object);
	struct debug_case found;
	struct track *track;

	if (!twin || !twin->debug || slub_thread.locks_held ||
	    !watched_is_object(twin, slab_of(twin, object), object))
		return;
	track = track_of(twin->debug, object, TRACK_ALLOC);
	if (!track)
		return;
	case_begin(&found, twin, __builtin_frame_address(0));
	check_call(&found, twin, object, call);
	track->call |= CALL_TOLD;
	case_end(&found, twin);
}

cold void debug_note_free(const struct slub_cache *twin, const void *object)
{
	struct track *track = track_of(twin->debug, object, TRACK_ALLOC);

	/* What is no object is found out when it is freed. */
	if (track && watched_is_object(twin, slab_of(twin, object), object))
		__atomic_store_n(&track->is_freed, 1, __ATOMIC_RELAXED);
}

/* The owner that it was charged to, and no longer is. */
static uint32_t owner_take(const struct slub_cache *twin, const void *object)
{
	uint32_t *where, owner;

	if (!twin->is_accounted)
		return 0;
	where = object_owner(twin, object);
	owner = *where;
	*where = OWNER_FREE;
	return owner == OWNER_FREE ? 0 : owner;
}

/* Links @object into the freelist: in front, or behind @last. */
static void *freelist_add(const struct slub_cache *twin, struct page *slab,
			  void *object, void *last)
{
	void *first = (void *)slab_read(slab).first;

	if (first && last && is_quarantined(twin)) {
		*link_of(twin, last) = object;
		*link_of(twin, object) = NULL;
		return first;
	}
	*link_of(twin, object) = first;
	return object;
}

/* True: @slab is empty, off the list, and to be given back. */
static bool put_back(struct debug_case *found, struct slub_cache *twin,
		     struct cache_node *node, struct page *slab, void *object,
		     void *last)
{
	uintptr_t counters = slab_read(slab).second;
	void *first;

	/* On its way back already, its readers are waited for: a second free without letter F. */
	if (!(counters & (STATE_COUNT_MASK | STATE_LISTED)))
		return false;
	first = freelist_add(twin, slab, object, last);
	if (counters & STATE_COUNT_MASK)
		counters--;
	if (!(counters & STATE_LISTED)) {
		partial_add(node, slab, true);
		counters |= STATE_LISTED;
		stat_add(twin, STAT_FREE_ADD_PARTIAL);
	}
	watched_set_state(slab, first, counters);
	if (counters & STATE_COUNT_MASK ||
	    node->nr_partial <= twin->min_partial)
		return false;
	/* The last chance to see what was written to its free objects. */
	watched_validate(found, twin, slab);
	partial_remove(node, slab);
	stat_add(twin, STAT_FREE_REMOVE_PARTIAL);
	count_slab(twin, node, -1);
	/* A reader may free what it finds there, and be told: the map goes after it. */
	if (twin->flags & SLUB_CACHE_TYPESAFE_BY_RCU)
		watched_set_state(slab, (void *)slab_read(slab).first,
				  state_make(twin->objects, 0));
	else
		pagemap_set(page_address(slab), (size_t)1 << twin->order, MAP_NONE);
	return true;
}

void debug_free(struct slub_cache *twin, void *object, const void *frame)
{
	struct page *slab = slab_of(twin, object);
	struct cache_node *node = watched_node(twin, slab);
	struct debug_case found;
	struct track track;
	bool discard = false;
	uint32_t owner = 0;
	void *last;

	case_begin(&found, twin, frame);
	if (wants(twin, SLUB_CACHE_STORE_USER))
		track_now(&track, &found.stack);
	/* Without the lock: a runtime has some of its own, and keeps them around a fork. */
	if (watched_is_object(twin, slab, object))
		sanitizer_back(object, twin->object_size, twin->debug->flags & DEBUG_KEPT,
			       twin->flags & SLUB_CACHE_TYPESAFE_BY_RCU);
	lock_acquire(&node->lock);
	if (check_pointer(&found, twin, slab, object, &last)) {
		if (wants(twin, SLUB_CACHE_RED_ZONE | SLUB_CACHE_POISON))
			object_check(&found, object, OBJECT_USED);
		check_call(&found, twin, object, CALL_MALLOC);
		object_mark(twin->debug, object, OBJECT_FREE,
			    object_requested(twin->debug, object));
		if (wants(twin, SLUB_CACHE_STORE_USER))
			track_store(twin->debug, object, TRACK_FREE, &track);
		owner = owner_take(twin, object);
		discard = put_back(&found, twin, node, slab, object, last);
		stat_add(twin, STAT_OBJECTS_BACK);
		stat_add(twin, STAT_FREE_DIRECT);
	}
	lock_release(&node->lock);
	trace(&found, "free", twin, object);
	account_cancel(twin, 1, owner);
	if (discard && twin->flags & SLUB_CACHE_TYPESAFE_BY_RCU)
		slab_discard(twin, slab);
	else if (discard)
		watched_slab_discard(twin, slab);
	slab_tell(twin);
	case_end(&found, twin);
	/* No list is ever full here, which is when others look. */
	if (discard || page_purge_is_owed())
		slab_reclaim_if_needed();
}

/* ---- questions ---- */

size_t debug_object_bytes(const struct slub_cache *cache, const void *object)
{
	return object_requested(cache->debug, object);
}

size_t debug_ask_size(struct slub_cache *twin, const void *object)
{
	struct page *slab = slab_of(twin, object);
	struct cache_node *node = watched_node(twin, slab);
	struct debug_case found;
	struct free_marks marks;
	size_t bytes = 0;

	if (slub_thread.locks_held)
		return object_requested(twin->debug, object);
	case_begin(&found, twin, __builtin_frame_address(0));
	lock_acquire(&node->lock);
	case_slab(&found, twin, slab);
	if (!watched_is_object(twin, slab, object)) {
		report_inside(&found, twin, slab, object);
		report_fix(&found, "%p left alone", object);
	} else {
		watched_mark_free(twin, slab, &marks);
		bytes = object_requested(twin->debug, object);
		if (mark_is_set(&marks, watched_index(twin, slab, object))) {
			found.meaning = "The call trace hands over a block after its free.";
			report_bug(&found, object, "Object is free");
			report_fix(&found, "%p left alone", object);
		}
	}
	lock_release(&node->lock);
	case_end(&found, twin);
	return bytes;
}

/* ---- frees that reach no object ---- */

/* A twin to report about @cache with; NULL: it is not watched, or this thread holds a lock. */
static struct slub_cache *any_twin(struct slub_cache *cache)
{
	if (slub_thread.locks_held)
		return NULL;
	return cache->debug ? cache : cache_twin(cache);
}

void debug_free_wrong(struct slub_cache *cache, struct slub_cache *owner,
		      const void *object)
{
	struct slub_cache *twin = any_twin(owner);
	struct debug_case found;

	if (!twin && cache_is_live(cache))
		twin = any_twin(cache);
	if (!twin)
		return;
	case_begin(&found, twin, __builtin_frame_address(0));
	report_bug(&found, NULL, "Wrong slab cache. %s but object %p is from "
		   "%s", cache_is_live(cache) ? cache->name : "?", object,
		   cache_original(owner)->name);
	report_fix(&found, "Object at %p freed to %s", object,
		   cache_original(owner)->name);
	case_end(&found, twin);
}

bool debug_free_outside(struct slub_cache *cache, const void *object)
{
	struct slub_cache *twin = cache_is_live(cache) ? any_twin(cache) :
							 NULL;
	struct debug_case found;

	if (!twin)
		return false;
	case_begin(&found, twin, __builtin_frame_address(0));
	report_bug(&found, NULL, "Attempt to free object(%p) outside of slab",
		   object);
	report_fix(&found, "Object at %p not freed", object);
	case_end(&found, twin);
	return true;
}

bool debug_knows_size(const struct slub_cache *twin, const void *object)
{
	return twin->debug->size &&
	       watched_is_object(twin, slab_of(twin, object), object);
}

void debug_free_size(struct slub_cache *owner, const void *object, size_t told,
		     size_t have)
{
	struct slub_cache *twin = any_twin(owner);
	struct debug_case found;

	if (!twin)
		return;
	case_begin(&found, twin, __builtin_frame_address(0));
	report_bug(&found, NULL, "Wrong size. Object %p of %zu bytes is freed "
		   "as one of %zu", object, have, told);
	report_fix(&found, "Object at %p freed as what it is", object);
	case_end(&found, twin);
}

bool debug_free_foreign(const char *call, const void *ptr)
{
	static const struct debug_layout nobody = { .name = "malloc" };
	struct debug_case found = { .layout = &nobody };

	/* Where no cache is watched another allocator's is none of the program's bugs. */
	if (!watch_first())
		return false;
	if (slub_thread.locks_held)
		return true;
	stack_read(&found.stack, __builtin_frame_address(0));
	report_bug(&found, NULL, "Invalid pointer %p: %s of what is not from "
		   "this library", ptr, call);
	report_fix(&found, "%p left alone", ptr);
	report_finish(&found);
	return true;
}
