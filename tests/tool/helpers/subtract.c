/* SPDX-License-Identifier: MIT */
/*
 * profile_read.c: what came since an earlier look, of each site its own and never less than
 * nothing.  A value may have gone down: of memory in use, and of estimates.
 */
#include <stdio.h>
#include <string.h>

#include "profile.h"
#include "slub.h"

static int failures;

static void expect(const char *what, uint64_t is, uint64_t expected)
{
	if (is == expected)
		return;
	printf("%s is %llu, not %llu\n", what, (unsigned long long)is,
	       (unsigned long long)expected);
	failures++;
}

static void add(struct profile *profile, uint64_t value, const uint64_t *frames, size_t nr)
{
	struct profile_site site = { .samples = value + 1, .live_samples = value + 2 };

	for (int v = 0; v < NR_VALUES; v++)
		site.values[v] = value + 10 * (uint64_t)v;
	profile_add_site(profile, &site, frames, nr);
}

static void expect_site(const struct profile_site *site, uint64_t value, uint64_t more)
{
	for (int v = 0; v < NR_VALUES; v++)
		expect("a value", site->values[v], value + more * 10 * (uint64_t)v);
	expect("samples", site->samples, value + more * 1);
	expect("samples alive", site->live_samples, value + more * 2);
}

int main(void)
{
	static const uint64_t one[] = { 0x1000, 0x2000 }, other[] = { 0x1000, 0x3000 },
			      more[] = { 0x1000, 0x2000, 0x3000 };
	struct profile before = { .pid = 1 }, after = { .pid = 1 };

	add(&before, 1000, one, 2);
	add(&before, 500, other, 2);
	add(&before, 30, other, 1);	/* gone since */
	add(&after, 20, more, 3);	/* was not there */
	add(&after, 400, other, 2);	/* has become less */
	add(&after, 1500, one, 2);
	profile_subtract(&after, &before);
	expect("sites", after.nr_sites, 3);
	expect_site(&after.sites[0], 20, 1);
	expect_site(&after.sites[1], 0, 0);
	expect_site(&after.sites[2], 500, 0);
	/* The earlier look stays as it was. */
	expect_site(&before.sites[0], 1000, 1);
	profile_free(&before);
	profile_free(&after);
	return failures != 0;
}
