/* SPDX-License-Identifier: MIT */
/*
 * A core file or a statistics file, whatever is in it, given to the commands that read
 * snapshots.  The first byte chooses the command, the rest is the file.
 */
#include "readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return -1;
	reader_run_any(data[0], reader_file(data + 1, size - 1), NULL);
	return 0;
}
