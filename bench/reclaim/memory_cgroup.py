# SPDX-License-Identifier: MIT
"""A memory cgroup of one's own, version 1 or 2."""
import os
import time


def _read(*path):
    try:
        with open(os.path.join(*path), encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def find():
    """(folder, version) in which groups can be made, or None."""
    for folder, version in (("/sys/fs/cgroup/memory", 1), ("/sys/fs/cgroup", 2)):
        if version == 2 and "memory" not in _read(folder, "cgroup.subtree_control").split():
            continue
        if version == 1 and not os.path.exists(os.path.join(folder, "memory.limit_in_bytes")):
            continue
        probe = os.path.join(folder, f"slub-probe-{os.getpid()}")
        try:
            os.mkdir(probe)
            os.rmdir(probe)
        except OSError:
            continue
        return folder, version
    return None


class Group:
    def __init__(self, folder, version):
        self.folder = folder
        self.version = version

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def limit(self, size):
        self._write("memory.max" if self.version == 2 else "memory.limit_in_bytes", str(size))
        swap = "memory.swap.max" if self.version == 2 else "memory.memsw.limit_in_bytes"
        if os.path.exists(os.path.join(self.folder, swap)):
            self._write(swap, "0" if self.version == 2 else str(size))

    def enter(self):
        self._write("cgroup.procs", str(os.getpid()))

    def oom_kills(self):
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        for line in _read(self.folder, name).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def remove(self):
        for _ in range(50):	# the last process may not be gone yet
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                time.sleep(0.1)


def make(name, size):
    """A group with that limit, or None where none can be made."""
    place = find()
    if not place:
        return None
    folder = os.path.join(place[0], name)
    os.mkdir(folder)
    group = Group(folder, place[1])
    group.limit(size)
    return group
