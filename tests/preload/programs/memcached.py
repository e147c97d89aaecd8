#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Eight clients of the memcached behind a socket; each answer is compared with what was stored."""
import hashlib
import socket
import sys
import threading

CLIENTS = 8
KEYS = 4000
OLD = 900
wrong = []


class Client:
    def __init__(self, path, number):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile("rb")
        self.number = number

    def ask(self, line, value=None):
        self.socket.sendall(line + b"\r\n" + (value + b"\r\n" if value is not None else b""))
        return self.answers.readline().strip()

    def get(self, key):
        head = self.ask(b"get " + key).split()
        if head == [b"END"]:
            return None
        value = self.answers.read(int(head[3]))
        self.answers.readline()
        self.answers.readline()
        return value

    def key(self, i):
        return b"k%d-%d" % (self.number, i)

    def step(self, i):
        key = self.key(i)
        word = hashlib.sha256(key).hexdigest().encode()
        value = word * (i * 7 % 150 + 1)
        good = self.ask(b"set %s 0 0 %d" % (key, len(value)), value) == b"STORED"
        good &= self.get(key) == value
        if i % 5 == 0:
            good &= self.ask(b"append %s 0 0 3" % key, b"end") == b"STORED"
        if i % 7 == 0:
            good &= self.ask(b"delete " + key) == b"DELETED"
        if i > OLD and i % 9 == 0:  # it may be evicted, but not another's
            old = self.get(self.key(i - OLD))
            good &= old is None or old.startswith(
                hashlib.sha256(self.key(i - OLD)).hexdigest().encode())
        if not good:
            wrong.append(key)

    def run(self):
        for i in range(KEYS):
            self.step(i)


threads = [threading.Thread(target=Client(sys.argv[1], n).run) for n in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"{CLIENTS * KEYS} keys, {len(wrong)} with wrong answers")
