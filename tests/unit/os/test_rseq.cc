/* SPDX-License-Identifier: MIT */
/* core/os/rseq.c: the registration is found whatever length the C library told the kernel. */
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slub.h"

#define FEATURE_SIZE 27	/* AT_RSEQ_FEATURE_SIZE */
#define ALIGN 28	/* AT_RSEQ_ALIGN */

/* What the kernel is made to say; 0: what it says. */
static unsigned long features, align;

extern "C" unsigned long getauxval(unsigned long type)
{
	static auto real = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");

	if (type == FEATURE_SIZE && features)
		return features;
	return type == ALIGN && align ? align : real(type);
}

namespace {

enum outcome { FOUND, NOT_FOUND, FOUND_ELSEWHERE, CANNOT_TELL };

void *area()
{
	return (char *)__builtin_thread_pointer() + __rseq_offset;
}

bool change(unsigned long bytes, int flags)
{
	return syscall(SYS_rseq, area(), bytes, flags, RSEQ_SIG) == 0;
}

bool unregister()
{
	for (unsigned long bytes : { 32ul, getauxval(FEATURE_SIZE), (unsigned long)__rseq_size })
		if (change(bytes, RSEQ_FLAG_UNREGISTER))
			return true;
	return false;
}

/* In a child, for what was found once is kept: registered with @bytes, is it seen? */
outcome look(unsigned long bytes, unsigned long said, unsigned long aligned)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		struct os_rseq found = {};

		if (!unregister() || (bytes && !change(bytes, 0)))
			_exit(CANNOT_TELL);
		features = said;
		align = aligned;
		os_rseq_read(&found);
		if (found.available && found.offset != (uintptr_t)__rseq_offset)
			_exit(FOUND_ELSEWHERE);
		/* It has left everything as it was. */
		if (bytes && !change(bytes, RSEQ_FLAG_UNREGISTER))
			_exit(FOUND_ELSEWHERE);
		_exit(found.available ? FOUND : NOT_FOUND);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? (outcome)WEXITSTATUS(status) : NOT_FOUND;
}

TEST(rseq, a_registration_of_any_length_is_found)
{
	const struct {
		unsigned long bytes, features, align;
	} cases[] = {
		{ 32, 20, 32 }, { 32, 28, 32 }, { 33, 33, 64 }, { 64, 33, 64 },
		{ 70, 70, 128 }, { 128, 70, 128 }, { 32, 33, 64 }, { 48, 48, 48 + 16 },
	};
	unsigned seen = 0;

	for (const auto &one : cases) {
		outcome found = look(one.bytes, one.features, one.align);

		/* Linux before 6.3 takes 32 only. */
		if (found == CANNOT_TELL)
			continue;
		seen++;
		EXPECT_EQ(found, FOUND) << one.bytes << " of " << one.features << " bytes";
	}
	if (!seen)
		GTEST_SKIP() << "no registration to change";
}

TEST(rseq, a_thread_without_one_has_none)
{
	outcome found = look(0, 33, 64);

	if (found == CANNOT_TELL)
		GTEST_SKIP() << "no registration to end";
	EXPECT_EQ(found, NOT_FOUND);
}

} /* namespace */
