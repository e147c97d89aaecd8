/* SPDX-License-Identifier: MIT */
/*
 * api_storm: a system that gives no memory.  A seccomp filter hands the library's system calls,
 * and nobody else's, to a thread that lets them happen or answers with the error that the kernel
 * has for them; which, and how often, changes every so many calls.  So glibc's own calls work,
 * and what fails is the library's to answer.
 *
 * A thread and no other process: it needs no rights, and the children of fork keep it.
 */
#include "api_storm.h"

#include <dlfcn.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1	/* Linux 5.5 */
#endif

/* What may be refused, each in the way that it is when memory or descriptors are short. */
static const struct fallible {
	int number;
	int error;
	const char *name;
} fallible[] = {
	{ SYS_mmap, ENOMEM, "mmap" },
	{ SYS_mremap, ENOMEM, "mremap" },
	{ SYS_munmap, ENOMEM, "munmap" },
	{ SYS_mprotect, ENOMEM, "mprotect" },
	{ SYS_madvise, ENOMEM, "madvise" },
	{ SYS_membarrier, ENOMEM, "membarrier" },
	{ SYS_rseq, ENOSYS, "rseq" },
	{ SYS_openat, ENOMEM, "openat" },
	{ SYS_read, ENOMEM, "read" },
	{ SYS_epoll_create1, ENOMEM, "epoll_create1" },
	{ SYS_epoll_ctl, ENOMEM, "epoll_ctl" },
	{ SYS_eventfd2, ENOMEM, "eventfd2" },
	{ SYS_sched_getaffinity, ENOSYS, "sched_getaffinity" },
	{ SYS_getrandom, ENOSYS, "getrandom" },
};

enum {
	FALLIBLE = sizeof(fallible) / sizeof(fallible[0]),
	MEMORY = 5,		/* the first of them give memory, or take it back */
	GROWTH = 3,		/* this one of them */
	HEAD = 5,		/* of the filter */
	/* How long one kind of trouble lasts, at the most: so many steps, or calls. */
	PHASE_STEPS = 400,
	PHASE_CALLS = 20000,
};

static atomic_int listener = -1;
static uint64_t library_start, library_end;
static atomic_bool refusing;
static atomic_bool is_short;	/* no heap grows at the moment */
static bool is_limited;		/* nor ever, beyond SLUB_LIMIT */
static atomic_ulong asked_calls[FALLIBLE], refused_calls[FALLIBLE], refused_requests;

/* ---- the filter ---- */

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	uint64_t address = (uint64_t)(uintptr_t)arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD || address < start ||
		    address >= start + part->p_memsz)
			continue;
		library_start = start;
		library_end = start + part->p_memsz;
		return 1;
	}
	return 0;
}

/* A filter compares words of 32 bits; the library's code has one upper half. */
static void filter_install(void)
{
	const unsigned int ip = offsetof(struct seccomp_data, instruction_pointer);
	struct sock_filter code[HEAD + FALLIBLE + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, library_start >> 32, 0, FALLIBLE + 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)library_start, 0, FALLIBLE + 2),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)library_end, FALLIBLE + 1, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { HEAD + FALLIBLE + 3, code };

	for (unsigned int i = 0; i < FALLIBLE; i++)
		code[HEAD + 1 + i] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)fallible[i].number,
			FALLIBLE - i, 0);
	code[HEAD + 1 + FALLIBLE] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
								SECCOMP_RET_ALLOW);
	code[HEAD + 2 + FALLIBLE] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
								SECCOMP_RET_USER_NOTIF);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fire_skip("no_new_privs: %s", strerror(errno));
	listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (listener < 0)
		fire_skip("seccomp: %s", strerror(errno));
}

/* ---- who answers ---- */

/* The trouble of the moment: these calls, so often in a hundred. */
struct trouble {
	uint64_t calls;		/* a bit for each */
	unsigned int percent;
	long last_step;
	unsigned int calls_left;
};

static void trouble_choose(struct trouble *trouble, uint64_t *random)
{
	static const unsigned int percents[] = { 3, 30, 100, 100 };

	trouble->last_step = storm_steps_left() - (long)fire_below(random, PHASE_STEPS);
	trouble->calls_left = PHASE_CALLS;
	trouble->percent = percents[fire_below(random, 4)];
	switch (fire_below(random, 6)) {
	case 0:
		trouble->percent = 0;	/* for once, none */
		break;
	case 1:
		trouble->calls = ~0ull;
		break;
	case 2:
		trouble->calls = 1ull << fire_below(random, FALLIBLE);
		break;
	case 3:
		trouble->calls = fire_rng(random);
		break;
	default:
		trouble->calls = (1ull << MEMORY) - 1;
		break;
	}
	atomic_store(&is_short, is_limited || (trouble->percent == 100 &&
					       trouble->calls >> GROWTH & 1));
}

static int answer(int number, struct trouble *trouble, uint64_t *random)
{
	unsigned int i = 0;

	while (i < FALLIBLE && fallible[i].number != number)
		i++;
	if (i == FALLIBLE)
		return 0;
	atomic_fetch_add(&asked_calls[i], 1);
	if (!atomic_load(&refusing)) {
		trouble->calls_left = 0;
		return 0;
	}
	if (!trouble->calls_left-- || storm_steps_left() < trouble->last_step)
		trouble_choose(trouble, random);
	if (!(trouble->calls >> i & 1) || fire_below(random, 100) >= trouble->percent)
		return 0;
	atomic_fetch_add(&refused_calls[i], 1);
	return -fallible[i].error;
}

static void *supervisor(void *arg)
{
	uint64_t random = *(uint64_t *)arg;
	struct trouble trouble = { 0 };

	while (atomic_load(&listener) < 0)
		sched_yield();
	for (;;) {
		struct seccomp_notif call = { 0 };
		struct seccomp_notif_resp response = { 0 };

		/* Whoever called may be gone before it is answered. */
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		response.id = call.id;
		response.error = answer(call.data.nr, &trouble, &random);
		if (!response.error)
			response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
	}
	return NULL;
}

static void *be_cancelled(void *arg)
{
	pthread_testcancel();
	for (;;)
		pause();
	return arg;
}

/* What glibc loads in a cancelled thread it takes for granted; so it is loaded before. */
static void load_unwinder(void)
{
	pthread_t id;

	if (pthread_create(&id, NULL, be_cancelled, NULL) || pthread_cancel(id) ||
	    pthread_join(id, NULL))
		fire_fail("no thread to cancel");
}

void refuse_start(uint64_t seed)
{
	void *address = dlsym(RTLD_DEFAULT, "slub_cache_create");
	static uint64_t random;
	sigset_t all, before;
	pthread_t id;

	if (!address || !dl_iterate_phdr(find_library, address))
		fire_fail("the library is nowhere");
	if (library_start >> 32 != library_end >> 32)
		fire_skip("the library lies across 4 GiB");
	is_limited = getenv("SLUB_LIMIT");
	load_unwinder();
	random = fire_rng_state(seed + 1000);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&id, NULL, supervisor, &random))
		fire_fail("no thread");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* Last: from here on somebody has to answer. */
	filter_install();
}

void refuse_begin(void)
{
	atomic_store(&refusing, true);
}

bool is_refusing(void)
{
	return atomic_load(&refusing);
}

bool is_refused(const char *what)
{
	int err = errno;

	errno = 0;
	if (!is_refusing() || err != ENOMEM)
		fire_fail("%s: refused, errno %d", what, err);
	atomic_fetch_add(&refused_requests, 1);
	return true;
}

/* The same of a call that returns 0 or -errno: did it? */
bool is_refused_err(long err, const char *what)
{
	if (!err)
		return false;
	errno = (int)-err;
	return is_refused(what);
}

/* ---- who takes what is left ---- */

struct hoard {
	struct hoard *next;
};

static _Atomic(struct hoard *) hoard;

static void hoard_drop(struct hoard *block)
{
	for (struct hoard *next; block; block = next) {
		next = block->next;
		free(block);
	}
}

/*
 * All memory there is, large blocks first, untouched but for a word; or what somebody has is
 * given back.  Only where no more can be had: else the heap would be too large for the next time.
 */
static void take_hoard(struct thread *t)
{
	struct hoard *mine = atomic_exchange(&hoard, NULL), *block;

	if (mine || !is_refusing() || !atomic_load(&is_short)) {
		hoard_drop(mine);
		return;
	}
	for (size_t size = 16ul << 20; size >= 32; size /= 2 << below(t, 2)) {
		for (int i = 0; i < 64 && atomic_load(&is_short); i++) {
			block = malloc(size);
			if (!block && is_refused("a hoard"))
				break;
			block->next = mine;
			mine = block;
		}
	}
	hoard_drop(atomic_exchange(&hoard, mine));
}

/* ---- who makes so many that the library's own tables have to grow ---- */

enum { MANY = 200 };

static void many_groups(struct thread *t)
{
	struct slub_group *groups[MANY];
	int nr = 0;

	while (nr < MANY && ((groups[nr] = slub_group_create("many", t->group)) ||
			     !is_refused("one of many groups")))
		nr++;
	while (nr)
		check_is(slub_group_destroy(groups[--nr]), 0, 0, "deleting one of many groups");
}

static void many_words(struct thread *t)
{
	uintptr_t words[MANY];
	int nr = 0;

	for (; nr < MANY; nr++) {
		words[nr] = slub_percpu_alloc(8ul << below(t, 9), 8);
		if (!words[nr] && (errno == ENOSPC || is_refused("one of many words")))
			break;
		if (slub_percpu_sum(words[nr]))
			fire_fail("a new word is not 0");
		slub_percpu_add(words[nr], 1);
	}
	while (nr--) {
		check_is(slub_percpu_sum(words[nr]), 1, 1, "one of many words");
		check_is(slub_percpu_free(words[nr]), 0, 0, "freeing one of many words");
	}
}

/* A domain works all the same where there is no memory for it. */
static void many_domains(struct thread *t)
{
	struct slub_srcu domains[MANY];
	int nr = (int)below(t, MANY);

	memset(domains, 0, sizeof(domains));
	for (int i = 0; i < nr; i++) {
		int err = slub_srcu_create(&domains[i]);

		if (err != -ENOSPC)
			is_refused_err(err, "one of many domains");
		slub_srcu_read_unlock(&domains[i], slub_srcu_read_lock(&domains[i]));
	}
	for (int i = 0; i < nr; i++) {
		slub_srcu_synchronize(&domains[i]);
		slub_srcu_destroy(&domains[i]);
	}
}

static void many_caches(struct thread *t)
{
	struct slub_cache *caches[MANY / 4];
	char name[SLUB_CACHE_NAME_MAX + 1];
	struct head *head;
	int nr = 0;

	for (; nr < MANY / 4; nr++) {
		size_t size = sizeof(*head) + 8 + below(t, 3000);

		snprintf(name, sizeof(name), "many-%s-%lu", t->name, (unsigned long)t->next_id++);
		caches[nr] = slub_cache_create(name, size, 0, SLUB_CACHE_NO_MERGE, NULL);
		if (!caches[nr] && is_refused("one of many caches"))
			break;
		head = slub_cache_alloc(caches[nr]);
		object_free(object_mark(t, head, size, caches[nr]));
	}
	while (nr--)
		while (!is_destroyed(t, slub_cache_destroy(caches[nr]), "one of many caches") &&
		       !t->is_child)
			sched_yield();
}

static void take_many(struct thread *t)
{
	static void (*const many[])(struct thread *) = {
		many_groups, many_words, many_domains, many_caches,
	};

	if (atomic_load(&is_short))
		many[below(t, 4)](t);
}

const struct step refuse_steps[] = {
	{ "hoard", take_hoard, 30 },	{ "many", take_many, 10 },
	{ NULL, NULL, 0 },
};

/* When nobody has the listener any more, nobody waits for its answer. */
void refuse_fork_child(void)
{
	if (listener >= 0)
		close(listener);
}

void refuse_end(void)
{
	atomic_store(&refusing, false);
	hoard_drop(atomic_exchange(&hoard, NULL));
}

void refuse_report(void)
{
	printf("%lu requests refused;", atomic_load(&refused_requests));
	for (unsigned int i = 0; i < FALLIBLE; i++)
		if (atomic_load(&asked_calls[i]))
			printf(" %s %lu of %lu", fallible[i].name,
			       atomic_load(&refused_calls[i]), atomic_load(&asked_calls[i]));
	printf("\n");
}
