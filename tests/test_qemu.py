"""Refusals for real: QEMU's CPU models trap what their CPUID doesn't show.

None of them has AVX-512. LZCNT is the exception: without it, it computes wrong numbers
instead of trapping, so nothing but CPUID can tell.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache

import pytest

import qops

FLAGS = qops.show_config(mode="dicts")["flags"]
PROGRAM = """if True:
    import json, sys
    import qops
    import numpy as np

    x = np.linspace(-3, 3, 203, dtype=np.float32)
    x[7], x[8] = np.inf, np.nan
    results = []
    for level in qops.available_isas():
        with qops.use_isa(level):
            q = qops.quantize(x, 0.017, 3, dtype=np.int8)
            u = qops.quantize(x, 0.1, 128, dtype=np.uint16)
            y = qops.dequantize(q, 0.017, 3)
            a = qops.qadd(q, 0.1, 3, q[::-1], 0.1, 0, 0.2, -5)
            results.append([*q.tolist(), *u.tolist(), *y.tolist(), *a.tolist(),
                            qops.hsum_sq(q), qops.hsum(u)])
    assert all(r == results[0] for r in results)

    by_hand = {}
    for level in "avx2", "avx512", "avx512_icl", "scalar":
        try:
            __import__(f"qops._src.{level}._lib")
            by_hand[level] = ""
        except ImportError as error:
            by_hand[level] = str(error)
    print(json.dumps({
        "isa": qops.isa(), "available": qops.available_isas(),
        "refused": qops.show_runtime(mode="dicts")["refused"],
        "results": results[0], "by_hand": by_hand}))
"""


def run(command, forced=None):
    environ = {k: v for k, v in os.environ.items() if k != "QOPS_FORCE_ISA"}
    if forced is not None:
        environ["QOPS_FORCE_ISA"] = forced
    return subprocess.run(
        [*command, sys.executable, "-P", "-c", PROGRAM],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def emulated(cpu, forced=None):
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed (Debian: qemu-user)")
    with open(sys.executable, "rb") as file:
        if file.read(4) != b"\x7fELF":
            pytest.skip(f"{sys.executable} is not a program for Linux")
    # check=off: no list of the features that the model has and QEMU doesn't
    return run(["qemu-x86_64", "-cpu", f"{cpu},check=off"], forced)


@cache
def native():
    done = run([])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("cpu", "isa", "why"),
    [
        ("Haswell", "avx2", None),
        ("Nehalem", "scalar", "the CPU lacks FMA, MOVBE, AVX, F16C, BMI1, AVX2, BMI2"),
        ("Haswell,-xsave", "scalar", "the operating system has not turned on XSAVE"),
        ("Haswell,-abm", "scalar", "the CPU lacks LZCNT"),
        ("Haswell,level=6", "scalar", "the CPU lacks BMI1, AVX2, BMI2"),
    ],
)
def test_level_of_a_cpu(cpu, isa, why):
    if "avx2" not in FLAGS:
        pytest.skip("avx2 was not built")
    done = emulated(cpu)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["isa"] == isa
    assert said["available"] == (["avx2", "scalar"] if isa == "avx2" else ["scalar"])
    assert "avx512" in said["refused"]
    if why:
        assert said["refused"]["avx2"].startswith(why)
    assert said["results"] == native()["results"]
    # The second lock: the C library refuses one that is imported by hand.
    for level in {"avx2", "avx512", "avx512_icl"} & set(said["refused"]):
        if FLAGS.get(level, {}).get("link"):
            assert "CPU ISA level is lower than required" in said["by_hand"][level]


@pytest.mark.parametrize(
    ("cpu", "level", "said"),
    [
        ("Haswell", "avx512", "the CPU lacks AVX512F, AVX512DQ, AVX512CD"),
        ("Haswell,-xsave", "avx2", "the operating system has not turned on XSAVE"),
        ("Nehalem", "avx2", "the CPU lacks FMA, MOVBE, AVX"),
    ],
)
def test_forced_level_is_refused(cpu, level, said):
    if level not in FLAGS:
        pytest.skip(f"{level} was not built")
    done = emulated(cpu, level)
    assert done.returncode == 1  # not 132 or -4, an illegal instruction
    assert done.stdout == ""
    last = done.stderr[done.stderr.index("\nRuntimeError: ") :]
    assert f"QOPS_FORCE_ISA is '{level}', which can't be used: {said}" in last
    assert "under TCGTCGTCGTCG" in last
    assert "available: " in last
    assert "what to do: unset QOPS_FORCE_ISA" in last
