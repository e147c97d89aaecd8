/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <slub/pressure.h>

#include "snippet.h"

int main(void)
{
	struct pollfd memory = { slub_pressure_fd(), POLLIN, 0 };

	if (memory.fd < 0)
		return 0;		/* -ENOENT: this system tells nobody */
	/* One more descriptor in the loop that the program has already. */
	if (poll(&memory, 1, 0) > 0)
		slub_pressure_handle();

	struct slub_pressure_stats stats;

	slub_pressure_stats(&stats);
	expect(stats.sources);
	return 0;
}
