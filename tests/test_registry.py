"""The list of kernels, the oracles, the levels and the documentation agree."""

import doctest
import importlib
import re
from pathlib import Path

import oracles
import pytest

import qops
from qops import _core, _dispatch, _levels

ROOT = Path(__file__).parents[1]
LEVELS = [level.name for level in _levels.LEVELS]


def test_every_op_has_an_oracle():
    assert {op for _, op, _, _ in _core.kernels()} == set(oracles.ORACLES)


def test_every_dtype_has_a_numpy_dtype():
    words = {word for _, _, x, y in _core.kernels() for word in (x, y)}
    assert words <= set(oracles.DTYPES)


def test_kernel_info_is_the_list():
    info = qops.kernel_info()
    assert list(info) == [f"{op}_{x}_{y}" for _, op, x, y in _core.kernels()]
    for entry in info.values():
        assert entry["isa"] in entry["available"]
        assert entry["available"][-1] == qops.available_isas()[-1]


def test_libraries_have_what_their_sources_name(level):
    build = qops.show_config(mode="dicts")
    for _, op, x, y in _core.kernels():
        source = (ROOT / "qops" / "_src" / f"{op}.c").read_text()
        named = _dispatch.parse_targets(f"{op}.c", source).levels
        there = level in named or level == build["levels"]["baseline"]
        assert (f"{op}_{x}_{y}" in _core.library_kernels(level)) == there
        assert (op in build["sources"][level]) == there


def test_levels_are_written_once():
    folders = {p.parent.name for p in (ROOT / "qops" / "_src").glob("*/vec.h")}
    readme = (ROOT / "README.md").read_text()
    table = re.findall(r"^\| `(\w+)` \|.*`-march=|^\| `(scalar)` \|", readme, re.M)
    assert folders == set(LEVELS)
    assert [a or b for a, b in table] == LEVELS


def test_public_names():
    for name in qops.__all__:
        assert ">>>" in getattr(qops, name).__doc__ or name.endswith("Error"), name
    assert not set(qops.__all__) - set(dir(qops))


TOPICS = sorted(p.stem for p in (ROOT / "qops").glob("[a-z]*.py"))
MODULES = ["_arrays", "_core", "_loader", *TOPICS]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    if name == "_loader" and "scalar" not in qops.available_isas():
        pytest.skip("the examples are of a build with the level scalar")
    module = importlib.import_module(f"qops.{name}")
    results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0
    assert results.failed == 0


def test_example_in_the_readme():
    text = (ROOT / "README.md").read_text()
    exec(re.search(r"```python\n(.*?)```", text, re.S)[1], {})
