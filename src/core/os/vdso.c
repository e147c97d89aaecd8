/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own code in the process (vdso(7)): what time it is, and which CPU this is, without
 * a system call, and without the C library's functions for it, which a preloaded library may have
 * replaced by some that allocate.
 *
 * It is an ELF object, which the kernel has mapped whole; AT_SYSINFO_EHDR is where.  It follows
 * time namespaces by itself.  There may be none: emulators and valgrind hide it, vdso=0 leaves it
 * out, and some CPUs' need another call than C's (platforms that are not named below).
 */
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "core/os/os.h"
#include "core/os/start_only.h"

#if defined(__x86_64__) || (defined(__riscv) && __riscv_xlen == 64) ||	\
	defined(__loongarch64)
#define PREFIX "__vdso_"
#elif defined(__aarch64__)
#define PREFIX "__kernel_"
#else
#define PREFIX ""
#endif

/* Of its dynamic section; its addresses count from where it was linked to. */
struct symbols {
	const char *bias;
	const ElfW(Sym) *table;
	const char *names;
	const uint32_t *hash;		/* DT_HASH */
	const uint32_t *gnu_hash;	/* DT_GNU_HASH: newer kernels have this alone */
};

static bool is_name(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* Symbols up to the last that some chain of the table ends with. */
static uint32_t gnu_count(const uint32_t *hash)
{
	uint32_t nr_buckets = hash[0], first = hash[1], last = 0;
	const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chains = buckets + nr_buckets;

	for (uint32_t i = 0; i < nr_buckets; i++) {
		if (buckets[i] > last)
			last = buckets[i];
	}
	if (last < first)
		return 0;
	while (!(chains[last - first] & 1))
		last++;
	return last + 1;
}

static const ElfW(Dyn) *dynamic_find(const ElfW(Ehdr) *vdso, const char **bias)
{
	const ElfW(Phdr) *part = (const void *)((const char *)vdso + vdso->e_phoff);
	const ElfW(Dyn) *dynamic = NULL;
	bool is_mapped = false;

	for (unsigned int i = 0; i < vdso->e_phnum; i++) {
		const char *in_file = (const char *)vdso + part[i].p_offset;

		if (part[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)in_file;
		if (part[i].p_type == PT_LOAD && !is_mapped) {
			*bias = in_file - part[i].p_vaddr;
			is_mapped = true;
		}
	}
	return is_mapped ? dynamic : NULL;
}

static bool symbols_find(const ElfW(Ehdr) *vdso, struct symbols *found)
{
	const ElfW(Dyn) *entry = dynamic_find(vdso, &found->bias);

	for (; entry && entry->d_tag != DT_NULL; entry++) {
		const void *at = found->bias + entry->d_un.d_ptr;

		switch (entry->d_tag) {
		case DT_SYMTAB:
			found->table = at;
			break;
		case DT_STRTAB:
			found->names = at;
			break;
		case DT_HASH:
			found->hash = at;
			break;
		case DT_GNU_HASH:
			found->gnu_hash = at;
			break;
		}
	}
	return found->table && found->names && (found->hash || found->gnu_hash);
}

static void *vdso_symbol(const struct symbols *in, const char *name)
{
	uint32_t nr = in->hash ? in->hash[1] : gnu_count(in->gnu_hash);

	for (uint32_t i = 0; i < nr; i++) {
		const ElfW(Sym) *symbol = &in->table[i];

		if (symbol->st_shndx != SHN_UNDEF &&
		    is_name(in->names + symbol->st_name, name))
			return (void *)(in->bias + symbol->st_value);
	}
	return NULL;
}

static void vdso_look(struct os_vdso *vdso)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct symbols symbols = { 0 };

	*vdso = (struct os_vdso){ NULL, NULL };
	if (!PREFIX[0] || !header || !symbols_find(header, &symbols))
		return;
	vdso->clock_gettime = vdso_symbol(&symbols, PREFIX "clock_gettime");
	vdso->getcpu = vdso_symbol(&symbols, PREFIX "getcpu");
}

static struct os_vdso known_vdso start_only;
static bool is_known start_only;	/* atomic; set behind it */

const struct os_vdso *os_vdso(void)
{
	struct os_vdso found;

	/* acquire: pairs with the release below */
	if (likely(__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)))
		return &known_vdso;
	/* Two threads that find it write the same. */
	vdso_look(&found);
	__atomic_store_n(&known_vdso.clock_gettime, found.clock_gettime, __ATOMIC_RELAXED);
	__atomic_store_n(&known_vdso.getcpu, found.getcpu, __ATOMIC_RELAXED);
	__atomic_store_n(&is_known, true, __ATOMIC_RELEASE);
	return &known_vdso;
}
