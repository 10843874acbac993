"""Levels: every test that asks for `level` runs once on each, or is skipped by name."""

import os

import pytest

import qops
from qops._levels import LEVELS

NAMES = [level.name for level in LEVELS]
FORCED = os.environ.get("QOPS_FORCE_ISA", "").strip().lower()


def _why_not(name):
    """Return why a level is not tested here, or nothing."""
    if name not in qops.available_isas():
        refused = qops.show_runtime(mode="dicts")["refused"]
        return f"{name}: not runnable here: {refused[name]}"
    if FORCED and name != FORCED:
        return f"{name}: QOPS_FORCE_ISA is {FORCED}"
    return ""


@pytest.fixture(params=NAMES)
def level(request):
    """Give the name of the level in use."""
    if why := _why_not(request.param):
        pytest.skip(why)
    with qops.use_isa(request.param):
        assert qops.isa() == request.param
        yield request.param


def pytest_report_header():
    marks = {
        name: "?" if name not in qops.available_isas() else "*" * (name == qops.isa())
        for name in NAMES
    }
    levels = " ".join(name + mark for name, mark in marks.items())
    return f"qops {qops.__version__}, levels: {levels} (* in use, ? not runnable here)"


def pytest_collection_modifyitems(config, items):
    """Leave out what takes long unless -m says what is wanted."""
    if not config.option.markexpr:
        long = [i for i in items if any(map(i.get_closest_marker, ("slow", "matrix")))]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
