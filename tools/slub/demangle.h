/* SPDX-License-Identifier: MIT */
/* C++ names as the source has them. */
#ifndef SLUB_TOOL_DEMANGLE_H
#define SLUB_TOOL_DEMANGLE_H

/*
 * "site(std::string const&)" for "_Z4site...", to be freed by the caller.  NULL:
 * it is no such name, or the C++ library is not there.
 */
char *demangle(const char *name);

#endif
