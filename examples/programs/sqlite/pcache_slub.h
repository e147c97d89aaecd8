/* SPDX-License-Identifier: MIT */
/*
 * A page cache for SQLite that grows into the memory there is, and gives it back when memory
 * is short.
 *
 * Before the first use of SQLite:
 *
 *   sqlite3_pcache_slub();
 *   ...
 *   sqlite3_exec(db, "PRAGMA cache_size = -1000000000", 0, 0, 0);	as much as there is
 *
 * cache_size stays what it was, the most that a cache holds.  Near the limit of the control
 * group (or SLUB_LIMIT), under memory pressure where the program listens to it
 * (slub/pressure.h, SLUB_PRESSURE=thread), and by `slub shrink PID`, pages that were not used
 * for longest are freed.  Where most pages are dirty SQLite is made to spill them.
 */
#ifndef PCACHE_SLUB_H
#define PCACHE_SLUB_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * sqlite3_pcache_slub - use this page cache from now on.
 *
 * Returns SQLITE_OK, or what sqlite3_config() does: SQLITE_MISUSE after sqlite3_initialize(),
 * which opening a database calls.
 * Context: one thread, before any other uses SQLite.
 */
int sqlite3_pcache_slub(void);

#ifdef __cplusplus
}
#endif

#endif
