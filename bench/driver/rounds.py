# SPDX-License-Identifier: MIT
"""Runs the jobs: every round of a job runs each allocator once, A B C A B C."""
import json
import os
import subprocess
import sys
import time

import machine

TIMEOUT = 300		# seconds for one process; none takes a fifth of it


class Failure(Exception):
    """Why one process gave no figures."""


class Progress:
    """Share done and time left, on standard error."""

    def __init__(self, expected):
        self.expected = expected	# seconds, by the plan's estimates
        self.done = 0.0			# seconds of the estimate that are behind us
        self.began = self.shown = time.time()

    def step(self, what, estimate):
        self.done += estimate
        now = time.time()
        terminal = sys.stderr.isatty()
        if now - self.shown < (0.2 if terminal else 15):
            return
        self.shown = now
        left = (now - self.began) / self.done * max(self.expected - self.done, 0)
        text = (f"{100 * self.done / self.expected:3.0f} %  {what}, "
                f"about {_duration(left)} left")
        sys.stderr.write(f"\r\033[K{text}" if terminal else text + "\n")
        sys.stderr.flush()

    def end(self):
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
        print(f"took {_duration(time.time() - self.began)}", file=sys.stderr)


def _duration(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def execute(command, environment, one_cpu=False):
    """One process; its line of JSON."""
    if one_cpu:
        command = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] + command
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"no end within {TIMEOUT} s") from None
    if done.returncode < 0:
        raise Failure(f"ended by signal {-done.returncode}")
    if done.returncode:
        said = (done.stderr.strip() or "no message").split("\n")[-1]
        raise Failure(f"ended with status {done.returncode}: {said}")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Failure(f"no line of JSON, but {done.stdout[:80]!r}") from None


class Runner:
    """The programs of one build, under the chosen allocators."""

    def __init__(self, programs, allocators, mode, rounds, results):
        self.programs, self.allocators = programs, allocators
        self.mode, self.rounds, self.results = mode, rounds, results
        self.notes = []

    def rounds_of(self, job):
        return self.rounds or max(job.rounds_of[self.mode], 1)

    def columns(self, job):
        return [one for one in self.allocators if (one.ours or not job.ours_only)
                and not (one.uniprocessor and job.threads)]

    def expected(self, jobs):
        return sum(self.rounds_of(job) * len(self.columns(job)) * job.seconds_of[self.mode]
                   for job in jobs) or 1

    def run(self, jobs):
        progress = Progress(self.expected(jobs))
        for job in jobs:
            arguments = job.arguments(self.mode) + self.floor(job)
            for number in range(self.rounds_of(job)):
                self.round(job, number, arguments, progress)
        progress.end()

    def round(self, job, number, arguments, progress):
        columns = self.columns(job)
        # Another one is first each time: what the last program left behind meets all alike.
        first = number % max(len(columns), 1)
        for allocator in columns[first:] + columns[:first]:
            if allocator.name not in self.results.failures(job.name):
                self.once(job, allocator, arguments)
            progress.step(f"{job.name} round {number + 1} of {self.rounds_of(job)}, "
                          f"{allocator.name}", job.seconds_of[self.mode])

    def once(self, job, allocator, arguments):
        available = machine.available_mib()
        if job.mib > available and not self.fits(job, available):
            self.results.fail(job.name, allocator.name,
                              f"needs up to {job.mib} MiB free, there are {available}")
            return
        try:
            answer = execute(self.command(job, allocator, arguments),
                             self.environment(job, allocator), allocator.uniprocessor)
            self.check(job, allocator, answer)
        except Failure as why:
            self.results.fail(job.name, allocator.name, str(why))
            return
        self.results.add(job.name, allocator.name, answer)

    def fits(self, job, available):
        # The quick run of the hungriest job has an eighth of its threads.
        return self.mode == "quick" and job.baseline and job.mib / 8 < available

    def command(self, job, allocator, arguments):
        command = [os.path.join(self.programs, job.program)] + arguments
        if job.startup:
            command += ["--program=" + os.path.join(self.programs, "empty"),
                        "--preload=" + (allocator.library or ""),
                        "--tunables=" + allocator.env.get("GLIBC_TUNABLES", "")]
        return command

    @staticmethod
    def environment(job, allocator):
        environment = allocator.environment()
        if job.startup:
            environment.pop("LD_PRELOAD", None)
            environment.pop("GLIBC_TUNABLES", None)
        return environment

    @staticmethod
    def check(job, allocator, answer):
        """Figures count only when malloc came from where it should."""
        if allocator.library and not job.startup and \
                os.path.realpath(answer["malloc"]) != os.path.realpath(allocator.library):
            raise Failure(f"the preload did not take effect: malloc is {answer['malloc']}'s")

    def floor(self, job):
        """What the job's process holds before any allocation, as an option to the job."""
        if not job.baseline:
            return []
        plain = machine_environment()
        try:
            answer = execute([os.path.join(self.programs, job.program)]
                             + job.arguments(self.mode) + job.baseline.split(), plain)
        except Failure as why:
            self.notes.append(f"{job.name}: no floor measured: {why}")
            return []
        rss = [row["value"] for row in answer["rows"] if row["name"].startswith("rss/")][0]
        self.notes.append(f"{job.name}: the process without any allocation holds {rss:.1f} MiB; "
                          "rss-of-heap is what is beyond that")
        return [f"--baseline={rss}"]


def machine_environment():
    return {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
