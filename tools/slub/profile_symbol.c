/* SPDX-License-Identifier: MIT */
/*
 * From addresses to functions, files and lines, by elfutils, from the files that
 * the process had mapped.  A file that has another build ID by now is not asked:
 * wrong names would be worse than none.
 */
#include "demangle.h"
#include "profile.h"
#include "progress.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

#if SLUB_TOOL_LIBDW
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include "profile_elf.h"

/* The last ones: the stacks of one process mostly lie in the same files. */
static Dwfl *modules;
static char *modules_maps;

/* The functions of one unit, by their addresses as the file has them. */
struct code {
	Dwarf_Addr low, high;
	Dwarf_Die die;
};

static struct {
	const void *unit;		/* whose they are */
	struct code *all;
	size_t nr, size;
} functions;

static void forget_functions(void)
{
	free(functions.all);
	memset(&functions, 0, sizeof(functions));
}

static void close_modules(void)
{
	forget_functions();
	if (modules)
		dwfl_end(modules);
	free(modules_maps);
	modules = NULL;
	modules_maps = NULL;
}

static void report_modules(char *text)
{
	FILE *maps = *text ? fmemopen(text, strlen(text), "r") : NULL;

	if (!maps)
		return;
	dwfl_report_begin(modules);
	dwfl_linux_proc_maps_report(modules, maps);
	dwfl_report_end(modules, NULL, NULL);
	fclose(maps);
}

static Dwfl *open_modules(const struct profile *profile)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = profile_elf_find,
		.find_debuginfo = profile_elf_debuginfo,
	};
	static bool is_closed_at_exit;

	if (modules && !strcmp(modules_maps, profile->maps ? profile->maps : ""))
		return modules;
	close_modules();
	if (!is_closed_at_exit)
		is_closed_at_exit = !atexit(close_modules);
	modules = dwfl_begin(&callbacks);
	modules_maps = must_have(strdup(profile->maps ? profile->maps : ""));
	if (modules)
		report_modules(modules_maps);
	return modules;
}

static bool is_same_build(Dwfl_Module *module, const char *hex)
{
	const unsigned char *id;
	GElf_Addr where;
	int bytes;

	/* Reads the file, and with it the ID. */
	GElf_Addr bias;
	if (!dwfl_module_getelf(module, &bias))
		return false;
	bytes = dwfl_module_build_id(module, &id, &where);
	if (!hex || bytes <= 0)
		return true;
	if (strlen(hex) != 2 * (size_t)bytes)
		return false;
	for (int i = 0; i < bytes; i++) {
		char digits[3];

		snprintf(digits, sizeof(digits), "%02x", id[i]);
		if (memcmp(digits, hex + 2 * i, 2))
			return false;
	}
	return true;
}

static void set_name(const char *name, char **function, char **symbol)
{
	*function = demangle(name);
	if (*function)
		*symbol = must_have(strdup(name));
	else
		*function = must_have(strdup(name));
	clean_string(*function);
}

/* ---- inlined functions ---- */

#define DEPTH_MAX 64	/* of functions in each other */

/* The inlined functions that an address lies in, the outermost first. */
struct inlined {
	Dwarf_Die unit;
	Dwarf_Die calls[DEPTH_MAX];
	size_t nr;
};

/* Namespaces and types have no addresses, and the functions of some languages lie in them. */
static bool may_hold_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type;
}

static bool is_code(int tag)
{
	return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
	       tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

static void add_function(Dwarf_Die *die)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
		if (functions.nr == functions.size) {
			functions.size = functions.size ? 2 * functions.size : 256;
			functions.all = must_have(reallocarray(functions.all, functions.size,
							       sizeof(*functions.all)));
		}
		functions.all[functions.nr++] = (struct code){ low, high, *die };
	}
}

static void add_functions(Dwarf_Die *in, int depth)
{
	Dwarf_Die child;
	int more = dwarf_child(in, &child);

	for (; !more; more = dwarf_siblingof(&child, &child)) {
		int tag = dwarf_tag(&child);

		if (tag == DW_TAG_subprogram)
			add_function(&child);
		else if (depth < DEPTH_MAX && may_hold_functions(tag))
			add_functions(&child, depth + 1);
	}
}

static int compare_code(const void *a, const void *b)
{
	const struct code *one = a, *other = b;

	return compare_numbers(one->low, other->low);
}

/* One look at a unit serves all addresses in it. */
static bool find_function(Dwarf_Die *unit, Dwarf_Addr address, Dwarf_Die *function)
{
	size_t low = 0, high;

	if (functions.unit != unit->addr) {
		forget_functions();
		add_functions(unit, 0);
		functions.unit = unit->addr;
		if (functions.nr)
			qsort(functions.all, functions.nr, sizeof(*functions.all), compare_code);
	}
	high = functions.nr;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (functions.all[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address >= functions.all[low - 1].high)
		return false;
	*function = functions.all[low - 1].die;
	return true;
}

/* The part of a function that has the address. */
static bool find_part(Dwarf_Die *die, Dwarf_Addr address, Dwarf_Die *part)
{
	Dwarf_Die child;
	int more = dwarf_child(die, &child);

	for (; !more; more = dwarf_siblingof(&child, &child)) {
		if (is_code(dwarf_tag(&child)) && dwarf_haspc(&child, address) > 0) {
			*part = child;
			return true;
		}
	}
	return false;
}

static void find_inlined(struct inlined *inlined, Dwfl_Module *module, uint64_t address)
{
	Dwarf_Addr bias = 0;
	Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), part;

	inlined->nr = 0;
	if (!unit)
		return;
	inlined->unit = *unit;
	if (!find_function(unit, address - bias, &part))
		return;
	while (inlined->nr < DEPTH_MAX && find_part(&part, address - bias, &part)) {
		if (dwarf_tag(&part) == DW_TAG_inlined_subroutine)
			inlined->calls[inlined->nr++] = part;
	}
}

/* As its own symbol would be called. */
static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *name =
		dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));

	if (!name)
		name = dwarf_diename(die);
	return name ? name : "?";
}

static uint64_t number_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number = 0;

	dwarf_formudata(dwarf_attr(die, name, &attribute), &number);
	return number;
}

/* Where @call was. */
static void name_line(struct inlined *inlined, Dwarf_Die *call, struct profile_outer *outer)
{
	uint64_t number = number_of(call, DW_AT_call_file);
	Dwarf_Files *files;
	const char *file = NULL;
	size_t nr;

	if (!dwarf_getsrcfiles(&inlined->unit, &files, &nr) && number < nr)
		file = dwarf_filesrc(files, number, NULL, NULL);
	if (file) {
		outer->file = clean_string(must_have(strdup(file)));
		outer->line = (unsigned int)number_of(call, DW_AT_call_line);
	}
}

/* The location has the name of the function that was compiled, and the innermost line. */
static void name_inlined(Dwfl_Module *module, struct profile_location *location)
{
	static struct inlined inlined;
	size_t nr;

	find_inlined(&inlined, module, location->address);
	nr = inlined.nr;
	if (!nr || !location->function)
		return;
	location->outers = must_have(calloc(nr, sizeof(*location->outers)));
	location->nr_outers = nr;
	for (size_t i = 0; i < nr; i++) {
		struct profile_outer *outer = &location->outers[i];

		if (i + 1 < nr)
			set_name(name_of(&inlined.calls[nr - i - 2]), &outer->function,
				 &outer->symbol);
		name_line(&inlined, &inlined.calls[nr - i - 1], outer);
	}
	location->outers[nr - 1].function = location->function;
	location->outers[nr - 1].symbol = location->symbol;
	location->symbol = NULL;
	set_name(name_of(&inlined.calls[nr - 1]), &location->function, &location->symbol);
}

/* ---- the whole ---- */

static void name_location(Dwfl_Module *module,
			  struct profile_location *location)
{
	const char *name = dwfl_module_addrname(module, location->address);
	Dwfl_Line *line = dwfl_module_getsrc(module, location->address);
	const char *file = NULL;
	int number = 0;

	if (name)
		set_name(name, &location->function, &location->symbol);
	if (line)
		file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	if (file) {
		location->file = clean_string(must_have(strdup(file)));
		location->line = (unsigned int)number;
		name_inlined(module, location);
	}
}

static int compare_places(const void *a, const void *b)
{
	struct profile_location *const *one = a, *const *other = b;

	return compare_numbers((*one)->address, (*other)->address);
}

/* By address: those of one unit come one behind the other. */
static struct profile_location **in_order(const struct profile *profile)
{
	struct profile_location **all =
		must_have(calloc(profile->nr_locations + 1, sizeof(struct profile_location *)));

	for (size_t i = 0; i < profile->nr_locations; i++)
		all[i] = &profile->locations[i];
	qsort(all, profile->nr_locations, sizeof(struct profile_location *), compare_places);
	return all;
}

void profile_find_symbols(struct profile *profile)
{
	struct profile_location **all = in_order(profile);
	Dwfl *dwfl = open_modules(profile);

	for (size_t i = 0; dwfl && i < profile->nr_locations; i++) {
		struct profile_location *location = all[i];
		struct profile_mapping *mapping;
		Dwfl_Module *module;

		progress("looking up functions", i, profile->nr_locations);
		if (!location->mapping)
			continue;
		mapping = &profile->mappings[location->mapping - 1];
		module = dwfl_addrmodule(dwfl, location->address);
		if (!module || !is_same_build(module, mapping->build_id))
			continue;
		name_location(module, location);
		mapping->has_symbols |= location->function != NULL;
	}
	free(all);
	progress_end();
}

#else

/* pprof can find them itself where it finds the files. */
void profile_find_symbols(struct profile *profile)
{
	(void)profile;
	complain("profile: built without elfutils: no names of functions");
}

#endif
