# SPDX-License-Identifier: MIT
"""One program with one set of options: what becomes a row, or a table, of the report."""
import os


class Job:
    """Its rows make one table. Sizes, rounds and seconds are given for quick and full."""

    def __init__(self, name, title, program, quick, full, rounds, seconds, **more):
        self.name = name
        self.title = title
        self.program = program
        self.options = {"quick": quick, "full": full}
        self.rounds_of = {"quick": rounds[0], "full": rounds[1]}
        self.seconds_of = {"quick": seconds[0], "full": seconds[1]}	# one run, about
        self.kind = more.get("kind", "core")	# core, workload, latency
        self.hidden = more.get("hidden", ())	# rows that stand in the JSON alone
        self.startup = more.get("startup", False)	# the program itself preloads
        self.threads = more.get("threads", False)	# an eighth of the memory in a quick run
        self.mib = more.get("mib", 0)		# memory the hungriest allocator takes
        self.rests = more.get("rests", False)	# has a resting figure, measured in own rounds
        self.alone = more.get("alone", False)	# too much memory to rest beside others

    def arguments(self, mode):
        return self.options[mode].split()

    def absent(self, programs):
        """Why it cannot be run here, or None."""
        if not os.path.exists(os.path.join(programs, self.program)):
            return f"the program {self.program} is not built"
        return None
