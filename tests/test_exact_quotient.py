"""The proof by exhaustion that the kernels' quotients round as a division does."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("exact_quotient.c")
FLAGS = [
    "-O3",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = os.environ.get("CC", "cc")
    if not shutil.which(compiler.split()[0]):
        pytest.skip(f"no C compiler: {compiler}")
    path = tmp_path_factory.mktemp("quotient") / "exact_quotient"
    command = [*compiler.split(), *FLAGS, str(SOURCE), "-o", str(path), "-lm"]
    subprocess.run(command, check=True)
    return path


def run(program, *args):
    done = subprocess.run(
        [program, *map(str, args)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_8_bit_results(program):
    """All significands, all ties: what 8-bit codes are made of."""
    status, said = run(program, 2, 0, 260, 1)
    assert said == "15267266560 quotients in 2 steps: 0 differ\n"
    assert status == 0


def test_16_bit_results_on_a_sample(program):
    status, said = run(program, 3, 0, 65_800, 8191)
    assert said.endswith(" quotients in 3 steps: 0 differ\n")
    assert status == 0


@pytest.mark.slow
def test_16_bit_results(program):
    """All significands, all ties; ten minutes at 512 bits."""
    status, said = run(program, 3, 0, 65_800, 1)
    assert said.endswith(" quotients in 3 steps: 0 differ\n")
    assert status == 0


def test_a_wrong_reciprocal_is_seen(program):
    status, said = run(program, 2, 0, 260, 64, "wrong")
    assert status == 1
    assert not said.endswith(": 0 differ\n")
