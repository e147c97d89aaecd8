/* SPDX-License-Identifier: MIT */
/*
 * The files of the kernel and of systemd that tell of memory pressure.
 *
 * A trigger needs a file that can be written, which a container's cgroup files
 * are not; memory.events needs to be read only.  So both are opened where both
 * can be.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "features/pressure/cgroup_pressure.h"
#include "features/pressure/pressure.h"

/* A watched FIFO or socket is emptied so far per event. */
#define DRAIN_BYTES 4096
#define WRITE_MAX 512
/* Of a v1 limit: seven eighths. */
#define NEAR_LIMIT(bytes) ((bytes) - (bytes) / 8)
/* Above it, a v1 limit is none. */
#define V1_NO_LIMIT ((size_t)1 << 60)

struct pressure_options pressure_options = { 150000, 50000, 2000000, false };

static int file_open(const char *path, int flags)
{
	return (int)sys_open(path, flags | O_NONBLOCK | O_NOCTTY, 0);
}

static int file_open_in(const char *folder, const char *name, int flags)
{
	char path[CGROUP_PATH_MAX + 32];
	struct text text = { path, sizeof(path), 0 };

	text_printf(&text, "%s/%s", folder, name);
	path[min_size(text.used_bytes, sizeof(path) - 1)] = '\0';
	return file_open(path, flags);
}

static bool write_all(int fd, const char *bytes, size_t n)
{
	return sys_call4(SYS_write, fd, (long)bytes, (long)n, 0) == (long)n;
}

static void close_both(const struct source *source)
{
	close_fd(source->fd);
	close_fd(source->other_fd);
}

static int add(struct source *sources, int nr, struct source source)
{
	if (nr == SOURCES_MAX) {
		close_both(&source);
		return nr;
	}
	source.fd = descriptor_keep(source.fd, DESCRIPTOR_MIN);
	source.other_fd = descriptor_keep(source.other_fd, DESCRIPTOR_MIN);
	sources[nr] = source;
	return nr + 1;
}

/* ---- systemd ---- */

static const char *watch_path;
static const char *watch_write;

static void find_watch(char **environment)
{
	static const char path[] = "MEMORY_PRESSURE_WATCH=";
	static const char what[] = "MEMORY_PRESSURE_WRITE=";

	for (; *environment; environment++) {
		if (!strncmp(*environment, path, sizeof(path) - 1))
			watch_path = *environment + sizeof(path) - 1;
		if (!strncmp(*environment, what, sizeof(what) - 1))
			watch_write = *environment + sizeof(what) - 1;
	}
}

static int base64_digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) : -1;
}

static size_t base64_decode(const char *text, char *out, size_t size)
{
	uint32_t bits = 0;
	size_t n = 0;
	int nr = 0;

	for (; base64_digit(*text) >= 0; text++) {
		bits = bits << 6 | (uint32_t)base64_digit(*text);
		nr += 6;
		if (nr >= 8) {
			nr -= 8;
			if (n == size)
				break;
			out[n++] = (char)(bits >> nr);
		}
	}
	return n;
}

static int watch_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = (int)sys_call4(SYS_socket, AF_UNIX,
			    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0);
	if (fd >= 0 && sys_call4(SYS_connect, fd, (long)&address,
				 sizeof(address), 0) < 0) {
		close_fd(fd);
		return -ECONNREFUSED;
	}
	return fd;
}

/* The file that systemd names, with the bytes written to it that systemd wants there. */
static int open_watched(const struct stat *state)
{
	char bytes[WRITE_MAX];
	size_t n = watch_write ? base64_decode(watch_write, bytes, WRITE_MAX) : 0;
	int fd;

	if (S_ISSOCK(state->st_mode))
		fd = watch_connect(watch_path);
	else
		fd = file_open(watch_path, watch_write || S_ISFIFO(state->st_mode) ?
					   O_RDWR : O_RDONLY);
	if (fd < 0 || !n || write_all(fd, bytes, n))
		return fd;
	close_fd(fd);
	return -EINVAL;
}

static int open_watch(struct source *sources, int nr)
{
	struct source source = { .kind = SLUB_PRESSURE_WATCH,
				 .severity = SEVERITY_SOME,
				 .poll_events = EPOLLIN,
				 .fd = -1, .other_fd = -1 };
	struct stat state;
	bool is_trigger;

	if (sys_call4(SYS_newfstatat, AT_FDCWD, (long)watch_path, (long)&state, 0)) {
		log_message("MEMORY_PRESSURE_WATCH: there is no '%s'",
			    watch_path);
		return nr;
	}
	is_trigger = S_ISREG(state.st_mode) && watch_write;
	if (S_ISREG(state.st_mode))
		source.poll_events = EPOLLPRI;
	if (is_trigger)
		source.other_fd = open_watched(&state);
	source.fd = open_watched(&state);
	if (source.fd < 0 || (is_trigger && source.other_fd < 0)) {
		log_message("MEMORY_PRESSURE_WATCH: cannot use '%s'",
			    watch_path);
		close_both(&source);
		return nr;
	}
	return add(sources, nr, source);
}

/* ---- stall triggers ---- */

static int open_trigger(const char *path_or_folder, const char *name,
			const char *word, uint32_t stall_us)
{
	char text_of[64];
	struct text text = { text_of, sizeof(text_of), 0 };
	int fd;

	fd = name ? file_open_in(path_or_folder, name, O_RDWR) :
		    file_open(path_or_folder, O_RDWR);
	if (fd < 0)
		return fd;
	text_printf(&text, "%s %u %u", word, stall_us,
		    pressure_options.window_us);
	/* The kernel wants the final zero. */
	text_of[text.used_bytes] = '\0';
	if (write_all(fd, text_of, text.used_bytes + 1))
		return fd;
	close_fd(fd);
	return -EINVAL;
}

/* The twin first: a window that begins no later has its event no later. */
static int add_trigger(struct source *sources, int nr, const char *where,
		       const char *name, const char *word, uint32_t stall_us,
		       struct source source)
{
	source.other_fd = open_trigger(where, name, word, stall_us);
	source.fd = open_trigger(where, name, word, stall_us);
	if (source.fd >= 0 && source.other_fd >= 0)
		return add(sources, nr, source);
	close_both(&source);
	return nr;
}

static int open_triggers(struct source *sources, int nr, const char *where,
			 const char *name, enum slub_pressure_source kind)
{
	struct source source = { .kind = kind, .severity = SEVERITY_SOME,
				 .poll_events = EPOLLPRI };

	nr = add_trigger(sources, nr, where, name, "some",
			 pressure_options.some_us, source);
	source.severity = SEVERITY_FULL;
	return add_trigger(sources, nr, where, name, "full",
			   pressure_options.full_us, source);
}

/* ---- memory.events ---- */

static const struct {
	const char *name;
	enum severity severity;
} event_kinds[EVENT_COUNTS] = {
	{ "low ", SEVERITY_SOME }, { "high ", SEVERITY_FULL },
	{ "max ", SEVERITY_LIMIT }, { "oom ", SEVERITY_LIMIT },
	{ "oom_kill ", SEVERITY_LIMIT },
};

/* Notes the count that @line tells; returns how bad it is if it has grown. */
static enum severity event_read(struct source *source, const char *line)
{
	for (int i = 0; i < EVENT_COUNTS; i++) {
		size_t length = strlen(event_kinds[i].name);
		const char *digits = line + length;
		uint64_t before = source->counts[i];

		if (strncmp(line, event_kinds[i].name, length))
			continue;
		source->counts[i] = os_parse_number(&digits);
		if (source->counts[i] > before)
			return event_kinds[i].severity;
	}
	return SEVERITY_NONE;
}

/* Reads the counts; returns the worst that has grown. */
static enum severity events_read(struct source *source)
{
	enum severity worst = SEVERITY_NONE, one;
	char buf[512];
	long n = sys_call4(SYS_pread64, source->fd, (long)buf, sizeof(buf) - 1,
			   0);

	source->is_over = n < 0;	/* the cgroup was removed */
	buf[n > 0 ? n : 0] = '\0';
	for (const char *line = buf; *line; line += *line == '\n') {
		one = event_read(source, line);
		worst = one > worst ? one : worst;
		line += strcspn(line, "\n");
	}
	return worst;
}

static int open_events(struct source *sources, int nr, const char *folder)
{
	struct source source = { .kind = SLUB_PRESSURE_EVENTS,
				 .poll_events = EPOLLPRI, .other_fd = -1 };

	source.fd = file_open_in(folder, "memory.events", O_RDONLY);
	if (source.fd < 0)
		return nr;
	events_read(&source);
	return add(sources, nr, source);
}

/* ---- cgroup v1 ---- */

static int open_v1(struct source *sources, int nr, const char *folder,
		   const char *name, const char *argument,
		   struct source source)
{
	char text_of[64];
	struct text text = { text_of, sizeof(text_of), 0 };
	int control = file_open_in(folder, "cgroup.event_control", O_WRONLY);

	source.other_fd = file_open_in(folder, name, O_RDONLY);
	source.fd = (int)sys_call4(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK,
				   0, 0);
	text_printf(&text, "%d %d %s", source.fd, source.other_fd, argument);
	if (control >= 0 && source.other_fd >= 0 && source.fd >= 0 &&
	    write_all(control, text_of, text.used_bytes)) {
		nr = add(sources, nr, source);
	} else {
		close_both(&source);
	}
	close_fd(control);
	return nr;
}

static int open_v1_usage(struct source *sources, int nr, const char *folder)
{
	struct source source = { .kind = SLUB_PRESSURE_V1_USAGE,
				 .severity = SEVERITY_FULL,
				 .poll_events = EPOLLIN };
	int fd = file_open_in(folder, "memory.limit_in_bytes", O_RDONLY);
	char buf[32], number[32];
	struct text text = { number, sizeof(number) - 1, 0 };
	const char *digits = buf;
	size_t limit;
	long n;

	if (fd < 0)
		return nr;
	n = sys_call4(SYS_read, fd, (long)buf, sizeof(buf) - 1, 0);
	close_fd(fd);
	buf[n > 0 ? n : 0] = '\0';
	limit = os_parse_number(&digits);
	if (!limit || limit > V1_NO_LIMIT)
		return nr;
	text_printf(&text, "%lu", NEAR_LIMIT(limit));
	number[text.used_bytes] = '\0';
	return open_v1(sources, nr, folder, "memory.usage_in_bytes", number,
		       source);
}

/* ---- all of them ---- */

static int open_cgroups(struct source *sources)
{
	struct source level = { .kind = SLUB_PRESSURE_V1_LEVEL,
				.severity = SEVERITY_SOME,
				.poll_events = EPOLLIN };
	struct cgroup cgroup;
	int nr = 0;

	cgroup_find(&cgroup);
	if (cgroup.v2[0]) {
		nr = open_triggers(sources, nr, cgroup.v2, "memory.pressure",
				   SLUB_PRESSURE_PSI_CGROUP);
		if (!cgroup.v1[0])
			nr = open_events(sources, nr, cgroup.v2);
	}
	if (!nr || !(sources[0].kind & SLUB_PRESSURE_PSI_CGROUP))
		nr = open_triggers(sources, nr, "/proc/pressure/memory", NULL,
				   SLUB_PRESSURE_PSI_MACHINE);
	if (cgroup.v1[0]) {
		nr = open_v1(sources, nr, cgroup.v1, "memory.pressure_level",
			     "medium", level);
		nr = open_v1_usage(sources, nr, cgroup.v1);
	}
	return nr;
}

int sources_open(struct source *sources)
{
	int nr;

	watch_path = watch_write = NULL;
	if (!os_is_secure())
		os_environment_read(find_watch);
	if (watch_path && !strcmp(watch_path, "/dev/null")) {
		log_message("MEMORY_PRESSURE_WATCH=/dev/null: memory pressure "
			    "is not watched");
		return 0;
	}
	nr = watch_path ? open_watch(sources, 0) : open_cgroups(sources);
	if (!nr)
		log_message("memory pressure: neither MEMORY_PRESSURE_WATCH, "
			    "memory.pressure, /proc/pressure/memory, "
			    "memory.events nor cgroup v1 can be watched");
	return nr;
}

void sources_close(struct source *sources, int nr)
{
	for (int i = 0; i < nr; i++) {
		descriptor_close(sources[i].fd);
		descriptor_close(sources[i].other_fd);
	}
}

bool source_is_whole(const struct source *source)
{
	return descriptor_is_kept(source->fd) &&
	       (source->other_fd < 0 || descriptor_is_kept(source->other_fd));
}

/* Takes the event of a trigger or its twin.  Both have an error when the cgroup was removed. */
static bool trigger_look(struct source *source)
{
	struct pollfd both[2] = { { source->fd, POLLPRI, 0 },
				  { source->other_fd, POLLPRI, 0 } };
	struct timespec at_once = { 0, 0 };
	long n = sys_call6(SYS_ppoll, (long)both, 2, (long)&at_once, 0, 8, 0);

	source->is_over = (both[0].revents | both[1].revents) & POLLERR;
	return n > 0 && !source->is_over;
}

/* Empties it. */
static bool stream_look(struct source *source)
{
	char buf[DRAIN_BYTES];
	long n = sys_call4(SYS_read, source->fd, (long)buf, sizeof(buf), 0);

	source->is_over = n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR);
	return n > 0;
}

enum severity source_look(struct source *source)
{
	if (source->kind == SLUB_PRESSURE_EVENTS)
		return events_read(source);
	if (source->poll_events == EPOLLPRI ? trigger_look(source) :
					      stream_look(source))
		return source->severity;
	return SEVERITY_NONE;
}
