# SPDX-License-Identifier: MIT
"""Runs the jobs: every round of a job runs each allocator once, A B C A B C."""
import os

import machine
import warm
from process import Failure, Process, execute

TIMED = ("time", "seconds", "instructions", "cpu")	# not taken from the resting rounds


class Runner:
    """The programs of one build, under the chosen allocators."""

    def __init__(self, programs, allocators, mode, rounds, results):
        self.programs, self.allocators = programs, allocators
        self.mode, self.rounds, self.results = mode, rounds, results
        self.notes = []
        self.is_taken_back = warm.is_taken_back()
        if self.is_taken_back:
            self.notes.append(
                "the machine beneath takes back what is free (a balloon that reports free pages): "
                f"before each process {warm.AT_LEAST_MIB} to {warm.AT_MOST_MIB} MiB are written "
                "to and freed, so that all of them find memory that is there")

    # --- how much there is to do ---

    def rounds_of(self, job):
        return self.rounds or max(job.rounds_of[self.mode], 1)

    def resting_rounds(self, job):
        return (2 if self.mode == "full" else 1) if job.rests else 0

    def columns(self, job):
        return [one for one in self.allocators if not (one.few and job.kind == "core")]

    def seconds_of(self, job):
        """The estimate for all of a job."""
        columns, one = len(self.columns(job)), job.seconds_of[self.mode]
        resting = self.resting_rounds(job) * (columns * one + (columns if job.alone else 1))
        return self.rounds_of(job) * columns * one + resting

    def expected(self, jobs):
        return sum(self.seconds_of(job) for job in jobs) or 1

    # --- the rounds ---

    def run(self, jobs, progress):
        for job in jobs:
            self.job(job, progress)

    def job(self, job, progress):
        wanted = self.rounds_of(job)
        number_of = wanted if self.rounds else progress.rounds(wanted)
        if number_of < wanted:
            self.notes.append(f"{job.name}: {number_of} of {wanted} rounds, for lack of time"
                              if number_of else f"{job.name}: left out for lack of time")
        if not number_of:
            progress.step(job.name, self.seconds_of(job))
            return
        arguments = job.arguments(self.mode)
        for number in range(number_of):
            self.round(job, number, arguments, progress)
        for number in range(self.resting_rounds(job)):
            self.resting_round(job, number, arguments)
        progress.step(job.name, self.seconds_of(job) - number_of * len(self.columns(job))
                      * job.seconds_of[self.mode])

    def order(self, job, number):
        # Another one is first each time: what the last program left behind meets all alike.
        columns = [one for one in self.columns(job)
                   if one.name not in self.results.failures(job.name)
                   and not (one.few and number > 1)]
        first = number % max(len(columns), 1)
        return columns[first:] + columns[:first]

    def round(self, job, number, arguments, progress):
        for allocator in self.order(job, number):
            self.attempt(job, allocator, self.once, arguments)
            progress.step(f"{job.name} round {number + 1}, {allocator.name}",
                          job.seconds_of[self.mode])

    def attempt(self, job, allocator, call, arguments):
        """call(...) unless memory is short; its failure is the job's for that allocator."""
        available = machine.available_mib()
        if job.mib > available and not self.fits(job, available):
            self.results.fail(job.name, allocator.name,
                              f"needs up to {job.mib} MiB free, there are {available}")
            return None
        if self.is_taken_back:
            warm.make_present(warm.wanted_mib(job.mib, available))
        try:
            return call(job, allocator, arguments)
        except (Failure, OSError) as why:
            self.results.fail(job.name, allocator.name, str(why))
            return None

    def fits(self, job, available):
        # The quick run of the hungriest jobs has an eighth of their threads.
        return self.mode == "quick" and job.threads and job.mib / 8 < available

    def once(self, job, allocator, arguments):
        quiet = ["--rest=0"] if job.kind in ("workload", "latency") else []
        one = execute(self.command(job, allocator, arguments, quiet),
                      self.environment(job, allocator), self.limit(job))
        self.check(job, allocator, one)
        self.results.add(job.name, allocator.name, one)

    def resting_round(self, job, number, arguments):
        """Memory only: while one rests for its second, the next one works."""
        resting = []
        for allocator in self.order(job, number):
            process = self.attempt(job, allocator, self.start, arguments)
            if process:
                resting.append((allocator, process))
            if job.alone:
                self.collect(job, resting)
                resting = []
        self.collect(job, resting)

    def start(self, job, allocator, arguments):
        process = Process(self.command(job, allocator, arguments, ["--rest=1"]),
                          self.environment(job, allocator), self.limit(job))
        process.work()
        return process

    def collect(self, job, resting):
        for allocator, process in resting:
            try:
                answer = process.answer()
                self.check(job, allocator, answer)
            except Failure as why:
                self.results.fail(job.name, allocator.name, str(why))
                continue
            answer["rows"] = [row for row in answer["rows"] if row["name"] not in TIMED]
            self.results.add(job.name, allocator.name, answer)

    # --- one process ---

    def limit(self, job):
        """Seconds after which a process is ended: who needs ten times what others need fails."""
        return (6 if self.mode == "quick" else 40) + 10 * job.seconds_of[self.mode]

    def command(self, job, allocator, arguments, more):
        command = [os.path.join(self.programs, job.program)] + more
        command += arguments
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
