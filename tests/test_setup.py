"""setup.py: what is asked for, what the compiler can do, what becomes of sources."""

import os
import re
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import qops

REPOSITORY = Path(__file__).parents[1]
NAMES = ["avx512_icl", "avx512", "avx2", "scalar"]
ALL = dict.fromkeys(NAMES, "")  # the compiler has no reason against any level


@pytest.fixture(scope="module")
def build():
    """What setup.py defines."""
    pytest.importorskip("setuptools")
    return SimpleNamespace(**runpy.run_path(str(REPOSITORY / "setup.py")))


@pytest.fixture(scope="module")
def refused(build):
    """A context in which setup.py must refuse, and say so."""
    return lambda match: pytest.raises(build.SetupError, match=match)


# ---------------------------------------------------------------- what is asked for


def command(baseline=None, dispatch=None, disable=None):
    """Return build_ext as it is after its options were read."""
    return SimpleNamespace(
        cpu_baseline=baseline, cpu_dispatch=dispatch, disable_optimization=disable
    )


def test_defaults(build):
    assert build.read_options(command(), {}) == build.Options()
    empty = dict.fromkeys(
        ["QOPS_CPU_BASELINE", "QOPS_CPU_DISPATCH", "QOPS_REQUIRE"], " "
    )
    empty["QOPS_DISABLE_OPTIMIZATION"] = "0"
    assert build.read_options(command(), empty) == build.Options()


def test_options_win_over_the_environment(build):
    environ = {"QOPS_CPU_BASELINE": "avx2", "QOPS_CPU_DISPATCH": "none"}
    options = build.read_options(command(), environ)
    assert (options.baseline, options.dispatch) == ("avx2", "none")
    assert options.baseline_name == "QOPS_CPU_BASELINE"
    options = build.read_options(command("min", ""), environ)
    assert (options.baseline, options.dispatch) == ("min", "")
    assert options.dispatch_name == "--cpu-dispatch"


@pytest.mark.parametrize(
    ("environ", "match"),
    [
        (
            {"QOPS_DISABLE_OPTIMIZATION": "yes"},
            "QOPS_DISABLE_OPTIMIZATION is 'yes', not 0 or 1",
        ),
        (
            {"QOPS_REQUIRE": "avx512, avx3"},
            "QOPS_REQUIRE: unknown level 'avx3' [(]did you mean 'avx2'",
        ),
        ({"QOPS_REQUIRE": "max"}, "QOPS_REQUIRE: unknown level 'max'"),
    ],
)
def test_environment_is_refused(build, refused, environ, match):
    with refused(f"^{match}"):
        build.read_options(command(), environ)


def decide(build, why_not=ALL, native=(), detected=(), **options):
    """Return what setup.py decides."""
    return build.decide(
        build.Options(**options), why_not, lambda: native, lambda: detected
    )


OLD = ALL | dict.fromkeys(NAMES[:2], "the compiler is old")


@pytest.mark.parametrize(
    ("options", "why_not", "baseline", "built"),
    [
        ({}, ALL, "scalar", NAMES),
        ({}, OLD, "scalar", ["avx2", "scalar"]),
        ({"dispatch": "none"}, ALL, "scalar", ["scalar"]),
        ({"dispatch": "avx512"}, ALL, "scalar", ["avx512", "scalar"]),
        ({"dispatch": "max -X86_V4"}, ALL, "scalar", ["avx2", "scalar"]),
        ({"dispatch": "max -avx2"}, ALL, "scalar", ["scalar"]),
        ({"baseline": "none"}, ALL, "scalar", NAMES),
        ({"baseline": "avx2"}, ALL, "avx2", NAMES[:3]),
        ({"baseline": "avx2", "dispatch": "none"}, ALL, "avx2", ["avx2"]),
        ({"baseline": "avx2", "dispatch": "min avx2"}, ALL, "avx2", ["avx2"]),
        ({"baseline": "max"}, ALL, NAMES[0], NAMES[:1]),
        ({"baseline": "max"}, OLD, "avx2", ["avx2"]),
        ({"baseline": "avx512"}, OLD, "scalar", ["avx2", "scalar"]),
        ({"baseline": "native"}, ALL, "avx2", NAMES[:3]),
        ({"baseline": "min detect"}, ALL, NAMES[0], NAMES[:1]),
        ({"disable": True}, ALL, "scalar", ["scalar"]),
        ({"disable": True, "baseline": "avx2"}, ALL, "scalar", ["scalar"]),
    ],
)
def test_decision(build, options, why_not, baseline, built):
    decision = decide(build, why_not, ["avx2", "scalar"], NAMES, **options)
    assert decision.baseline == baseline
    assert list(decision.built) == built
    assert set(decision.skipped) == set(NAMES) - set(built)


def test_reasons_for_what_is_left_out(build):
    def skipped(**options):
        return decide(build, OLD, **options).skipped

    old = dict.fromkeys(NAMES[:2], "the compiler is old")
    assert skipped() == old
    assert skipped(dispatch="none", dispatch_name="QOPS_CPU_DISPATCH") == {
        **old,
        "avx2": "QOPS_CPU_DISPATCH is 'none'",
    }
    assert skipped(baseline="avx2")["scalar"] == "it is part of the baseline avx2"
    assert skipped(disable=True)["avx2"] == "--disable-optimization asks for it"


def test_words_without_a_level_are_told(build):
    decision = decide(build, OLD, baseline="avx512", dispatch="max -neon")
    assert decision.notes == (
        "--cpu-baseline: no level for avx512: avx512 can't be built",
        "--cpu-dispatch: no level for neon: it means nothing here",
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"baseline": "avx3"}, "--cpu-baseline: unknown word 'avx3'"),
        ({"dispatch": "max -"}, "--cpu-dispatch: '-' has no word after it"),
        (
            {"require": ("avx512",)},
            "QOPS_REQUIRE asks for avx512, which is left out: the compiler is old",
        ),
        (
            {"require": ("scalar",), "baseline": "avx2"},
            "QOPS_REQUIRE asks for scalar, which is left out: it is part of",
        ),
    ],
)
def test_decision_is_refused(build, refused, options, match):
    with refused(f"^{match}"):
        decide(build, OLD, **options)
    decide(build, ALL, require=NAMES)


def test_docs_have_every_word_and_variable(build):
    docs = (REPOSITORY / "docs" / "dispatch.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (`.*) \| `(\w+)` \|$", docs, re.MULTILINE))
    for level in build.LEVELS[:-1]:
        (row,) = (words for words, name in rows.items() if name == level.name)
        assert set(re.findall(r"`(\w+)`", row)) == set(level.names)
    words = re.findall(r"`([$\w-]+)`", docs)
    policies = [f"${policy}" for policy in build._dispatch.POLICIES]
    assert {*build._dispatch.SPECIAL, *NAMES, *policies, "baseline"} <= set(words)
    code = [REPOSITORY / "setup.py", *(REPOSITORY / "qops").glob("*.py")]
    read = re.findall(r'"(QOPS_\w+)"', "".join(p.read_text("utf-8") for p in code))
    assert {"QOPS_FORCE_ISA", "QOPS_REQUIRE", "QOPS_WERROR"} <= set(read)
    for variable in {*read, "QOPS_CPU_BASELINE", "QOPS_CPU_DISPATCH"}:
        assert f"`{variable}" in docs


# ---------------------------------------------------------------- sources


def plan(build, ops, files, baseline="scalar", built=NAMES, vectorizes=NAMES):
    """Return what becomes of sources; each text lacks the end of the comment."""
    above = NAMES[: NAMES.index(baseline) + 1]
    levels = [level for level in above if level in built]
    return build.plan_sources(
        ops,
        {name: f"{text} */\n" for name, text in files.items()},
        build.Decision(baseline, tuple(levels), {}, ()),
        NAMES,
        vectorizes,
    )


FILES = {
    "avx2/mul.c": "/*@targets avx2",
    "add.c": "/*@targets scalar avx2",
    "mul.c": "/*@targets $maxopt scalar avx2 avx512",
    "library.c": "/* the table",
}


def test_sources_of_levels(build):
    found = plan(build, ["add", "mul"], FILES)
    assert found.sources == {
        "scalar": {"add": "add.c", "mul": "mul.c"},
        "avx2": {"add": "add.c", "mul": "avx2/mul.c"},
        "avx512": {"mul": "mul.c"},
        "avx512_icl": {},
    }
    assert found.policies == {
        "scalar": {"maxopt"},
        "avx2": {"maxopt"},
        "avx512": {"maxopt"},
        "avx512_icl": set(),
    }
    assert (found.orders, found.kept) == ({}, ())


def test_baseline_has_every_kernel(build):
    """What names a lower level is compiled for the baseline; no level is left gappy."""
    assert plan(build, ["add", "mul"], FILES, "avx2").sources == {
        "avx2": {"add": "add.c", "mul": "avx2/mul.c"},
        "avx512": {"mul": "mul.c"},
        "avx512_icl": {},
    }
    assert plan(build, ["add", "mul"], FILES, "avx512").sources == {
        "avx512": {"add": "add.c", "mul": "mul.c"},
        "avx512_icl": {},
    }
    files = {"add.c": "/*@targets baseline avx512"}
    for baseline, levels in (
        ("scalar", ["avx512", "scalar"]),
        ("avx2", ["avx512", "avx2"]),
    ):
        found = plan(build, ["add"], files, baseline).sources
        assert [v for v in NAMES if found.get(v)] == levels


def test_keep_sort_prefers_the_authors_order(build):
    files = {"add.c": "/*@targets $keep_sort avx2 avx512 scalar"}
    assert plan(build, ["add"], files).orders == {"add": ["avx2", "avx512", "scalar"]}
    files = {"add.c": "/*@targets avx2 avx512 scalar"}
    assert plan(build, ["add"], files).orders == {}


def test_keep_baseline_keeps_a_lower_level_if_all_sources_say_so(build):
    kept = "/*@targets $keep_baseline scalar avx2"
    found = plan(build, ["add", "mul"], {"add.c": kept, "mul.c": kept}, "avx2")
    assert found.kept == ("scalar",)
    assert found.sources["scalar"] == found.sources["avx2"]
    assert set(found.sources["scalar"]) == {"add", "mul"}
    found = plan(build, ["add", "mul"], FILES | {"add.c": kept}, "avx2")
    assert found.kept == ()
    assert "scalar" not in found.sources


def test_autovec_drops_levels_without_vectors(build):
    files = {"add.c": "/*@targets $autovec scalar avx2 avx512"}
    found = plan(build, ["add"], files, vectorizes=["avx2"])
    assert [v for v in NAMES if found.sources[v]] == ["avx2", "scalar"]
    assert found.policies["avx2"] == {"autovec", "maxopt"}
    found = plan(build, ["add"], files, "avx2", vectorizes=[])
    assert [v for v in NAMES if found.sources.get(v)] == ["avx2"]


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({}, "add.c:1: no '@targets', but kernels.def lists 'add'"),
        ({"add.c": "bla bla"}, "add.c:1: no '@targets', but kernels.def lists 'add'"),
        ({"add.c": "/*@targets"}, "add.c:1: '@targets' names no level"),
        ({"add.c": "/*@targets avx2 avx512"}, "add.c:1: @targets names 'avx2 avx512'"),
        ({"sub.c": "/*@targets scalar"}, "sub.c:1: kernels.def has no kernel of 'sub'"),
        (
            {"avx2/add.c": "/*@targets avx2 avx512"},
            "avx2/add.c:1: @targets names 'avx2 avx512', not 'avx2' alone",
        ),
        ({"avx2/add.c": "/*@targets avx2"}, "add.c:1: no '@targets'"),
    ],
)
def test_sources_that_do_not_fit_the_list(build, refused, files, match):
    with refused(f"^{re.escape(match)}"):
        plan(build, ["add"], files)


def test_translation_unit(build):
    level = build.LEVELS[0]
    sources = {"add": "add.c", "mul": f"{level.name}/mul.c"}
    text = build.wrapper(level, "CHECKS", ["add", "mul", "sub"], sources)
    assert text.splitlines() == [
        f"/* The {level.name} library, written by setup.py. */",
        '#include "_cpu_dispatch.h"',
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


# ---------------------------------------------------------------- the compiler


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
    assert [not old.why_not(level) for level in build.LEVELS] == [
        level.name == "scalar" for level in build.LEVELS
    ]


def test_compiler_that_can_not_do_it(build, refused):
    with refused("^qops needs gcc or clang"):
        build.Toolchain(SimpleNamespace(compiler_type="msvc"))


# ---------------------------------------------------------------- flags of the user


@pytest.fixture
def with_flags(build, toolchain):
    """The compiler of the build with other flags of the user, or skip."""
    if toolchain.architecture != "x86-64":
        pytest.skip("the compiler is not for x86-64")

    def make(*flags, command=toolchain.compile[:1]):
        compiler = SimpleNamespace(
            compiler_type="unix", compiler_so=[*command, *flags], linker_so=command
        )
        return build.Toolchain(compiler)

    return make


def test_flags_that_choose_a_cpu_are_seen(with_flags):
    assert with_flags("-O2", "-mtune=native").architecture_flag() is None
    assert with_flags("-march=native").architecture_flag() == "-march=native"
    flags = "-march=x86-64-v4", "-march=x86-64-v3"
    assert with_flags(*flags).architecture_flag() == flags[1]
    assert with_flags(*flags).levels_of() == ["avx2", "scalar"]
    assert with_flags("-mavx2").levels_of() == ["scalar"]  # not all that avx2 needs


def test_native_is_a_row_of_levels(with_flags):
    levels = with_flags().native()
    assert levels in [NAMES[i:] for i in range(len(NAMES))]
    assert levels == with_flags("-march=native").levels_of()


def test_compiler_without_native(with_flags, tmp_path):
    script = tmp_path / "cc"
    compiler = shutil.which(with_flags().compile[0])
    script.write_text(
        f"""#!/bin/sh
        case "$*" in *native*) echo "error: bad native" >&2; exit 1;; esac
        exec {compiler} "$@"
        """
    )
    script.chmod(0o755)
    with pytest.raises(ValueError, match=r"^native: .* refuses -march=native: error: "):
        with_flags(command=[str(script)]).native()


@pytest.mark.parametrize(
    "flags", [[], ["-march=native"], ["-mtune=native"], ["-O1", "-march=x86-64-v2"]]
)
def test_flags_that_do_no_harm(build, with_flags, flags):
    toolchain = with_flags(*flags)
    for level in build.LEVELS:
        if not toolchain.why_not(level):
            toolchain.check_user_flags(level)


@pytest.mark.parametrize(
    "flag", ["-mavx512vnni", "-mavx2", "-mfma", "-mno-sse3", "-mfpmath=387", "-mno-avx"]
)
def test_flags_that_change_a_level_are_refused(build, refused, with_flags, flag):
    toolchain = with_flags("-march=native", flag)
    with refused(rf"^CFLAGS has -march=native {flag}, which changes what level \w+ is"):
        for level in build.LEVELS:
            toolchain.check_user_flags(level)


def test_loops_are_vectorized_unless_the_user_forbids_it(build, with_flags):
    for level in build.LEVELS:
        if not with_flags().why_not(level):
            assert with_flags().vectorizes(level)
            forbidden = with_flags("-fno-tree-vectorize", "-fno-vectorize")
            if forbidden.refusal("", []):  # a compiler knows one of them only
                forbidden = with_flags("-fno-tree-vectorize")
            assert not forbidden.vectorizes(level)


# ---------------------------------------------------------------- what was tried


def test_answers_are_kept_until_something_changes(build, toolchain, tmp_path):
    log, script, cache = (tmp_path / name for name in ("log", "cc", "cache.json"))
    compiler = shutil.which(toolchain.compile[0])

    def tried(*flags):
        """Return how often the compiler is run to learn about all levels."""
        log.write_text("")
        command = [str(script), *flags]
        found = build.Toolchain(
            SimpleNamespace(
                compiler_type="unix", compiler_so=command, linker_so=command
            ),
            cache,
        )
        why = [found.why_not(level) for level in build.LEVELS]
        assert why == [toolchain.why_not(level) for level in build.LEVELS]
        return log.read_text().count("run") - 1  # one asks for the version

    script.write_text(f'#!/bin/sh\necho run >> {log}\nexec {compiler} "$@"\n')
    script.chmod(0o755)
    first = tried()
    assert first >= 1
    assert tried() == 0
    assert tried("-O1") == first
    assert tried() == 0
    os.utime(script, ns=(0, 0))  # another compiler under the same name
    assert tried() == first
    for text in "", "{", "[1]", "null", "\0":
        cache.write_text(text)
        assert tried() == first
        assert tried() == 0


def test_answers_depend_on_the_probe(build, toolchain):
    assert toolchain.refusal("int x;") == ""
    assert "error" in toolchain.refusal("int x = ;")
    assert toolchain.refusal("int x;", ["-DQOPS"]) == ""
    assert len(toolchain.known_answers) >= 3
