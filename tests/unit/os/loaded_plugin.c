/* SPDX-License-Identifier: MIT */
/* What test_loaded.cc opens: a function in two versions, and one in an old version alone. */
#include <unistd.h>

int object_plugin_only(void)
{
	return getpid() ? 40 : 0;
}

int object_plugin_variable = 3;
__thread int object_plugin_thread = 5;

int twice_old(void)
{
	return 1;
}

int twice_new(void)
{
	return 2;
}

__asm__(".symver twice_old, object_plugin_twice@OBJECT_1");
__asm__(".symver twice_new, object_plugin_twice@@OBJECT_2");

int gone_old(void)
{
	return 3;
}

__asm__(".symver gone_old, object_plugin_gone@OBJECT_1");
