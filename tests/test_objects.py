"""The shared objects that a build has made: instructions, symbols, notes."""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import qops

PACKAGE = Path(qops.__file__).parent
BUILD = qops.show_config(mode="dicts")
LEVELS = BUILD["levels"]["requested"]
MODULES = ["_core", "_cpu", *LEVELS]


# ---------------------------------------------------------------- the shared objects


def tool(name, *args):
    """Run a program of binutils, or skip by its name."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("for Linux on x86-64 only")
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([name, *args], capture_output=True, text=True, check=True)
    return done.stdout


def module(name):
    """Return the file of a module, by its own name or its level's."""
    if name in LEVELS and name not in BUILD["levels"]["built"]:
        pytest.skip(f"{name} was not built: {BUILD['levels']['skipped'][name]}")
    where = PACKAGE / "_src" / name if name in LEVELS else PACKAGE
    file = "_lib" if name in LEVELS else name
    (path,) = where.glob(f"{file}.*so")
    return path


def code(name):
    """Return the instructions of a module, as (mnemonic, operands)."""
    text = tool("objdump", "-d", "--no-show-raw-insn", module(name))
    rows = re.findall(r"^ +[0-9a-f]+:\t([^\s#]+)([^#\n]*)", text, re.MULTILINE)
    assert len(rows) > 500
    return rows


@pytest.mark.parametrize("name", MODULES)
def test_only_the_init_function_is_exported(name):
    path = module(name)
    symbols = tool("nm", "-D", "--defined-only", path).split("\n")
    exported = [line.split()[-1] for line in symbols if line]
    assert exported == [f"PyInit_{path.name.split('.')[0]}"]


@pytest.mark.parametrize("name", MODULES)
def test_nothing_runs_at_load(name):
    """No static initialisers, which would run before any check."""
    sections = tool("readelf", "-SW", module(name))
    sizes = re.findall(r" \.init_array +\w+ +\w+ \w+ (\w+)", sections)
    assert all(int(size, 16) <= 8 for size in sizes)  # 8: the C run-time's own
    assert ".preinit_array" not in sections
    relocations = tool("readelf", "-rW", module(name))
    assert "IRELATIV" not in relocations  # chosen by code that runs at load


@pytest.mark.parametrize("name", MODULES)
def test_symbols_are_bound_at_load(name):
    if "-Wl,-z,now" not in BUILD["flags"]["common"]["link"]:
        pytest.skip("the linker does not know -z now")
    assert re.search(r"BIND_NOW|Flags: NOW", tool("readelf", "-dW", module(name)))


@pytest.mark.parametrize("name", MODULES)
def test_only_the_c_library_is_needed(name):
    needed = re.findall(r"NEEDED.*\[(.*)\]", tool("readelf", "-dW", module(name)))
    assert {library.split(".")[0] for library in needed} <= {
        "libc",
        "libm",
        "libpython3",
    }


# Instructions that x86-64 got after SSE2 and that have no VEX form. tzcnt is not among
# them: compilers write it for bsf where either is right.
LATER = re.compile(
    r"""addsubp[sd]|hadd|hsub|lddqu|movddup|movs[hl]dup|cmpxchg16b|lahf|sahf  # v2: SSE3
    |pabs|phadd|phsub|pmaddubsw|pmulhrsw|pshufb|psign|palignr                 # SSSE3
    |blend|pblend|dpp[sd]|extractps|insertps|movntdqa|mpsadbw|packusdw        # SSE4
    |pcmpeqq|pcmpgtq|pcmp[ei]str|pextr[bdq]|pinsr[bdq]|phminpos|pmov[sz]x|ptest
    |pmaxs[bd]|pmaxu[dw]|pmins[bd]|pminu[dw]|pmuldq|pmulld|roundp|rounds|crc32|popcnt
    |lzcnt|movbe|andn$|bextr|blsi|blsmsk|blsr|bzhi|mulx|pdep|pext$|rorx|sarx|shlx|shrx
    """,
    re.VERBOSE,
)


def level_of(name):
    """Return the level that a module may use; any CPU runs _cpu."""
    return {"_cpu": "scalar", "_core": BUILD["levels"]["baseline"]}.get(name, name)


@pytest.mark.parametrize("name", ["_core", "_cpu", "scalar"])
def test_scalar_has_no_later_instruction(name):
    if level_of(name) != "scalar":
        pytest.skip(f"the baseline of this build is {level_of(name)}")
    found = {
        f"{mnemonic} {operands.strip()}"
        for mnemonic, operands in code(name)
        if re.search(r"%[yz]mm|%k[0-7]|%xmm(?:1[6-9]|[23]\d)", operands)
        or (mnemonic.startswith("v") and mnemonic not in ("verr", "verw"))
        or LATER.match(mnemonic)
    }
    assert not found


@pytest.mark.parametrize("name", ["_core", "avx2"])
def test_avx2_has_no_avx512(name):
    if level_of(name).startswith("avx512"):
        pytest.skip(f"the baseline of this build is {level_of(name)}")
    found = [
        f"{mnemonic} {operands.strip()}"
        for mnemonic, operands in code(name)
        if re.search(r"%zmm|%k[0-7]|%[xy]mm(?:1[6-9]|[23]\d)", operands)
    ]
    assert not found


# Instructions that the level has, and those below it don't.
OWN = {"avx512_icl": r"vpdpbusd|vperm[it]2b", "avx512": r"%zmm", "avx2": r"%ymm"}


@pytest.mark.parametrize("level", OWN)
def test_levels_use_what_they_have(level):
    lines = [f"{mnemonic} {operands}" for mnemonic, operands in code(level)]
    assert sum(bool(re.search(OWN[level], line)) for line in lines) > 50


def test_avx512_has_none_of_icl():
    later = (
        r"vp(?:dpw|dpb|ermb|erm[it]2b|multishift|compress[bw]|expand[bw]|sh[lr]d|madd52)"
        r"|vp(?:opcnt|shufbit)"
    )
    assert not [m for m, _ in code("avx512") if re.match(later, m)]


def test_no_level_changes_how_floats_are_rounded():
    """ldmxcsr and fldcw appear nowhere."""
    for name in MODULES:
        if name not in BUILD["levels"]["skipped"]:
            assert not {m for m, _ in code(name)} & {"ldmxcsr", "vldmxcsr", "fldcw"}


@pytest.mark.parametrize("name", MODULES)
def test_isa_note_tells_the_system_what_is_needed(name):
    notes = tool("readelf", "-nW", module(name))
    needed = re.findall(r"x86 ISA needed: (.*)", notes)
    level = level_of(name)
    if level != "scalar" and not BUILD["flags"][level]["link"]:
        pytest.skip("the linker does not know -z x86-64-v3")
    version = {"avx2": "x86-64-v3", "scalar": None}.get(level, "x86-64-v4")
    if version:
        assert needed[0].split(", ")[-1] == version
    else:
        assert not re.search("x86-64-v", "".join(needed))


def test_installed_package_is_small():
    files = [p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix != ".pyc"]
    assert len(files) > 10
    assert sum(p.stat().st_size for p in files) < 5_000_000


def test_denormals_are_kept():
    program = """if True:
    import numpy as np
    import qops
    for level in qops.available_isas():
        with qops.use_isa(level):
            qops.quantize(np.ones(100, np.float32), 0.1, dtype=np.int8)
    tiny = float("5e-324")
    assert tiny * 1.0 == tiny and tiny != 0
    x = np.full(100, 1e-40, np.float32)
    assert (x * np.float32(1) == x).all() and (x + x > x).all() and (x != 0).all()
    """
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
