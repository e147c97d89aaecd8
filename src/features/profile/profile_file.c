/* SPDX-License-Identifier: MIT */
/*
 * The profile as a file: text, in the form that gperftools' heap profiles have,
 * with what else is known in lines that begin with '#' (docs/operate/profile.md).
 *
 *   heap profile: 12: 4096 [ 40: 13000] @ heapprofile
 *   # slub-profile 1
 *   # mean_bytes 524288
 *   ...
 *   # samples 3 10
 *        12:     4096 [    40:    13000] @ 0x55d0c01011 0x55d0c01450
 *   MAPPED_LIBRARIES:
 *   55d0c00000-55d0c01000 r--p 00000000 fe:01 1234    /usr/bin/program
 */
#define _GNU_SOURCE
#include "features/profile/profile.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <time.h>

#define BUFFER_BYTES 8192
/* What is written in one piece is shorter. */
#define PIECE_BYTES 1024

struct out {
	long fd;
	long err;		/* the first, or 0 */
	struct text text;
	char buffer[BUFFER_BYTES];
};

static void out_bytes(struct out *out, const char *bytes, size_t nr)
{
	if (!out->err)
		out->err = os_write_all(out->fd, bytes, nr);
}

static void out_flush(struct out *out)
{
	out_bytes(out, out->buffer, out->text.used_bytes);
	out->text.used_bytes = 0;
}

/* Room for the next piece. */
static struct text *out_text(struct out *out)
{
	if (out->text.used_bytes > BUFFER_BYTES - PIECE_BYTES)
		out_flush(out);
	return &out->text;
}

/* ---- sites ---- */

static uint64_t rounded(uint64_t weight)
{
	return (weight + WEIGHT_ONE / 2) / WEIGHT_ONE;
}

static void put_sums(struct text *text, const struct profile_sums *live,
		     const struct profile_sums *all)
{
	text_printf(text, "%lu: %lu [%lu: %lu] @",
		    (unsigned long)rounded(live->weight),
		    (unsigned long)live->bytes,
		    (unsigned long)rounded(all->weight),
		    (unsigned long)all->bytes);
}

static void add(struct profile_sums *to, const struct profile_sums *sums)
{
	to->samples += sums->samples;
	to->weight += sums->weight;
	to->bytes += sums->bytes;
}

static void put_head(struct out *out, const struct profile_state *state)
{
	struct profile_sums live = { 0, 0, 0 }, all = { 0, 0, 0 };
	struct text *text = out_text(out);

	for (uint32_t i = 0; i < state->nr_sites; i++) {
		add(&live, &state->sites[i].live);
		add(&all, &state->sites[i].all);
	}
	text_printf(text, "heap profile: ");
	put_sums(text, &live, &all);
	text_printf(text, " heapprofile\n# slub-profile 1\n");
	text_printf(text, "# mean_bytes %zu\n", state->mean_bytes);
	text_printf(text, "# pid %ld\n", sys_pid());
	text_printf(text, "# start_ns %lu\n", (unsigned long)state->start_ns);
	text_printf(text, "# written_ns %lu\n",
		    (unsigned long)os_clock_read_ns(CLOCK_REALTIME));
	text_printf(text, "# lost %lu\n", (unsigned long)state->lost);
}

/* For the reader of the ring (profile_trail.h). */
static cold void put_trails(struct out *out, const struct profile_state *state)
{
	if (state->last_trail)
		text_printf(out_text(out), "# trails %lu\n", (unsigned long)state->last_trail);
	for (uint32_t i = 0; i < state->nr_trails; i++)
		text_printf(out_text(out), "# alive %lu\n", (unsigned long)state->trails[i]);
}

static void put_site(struct out *out, const struct profile_site *site, bool has_trails)
{
	struct text *text = out_text(out);
	uint32_t nr;
	const uintptr_t *frames = stack_frames(site->stack, &nr);

	text_printf(text, "# samples %lu %lu\n",
		    (unsigned long)site->live.samples,
		    (unsigned long)site->all.samples);
	if (has_trails)
		text_printf(text, "# stack %lu\n", (unsigned long)site->stack);
	put_sums(text, &site->live, &site->all);
	for (uint32_t i = 0; i < nr; i++)
		text_printf(out_text(out), " 0x%lx", (unsigned long)frames[i]);
	text_printf(text, "\n");
}

/* ---- modules ---- */

static void put_build_id(struct out *out, uintptr_t start,
			 const unsigned char *id, size_t bytes)
{
	struct text *text = out_text(out);

	text_printf(text, "# build-id 0x%lx ", (unsigned long)start);
	for (size_t i = 0; i < bytes && i < 64; i++)
		text_printf(text, "%02x", id[i]);
	text_printf(text, "\n");
}

/* Looks through the notes of a segment. */
static void put_notes(struct out *out, uintptr_t start, const char *notes,
		      size_t bytes)
{
	while (bytes >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)notes;
		size_t name = round_up(note->n_namesz, 4);
		size_t length = sizeof(*note) + name +
				round_up(note->n_descsz, 4);
		const char *text = notes + sizeof(*note);

		if (length > bytes)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    memcmp(text, "GNU", 4) == 0)
			put_build_id(out, start,
				     (const unsigned char *)text + name,
				     note->n_descsz);
		notes += length;
		bytes -= length;
	}
}

static int put_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t start = 0;
	bool found = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum && !found; i++) {
		found = info->dlpi_phdr[i].p_type == PT_LOAD;
		start = info->dlpi_addr +
			round_down(info->dlpi_phdr[i].p_vaddr, PAGE_BYTES);
	}
	for (int i = 0; found && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_NOTE)
			put_notes(arg, start, (const char *)info->dlpi_addr +
				  header->p_vaddr, header->p_memsz);
	}
	return 0;
}

static void put_maps(struct out *out)
{
	long fd = sys_open("/proc/self/maps", O_RDONLY, 0);
	long n;

	text_printf(out_text(out), "MAPPED_LIBRARIES:\n");
	out_flush(out);
	if (fd < 0)
		return;
	while ((n = sys_call4(SYS_read, fd, (long)out->buffer, BUFFER_BYTES,
			      0)) > 0)
		out_bytes(out, out->buffer, (size_t)n);
	sys_close(fd);
}

int profile_write_to(long fd, bool with_modules)
{
	/* Not on the stack: the thread may have little (features/watch/debug_mailbox.c). */
	struct out *out = os_map(sizeof(*out));
	struct profile_state state;
	int err;

	if (!out)
		return -ENOMEM;
	out->fd = fd;
	out->text = (struct text){ out->buffer, BUFFER_BYTES, 0 };
	err = profile_copy(&state);
	if (!err) {
		put_head(out, &state);
		if (with_modules)
			dl_iterate_phdr(put_module, out);
		for (uint32_t i = 0; i < state.nr_sites; i++)
			put_site(out, &state.sites[i], state.last_trail);
		put_trails(out, &state);
		put_maps(out);
		profile_copy_free(&state);
		err = (int)out->err;
	}
	os_unreserve(out, sizeof(*out));
	return err;
}

long profile_write(const char *path)
{
	char buf[OS_PATH_BYTES];
	const char *name = os_path(path, buf, sizeof(buf));
	long fd = name ? os_output_open(name, O_TRUNC) : -ENAMETOOLONG;
	int err;

	if (fd < 0)
		return fd;
	err = profile_write_to(fd, true);
	sys_close(fd);
	return err;
}
