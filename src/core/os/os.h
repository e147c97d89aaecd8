/* SPDX-License-Identifier: MIT */
/*
 * os: the kernel's services, one family per file.  Every feature is probed
 * once and its absence is an answer, not an error.  Functions return 0 or
 * -errno, never touch errno and allocate nothing; meta_alloc() takes a lock of
 * its own, the others none.
 */
#ifndef SLUB_OS_H
#define SLUB_OS_H

#include "core/arch/arch.h"

/* map.c: address space and the memory behind it */

/* Reserves @bytes of address space with nothing behind it; NULL: refused. */
void *os_reserve(size_t bytes);
/* Gives part of a reservation back to the system for good. */
void os_unreserve(void *start, size_t bytes);
/* Address space that can be written to at once; NULL: refused. */
void *os_map(size_t bytes);
/*
 * The same at @start, of a place.  -EEXIST: somebody has mapped some of it; nothing
 * was, then.
 */
int os_map_at(void *start, size_t bytes);
/* The same, closed: os_protect() opens it.  Closed pages are not charged. */
int os_map_closed_at(void *start, size_t bytes);
/*
 * Would the kernel refuse a program's own mapping of @bytes for its size?  Under
 * vm.overcommit_memory = 0 it does beyond all memory and swap.  Two or three system calls.
 */
bool os_is_too_much(size_t bytes);
/* Makes reserved pages readable and writable; they read as zero. */
int os_commit(void *start, size_t bytes);
/* The opposite: the memory goes back, nothing can be touched or is dumped. */
void os_withdraw(void *start, size_t bytes);
/* The memory behind goes back; the pages stay usable and read as zero. */
int os_purge(void *start, size_t bytes);
/*
 * Can each page of @bytes from @start, a page's, be read?  Asked by madvise, or on Linux before
 * 5.14 by process_vm_readv.
 */
bool os_is_readable(const void *start, size_t bytes);
/* Copies memory that may be gone: how many bytes were there, or -errno. */
long os_peek(void *to, const void *from, size_t bytes);
/*
 * Maps whole pages that are mapped already anew: nothing of what was asked of the kernel for
 * them counts any more.  -EFAULT: they are mapped no more, which old kernels may do; any other
 * error: they are as they were.
 */
int os_map_anew(void *start, size_t bytes);
/* Are mappings locked as they are made: mlockall(MCL_FUTURE)?  Three system calls. */
bool os_locks_mappings(void);
/* Are there @bytes more of address space for the process?  As of a moment ago. */
bool os_has_room(size_t bytes);
/* May it be touched?  What was in it stays.  0 or -errno. */
int os_protect(void *start, size_t bytes, bool is_open);
/*
 * The same without a mapping of its own, so that a fork has none to copy; what was in it is lost.
 * Linux 6.13 and later, and not where memory is locked: 0 or -errno.
 */
int os_guard(void *start, size_t bytes, bool is_open);
/*
 * Brings the memory behind whole pages at once; an error: touch them.  -EINVAL: it is not
 * known here, and nothing was brought; after any other some of them may be there.
 */
int os_populate(void *start, size_t bytes);
/* Asks for huge pages, or for none. */
int os_huge(void *start, size_t bytes, bool on);
/*
 * Moves the memory behind @from (whole pages) to @to, both committed parts of
 * the reservation.  @from stays committed and reads as zero.
 */
int os_move(void *from, void *to, size_t bytes);
size_t os_page_size(void);

/* place.c: where there is room to grow */
/*
 * A span of @bytes that is free and stays so, aligned to 2 MiB; nothing is there before
 * os_map_at().  NULL: there is none.
 */
void *os_place(size_t bytes);
/* A start that failed has left nothing in its places: the next one looks anew. */
void os_places_forget(void);

/* sandbox.c */
/* Reads @status (/proc/self/status), before anything else is asked for. */
void os_sandbox_read(const char *status);
/* The number of this process, without asking for it where there is a filter; 0: not known. */
uint32_t os_sandbox_pid(void);
/* A seccomp filter was there before the start: only what the C library's start calls is called. */
extern bool os_is_filtered SLUB_INTERNAL;	/* const after start */

/* tcb.c: what the C library knows of the calling thread */
/* Its stack, without the guard; false: nothing is known of it, or it is the first thread. */
bool os_thread_stack(uintptr_t *low, uintptr_t *high);
/* The stack of a thread that has ended, which the C library keeps: for the next one, or a join. */
struct os_stack_left {
	uintptr_t low, high;		/* without the guard and the descriptor behind it */
	uintptr_t kept;			/* so far the descriptor has what is in use, a result too */
	uintptr_t end;			/* of the descriptor */
};
/* Does the mapping from @start to @end, which can be read, end with one? */
bool os_stack_left(uintptr_t start, uintptr_t end, struct os_stack_left *left);
/* Has the process certainly one thread?  As the C library sees it. */
bool os_is_alone(void);
void os_alone_find(void);
/* At the start: learns from the first thread, whose number @first is, where numbers are. */
void os_thread_id_find(uint32_t first);
/* As gettid(2) says it, which it asks where nothing has been learnt. */
uint32_t os_thread_id(void);

/* limits.c: what the process may use */
struct os_limits {
	size_t memory_bytes;	/* physical memory of the machine */
	/* RLIMIT_AS, or a small RLIMIT_DATA; SIZE_MAX: none */
	size_t address_bytes;
};
void os_limits_read(struct os_limits *limits);
/*
 * RLIMIT_AS as of the start, or as of the last time that somebody asked the kernel, which a
 * sandbox may forbid by now; SIZE_MAX: none.
 */
size_t os_address_limit(void);
size_t os_address_limit_ask(void);

/* cgroup.c */
/*
 * The least memory limit of the control groups that the file @membership
 * (/proc/self/cgroup) names, below @mount (/sys/fs/cgroup); 0: none; SIZE_MAX: not
 * known, for no file can be opened at the moment.  Not to be called by two threads
 * at a time.
 */
size_t os_cgroup_memory_max(const char *membership, const char *mount);

/* vdso.c: functions that the kernel has put into the process; NULL: it has not */
struct timespec;
struct os_vdso {
	int (*clock_gettime)(int clock, struct timespec *now);
	long (*getcpu)(unsigned int *cpu, unsigned int *node, void *unused);
};
/* Found by the first call, at the start. */
const struct os_vdso *os_vdso(void);

/* clock.c */
/* Monotonic, to a few milliseconds. */
uint64_t os_clock_ns(void);
/*
 * One of the kernel's clocks, CLOCK_REALTIME to CLOCK_MONOTONIC_COARSE.  What it was last, 0 at
 * first, where the kernel refuses.
 */
uint64_t os_clock_read_ns(int clock);

/* signal.c */
/* Is this certainly a signal handler? */
bool os_is_on_signal_stack(void);
/* Is a signal blocked that has a handler?  If not, this is none, but with SA_NODEFER. */
bool os_blocks_handled_signal(void);

/* cpu.c: how many CPUs there are, and which one this is */
struct os_cpus {
	/* No CPU number is this or more; up to 512 that may be far too many. */
	uint32_t possible;
	uint32_t allowed;	/* by affinity and cpuset, at start */
};
void os_cpus_read(struct os_cpus *cpus);
/* Highest CPU number that can ever be, + 1.  Reads a file. */
uint32_t os_cpus_possible(void);
uint32_t os_cpu_current(void);
/* Its node, as the kernel numbers them. */
uint32_t os_cpu_node(void);
/* Is this the thread that the process began with? */
bool os_thread_is_first(void);
/* Keeps the process on the CPU it is on (uniprocessor build). */
void os_cpu_pin(void);

/* numa.c */
#define OS_NODES_MAX 8
uint32_t os_nodes_read(void);
extern uint32_t os_nr_nodes SLUB_INTERNAL;	/* const after start */
uint32_t os_node_ask(void);
static inline uint32_t os_node_current(void)
{
	return os_nr_nodes == 1 ? 0 : os_node_ask();
}
/*
 * Asks for memory of @node, best effort, where there is none yet.  false: that
 * node has none, or the process was started with a policy of its own.
 */
bool os_node_bind(void *start, size_t bytes, uint32_t node);

/* membarrier.c */
/*
 * Registers, or, where there is a filter, leaves that to the first barrier; false: none will
 * ever work.  The children of a fork are registered as their parent was.
 */
bool os_membarrier_register(void);
/* Restarts every restartable sequence that is under way in this process. */
int os_barrier_rseq(void);
/* Makes every running thread execute a full memory barrier. */
int os_barrier(void);

/* rseq.c: the restartable-sequence area that the C library registered, or that we do */
struct os_rseq {
	bool available;
	bool is_ours;		/* the C library registers none: os_rseq_register() does */
	bool has_mm_cid;
	uintptr_t offset;	/* from the thread pointer */
};
void os_rseq_read(struct os_rseq *rseq);
/*
 * Is the calling thread registered with the kernel, at glibc's place?  Asks the kernel only
 * where nothing in memory says so.
 */
bool os_rseq_is_registered(void);
/*
 * Registers the calling thread's area, where it is ours; false: the kernel refuses.  It has to
 * be given back before the thread's storage is gone, for the kernel writes there.
 */
bool os_rseq_register(void);
void os_rseq_unregister(void);
/* Has the area a CPU number?  The kernel takes it away where a registration ends. */
bool os_rseq_has_cpu(void);
/* That number, as the kernel keeps it; negative: none. */
int32_t os_rseq_cpu(void);

/* file.c: small files of /proc and /sys */
/* Reads at most @size - 1 bytes and terminates them; returns how many. */
long os_file_read(const char *path, char *buf, size_t size);
/* The same by one call, for a file that the kernel gives whole, as it does one short record. */
long os_file_read_once(const char *path, char *buf, size_t size);
/* All of @buf; 0 or -errno. */
long os_write_all(long fd, const char *buf, size_t bytes);
/* The number at *@s, which moves behind it; 0 where there is none. */
size_t os_parse_number(const char **s);
/* The highest number in a list such as "0-3,8-11", plus one; 0: unreadable. */
uint32_t os_list_end(const char *path);
/*
 * Calls @use with the environment, also before the C library has set `environ`;
 * it is there during the call only.
 */
void os_environment_read(void (*use)(char **environment));
bool os_is_secure(void);
/* Word 0 or 1 of what the kernel drew for this process at its start; 0: there is none. */
uint64_t os_random_word(unsigned int nr);
/* place.c: another one at each call, made of both; for the start. */
uint64_t os_drawn_word(void);

/* output.c: files that options and calls name */
/* At the start of the process. */
void os_output_init(uint32_t pid);
/*
 * @path to write to, readable by its owner only; @flags: O_TRUNC, O_APPEND, or O_EXCL for one
 * that must not be there yet.  A descriptor or -errno: -ELOOP for a symbolic link, -EPERM for
 * another user's file, -EMLINK for one with two names, -ENXIO for a FIFO without a reader.
 */
long os_output_open(const char *path, int flags);
/* Says that @path, which @option names, cannot be written. */
void os_output_complain(const char *option, const char *path, long err);
/*
 * The name of the file that @path stands for: %p is the process's number.  @path itself
 * where there is none, else in @buf; NULL if that has no room, for the beginning of a name
 * would be another file's.
 */
const char *os_path(const char *path, char *buf, size_t size);
#define OS_PATH_BYTES 512	/* for what options name */
/* What is written at exit: other processes may have been given the same name. */
struct os_file_id {
	uint64_t inode;
	uint64_t written_ns;
};
/* What there is as @path when the process starts. */
void os_output_expect(struct os_file_id *before, const char *path);
/* False in a forked child without a name of its own: the file is its parent's. */
bool os_output_is_ours(const char *path);
/*
 * Has @write_to write the file that @option names.  Another process may have written @path since
 * this one began, such as the program that a wrapper runs: then it is @path, a dot, and the PID.
 */
void os_output_finish(const struct os_file_id *before, const char *option,
		      const char *path, long (*write_to)(const char *path));

/* meta.c: memory for the library's own structures; never freed */
/* It grows down from @end, by @bytes at the most, and is mapped as far as it is used. */
void meta_init(void *end, size_t bytes);
/* A start has failed: all of it goes back. */
void meta_exit(void);
/* Zeroed, aligned to 64 bytes; NULL: no memory, or no room in the place. */
void *meta_alloc(size_t bytes);
size_t meta_used_bytes(void);
extern struct lock meta_lock __attribute__((visibility("hidden")));

#endif
