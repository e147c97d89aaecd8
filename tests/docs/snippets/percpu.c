/* SPDX-License-Identifier: MIT */
#include <slub/percpu.h>

#include "snippet.h"

int main(void)
{
	/* Eight bytes on every CPU, zero; an offset, not a pointer. */
	uintptr_t requests = slub_percpu_alloc(sizeof(int64_t), 8);

	expect(requests);
	slub_percpu_add(requests, 1);			/* any thread, signal handlers too */
	expect(slub_percpu_sum(requests) == 1);

	slub_percpu_for_each(cpu) {
		int64_t *copy = slub_percpu_ptr(requests, cpu);

		expect(__atomic_load_n(copy, __ATOMIC_RELAXED) <= 1);
	}
	expect(slub_percpu_free(requests) == 0);

	/* A free list per CPU; objects are linked through their first word. */
	uintptr_t spare = slub_percpu_alloc(sizeof(struct slub_percpu_list),
					    SLUB_PERCPU_LIST_ALIGN);
	void *buffer = malloc(2048);

	expect(spare && buffer);
	if (!slub_percpu_push(spare, buffer, 64))
		free(buffer);				/* full: 64 are there */
	buffer = slub_percpu_pop(spare);		/* NULL: none on this CPU */
	free(buffer);
	for (void *next, *left = slub_percpu_list_drain(spare); left; left = next) {
		next = *(void **)left;
		free(left);
	}
	slub_percpu_free(spare);
	return 0;
}
