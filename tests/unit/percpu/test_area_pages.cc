/* SPDX-License-Identifier: MIT */
/* core/percpu/area.c on a system whose pages are larger than 4 KiB, which is pretended. */
#include <gtest/gtest.h>

#include "harness.h"
#include "start.h"

namespace {

size_t pretended;	/* the bytes of a page of the system, 0: as it has */
unsigned int nr_askew;	/* mapped from within one */

} /* namespace */

/* The linker sends the library's calls here (--wrap). */
extern "C" {

size_t __real_os_page_size(void);
int __real_os_map_at(void *start, size_t bytes);

size_t __wrap_os_page_size(void)
{
	return pretended ? pretended : __real_os_page_size();
}

int __wrap_os_map_at(void *start, size_t bytes)
{
	nr_askew += (uintptr_t)start % __wrap_os_page_size() != 0;
	return __real_os_map_at(start, bytes);
}

} /* extern "C" */

namespace {

class area_pages : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::option("TEST_CPUS=128"), start::percpu(); });
	}
};

/* With pages of 64 KiB nothing beyond the first 32 KiB of an area was to be had. */
TEST_F(area_pages, begins_and_grows_by_whole_pages_of_the_system)
{
	for (const char *bytes : { "PERCPU_BYTES=1M", "PERCPU_BYTES=100000" })
		EXPECT_EQ(harness::in_child([&] {
			int failed = 0;

			percpu_exit();
			start::option(bytes);
			pretended = 65536;
			failed |= percpu_init() ? 1 : 0;
			percpu_area_make(20);
			percpu_area_make(21);
			failed |= (percpu_area(21) - percpu_area(20)) % 65536 ? 2 : 0;
			failed |= percpu_committed() % 65536 ? 4 : 0;
			failed |= slub_percpu_alloc(90000, 8) ? 0 : 8;
			failed |= percpu_committed() % 65536 ? 16 : 0;
			failed |= nr_askew ? 32 : 0;
			_exit(failed);
		}), 0) << bytes;
}

} /* namespace */
