/* SPDX-License-Identifier: MIT */
#include "core.h"
#include "core_thread.h"
#include "profile_trail.h"
#include "progress.h"

#include <string.h>

/* Back from a call to where no code is; the return address less one lies in the call. */
static bool step_back(const struct process *process, struct profile_trail *trail)
{
#if defined(__x86_64__)
	uint64_t *sp = &trail->registers[CORE_STACK_POINTER];

	if (process_read(process, *sp, &trail->pc, sizeof(trail->pc)))
		return false;
	*sp += sizeof(trail->pc);
#elif defined(__aarch64__)
	(void)process;
	trail->pc = trail->registers[CORE_LINK_REGISTER];
#else
	(void)process;
#endif
	return trail->pc-- != 0;
}

/* Its first instruction was what could not be read. */
static bool is_astray(const struct core *core)
{
	return core->has_fault && core->fault == core->thread.pc;
}

void core_stack_read(struct core_stack *stack, const struct process *process)
{
	const struct core_thread *thread = &process->core->thread;
	struct profile_trail trail = { .pc = thread->pc, .known = thread->known,
				       .sp = thread->sp };
	struct unwinder *unwinder = thread->id ? unwinder_open(process) : NULL;
	bool is_known = true;

	stack->nr = 0;
	stack->is_whole = false;
	memcpy(trail.registers, thread->registers, sizeof(trail.registers));
	if (thread->id && is_astray(process->core)) {
		stack->frames[stack->nr++] = thread->pc + 1;
		is_known = step_back(process, &trail);
	}
	progress_begin("unwinding the stack");
	if (unwinder && is_known)
		stack->nr += unwind(unwinder, &trail, stack->frames + stack->nr,
				    CORE_FRAMES_MAX - stack->nr, &stack->is_whole);
	if (thread->id && !stack->nr)
		stack->frames[stack->nr++] = thread->pc + 1;
	progress_end();
	if (unwinder)
		unwinder_close(unwinder);
}
