/* SPDX-License-Identifier: MIT */
#include "snippet.h"

#include <slub/leaks.h>

int main(void)
{
	expect(slub_leaks_find(NULL, NULL) == 0);
	return 0;
}
