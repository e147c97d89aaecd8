/* SPDX-License-Identifier: MIT */
#ifndef SLUB_TESTS_RECLAIM_THROWS_H
#define SLUB_TESTS_RECLAIM_THROWS_H

/* Each ends in std::terminate(); one that returns has caught an exception, or seen none. */
void count_throws();
void scan_throws();
void visitor_throws();
void handler_throws();
void isolate_throws();
void migrate_throws();

#endif
