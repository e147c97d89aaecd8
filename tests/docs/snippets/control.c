/* SPDX-License-Identifier: MIT */
#include <slub/control.h>

#include "snippet.h"

int main(void)
{
	char value[32];

	expect(slub_option_set("retain", "8M") == 0);	/* from now on, as SLUB_RETAIN=8M */
	expect(slub_option_get("retain", value, sizeof(value)) == 0);
	expect(!strcmp(value, "8388608"));
	expect(slub_option_set("fastpath", "lock") == -EPERM);	/* counts at the start only */
	return 0;
}
