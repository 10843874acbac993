"""Threads: the same bits with any number, after fork, inside other threads, at exit."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import oracles
import pytest
from oracles import same

import qops
from qops import threads

N = 600_001  # enough for several parts, of sums MANY
MANY = 4_300_001


@pytest.fixture
def eager(monkeypatch):
    """Start threads however little there is to do; restore the number of threads."""
    before = qops.get_num_threads()
    monkeypatch.setattr(threads, "SECONDS", 1e-9)
    yield
    qops.set_num_threads(before)


def started(monkeypatch):
    """Count the parts that calls are cut into."""
    counts, run = [], threads.run_parts
    monkeypatch.setattr(
        threads, "run_parts", lambda parts: (counts.append(len(parts)), run(parts))
    )
    return counts


RNG = np.random.default_rng(0)
X = RNG.normal(0, 20, N).astype(np.float32)
A, B = (RNG.integers(0, 256, N).astype(np.uint8) for _ in range(2))
WIDE = RNG.integers(-(2**31), 2**31, N).astype(np.int32)
MANY_CODES, MANY_WIDE = np.resize(A, MANY), np.resize(WIDE, MANY)
TABLE = RNG.integers(0, 256, 256).astype(np.uint8)
ROWS = RNG.uniform(0.01, 2, 1000)


def channels(x):
    return x[:600_000].reshape(600, 1000)


CALLS = {
    "quantize": lambda out: qops.quantize(X, 0.1, 3, dtype=np.int8),
    "out": lambda out: qops.quantize(X, 0.1, 3, out=out),
    "dequantize": lambda out: qops.dequantize(A, 0.1, 3),
    "requantize": lambda out: qops.requantize(WIDE, 1e-7, 3, 0.3, 5, dtype=np.uint8),
    "qadd": lambda out: qops.qadd(A, 0.1, 3, B, 0.2, 5, 0.3, 7, relu=True),
    "qmul": lambda out: qops.qmul(A, 0.1, 3, B, 0.2, 5, 0.3, 7),
    "mixed": lambda out: qops.qadd(A, 0.1, 3, B.view(np.int8), 0.2, 5, 0.3, 7),
    "take": lambda out: qops.take(A, TABLE),
    "hsum": lambda out: qops.hsum(MANY_CODES),
    "hsum_sq": lambda out: qops.hsum_sq(MANY_WIDE),
    "last axis": lambda out: qops.quantize(channels(X), ROWS, axis=1, dtype=np.int8),
    "first axis": lambda out: qops.quantize(channels(X).T, ROWS, axis=0, dtype=np.int8),
    "blocked": lambda out: qops.quantize(
        channels(X),
        ROWS[:10] * np.ones((600, 1)),
        axis=1,
        block_size=100,
        dtype=np.int8,
    ),
    "strided": lambda out: qops.dequantize(channels(A)[::-1, ::2].T, 0.1, 3),
    "one row": lambda out: qops.quantize(X[::1], 0.1, 3, out=out[::-1]),
    "broadcast": lambda out: qops.qadd(
        channels(A), 0.1, 3, channels(B)[:1], 0.2, 5, 0.3, 7
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_any_number_of_threads(level, eager, monkeypatch, name):
    counts = started(monkeypatch)
    results = []
    for n in range(1, 9):
        qops.set_num_threads(n)
        out = np.zeros(N, np.uint8)
        results.append((CALLS[name](out), out))
    for result, out in results:
        if isinstance(result, int):
            assert result == results[0][0]
        else:
            same(result, results[0][0])
        same(out, results[0][1])
    if name != "strided":  # that is not large
        assert len(counts) == 7  # one thread needs none of this
        assert max(counts) >= 7


IMAGES = np.resize(A, (3, 20, 100, 110))
IMAGE = np.resize(A, (1, 150, 200, 20))
CLIP = np.resize(A.view(np.int8), (2, 4, 19, 60, 70))
OF_CHANNELS = np.linspace(0.1, 2, 20), np.arange(20)
OWN = {"kernel": 3, "stride": 2, "padding": 1}
MEAN = {"mean": np.linspace(-1, 1, 20), "var": np.linspace(0.1, 3, 20)}
LAYERS = {
    "max": lambda: qops.qmax_pool(IMAGES, 0.1, 3, kernel=3, stride=1, padding=1),
    "max last": lambda: qops.qmax_pool(IMAGE, 0.1, 3, channels_last=True, **OWN),
    "max in planes": lambda: qops.qmax_pool(CLIP, 0.1, 3, **OWN),
    "mean": lambda: qops.qavg_pool(IMAGES, 0.1, 3, **OWN),
    "mean, table": lambda: qops.qavg_pool(IMAGES, 0.1, 3, dtype=np.int16, **OWN),
    "mean of each": lambda: qops.qavg_pool(IMAGES, *OF_CHANNELS, 0.2, 5, **OWN),
    "mean last": lambda: qops.qavg_pool(IMAGE, *OF_CHANNELS, channels_last=True, **OWN),
    "adaptive": lambda: qops.qadaptive_avg_pool(IMAGES, 0.1, 3, size=40),
    "bilinear": lambda: qops.qinterpolate(
        IMAGES, *OF_CHANNELS, size=(130, 90), mode="bilinear"
    ),
    "bilinear last": lambda: qops.qinterpolate(
        IMAGE, 0.1, 3, size=(160, 180), mode="bilinear", channels_last=True
    ),
    "trilinear": lambda: qops.qinterpolate(
        CLIP, 0.1, 3, scale_factor=1.1, mode="trilinear"
    ),
    "batch": lambda: qops.qbatch_norm(IMAGES, 0.1, 3, 0.2, 5, **MEAN),
    "batch last": lambda: qops.qbatch_norm(IMAGE, 0.1, 3, 0.2, 5, axis=-1, **MEAN),
    "layer": lambda: qops.qlayer_norm(IMAGE, 0.1, 3, 0.2, 5),
    "rows of 32 bits": lambda: qops.qlayer_norm(channels(WIDE), 0.1, 3, 0.2, 5),
    "group": lambda: qops.qgroup_norm(IMAGES, 0.1, 3, 0.2, 5, groups=20),
    "group last": lambda: qops.qgroup_norm(IMAGE, 0.1, 3, 0.2, 5, groups=4, axis=-1),
    "instance": lambda: qops.qinstance_norm(IMAGES, *OF_CHANNELS, 0.2, 5),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_with_any_number_of_threads(level, eager, monkeypatch, name):
    counts = started(monkeypatch)
    qops.set_num_threads(1)
    expected = LAYERS[name]()
    assert counts == []
    for n in range(2, 9):
        qops.set_num_threads(n)
        same(LAYERS[name](), expected)
    assert len(counts) >= 7
    assert max(counts) >= 7


def test_results_are_right(level, eager):
    qops.set_num_threads(5)
    same(CALLS["quantize"](None), oracles.quantize(X, 0.1, 3, np.int8))
    same(qops.take(A, TABLE), TABLE[A])
    assert qops.hsum(MANY_WIDE) == int(MANY_WIDE.sum(dtype=np.int64))
    expected = oracles.quantize(channels(X), ROWS, 0, np.int8)
    same(CALLS["last axis"](None), expected)
    x = A.copy()
    qops.qadd(x, 0.1, 3, B, 0.2, 5, 0.3, 7, out=x)  # in place
    same(x, oracles.qadd(A, 0.1, 3, B, 0.2, 5, 0.3, 7, np.uint8))


def test_small_calls_start_no_thread(monkeypatch):
    counts = started(monkeypatch)
    before = qops.get_num_threads()
    qops.set_num_threads(2)
    qops.quantize(X[:524_288], 0.1, dtype=np.uint8)
    assert counts == []
    monkeypatch.setattr(threads, "SECONDS", 1e9)  # too little to do for two
    qops.quantize(X, 0.1, dtype=np.uint8)
    qops.hsum(MANY_CODES)
    assert counts == [1, 1]
    qops.set_num_threads(1)
    qops.quantize(X, 0.1, dtype=np.uint8)
    assert counts == [1, 1]
    qops.set_num_threads(before)


def test_calls_from_several_threads(eager):
    """One has the pool at a time; the others do their work themselves."""
    qops.set_num_threads(3)
    expected = qops.quantize(X, 0.1, 3, dtype=np.int8)
    wrong, most = [], []

    def work():
        for _ in range(20):
            if not (qops.quantize(X, 0.1, 3, dtype=np.int8) == expected).all():
                wrong.append(1)
            most.append(sum(t.name.startswith("qops") for t in threading.enumerate()))

    others = [threading.Thread(target=work) for _ in range(4)]
    for t in others:
        t.start()
    for t in others:
        t.join()
    assert not wrong
    assert max(most) <= 2 + 7  # workers of this pool, and of an earlier larger one


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_child_of_fork(eager):
    qops.set_num_threads(3)
    expected = qops.quantize(X, 0.1, 3, dtype=np.int8)
    with threads._pool.busy:  # as if another thread were in the middle of a call
        pid = os.fork()
        if pid == 0:
            good = (qops.quantize(X, 0.1, 3, dtype=np.int8) == expected).all()
            os._exit(0 if good and threads._pool.n_workers == 2 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    same(qops.quantize(X, 0.1, 3, dtype=np.int8), expected)


def test_error_in_a_part_is_raised():
    def broken():
        raise MemoryError("of a part")

    for parts in [print, broken], [broken, print], [broken]:
        with pytest.raises(MemoryError, match=r"^of a part$"):
            threads.run_parts(parts)
    threads.run_parts([])


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_interrupt_waits_for_the_parts():
    done = []

    def slow():
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        done.append(1)

    with pytest.raises(KeyboardInterrupt):
        threads.run_parts([lambda: None, slow, slow])
    assert done == [1, 1]
    threads.run_parts([lambda: None, lambda: done.append(1)])
    assert done == [1, 1, 1]


# ---------------------------------------------------------------- how many


def test_number_of_threads():
    before = qops.get_num_threads()
    try:
        qops.set_num_threads(np.int64(7))
        assert qops.get_num_threads() == 7
        for n, error, said in [
            (0, ValueError, "set_num_threads: n is 0, not 1 or more"),
            (-1, ValueError, "set_num_threads: n is -1, not 1 or more"),
            (1.5, TypeError, "set_num_threads: n is 1.5, not an integer"),
            ("2", TypeError, "set_num_threads: n is '2', not an integer"),
            (None, TypeError, "set_num_threads: n is None, not an integer"),
        ]:
            with pytest.raises(error) as caught:
                qops.set_num_threads(n)
            assert str(caught.value) == said
            assert qops.get_num_threads() == 7
    finally:
        qops.set_num_threads(before)


def python(code, **environ):
    return subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("value", "n"), [("3", 3), (" 12\n", 12), ("007", 7)])
def test_variable(value, n):
    done = python("import qops; print(qops.get_num_threads())", QOPS_NUM_THREADS=value)
    assert done.stdout == f"{n}\n", done.stderr


@pytest.mark.parametrize(
    "value", ["0", "-1", "2.0", "two", "\u0663", "9" * 5000, "1_0"]
)
def test_variable_is_refused(value):
    done = python("import qops", QOPS_NUM_THREADS=value)
    assert done.returncode == 1
    assert "RuntimeError: QOPS_NUM_THREADS is '" in done.stderr
    assert "not a number of threads from 1 on" in done.stderr
    assert len(done.stderr) < 3000


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")
def test_default_is_the_cores_allowed():
    done = python(
        """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        import qops
        print(qops.get_num_threads())
        """,
        QOPS_NUM_THREADS="",
    )
    assert done.stdout == "1\n", done.stderr


def test_at_exit():
    """When no thread can be started any more, the caller's does it all."""
    done = python(
        """
        import atexit, threading
        import numpy as np, qops
        from qops import threads

        threads.SECONDS = 1e-9
        qops.set_num_threads(4)
        x = np.ones(700_000, np.float32)

        def last():
            print(qops.hsum(qops.quantize(x, 1, 0, dtype=np.uint8)))

        atexit.register(last)
        last()
        """
    )
    assert done.stdout == "700000\n700000\n", done.stderr
    assert done.stderr == ""
