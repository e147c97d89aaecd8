/* SPDX-License-Identifier: MIT */
/*
 * Two threads in every order that matters: the one under test goes by single instructions (the
 * processor's trap flag), and at a chosen one the other does its work, from beginning to end.
 */
#ifndef SLUB_TESTS_UNIT_STEPS_H
#define SLUB_TESTS_UNIT_STEPS_H

#include <functional>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <thread>
#include <ucontext.h>
#include <x86intrin.h>

#include "slub.h"

/* At the beginning of a test. */
#define STEPS_OR_SKIP()							\
	if (SLUB_CONFIG_PLAIN_C)					\
	GTEST_SKIP() << "ThreadSanitizer's runtime holds signals back"

namespace steps {

constexpr unsigned long TRAP_FLAG = 0x100;

/* What is asked after each instruction of this thread; false: no more. */
inline thread_local const std::function<bool()> *asked;
/* This thread's registers, as it is asked. */
inline thread_local const greg_t *registers;

inline void on_trap(int, siginfo_t *, void *context)
{
	registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	if (!(*asked)())
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}

inline void handle(int signal, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {};

	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO;
	sigaction(signal, &action, nullptr);
}

/* Calls @work, and @goes_on after each of its instructions until that says no. */
inline void run(const std::function<void()> &work, const std::function<bool()> &goes_on)
{
	handle(SIGTRAP, on_trap);
	asked = &goes_on;
	__writeeflags(__readeflags() | TRAP_FLAG);
	work();
	__writeeflags(__readeflags() & ~TRAP_FLAG);
}

constexpr uintptr_t PAGE = 4096;
inline void *fenced;

inline void on_fault(int, siginfo_t *, void *context)
{
	mprotect(fenced, PAGE, PROT_READ | PROT_WRITE);
	/* Here again, it is none of ours. */
	signal(SIGSEGV, SIG_DFL);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= (greg_t)TRAP_FLAG;
}

/* As run(), but the steps begin where @work comes to @place, or near it: a long way is short. */
inline void run_from(const void *place, const std::function<void()> &work,
		     const std::function<bool()> &goes_on)
{
	handle(SIGTRAP, on_trap);
	handle(SIGSEGV, on_fault);
	asked = &goes_on;
	fenced = (void *)((uintptr_t)place & -PAGE);
	mprotect(fenced, PAGE, PROT_NONE);
	work();
	__writeeflags(__readeflags() & ~TRAP_FLAG);
	mprotect(fenced, PAGE, PROT_READ | PROT_WRITE);
	signal(SIGSEGV, SIG_DFL);
}

inline uint8_t *stop, stopped;

inline void on_stop(int, siginfo_t *, void *context)
{
	greg_t *now = ((ucontext_t *)context)->uc_mcontext.gregs;

	*stop = stopped;
	now[REG_RIP] = (greg_t)stop;
	now[REG_EFL] |= (greg_t)TRAP_FLAG;
	handle(SIGTRAP, on_trap);
}

/* The same, from where @work calls @function on: a breakpoint stands there. */
inline void run_from_call(const void *function, const std::function<void()> &work,
			  const std::function<bool()> &goes_on)
{
	void *page = (void *)((uintptr_t)function & -PAGE);

	handle(SIGTRAP, on_stop);
	asked = &goes_on;
	stop = (uint8_t *)function;
	stopped = *stop;
	mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	*stop = 0xcc;
	work();
	__writeeflags(__readeflags() & ~TRAP_FLAG);
	*stop = stopped;
	mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}

/* For who is asked: does the instruction before, or the next one, work on @thing? */
inline bool is_in_hand(const void *thing)
{
	for (int i = REG_R8; i <= REG_RSP; i++) {
		if (registers[i] == (greg_t)thing)
			return true;
	}
	return false;
}

/*
 * @round(step) for step = 0, 1, ..., until one of them says that its work has fewer steps.
 * Returns how many had it.
 */
inline unsigned for_each(const std::function<bool(unsigned)> &round)
{
	unsigned step = 0;

	while (round(step))
		step++;
	return step;
}

/*
 * Calls @work, and @meanwhile at its n-th step, if it has so many.  A step: one instruction at
 * which this thread holds no lock and @state is not what it was at the last.
 */
inline bool interrupt(unsigned n, const std::function<uint64_t()> &state,
		      const std::function<void()> &work, const std::function<void()> &meanwhile)
{
	uint64_t last = state();
	bool done = false;

	run(work, [&] {
		if (slub_thread.locks_held || state() == last)
			return true;
		last = state();
		if (n--)
			return true;
		done = true;
		meanwhile();
		return false;
	});
	return done;
}

/*
 * Calls @work, and @meanwhile where this thread has let go of a lock for the @n-th time, if it
 * does so often.
 */
inline bool between_locks(unsigned n, const std::function<void()> &work,
			  const std::function<void()> &meanwhile)
{
	bool had = false, done = false;

	run(work, [&] {
		bool has = slub_thread.locks_held;
		bool let_go = had && !has;

		had = has;
		if (!let_go || n--)
			return true;
		done = true;
		meanwhile();
		return false;
	});
	return done;
}

/* A thread that does what it is told. */
class Other {
public:
	Other() : thread([this] { serve(); })
	{
	}
	~Other()
	{
		call(nullptr);
		thread.join();
		sem_destroy(&asks);
		sem_destroy(&answers);
	}
	/* Returns when it is done; also for handlers. */
	void call(std::function<void()> what)
	{
		begin(std::move(what));
		finish();
	}
	void begin(std::function<void()> what)
	{
		todo = std::move(what);
		sem_post(&asks);
	}
	void finish()
	{
		while (sem_wait(&answers))
			continue;
	}

private:
	static sem_t made()
	{
		sem_t semaphore;

		sem_init(&semaphore, 0, 0);
		return semaphore;
	}
	void serve()
	{
		bool over = false;

		while (!over) {
			while (sem_wait(&asks))
				continue;
			if (todo)
				todo();
			else
				over = true;
			sem_post(&answers);
		}
	}

	sem_t asks = made(), answers = made();
	std::function<void()> todo;
	std::thread thread;
};

/* One word for all that lies in @things. */
template <class... Things> uint64_t digest(const Things &...things)
{
	uint64_t sum = 0;

	((sum = (sum ^ (uint64_t)things) * 0x9e3779b97f4a7c15ull, sum ^= sum >> 29), ...);
	return sum;
}

} /* namespace steps */

#endif
