/* SPDX-License-Identifier: MIT */
/* core/os/loaded.c: what loaded objects define. */
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>

extern "C" {
#include "core/os/loaded.h"
int object_test_first(void) { return 1; }
int object_test_variable = 7;
}

namespace {

const char plugin[] = OBJECT_PLUGIN, plugin_hash[] = OBJECT_PLUGIN_HASH;

int call(void *function)
{
	return ((int (*)())function)();
}

/* Of the loaded object whose name ends so. */
void *symbol_in(const char *end, const char *name)
{
	struct search {
		std::string end;
		const char *name;
		void *found;
	} search = { end, name, nullptr };

	dl_iterate_phdr([](struct dl_phdr_info *info, size_t, void *arg) {
		auto *wanted = (struct search *)arg;
		std::string path = info->dlpi_name;
		struct object object;

		if (path.size() < wanted->end.size() ||
		    path.compare(path.size() - wanted->end.size(), path.npos, wanted->end))
			return 0;
		if (object_read(&object, info))
			wanted->found = object_symbol(&object, wanted->name);
		return 1;
	}, &search);
	return search.found;
}

TEST(loaded, finds_what_the_program_defines)
{
	EXPECT_EQ(loaded_symbol("object_test_first", nullptr), (void *)object_test_first);
	EXPECT_EQ(loaded_symbol("object_test_variable", nullptr), (void *)&object_test_variable);
}

TEST(loaded, finds_what_a_library_defines)
{
	for (const char *name : { "dl_iterate_phdr", "pthread_create" })
		EXPECT_EQ(loaded_symbol(name, nullptr), dlsym(RTLD_DEFAULT, name)) << name;
}

TEST(loaded, finds_nothing_by_a_name_that_nobody_defines)
{
	EXPECT_EQ(loaded_symbol("object_test_of_nobody", nullptr), nullptr);
	EXPECT_EQ(loaded_symbol("", nullptr), nullptr);
}

TEST(loaded, looks_behind_an_object_alone)
{
	EXPECT_EQ(loaded_symbol("object_test_first", (void *)object_test_first), nullptr);
	EXPECT_NE(loaded_symbol("dl_iterate_phdr", (void *)object_test_first), nullptr);
	EXPECT_EQ(loaded_symbol("dl_iterate_phdr", (void *)8), nullptr) << "no object holds it";
}

/* Each table of names, and none that the plugin takes from others or has for old programs. */
TEST(loaded, finds_what_comes_later)
{
	for (const char *path : { plugin, plugin_hash }) {
		SCOPED_TRACE(path);
		ASSERT_EQ(loaded_symbol("object_plugin_only", nullptr), nullptr);
		void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		ASSERT_NE(opened, nullptr) << dlerror();
		void *found = loaded_symbol("object_plugin_only", nullptr);
		ASSERT_NE(found, nullptr);
		EXPECT_EQ(found, dlsym(opened, "object_plugin_only"));
		EXPECT_EQ(call(found), 40);
		EXPECT_EQ(symbol_in(path, "getpid"), nullptr) << "it only calls it";
		EXPECT_NE(symbol_in(path, "object_plugin_variable"), nullptr);
		EXPECT_EQ(symbol_in(path, "object_plugin_thread"), nullptr) << "an offset";
		ASSERT_NE(symbol_in(path, "object_plugin_twice"), nullptr);
		EXPECT_EQ(call(symbol_in(path, "object_plugin_twice")), 2);
		EXPECT_EQ(symbol_in(path, "object_plugin_gone"), nullptr) << "for old programs";
		ASSERT_EQ(dlclose(opened), 0);
	}
}

} /* namespace */
