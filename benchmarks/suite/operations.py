"""asv benchmarks of every case: on each level, beside its limit, and of few elements.

A level that this machine or this build lacks is shown as n/a.
"""

from contextlib import ExitStack
from timeit import Timer

import numpy as np

import qops

from .cases import CASES, LEVELS, limit


class Operation:
    """A case on a level, or the limit of the same traffic ("limit")."""

    params = (list(CASES), [*LEVELS, "limit"], [1 << 10, 1 << 16, 1 << 20, 1 << 24])
    param_names = ("case", "by", "elements")
    number = 0  # asv finds it
    repeat = (3, 10, 0.2)
    rounds = 1
    sample_time = 0.005
    warmup_time = 0.01

    def setup(self, name, by, n):
        """Choose what is called."""
        self.using = ExitStack()
        if by == "limit":
            self.call = limit(CASES[name], n)
        elif by in qops.available_isas():
            self.using.enter_context(qops.use_isa(by))
            self.call = CASES[name].make(n).qops
        else:
            raise NotImplementedError
        self.call()

    def teardown(self, name, by, n):
        """Put the level back."""
        self.using.close()

    def time_call(self, name, by, n):
        """Time one call."""
        self.call()

    def track_rate(self, name, by, n):
        """Give the bytes read and written per nanosecond, the best of a few tries."""
        timer = Timer(self.call)
        number = 1 + int(0.002 / max(timer.timeit(1), 1e-7))
        best = min(timer.repeat(5, number)) / number
        return float(f"{CASES[name].traffic * n / best / 1e9:.3g}")

    track_rate.unit = "GB/s"


class Overhead:
    """A call on 16 elements, which is all overhead, beside np.add(a, b, out=c)."""

    params = (["np.add", *CASES],)
    param_names = ("case",)
    number = 0
    repeat = (3, 10, 0.2)
    rounds = 1
    sample_time = 0.005
    warmup_time = 0.01

    def setup(self, name):
        """Choose what is called."""
        if name == "np.add":
            a, b, c = np.ones((3, 16), np.float32)
            self.call = lambda: np.add(a, b, out=c)
        else:
            self.call = CASES[name].make(16).qops

    def time_call(self, name):
        """Time one call."""
        self.call()
