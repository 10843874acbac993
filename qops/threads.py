"""How many threads large calls use, and the pool that they run in."""

import operator
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import SupportsIndex

VARIABLE = "QOPS_NUM_THREADS"
SECONDS = 150e-6  # of work for each thread: to start one takes some 20 microseconds


def _allowed() -> int:
    """Return how many cores this process may run on."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _from_environment() -> int:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return _allowed()
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        shown = ascii(text[:40]) + ("..." if len(text) > 40 else "")
        raise RuntimeError(
            f"{VARIABLE} is {shown}, not a number of threads from 1 on\n"
            f"  what to do: unset {VARIABLE}, or set it to 1 or more"
        )
    return int(text)


def _cache_bytes() -> int:
    """Return the size of the last-level cache, where Linux tells, or a usual one."""
    try:
        size = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text()
        return int(size.strip().removesuffix("K")) << 10
    except (OSError, ValueError):  # not on this system
        return 1 << 24


class _Pool:
    """The threads of a process. A child of fork has none of them: it starts anew."""

    def __init__(self) -> None:
        self.executor: ThreadPoolExecutor | None = None
        self.n_workers = 0
        self.busy = threading.Lock()

    def workers(self, n: int) -> ThreadPoolExecutor:
        """Return a pool of at least n threads; for the one that is busy with it."""
        if self.executor is None or self.n_workers < n:
            if self.executor is not None:
                self.executor.shutdown(wait=False)
            self.executor = ThreadPoolExecutor(n, thread_name_prefix="qops")
            self.n_workers = n
        return self.executor


_threads = _from_environment()
CACHE_BYTES = _cache_bytes()
_pool = _Pool()


def _after_fork() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def get_num_threads() -> int:
    """Return how many threads a large call may use.

    Returns
    -------
    int
        What `set_num_threads` was given, else QOPS_NUM_THREADS, else the number of
        cores that this process may run on.

    See Also
    --------
    set_num_threads

    Examples
    --------
    >>> import qops
    >>> qops.get_num_threads() >= 1
    True
    """
    return _threads


def set_num_threads(n: SupportsIndex) -> None:
    """Set how many threads a large call may use.

    Parameters
    ----------
    n : int
        1 or more; the thread of the caller is one of them.

    Raises
    ------
    TypeError
        If `n` is not an integer.
    ValueError
        If `n` is less than 1.

    See Also
    --------
    get_num_threads

    Notes
    -----
    It is process-wide. A call uses more than one thread only where each has at least
    150 microseconds of work, which is measured on its first part; and only one call
    does at a time: others, from threads of the caller's own, run in their own thread.
    Results do not depend on it.

    Examples
    --------
    >>> import qops
    >>> before = qops.get_num_threads()
    >>> qops.set_num_threads(1)
    >>> qops.get_num_threads()
    1
    >>> qops.set_num_threads(before)
    """
    global _threads
    try:
        number = operator.index(n)
    except TypeError:
        raise TypeError(f"set_num_threads: n is {n!r}, not an integer") from None
    if number < 1:
        raise ValueError(f"set_num_threads: n is {number}, not 1 or more")
    _threads = number


def run_parts(parts: Sequence[Callable[[], None]]) -> None:
    """Run all parts, which release the GIL, and return when the last one has ended.

    Their memory may go away with the caller, so that nothing, not even an interrupt
    from the keyboard, ends the wait before.
    """
    pool = _pool
    started: list[Future[None]] = []
    interrupt = None
    if len(parts) > 1 and pool.busy.acquire(blocking=False):
        try:
            try:
                executor = pool.workers(len(parts) - 1)
                started.extend(executor.submit(part) for part in parts[1:])
            except RuntimeError:  # no thread can be started, as the interpreter ends
                pass
            try:
                parts[0]()
            finally:
                for future in started:
                    while not future.done():
                        try:
                            future.exception()
                        except KeyboardInterrupt as error:
                            interrupt = error
        finally:
            pool.busy.release()
        parts = parts[1 + len(started) :]
    for part in parts:
        part()
    if interrupt:
        raise interrupt
    for future in started:
        future.result()  # raises what the part has raised
