/* SPDX-License-Identifier: MIT */
/*
 * A program that loses objects, or only seems to: `leaked CASE` makes one case, says "ready" and
 * waits.  leaked_test.py has the right answer for each.  It frees nothing at its end.
 * `leaked CASE find` asks slub_leaks_find() instead, and prints what that says.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <slub/leaks.h>

#define NR 10

/* The library is preloaded, or it is not there. */
#pragma weak slub_leaks_find

struct node {
	struct node *next, *other;
	uint64_t payload[4];
};

static struct node *volatile first;
static struct node *keep;		/* what leads to objects that are not lost */
static volatile uint64_t hidden;
static __thread struct node *volatile of_thread;

static struct node *node(struct node *next)
{
	struct node *made = calloc(1, sizeof(*made));

	if (!made)
		abort();
	made->next = next;
	memcpy(made->payload, "leaked!", 8);
	return made;
}

static struct node *list(int nr)
{
	struct node *head = NULL;

	while (nr--)
		head = node(head);
	return head;
}

static struct node *tree(int depth)
{
	struct node *made = node(depth ? tree(depth - 1) : NULL);

	made->other = depth ? tree(depth - 1) : NULL;
	return made;
}

static void make_single(void)
{
	node(NULL);
}

/* The library's own pointers lead there too, for the heap begins with it. */
static void make_lowest(void)
{
	first = NULL;
}

static void make_list(void)
{
	list(NR);
}

static void make_kept(void)
{
	keep = list(NR);
}

static void make_ring(void)
{
	struct node *last = node(NULL), *head = last;

	for (int i = 1; i < NR; i++)
		head = node(head);
	last->next = head;
}

static void make_tree(void)
{
	tree(3);
}

/* A chain both ways: no object is one that nothing leads to. */
static void make_doubly(void)
{
	struct node *head = list(NR);

	for (struct node *n = head; n->next; n = n->next)
		n->next->other = n;
}

/* The list is left by its last pointer: the rest of it hangs from a part that is kept. */
static void make_cut(void)
{
	keep = list(NR);
	keep->next->next->next = NULL;
}

static void make_freed(void)
{
	struct node *head = list(NR), *next;

	for (; head; head = next) {
		next = head->next;
		free(head);
	}
}

/* Places are used anew: what was there before is nobody's. */
static void make_reused(void)
{
	make_freed();
	keep = list(NR / 2);
	make_list();
}

static void make_xor(void)
{
	struct node *before = NULL, *now = node(NULL);

	keep = now;
	for (int i = 1; i < NR; i++) {
		struct node *next = node(NULL);

		now->next = (struct node *)((uintptr_t)before ^ (uintptr_t)next);
		if (i == 1)
			now->next = (struct node *)((uintptr_t)next ^ UINT64_C(0x5555555555555555));
		before = now;
		now = next;
	}
	now->next = NULL;
}

static void make_tagged(void)
{
	hidden = (uintptr_t)list(NR) | UINT64_C(0xabcd) << 48;
}

static void make_shifted(void)
{
	hidden = (uint64_t)(uintptr_t)list(NR) >> 4;
}

static void make_inner(void)
{
	keep = (struct node *)&list(NR)->payload[2];
}

static void make_mapped(void)
{
	struct node **place = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	place[100] = list(NR);
}

static void make_tls(void)
{
	of_thread = list(NR);
}

static void make_large(void)
{
	struct node *volatile *large = malloc(1 << 20);

	large[1000] = list(NR);
}

static void make_large_kept(void)
{
	struct node *volatile *large = malloc(1 << 20);

	large[1000] = list(NR);
	keep = (struct node *)large;
}

/* Below its stack pointer a thread has what was once a pointer. */
static __attribute__((noinline)) void *leave_on_stack(void)
{
	struct node *volatile place[64];

	for (int i = 0; i < 64; i++)
		place[i] = NULL;
	place[0] = list(NR);
	return place[1];
}

static void make_stale(void)
{
	leave_on_stack();
}

struct sums {
	size_t direct, beneath;
};

static int add(const struct slub_leak *leak, void *arg)
{
	struct sums *sums = arg;

	sums->direct++;
	sums->beneath += leak->beneath;
	return 0;
}

static int find(void)
{
	struct sums sums = { 0, 0 };
	long leaks = slub_leaks_find ? slub_leaks_find(add, &sums) : -1;

	printf("%ld %zu %zu\n", leaks, sums.direct, sums.beneath);
	fflush(stdout);
	_exit(leaks < 0);
}

static bool is_asked;

static int ready(void)
{
	if (is_asked)
		return find();
	puts("ready");
	return fflush(stdout);
}

static void *sleep_with(void *unused)
{
	struct node *volatile held = list(NR);

	ready();
	pause();
	(void)unused;
	return held;
}

static void *sleep_with_tls(void *unused)
{
	make_tls();
	ready();
	pause();
	return unused;
}

/* ---- threads that have ended ---- */

static volatile pid_t ended;

/* Its stack and its thread-local storage stay mapped: the C library keeps them for the next one. */
static void *end_with(void *unused)
{
	struct node *volatile held[256];
	struct node *head = list(NR);

	for (int i = 0; i < 256; i++)
		held[i] = head;
	of_thread = held[0];
	return unused;
}

static void make_ended(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, end_with, NULL);
	pthread_join(thread, NULL);
}

static void *end_with_result(void *unused)
{
	(void)unused;
	ended = gettid();
	return list(NR);
}

/* Whoever joins it gets the list. */
static void make_unjoined(void)
{
	static pthread_t thread;

	pthread_create(&thread, NULL, end_with_result, NULL);
	while (!ended || !tgkill(getpid(), ended, 0))
		usleep(1000);
}

/* A register that a system call keeps, and no word of memory has it. */
static int wait_with_register(void)
{
#if defined(__x86_64__)
	__asm__ volatile("xor %%eax, %%eax\n\t"
			 "mov %%rax, %1\n"
			 "1:\tmov $34, %%eax\n\t"	/* pause(2) */
			 "syscall\n\t"
			 "jmp 1b" : : "b"(keep), "m"(keep) : "rax", "rcx", "r11", "memory");
#endif
	return 0;
}

static int wait_in_thread(void *(*start)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, start, NULL);
	pthread_join(thread, NULL);
	return 0;
}

/* What the calls before have left on the stack, and in registers. */
static __attribute__((noinline)) void wipe(void)
{
	volatile char place[16384];

	for (size_t i = 0; i < sizeof(place); i++)
		place[i] = 0;
#if defined(__x86_64__)
	__asm__ volatile("xor %%esi, %%esi\n\txor %%edi, %%edi\n\txor %%edx, %%edx\n\t"
			 "xor %%r8d, %%r8d\n\txor %%r9d, %%r9d\n\txor %%r10d, %%r10d\n\t"
			 "pxor %%xmm0, %%xmm0" : : :
			 "rsi", "rdi", "rdx", "r8", "r9", "r10", "xmm0");
#endif
}

/* ---- long lists, in random order ---- */

#define NR_LONG 400000

static uint64_t random_word(void)
{
	static uint64_t word = 88172645463325252u;

	word ^= word << 13;
	word ^= word >> 7;
	word ^= word << 17;
	return word;
}

static void shuffle(struct node **places, size_t nr)
{
	for (size_t i = nr; i-- > 1;) {
		size_t k = random_word() % (i + 1);
		struct node *other = places[i];

		places[i] = places[k];
		places[k] = other;
	}
}

/* @places has NULLs again when it returns. */
static struct node *long_list(struct node **places, size_t nr, bool both_ways)
{
	struct node *head;

	shuffle(places, nr);
	for (size_t i = 0; i + 1 < nr; i++) {
		places[i]->next = places[i + 1];
		if (both_ways)
			places[i + 1]->other = places[i];
	}
	head = places[0];
	memset(places, 0, nr * sizeof(*places));
	return head;
}

/* One is kept; two are lost, of an eighth and a quarter of the objects, all over the heap. */
static void make_long(void)
{
	size_t bytes = NR_LONG * sizeof(struct node *);
	struct node **places = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < NR_LONG; i++)
		places[i % 8 * (NR_LONG / 8) + i / 8] = node(NULL);
	long_list(places, NR_LONG / 8, false);
	long_list(places + NR_LONG / 8, NR_LONG / 4, true);
	keep = long_list(places + NR_LONG / 8 * 3, NR_LONG / 8 * 5, true);
	munmap(places, bytes);
}

#define NR_RING 40

/* Rings whose objects lie all over the heap: every other one is lost. */
static void make_rings(void)
{
	size_t nr = NR_LONG / 2, bytes = nr * sizeof(struct node *);
	struct node **places = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < nr; i++)
		places[i] = node(NULL);
	shuffle(places, nr);
	for (size_t i = 0; i < nr; i++)
		places[i]->next = places[i % NR_RING == NR_RING - 1 ? i + 1 - NR_RING : i + 1];
	for (size_t i = 0; i < nr; i++) {
		if (i % (2 * NR_RING))
			places[i] = NULL;
	}
}

static const struct {
	const char *name;
	void (*make)(void);
} cases[] = {
	{ "single", make_single }, { "list", make_list }, { "kept", make_kept },
	{ "ring", make_ring }, { "tree", make_tree }, { "doubly", make_doubly },
	{ "cut", make_cut }, { "freed", make_freed }, { "reused", make_reused },
	{ "xor", make_xor }, { "tagged", make_tagged }, { "shifted", make_shifted },
	{ "inner", make_inner }, { "mapped", make_mapped }, { "tls", make_tls },
	{ "large", make_large }, { "large_kept", make_large_kept }, { "stale", make_stale },
	{ "register", make_kept }, { "long", make_long }, { "ended", make_ended },
	{ "unjoined", make_unjoined }, { "rings", make_rings }, { "lowest", make_lowest },
};

static int make(const char *name)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, name))
			continue;
		cases[i].make();
		return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	static char buffer[256];

	/* The first object of all is in many a register and on many a stack. */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	first = node(NULL);
	is_asked = argc > 2 && !strcmp(argv[2], "find");
	if (!strcmp(name, "sleeper"))
		return wait_in_thread(sleep_with);
	if (!strcmp(name, "thread_tls"))
		return wait_in_thread(sleep_with_tls);
	if (make(name))
		return 1;
	wipe();
	if (ready())
		return 1;
	if (!strcmp(name, "register"))
		return wait_with_register();
	if (argc > 2)			/* for a tool that looks at the end */
		return 0;
	for (;;)
		pause();
}
