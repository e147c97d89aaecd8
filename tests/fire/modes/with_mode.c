/* SPDX-License-Identifier: MIT */
/*
 * Runs a command in one of the modes in which a process may find restartable
 * sequences and membarrier.
 *
 *	with_mode MODE [--error=ENOSYS|EPERM] [--preload=LIBRARY] -- COMMAND...
 *	with_mode E|F|G --companion=LIBRARY -- COMMAND...
 *
 *	A  both work			B  membarrier fails
 *	C  glibc does not register	D  C, and rseq and membarrier fail
 *	E, F  as A; what is special is in the command, or made by a companion
 *	      (companion.c) in every program that the command starts
 *	G  as A, on a kernel that has no mm_cid, as its companion says
 *
 * The filters are there from before the command starts; mode D turns glibc's
 * registration off besides, for glibc takes a failing rseq for a missing one
 * at start but ends the process when a later thread cannot register.
 */
#include "fire.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void deny(long call, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		fire_skip("seccomp: %s", strerror(errno));
}

static char **command_of(int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], "--") && i + 1 < argc)
			return argv + i + 1;
	fprintf(stderr, "usage: with_mode A|B|C|D|E|F|G [--error=ENOSYS|EPERM] "
		"[--preload=LIBRARY] [--companion=LIBRARY] -- COMMAND...\n");
	exit(2);
}

static int error_of(const char *name)
{
	if (!strcmp(name, "ENOSYS"))
		return ENOSYS;
	if (!strcmp(name, "EPERM"))
		return EPERM;
	fprintf(stderr, "--error=%s: ENOSYS or EPERM is wanted\n", name);
	exit(2);
}

/* One of them, or both, in this order. */
static void preload_set(const char *first, const char *second)
{
	char both[8192];

	if (!first && !second)
		return;
	snprintf(both, sizeof(both), "%s %s", first ? first : "",
		 second ? second : "");
	setenv("LD_PRELOAD", both, 1);
}

int main(int argc, char **argv)
{
	char **command = command_of(argc, argv);
	const char *preload, *companion;
	char mode = argv[1][0];
	int error;

	if (strlen(argv[1]) != 1 || mode < 'A' || mode > 'G') {
		fprintf(stderr, "with_mode: no mode %s; A to G are known\n",
			argv[1]);
		return 2;
	}
	unsetenv("FIRE_COMPANION");
	fire_start(argc - 1, argv + 1, "error preload companion");
	error = error_of(fire_opt_str("error", "ENOSYS"));
	preload = fire_opt_str("preload", NULL);
	if (mode == 'C' || mode == 'D') {
		setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
		/* What cannot be had is not to be asked for. */
		if (getenv("SLUB_FASTPATH") &&
		    !strcmp(getenv("SLUB_FASTPATH"), "rseq"))
			unsetenv("SLUB_FASTPATH");
	}
	companion = fire_opt_str("companion", NULL);
	if (companion) {
		setenv("FIRE_COMPANION", companion, 1);
		setenv("FIRE_COMPANION_MODE", argv[1], 1);
	}
	preload_set(companion, preload);
	if (mode == 'B' || mode == 'D')
		deny(SYS_membarrier, error);
	if (mode == 'D')
		deny(SYS_rseq, error);
	execvp(command[0], command);
	fprintf(stderr, "with_mode: %s: %s\n", command[0], strerror(errno));
	return 127;
}
