/* SPDX-License-Identifier: MIT */
/*
 * profile_read.c: what is kept of each line of a profile, both sides of each bound, the message and
 * the status of each file that is refused, and the difference of two profiles.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"
#include "in_use.h"
#include "one_hash.h"
#include "profile.h"
#include "said.h"
#include "slub.h"

#define HEAD	  "heap profile: 1: 2 [3: 4] @ heapprofile\n# slub-profile 1\n"
#define MAPS	  "MAPPED_LIBRARIES:\n"
#define BYTES_MAX (64u << 20)
#define WAIT	  100.0
#define NOBODY	  65534

static char folder[] = "/tmp/profiles-XXXXXX", path[sizeof(folder) + 16];
static char told[1 << 16];
static struct said messages;
static char *said = messages.text;

static const char *in_folder(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* With what it says in @said, where @FILE stands for the folder. */
static int read_kinds(struct profile *profile, const char *name, enum input_kinds kinds,
		      double seconds)
{
	char *at;
	int status;

	said_begin(&messages, 2);
	memset(profile, 0x55, sizeof(*profile));
	status = profile_read(profile, name, kinds, seconds);
	said_end(&messages);
	at = strstr(said, folder);
	if (at)
		memmove(at, at + strlen(folder), strlen(at + strlen(folder)) + 1);
	return status;
}

static int read_text_of(struct profile *profile, const char *text, size_t length)
{
	FILE *to = fopen(in_folder("file"), "w");

	fwrite(text, 1, length, to);
	fclose(to);
	return read_kinds(profile, path, INPUT_FILE, WAIT);
}

static int read_text(struct profile *profile, const char *text)
{
	return read_text_of(profile, text, strlen(text));
}

/* All of it, as text. */
static const char *tell(const struct profile *profile)
{
	FILE *to = fmemopen(memset(told, 0, sizeof(told)), sizeof(told), "w");

	fprintf(to, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " alive",
		profile->mean_bytes, profile->pid, profile->start_ns, profile->written_ns,
		profile->lost, profile->last_trail);
	for (size_t i = 0; i < profile->nr_alive; i++)
		fprintf(to, " %" PRIu64, profile->alive[i]);
	fputs("\n", to);
	for (size_t i = 0; i < profile->nr_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		const uint64_t *v = site->values;

		fprintf(to, "%" PRIu64 ": %" PRIu64 " [%" PRIu64 ": %" PRIu64 "] %" PRIu64
			" of %" PRIu64 " stack %u", v[VALUE_INUSE_OBJECTS], v[VALUE_INUSE_SPACE],
			v[VALUE_ALLOC_OBJECTS], v[VALUE_ALLOC_SPACE], site->live_samples,
			site->samples, site->stack);
		for (size_t f = 0; f < site->nr_frames; f++) {
			const struct profile_location *at =
				&profile->locations[profile->frames[site->first + f]];

			fprintf(to, " %" PRIx64 "/%zu", at->address, at->mapping);
		}
		fputs("\n", to);
	}
	for (size_t i = 0; i < profile->nr_mappings; i++) {
		const struct profile_mapping *mapping = &profile->mappings[i];

		fprintf(to, "%" PRIx64 "-%" PRIx64 " %" PRIx64 " '%s' %s\n", mapping->start,
			mapping->end, mapping->offset, mapping->path,
			mapping->build_id ? mapping->build_id : "-");
	}
	fputs(profile->maps ? profile->maps : "none\n", to);
	fclose(to);
	return told;
}

static void test_all_lines(void)
{
	struct profile profile;

	EXPECT(read_text(&profile,
		HEAD
		"# mean_bytes 4096\n# pid 77\n# start_ns 16000\n# written_ns 17000\n# lost 3\n"
		"# trails 99\n# alive 5\n# alive 7\n# alive 6\n# nobody knows\n"
		"# build-id 0x9000 00ff\n# build-id 0x5000 abcdef01\n"
		"# samples 4 16\n# stack 12\n"
		" 10: 1000 [60: 12000] @ 0x5001 0x5fff 0x6000 0x6001\n"
		"1: 2 [3: 4] @ 5000 0x9100\n"
		"# samples 0 1\n"
		"0: 0 [5: 700] @\n"
		"# stack 0\n"
		"2: 50 [2: 50] @ 0x5001  \n"
		MAPS
		"9000-9200 r-xp 00000000 fe:01 12                 /made/lib x.so\n"
		"5000-6000 r-xp 00000000 fe:01 11    /made/prog\n"
		"4000-5000 r--p 00000000 fe:01 11    /made/prog\n"
		"6000-6001 rwxp 00001000 00:00 0    \n"
		"7000-8000 r-xp 00000000 00:00\n"
		"8000-8100 --xp 00000010 00:00 0    [vdso]"), 0);
	EXPECT_TEXT(said, "");
	EXPECT_TEXT(tell(&profile),
		"4096 77 16000 17000 3 99 alive 5 7 6\n"
		"10: 1000 [60: 12000] 4 of 16 stack 12 5000/1 5ffe/1 5fff/1 6000/2\n"
		"1: 2 [3: 4] 4 of 16 stack 12 4fff/0 90ff/4\n"
		"0: 0 [5: 700] 0 of 1 stack 12\n"
		"2: 50 [2: 50] 0 of 1 stack 0 5000/1\n"
		"5000-6000 0 '/made/prog' abcdef01\n"
		"6000-6001 1000 '' abcdef01\n"
		"8000-8100 10 '[vdso]' abcdef01\n"
		"9000-9200 0 '/made/lib x.so' 00ff\n"
		"9000-9200 r-xp 00000000 fe:01 12                 /made/lib x.so\n"
		"5000-6000 r-xp 00000000 fe:01 11    /made/prog\n"
		"4000-5000 r--p 00000000 fe:01 11    /made/prog\n"
		"6000-6001 rwxp 00001000 00:00 0    \n"
		"7000-8000 r-xp 00000000 00:00\n"
		"8000-8100 --xp 00000010 00:00 0    [vdso]");
	/* Each address has one location. */
	EXPECT(profile.nr_locations, 6);
	EXPECT(profile.nr_frames, 7);
	profile_free(&profile);
	EXPECT(profile.sites == NULL && profile.maps == NULL && profile.alive == NULL, true);
	EXPECT(profile.nr_sites + profile.nr_locations + profile.nr_mappings + profile.nr_frames +
	       profile.nr_alive + profile.mean_bytes, 0);
}

/* What a terminal would obey is '?', and the ends of lines stay. */
static void test_controls(void)
{
	struct profile profile;

	EXPECT(read_text(&profile,
		HEAD "# pid 7\r\n" MAPS
		"5000-6000 r-xp 00000000 fe:01 11    /a\033b\xc3\n"
		"6000-7000 r-xp 00000000 fe:01 11    /\xc3\xa4\n"
		"\001\n\n"
		"7000-8000 r-xp 00000000 fe:01 11    /c\002"), 0);
	EXPECT_TEXT(tell(&profile),
		"0 7 0 0 0 0 alive\n"
		"5000-6000 0 '/a?b?' -\n6000-7000 0 '/\xc3\xa4' -\n7000-8000 0 '/c?' -\n"
		"5000-6000 r-xp 00000000 fe:01 11    /a?b?\n"
		"6000-7000 r-xp 00000000 fe:01 11    /\xc3\xa4\n"
		"?\n\n"
		"7000-8000 r-xp 00000000 fe:01 11    /c?");
	profile_free(&profile);
}

/* An ID is that of the last one that does not start above the file's first page, up to 64 MiB
 * below it. */
static void test_build_ids(void)
{
	static const struct {
		unsigned int start, offset;
		const char *expected;
	} cases[] = {
		{ 0xffff, 0, "-" }, { 0x10000, 0, "aa" }, { 0x1ffff, 0, "aa" },
		{ 0x20000, 0, "bb" }, { 0x2ffff, 0, "bb" }, { 0x30000, 0, "cc" },
		{ 0x30000 + (64 << 20) - 1, 0, "cc" }, { 0x30000 + (64 << 20), 0, "-" },
		{ 0x30000 + (64 << 20), 1, "cc" }, { 0x30000 + (65 << 20), 1 << 20, "-" },
		{ 0x30001 + (64 << 20), 1, "-" },
	};
	char text[512], longest[129];
	struct profile profile;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text),
			 HEAD "# build-id 0x20000 bb\n# build-id 0x30000 cc\n"
			 "# build-id 0x10000 aa\n# build-id 0x40000 -\n" MAPS
			 "%x-%x r-xp %08x fe:01 11    /a\n", cases[i].start,
			 cases[i].start + 0x1000, cases[i].offset);
		EXPECT(read_text(&profile, text), 0);
		EXPECT(profile.nr_mappings, 1);
		EXPECT_TEXT(profile.mappings[0].build_id ? profile.mappings[0].build_id : "-",
			    cases[i].expected);
		profile_free(&profile);
	}
	/* The longest has 64 bytes; of a longer one they are taken. */
	memset(longest, 'a', 128);
	longest[128] = '\0';
	for (int more = 0; more < 2; more++) {
		snprintf(text, sizeof(text), HEAD "# build-id 0x10000 %s%s\n" MAPS
			 "10000-11000 r-xp 00000000 fe:01 11    /a\n", longest, more ? "b" : "");
		EXPECT(read_text(&profile, text), 0);
		EXPECT_TEXT(profile.mappings[0].build_id, longest);
		profile_free(&profile);
	}
}

static void expect_refused(int line, const char *text, const char *why)
{
	struct profile profile;
	int status = read_text(&profile, text);
	char expected[512];

	expect_at(line, "the status", status, STATUS_UNREADABLE);
	snprintf(expected, sizeof(expected), "slub: profile: '/file'%s\n", why);
	expect_text(line, said, expected);
	profile_free(&profile);
}

#define EXPECT_REFUSED(text, why) expect_refused(__LINE__, text, why)

static void test_damaged_heads(void)
{
	static const char none[] =
		" is no heap profile of libslub; slub_profile_write() makes them",
		other[] = " is a heap profile, but not one of libslub",
		cut[] = " is cut short: it has no MAPPED_LIBRARIES:";

	EXPECT_REFUSED("", none);
	EXPECT_REFUSED("heap profilE: 1: 2 [3: 4] @ heapprofile\n# slub-profile 1\n" MAPS, none);
	EXPECT_REFUSED("heap profile:1: 2 [3: 4] @ heapprofile\n# slub-profile 1\n" MAPS, none);
	EXPECT_REFUSED("heap profile: 1: 2 [3: 4] @ heapprofil\n# slub-profile 1\n" MAPS, none);
	EXPECT_REFUSED("heap profile: 1: 2 [3: 4] @ heapprofile\n", other);
	EXPECT_REFUSED("heap profile: 1: 2 [3: 4] @ heapprofile\n" MAPS, other);
	EXPECT_REFUSED("heap profile: 1: 2 [3: 4] @ heapprofile\n# slub-profile1\n" MAPS, other);
	EXPECT_REFUSED(HEAD, cut);
	EXPECT_REFUSED(HEAD "# samples 4 16\n", cut);
	EXPECT_REFUSED("heap profile: 1: 2 [3: 4] @ heapprofile\n# slub-profile 2\n" MAPS,
		       " is of version 2; slub  reads version 1. Use the slub of the libslub that "
		       "wrote it");
	EXPECT_REFUSED("heap profile: 1: 2 [3: 4] @ heapprofile\n# slub-profile 0\n" MAPS,
		       " is of version 0; slub  reads version 1. Use the slub of the libslub that "
		       "wrote it");
}

static void test_damaged_sites(void)
{
	static const char *const lines[] = {
		"1: 2 [3: 4] @ 0x10 x\n", "1: 2 [3: 4] @ 0\n", "1: 2 [3: 4] @ 0x10 0x0\n",
		"1: 2 [3: 4] @ 0x10,0x20\n",
	}, *const others[] = {
		"1: 2 [3: 4]\n", "1: 2 [3: x] @ 0x10\n", "1: 2 [3: 4] 0x10\n", "\n", "x\n",
		"MAPPED_LIBRARIES\n", "MAPPED_LIBRARIES: \n", "MAPPED_LIBRARIES:",
	};
	char text[4096];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(text, sizeof(text), HEAD "%s" MAPS, lines[i]);
		EXPECT_REFUSED(text, ", line 3: an address that is none");
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(text, sizeof(text), HEAD "# pid 7\n1: 2 [3: 4] @ 0x10\n%s", others[i]);
		EXPECT_REFUSED(text, ", line 5: neither a sample, nor a comment, nor "
			       "MAPPED_LIBRARIES:");
	}
}

/* A stack of a file that has more frames than any is refused, at the first one too many. */
static void test_deep(void)
{
	struct profile profile;
	char text[8192];
	int at;

	for (int nr = 255; nr <= 257; nr++) {
		at = snprintf(text, sizeof(text), HEAD "1: 2 [3: 4] @");
		for (int i = 1; i <= nr; i++)
			at += snprintf(text + at, sizeof(text) - (size_t)at, " 0x%x", i);
		snprintf(text + at, sizeof(text) - (size_t)at, "\n" MAPS);
		EXPECT(read_text(&profile, text), nr < 256 ? 0 : STATUS_UNREADABLE);
		if (nr < 256) {
			EXPECT(profile.sites[0].nr_frames, nr);
			EXPECT(profile.locations[profile.frames[254]].address, 254);
		} else {
			EXPECT_TEXT(said, "slub: profile: '/file', line 3: an address that is "
				    "none\n");
		}
		profile_free(&profile);
	}
}

static void expect_unreadable(int line, const char *name, enum input_kinds kinds, double seconds,
			      int status, const char *why)
{
	struct profile profile;
	char expected[512];

	expect_at(line, "the status", read_kinds(&profile, name, kinds, seconds), status);
	snprintf(expected, sizeof(expected), "slub: profile: cannot read '%s': %s\n",
		 name + (strncmp(name, folder, strlen(folder)) ? 0 : strlen(folder)), why);
	expect_text(line, said, expected);
	profile_free(&profile);
}

#define EXPECT_UNREADABLE(name, kinds, seconds, status, why) \
	expect_unreadable(__LINE__, name, kinds, seconds, status, why)

static void test_unreadable(void)
{
	struct profile profile;
	int fd;

	EXPECT_UNREADABLE(in_folder("none"), INPUT_FILE, WAIT, STATUS_NO_TARGET,
			  "No such file or directory");
	EXPECT_UNREADABLE(folder, INPUT_STREAM, WAIT, STATUS_UNREADABLE, "Is a directory");
	EXPECT_UNREADABLE("/dev/null", INPUT_STREAM, WAIT, STATUS_UNREADABLE, "it is no file");
	EXPECT(mkfifo(in_folder("pipe"), 0600), 0);
	EXPECT_UNREADABLE(path, INPUT_FILE, WAIT, STATUS_UNREADABLE, "it is no file");
	unlink(path);
	EXPECT(read_text(&profile, HEAD MAPS), 0);
	profile_free(&profile);
	EXPECT_UNREADABLE(path, INPUT_FILE, -1, STATUS_UNREADABLE, "it does not end in time");
	EXPECT_UNREADABLE(in_folder("file/x"), INPUT_FILE, WAIT, STATUS_NO_TARGET,
			  "Not a directory");
	/* As root by another user for files. */
	EXPECT(chmod(in_folder("file"), 0), 0);
	setfsuid(NOBODY);
	fd = open(path, O_RDONLY);
	if (fd >= 0)
		close(fd);
	else
		EXPECT_UNREADABLE(path, INPUT_FILE, WAIT, STATUS_NO_PERMISSION,
				  "Permission denied");
	setfsuid(geteuid());
	unlink(in_folder("file"));
}

/* One comment goes on and on, up to the bound and one byte beyond it. */
static void test_long(void)
{
	static const char start[] = HEAD "# pid 8\n# x", end[] = "\n" MAPS;
	struct profile profile;
	int fd;

	for (unsigned int bytes = BYTES_MAX; bytes <= BYTES_MAX + 1; bytes++) {
		fd = open(in_folder("long"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		EXPECT(write(fd, start, strlen(start)), strlen(start));
		EXPECT(pwrite(fd, end, strlen(end), bytes - strlen(end)), strlen(end));
		close(fd);
		if (bytes == BYTES_MAX) {
			EXPECT(read_kinds(&profile, path, INPUT_FILE, WAIT), 0);
			EXPECT(profile.pid, 8);
			profile_free(&profile);
		} else {
			EXPECT_UNREADABLE(path, INPUT_FILE, WAIT, STATUS_UNREADABLE,
					  "it is longer than any profile");
		}
	}
	unlink(path);
}

/* ---- what is added ---- */

static void expect_room(const void *array, size_t nr, size_t size)
{
	size_t bytes = malloc_usable_size((void *)array);

	EXPECT(bytes >= nr * size, true);
	/* Twice as many are asked for at the most. */
	EXPECT(bytes <= 2 * nr * size + 32, true);
}

static void test_room(void)
{
	struct profile profile = { .pid = 0 };

	for (uint64_t nr = 1; nr <= 70; nr++) {
		struct profile_site site = { .samples = nr };
		uint64_t frame = 16 * nr;

		profile_add_site(&profile, &site, &frame, 1);
		expect_room(profile.sites, nr, sizeof(site));
		expect_room(profile.frames, nr, sizeof(frame));
		expect_room(profile.locations, nr, sizeof(*profile.locations));
	}
	for (uint64_t nr = 1; nr <= 70; nr++) {
		EXPECT(profile.sites[nr - 1].samples, nr);
		EXPECT(profile.sites[nr - 1].first, nr - 1);
		EXPECT(profile.locations[profile.frames[nr - 1]].address, 16 * nr - 1);
	}
	profile_free(&profile);
}

static void test_added(void)
{
	static const uint64_t frames[] = { 0x5001, 0x6001, 0x5001, 0x5000 };
	struct profile_site site = { .values = { 1, 2, 3, 4 }, .samples = 5, .live_samples = 6,
				     .stack = 7, .first = 8, .nr_frames = 9 };
	struct profile profile;

	EXPECT(read_text(&profile, HEAD "1: 2 [3: 4] @ 0x5002\n" MAPS
			 "5000-6000 r-xp 00000000 fe:01 11    /a\n"), 0);
	profile_add_site(&profile, &site, frames, 4);
	profile_add_site(&profile, &site, frames, 0);
	EXPECT_TEXT(tell(&profile),
		"0 0 0 0 0 0 alive\n"
		"1: 2 [3: 4] 0 of 0 stack 0 5001/1\n"
		"3: 4 [1: 2] 6 of 5 stack 7 5000/1 6000/0 5000/1 4fff/0\n"
		"3: 4 [1: 2] 6 of 5 stack 7\n"
		"5000-6000 0 '/a' -\n"
		"5000-6000 r-xp 00000000 fe:01 11    /a\n");
	/* What a location and a mapping may have is the profile's own. */
	profile.locations[0].function = strdup("function");
	profile.locations[3].symbol = strdup("symbol");
	profile.locations[3].file = strdup("file");
	profile.mappings[0].build_id = strdup("id");
	profile_free(&profile);
}

/* ---- two of them ---- */

static void add(struct profile *profile, uint64_t value, const uint64_t *frames, size_t nr)
{
	struct profile_site site = { .samples = value + 1, .live_samples = value + 2 };

	for (int v = 0; v < NR_VALUES; v++)
		site.values[v] = value + 10 * (uint64_t)v;
	profile_add_site(profile, &site, frames, nr);
}

/* Stacks are told apart by each of their frames and by their number, whatever their hash. */
static void test_difference(void)
{
	static const uint64_t a[] = { 1, 2, 3 }, b[] = { 1, 2, 4 }, c[] = { 5, 2, 3 },
			      d[] = { 1, 6, 3 };
	struct profile_site kept[6], *own;
	struct profile before = { .pid = 1 }, now = { .pid = 1 };

	add(&before, 7, b, 3);
	add(&before, 1000, a, 3);
	add(&before, 40, d, 3);
	add(&before, 5, NULL, 0);
	add(&now, 2000, c, 3);
	add(&now, 3000, NULL, 0);
	add(&now, 4000, a, 2);
	add(&now, 30, d, 3);		/* has become less */
	add(&now, 5000, a, 3);
	/* One more lies in front of them, and stays. */
	memset(kept, 0x55, sizeof(kept[0]));
	memcpy(kept + 1, now.sites, sizeof(kept) - sizeof(kept[0]));
	own = now.sites;
	now.sites = kept + 1;
	profile_subtract(&now, &before);
	EXPECT(kept[0].samples, 0x5555555555555555);
	EXPECT_TEXT(tell(&now),
		"0 1 0 0 0 0 alive\n"
		"2020: 2030 [2000: 2010] 2002 of 2001 stack 0 4/0 1/0 2/0\n"
		"2995: 2995 [2995: 2995] 2995 of 2995 stack 0\n"
		"4020: 4030 [4000: 4010] 4002 of 4001 stack 0 0/0 1/0\n"
		"0: 0 [0: 0] 0 of 0 stack 0 0/0 5/0 2/0\n"
		"4000: 4000 [4000: 4000] 4000 of 4000 stack 0 0/0 1/0 2/0\nnone\n");
	EXPECT(before.sites[1].values[0], 1000);
	now.sites = own;
	profile_free(&before);
	profile_free(&now);
}

/* Of a stack, each frame has a part in it, and nothing else. */
static void test_hash(void)
{
	static const uint64_t a[] = { 101, 102, 103, 104 }, b[] = { 201, 202 };
	struct profile before = { .pid = 1 }, now = { .pid = 1 };

	add(&now, 1, a, 4);
	now.sites[0].nr_frames = 3;	/* the fourth is another one's */
	add(&before, 1, b, 2);
	nr_mixed = 0;
	profile_subtract(&now, &before);
	EXPECT(nr_mixed, 5);
	EXPECT(mixed[0], 100);
	EXPECT(mixed[1], 101);
	EXPECT(mixed[2], 102);
	EXPECT(mixed[3], 200);
	EXPECT(mixed[4], 201);
	profile_free(&before);
	profile_free(&now);
}

static void test_all(void)
{
	test_all_lines();
	test_controls();
	test_build_ids();
	test_damaged_heads();
	test_damaged_sites();
	test_deep();
	test_unreadable();
	test_long();
	test_room();
	test_added();
	test_difference();
	has_one_hash = true;
	test_difference();
	has_one_hash = false;
	test_hash();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	if (!mkdtemp(folder))
		return 77;
	do_twice(test_all);
	rmdir(folder);
	return failures != 0;
}
