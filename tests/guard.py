"""Arrays that end at a page which can't be touched: an over-read of a byte is fatal."""

import ctypes
import mmap
import os

import numpy as np

CANARY = 0xA5
# QEMU 7.2 faults on masked loads that hardware allows.
GUARDED = os.name == "posix" and not os.environ.get("QOPS_NO_GUARD")


def guarded(n, dtype):
    """Return n canaries of a dtype whose last byte is followed by a forbidden page."""
    dtype = np.dtype(dtype)
    page = mmap.PAGESIZE
    n_bytes = n * dtype.itemsize
    pages = -(-n_bytes // page) * page
    memory = mmap.mmap(-1, pages + page)
    raw = np.frombuffer(memory, np.uint8)
    if GUARDED:
        libc = ctypes.CDLL(None, use_errno=True)
        address = ctypes.c_void_p(raw.ctypes.data + pages)
        if libc.mprotect(address, ctypes.c_size_t(page), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect failed")
    array = raw[pages - n_bytes : pages]
    array[:] = CANARY
    return array.view(dtype)


def tail(array, n):
    """Return the last n elements, which end where the array ends."""
    return array[array.size - n :]


def untouched(array, n):
    """Are all but the last n elements still canaries?"""
    return bool((array[: array.size - n].view(np.uint8) == CANARY).all())
