/* SPDX-License-Identifier: MIT */
/* The pretended machine: the library's core/os/numa.c, cpu.c, rseq.c, membarrier.c and clock.c. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/os/os.h"
#include "core/percpu/percpu.h"

#include "scale.h"

struct machine machine = { .nr_cpus = 1, .nr_nodes = 1, .nr_active = 1 };

/* What the kernel would fill in for the thread. */
static align_to(32) __thread uint32_t rseq_area[8]
	__attribute__((tls_model("initial-exec")));

#define HERE ((uintptr_t)__builtin_return_address(0))

void machine_enter(uint32_t cpu)
{
	machine.cpu = cpu;
	rseq_area[RSEQ_CPU_ID_START / 4] = cpu;
	rseq_area[RSEQ_CPU_ID / 4] = cpu;
	rseq_area[RSEQ_NODE_ID / 4] = machine_node(cpu);
	rseq_area[RSEQ_MM_CID / 4] = cpu;
}

void *own_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED) {
		dprintf(2, "scale: no memory\n");
		_exit(1);
	}
	return memory;
}

/* ---- time ---- */

/* As long after the machine has started as one is up that has been used for a while. */
#define START_NS 1000000000000u

uint64_t os_clock_read_ns(int clock)
{
	(void)clock;
	return START_NS + (uint64_t)*machine_clock();
}

uint64_t os_clock_ns(void)
{
	return os_clock_read_ns(0);
}

/* ---- CPUs and nodes ---- */

uint32_t os_nr_nodes = 1;

uint32_t os_nodes_read(void)
{
	os_nr_nodes = machine.nr_nodes;
	return os_nr_nodes;
}

uint32_t os_node_ask(void)
{
	return machine_node(machine.cpu);
}

/* All memory is of this machine's nodes; who asks is answered that it is so. */
bool os_node_bind(void *start, size_t bytes, uint32_t node)
{
	(void)start;
	(void)bytes;
	(void)node;
	shadow_count(EVENT_MAP, 1, HERE);
	return true;
}

uint32_t os_cpus_possible(void)
{
	return machine.nr_cpus;
}

void os_cpus_read(struct os_cpus *cpus)
{
	cpus->possible = cpus->allowed = machine.nr_cpus;
}

uint32_t os_cpu_current(void)
{
	return machine.cpu;
}

uint32_t os_cpu_node(void)
{
	return machine_node(machine.cpu);
}

void os_cpu_pin(void)
{
}

/* ---- restartable sequences: nothing interrupts them ---- */

void os_rseq_read(struct os_rseq *rseq)
{
	rseq->available = true;
	rseq->is_ours = false;
	rseq->has_mm_cid = true;
	rseq->offset = (uintptr_t)rseq_area - (uintptr_t)__builtin_thread_pointer();
}

bool os_rseq_is_registered(void)
{
	return true;
}

bool os_rseq_register(void)
{
	return false;
}

void os_rseq_unregister(void)
{
}

bool os_thread_is_first(void)
{
	return true;
}

int32_t os_rseq_cpu(void)
{
	return (int32_t)machine.cpu;
}

bool os_rseq_has_cpu(void)
{
	return true;
}

/* ---- what reaches other CPUs ---- */

/* Every other CPU that runs the process is interrupted, and the caller waits for all. */
static void stop_others(uintptr_t pc)
{
	if (!shadow_is_on)
		return;
	for (uint32_t cpu = 0; cpu < machine.nr_active; cpu++) {
		if (cpu != machine.cpu)
			machine.clock_ns[cpu] += NS_STOP;
	}
	shadow_count(EVENT_STOP, machine.nr_active - 1, pc);
	shadow_count(EVENT_REMOTE_NS, (machine.nr_active - 1) * NS_STOP, pc);
	shadow_spend(NS_STOP, pc);
}

static int barrier(uintptr_t pc)
{
	shadow_count(EVENT_BARRIER, 1, pc);
	shadow_spend(NS_CALL, pc);
	stop_others(pc);
	return 0;
}

bool os_membarrier_register(void)
{
	return true;
}

int os_barrier_rseq(void)
{
	return barrier(HERE);
}

int os_barrier(void)
{
	return barrier(HERE);
}

static void call_count(long nr, long advice, uintptr_t pc)
{
	bool unmaps = false;

	switch (nr) {
	case SYS_madvise:
		shadow_count(EVENT_MADVISE, 1, pc);
		unmaps = advice == MADV_DONTNEED || advice == MADV_FREE;
		break;
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
		unmaps = true;
		__attribute__((fallthrough));
	case SYS_mmap:
	case SYS_mbind:
		shadow_count(EVENT_MAP, 1, pc);
		break;
	default:
		shadow_count(EVENT_CALL, 1, pc);
	}
	shadow_spend(nr == SYS_madvise || nr == SYS_mmap || unmaps ? NS_CALL_MAP : NS_CALL, pc);
	if (unmaps)
		stop_others(pc);
}

long sys_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	if (shadow_is_on)
		call_count(nr, c, HERE);
	r10 = d;
	r8 = e;
	r9 = f;
	__asm__ __volatile__("syscall"
			     : "=a"(ret)
			     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			     : "rcx", "r11", "memory");
	return ret;
}

void scale_area(uintptr_t offset)
{
	char *area = percpu_area(machine.cpu);

	if (area)
		shadow_access((uintptr_t)area + offset, sizeof(uint64_t), ACCESS_WRITE, HERE);
}

/* The library's own, but for the first line. */
bool double_word_exchange(struct double_word *where, struct double_word *old,
			  struct double_word new)
{
	bool done;

	shadow_access((uintptr_t)where, sizeof(*where), ACCESS_RMW, HERE);
	__asm__ __volatile__("lock cmpxchg16b %[where]"
			     : "=@ccz"(done), [where] "+m"(*where), "+a"(old->first),
			       "+d"(old->second)
			     : "b"(new.first), "c"(new.second)
			     : "memory");
	return done;
}
