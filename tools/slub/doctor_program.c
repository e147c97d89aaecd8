/* SPDX-License-Identifier: MIT */
/* slub doctor: what a program's file tells. */
#include "doctor.h"
#include "elf_image.h"
#include "input.h"
#include "program.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* A symbol that gives an allocator away, and its name. */
static const struct {
	const char *symbol;
	const char *name;
} allocators[] = {
	{ "mi_malloc", "mimalloc" },
	{ "je_malloc", "jemalloc" },
	{ "_rjem_malloc", "jemalloc (Rust's)" },
	{ "mallocx", "jemalloc" },
	{ "tc_malloc", "tcmalloc" },
	{ "TCMalloc_Internal_SetProfileSamplingRate", "tcmalloc" },
	{ "rpmalloc", "rpmalloc" },
	{ "scalable_malloc", "tbbmalloc" },
};

static const char *const libraries[] = {
	"libjemalloc", "libmimalloc", "libtcmalloc", "libtbbmalloc",
	"libhoard", "libsnmalloc",
};

/* By the function that starts a runtime inside, or the beginning of its library's name. */
static const struct {
	const char *symbol;
	const char *library;
	const char *name;
} sanitizers[] = {
	{ "__asan_init", "libasan.", "AddressSanitizer" },
	{ "__tsan_init", "libtsan.", "ThreadSanitizer" },
	{ "__msan_init", "libclang_rt.msan", "MemorySanitizer" },
	{ "__lsan_init", "liblsan.", "LeakSanitizer" },
};

#define NR_ALLOCATORS (sizeof(allocators) / sizeof(allocators[0]))
#define NR_LIBRARIES  (sizeof(libraries) / sizeof(libraries[0]))
#define NR_SANITIZERS (sizeof(sanitizers) / sizeof(sanitizers[0]))

static bool has_symbol(const struct elf_file *file, const char *name)
{
	uint64_t unused;

	return elf_file_symbol(file, SHT_DYNSYM, name, &unused) ||
	       elf_file_symbol(file, SHT_SYMTAB, name, &unused);
}

/* A program that has libslub inside needs no preloading. */
static bool has_libslub(const struct elf_file *file)
{
	const char *needed;

	if (has_symbol(file, "slub_abi_state"))
		return true;
	for (unsigned int n = 0; (needed = elf_file_needed(file, n)); n++) {
		if (!strncmp(needed, "libslub.so", 10))
			return true;
	}
	return false;
}

static bool examine_libraries(struct doctor *doctor,
			      const struct elf_file *file)
{
	bool found = false;
	const char *needed;

	for (unsigned int n = 0; (needed = elf_file_needed(file, n)); n++) {
		for (size_t i = 0; i < NR_LIBRARIES; i++) {
			if (strncmp(needed, libraries[i],
				    strlen(libraries[i])))
				continue;
			find(doctor, FINDING_NOTE, "allocator",
			     "links %s; a preloaded libslub comes before it, "
			     "but its own interface (mallctl and the like) "
			     "stays its own", needed);
			found = true;
		}
	}
	return found;
}

static bool links(const struct elf_file *file, const char *library)
{
	const char *needed;

	for (unsigned int n = 0; (needed = elf_file_needed(file, n)); n++) {
		if (!strncmp(needed, library, strlen(library)))
			return true;
	}
	return false;
}

static bool examine_sanitizer(struct doctor *doctor, const struct elf_file *file)
{
	const char *first = program_first_library(file);

	if (first && !has_libslub(file)) {
		find(doctor, FINDING_PROBLEM, "sanitizer",
		     "links %s, which ends the program unless it is first; "
		     SANITIZER_ADVICE, first);
		return true;
	}
	for (size_t i = 0; i < NR_SANITIZERS; i++) {
		if (!has_symbol(file, sanitizers[i].symbol) &&
		    !links(file, sanitizers[i].library))
			continue;
		find(doctor, FINDING_NOTE, "sanitizer", "built with %s, whose "
		     "malloc stays the program's: libslub gets what is asked "
		     "for by its own names", sanitizers[i].name);
		return true;
	}
	return false;
}

void doctor_examine_allocators(struct doctor *doctor,
			       const struct elf_file *file)
{
	uint64_t unused;
	bool found = examine_libraries(doctor, file);

	found |= examine_sanitizer(doctor, file);

	if (!has_libslub(file) &&
	    elf_file_symbol(file, SHT_DYNSYM, "malloc", &unused)) {
		find(doctor, FINDING_PROBLEM, "malloc", "the program exports a "
		     "malloc of its own, which comes before a preloaded one");
		found = true;
	}
	for (size_t i = 0; i < NR_ALLOCATORS; i++) {
		if (!has_symbol(file, allocators[i].symbol))
			continue;
		find(doctor, FINDING_NOTE, "allocator", "has %s inside (symbol "
		     "%s); what it allocates by that, libslub never sees",
		     allocators[i].name, allocators[i].symbol);
		found = true;
	}
	if (!found)
		find(doctor, FINDING_OK, "allocator",
		     "none inside that is known to this command");
}

/* What tells that it is a C library's loader, and that it says where rseq areas are. */
#define LOADER_SYMBOL "__tls_get_addr"
#define RSEQ_SYMBOL   "__rseq_offset"

static void ask_loader(struct doctor *doctor, const char *loader)
{
	struct elf_file file;
	int fd = input_open(loader, INPUT_FILE);

	if (fd >= 0 && !elf_file_open(&file, fd)) {
		if (has_symbol(&file, RSEQ_SYMBOL))
			doctor->registers = REGISTERS_THREADS;
		else if (has_symbol(&file, LOADER_SYMBOL))
			doctor->registers = REGISTERS_NONE;
		elf_file_close(&file);
	}
	if (fd >= 0)
		close(fd);
}

void doctor_ask_process(struct doctor *doctor, const struct process *process)
{
	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *m = &process->mappings[i];
		uint64_t unused;

		if (m->offset || !*m->path ||
		    elf_image_symbol(process, m->start, LOADER_SYMBOL, &unused))
			continue;
		doctor->registers = elf_image_symbol(process, m->start,
						     RSEQ_SYMBOL, &unused) ?
				    REGISTERS_NONE : REGISTERS_THREADS;
		return;
	}
}

static void examine_loader(struct doctor *doctor, const struct elf_file *file)
{
	const char *interpreter = elf_file_interpreter(file);
	char ours[NAME_MAX + 1];

	if (has_libslub(file))
		find(doctor, FINDING_OK, "libslub", "linked into the program: "
		     "nothing needs to be preloaded");
	else if (!interpreter)
		find(doctor, FINDING_PROBLEM, "loader", "a static program: it "
		     "has no loader that could preload libslub.so; link it "
		     "with libslub.a");
	else if (access(interpreter, F_OK))
		find(doctor, FINDING_PROBLEM, "loader", "%s does not exist",
		     interpreter);
	else if (!program_same_loader(interpreter, ours, sizeof(ours)))
		find(doctor, FINDING_PROBLEM, "loader", "%s is of another C "
		     "library than libslub's (%s)", interpreter, ours);
	else
		find(doctor, FINDING_OK, "loader", "%s", interpreter);
	if (interpreter && !access(interpreter, R_OK))
		ask_loader(doctor, interpreter);
}

static void examine_pages(struct doctor *doctor, const struct elf_file *file)
{
	uint64_t align = elf_file_align(file);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (align && align < page)
		find(doctor, FINDING_PROBLEM, "page size", "linked for pages of "
		     "%lu bytes; this system has %lu", (unsigned long)align,
		     (unsigned long)page);
	else
		find(doctor, FINDING_OK, "page size",
		     "%lu bytes; libslub works with any", (unsigned long)page);
}

static void examine_elf(struct doctor *doctor, const struct elf_file *file)
{
	struct elf_file self;
	int fd;

	if (!elf_file_is_native(file)) {
		find(doctor, FINDING_PROBLEM, "machine", "a program of another "
		     "kind of machine: %u-bit, type %u",
		     32 * elf_file_class(file), elf_file_machine(file));
		return;
	}
	fd = input_open("/proc/self/exe", INPUT_FILE);
	if (fd >= 0 && !elf_file_open(&self, fd)) {
		if (!elf_file_same_kind(file, &self))
			find(doctor, FINDING_PROBLEM, "machine", "type %u; "
			     "libslub is for type %u", elf_file_machine(file),
			     elf_file_machine(&self));
		elf_file_close(&self);
	}
	if (fd >= 0)
		close(fd);
	examine_loader(doctor, file);
	doctor_examine_allocators(doctor, file);
	examine_pages(doctor, file);
	find(doctor, FINDING_OK, "TLS", "the program has %lu bytes; libslub "
	     "adds a little to the static block, so it must be there from the "
	     "start (preloaded or linked, not dlopened)",
	     (unsigned long)elf_file_tls_bytes(file));
}

void doctor_examine_file(struct doctor *doctor, const char *path, int fd)
{
	const char *privilege = program_privilege(fd, path);
	struct elf_file file;
	int error;

	if (privilege)
		find(doctor, FINDING_PROBLEM, "privilege", "it is %s, and the "
		     "loader preloads nothing into a program with more rights "
		     "than its user", privilege);
	else
		find(doctor, FINDING_OK, "privilege",
		     "runs with the rights of its user");
	error = elf_file_open(&file, fd);
	if (error) {
		find(doctor, FINDING_PROBLEM, "file", "%s",
		     error == -ENOEXEC ? "a damaged ELF file" :
					 strerror(-error));
		return;
	}
	examine_elf(doctor, &file);
	elf_file_close(&file);
}
