/* SPDX-License-Identifier: MIT */
/* Whether a test can have all lists emptied, also where membarrier(2) fails. */
#ifndef SLUB_TESTS_UNIT_LISTS_H
#define SLUB_TESTS_UNIT_LISTS_H

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

} /* namespace start */

#endif
