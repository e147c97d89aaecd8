# SPDX-License-Identifier: MIT
"""How far a run is, and whether it will end in time."""
import sys
import time


class Progress:
    """Share done and time left, on standard error; and the rounds that there is time for."""

    def __init__(self, expected, until, clock=time.time):
        self.expected = max(expected, 1e-9)	# seconds, by the plan's estimates
        self.until = until			# the moment by which all has to be over, or None
        self.done = 0.0				# seconds of the estimate that are behind us
        self.clock = clock
        self.began = self.shown = clock()

    def slowness(self):
        """Real seconds by estimated ones, as far as is known."""
        if self.done < 0.02 * self.expected:
            return 1.0
        return (self.clock() - self.began) / self.done

    def left(self):
        """Seconds that all of the rest would take."""
        return self.slowness() * max(self.expected - self.done, 0)

    def shown_left(self):
        """The same, but rounds are left out in time."""
        left = self.left()
        return left if self.until is None else min(left, max(self.until - self.clock(), 0))

    def rounds(self, wanted, least=1):
        """How many of the rounds of the next job there is time for; 0 when time is up."""
        if self.until is None:
            return wanted
        available = self.until - self.clock()
        if available <= 0:
            return 0
        share = min(1.0, available / max(self.left(), 1e-9))
        return max(min(least, wanted), int(wanted * share + 0.5))

    def step(self, what, estimate):
        self.done += estimate
        now = self.clock()
        terminal = sys.stderr.isatty()
        if now - self.shown < (0.2 if terminal else 15):
            return
        self.shown = now
        share = min(100 * self.done / self.expected, 100)
        text = f"{share:3.0f} %  {what}, about {duration(self.shown_left())} left"
        sys.stderr.write(f"\r\033[K{text}" if terminal else text + "\n")
        sys.stderr.flush()

    def end(self):
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
        print(f"measured for {duration(self.clock() - self.began)}", file=sys.stderr)


def duration(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
