"""Arrays beside pages that can't be touched, and canaries around results.

An arena is memory between two pages without any access: one byte read or written
beyond an array that ends there kills the process, and faulthandler says where. Under
QEMU 7.2, which faults on masked loads that hardware allows, set QOPS_NO_GUARD=1.
"""

import ctypes
import mmap
import os
from functools import cache
from typing import NamedTuple

import numpy as np

GUARDED = os.environ.get("QOPS_NO_GUARD", "0") == "0"
PAGE = mmap.PAGESIZE
CANARY_BYTES = 64
FILL = 0xA5
LENGTHS = range(4 * 64 + 4)
STEPS = (1, 2, 3, -1, -2)


class Spot(NamedTuple):
    """Where in an arena an array lies: how far from which edge."""

    edge: str
    items: int = 0
    odd_bytes: int = 0


SPOTS = (
    Spot("end"),
    *(Spot("start", items) for items in range(4)),
    Spot("start", odd_bytes=1),
    Spot("end", odd_bytes=3),
)


def forbid(address):
    """Take every access from a page."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if libc.mprotect(address, PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")


class Arena:
    """Memory between two pages that can't be touched."""

    def __init__(self, pages=4):
        self._map = mmap.mmap(-1, (pages + 2) * PAGE)
        memory = np.frombuffer(self._map, np.uint8)
        if GUARDED:
            forbid(memory.ctypes.data)
            forbid(memory.ctypes.data + memory.size - PAGE)
        self._bytes = memory[PAGE:-PAGE]
        self._around = self._bytes[:0]

    def place(self, n, dtype, spot, step=1):
        """Return an array of n elements, with canaries around and between them."""
        size = dtype.itemsize
        extent = ((n - 1) * abs(step) + 1) * size if n else 0
        start = spot.items * size + spot.odd_bytes
        if spot.edge == "end":
            start = self._bytes.size - extent - start
        end = start + extent
        self._around = self._bytes[max(start - CANARY_BYTES, 0) : end + CANARY_BYTES]
        self._around[...] = FILL
        return self._bytes[start:end].view(dtype)[::step]

    def copy(self, x, spot, step=1):
        """Return a copy of an array at a spot."""
        placed = self.place(x.size, x.dtype, spot, step)
        placed[...] = x
        return placed

    def collect(self, out):
        """Return the bytes of what `place` gave; the canaries have to be intact."""
        found = out.tobytes()
        out[...] = np.frombuffer(bytes([FILL]) * out.itemsize, out.dtype)[0]
        assert np.all(self._around == FILL), "bytes around out were written"
        return found


@cache
def arena(number):
    """Return one of the arenas, which are kept."""
    return Arena()


def check_lengths(call, inputs, expected, steps=(1,)):
    """Call with each length, misalignment and step: the same bytes have to come out.

    Parameters
    ----------
    call : callable
        Called as ``call(*inputs, out=out)``.
    inputs : list of ndarray
        Of one dimension; parts of them, from the beginning, are given to `call`.
    expected : ndarray
        What the whole inputs give.
    steps : tuple of int
        The steps in memory. The spots are combined over the lengths: there are seven
        of them, and at least one step for each.
    """
    turns = max(len(SPOTS), len(steps))
    for n in LENGTHS:
        wanted = expected[:n].tobytes()
        for turn in range(turns):
            views = [
                arena(k).copy(
                    x[:n],
                    SPOTS[(turn + k * n) % len(SPOTS)],
                    steps[(turn + k * n) % len(steps)],
                )
                for k, x in enumerate(inputs, 1)
            ]
            spot, step = SPOTS[turn % len(SPOTS)], steps[turn % len(steps)]
            out = arena(0).place(n, expected.dtype, spot, step)
            call(*views, out=out)
            assert arena(0).collect(out) == wanted, (n, spot, step)
