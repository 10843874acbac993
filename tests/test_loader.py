"""The choice of a level: on invented CPUs, and for real in processes of its own."""

import ctypes
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import qops
from qops import _levels, _loader

REPOSITORY = Path(__file__).parents[1]
LEVELS = ["avx512_icl", "avx512", "avx2", "scalar"]
LOWEST = qops.available_isas()[-1]

# The x86-64 psABI's levels, copied from its table, and the bits from the manuals of
# Intel and AMD: feature -> (leaf, register, bit). Not from qops/_levels.py.
EBX, ECX = 1, 2
V2 = {
    "CX16": (1, ECX, 13),
    "LAHF": (0x80000001, ECX, 0),
    "POPCNT": (1, ECX, 23),
    "SSE3": (1, ECX, 0),
    "SSE4.1": (1, ECX, 19),
    "SSE4.2": (1, ECX, 20),
    "SSSE3": (1, ECX, 9),
}
V3 = V2 | {
    "AVX": (1, ECX, 28),
    "AVX2": (7, EBX, 5),
    "BMI1": (7, EBX, 3),
    "BMI2": (7, EBX, 8),
    "F16C": (1, ECX, 29),
    "FMA": (1, ECX, 12),
    "LZCNT": (0x80000001, ECX, 5),
    "MOVBE": (1, ECX, 22),
    "OSXSAVE": (1, ECX, 27),
}
V4 = V3 | {
    "AVX512F": (7, EBX, 16),
    "AVX512DQ": (7, EBX, 17),
    "AVX512CD": (7, EBX, 28),
    "AVX512BW": (7, EBX, 30),
    "AVX512VL": (7, EBX, 31),
}
ALL = V4 | {
    "AVX512IFMA": (7, EBX, 21),
    "AVX512VBMI": (7, ECX, 1),
    "AVX512VBMI2": (7, ECX, 6),
    "AVX512VNNI": (7, ECX, 11),
    "AVX512BITALG": (7, ECX, 12),
    "AVX512VPOPCNTDQ": (7, ECX, 14),
}
NEEDED = {
    "avx512_icl": (ALL, 0b11100110),
    "avx512": (V4, 0b11100110),
    "avx2": (V3, 0b110),
}


def levels(built=LEVELS, baseline="scalar", **skipped):
    """Return what the manifest of a build says of the levels."""
    return {
        "baseline": baseline,
        "requested": LEVELS,
        "built": [level for level in built if level not in skipped],
        "skipped": skipped,
        "needs": {"scalar": [], **{level: [*n] for level, (n, _) in NEEDED.items()}},
    }


BUILT = levels()


def words(text):
    """Return a text as registers hold it."""
    return [int.from_bytes(text[i : i + 4], "little") for i in range(0, len(text), 4)]


class Machine:
    """An invented CPU that fails a test which reads what a real one doesn't have."""

    def __init__(
        self, features=ALL, xcr0=0xE7, top=0x16, extended_top=0x80000008, hypervisor=b""
    ):
        self.features, self.xcr0 = set(features), xcr0
        self.top, self.extended_top, self.hypervisor = top, extended_top, hypervisor

    def has(self, name):
        leaf = ALL[name][0]
        there = self.top if leaf < 0x80000000 else self.extended_top
        return name in self.features and leaf <= there

    def cpuid(self, leaf, subleaf):
        if leaf == 0:
            return self.top, *words(b"Inve CPUnted")
        if leaf == 0x80000000:
            return self.extended_top, 0, 0, 0
        if leaf == 0x40000000:
            assert self.hypervisor, "no hypervisor"
            return 0, *words(self.hypervisor.ljust(12, b"\0"))
        assert leaf <= (self.top if leaf < 0x80000000 else self.extended_top), hex(leaf)
        if 0x80000002 <= leaf <= 0x80000004:
            brand = b"  Invented\tCPU,  \xff model at 3 GHz".ljust(48, b"\0")
            return tuple(words(brand)[4 * (leaf - 0x80000002) :][:4])
        if leaf == 7:
            assert subleaf == 0, "eax of leaf 7 says that there is one subleaf"
        registers = [0, 0, 0, 0]
        for name in self.features:
            where, register, bit = ALL[name]
            registers[register] |= (where == leaf) << bit
        if leaf == 1 and self.hypervisor:
            registers[ECX] |= 1 << 31
        return tuple(registers)

    def xgetbv(self):
        assert self.has("OSXSAVE"), "XGETBV traps here"
        return self.xcr0

    def read(self):
        return _loader.read_cpu(self.cpuid, self.xgetbv)

    def runs(self, level):
        """The oracle: all features, and all register state saved."""
        if level == "scalar":
            return True
        features, state = NEEDED[level]
        return all(map(self.has, features)) and self.xcr0 & state == state

    def choose(self, forced=None, built=BUILT, disabled=None):
        environ = {"QOPS_FORCE_ISA": forced, "QOPS_DISABLE_ISA": disabled}
        given = {name: value for name, value in environ.items() if value is not None}
        return _loader.choose(self.read(), given, built)


# ---------------------------------------------------------------- the tables


def test_table_of_features_is_the_psabi():
    for name, (leaf, register, bit) in ALL.items():
        feature = _levels.FEATURES[name]
        assert (feature.leaf, feature.subleaf) == (leaf, 0)
        assert ("eax", "ebx", "ecx", "edx").index(feature.register) == register
        assert feature.bit == bit


def test_levels_need_the_features_of_the_psabi():
    levels = {level.name: set(level.features) for level in _levels.LEVELS}
    assert levels == {"scalar": set(), **{v: set(n) for v, (n, _) in NEEDED.items()}}


def test_lists_of_levels_agree():
    names = [level.name for level in _levels.LEVELS]
    assert names == LEVELS
    assert names[-1] == "scalar"
    source = REPOSITORY / "qops" / "_src"
    assert sorted(p.parent.name for p in source.glob("*/vec.h")) == sorted(names)
    assert sorted(p.parent.name for p in source.glob("*/__init__.py")) == sorted(names)
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    rows = re.search(r"\| level .*\n\|[-|]*\n((?:\|.*\n)+)", readme)[1].splitlines()
    assert [re.match(r"\| `(\w+)`", row)[1] for row in rows] == names
    for row, level in zip(rows, _levels.LEVELS, strict=True):
        assert all(flag in row for flag in level.compile_args)


# ---------------------------------------------------------------- invented CPUs


def test_best_level_is_chosen():
    choice = Machine().choose()
    assert choice.level == LEVELS[0]
    assert choice.available == tuple(LEVELS)
    assert choice.asked_by is None
    assert not choice.refused
    assert Machine(V4).choose().level == "avx512"
    assert Machine(V3).choose().level == "avx2"
    assert Machine(V2).choose().level == "scalar"


@pytest.mark.parametrize("name", ALL)
def test_each_feature_is_needed_and_named(name):
    machine = Machine(set(ALL) - {name})
    choice = machine.choose()
    for level, (features, _) in NEEDED.items():
        if name in features:
            assert re.search(rf"(?<![\w.]){re.escape(name)}\b", choice.refused[level])
            assert level not in choice.available
            with pytest.raises(RuntimeError, match=re.escape(name)):
                machine.choose(level)
        else:
            assert level in choice.available


@pytest.mark.parametrize("xcr0", [0, 1, 3, 5, 6, 7, 0x27, 0x67, 0xC7, 0xE1, 0xE6, 0xE7])
def test_operating_system_must_save_the_registers(xcr0):
    machine = Machine(xcr0=xcr0)
    choice = machine.choose()
    for level, (_, state) in NEEDED.items():
        assert (level in choice.available) == (xcr0 & state == state)
        if level in choice.refused:
            said = choice.refused[level]
            assert "the operating system does not save" in said
            assert ("YMM" in said) == (xcr0 & 6 != 6)
            assert f"XCR0 is {xcr0:#x}, without {state & ~xcr0:#x}" in said
            assert "the CPU lacks" not in said


def test_unrelated_register_state_does_not_matter():
    assert Machine(xcr0=0x602E7).choose().level == LEVELS[0]


def test_without_osxsave_xgetbv_is_not_executed():
    cpu = Machine(set(ALL) - {"OSXSAVE"}).read()
    assert cpu.xcr0 is None
    for level in _levels.LEVELS[:-1]:
        assert _loader.missing(level.features, cpu) == (
            "the operating system has not turned on XSAVE (OSXSAVE is 0)"
        )


@pytest.mark.parametrize(
    ("top", "level"), [(1, "scalar"), (5, "scalar"), (7, LEVELS[0])]
)
def test_leaves_beyond_the_maximum_are_not_read(top, level):
    cpu = Machine(top=top).read()
    assert Machine(top=top).choose().level == level
    assert all(leaf <= top for leaf, _ in cpu.leaves if leaf < 0x40000000)


@pytest.mark.parametrize("top", [0, 0x16, 0x40000000, 0x80000000, 0xFFFFFFFF])
def test_extended_leaves_beyond_the_maximum_are_not_read(top):
    machine = Machine(extended_top=top)
    if top > 0x80000008:  # nonsense from a CPU without extended leaves
        machine.cpuid = lambda leaf, subleaf: (
            pytest.fail(hex(leaf))
            if leaf > 0x80000000
            else Machine.cpuid(machine, leaf, subleaf)
        )
    cpu = machine.read()
    assert max(leaf for leaf, _ in cpu.leaves) == 0x80000000
    assert cpu.brand == ""
    choice = _loader.choose(cpu, {}, BUILT)
    assert choice.level == "scalar"
    assert "LZCNT" in choice.refused["avx2"]


def test_subleaf_is_read_only_if_leaf_says_that_it_is_there(monkeypatch):
    feature = _levels.Feature(7, 1, "eax", 4, 6, None)
    monkeypatch.setitem(_levels.FEATURES, "AVXVNNI", feature)
    assert (7, 1) not in Machine().read().leaves

    def cpuid(leaf, subleaf):
        if leaf == 7:
            return (1, 0, 0, 0) if subleaf == 0 else (1 << 4, 0, 0, 0)
        return Machine().cpuid(leaf, subleaf)

    cpu = _loader.read_cpu(cpuid, lambda: 7)
    assert cpu.has(feature)


def test_features_need_cpu_and_system():
    cpu = Machine(xcr0=7).read()
    has = {name: cpu.has(feature) for name, feature in _levels.FEATURES.items()}
    assert {name for name in has if not has[name]} == set(ALL) - set(V3)


def test_names_are_fit_to_print():
    cpu = Machine(hypervisor=b"KVMKVMKVM").read()
    assert cpu.vendor == "Invented CPU"
    assert cpu.brand == "Invented?CPU, ? model at 3 GHz"
    assert cpu.hypervisor == "KVMKVMKVM"
    assert str(cpu) == f"{cpu.brand}, under KVMKVMKVM"
    assert str(Machine().read()) == cpu.brand
    assert str(Machine(extended_top=0).read()) == cpu.vendor


def test_other_architectures_are_scalar():
    cpu = _loader.read_cpu(lambda leaf, subleaf: (0, 0, 0, 0), None)
    choice = _loader.choose(cpu, {}, BUILT)
    assert choice.available == ("scalar",)
    assert choice.refused["avx2"] == "the CPU is not x86-64"


def test_thousands_of_machines():
    generator = random.Random(0)
    seen = set()
    for _ in range(20_000):
        often = generator.choice([0.001, 0.01, 0.1])
        machine = Machine(
            {name for name in ALL if generator.random() > often},
            generator.choice([0xE7, 0xE7, 0x2E7, 7, generator.randrange(0x400)]),
            generator.choice([1, 5, 7, 0xD, 0x16, 0x20]),
            generator.choice([0, 0x80000000, 0x80000001, 0x80000008, 0x80000021]),
        )
        lowest = generator.choice([3, 3, 3, 2, 1, 0])  # its place in LEVELS
        some = [level for level in LEVELS[:lowest] if generator.random() < 0.8]
        built = levels([*some, LEVELS[lowest]], LEVELS[lowest])
        disabled = generator.choice([None, None, None, *range(len(LEVELS))])
        word = None if disabled is None else LEVELS[disabled]
        right = [v for v in built["built"] if machine.runs(v)]
        if not machine.runs(LEVELS[lowest]):
            for forced in (None, "scalar", "bogus"):
                with pytest.raises(
                    RuntimeError, match=r"^qops was built for baseline "
                ):
                    machine.choose(forced, built, word)
            seen.add("no baseline")
            continue
        if disabled is not None and disabled >= lowest:
            with pytest.raises(RuntimeError, match=r"^QOPS_DISABLE_ISA names "):
                machine.choose(None, built, word)
            seen.add("baseline disabled")
            continue
        if disabled is not None:
            right = [v for v in right if LEVELS.index(v) > disabled]
        choice = machine.choose(None, built, word)
        assert list(choice.available) == right
        assert choice.level == right[0]
        assert set(choice.refused) == set(LEVELS) - set(right)
        for level in LEVELS:
            if level in right:
                forced = machine.choose(level, built, word)
                assert (forced.level, forced.asked_by) == (level, "QOPS_FORCE_ISA")
            else:
                with pytest.raises(RuntimeError, match=level):
                    machine.choose(level, built, word)
        seen.add(tuple(right))
    # every row of levels that keeps its baseline, and both errors
    assert len(seen) == 2 ** len(LEVELS) - 1 + 2


# ---------------------------------------------------------------- QOPS_FORCE_ISA


@pytest.mark.parametrize("value", ["", " ", "\t\n", "\u3000"])
def test_empty_is_unset(value):
    choice = Machine().choose(value)
    assert (choice.level, choice.asked_by) == (LEVELS[0], None)


@pytest.mark.parametrize("value", ["avx2", "AVX2", " Avx2\n", "aVx2\t"])
def test_case_and_blanks_do_not_matter(value):
    choice = Machine().choose(value)
    assert (choice.level, choice.asked_by) == ("avx2", "QOPS_FORCE_ISA")
    assert choice.available == tuple(LEVELS)


@pytest.mark.parametrize(
    "value",
    [
        "bogus",
        "avx",
        "avx2 scalar",
        "avx2,",
        "avx\x002",
        "v3",
        "none",
        "0",
        "_src",
        "../avx2",
        "\u017fcalar",  # long s: upper() makes an S of it
        "avx\u00b2",
        "\udcff\udc00",  # bytes that are not UTF-8
        "\x1b[31mavx2\x07",
        "x" * 2**20,
        "\udcff" * 2**20,
    ],
)
def test_unknown_names_are_refused(value):
    with pytest.raises(RuntimeError) as caught:
        Machine().choose(value)
    text = str(caught.value)
    assert text.startswith("QOPS_FORCE_ISA is '")
    assert f", not one of {', '.join(LEVELS)}\n" in text
    assert "unset QOPS_FORCE_ISA" in text
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert len(text) < 700
    if len(value) > 40:
        assert f"({len(value)} characters)" in text


def test_refusal_says_all():
    machine = Machine(V3, xcr0=7, hypervisor=b"KVMKVMKVM")
    with pytest.raises(RuntimeError) as caught:
        machine.choose("avx512")
    fact, needs, cpu, available, remedy = str(caught.value).split("\n")
    assert fact == (
        "QOPS_FORCE_ISA is 'avx512', which can't be used: the CPU lacks AVX512F, "
        "AVX512DQ, AVX512CD, AVX512BW, AVX512VL; the operating system does not save "
        "ZMM registers (XCR0 is 0x7, without 0xe0)"
    )
    assert (
        needs
        == f"  needs: {', '.join(_levels.LEVELS[1].features)}; ZMM registers saved"
    )
    assert cpu == "  CPU: Invented?CPU, ? model at 3 GHz, under KVMKVMKVM"
    assert available == "  available: avx2, scalar"
    assert remedy == (
        "  what to do: unset QOPS_FORCE_ISA, or set it to one of avx2, scalar; or if "
        "the host has it, give the virtual machine the CPU type host or x86-64-v4"
    )


def test_refusal_of_what_was_not_built():
    why = "gcc 4 refuses: bad value 'x86-64-v4' for '-march='"
    built = levels(avx512=why)
    machine = Machine(V4)
    choice = machine.choose(built=built)
    assert choice.level == "avx2"
    refused = {**choice.refused}
    assert refused.pop("avx512_icl").startswith("the CPU lacks AVX512IFMA")
    assert refused == {"avx512": f"this build lacks it: {why}"}
    with pytest.raises(RuntimeError) as caught:
        machine.choose("avx512", built)
    assert f"can't be used: this build lacks it: {why}\n" in str(caught.value)
    assert "build qops with the level: qops.show_config()" in str(caught.value)
    assert "virtual machine" not in str(caught.value)
    with pytest.raises(RuntimeError) as caught:  # of no use on this one
        Machine(V2).choose("avx512", built)
    assert "build qops" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("", LEVELS),
        (" ,\t", LEVELS),
        ("avx512_icl", ["avx512", "avx2", "scalar"]),
        ("avx512", ["avx2", "scalar"]),
        (" AVX512 ,", ["avx2", "scalar"]),
        ("avx2", ["scalar"]),  # and what builds on it
        ("avx2 avx512", ["scalar"]),
    ],
)
def test_disabled_levels(value, left):
    choice = Machine().choose(disabled=value)
    assert list(choice.available) == left
    assert (choice.level, choice.asked_by) == (left[0], None)
    for level in set(LEVELS) - set(left):
        assert choice.refused[level].startswith("QOPS_DISABLE_ISA disables ")
        with pytest.raises(RuntimeError, match="can't be used: QOPS_DISABLE_ISA disab"):
            Machine().choose(level, disabled=value)


def test_disabled_by_way_of_a_lower_level():
    refused = Machine().choose(disabled="avx2").refused
    assert refused["avx512"] == "QOPS_DISABLE_ISA disables avx2, which it builds on"
    assert refused["avx2"] == "QOPS_DISABLE_ISA disables it"


def test_disabling_what_is_not_there_is_no_error():
    choice = Machine(V3).choose(disabled="avx512")
    assert choice.available == ("avx2", "scalar")
    assert choice.refused["avx512"].startswith("the CPU lacks")


@pytest.mark.parametrize(
    ("value", "built", "fact"),
    [
        (
            "avx3",
            BUILT,
            "QOPS_DISABLE_ISA: unknown level 'avx3' (did you mean 'avx2'?)",
        ),
        ("avx2;scalar", BUILT, "QOPS_DISABLE_ISA: unknown level 'avx2;scalar'"),
        (
            "max",
            BUILT,
            "QOPS_DISABLE_ISA: unknown level 'max', not one of avx512_icl",
        ),
        ("\udcff" * 2**20, BUILT, "QOPS_DISABLE_ISA: unknown level '\\udcff"),
        (
            "scalar",
            BUILT,
            "QOPS_DISABLE_ISA names scalar, without which qops can't run",
        ),
        (
            "avx2",
            levels(LEVELS[:-1], "avx2"),
            "QOPS_DISABLE_ISA names avx2, without which qops can't run",
        ),
        (
            "avx2",
            levels(["avx512"], "avx512"),
            "QOPS_DISABLE_ISA names avx2, without which qops can't run",
        ),
    ],
)
def test_disabling_is_refused(value, built, fact):
    with pytest.raises(RuntimeError) as caught:
        Machine().choose(None, built, value)
    text = str(caught.value)
    assert text.startswith(fact)
    assert "what to do: unset QOPS_DISABLE_ISA, or name some of " in text
    assert text.isascii()
    assert len(text) < 700


# ---------------------------------------------------------------- what must be there


@pytest.mark.parametrize(
    ("baseline", "version"), [("avx2", 3), ("avx512", 4), ("avx512_icl", 4)]
)
def test_machine_without_the_baseline(baseline, version):
    built = levels([baseline], baseline)
    features, state = NEEDED[baseline]
    for name in features:
        for lacking in Machine(set(ALL) - {name}), Machine(set(ALL) - {name, "AVX"}):
            with pytest.raises(RuntimeError, match=re.escape(name)):
                lacking.choose(None, built)
    with pytest.raises(RuntimeError) as caught:
        Machine(xcr0=3, hypervisor=b"KVMKVMKVM").choose("scalar", built)
    fact, needs, cpu, available, remedy = str(caught.value).split("\n  ")
    assert fact.startswith(
        f"qops was built for baseline {baseline}, which this machine can't run: the "
        "operating system does not save YMM registers (XCR0 is 0x3, without 0x4)"
    )
    assert set(features) <= set(re.split("[,;] ", needs.removeprefix("needs: ")))
    assert cpu.endswith("under KVMKVMKVM")
    assert available == "available: none"
    assert "QOPS_CPU_BASELINE=min pip install ." in remedy
    assert f"CPU type host or x86-64-v{version}" in remedy
    assert Machine(xcr0=state | 1).choose(None, built).level == baseline


def test_remedies_fit_the_machine():
    def remedy(machine):
        with pytest.raises(RuntimeError) as caught:
            machine.choose("avx2")
        return str(caught.value).split("what to do: ")[1]

    assert "virtual machine" not in remedy(Machine(V2))
    assert "let the operating system save the registers" in remedy(Machine(xcr0=3))
    rosetta = Machine(V2)
    leaves = {**rosetta.read().leaves}
    name = b"VirtualApple @ 2.50GHz processor".ljust(48, b"\0")
    for i in range(3):
        leaves[0x80000002 + i, 0] = tuple(words(name)[4 * i : 4 * i + 4])
    rosetta.read = lambda: _loader.Cpu(leaves, None)
    assert "use a Python for arm64, not one under Rosetta" in remedy(rosetta)


MESSAGE = b"NumPy was built with baseline optimizations: \n("


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (MESSAGE + b"X86_V2) but your machine doesn't support:\n(%s).\0", ["X86_V2"]),
        (b"\0" * 5000 + MESSAGE + b"SSE SSE2 SSE3) but", ["SSE", "SSE2", "SSE3"]),
        (MESSAGE + b") but", []),
        (MESSAGE, []),
        (MESSAGE + b"\xff) but", []),
        (b"no message", []),
        (b"", []),
    ],
)
def test_baseline_of_numpy_is_read_from_its_file(tmp_path, content, names):
    library = tmp_path / "_multiarray_umath.so"
    library.write_bytes(content)
    assert _loader.numpy_baseline(library) == names


def test_baseline_of_this_numpy_is_known():
    (library,) = Path(np.__file__).parent.glob("_core/_multiarray_umath*.so")
    names = _loader.numpy_baseline(library)
    if platform.machine() == "x86_64":
        assert names
        assert set(names) <= set(_levels.NUMPY_BASELINES)


def test_machine_without_what_numpy_needs(tmp_path, monkeypatch):
    """The invented NumPy is found first, and nothing of it is run."""
    (tmp_path / "numpy" / "_core").mkdir(parents=True)
    (tmp_path / "numpy" / "__init__.py").write_text("raise SystemExit")
    library = tmp_path / "numpy" / "_core" / "_multiarray_umath.x.so"
    library.write_bytes(MESSAGE + b"X86_V3) but your machine")
    machine = Machine(V2, xcr0=7)
    check, cpu = _loader.check_numpy, machine.read()
    check(cpu)  # NumPy has been imported, so it runs here
    monkeypatch.syspath_prepend(tmp_path)
    for name in [*sys.modules]:
        if name == "numpy" or name.startswith("numpy."):
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(RuntimeError) as caught:
        check(cpu)
    text = str(caught.value)
    assert re.match(
        "NumPy [0-9.]+ was built for baseline X86_V3, which this mach", text
    )
    assert "\n  available: none\n" in text
    assert "pip install 'numpy<2.4'" in text
    check(Machine().read())
    check(Machine(V3).read())
    library.write_bytes(MESSAGE + b"NEW_NAME SSE2) but your machine")
    check(cpu)


# ---------------------------------------------------------------- this process


def test_available_levels_are_the_best_first():
    available = qops.available_isas()
    assert available == [level for level in LEVELS if level in available]
    assert available[-1] == qops.__cpu_baseline__[0]
    assert qops.isa() in available
    available.clear()
    assert qops.available_isas()


def test_introspection():
    build = qops.show_config(mode="dicts")
    built = build["levels"]["built"]
    assert qops.__version__ == build["version"]
    assert [*qops.__cpu_dispatch__, *qops.__cpu_baseline__] == built
    assert qops.__cpu_baseline__ == [build["levels"]["baseline"]]
    assert set(qops.__cpu_features__) == set(_levels.FEATURES)
    assert set(built) | set(build["levels"]["skipped"]) == set(LEVELS)
    for level in _levels.LEVELS:
        runs = all(map(qops.__cpu_features__.get, level.features))
        there = level.name in built and runs
        assert (level.name in qops.available_isas()) == there


@pytest.mark.parametrize("show", [qops.show_config, qops.show_runtime])
def test_shown_as_text_and_as_dicts(show, capsys):
    assert show() is None
    text = capsys.readouterr().out
    assert all(level in text for level in LEVELS)
    document = show(mode="dicts")
    assert json.loads(json.dumps(document)) == document
    document.clear()
    assert show(mode="dicts")
    assert not capsys.readouterr().out
    with pytest.raises(ValueError, match=f"^{show.__name__}: mode is 'json', not"):
        show(mode="json")


def test_runtime_says_who_asked(capsys):
    with qops.use_isa(LOWEST):
        qops.show_runtime()
        assert qops.show_runtime(mode="dicts")["asked_by"] == "use_isa"
    assert f"{LOWEST}, as use_isa asks" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="no /proc/cpuinfo")
def test_features_are_those_that_the_kernel_sees():
    text = Path("/proc/cpuinfo").read_text()
    flags = re.search(r"^flags\s*: (.*)", text, re.MULTILINE)
    if flags is None:
        pytest.skip("/proc/cpuinfo has no flags")
    words = {"SSE3": "pni", "LZCNT": "abm", "LAHF": "lahf_lm"}
    words |= {n: n.lower().replace("avx512", "avx512_") for n in set(ALL) - set(V4)}
    words |= {"AVX512IFMA": "avx512ifma", "AVX512VBMI": "avx512vbmi"}
    for name, has in qops.__cpu_features__.items():
        word = words.get(name, name.lower().replace(".", "_"))
        if name != "OSXSAVE":
            assert has == (word in flags[1].split()), name


def test_kernels_of_the_level_in_use():
    available = qops.available_isas()
    for level in available:
        with qops.use_isa(level):
            info = qops.kernel_info()
            assert "quantize_f32_u8" in info
            for kernel in info.values():
                having = kernel["available"]
                assert having == [v for v in available if v in having]
                lower = available[available.index(level) :]
                assert kernel["isa"] == next(v for v in lower if v in having)


def test_kernel_that_a_level_lacks_comes_from_the_next_one_down(monkeypatch):
    best, *others = qops.available_isas()
    if not others:
        pytest.skip("only one level runs here")
    lacking, load, selected = "qadd_u8_u8", _loader._load, []
    with qops.use_isa(best):
        usual = {name: info["isa"] for name, info in qops.kernel_info().items()}
    monkeypatch.setattr(
        _loader,
        "_load",
        lambda level: load(level) - ({lacking} if level == best else set()),
    )
    monkeypatch.setattr(qops._core, "select", selected.append)
    with qops.use_isa(best):
        info = qops.kernel_info()
    assert selected[0] == tuple((usual | {lacking: others[0]}).values())
    assert info[lacking] == {"isa": others[0], "available": others}
    assert usual[lacking] == best


def test_order_that_a_kernel_prefers_counts_unless_somebody_asks(monkeypatch):
    state, available = _loader._state, qops.available_isas()
    if len(available) < 2:
        pytest.skip("only one level runs here")
    best, lowest = available[0], available[-1]
    monkeypatch.setattr(state, "choice", replace(state.choice, asked_by=None))
    with qops.use_isa(best):
        usual = {name: info["isa"] for name, info in qops.kernel_info().items()}
    monkeypatch.setitem(state.build, "orders", {"hsum": ["unknown", lowest, best]})
    preferred = {name: lowest for name in usual if re.match("hsum_[ui]", name)}
    assert len(preferred) == 5
    if qops.isa() == best:
        info = qops.kernel_info()
        assert {name: info[name]["isa"] for name in info} == usual | preferred
    with qops.use_isa(best):
        info = qops.kernel_info()
        assert {name: info[name]["isa"] for name in info} == usual


def test_kernels_by_name():
    everything = qops.kernel_info()
    some = qops.kernel_info("^hsum.*_i8")
    assert some
    assert some == {k: v for k, v in everything.items() if re.match("hsum.*_i8", k)}
    assert qops.kernel_info(name="no such") == {}
    assert qops.kernel_info("") == everything
    with pytest.raises(
        ValueError, match=r"^kernel_info: name is '\(', not a regular ex"
    ):
        qops.kernel_info("(")
    with pytest.raises(TypeError, match=r"^kernel_info: name is bytes, not str$"):
        qops.kernel_info(b"x")


def test_report_of_another_machine_can_be_chosen_for():
    for machine in Machine(), Machine(V3, xcr0=7), Machine(V2 | {"AVX": 0}, xcr0=3):
        report = json.loads(json.dumps(machine.read().as_dict()))
        cpu = _loader.Cpu.from_dict(report)
        assert cpu == machine.read()
        assert _loader.choose(cpu, {}, BUILT) == machine.choose()


def test_use_isa_nested():
    before = qops.isa()
    with qops.use_isa(LOWEST):
        assert qops.isa() == LOWEST
        for level in qops.available_isas():
            with qops.use_isa(f" {level.upper()}"):
                assert qops.isa() == level
            assert qops.isa() == LOWEST
    assert qops.isa() == before


def test_use_isa_again():
    before = qops.isa()
    lowest = qops.use_isa(LOWEST)
    for _ in range(2):
        with lowest, lowest:
            assert qops.isa() == LOWEST
    assert qops.isa() == before


def test_use_isa_restores_after_an_exception():
    before = qops.isa()
    with pytest.raises(KeyError), qops.use_isa(LOWEST):
        raise KeyError
    assert qops.isa() == before


def test_use_isa_blocks_that_overlap():
    before = qops.isa()
    first, second = qops.use_isa(LOWEST), qops.use_isa(before)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert qops.isa() == before
    first.__enter__()
    second.__exit__(None, None, None)
    assert qops.isa() == LOWEST
    first.__exit__(None, None, None)
    assert qops.isa() == before


def test_use_isa_from_many_threads():
    before, available = qops.isa(), qops.available_isas()

    def switch():
        for i in range(200):
            with qops.use_isa(available[i % len(available)]):
                assert qops.isa() in available

    threads = [threading.Thread(target=switch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert qops.isa() == before


@pytest.mark.parametrize("level", ["bogus", "", " ", "avx\x00", "\udcff", "x" * 2**20])
def test_use_isa_of_unknown_levels(level):
    before = qops.isa()
    with pytest.raises(RuntimeError) as caught:
        qops.use_isa(level)
    text = str(caught.value)
    assert text.startswith("use_isa is '")
    assert "what to do: pass one of" in text
    assert "QOPS_FORCE_ISA" not in text
    assert len(text) < 700
    assert qops.isa() == before


@pytest.mark.parametrize("level", [None, 2, b"avx2", ["avx2"]])
def test_use_isa_of_no_string(level):
    name = type(level).__name__
    with pytest.raises(TypeError, match=f"^use_isa: level is {name}, not str$"):
        qops.use_isa(level)


def test_use_isa_of_what_does_not_run_here():
    refused = set(LEVELS) - set(qops.available_isas())
    if not refused:
        pytest.skip("this machine runs every level: test_qemu.py has those that don't")
    for level in refused:
        with pytest.raises(
            RuntimeError, match=f"^use_isa is '{level}', which can't be"
        ):
            qops.use_isa(level)


# ---------------------------------------------------------------- other processes


def python(code, path=None, **environ):
    """Run code in a new process; without the current folder in sys.path."""
    ours = "QOPS_FORCE_ISA", "QOPS_DISABLE_ISA"
    clean = {k: v for k, v in os.environ.items() if k not in ours}
    if path is not None:
        clean["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)],
        env=clean | environ,
        capture_output=True,
        text=True,
        check=False,
    )


def output(*args, **kwargs):
    done = python(*args, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("level", LEVELS)
def test_forced_level_is_the_one_running(level):
    if level not in qops.available_isas():
        pytest.skip(f"{level} doesn't run here")
    said = output(
        """
        import re, qops, numpy as np
        qops.quantize(np.ones(3, np.float32), 0.1, dtype=np.uint8)
        maps = re.findall(r"_src/(\\w+)/_lib", open("/proc/self/maps").read())
        print(qops.isa(), qops.show_runtime(mode="dicts")["asked_by"], *set(maps))
        print(*{k["isa"] for k in qops.kernel_info().values()})
        """
        if sys.platform == "linux"
        else "import qops; print(qops.isa(), 'QOPS_FORCE_ISA')",
        QOPS_FORCE_ISA=f" {level.upper()} ",
    )
    assert said[:2] == [level, "QOPS_FORCE_ISA"]
    # no library of a higher level is even loaded
    assert set(said[2:]) <= set(LEVELS[LEVELS.index(level) :])
    assert level in said[2:]


def test_best_level_is_the_default():
    said = output("import qops; print(qops.isa(), *qops.available_isas())")
    assert said[0] == said[1]


def test_refused_at_first_and_second_import():
    """The same error each time, and before NumPy is loaded."""
    said = output(
        """
        import importlib, os, sys
        texts = set()
        for name in ("qops", "qops", "qops._core", "qops.params"):
            try:
                importlib.import_module(name)
            except RuntimeError as error:
                texts.add(str(error))
                assert "qops" not in sys.modules
            else:
                sys.exit(f"{name} was imported")
        assert "numpy" not in sys.modules
        assert "qops._core" not in sys.modules
        text, = texts
        assert text.startswith("QOPS_FORCE_ISA is 'bogus', not one of"), text
        del os.environ["QOPS_FORCE_ISA"]
        import qops
        print(qops.isa())
        """,
        QOPS_FORCE_ISA="bogus",
    )
    assert said == qops.available_isas()[:1]


@pytest.mark.parametrize("value", ["\udcff\udc80", "x" * 100_000])
def test_refused_whatever_the_bytes(value):
    done = python("import qops", QOPS_FORCE_ISA=value)
    assert done.returncode == 1
    assert "RuntimeError: QOPS_FORCE_ISA is '" in done.stderr
    assert len(done.stderr) < 3000


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the layout is x86-64's")
def test_import_changes_nothing_but_what_it_brings():
    """Neither rounding nor denormals, masks of exceptions, np.errstate, warnings."""
    said = output(
        """
        import ctypes, warnings
        import numpy as np

        def environment():
            x = ctypes.create_string_buffer(64)
            ctypes.CDLL(None).fegetenv(x)
            mxcsr = int.from_bytes(x.raw[28:32], "little")
            # without its sticky flags, which any sum of Python's own may set
            control = x.raw[:2], mxcsr & ~0x3F
            return control, np.geterr(), [*warnings.filters], np.get_printoptions()

        before = environment()
        import qops
        print(environment() == before, hex(before[0][1]))
        """
    )
    assert said == ["True", "0x1f80"]  # all masked, nearest even, denormals kept


# ---------------------------------------------------------------- broken installations


@pytest.fixture
def copy(tmp_path):
    """A copy of the installed package, to be broken."""
    package = Path(qops.__file__).parent
    shutil.copytree(package, tmp_path / "qops", symlinks=False)
    return tmp_path


def library(copy, level):
    (path,) = (copy / "qops" / "_src" / level).glob("_lib*.so")
    return path


def test_library_is_missing(copy):
    best = qops.available_isas()[0]
    library(copy, best).unlink()
    done = python(
        """
        import sys
        for _ in range(2):
            try:
                import qops
            except ImportError as error:
                print(error)
            else:
                sys.exit("imported")
        """,
        copy,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    folder = copy / "qops" / "_src" / best
    assert first == (
        f"qops can't load its {best} library from {folder}: "
        f"No module named 'qops._src.{best}._lib'; reinstall qops"
    )


def test_library_of_another_version(copy):
    best = qops.available_isas()[0]
    path, version = library(copy, best), qops.__version__.encode()
    other = version[:-1] + b"x"
    content = path.read_bytes()
    assert content.count(version + b"\0") == 1
    path.write_bytes(content.replace(version + b"\0", other + b"\0"))
    done = python("import qops", copy)
    assert done.returncode == 1
    assert (
        f"RuntimeError: {best}: the library is of qops {other.decode()}, not "
        f"{version.decode()}; rebuild or reinstall qops"
    ) in done.stderr


def test_manifest_of_another_version(copy):
    manifest = copy / "qops" / "_build.json"
    build = json.loads(manifest.read_text()) | {"version": "99"}
    manifest.write_text(json.dumps(build))
    done = python("import qops", copy)
    assert done.returncode == 1
    assert (
        f"qops._core is of qops {qops.__version__}, the manifest of 99" in done.stderr
    )


@pytest.mark.parametrize(("abi", "n_kernels"), [(1, None), (None, 3)])
def test_library_with_another_stamp(abi, n_kernels):
    """A capsule made by hand: ABI, number of kernels, version, level, kernels."""

    class Library(ctypes.Structure):
        _fields_ = [
            ("abi", ctypes.c_int),
            ("n_kernels", ctypes.c_int),
            ("version", ctypes.c_char_p),
            ("level", ctypes.c_char_p),
            ("kernels", ctypes.c_void_p),
        ]

    header = (REPOSITORY / "qops" / "_src" / "qops.h").read_text()
    known = int(re.search("#define QOPS_ABI (.*)", header)[1]), len(qops.kernel_info())
    stamp = abi or known[0], n_kernels or known[1]
    made = Library(*stamp, qops.__version__.encode(), b"scalar", None)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = ctypes.c_char_p(b"qops.library")
    capsule = new(ctypes.addressof(made), name, None)
    said = re.escape(
        f"scalar: the library has ABI {stamp[0]} and {stamp[1]} kernels, not "
        f"{known[0]} and {known[1]}; rebuild or reinstall qops"
    )
    with pytest.raises(RuntimeError, match=f"^{said}$"):
        qops._core.add_library("scalar", capsule)


def test_library_is_something_else(copy):
    best = qops.available_isas()[0]
    path = library(copy, best)
    path.write_bytes(bytes(10_000))
    done = python("import qops", copy)
    assert done.returncode == 1
    assert f"ImportError: qops can't load its {best} library from" in done.stderr
    assert path.name in done.stderr


def test_library_of_another_level(copy):
    best = qops.available_isas()[0]
    if best == LOWEST:
        pytest.skip("only one level runs here")
    shutil.copyfile(library(copy, LOWEST), library(copy, best))
    done = python("import qops", copy)
    assert done.returncode == 1
    assert f"RuntimeError: {best}: the library is for level {LOWEST!r}" in done.stderr


@pytest.mark.parametrize("broken", ["_build.json", "_cpu", "not json"])
def test_package_is_not_built(copy, broken):
    if broken == "not json":
        (copy / "qops" / "_build.json").write_text("{")
    else:
        (path,) = (p for p in (copy / "qops").glob(f"{broken}*") if p.suffix != ".pyi")
        path.unlink()
    done = python("import qops", copy)
    assert done.returncode == 1
    assert f"ImportError: qops in {copy / 'qops'} is not built (" in done.stderr
    assert "pip install -e ." in done.stderr


@pytest.mark.skipif("avx512" in LOWEST, reason="the baseline of this build is above it")
def test_build_that_lacks_a_level(copy):
    manifest = copy / "qops" / "_build.json"
    build = json.loads(manifest.read_text())
    why = "the compiler is too old"
    build["levels"]["skipped"]["avx512"] = why
    build["levels"]["built"] = [v for v in build["levels"]["built"] if v != "avx512"]
    build["flags"].pop("avx512", None)
    manifest.write_text(json.dumps(build))
    said = output("import qops; print(*qops.available_isas())", copy)
    assert said == [level for level in qops.available_isas() if level != "avx512"]
    shown = python("import qops; qops.show_config()", copy).stdout
    assert f"  avx512   left out: {why}\n" in shown
    done = python("import qops", copy, QOPS_FORCE_ISA="avx512")
    assert done.returncode == 1
    assert f"can't be used: this build lacks it: {why}" in done.stderr
