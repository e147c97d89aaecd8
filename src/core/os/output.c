/* SPDX-License-Identifier: MIT */
/*
 * Files that options and calls name.  What goes there has addresses and the contents of
 * objects in it, and the name may lie in a folder that others can write to: so nobody else
 * may read a file, and none is written that somebody else has put there.
 *
 * All of it is cold: few programs have such a file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/turn.h"
#include "core/os/os.h"

#define NSEC_PER_SEC 1000000000ull

static long first_pid;	/* 0: it was not asked for, for there is a filter */

void os_output_init(uint32_t pid)
{
	first_pid = os_is_filtered ? 0 : pid;
}

/* 0: what is open as @fd, and was there before perhaps, may be written; else -errno. */
static cold long check(long fd)
{
	struct stat found;
	long err = sys_call4(SYS_fstat, fd, (long)&found, 0, 0);
	unsigned int user = (unsigned int)sys_call4(SYS_geteuid, 0, 0, 0, 0);

	if (err)
		return err;
	if (found.st_uid != user && found.st_uid != 0)
		return -EPERM;
	if (!S_ISREG(found.st_mode))
		return 0;
	if (found.st_nlink > 1)
		return -EMLINK;
	/* An older release let everybody read it.  Another's file stays as it is. */
	if (found.st_uid == user && (found.st_mode & (S_IRWXG | S_IRWXO)))
		return sys_call4(SYS_fchmod, fd, S_IRUSR | S_IWUSR, 0, 0);
	return 0;
}

/*
 * A FIFO that nobody reads would keep the process at its exit for ever.  The file is
 * truncated only when it is known to be ours.
 */
cold long os_output_open(const char *path, int flags)
{
	long fd = sys_open(path, O_CREAT | O_NOFOLLOW | O_NONBLOCK |
			   (flags & O_EXCL ? O_RDWR : O_WRONLY) |
			   (flags & ~O_TRUNC), S_IRUSR | S_IWUSR);
	long err;

	if (fd < 0 || flags & O_EXCL)
		return fd;
	err = check(fd);
	if (!err && flags & O_TRUNC) {
		err = sys_call4(SYS_ftruncate, fd, 0, 0, 0);
		/* A device has nothing to cut off. */
		err = err == -EINVAL ? 0 : err;
	}
	if (err) {
		sys_close(fd);
		return err;
	}
	/* The reader of a FIFO may be slow. */
	sys_call4(SYS_fcntl, fd, F_SETFL, flags & O_APPEND, 0);
	return fd;
}

static cold const char *why(long err)
{
	switch (err) {
	case -ELOOP:
		return "a symbolic link; name the file itself";
	case -EPERM:
		return "it belongs to another user";
	case -EMLINK:
		return "it has a second name (a hard link)";
	case -ENAMETOOLONG:
		return "the name is too long";
	}
	return NULL;
}

cold void os_output_complain(const char *option, const char *path, long err)
{
	const char *reason = why(err);

	if (reason)
		log_message("option %s: cannot write '%s': %s", option, path,
			    reason);
	else
		log_message("option %s: cannot write '%s' (error %ld)", option,
			    path, -err);
}

/* ---- names ---- */

cold const char *os_path(const char *path, char *buf, size_t size)
{
	struct text text = { buf, size, 0 };

	if (!strstr(path, "%p"))
		return path;
	for (; *path; path++) {
		if (path[0] == '%' && path[1] == 'p') {
			text_printf(&text, "%ld", sys_pid());
			path++;
		} else {
			text_printf(&text, "%c", *path);
		}
	}
	if (text.used_bytes == size)
		return NULL;
	buf[text.used_bytes] = '\0';
	return buf;
}

/* All 0 where there is no file. */
static cold struct os_file_id id_of(const char *path)
{
	struct stat found;

	if (sys_call4(SYS_newfstatat, AT_FDCWD, (long)path, (long)&found,
		      AT_SYMLINK_NOFOLLOW))
		return (struct os_file_id){ 0, 0 };
	return (struct os_file_id){
		found.st_ino,
		(uint64_t)found.st_mtim.tv_sec * NSEC_PER_SEC +
			(uint64_t)found.st_mtim.tv_nsec,
	};
}

cold void os_output_expect(struct os_file_id *before, const char *path)
{
	*before = id_of(path);
}

cold bool os_output_is_ours(const char *path)
{
	if (strstr(path, "%p"))
		return true;
	return first_pid ? sys_pid() == first_pid : !turn_forks;
}

/* NULL: @buf has no room. */
static cold const char *name_at_exit(const struct os_file_id *before, const char *path,
				     char buf[OS_PATH_BYTES])
{
	struct text text = { buf, OS_PATH_BYTES, 0 };
	struct os_file_id now;

	if (strcmp(path, "stderr") == 0 || strstr(path, "%p"))
		return path;
	now = id_of(path);
	if (now.inode == before->inode && now.written_ns == before->written_ns)
		return path;
	text_printf(&text, "%s.%ld", path, sys_pid());
	if (text.used_bytes == OS_PATH_BYTES)
		return NULL;
	buf[text.used_bytes] = '\0';
	return buf;
}

cold void os_output_finish(const struct os_file_id *before, const char *option,
			   const char *path, long (*write_to)(const char *path))
{
	char buf[OS_PATH_BYTES];
	const char *name;
	long err;

	if (!os_output_is_ours(path))
		return;
	name = name_at_exit(before, path, buf);
	err = name ? write_to(name) : -ENAMETOOLONG;
	if (err)
		os_output_complain(option, path, err);
}
