/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <slub/pressure.h>

#include "snippet.h"

static void leave_it_to_a_thread(void)
{
	if (slub_pressure_start_thread() == 0) {
		/* It waits, and asks shrinkers when there is pressure ... */
		expect(slub_pressure_stop_thread() == 0);
	}
}

int main(void)
{
	leave_it_to_a_thread();

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
