/* SPDX-License-Identifier: MIT */
/* Address space, and the memory behind it. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "core/os/os.h"
#include "core/os/start_only.h"

/* Newer than some headers. */
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

/*
 * The kernel orders an munmap() before the mmap() that gets the same addresses.  These
 * are direct system calls: ThreadSanitizer has to be told.
 */
static void unmap_is_before_map(void)
{
	static uint32_t order;

	if (SLUB_CONFIG_PLAIN_C)
		__atomic_fetch_add(&order, 1, __ATOMIC_ACQ_REL);
}

/* The kernel's answer: an address, or -errno. */
static long map(void *start, size_t bytes, int protection, int flags)
{
	long ret = sys_call6(SYS_mmap, (long)start, (long)bytes, protection,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags,
			     -1, 0);

	unmap_is_before_map();
	return ret;
}

void *os_reserve(size_t bytes)
{
	long ret = map(NULL, bytes, PROT_NONE, 0);

	if (sys_has_failed(ret))
		return NULL;
	/* gdb's gcore would write every reserved page out, as zeros. */
	sys_call4(SYS_madvise, ret, (long)bytes, MADV_DONTDUMP, 0);
	return (void *)ret;
}

void *os_map(size_t bytes)
{
	long ret = map(NULL, bytes, PROT_READ | PROT_WRITE, 0);

	return sys_has_failed(ret) ? NULL : (void *)ret;
}

bool os_has_room(size_t bytes)
{
	long ret = map(NULL, bytes, PROT_NONE, 0);

	if (sys_has_failed(ret))
		return false;
	os_unreserve((void *)ret, bytes);
	return true;
}

void os_unreserve(void *start, size_t bytes)
{
	unmap_is_before_map();
	sys_call4(SYS_munmap, (long)start, (long)bytes, 0, 0);
}

static int map_at(void *start, size_t bytes, int protection)
{
	long ret = map(start, bytes, protection, MAP_FIXED_NOREPLACE);

	if (sys_has_failed(ret))
		return (int)ret;
	/* A kernel that does not know the flag took it for a hint. */
	if (ret != (long)start) {
		os_unreserve((void *)ret, bytes);
		return -EEXIST;
	}
	return 0;
}

int os_map_at(void *start, size_t bytes)
{
	return map_at(start, bytes, PROT_READ | PROT_WRITE);
}

int os_map_closed_at(void *start, size_t bytes)
{
	return map_at(start, bytes, PROT_NONE);
}

/* Shared and closed: charged in full, and not brought in by mlockall(MCL_FUTURE). */
static bool can_map(size_t bytes, int flags)
{
	long ret = sys_call6(SYS_mmap, 0, (long)bytes, PROT_NONE,
			     MAP_SHARED | MAP_ANONYMOUS | flags, -1, 0);

	if (sys_has_failed(ret))
		return false;
	os_unreserve((void *)ret, bytes);
	return true;
}

/*
 * What is refused as charged and not as uncharged is refused for its size.  Where both are it is
 * for the lack of addresses, or each mapping is charged (vm.overcommit_memory = 2), the heap's too:
 * then the heap's own answer counts.
 */
bool os_is_too_much(size_t bytes)
{
	return !can_map(bytes, 0) && can_map(bytes, MAP_NORESERVE);
}

int os_protect(void *start, size_t bytes, bool is_open)
{
	return (int)sys_call4(SYS_mprotect, (long)start, (long)bytes,
			      is_open ? PROT_READ | PROT_WRITE : PROT_NONE, 0);
}

/* libslub.ld has them. */
extern char slub_start_only[] __attribute__((weak, visibility("hidden")));
extern char slub_start_only_end[] __attribute__((weak, visibility("hidden")));

usual void start_only_close(void)
{
	uintptr_t start = (uintptr_t)slub_start_only, end = (uintptr_t)slub_start_only_end;

	/* Where pages are larger than the section, other variables lie in them. */
	if (start && !((start | end) & (os_page_size() - 1)))
		sys_call4(SYS_mprotect, (long)start, (long)(end - start), PROT_READ, 0);
}

int os_commit(void *start, size_t bytes)
{
	sys_call4(SYS_madvise, (long)start, (long)bytes, MADV_DODUMP, 0);
	return os_protect(start, bytes, true);
}

#define ADVISE_TRIES 8

/* EAGAIN: the kernel was short of memory, mostly for a moment; where it stays so, one call. */
static int os_advise(void *start, size_t bytes, int advice)
{
	static _Atomic bool is_short;
	bool was_short = __atomic_load_n(&is_short, __ATOMIC_RELAXED);
	int tries = was_short ? 1 : ADVISE_TRIES;
	long ret;

	do
		ret = sys_call4(SYS_madvise, (long)start, (long)bytes, advice, 0);
	while (ret == -EAGAIN && --tries);
	if (unlikely((ret == -EAGAIN) != was_short))
		__atomic_store_n(&is_short, !was_short, __ATOMIC_RELAXED);
	return (int)ret;
}

/* Not MADV_FREE: RSS falls at once, which is what limits and monitoring look at. */
int os_purge(void *start, size_t bytes)
{
	return os_advise(start, bytes, MADV_DONTNEED);
}

/* Linux 5.14 and later; not asked again where it is not known, or not allowed. */
int os_populate(void *start, size_t bytes)
{
	static _Atomic bool is_refused;
	int err;

	if (__atomic_load_n(&is_refused, __ATOMIC_RELAXED))
		return -EINVAL;
	err = os_advise(start, bytes, MADV_POPULATE_WRITE);
	if (err == -EINVAL || err == -ENOSYS || err == -EPERM)
		__atomic_store_n(&is_refused, true, __ATOMIC_RELAXED);
	return err;
}

/*
 * An emulator of processes (qemu-user) takes advice that it does not know, and does nothing: so a
 * first page is looked at.
 */
static cold bool can_guard(void)
{
	size_t bytes = os_page_size();
	void *page = os_map(bytes);
	bool can;

	if (!page)
		return false;
	can = !os_advise(page, bytes, MADV_GUARD_INSTALL) &&
	      os_advise(page, bytes, MADV_POPULATE_READ);
	os_unreserve(page, bytes);
	return can;
}

cold int os_guard(void *start, size_t bytes, bool is_open)
{
	/* 0: nobody has asked yet */
	static _Atomic int is_known;
	int known = __atomic_load_n(&is_known, __ATOMIC_RELAXED);

	if (unlikely(!known)) {
		known = can_guard() ? 1 : -1;
		__atomic_store_n(&is_known, known, __ATOMIC_RELAXED);
	}
	if (known < 0)
		return -EINVAL;
	return os_advise(start, bytes, is_open ? MADV_GUARD_REMOVE : MADV_GUARD_INSTALL);
}

int os_map_anew(void *start, size_t bytes)
{
	long ret = map(start, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
	int err;

	if (!sys_has_failed(ret))
		return 0;
	err = os_map_at(start, bytes);
	if (!err)
		return 0;
	return err == -EEXIST ? (int)ret : -EFAULT;
}

bool os_locks_mappings(void)
{
	size_t bytes = os_page_size();
	void *page = os_map(bytes);
	bool is_locked;

	if (!page)
		return true;
	is_locked = os_purge(page, bytes) == -EINVAL;
	os_unreserve(page, bytes);
	return is_locked;
}

long os_peek(void *to, const void *from, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)from, bytes };

	return sys_call6(SYS_process_vm_readv, sys_pid(), (long)&local, 1,
			 (long)&remote, 1, 0);
}

/* A byte of each page, as many at a time as the kernel takes. */
#define PAGES_PER_CALL 64
#define PEEK_BYTES ((size_t)4096)

static cold bool can_be_copied(const char *start, size_t pages)
{
	struct iovec remote[PAGES_PER_CALL];
	char bytes[PAGES_PER_CALL];

	while (pages) {
		size_t nr = min_size(pages, PAGES_PER_CALL);
		struct iovec local = { bytes, nr };

		for (size_t i = 0; i < nr; i++)
			remote[i] = (struct iovec){ (void *)(start + i * PEEK_BYTES), 1 };
		if (sys_call6(SYS_process_vm_readv, sys_pid(), (long)&local, 1, (long)remote,
			      (long)nr, 0) != (long)nr)
			return false;
		start += nr * PEEK_BYTES;
		pages -= nr;
	}
	return true;
}

cold bool os_is_readable(const void *start, size_t bytes)
{
	/* 0: nobody has asked yet */
	static _Atomic int is_known;
	int known = __atomic_load_n(&is_known, __ATOMIC_RELAXED);
	uintptr_t page = os_page_size(), here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t from = round_down((uintptr_t)start, page);

	if (unlikely(!known)) {
		known = os_advise((void *)round_down(here, page), 1, MADV_POPULATE_READ) ? -1 : 1;
		__atomic_store_n(&is_known, known, __ATOMIC_RELAXED);
	}
	if (known < 0)
		return can_be_copied(start, (bytes + PEEK_BYTES - 1) / PEEK_BYTES);
	return !os_advise((void *)from, (uintptr_t)start + bytes - from, MADV_POPULATE_READ);
}

void os_withdraw(void *start, size_t bytes)
{
	if (os_protect(start, bytes, false))
		return;
	sys_call4(SYS_madvise, (long)start, (long)bytes, MADV_DONTDUMP, 0);
	os_purge(start, bytes);
}

int os_huge(void *start, size_t bytes, bool on)
{
	return os_advise(start, bytes, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

int os_move(void *from, void *to, size_t bytes)
{
	long ret = sys_call6(SYS_mremap, (long)from, (long)bytes, (long)bytes,
			     MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
			     (long)to, 0);

	if (sys_has_failed(ret))
		return (int)ret;
	/*
	 * It stays mapped, and this changes nothing.  But an emulator of processes (qemu-user 7.2)
	 * takes it for unmapped until it hears of it again: it would refuse system calls that
	 * read or write there, and ignore MADV_DONTNEED.
	 */
	if (os_protect(from, bytes, true))
		map(from, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
	return 0;
}

/* Asked once: in a request no function of the C library is called. */
size_t os_page_size(void)
{
	static _Atomic size_t bytes;
	size_t known = __atomic_load_n(&bytes, __ATOMIC_RELAXED);

	if (unlikely(!known)) {
		known = (size_t)getauxval(AT_PAGESZ);
		__atomic_store_n(&bytes, known, __ATOMIC_RELAXED);
	}
	return known;
}
