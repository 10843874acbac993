"""Words for levels: build options and @targets statements, against an own reading."""

import random
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops import _dispatch
from qops._dispatch import Targets, parse_levels, parse_option, parse_targets

ALL = ["avx512_icl", "avx512", "avx2", "scalar"]
OPTION = "--cpu-dispatch"


def parse(text, supported=ALL, native=("avx2", "scalar"), detected=("scalar",)):
    return parse_option(OPTION, text, supported, lambda: native, lambda: detected)


def refusal(text):
    with pytest.raises(ValueError, match=f"^{OPTION}: ") as caught:
        parse(text)
    said = str(caught.value)
    assert said.isascii()
    assert said.isprintable()
    assert len(said) < 400
    return said.removeprefix(f"{OPTION}: ")


# ---------------------------------------------------------------- build options


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("", ""),
        (" ,\t\n,", ""),
        ("none", ""),
        ("min", "scalar"),
        ("max", "avx512_icl avx512 avx2 scalar"),
        ("native", "avx2 scalar"),
        ("detect", "scalar"),
        ("avx2", "avx2"),
        ("AVX2 Scalar", "avx2 scalar"),
        ("scalar,avx512", "avx512 scalar"),
        ("avx512 avx2 avx512", "avx512 avx2"),
        ("min+avx2", "avx2 scalar"),
        ("min + avx2", "avx2 scalar"),
        ("+min +avx2", "avx2 scalar"),
        ("max-avx512", "avx2 scalar"),
        ("max - avx512", "avx2 scalar"),
        ("max -avx512", "avx2 scalar"),
        ("max- avx512", "avx2 scalar"),
        ("max -avx2", "scalar"),  # and what is above it
        ("max -scalar", ""),
        ("max -avx2 avx512", "avx512 scalar"),  # the minus is for one word
        ("max -avx512 avx2", "avx2 scalar"),
        ("-avx512 max", "avx512_icl avx512 avx2 scalar"),  # from left to right
        ("max -none", "avx512_icl avx512 avx2 scalar"),
        ("max -max", ""),
        ("max -native", ""),
        ("max -detect", ""),
        ("max -min", ""),
        ("none max", "avx512_icl avx512 avx2 scalar"),
        ("max -xop -fma4", "avx512_icl avx512 avx2 scalar"),  # NumPy's default
        ("sse sse2", "scalar"),
        ("x86_v3", "avx2"),
        ("X86_V4", "avx512"),
        ("avx512_skx-AVX512F", ""),
        ("max -SSE42", "scalar"),  # what is above it
        ("max -AVX512_ICL", "avx512 avx2 scalar"),
        ("max -AVX512_CLX", "avx512 avx2 scalar"),
        ("avx512_icl", "avx512_icl"),
        ("max -neon", "avx512_icl avx512 avx2 scalar"),
        ("SSE42", ""),
    ],
)
def test_option(text, levels):
    assert parse(text).levels == tuple(levels.split())


@pytest.mark.parametrize(
    "name", ["AVX", "F16C", "FMA3", "BMI", "BMI2", "LZCNT", "MOVBE"]
)
def test_names_of_avx2(name):
    assert parse(name).levels == ("avx2",)
    assert parse(f"max -{name}").levels == ("scalar",)
    assert parse(name).notes == ()


def test_what_is_skipped_is_told():
    assert parse("avx512 avx2", ["avx2", "scalar"]) == (
        ("avx2",),
        (f"{OPTION}: no level for avx512: avx512 can't be built",),
    )
    assert parse("SSE42 avx512_spr AVX512_CLX -VSX3").notes == (
        f"{OPTION}: no level for SSE42: qops has none between scalar and avx2",
        f"{OPTION}: no level for avx512_spr: qops has none above avx512_icl",
        f"{OPTION}: no level for AVX512_CLX: qops has none between avx512 and "
        "avx512_icl",
        f"{OPTION}: no level for VSX3: it means nothing here",
    )
    assert parse("max -avx512", ["avx2", "scalar"]).notes == ()


def test_native_and_detect_are_asked_once_and_only_if_named():
    asked = []

    def native():
        asked.append("native")
        return ["avx2"]

    def never():
        pytest.fail("nobody named it")

    assert parse_option(OPTION, "max -avx2", ALL, never, never).levels == ("scalar",)
    assert parse_option(OPTION, "native,-native native", ALL, native, never).levels
    assert asked == ["native"]


def test_native_is_what_can_be_built_of_it():
    """CFLAGS may turn on what the level's probe refuses all the same."""
    assert parse("native", ["scalar"], ["avx512", "scalar"]) == (
        ("scalar",),
        (f"{OPTION}: no level for native: avx512 can't be built",),
    )


def test_native_may_be_refused():
    def native():
        raise ValueError("native: no such flag")

    with pytest.raises(ValueError, match=r"^native: no such flag$"):
        parse_option(OPTION, "native", ALL, native, native)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("avx3", "unknown word 'avx3' (did you mean 'avx2'?), not one of none, min, "),
        ("maxx", "unknown word 'maxx' (did you mean 'max'?), not one of "),
        ("X86_V5", "unknown word 'X86_V5' (did you mean 'X86_V4'?), not one of "),
        ("qqqqqq", "unknown word 'qqqqqq', not one of none, min, max, native, detect"),
        ("max #all", "'#all' is a group, for @targets statements only"),
        ("$maxopt", "'$maxopt' is a policy, for @targets statements only"),
        ("max -", "'-' has no word after it"),
        ("+", "'+' has no word after it"),
        ("max - + avx2", "'+' follows '-', not a word"),
        ("--avx2", "'-' follows '-', not a word"),
        ("max;avx2", "unknown word 'max;avx2'"),
        ("avx\x002", "unknown word 'avx\\x002'"),
        ("avx\u00b2", "unknown word 'avx\\xb2'"),
        ("\u017fcalar", "unknown word '\\u017fcalar'"),  # its upper() is SCALAR
        ("ma\u212a", "unknown word 'ma\\u212a'"),
        ("\udcff", "unknown word '\\udcff'"),
        ("x" * 2**20, "unknown word 'xxxxx"),
        ("#" * 2**20, "'#####"),
    ],
)
def test_option_is_refused(text, said):
    assert refusal(text).startswith(said)


# The oracle reads from right to left: whether a level is in the set is decided by the
# last word that says something of it.
LADDER = ["scalar", None, "avx2", "avx512", None, "avx512_icl", None]
RUNGS = {
    "scalar": 0, "sse": 0, "sse2": 0,
    "sse3": 1, "ssse3": 1, "sse41": 1, "popcnt": 1, "sse42": 1, "x86_v2": 1,
    "avx2": 2, "x86_v3": 2, "avx": 2, "f16c": 2, "fma3": 2, "bmi": 2, "bmi2": 2,
    "lzcnt": 2, "movbe": 2,
    "avx512": 3, "x86_v4": 3, "avx512f": 3, "avx512cd": 3, "avx512_skx": 3,
    "avx512_clx": 4, "avx512_cnl": 4, "avx512_icl": 5, "avx512_spr": 6,
}  # fmt: skip
FOREIGN = {
    "xop", "fma4", "avx512_knl", "avx512_knm", "neon", "neon_fp16", "neon_vfpv4",
    "asimd", "asimdhp", "asimddp", "asimdfhm", "sve", "vsx", "vsx2", "vsx3", "vsx4",
    "vx", "vxe", "vxe2", "rvv", "lsx",
}  # fmt: skip


def expected(text, supported, native, detected):
    """Return (levels, number of notes), or None for an error."""
    sets = {"none": [], "min": ["scalar"], "max": supported}
    sets |= {"native": native, "detect": detected}
    spread = text.replace("+", " + ").replace("-", " - ").replace(",", " ").split()
    pairs, notes = [], 0
    for i, word in enumerate(spread):
        if word in "+-":
            if i + 1 == len(spread) or spread[i + 1] in "+-":
                return None
            continue
        low = word.lower()
        if not word.isascii() or low not in {*sets, *RUNGS, *FOREIGN}:
            return None
        minus = i > 0 and spread[i - 1] == "-"
        named = {LADDER[RUNGS[low]]} if low in RUNGS else set(sets.get(low, []))
        level = None if low not in RUNGS else LADDER[RUNGS[low]]
        skipped = level not in supported and not (minus and level)
        notes += skipped and low not in sets
        if low in sets and not minus:
            notes += len(named - {*supported})
            named &= {*supported}
        if minus:
            lowest = RUNGS.get(low)
            if low in sets and named:
                lowest = min(map(LADDER.index, named))
            above = [] if lowest is None else LADDER[lowest:]
            pairs.append((False, set(above)))
        else:
            pairs.append((True, named & {*supported} if low in RUNGS else named))
    found = []
    for level in ALL:
        said = [add for add, about in reversed(pairs) if level in about]
        if said and said[0]:
            found.append(level)
    return tuple(found), notes


WORDS = [*RUNGS, *FOREIGN, "none", "min", "max", "native", "detect"]
SUPPORTED = [ALL, ALL[1:], ALL[2:], ["scalar"], ["avx512", "scalar"]]


def check(text, supported, native, detected):
    right = expected(text, supported, native, detected)
    if right is None:
        with pytest.raises(ValueError, match=f"^{OPTION}: "):
            parse(text, supported, native, detected)
        return "refused"
    levels, notes = parse(text, supported, native, detected)
    assert (levels, len(notes)) == right, text
    return levels


def test_twenty_thousand_options():
    generator = random.Random(0)
    seen = set()
    for _ in range(20_000):
        text = ""
        for _ in range(generator.randrange(7)):
            word = generator.choice(WORDS if generator.random() < 0.6 else ALL)
            if generator.random() < 0.02:
                word = "".join(generator.choices(string.printable, k=4))
            word = generator.choice([str.upper, str.lower, str.title])(word)
            text += generator.choice([" ", ", ", "+", "-", " -", " - "]) + word
        supported = generator.choice(SUPPORTED)
        native, detected = generator.choice(SUPPORTED), generator.choice(SUPPORTED)
        seen.add(check(text, supported, native, detected))
    assert len(seen) == 2 ** len(ALL) + 1  # each set of levels, and refused


@settings(derandomize=True, deadline=None, max_examples=1000)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(WORDS), st.sampled_from(["+", "-", ",", " "]), st.text()
        )
    ),
    st.sampled_from([" ", "", ","]),
)
def test_options_with_anything_in_them(words, separator):
    check(separator.join(words), ALL, ["avx2", "scalar"], ["scalar"])


def test_lists_of_levels():
    assert parse_levels("X", "") == ()
    assert parse_levels("X", " AVX2,avx512\tavx2") == ("avx512", "avx2")
    with pytest.raises(
        ValueError, match=r"^X: unknown level 'max', not one of avx512_icl,"
    ):
        parse_levels("X", "avx2 max")
    with pytest.raises(ValueError, match=r"^X: unknown level '-avx2'"):
        parse_levels("X", "-avx2")


# ---------------------------------------------------------------- @targets


@pytest.mark.parametrize(
    ("text", "levels", "policies"),
    [
        ("/*@targets scalar avx2 avx512 */", "avx512 avx2 scalar", ""),
        ("/*@targets scalar*/ int x;", "scalar", ""),
        ("/*@targets AVX2, Scalar */\n", "avx2 scalar", ""),
        ("/*@targets\n * scalar,\n * avx2\n */", "avx2 scalar", ""),
        ("/*@targets avx2 baseline */", "avx2 baseline", ""),
        ("/*@targets baseline scalar avx512 */", "avx512 scalar baseline", ""),
        ("/*@targets #all */", "avx512 avx2 scalar", ""),
        ("/*@targets $maxopt #ALL $WERROR */", "avx512 avx2 scalar", "maxopt werror"),
        ("/*@targets $autovec scalar */", "scalar", "autovec maxopt"),
        (
            "/*@targets $keep_sort scalar avx512 avx2 */",
            "scalar avx512 avx2",
            "keep_sort",
        ),
        ("/*@targets $keep_baseline baseline */", "baseline", "keep_baseline"),
        ("/*@targets $maxopt $maxopt scalar */", "scalar", "maxopt"),
    ],
)
def test_targets(text, levels, policies):
    found = parse_targets("op.c", text)
    assert found == Targets(tuple(levels.split()), frozenset(policies.split()))


@pytest.mark.parametrize("text", ["", "bla bla", "/* op - y = x */\n", "@target"])
def test_no_statement(text):
    assert parse_targets("op.c", text) is None


def test_source_of_one_level():
    found = parse_targets("avx2/op.c", "/*@targets avx2 */")
    assert found == Targets(("avx2",), frozenset())
    for other in "avx2 avx512", "scalar", "baseline":
        with pytest.raises(
            ValueError, match=r"^avx2/op.c:1: @targets names '.*', not 'a"
        ):
            parse_targets("avx2/op.c", f"/*@targets {other} */")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        # those that NumPy tests its own dispatcher with; "bla bla" is in test_setup.py
        ("/*@targets", 1, "'/*@targets' has no '*/'"),
        ("/*@targets */", 1, "'@targets' names no level"),
        (
            "/*@targets unknown */",
            1,
            "@targets: unknown level 'unknown', not one of sc",
        ),
        (
            "/*@targets $unknown_policy avx2 */",
            1,
            "@targets: unknown policy '$unknown_policy', not one of $maxopt, $werror, ",
        ),
        (
            "/*@targets #unknown_group avx2 */",
            1,
            "@targets: unknown group '#unknown_group', not one of #all",
        ),
        ("/*@targets $ */", 1, "@targets: unknown policy '$', not one of $maxopt"),
        ("/*@targets # avx2 */", 1, "@targets: unknown group '#', not one of #all"),
        ("/*@targets #$ avx2 */", 1, "@targets: unknown group '#$', not one of #all"),
        ("/*@targets scalar avx2 ) */", 1, "@targets: ')': a level is one word"),
        ("/*@targets scalar avx2 (avx2 */", 1, "@targets: '(': a level is one word"),
        ("/*@targets scalar avx2 () */", 1, "@targets: '(': a level is one word"),
        ("/*@targets scalar ($autovec) */", 1, "@targets: '(': a level is one word"),
        ("/*@targets scalar avx2 (xxx) */", 1, "@targets: '(': a level is one word"),
        ("/*@targets scalar (baseline) */", 1, "@targets: '(': a level is one word"),
        # ours
        ("/*@targets scalar\n *\n * avx3 */", 3, "@targets: unknown level 'avx3' (did"),
        ("/*@targets scalar\n avx2 avx2 */", 2, "@targets: 'avx2' names 'avx2' again"),
        ("/*@targets avx2\n #all */", 2, "@targets: '#all' names 'avx2' again"),
        ("/*@targets scalar\n+avx2 */", 2, "@targets: '+avx2': '+' and '-' are for "),
        ("/*@targets scalar -avx2 */", 1, "@targets: '-avx2': '+' and '-' are for "),
        ("/*@targets avx2 avx512 */", 1, "@targets names 'avx2 avx512', neither 'sca"),
        ("/*@targets $maxopt\n */", 1, "'@targets' names no level"),
        ("\n/*@targets scalar */", 2, "'@targets' does not open the file as '/*@ta"),
        ("/* @targets scalar */", 1, "'@targets' does not open the file as '/*@ta"),
        ("//@targets scalar", 1, "'@targets' does not open the file as '/*@ta"),
        ("/* op */\n/*@targets scalar */", 2, "'@targets' does not open the file as"),
        ("/*@targetsscalar */", 1, "'@targets' does not open the file as '/*@ta"),
        ("/*@TARGETS avx2 */", 1, "'@targets' does not open the file as '/*@ta"),
        ("/*@targets scalar */\n\n/*@targets */", 3, "'@targets' is there a second t"),
        ("/*@targets \u017fcalar */", 1, "@targets: unknown level '\\u017fcalar'"),
        ("/*@targets \udcff */", 1, "@targets: unknown level '\\udcff'"),
    ],
)
def test_targets_malformed(text, line, said):
    with pytest.raises(ValueError, match=r"^op.c:\d+: ") as caught:
        parse_targets("op.c", text)
    assert str(caught.value).startswith(f"op.c:{line}: {said}")


@settings(derandomize=True, deadline=None, max_examples=1000)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [*ALL, "baseline", "#all", "@targets", "*/", "\n", "*", "("]
            ),
            st.sampled_from([f"${policy}" for policy in _dispatch.POLICIES]),
            st.text(max_size=3),
        )
    ),
    st.sampled_from(["/*@targets ", "/*@targets", ""]),
)
def test_statements_with_anything_in_them(words, opening):
    text = opening + " ".join(words)
    try:
        found = parse_targets("op.c", text)
    except ValueError as error:
        said = re.match(r"op\.c:(\d+): ", str(error))
        lines = range(1, text.count("\n") + 2)
        assert int(said[1]) in lines
    else:
        assert (found is None) == ("@targets" not in text)
        assert found is None or {"scalar", "baseline"} & set(found.levels)


@pytest.mark.parametrize(
    "filling", ["(", "*", "$", "#", " ", "/*", "avx2 ", "@targets"]
)
def test_long_statements_take_linear_time(filling):
    """A quadratic way through 4 MB would take hours."""
    with pytest.raises(ValueError, match=r"^op.c:1: "):
        parse_targets("op.c", "/*@targets " + filling * (4_000_000 // len(filling)))
