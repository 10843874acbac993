"""What happens on which CPU: each of QEMU's models with each build and each variable.

`pytest -m matrix` prints the matrix; it makes two builds and takes some minutes. QEMU
traps what a model's CPUID doesn't show, so a fault is signal 4.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.matrix

REPOSITORY = Path(__file__).parents[1]

# What each model lacks for avx2, from QEMU's own description of the CPUs. None has
# AVX-512: QEMU doesn't emulate it.
MODELS = {
    "qemu64": "SSSE3, SSE4.1",
    "kvm64": "SSSE3, SSE4.1",
    "core2duo": "SSE4.1, SSE4.2, POPCNT",
    "Nehalem": "FMA, MOVBE, AVX, F16C, BMI1, AVX2, BMI2, LZCNT",
    "SandyBridge": "FMA, MOVBE, F16C, BMI1, AVX2, BMI2, LZCNT",
    "Haswell": "",
    "Haswell,-xsave": "XSAVE (OSXSAVE is 0)",
    "Haswell,-fma": "FMA",
    "Haswell,-abm": "LZCNT",
    "Skylake-Server": "",
    "max": "",
}
FORCED, DISABLED = "QOPS_FORCE_ISA", "QOPS_DISABLE_ISA"

# Column -> baseline of the build, variables.
COLUMNS = {
    "default": ("scalar", {}),
    "force scalar": ("scalar", {FORCED: "scalar"}),
    "force avx2": ("scalar", {FORCED: "avx2"}),
    "force avx512": ("scalar", {FORCED: "avx512"}),
    "force avx512_icl": ("scalar", {FORCED: "avx512_icl"}),
    "disable avx2": ("scalar", {DISABLED: "avx2"}),
    "baseline avx2": ("avx2", {}),
    "baseline avx512": ("avx512", {}),
    "baseline avx512_icl": ("avx512_icl", {}),
}

PROGRAM = """if True:
    import json, sys
    texts = []
    for _ in range(2):  # the same at a second import
        try:
            import qops
        except RuntimeError as error:
            assert "numpy" not in sys.modules, "NumPy was loaded first"
            texts.append(str(error))
            refusal = error
        else:
            break
    if texts:
        assert texts[0] == texts[1:][0], texts
        raise refusal
    import numpy as np
    x = np.linspace(-3, 3, 203, dtype=np.float32)
    x[7], x[8] = np.inf, np.nan
    q = qops.quantize(x, 0.017, 3, dtype=np.int8)
    y = qops.dequantize(q, 0.017, 3)
    a = qops.qadd(q, 0.1, 3, q[::-1], 0.1, 0, 0.2, -5)
    m = qops.qmul(q, 0.1, 3, q[::-1], 0.1, 0, 0.2, -5)
    print(json.dumps({"isa": qops.isa(), "results": [
        *q.tolist(), *y.tolist(), *a.tolist(), *m.tolist(), qops.hsum_sq(q)]}))
"""


def run(command, program, path=None, **environ):
    """Run a program in a process of its own; without our variables."""
    clean = {k: v for k, v in os.environ.items() if k not in (FORCED, DISABLED)}
    if path:
        clean["PYTHONPATH"] = str(path)
    return subprocess.run(
        [*command, sys.executable, "-P", "-c", program],
        env=clean | environ,
        capture_output=True,
        text=True,
        check=False,
    )


def build(folder, baseline):
    """Build qops for a baseline; return the folder to import it from."""
    source = folder / f"source-{baseline}"
    shutil.copytree(
        REPOSITORY,
        source,
        ignore=shutil.ignore_patterns(
            *(".*", "build", "*.egg-info", "*.so", "__pycache__", "tests")
        ),
    )
    target = folder / baseline
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run(
        [*install, "--target", target, source],
        env={**os.environ, "QOPS_CPU_BASELINE": baseline, "QOPS_REQUIRE": baseline},
        check=True,
    )
    return target


def outcome(done):
    """Return a cell of the table."""
    if done.returncode < 0 or done.returncode > 128:
        return f"SIGNAL {-done.returncode % 128}"
    if done.returncode:
        last = done.stderr.rpartition("\nRuntimeError: ")[2]
        return "refused" if last != done.stderr else "ERROR"
    return json.loads(done.stdout)["isa"]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    """All cells: (model, column) -> the process that has ended."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("for Linux on x86-64 only")
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed (Debian: qemu-user)")
    with open(sys.executable, "rb") as file:
        if file.read(4) != b"\x7fELF":
            pytest.skip(f"{sys.executable} is not a program for Linux")
    folder = tmp_path_factory.mktemp("builds")
    paths = {"scalar": None}

    def cell(key):
        model, column = key
        emulator = ["qemu-x86_64", "-cpu", f"{model},check=off"] if model else []
        if column == "NumPy alone":
            return run(emulator, 'import numpy; print(\'{"isa": "loads"}\')')
        baseline, variables = COLUMNS[column]
        return run(emulator, PROGRAM, paths[baseline], **variables)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        baselines = sorted({b for b, _ in COLUMNS.values()} - {"scalar"})
        builds = pool.map(lambda b: build(folder, b), baselines)
        paths |= zip(baselines, builds, strict=True)
        keys = [(model, c) for model in MODELS for c in (*COLUMNS, "NumPy alone")]
        keys.append((None, "default"))
        return dict(zip(keys, pool.map(cell, keys), strict=True))


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("model", MODELS)
def test_cell(matrix, model, column):
    done = matrix[model, column]
    lacks, (baseline, variables) = MODELS[model], COLUMNS[column]
    forced = variables.get(FORCED)
    asked = forced or (baseline if baseline != "scalar" else None)
    beyond = asked in ("avx512", "avx512_icl")
    if beyond or (asked == "avx2" and lacks):
        by = f"{FORCED} is '{asked}', which can't be used: "
        if baseline != "scalar":
            by = f"qops was built for baseline {asked}, which this machine can't run: "
        beginning, names = by, "AVX512F, AVX512DQ" if beyond else lacks
    elif outcome(matrix[model, "NumPy alone"]) != "loads":
        beginning, names = "NumPy ", "SSE4.1, SSE4.2"
    else:
        best = "scalar" if lacks or DISABLED in variables else "avx2"
        assert outcome(done) == (forced or best), done.stderr
        native = json.loads(matrix[None, "default"].stdout)
        assert json.loads(done.stdout)["results"] == native["results"]
        return
    assert outcome(done) == "refused", done.stderr
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.rpartition("\nRuntimeError: ")[2].splitlines()
    assert said[0].startswith(beginning)
    assert names in said[0]
    assert [line.split(":")[0] for line in said[1:]] == [
        *("  needs", "  CPU", "  available", "  what to do")
    ]
    assert said[2].endswith(", under TCGTCGTCGTCG")


@pytest.mark.parametrize("model", MODELS)
def test_where_numpy_loads_the_default_build_works(matrix, model):
    alone, ours = (outcome(matrix[model, c]) for c in ("NumPy alone", "default"))
    assert (alone == "loads") == (ours in ("scalar", "avx2"))


def test_matrix_is_shown(matrix, capsys):
    """No cell is an illegal instruction, but for those of NumPy alone."""
    columns = [*COLUMNS, "NumPy alone"]
    rows = [[model, *(outcome(matrix[model, c]) for c in columns)] for model in MODELS]
    table = [["qemu-x86_64 -cpu", *columns], *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    with capsys.disabled():
        print()
        for row in table:
            print("  ".join(map(str.ljust, row, widths)).rstrip())
    assert {cell for row in rows for cell in row[1:-1]} == {"avx2", "scalar", "refused"}
