/* SPDX-License-Identifier: MIT */
/*
 * A program whose one thread waits in one kind of system call, again and again, and looks at all
 * that a call could get wrong: a result that is not the kernel's, a call that ends early, bytes or
 * signals that are lost, registers and stack that differ.  A child, which nobody wakes, writes and
 * sends signals.
 *
 *   waits KIND    until a line or the end comes on its standard input; then prints
 *                 "CALLS calls, SIGNALS signals, ERRORS errors, late by US us at the most"
 *
 * Late is no error: a machine may stop any program for as long as it likes.
 *
 * The child hears of each call by a counter in shared memory, so a call that should have ended
 * and did not shows: it is an error after STUCK_SECONDS.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STUCK_SECONDS 20
#define NUMBERED SIGRTMIN	/* the child queues these, each with a number */

struct shared {
	_Atomic uint32_t calls;		/* that have returned */
	_Atomic uint32_t inside;	/* the next one has begun, about */
	_Atomic uint32_t word;		/* a futex */
	_Atomic uint32_t begun, ended;	/* wakes of it, by FUTEX_WAKE */
	_Atomic uint32_t sent, seen;	/* signals */
	_Atomic uint32_t errors;
	_Atomic uint32_t is_over;
};

static struct shared *shared;
static int pipe_ends[2];
static pid_t parent;
static volatile uint32_t handled;
static double latest;		/* seconds behind the end of a call's time */
static int wait_ms;		/* that time, of calls that may be long */

static void wrong(const char *format, ...)
{
	char line[200];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	shared->errors++;
	fprintf(stderr, "waits: %s\n", line);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void sleep_us(long us)
{
	struct timespec time = { 0, us * 1000 };

	syscall(SYS_nanosleep, &time, NULL);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	handled++;
	if ((uint32_t)info->si_value.sival_int != handled)
		wrong("signal %d came as number %u", info->si_value.sival_int, handled);
	shared->seen = handled;
}

/* ---- calls; each returns when it has ended once ---- */

/* It is over, and took what it must. */
static void took(const char *what, double start, double least, long result, long expected)
{
	double seconds = now() - start;

	if (result != expected)
		wrong("%s: %ld instead of %ld, errno %d", what, result, expected, errno);
	if (result == 0 && seconds < least)
		wrong("%s ended after %.6f s instead of %.6f", what, seconds, least);
	if (result == 0 && least > 0 && seconds - least > latest)
		latest = seconds - least;
}

static unsigned char expected_byte;

static void take_byte(void)
{
	unsigned char byte = 0;
	ssize_t nr = read(pipe_ends[0], &byte, 1);

	if (nr != 1)
		wrong("read: %zd, errno %d", nr, errno);
	else if (byte != expected_byte)
		wrong("byte %d instead of %d", byte, expected_byte);
	expected_byte++;
}

static void in_read(void)
{
	take_byte();
}

static void in_poll(void)
{
	struct pollfd poll_fd = { pipe_ends[0], POLLIN, 0 };
	double start = now();
	int nr = poll(&poll_fd, 1, wait_ms);

	took("poll", start, wait_ms / 1000.0, nr, nr > 0 ? 1 : 0);
	if (nr > 0)
		take_byte();
}

static void in_select(void)
{
	struct timeval time = { 0, 7000 };
	double start = now();
	fd_set set;
	int nr;

	FD_ZERO(&set);
	FD_SET(pipe_ends[0], &set);
	nr = select(pipe_ends[0] + 1, &set, NULL, NULL, &time);
	took("select", start, 0.007, nr, nr > 0 ? 1 : 0);
	if (nr > 0)
		take_byte();
}

static int epoll(void)
{
	static int fd = -1;
	struct epoll_event event = { .events = EPOLLIN };

	if (fd < 0) {
		fd = epoll_create1(0);
		epoll_ctl(fd, EPOLL_CTL_ADD, pipe_ends[0], &event);
	}
	return fd;
}

static void in_epoll(void)
{
	struct epoll_event event;
	int nr = epoll_wait(epoll(), &event, 1, -1);

	took("epoll_wait", 0, 0, nr, 1);
	if (nr > 0)
		take_byte();
}

static void in_epoll_timed(void)
{
	struct epoll_event event;
	double start = now();
	/* Not always the same: one that is made anew is another one. */
	int ms = wait_ms + (int)(shared->calls % 4);
	int nr = epoll_wait(epoll(), &event, 1, ms);

	took("epoll_wait", start, ms / 1000.0, nr, nr > 0 ? 1 : 0);
	if (nr > 0)
		take_byte();
}

static void in_nanosleep(void)
{
	struct timespec time = { 0, wait_ms * 1000000 };
	double start = now();

	took("nanosleep", start, wait_ms / 1000.0, syscall(SYS_nanosleep, &time, NULL), 0);
}

static void in_futex(void)
{
	struct timespec time = { 0, 7000000 };
	/* The wake may come long after its word: it is of the call before then. */
	uint32_t ended = shared->ended, before = shared->word;
	double start = now();
	long result = syscall(SYS_futex, &shared->word, FUTEX_WAIT, before, &time, NULL, 0);

	if (result == 0) {
		if (shared->begun == ended)
			wrong("futex: woken by nobody");
	} else if (errno == EAGAIN) {
		if (shared->word == before)
			wrong("futex: the word has not changed");
	} else if (errno != ETIMEDOUT) {
		wrong("futex: errno %d", errno);
	} else {
		took("futex", start, 0.007, 0, 0);
	}
}

static void count_signal(long number, const siginfo_t *info)
{
	if (number != NUMBERED) {
		wrong("sigwait: %ld, errno %d", number, errno);
		return;
	}
	handled++;
	if ((uint32_t)info->si_value.sival_int != handled)
		wrong("signal %d came as number %u", info->si_value.sival_int, handled);
	shared->seen = handled;
}

static void in_sigwait(void)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, NUMBERED);
	count_signal(sigwaitinfo(&set, &info), &info);
}

/* The signal is let in by the call alone, so each ends one call. */
static void in_masked(bool suspends)
{
	uint32_t before = handled;
	sigset_t none;
	int result;

	sigemptyset(&none);
	result = suspends ? sigsuspend(&none) : ppoll(NULL, 0, NULL, &none);
	if (result != -1 || errno != EINTR)
		wrong("masked: %d, errno %d", result, errno);
	if (handled == before)
		wrong("masked: EINTR without a signal");
}

static void in_sigsuspend(void)
{
	in_masked(true);
}

static void in_ppoll(void)
{
	in_masked(false);
}

static void in_epoll_pwait(void)
{
	uint32_t before = handled;
	struct epoll_event event;
	sigset_t none;
	int result;

	sigemptyset(&none);
	result = epoll_pwait(epoll(), &event, 1, -1, &none);
	if (result != -1 || errno != EINTR || handled == before)
		wrong("epoll_pwait: %d, errno %d, %u signals", result, errno, handled - before);
}

/* The child sends a signal when this waits: that must end the call, which has no time. */
static void ended_by_signal(const char *what, int result, uint32_t before)
{
	if (result != -1 || errno != EINTR)
		wrong("%s: %d, errno %d", what, result, errno);
	if (handled == before)
		wrong("%s: EINTR without a signal", what);
}

static void in_epoll_signal(void)
{
	struct epoll_event event;
	uint32_t before = handled;

	shared->inside++;
	ended_by_signal("epoll_wait", epoll_wait(epoll(), &event, 1, -1), before);
}

static void in_pause(void)
{
	uint32_t before = handled;

	shared->inside++;
	ended_by_signal("pause", pause(), before);
}

static void in_poll_signal(void)
{
	struct pollfd poll_fd = { pipe_ends[0], POLLIN, 0 };
	uint32_t before = handled;

	shared->inside++;
	ended_by_signal("poll", poll(&poll_fd, 1, 60000), before);
}

#if defined(__x86_64__)
/*
 * A sleep with a pattern in each register and below the stack's pointer, where a leaf function may
 * have its variables.
 */
struct image {
	uint64_t general[16];
	unsigned char vector[16][32];
	unsigned char below[128];
};

long sleep_image(const struct timespec *time, struct image *in, struct image *out);

__asm__(".text\n.globl sleep_image\nsleep_image:\n\t"
	"pushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
	"pushq %rdx\n\t"
	"leaq 128+512(%rsi), %rax\n\t"
	"movq %rsp, %rcx\n\tsubq $128, %rcx\n\t"
	".irp n,0,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120\n\t"
	"movq \\n(%rax), %rbx\n\tmovq %rbx, \\n(%rcx)\n\t.endr\n\t"
	".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
	"vmovdqu 128+32*\\n(%rsi), %ymm\\n\n\t.endr\n\t"
	"movq 8*3(%rsi), %rbx\n\tmovq 8*5(%rsi), %rbp\n\tmovq 8*2(%rsi), %rdx\n\t"
	"movq 8*8(%rsi), %r8\n\tmovq 8*9(%rsi), %r9\n\tmovq 8*10(%rsi), %r10\n\t"
	"movq 8*12(%rsi), %r12\n\tmovq 8*13(%rsi), %r13\n\tmovq 8*14(%rsi), %r14\n\t"
	"movq 8*15(%rsi), %r15\n\t"
	"xorl %esi, %esi\n\t"
	"movl $35, %eax\n\tsyscall\n\t"
	"movq (%rsp), %rsi\n\t"
	"movq %rdx, 8*2(%rsi)\n\tmovq %rbx, 8*3(%rsi)\n\tmovq %rbp, 8*5(%rsi)\n\t"
	"movq %r8, 8*8(%rsi)\n\tmovq %r9, 8*9(%rsi)\n\tmovq %r10, 8*10(%rsi)\n\t"
	"movq %r12, 8*12(%rsi)\n\tmovq %r13, 8*13(%rsi)\n\tmovq %r14, 8*14(%rsi)\n\t"
	"movq %r15, 8*15(%rsi)\n\t"
	".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
	"vmovdqu %ymm\\n, 128+32*\\n(%rsi)\n\t.endr\n\t"
	"vzeroupper\n\t"
	"leaq 128+512(%rsi), %rdi\n\t"
	"movq %rsp, %rcx\n\tsubq $128, %rcx\n\t"
	".irp n,0,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120\n\t"
	"movq \\n(%rcx), %rbx\n\tmovq %rbx, \\n(%rdi)\n\t.endr\n\t"
	"popq %rdx\n\t"
	"popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\tret\n");

static void in_registers(void)
{
	struct timespec time = { 0, 7000000 };
	struct image in, out;
	unsigned char *bytes = (unsigned char *)&in;
	double start = now();

	if (!__builtin_cpu_supports("avx")) {
		in_nanosleep();
		return;
	}
	for (size_t i = 0; i < sizeof(in); i++)
		bytes[i] = (unsigned char)(i * 37 + shared->calls);
	out = in;
	memset(out.vector, 0, sizeof(out.vector));
	memset(out.below, 0, sizeof(out.below));
	took("nanosleep", start, 0.007, sleep_image(&time, &in, &out), 0);
	if (memcmp(&in, &out, sizeof(in)))
		wrong("registers or the bytes below the stack differ: general %d, vector %d, "
		      "below %d", memcmp(in.general, out.general, sizeof(in.general)),
		      memcmp(in.vector, out.vector, sizeof(in.vector)),
		      memcmp(in.below, out.below, sizeof(in.below)));
}
#endif

/* Allocates and frees beside its waits, and looks at what it has. */
static void in_busy(void)
{
	static unsigned char *kept[500];
	static uint32_t seed = 1;
	struct timespec time = { 0, 200000 };

	for (int i = 0; i < 2000; i++) {
		seed = seed * 1664525 + 1013904223;
		uint32_t n = seed >> 8, place = n % 500, size = n % 3000 + 16;

		if (kept[place]) {
			uint32_t had;

			memcpy(&had, kept[place], 4);
			if (kept[place][had - 1] != (unsigned char)(had * 7))
				wrong("an object of %u bytes was written to", had);
			free(kept[place]);
		}
		kept[place] = malloc(size);
		memcpy(kept[place], &size, 4);
		kept[place][size - 1] = (unsigned char)(size * 7);
	}
	syscall(SYS_nanosleep, &time, NULL);
}

/* ---- the child ---- */

static void write_bytes(void)
{
	for (unsigned char byte = 0;; byte++) {
		if (write(pipe_ends[1], &byte, 1) != 1)
			_exit(0);
		sleep_us(500 + (byte * 131) % 12000);
	}
}

static void stuck(uint32_t number)
{
	wrong("signal %u has ended no call in %d s", number, STUCK_SECONDS);
	kill(parent, SIGKILL);
	_exit(1);
}

static void queue_signals(void)
{
	for (uint32_t number = 1;; number++) {
		union sigval value = { .sival_int = (int)number };
		double start = now();

		sleep_us(300 + (number * 137) % 6000);
		if (shared->is_over || getppid() != parent || sigqueue(parent, NUMBERED, value))
			_exit(0);
		while (shared->seen != number) {
			if (now() - start > STUCK_SECONDS)
				stuck(number);
			sleep_us(50);
		}
	}
}

/* Is the parent in a call, and was it seen there? */
static bool is_waiting(void)
{
	char path[64], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/wchan", (int)parent);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 1)
		_exit(0);
	close(fd);
	return text[0] != '0' && strncmp(text, "ptrace", 6) != 0;
}

static void signal_waits(void)
{
	for (uint32_t number = 1;; number++) {
		union sigval value = { .sival_int = (int)number };
		double start = now();

		while (shared->inside < number || !is_waiting()) {
			if (shared->is_over)
				_exit(0);
			sleep_us(50);
		}
		sleep_us((number * 137) % 5000);
		if (shared->is_over || sigqueue(parent, NUMBERED, value))
			_exit(0);
		while (shared->calls < number) {
			if (now() - start > STUCK_SECONDS)
				stuck(number);
			sleep_us(50);
		}
	}
}

static void wake_futex(void)
{
	for (uint32_t i = 0; !shared->is_over && getppid() == parent; i++) {
		shared->word++;
		shared->begun++;
		syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0);
		shared->ended++;
		sleep_us(500 + (i * 131) % 12000);
	}
	_exit(0);
}

/* The pipe stays open. */
static void nothing(void)
{
	pause();
	_exit(0);
}

/* ---- the program ---- */

enum signals { SIGNALS_NONE, SIGNALS_BLOCKED, SIGNALS_HANDLED, SIGNALS_MASKED };

static const struct kind {
	const char *name;
	void (*wait)(void);
	void (*disturb)(void);
	enum signals signals;
	int ms;
} kinds[] = {
	{ "read", in_read, write_bytes, SIGNALS_NONE, 7 },
	{ "poll", in_poll, write_bytes, SIGNALS_NONE, 7 },
	{ "select", in_select, write_bytes, SIGNALS_NONE, 7 },
	{ "epoll", in_epoll, write_bytes, SIGNALS_NONE, 7 },
	{ "epoll-timed", in_epoll_timed, write_bytes, SIGNALS_NONE, 7 },
	{ "epoll-long", in_epoll_timed, nothing, SIGNALS_NONE, 500 },
	{ "poll-long", in_poll, nothing, SIGNALS_NONE, 500 },
	{ "sleep-long", in_nanosleep, nothing, SIGNALS_NONE, 500 },
	{ "nanosleep", in_nanosleep, nothing, SIGNALS_NONE, 7 },
	{ "futex", in_futex, wake_futex, SIGNALS_NONE, 7 },
	{ "sigwait", in_sigwait, queue_signals, SIGNALS_BLOCKED, 7 },
	{ "sigsuspend", in_sigsuspend, queue_signals, SIGNALS_MASKED, 7 },
	{ "ppoll", in_ppoll, queue_signals, SIGNALS_MASKED, 7 },
	{ "epoll-pwait", in_epoll_pwait, queue_signals, SIGNALS_MASKED, 7 },
	{ "epoll-signal", in_epoll_signal, signal_waits, SIGNALS_HANDLED, 7 },
	{ "poll-signal", in_poll_signal, signal_waits, SIGNALS_HANDLED, 7 },
	{ "pause", in_pause, signal_waits, SIGNALS_HANDLED, 7 },
	{ "busy", in_busy, nothing, SIGNALS_NONE, 7 },
#if defined(__x86_64__)
	{ "registers", in_registers, nothing, SIGNALS_NONE, 7 },
#endif
};

static void prepare_signals(enum signals signals)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, NUMBERED);
	if (signals == SIGNALS_HANDLED || signals == SIGNALS_MASKED)
		sigaction(NUMBERED, &action, NULL);
	if (signals == SIGNALS_BLOCKED || signals == SIGNALS_MASKED)
		sigprocmask(SIG_BLOCK, &set, NULL);
}

static bool is_told_to_end(void)
{
	struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
	struct timespec none = { 0, 0 };

	return syscall(SYS_ppoll, &input, 1, &none, NULL, 8) != 0;
}

static void run(const struct kind *kind)
{
	pid_t child;

	wait_ms = kind->ms;
	prepare_signals(kind->signals);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pipe_ends[0]);
		close(STDOUT_FILENO);
		kind->disturb();
		_exit(0);
	}
	close(pipe_ends[1]);
	free(malloc(100));
	printf("ready\n");
	fflush(stdout);
	while (!is_told_to_end()) {
		kind->wait();
		shared->calls++;
	}
	shared->is_over = 1;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("%u calls, %u signals, %u errors, late by %.0f us at the most\n", shared->calls,
	       handled, shared->errors, latest * 1e6);
}

int main(int argc, char **argv)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	parent = getpid();
	if (argc != 2 || shared == MAP_FAILED || pipe(pipe_ends))
		return 2;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(argv[1], kinds[i].name))
			continue;
		run(&kinds[i]);
		return shared->errors != 0;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		printf("%s\n", kinds[i].name);
	return 2;
}
