/* SPDX-License-Identifier: MIT */
/*
 * A heap made by hand: what a libslub would publish of a heap whose every number is known here,
 * whatever the build, the machine or the backend.  made.c draws it.
 */
#ifndef MADE_H
#define MADE_H

#include <stddef.h>
#include <stdint.h>

#include "features/inspect/abi.h"

#define RANGE_START 0x610000000000ull
#define HEAP_START  (RANGE_START + 16 * 4096)
#define NR_PAGES    (16384u + 64)	/* more than the command reads at once */
#define MAP_START   0x620000000000ull
#define DESCRIPTORS 0x630000000000ull
#define AREAS	    0x640000000000ull
#define GUARDED	    0x650000000000ull
#define STRIDE	    56u
#define AREA_BYTES  0x1000u
#define AREA_ROOM   0x4000u
#define DEFERRED_AT 0x3000u
#define NR_NODES    2
#define NR_SLOTS    64
#define FAR_ENTRY   (NR_SLOTS * 32)
#define NR_FAR	    8
#define NR_CACHES   10

struct made_node {
	uint64_t nr_slabs;
	uint32_t nr_partial;
	uint32_t nr_slabs_peak;
	uint64_t nr_objects;
	uint16_t nr_carved;
};

/* Members have the names of struct slub_cache: features/inspect/field.def names these. */
struct made_cache {
	uint64_t name;
	uint32_t slot, list_slot;
	uint32_t size, object_size;
	uint16_t align, flags;
	uint8_t order, letters, is_accounted, is_unguarded, has_local;
	uint32_t objects, capacity, capacity_now, min_partial, carve_batch, users;
	uint64_t ctor, link, debug, aliases, root;
	uint32_t stats, slack, usersize, useroffset;
	uint32_t owners, owner_reciprocal, barn;
	uint32_t in_barns;
	uint64_t nodes[NR_NODES];
	uint64_t unread;
};

extern struct slub_abi slub_abi_state;
extern struct made_cache made_caches[NR_CACHES];
extern struct made_node made_nodes[NR_CACHES][NR_NODES];
extern struct slub_abi_option made_options[];
extern char made_names[NR_CACHES][24];
extern const uint32_t made_nr_options;
extern const uint64_t made_frames[4];

void made_ctor(void *object);
/* The address of page @n of the heap. */
uint64_t page_at(uint32_t n);
void put_page(uint32_t n, uint32_t flags, uint32_t count, uint64_t holes);
void put_owner(uint32_t n, uint32_t owner);

void put_state(uint32_t n, uint64_t first, uint64_t second);
char *made_descriptor(uint32_t n);
void put_map(uint32_t n, uint32_t entry);

void put_nr(unsigned long pool, uint32_t nr);
/* The first object of the spare list in a slot of the first CPU. */
void put_spare(uint32_t slot, uint64_t head);

/* Where the number @n of each kind is, for made_change(). */
char *made_cache_at(unsigned long n);
char *made_node_at(unsigned long n);
char *made_pool_at(unsigned long n);
char *made_place_at(unsigned long n);
char *made_groups_at(unsigned long n);
char *made_head_at(unsigned long n);
char *made_record_at(unsigned long n);
char *made_aliases_at(unsigned long n);
char *made_file_at(unsigned long n);
char *made_box_at(unsigned long n);
/* "NAME=VALUE", made_change.c; not 0: there is no such name. */
int made_change(const char *text);

void make_guard(void);		/* made_guard.c */
void make_groups(void);		/* made_groups.c */
void make_watched(void);	/* made_watched.c */
void make_stats(void);		/* made_stats.c */
int write_stats(const char *path);

#endif
