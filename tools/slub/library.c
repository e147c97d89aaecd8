/* SPDX-License-Identifier: MIT */
/* Finds the libslub.so that belongs to this command. */
#include "library.h"
#include "slub.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the library may lie, as seen from the folder of the command. */
static const char *const places[] = {
	".",
	"../" SLUB_TOOL_LIBDIR,
	"../lib/" SLUB_TOOL_TRIPLET,
	"../lib64",
	"../lib",
};

/* A soname first: the plain name belongs to the compiler, and may be newer. */
static const char *const plain_names[] = { SLUB_TOOL_SONAME, "libslub.so" };
/* Installed it is out of ldconfig's sight, for it has the other's soname. */
static const char *const hardened_names[] = {
	"slub/libslub-hardened.so", "libslub-hardened.so",
};

#define NR(array) (sizeof(array) / sizeof((array)[0]))

static char *find_named_by_user(const char *path)
{
	char *absolute = realpath(path, NULL);

	if (!absolute)
		complain("SLUB_LIBRARY=%s: %s; it has to name a libslub.so",
			 path, strerror(errno));
	return absolute;
}

static char *find_beside(const char *folder, const char *const names[2])
{
	char path[2 * PATH_MAX];

	for (size_t i = 0; i < NR(places); i++) {
		for (size_t j = 0; j < 2; j++) {
			snprintf(path, sizeof(path), "%s/%s/%s", folder,
				 places[i], names[j]);
			if (!access(path, R_OK))
				break;
			path[0] = '\0';
		}
		if (path[0])
			return realpath(path, NULL);
	}
	return NULL;
}

char *library_find(bool hardened)
{
	const char *by_user = hardened ? NULL : getenv("SLUB_LIBRARY");
	char folder[PATH_MAX], *found;
	ssize_t length;

	if (by_user && by_user[0])
		return find_named_by_user(by_user);
	length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	if (length < 0) {
		complain("/proc/self/exe: %s", strerror(errno));
		return NULL;
	}
	folder[length] = '\0';
	*strrchr(folder, '/') = '\0';
	found = find_beside(folder, hardened ? hardened_names : plain_names);
	if (!found && hardened)
		complain("no libslub-hardened.so in %s or its ../lib; `make "
			 "hardened` builds it, `make install` installs it",
			 folder);
	else if (!found)
		complain("no libslub.so in %s or its ../lib; SLUB_LIBRARY=PATH "
			 "names one that is elsewhere", folder);
	return found;
}
