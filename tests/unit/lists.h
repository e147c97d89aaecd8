/* SPDX-License-Identifier: MIT */
/* Whether a test can have all lists emptied, also where membarrier(2) fails. */
#ifndef SLUB_TESTS_UNIT_LISTS_H
#define SLUB_TESTS_UNIT_LISTS_H

#include <algorithm>

#include "slub.h"

namespace start {

/*
 * Caches end, populations are known.  Under backend thread that goes for the
 * lists of the caller and of threads that ended.
 */
inline bool can_empty_lists()
{
	return percpu_can_stop || percpu_backend != BACKEND_RSEQ;
}

/* What the lists of a CPU may hold: barn.c. */
inline size_t cpu_bytes()
{
	size_t all = page_budget(), cpus = std::max<size_t>(percpu_areas_end(), 1), mib = 1ul << 20;
	size_t at_once = percpu_nr_threads ? std::min<size_t>(percpu_nr_threads, cpus) : cpus;
	size_t enough = std::min(std::max(32ul, at_once) * mib / cpus, 4 * mib);

	return std::max(all / cpus, std::min(4 * all, enough));
}

/* What the main lists of one size may hold. */
inline size_t list_most_bytes()
{
	return cpu_bytes() / 8;
}

} /* namespace start */

#endif
