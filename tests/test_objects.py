"""From sources to shared objects: what setup.py makes of them, and what came out."""

import platform
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import qops

REPOSITORY = Path(__file__).parents[1]
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


@pytest.mark.parametrize("name", ["_core", "_cpu", "scalar"])
def test_baseline_has_no_later_instruction(name):
    found = {
        f"{mnemonic} {operands.strip()}"
        for mnemonic, operands in code(name)
        if re.search(r"%[yz]mm|%k[0-7]|%xmm(?:1[6-9]|[23]\d)", operands)
        or (mnemonic.startswith("v") and mnemonic not in ("verr", "verw"))
        or LATER.match(mnemonic)
    }
    assert not found


def test_avx2_has_no_avx512():
    found = [
        f"{mnemonic} {operands.strip()}"
        for mnemonic, operands in code("avx2")
        if re.search(r"%zmm|%k[0-7]|%[xy]mm(?:1[6-9]|[23]\d)", operands)
    ]
    assert not found


@pytest.mark.parametrize(("level", "register"), [("avx2", "ymm"), ("avx512", "zmm")])
def test_levels_use_their_registers(level, register):
    assert sum(f"%{register}" in operands for _, operands in code(level)) > 1000


def test_no_level_changes_how_floats_are_rounded():
    """ldmxcsr and fldcw appear nowhere."""
    for name in MODULES:
        if name not in BUILD["levels"]["skipped"]:
            assert not {m for m, _ in code(name)} & {"ldmxcsr", "vldmxcsr", "fldcw"}


@pytest.mark.parametrize("name", MODULES)
def test_isa_note_tells_the_system_what_is_needed(name):
    notes = tool("readelf", "-nW", module(name))
    needed = re.findall(r"x86 ISA needed: (.*)", notes)
    if name in ("avx2", "avx512") and not BUILD["flags"][name]["link"]:
        pytest.skip("the linker does not know -z x86-64-v3")
    version = {"avx2": "x86-64-v3", "avx512": "x86-64-v4"}.get(name)
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


# ---------------------------------------------------------------- setup.py


@pytest.fixture(scope="module")
def build():
    """What setup.py defines."""
    pytest.importorskip("setuptools")
    return SimpleNamespace(**runpy.run_path(str(REPOSITORY / "setup.py")))


@pytest.fixture(scope="module")
def refused(build):
    """A context in which setup.py must refuse, and say so."""
    return lambda match: pytest.raises(build.SetupError, match=match)


NAMES = ["scalar", "avx2", "avx512"]


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("/*@targets scalar avx2 avx512 */\n", ["scalar", "avx2", "avx512"]),
        ("/*@targets avx2 scalar */\n/* op - y = x */\n", ["avx2", "scalar"]),
        ("/*@targets scalar */\n", ["scalar"]),
        ("/* library.c - no kernel */\n", None),
        ("", None),
    ],
)
def test_targets(build, text, levels):
    assert build.targets("op.c", text, NAMES) == levels


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            "/*@targets scalar sse9 */\n",
            "op.c: @targets names 'sse9', not one of scalar",
        ),
        ("/*@targets scalar AVX2 */\n", "op.c: @targets names 'AVX2', not one of"),
        ("/*@targets scalar scalar */\n", "op.c: @targets names 'scalar' twice"),
        ("/*@targets scalar\n", "op.c: malformed '/[*]@targets scalar', not"),
        ("/* @targets scalar */\n", "op.c: malformed"),
        ("//@targets scalar\n", "op.c: malformed"),
        ("/*@targets scalar, avx2 */\n", "op.c: malformed"),
        ("/*@targets scalar */ int x;\n", "op.c: malformed"),
        ("\n/*@targets scalar */\n", "op.c: malformed"),
        ("/*@targets scalar */\n/*@targets avx2 */\n", "op.c: malformed"),
        ("/* op */\n/*@targets scalar */\n", "op.c: malformed"),
    ],
)
def test_targets_malformed(build, refused, text, match):
    with refused(f"^{match}"):
        build.targets("op.c", text, NAMES)


def test_sources_by_level(build):
    files = {
        "avx2/mul.c": "/*@targets avx2 */\n",
        "add.c": "/*@targets scalar avx2 */\n",
        "mul.c": "/*@targets scalar avx2 avx512 */\n",
        "library.c": "/* the table */\n",
    }
    assert build.sources_by_level(["add", "mul"], files, NAMES) == {
        "scalar": {"add": "add.c", "mul": "mul.c"},
        "avx2": {"add": "add.c", "mul": "avx2/mul.c"},
        "avx512": {"mul": "mul.c"},
    }


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({}, "kernels.def: 'add' has no source add.c"),
        ({"add.c": ""}, "kernels.def: 'add' has no source add.c"),
        ({"add.c": "/*@targets */\n"}, "add.c: @targets lacks 'scalar'"),
        ({"add.c": "/*@targets avx2 avx512 */\n"}, "add.c: @targets lacks 'scalar'"),
        (
            {"sub.c": "/*@targets scalar */\n"},
            "sub.c: kernels.def has no kernel of 'sub'",
        ),
        (
            {"avx2/add.c": "/*@targets avx2 avx512 */\n"},
            "avx2/add.c: @targets names 'avx2 avx512', not 'avx2' alone",
        ),
        ({"avx2/add.c": "/*@targets avx2 */\n"}, "kernels.def: 'add' has no source"),
    ],
)
def test_sources_that_do_not_fit_the_list(build, refused, files, match):
    with refused(f"^{re.escape(match)}"):
        build.sources_by_level(["add"], files, NAMES)


def test_translation_unit(build):
    level = build.LEVELS[0]
    sources = {"add": "add.c", "mul": f"{level.name}/mul.c"}
    text = build.wrapper(level, "CHECKS", ["add", "mul", "sub"], sources, "stamp")
    assert text.splitlines() == [
        f"/* The {level.name} library, written by setup.py. stamp */",
        "CHECKS",
        f'#define QOPS_LEVEL "{level.name}"',
        "#define HAVE_add 1",
        "#define HAVE_mul 1",
        "#define HAVE_sub 0",
        f'#include "{level.name}/vec.h"',
        '#include "add.c"',
        f'#include "{level.name}/mul.c"',
        '#include "library.c"',
    ]


def test_list_is_read_whole(build):
    text = (REPOSITORY / "qops" / "_src" / "kernels.def").read_text()
    ops = build.kernels_by_op(text)
    assert sorted(ops) == sorted({op for _, op, _, _ in qops._core.kernels()})
    assert len(ops) > 4


@pytest.fixture
def toolchain(build):
    """The compiler of the build, or skip."""
    tools = pytest.importorskip("setuptools.command.build_ext")
    compiler = tools.new_compiler()
    tools.customize_compiler(compiler)
    if shutil.which(compiler.compiler_so[0]) is None:
        pytest.skip(f"{compiler.compiler_so[0]} is not installed")
    return build.Toolchain(compiler)


def test_flags_and_features_of_a_level_are_the_same(build, toolchain):
    if toolchain.architecture != "x86-64":
        pytest.skip("the compiler is not for x86-64")
    flags = {
        level.name: (*build.BASELINE, *level.compile_args) for level in build.LEVELS
    }
    for level in build.LEVELS:
        if toolchain.why_not(level):
            continue
        checks = build.feature_checks(level)
        for name, args in flags.items():
            why = toolchain.refusal(checks, args)
            assert bool(why) == (name != level.name)
            if why and "bad value" not in why:
                assert f"{level.name}: the compiler has" in why
    checks = build.feature_checks(build.LEVELS[-1])
    for flag in ("-mavx", "-msse3", "-mpopcnt", "-mbmi2", "-mlzcnt"):
        assert "look for -m options" in toolchain.refusal(
            checks, [*flags["scalar"], flag]
        )


def test_compiler_that_lacks_a_level(build, toolchain, tmp_path):
    if toolchain.architecture != "x86-64":
        pytest.skip("the compiler is not for x86-64")
    compiler = shutil.which(toolchain.compile[0])
    script = tmp_path / "old-cc"
    script.write_text(
        f"""#!/bin/sh
        case "$*" in *x86-64-v4*) echo "error: bad value 'x86-64-v4'" >&2; exit 1;; esac
        exec {compiler} "$@"
        """
    )
    script.chmod(0o755)
    command = [str(script), *toolchain.compile[1:]]
    old = build.Toolchain(
        SimpleNamespace(compiler_type="unix", compiler_so=command, linker_so=command)
    )
    why = {level.name: old.why_not(level) for level in build.LEVELS}
    assert why["avx512"] == f"{old.version} refuses: error: bad value 'x86-64-v4'"
    assert why["scalar"] == ""
    assert old.known(["-Wl,-z,no-such-thing", "-Wl,--no-such-option"]) == []


def test_compiler_for_another_architecture(build):
    old = build.Toolchain(
        SimpleNamespace(
            compiler_type="unix", compiler_so=["false"], linker_so=["false"]
        )
    )
    assert old.architecture == "other"
    assert [bool(old.why_not(level)) for level in build.LEVELS] == [True, True, False]


def test_compiler_that_can_not_do_it(build, refused):
    with refused("^qops needs gcc or clang"):
        build.Toolchain(SimpleNamespace(compiler_type="msvc"))
