/* SPDX-License-Identifier: MIT */
/*
 * The commands that read the memory of a process, which may show them anything, and another thing
 * each time that they look.  The process is this one, with a heap on the library; the input says
 * which of the readings are changed on their way: records of how many readings to pass by, where
 * in the next one, and what.
 *
 * Each reading is of the real memory first, so that the readers get as far as they would.  With
 * SLUB_FUZZ_CORE=FILE the target writes what all of them read as a small core file, a seed for the
 * target `core`, and ends.
 */
#include "readers.h"

#include <elf.h>
#include <errno.h>
#include <sys/procfs.h>
#include <unistd.h>

#include <slub/slub.h>

#include "../../tools/slub/process.h"

enum { NR_CALLS = 21, OBJECTS = 400, RANGES_MAX = 65536, PAGE = 4096 };

void *tested_malloc(size_t);

/* ---- the heap ---- */

static void *watched;

static void heap_make(void)
{
	static void *objects[OBJECTS];
	struct slub_group *group = slub_group_create("fuzz-group", NULL);
	struct slub_cache *cache = slub_cache_create("fuzz-cache", 300, 64, SLUB_CACHE_NO_MERGE,
			NULL);
	struct slub_cache *traced = slub_cache_create("fuzz-traced", 100, 0, SLUB_CACHE_STORE_USER |
						      SLUB_CACHE_RED_ZONE, NULL);
	struct slub_cache *charged = slub_cache_create("fuzz-charged", 56, 0, SLUB_CACHE_ACCOUNT,
						       NULL);

	expect(group && cache && traced && charged && !slub_group_enter(group));
	for (int i = 0; i < OBJECTS; i++)
		objects[i] = i % 4 == 0 ? slub_cache_alloc(cache) :
			     i % 4 == 1 ? slub_cache_alloc(traced) :
			     i % 4 == 2 ? slub_cache_alloc(charged) :
					  tested_malloc((size_t)i * i);
	for (int i = 0; i < OBJECTS; i += 3)
		slub_free(objects[i]);
	slub_group_leave(group);
	watched = objects[7];
}

/* ---- the readings ---- */

static struct input changes;
static unsigned int to_pass;
static bool is_changing;

static struct range {
	uint64_t start, end;
} *ranges;
static size_t nr_ranges;

int __real_process_read(const struct process *process, uint64_t address, void *to,
			size_t bytes);
int __wrap_process_read(const struct process *process, uint64_t address, void *to,
			size_t bytes);

static void change(unsigned char *to, size_t bytes)
{
	static const uint64_t special[] = {
		0, 1, UINT64_MAX, UINT32_MAX, INT64_MAX, INT32_MAX, 0xffff, 0x8000000000000000u,
	};
	unsigned int how = take_byte(&changes), width = 1u << how % 4;
	size_t at = take_number(&changes, 2) * width % bytes;
	uint64_t value = how & 16 ? special[take_below(&changes, 8)] :
				    take_number(&changes, width);

	if (width > bytes - at)
		width = (unsigned int)(bytes - at);
	if (how & 32) {
		uint64_t now = 0;

		memcpy(&now, to + at, width);
		value += now;
	}
	memcpy(to + at, &value, width);
}

/* Some fail, as they do when the process ends or unmaps. */
int __wrap_process_read(const struct process *process, uint64_t address, void *to, size_t bytes)
{
	int error = __real_process_read(process, address, to, bytes);

	if (ranges && !error && nr_ranges < RANGES_MAX)
		ranges[nr_ranges++] = (struct range){ address, address + bytes };
	if (!is_changing || error || !bytes || to_pass--)
		return error;
	change(to, bytes);
	to_pass = take_byte(&changes);
	if (to_pass >= 224)
		to_pass = (to_pass - 223) * 64;
	is_changing = changes.left;
	return to_pass == 17 ? -EFAULT : 0;
}

/* ---- a core of what was read ---- */

static int by_start(const void *a, const void *b)
{
	const struct range *one = a, *other = b;

	return one->start < other->start ? -1 : one->start > other->start;
}

/* As another process sees it. */
static const char *page_read(uint64_t at)
{
	const struct process self = { .pid = getpid() };
	static char bytes[PAGE];

	expect(!__real_process_read(&self, at, bytes, PAGE));
	return bytes;
}

/* By pages, without those that are zero and those that come twice. */
static size_t pages_of(uint64_t *pages)
{
	size_t nr = 0;

	qsort(ranges, nr_ranges, sizeof(*ranges), by_start);
	for (size_t i = 0; i < nr_ranges; i++) {
		uint64_t page = ranges[i].start & -(uint64_t)PAGE;

		if (nr && page <= pages[nr - 1])
			page = pages[nr - 1] + PAGE;
		for (; page < ranges[i].end; page += PAGE) {
			static const char zero[PAGE];

			if (nr < RANGES_MAX && memcmp(page_read(page), zero, PAGE))
				pages[nr++] = page;
		}
	}
	return nr;
}

/* The note of mapped files, of the program only. */
static size_t put_files(char *to, const struct process *process)
{
	uint64_t head[2] = { 0, 1 };
	char *names, *at = to + sizeof(head);

	for (size_t i = 0; i < process->nr_mappings; i++)
		head[0] += !strcmp(process->mappings[i].path, process->program);
	names = at + 3 * sizeof(head[0]) * head[0];
	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];

		if (strcmp(mapping->path, process->program))
			continue;
		memcpy(at, (uint64_t[3]){ mapping->start, mapping->end, mapping->offset },
		       3 * sizeof(uint64_t));
		at += 3 * sizeof(uint64_t);
		names = stpcpy(names, "/a") + 1;
	}
	memcpy(to, head, sizeof(head));
	return (size_t)(names - to);
}

static void write_core(const char *path)
{
	static uint64_t pages[RANGES_MAX];
	static char notes[PAGE];
	size_t nr = pages_of(pages), used;
	Elf64_Ehdr head = {
		.e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = 1,
		.e_phoff = sizeof(head), .e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = (Elf64_Half)(nr + 1), .e_ehsize = sizeof(head),
	};
	Elf64_Nhdr note = { 5, 0, NT_FILE };
	struct process process;
	FILE *to = fopen(path, "w");
	uint64_t at = sizeof(head) + (nr + 1) * sizeof(Elf64_Phdr);
	Elf64_Phdr segment = { .p_type = PT_NOTE, .p_offset = at };

	expect(to && !process_open(&process, getpid()));
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2LSB;
	head.e_ident[EI_VERSION] = 1;
	note.n_descsz = (Elf64_Word)put_files(notes + sizeof(note) + 8, &process);
	memcpy(notes, &note, sizeof(note));
	memcpy(notes + sizeof(note), "CORE", 5);
	used = sizeof(note) + 8 + ((note.n_descsz + 3u) & -4u);
	segment.p_filesz = used;
	fwrite(&head, sizeof(head), 1, to);
	fwrite(&segment, sizeof(segment), 1, to);
	at += used;
	for (size_t i = 0; i < nr; i++, at += PAGE) {
		segment = (Elf64_Phdr){
			.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = at,
			.p_vaddr = pages[i], .p_filesz = PAGE, .p_memsz = PAGE,
		};
		fwrite(&segment, sizeof(segment), 1, to);
	}
	fwrite(notes, used, 1, to);
	for (size_t i = 0; i < nr; i++)
		fwrite(page_read(pages[i]), PAGE, 1, to);
	expect(!fclose(to));
	process_close(&process);
}

/* ---- the target ---- */

static char target[16], address[32];

/* This program's own symbols, and its debug information, would be searched each time. */
struct elf_file;
bool __real_elf_file_symbol(const struct elf_file *file, uint32_t type, const char *name,
			    uint64_t *value);
bool __wrap_elf_file_symbol(const struct elf_file *file, uint32_t type, const char *name,
			    uint64_t *value);
struct profile;
void __wrap_profile_find_symbols(struct profile *profile);

/* Of this file there is one that is looked for. */
bool __wrap_elf_file_symbol(const struct elf_file *file, uint32_t type, const char *name,
			    uint64_t *value)
{
	static uint64_t known;

	if (!known && !__real_elf_file_symbol(file, type, name, &known))
		return false;
	*value = known;
	return true;
}

void __wrap_profile_find_symbols(struct profile *profile)
{
	(void)profile;
}

static void start(void)
{
	const char *core = getenv("SLUB_FUZZ_CORE");

	heap_make();
	snprintf(target, sizeof(target), "%d", (int)getpid());
	snprintf(address, sizeof(address), "%lx", (unsigned long)watched);
	if (!core)
		return;
	ranges = calloc(RANGES_MAX, sizeof(*ranges));
	for (uint8_t i = 0; i < NR_CALLS; i++)
		reader_run_any(i, target, address);
	write_core(core);
	_exit(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t choice;

	if (!*target)
		start();
	changes = (struct input){ data, size };
	choice = take_byte(&changes);
	to_pass = take_byte(&changes);
	is_changing = changes.left;
	reader_run_any(choice, target, address);
	return 0;
}
