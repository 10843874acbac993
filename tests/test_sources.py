"""The rules of qops/_src/README.md that a program can check."""

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "qops" / "_src"
LEVELS = sorted(p.parent.name for p in SOURCE.glob("*/vec.h"))
BOUNDARY = {"pairs.h", "programs.h", "reductions.h", "runs.h", "tables.h", "library.c"}
KERNELS = sorted(
    p.relative_to(SOURCE).as_posix()
    for p in [*SOURCE.glob("*.[ch]"), *SOURCE.glob("*/*.c")]
    if p.name not in {*BOUNDARY, "probe.c"}
)
ALL = sorted(p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.[ch]"))


def code(name):
    """Return a source without its comments."""
    return re.sub(r"/\*.*?\*/", " ", (SOURCE / name).read_text(), flags=re.DOTALL)


def primitives(level):
    """Return the primitives of a level, its own and those of the one it builds on."""
    text = code(f"{level}/vec.h")
    own = set(re.findall(r"INLINE \w+ (v\w+)\(", text))
    base = re.search(r'#include "(\w+)/vec.h"', text)
    return own | (primitives(base[1]) if base else set())


def test_there_are_sources():
    assert len(LEVELS) >= 3
    assert len(KERNELS) >= 8


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_use_primitives_only(name):
    assert not re.findall(r"\b_mm\w*|\b__m\d+\w*|\w*intrin\.h", code(name))


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_name_no_level(name):
    found = re.findall(rf"\b(?:{'|'.join(LEVELS)})\b", code(name))
    if name == "kernel.h":  # an editor's view of a kernel is the scalar one
        found.remove("scalar")
    assert not found


@pytest.mark.parametrize("name", ALL)
def test_c_cannot_fail(name):
    assert not re.findall(
        r"\b(?:malloc|calloc|realloc|free|v?f?printf|puts|abort|exit|assert)\s*\(",
        code(name),
    )


@pytest.mark.parametrize("name", ALL)
def test_no_macro_has_a_body_of_statements(name):
    macros = re.findall(r"#define (?:[^\\\n]|\\\n)*", code(name))
    assert not [m for m in macros if ";" in m and "static qops_" not in m]


@pytest.mark.parametrize("name", ALL)
def test_first_line_is_name_and_purpose(name):
    lines = (SOURCE / name).read_text().splitlines()
    if lines[0].startswith("/*@targets"):
        lines = lines[1:]
    own = name if Path(name).name == "vec.h" else Path(name).name
    assert re.match(rf"/\* (?:{re.escape(own)}|{Path(own).stem}) - ", lines[0])


@pytest.mark.parametrize("name", ALL)
def test_sources_are_ascii(name):
    assert (SOURCE / name).read_bytes().isascii()


@pytest.mark.parametrize("level", LEVELS)
def test_every_primitive_has_a_caller(level):
    defined = primitives(level)
    used = re.findall(r"\bv\w+(?=\()", "".join(map(code, KERNELS)))
    inside = re.findall(r"\bv\w+(?=\()", code("avx512/vec.h"))
    assert not defined - set(used) - {p for p in inside if inside.count(p) > 1}


def test_levels_have_the_same_primitives():
    assert all(primitives(level) == primitives("scalar") for level in LEVELS)


def test_list_of_kernels_is_sorted():
    lines = (SOURCE / "kernels.def").read_text().splitlines()
    rows = [re.match(r"KERNEL\((.*)\)$", line)[1].split(", ") for line in lines[1:]]
    assert rows == sorted(rows)
    assert len(rows) == len({tuple(r) for r in rows})
