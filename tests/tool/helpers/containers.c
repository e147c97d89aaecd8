/* SPDX-License-Identifier: MIT */
/* container.c on what /proc/PID/cgroup says under several systems. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "in_use.h"
#include "input.h"
#include "text.h"

#define NUMBER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER  "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static const char *file;

FILE *input_kernel(const char *path)
{
	EXPECT_TEXT(path, "/proc/77/cgroup");
	errno = ENOENT;
	return file ? fmemopen((void *)file, strlen(file), "r") : NULL;
}

static void test_texts(void)
{
	static const struct {
		const char *text, *name;
	} all[] = {
		{ "0::/system.slice/docker-" NUMBER ".scope\n", "0123456789ab" },
		{ "0::/kubepods.slice/kubepods-pod12.slice/cri-containerd-" NUMBER ".scope\n",
		  "0123456789ab" },
		{ "0::/../cri-containerd-" NUMBER ".scope\n", "0123456789ab" },
		{ "0::/kubepods/besteffort/pod34/" NUMBER "\n", "0123456789ab" },
		{ "12:memory:/docker/" NUMBER "\n1:cpu:/docker/" OTHER "\n", "0123456789ab" },
		{ "0::/machine.slice/libpod-" OTHER ".scope/container\n", "fedcba987654" },
		/* One in another: the inner one is its own. */
		{ "0::/docker/" NUMBER "/docker/" OTHER "\n", "fedcba987654" },
		{ "0::/system.slice/redis-server.service\n", "redis-server.service" },
		{ "0::/lxc.payload.web/system.slice", "system.slice" },
		{ "0::/\n", "" },
		{ "1:name=systemd:/\n0::/unit\n", "unit" },
		{ "nonsense\n", "" },
		{ "one:colon\n", "" },
		{ "", "" },
		{ "0::/a\tb\n", "a?b" },
		/* No digits of a container: one too few. */
		{ "0::/x/123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
		  "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" },
	};
	char name[CONTAINER_NAME];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		container_of_text(all[i].text, name);
		EXPECT_TEXT(name, all[i].name);
	}
}

static void test_process(void)
{
	char name[CONTAINER_NAME] = "before";

	file = NULL;
	container_of_process(77, name);
	EXPECT_TEXT(name, "");
	file = "0::/docker/" NUMBER "\n";
	container_of_process(77, name);
	EXPECT_TEXT(name, "0123456789ab");
}

static void test_all(void)
{
	test_texts();
	test_process();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
