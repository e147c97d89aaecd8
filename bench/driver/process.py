# SPDX-License-Identifier: MIT
"""One measured process and the line of JSON it answers with."""
import json
import os
import signal
import subprocess
import tempfile
import threading

TIMEOUT = 300		# seconds for one process; none takes a fifth of it
RESTING = '{"resting":true}'


class Failure(Exception):
    """Why one process gave no figures."""


class Process:
    """A running program; answer() waits for its end."""

    def __init__(self, command, environment, timeout=TIMEOUT):
        self.timed_out = False
        self.timeout = timeout
        self.said = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self.said, text=True, start_new_session=True)
        self.timer = threading.Timer(timeout, self._give_up)
        self.timer.start()
        self.first = None

    def _give_up(self):
        self.timed_out = True
        self.end()

    def end(self):
        """Kill it with all it started (it has a session of its own)."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def work(self):
        """Wait until its work is done: until it rests, or has ended."""
        line = self.process.stdout.readline()
        if line.strip() != RESTING:
            self.first = line

    def answer(self):
        """Wait for its end; the rows it measured."""
        try:
            text = (self.first or "") + self.process.stdout.read()
            code = self.process.wait()
        except BaseException:
            self.end()
            raise
        finally:
            self.timer.cancel()
        self.said.seek(0)
        said = self.said.read().strip()
        self.said.close()
        if self.timed_out:
            raise Failure(f"no end within {self.timeout:.0f} s")
        if code < 0:
            raise Failure(f"ended by signal {-code}")
        if code:
            raise Failure(f"ended with status {code}: {(said or 'no message').splitlines()[-1]}")
        return parsed(text)


def parsed(text):
    """The rows of a program."""
    text = text.replace(RESTING, "").strip()
    try:
        return json.loads(text)
    except ValueError:
        raise Failure(f"no line of JSON, but {text[:80]!r}") from None


def execute(command, environment, timeout=TIMEOUT):
    return Process(command, environment, timeout).answer()
