"""Measure the operations and print the README's table.

In every round each contender is timed once, in turn, so that a disturbance meets all
of them; numbers are medians over the rounds, ratios medians of each round's ratio.
One thread; the arrays are in memory, and in the caches where they fit.
"""

import argparse
import json
import os
import platform
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter
from timeit import Timer
from typing import Any

import numpy as np
from suite.cases import CASES, KERNELS, LEVELS, Call, Case, limit

import qops

SIZES = {"64 Ki": 1 << 16, "1 Mi": 1 << 20, "16 Mi": 1 << 24}
BATCH_SECONDS = 0.002  # one timing goes over so many calls as take about that long
ROUNDS = (7, 101)  # at least and at most
ROW_SECONDS = 2  # more rounds than the least only within that
FEW = 16  # elements of a call that is all overhead
Times = dict[str, list[float]]  # contender -> seconds per call, round by round


class Contender:
    """A call on a level, or on none."""

    def __init__(self, call: Call, level: str | None = None) -> None:
        self.timer = Timer(call)
        self.level = level
        with self.using():
            once = min(self.timer.repeat(5, 1))
            self.number = 1 + int(BATCH_SECONDS / max(once, 1e-7))

    def using(self) -> AbstractContextManager[Any]:
        """Put the level in use."""
        return qops.use_isa(self.level) if self.level else nullcontext()

    def seconds(self) -> float:
        """Time a batch of calls; one call's share is the result."""
        with self.using():
            self.timer.timeit(1)  # what the others have driven out of the caches
            return self.timer.timeit(self.number) / self.number


def race(contenders: dict[str, Contender], seconds: float = ROW_SECONDS) -> Times:
    """Time all contenders in turn, round by round."""
    least, most = ROUNDS
    times: Times = {name: [] for name in contenders}
    end = perf_counter() + seconds
    for i in range(most):
        if i >= least and perf_counter() > end:
            break
        for name, contender in contenders.items():
            times[name].append(contender.seconds())
    return times


def ratio(times: Times, a: str, b: str) -> float:
    """Say how many times as long b takes as a."""
    return median(y / x for x, y in zip(times[a], times[b], strict=True))


def speed(times: Times, name: str, n: int) -> float:
    """Give 10^9 elements, or bytes, per second."""
    return n / median(times[name]) / 1e9


def levels() -> list[str]:
    """List the levels that run here, best first."""
    return [level for level in LEVELS if level in qops.available_isas()]


def best() -> str:
    """Name the best of them."""
    return str(qops.available_isas()[0])


def first_of_each_op() -> list[Case]:
    """Choose the cases that stand for an operation of one pass."""
    first: dict[str, Case] = {}
    for case in KERNELS.values():
        first.setdefault(case.op, case)
    return list(first.values())


def race_of(case: Case, n: int) -> Times:
    """Time a case on every level, its limit and its NumPy expression."""
    calls = case.make(n)
    contenders = {level: Contender(calls.qops, level) for level in levels()}
    contenders["limit"] = Contender(limit(case, n))
    contenders["numpy"] = Contender(calls.numpy)
    return race(contenders)


def speed_rows(measured: dict[tuple[str, str], Times]) -> list[dict[str, Any]]:
    """Measure the operations; the times go into measured as well."""
    rows = []
    for case in first_of_each_op():
        for size, n in SIZES.items():
            times = measured[case.op, size] = race_of(case, n)
            rows.append(
                {
                    "case": case.name,
                    "elements": size,
                    "speed": {level: speed(times, level, n) for level in levels()},
                    "numpy": speed(times, "numpy", n),
                    "limit": speed(times, "limit", n),
                    "limit_gb_s": speed(times, "limit", n * case.traffic),
                    "of_limit": ratio(times, best(), "limit"),
                }
            )
    return rows


def ratio_rows(measured: dict[tuple[str, str], Times]) -> list[dict[str, Any]]:
    """Measure what has a target: each row has a value and its least or most."""
    n = SIZES["1 Mi"]
    rows: list[dict[str, Any]] = []

    def row(what: str, value: float, bound: str, unit: str = "") -> None:
        rows.append({"what": what, "value": value, "bound": bound, "unit": unit})

    for op, of, least in (
        ("quantize", "memcpy of the same traffic", 0.85),
        ("dequantize", "memcpy of the same traffic", 0.9),
        ("hsum_sq", "only reading the same bytes", 0.9),
    ):
        value = ratio(measured[op, "1 Mi"], best(), "limit")
        row(f"speed of {op} / {of}", value, f">= {least}")
    x, y = np.ones(n, np.uint8), np.zeros(n, np.uint8)
    copied = race({"memcpy": Contender(lambda: np.copyto(y, x))}, 0.3)
    copying = f"while memcpy copies {speed(copied, 'memcpy', n):.0f} GB/s"
    for op in ("qadd", "qmul"):
        value = speed(measured[op, "1 Mi"], best(), n)
        row(f"{op}, {copying}", value, ">= 5", "G elements/s")
    for case in KERNELS.values():
        if case.name.endswith(", last axis"):
            pair = {
                "channel": Contender(case.make(n).qops),
                "tensor": Contender(KERNELS[case.name.split(",")[0]].make(n).qops),
            }
            value = ratio(race(pair, 0.5), "channel", "tensor")
            row(f"speed of {case.name} / per tensor", value, ">= 0.7")
    a, b, c = np.ones((3, FEW), np.float32)
    calls = {case.op: case.make(FEW).qops for case in first_of_each_op()}
    few = {op: Contender(call) for op, call in calls.items()}
    few["np.add"] = Contender(lambda: np.add(a, b, out=c))
    times = race(few, 1)
    nanoseconds = 1e9 * median(times["np.add"])
    for op in calls:
        what = f"time of {op} / np.add ({nanoseconds:.0f} ns), {FEW} elements"
        row(what, ratio(times, "np.add", op), "<= 2")
    return rows


def check() -> None:
    """Raise AssertionError unless every case equals its NumPy expression."""
    for case in CASES.values():
        for level in levels():
            with qops.use_isa(level), np.errstate(divide="ignore"):
                results = [f() for f in case.make(1 << 12)]
                if not isinstance(results[0], tuple):
                    results = [(y,) for y in results]
                for ours, numpy in zip(*results, strict=True):
                    np.testing.assert_array_equal(
                        ours, numpy, f"{case.name} on {level}", strict=True
                    )
    print(f"{len(CASES)} cases equal their NumPy expressions on {', '.join(levels())}")


def cpu() -> str:
    """Name the CPU as the system does."""
    info = Path("/proc/cpuinfo")
    found = info.exists() and re.search(r"model name\s*: (.*)", info.read_text())
    return found[1] if found else platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """Say what the numbers belong to."""
    return {
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "level": qops.isa(),
        "qops": qops.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def markdown(result: dict[str, Any]) -> str:
    """Lay the numbers out as the README has them."""
    at, names = result["machine"], list(result["speeds"][0]["speed"])
    lines = [
        f"{at['cpu']}, one thread, level {at['level']}; qops {at['qops']}, "
        f"NumPy {at['numpy']}, Python {at['python']}.",
        "",
        f"| 10^9 elements/s | elements | {' | '.join(names)} "
        "| limit | of limit | NumPy |",
        f"|---|---|{'---|' * len(names)}---|---|---|",
    ]
    for row in result["speeds"]:
        numbers = [row["speed"][name] for name in names] + [row["limit"]]
        lines.append(
            f"| {row['case']} | {row['elements']} | "
            + " | ".join(f"{number:.3g}" for number in numbers)
            + f" | {row['of_limit']:.2f} | {row['numpy']:.2g} |"
        )
    lines += ["", "| at 1 Mi elements | measured | target |", "|---|---|---|"]
    lines += [
        f"| {row['what']} | {row['value']:.2f} {row['unit']}".rstrip()
        + f" | {row['bound']} |"
        for row in result["ratios"]
    ]
    return "\n".join(lines)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all numbers there too")
    parser.add_argument(
        "--check",
        action="store_true",
        help="measure nothing; see that each case equals its NumPy expression",
    )
    arguments = parser.parse_args()
    if arguments.check:
        check()
        return
    measured: dict[tuple[str, str], Times] = {}
    result: dict[str, Any] = {"machine": machine(), "speeds": speed_rows(measured)}
    result["ratios"] = ratio_rows(measured)
    print(markdown(result))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
