/* SPDX-License-Identifier: MIT */
#include <slub/profile.h>

#include "snippet.h"

int main(void)
{
	expect(slub_profile_start(4096) == 0);		/* one byte in 4,096 is a sample */
	void *volatile block = malloc(1 << 20);	/* else a compiler may leave it out */

	expect(slub_profile_write("heap.prof") == 0);		/* for slub-profile(1), pprof */
	expect(slub_profile_stop() == 0);
	free(block);
	remove("heap.prof");
	return 0;
}
