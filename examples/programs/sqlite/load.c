/* SPDX-License-Identifier: MIT */
/*
 * A load for SQLite, ours: points read and counted up in a table, few of them often.
 *
 *   load make FILE ROWS                     a table of rows of some 1,000 bytes
 *   load run FILE REQUESTS CACHE THREADS WRITES [shared]
 *       REQUESTS by each of THREADS threads with a connection of its own (or a shared cache),
 *       WRITES of 1,000 are updates; CACHE: PRAGMA cache_size.
 *
 * Prints one line of JSON.  Keys depend on the thread alone and updates commute, so the sums
 * are the same whatever cache SQLite has.  Compile with -DPCACHE_SLUB for that of libslub.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <sqlite3.h>

#ifdef PCACHE_SLUB
#include "pcache_slub.h"
#endif

#define NR_BINS (64 * 16)	/* of a histogram: 16 for each power of two of nanoseconds */
#define NR_THREADS_MAX 64

struct client {
	pthread_t thread;
	uint64_t random, bins[NR_BINS], sum;
	int hits, misses;
};

static const char *file, *cache_size;
static long nr_requests, writes, nr_rows;
static int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;

static void check(int rc, sqlite3 *db, const char *what)
{
	if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
		return;
	fprintf(stderr, "load: %s: %s\n", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
	exit(3);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s;

	check(sqlite3_prepare_v2(db, sql, -1, &s, NULL), db, sql);
	return s;
}

static int64_t integer(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s = prepare(db, sql);
	int64_t value;

	check(sqlite3_step(s), db, sql);
	value = sqlite3_column_int64(s, 0);
	check(sqlite3_finalize(s), db, sql);
	return value;
}

static sqlite3 *open_file(void)
{
	char sql[100];
	sqlite3 *db;

	check(sqlite3_open_v2(file, &db, flags, NULL), NULL, file);
	sqlite3_busy_timeout(db, 60000);
	snprintf(sql, sizeof(sql), "PRAGMA cache_size = %s", cache_size);
	check(sqlite3_exec(db, sql, NULL, NULL, NULL), db, sql);
	integer(db, "PRAGMA journal_mode = WAL");
	check(sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL), db, "synchronous");
	return db;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static unsigned int bin_of(uint64_t ns)
{
	unsigned int log2 = 63 - (unsigned int)__builtin_clzll(ns | 16);

	return log2 * 16 + ((ns >> (log2 - 4)) & 15);
}

static uint64_t random_next(struct client *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	return c->random ^= c->random << 17;
}

/* The lower a row, the likelier; neighbours lie apart, so a page has one row that is likely. */
static int64_t row_next(struct client *c)
{
	double u = (double)(random_next(c) >> 11) / (double)(1ull << 53);

	return 1 + (int64_t)((uint64_t)(u * u * u * (double)nr_rows) * 7919 % (uint64_t)nr_rows);
}

static void *client_run(void *arg)
{
	struct client *c = arg;
	sqlite3 *db = open_file();
	sqlite3_stmt *s[2];
	int unused, rc;

	s[0] = prepare(db, "SELECT id, text FROM t WHERE id = ?");
	s[1] = prepare(db, "UPDATE t SET n = n + 1 WHERE id = ?");
	for (long i = 0; i < nr_requests; i++) {
		int is_write = (long)(random_next(c) >> 20) % 1000 < writes;
		sqlite3_stmt *one = s[is_write];
		int64_t row = row_next(c);
		uint64_t start = now_ns();

		do {	/* a table that another connection of a shared cache has locked */
			sqlite3_bind_int64(one, 1, row);
			rc = sqlite3_step(one);
			if (rc == SQLITE_ROW)
				c->sum += (uint64_t)(sqlite3_column_int64(one, 0) +
						     sqlite3_column_text(one, 1)[row % 900]);
			sqlite3_reset(one);
		} while ((rc & 255) == SQLITE_LOCKED);
		check(rc, db, "step");
		c->bins[bin_of(now_ns() - start)]++;
	}
	sqlite3_finalize(s[0]);
	sqlite3_finalize(s[1]);
	sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_HIT, &c->hits, &unused, 0);
	sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_MISS, &c->misses, &unused, 0);
	check(sqlite3_close(db), db, "close");
	return NULL;
}

/* The malloc that this process has, by what is mapped. */
static const char *malloc_name(void)
{
	static const char *const names[] = { "jemalloc", "mimalloc", "libslub" };
	const char *name = "glibc";
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps)) {
		for (int i = 0; i < 3; i++) {
			if (strstr(line, names[i]))
				name = names[i];
		}
	}
	if (maps)
		fclose(maps);
	return name;
}

/* The peak of this program itself; that of getrusage() begins with its parent's. */
static double peak_mib(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long kib = 0;

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "VmHWM: %ld", &kib);
	if (status)
		fclose(status);
	return (double)kib / 1024;
}

static double quantile_us(const uint64_t *bins, double part)
{
	uint64_t n = 0, sum = 0;
	unsigned int i;

	for (i = 0; i < NR_BINS; i++)
		n += bins[i];
	for (i = 0; i < NR_BINS - 1 && (sum += bins[i]) < (double)n * part; i++)
		;
	return (double)((16ull + i % 16) << (i / 16)) / 16e3;
}

static double cpu_seconds(const struct rusage *usage)
{
	return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
	       (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

static void make(const char *rows)
{
	char sql[400];
	sqlite3 *db = open_file();

	snprintf(sql, sizeof(sql), "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, text TEXT); "
		 "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < %s) "
		 "INSERT INTO t SELECT x, 0, substr(hex(zeroblob(500)), 1, 990) || x FROM i", rows);
	check(sqlite3_exec(db, sql, NULL, NULL, NULL), db, "make");
	check(sqlite3_close(db), db, "close");
}

/* What all of them did, into the first; returns the seconds. */
static double run_clients(struct client *clients, int nr)
{
	uint64_t start = now_ns();

	for (int i = 0; i < nr; i++) {
		clients[i].random = 88172645463325252ull + (uint64_t)i * 1000003;
		pthread_create(&clients[i].thread, NULL, client_run, &clients[i]);
	}
	for (int i = 0; i < nr; i++)
		pthread_join(clients[i].thread, NULL);
	for (int i = 1; i < nr; i++) {
		for (int j = 0; j < NR_BINS; j++)
			clients->bins[j] += clients[i].bins[j];
		clients->sum += clients[i].sum;
		clients->hits += clients[i].hits;
		clients->misses += clients[i].misses;
	}
	return (double)(now_ns() - start) / 1e9;
}

static void run(int nr_threads)
{
	static struct client all[NR_THREADS_MAX];
	sqlite3 *db = open_file();	/* keeps a shared cache */
	struct rusage usage;
	sqlite3_stmt *s;
	double seconds;

	nr_rows = integer(db, "SELECT max(id) FROM t");
	seconds = run_clients(all, nr_threads);
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"malloc\": \"%s\", \"seconds\": %.3f, \"cpu_seconds\": %.3f, "
	       "\"per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, ", malloc_name(),
	       seconds, cpu_seconds(&usage), (double)nr_requests * nr_threads / seconds,
	       quantile_us(all->bins, .5), quantile_us(all->bins, .99));
	printf("\"hits\": %.2f, \"rss_mib\": %.1f, \"sum\": \"%llx\", \"counts\": %lld, ",
	       100.0 * all->hits / ((double)all->hits + all->misses), peak_mib(),
	       (unsigned long long)all->sum,
	       (long long)integer(db, "SELECT sum(n * (id % 1000)) FROM t"));
	s = prepare(db, "PRAGMA integrity_check");
	check(sqlite3_step(s), db, "integrity_check");
	printf("\"integrity\": \"%s\"}\n", (const char *)sqlite3_column_text(s, 0));
	sqlite3_finalize(s);
	sqlite3_close(db);
}

int main(int argc, char **argv)
{
	file = argc > 2 ? argv[2] : "";
	cache_size = argc > 4 ? argv[4] : "-2000";
#ifdef PCACHE_SLUB
	check(sqlite3_pcache_slub(), NULL, "sqlite3_pcache_slub");
#endif
	if (argc == 4 && !strcmp(argv[1], "make")) {
		make(argv[3]);
	} else if (argc >= 7 && !strcmp(argv[1], "run")) {
		nr_requests = atol(argv[3]);
		writes = atol(argv[6]);
		if (argc > 7)
			flags |= SQLITE_OPEN_SHAREDCACHE;
		run(atoi(argv[5]) > NR_THREADS_MAX ? NR_THREADS_MAX : atoi(argv[5]));
	} else {
		fprintf(stderr, "usage: load make FILE ROWS\n"
			"       load run FILE REQUESTS CACHE THREADS WRITES_OF_1000 [shared]\n");
		return 2;
	}
	return 0;
}
