/* SPDX-License-Identifier: MIT */
/*
 * A heap profile, whatever is in it, made into a table or into pprof's form.  The first byte says
 * which; names of functions are not looked up, which elfutils would do.
 */
#include "readers.h"

struct profile;
void __wrap_profile_find_symbols(struct profile *profile);
void __wrap_profile_find_symbols(struct profile *profile)
{
	(void)profile;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *arguments[] = { "--text", NULL, NULL, NULL };
	int status;

	if (!size)
		return -1;
	if (data[0] & 1) {
		arguments[0] = "--output=/dev/null";
	} else if (data[0] & 2) {
		arguments[2] = "--alloc";
	}
	arguments[1] = reader_file(data + 1, size - 1);
	status = reader_run(&cmd_profile, arguments, false);
	expect(status == STATUS_OK || status == STATUS_UNREADABLE);
	return 0;
}
