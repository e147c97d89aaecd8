/* SPDX-License-Identifier: MIT */
/* The container, or the unit of systemd, that a process runs in, by its control group. */
#ifndef SLUB_TOOL_CONTAINER_H
#define SLUB_TOOL_CONTAINER_H

#include <sys/types.h>

#define CONTAINER_NAME 64

/*
 * Of the text of /proc/PID/cgroup: the first twelve digits of a container's number, as `docker ps`
 * shows it, or the last part of the group's path, as "redis-server.service"; "" for none.
 */
void container_of_text(const char *text, char name[CONTAINER_NAME]);
/* "" where it cannot be read. */
void container_of_process(pid_t pid, char name[CONTAINER_NAME]);

#endif
