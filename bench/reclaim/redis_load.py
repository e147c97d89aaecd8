# SPDX-License-Identifier: MIT
"""A client that uses a Redis server as a cache: asks, and stores what was not there.

The sizes of values change from phase to phase, so that what one phase leaves is of the wrong size
for the next.
"""
import random
import socket
import time

RATE = 15000		# requests a second
BATCH = 250
PHASES = 6
LARGEST = 8192


def size_of(key, phase):
    """A thousand bytes on the average in each phase, and each time others."""
    number = (key * 0xbf58476d1ce4e5b9 & 0xffffffffffffffff) >> 40
    if phase % 3 == 0:
        return 64 + number % 1872
    if phase % 3 == 1:
        return 800 + number % 400
    return 200 + number % 200 if number % 4 else 2600 + number % 400


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def ask(self, commands):
        """The replies; None for one that is not there, an exception's text for an error."""
        self.socket.sendall(b"".join(commands))
        return [self.reply() for _ in commands]

    def reply(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("the server has gone")
        if line[:1] == b"-":
            return line
        if line[:1] != b"$":
            return b""
        size = int(line[1:])
        if size < 0:
            return None
        return self.file.read(size + 2)


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def connect(path, process):
    for _ in range(200):
        try:
            return Client(path)
        except OSError:
            if process.poll() is not None:
                return None
            time.sleep(0.05)
    return None


def batch(client, generator, nr_keys, phase, value):
    """Hits, and errors."""
    keys = [int(nr_keys * generator.random() ** 2) for _ in range(BATCH)]
    replies = client.ask([command(b"GET", b"%d" % key) for key in keys])
    missed = [key for key, reply in zip(keys, replies) if reply is None]
    errors = 0
    # One in twenty has changed at its source.
    changed = missed + [key for key in keys if generator.random() < 0.05]
    if changed:
        stored = client.ask([command(b"SET", b"%d" % key, value[:size_of(key, phase)])
                             for key in changed])
        errors = sum(reply[:1] == b"-" for reply in stored)
    return BATCH - len(missed), errors


def run(path, process, seconds, working_set):
    """Yields (time, share of hits in percent, errors so far) about every second."""
    client = connect(path, process)
    if not client:
        return
    generator, value = random.Random(1), b"v" * LARGEST
    start = last = time.monotonic()
    asked = hits = done = errors = 0
    while (now := time.monotonic()) < start + seconds:
        if done < (now - start) * RATE:
            try:
                got, failed = batch(client, generator, working_set // 1000,
                                    int((now - start) * PHASES / seconds), value)
            except OSError:
                process.wait()
                return
            hits, asked, done, errors = hits + got, asked + BATCH, done + BATCH, errors + failed
        else:
            time.sleep(0.002)
        if now - last >= 1:
            yield now - start, 100 * hits / max(asked, 1), errors
            last, asked, hits = now, 0, 0
