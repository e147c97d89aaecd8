/* SPDX-License-Identifier: MIT */
/*
 * The profile in the form of pprof: the message perftools.profiles.Profile of
 * profile.proto, compressed by gzip.
 *
 * Of Protocol Buffers this needs two kinds of fields: a number (varint), and
 * bytes with their length in front, which are a string or another message.
 */
#include "index.h"
#include "output.h"
#include "profile.h"
#include "slub.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if SLUB_TOOL_ZLIB
#include <zlib.h>
#endif

struct buffer {
	unsigned char *bytes;
	size_t used, size;
};

static void put_byte(struct buffer *to, unsigned int byte)
{
	if (to->used == to->size) {
		to->size = to->size ? 2 * to->size : 256;
		to->bytes = must_have(realloc(to->bytes, to->size));
	}
	to->bytes[to->used++] = (unsigned char)byte;
}

static void put_varint(struct buffer *to, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_byte(to, 0x80 | (value & 0x7f));
	put_byte(to, (unsigned int)value);
}

enum wire { WIRE_VARINT = 0, WIRE_BYTES = 2 };

static void put_number(struct buffer *to, unsigned int field, uint64_t value)
{
	if (!value)
		return;		/* what is not there is 0 */
	put_varint(to, field << 3 | WIRE_VARINT);
	put_varint(to, value);
}

static void put_bytes(struct buffer *to, unsigned int field,
		      const void *bytes, size_t nr)
{
	put_varint(to, field << 3 | WIRE_BYTES);
	put_varint(to, nr);
	for (size_t i = 0; i < nr; i++)
		put_byte(to, ((const unsigned char *)bytes)[i]);
}

/* Puts @message into @to and empties it for the next. */
static void put_message(struct buffer *to, unsigned int field,
			struct buffer *message)
{
	put_bytes(to, field, message->bytes, message->used);
	/* profile_write_proto() frees what both have: NOLINTNEXTLINE(*unix.Malloc) */
	message->used = 0;
}

/* ---- strings ---- */

struct writer {
	const struct profile *profile;
	struct buffer out;
	struct buffer message;		/* the one being built */
	struct buffer location;		/* functions are written meanwhile */
	struct buffer inner;		/* a message in it */
	const char **strings;
	size_t nr_strings;
	struct index string_index;
	struct function {
		const char *name, *symbol, *file;
	} *functions;			/* number 1 is the first */
	size_t nr_functions;
	struct index function_index;
};

static uint64_t string_number(struct writer *writer, const char *text)
{
	uint64_t hash = hash_string(text);
	size_t at = 0, found;

	if (!text)
		return 0;
	do {
		found = index_next(&writer->string_index, hash, &at);
		if (found < writer->nr_strings &&
		    !strcmp(writer->strings[found], text))
			return found;
	} while (found != INDEX_NONE);
	index_add(&writer->string_index, hash, writer->nr_strings);
	if (!(writer->nr_strings & (writer->nr_strings - 1)))
		writer->strings = must_have(realloc(writer->strings,
						    (2 * writer->nr_strings + 1) *
						    sizeof(char *)));
	writer->strings[writer->nr_strings] = text;
	return writer->nr_strings++;
}

/* ---- the messages ---- */

static void put_value_type(struct writer *writer, unsigned int field,
			   const char *type, const char *unit)
{
	put_number(&writer->message, 1, string_number(writer, type));
	put_number(&writer->message, 2, string_number(writer, unit));
	put_message(&writer->out, field, &writer->message);
}

static void put_sample(struct writer *writer, const struct profile_site *site)
{
	const struct profile *profile = writer->profile;

	for (size_t i = 0; i < site->nr_frames; i++)
		put_varint(&writer->inner, profile->frames[site->first + i] + 1);
	put_message(&writer->message, 1, &writer->inner);
	for (int v = 0; v < NR_VALUES; v++)
		put_varint(&writer->inner, site->values[v]);
	put_message(&writer->message, 2, &writer->inner);
	put_message(&writer->out, 2, &writer->message);
}

static void put_mapping(struct writer *writer, size_t m)
{
	const struct profile_mapping *mapping = &writer->profile->mappings[m];
	struct buffer *to = &writer->message;

	put_number(to, 1, m + 1);
	put_number(to, 2, mapping->start);
	put_number(to, 3, mapping->end);
	put_number(to, 4, mapping->offset);
	put_number(to, 5, string_number(writer, mapping->path));
	put_number(to, 6, string_number(writer, mapping->build_id));
	put_number(to, 7, mapping->has_symbols);
	put_number(to, 8, mapping->has_symbols);
	put_number(to, 9, mapping->has_symbols);
	put_number(to, 10, mapping->has_symbols);
	put_message(&writer->out, 3, to);
}

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static void put_function(struct writer *writer, const struct function *function)
{
	put_number(&writer->message, 1, writer->nr_functions);
	put_number(&writer->message, 2, string_number(writer, function->name));
	put_number(&writer->message, 3,
		   string_number(writer, function->symbol ? function->symbol : function->name));
	put_number(&writer->message, 4, string_number(writer, function->file));
	put_message(&writer->out, 5, &writer->message);
}

/* Lines of one function in one file share it. */
static size_t function_number(struct writer *writer, const struct function *function)
{
	uint64_t hash = hash_string(function->name);
	size_t at = 0, nr = writer->nr_functions, i;

	while ((i = index_next(&writer->function_index, hash, &at)) != INDEX_NONE) {
		if (is_same(function->name, writer->functions[i].name) &&
		    is_same(function->file, writer->functions[i].file))
			return i + 1;
	}
	index_add(&writer->function_index, hash, nr);
	/* Doubles whenever the number is a power of two. */
	if (!(nr & (nr - 1)))
		writer->functions = must_have(realloc(writer->functions,
						      (nr ? 2 * nr : 1) * sizeof(*function)));
	writer->functions[nr] = *function;
	writer->nr_functions++;
	put_function(writer, function);
	return nr + 1;
}

/* One of a location that is being made; the functions it was inlined in come behind. */
static void put_line(struct writer *writer, struct buffer *location, size_t function,
		     unsigned int line)
{
	put_number(&writer->inner, 1, function);
	put_number(&writer->inner, 2, line);
	put_message(location, 4, &writer->inner);
}

static void put_location(struct writer *writer, size_t i)
{
	const struct profile_location *location =
		&writer->profile->locations[i];
	const struct function innermost = { location->function, location->symbol,
					    location->file };
	struct buffer *to = &writer->location;

	put_number(to, 1, i + 1);
	put_number(to, 2, location->mapping);
	put_number(to, 3, location->address);
	if (location->function)
		put_line(writer, to, function_number(writer, &innermost), location->line);
	for (size_t o = 0; o < location->nr_outers; o++) {
		const struct profile_outer *outer = &location->outers[o];
		const struct function function = { outer->function, outer->symbol, outer->file };

		put_line(writer, to, function_number(writer, &function), outer->line);
	}
	put_message(&writer->out, 4, to);
}

static void put_profile(struct writer *writer)
{
	static const char *const types[NR_VALUES][2] = {
		[VALUE_ALLOC_OBJECTS] = { "alloc_objects", "count" },
		[VALUE_ALLOC_SPACE] = { "alloc_space", "bytes" },
		[VALUE_INUSE_OBJECTS] = { "inuse_objects", "count" },
		[VALUE_INUSE_SPACE] = { "inuse_space", "bytes" },
	};
	const struct profile *profile = writer->profile;
	char comment[100];		/* until the strings are written below */

	string_number(writer, "");	/* number 0, by the format */
	for (int v = 0; v < NR_VALUES; v++)
		put_value_type(writer, 1, types[v][0], types[v][1]);
	for (size_t i = 0; i < profile->nr_sites; i++)
		put_sample(writer, &profile->sites[i]);
	for (size_t m = 0; m < profile->nr_mappings; m++)
		put_mapping(writer, m);
	for (size_t i = 0; i < profile->nr_locations; i++)
		put_location(writer, i);
	put_number(&writer->out, 9, profile->written_ns);
	put_number(&writer->out, 10,
		   profile->written_ns - profile->start_ns);
	put_value_type(writer, 11, "space", "bytes");
	put_number(&writer->out, 12, profile->mean_bytes);
	if (profile->is_unwound) {
		snprintf(comment, sizeof(comment), "call stacks: %" PRIu64
			 " samples unwound, %" PRIu64 " walked by the process",
			 profile->stacks_unwound, profile->stacks_walked);
		put_number(&writer->out, 13, string_number(writer, comment));
	}
	put_number(&writer->out, 14, string_number(writer, "inuse_space"));
	for (size_t i = 0; i < writer->nr_strings; i++)
		put_bytes(&writer->out, 6, writer->strings[i],
			  strlen(writer->strings[i]));
}

/* ---- the file ---- */

#if SLUB_TOOL_ZLIB
static bool write_file(const struct buffer *out, FILE *file)
{
	/* 16: with gzip's header */
	z_stream stream = { .next_in = out->bytes,
			    .avail_in = (unsigned int)out->used };
	unsigned char chunk[16384];
	bool good = deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED,
				 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK;
	int status = Z_OK;

	while (good && status == Z_OK) {
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		status = deflate(&stream, Z_FINISH);
		good = fwrite(chunk, sizeof(chunk) - stream.avail_out, 1,
			      file) == 1 || stream.avail_out == sizeof(chunk);
	}
	deflateEnd(&stream);
	return good && status == Z_STREAM_END;
}
#else
/* pprof reads it as well when it is not compressed. */
static bool write_file(const struct buffer *out, FILE *file)
{
	return fwrite(out->bytes, out->used, 1, file) == 1;
}
#endif

static int refuse_output(const char *path, int error)
{
	complain("profile: cannot write '%s': %s", path, output_why(error));
	return error == -EACCES ? STATUS_NO_PERMISSION : STATUS_NO_TARGET;
}

static int write_out(const struct buffer *out, const char *path, mode_t mode)
{
	struct output output;
	int error;
	bool good;

	if (!strcmp(path, "-"))
		return write_file(out, stdout) ? 0 : refuse_output(path, -errno);
	error = output_open(&output, path, mode);
	if (!error) {
		good = write_file(out, output.to);
		error = output_close(&output, good);
		if (!good)
			error = -EIO;
	}
	return error ? refuse_output(path, error) : 0;
}

int profile_write_proto(const struct profile *profile, const char *path, mode_t mode)
{
	struct writer writer = { .profile = profile };
	int status;

	put_profile(&writer);
	status = write_out(&writer.out, path, mode);
	free(writer.functions);
	free(writer.strings);
	index_free(&writer.string_index);
	index_free(&writer.function_index);
	free(writer.out.bytes);
	free(writer.message.bytes);
	free(writer.location.bytes);
	free(writer.inner.bytes);
	return status;
}
