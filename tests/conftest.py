"""Each test that asks for `level` runs once on every instruction-set level."""

import os

import pytest

import qops
from qops._levels import LEVELS

NAMES = [level.name for level in LEVELS]
FORCED = os.environ.get("QOPS_FORCE_ISA", "").strip().lower()


def refusal(name):
    """Return why the tests don't run on a level, or None."""
    if FORCED and name != FORCED:
        return f"QOPS_FORCE_ISA is {FORCED}"
    if name in qops.available_isas():
        return None
    try:
        with qops.use_isa(name):
            return "not among available_isas()"
    except RuntimeError as error:
        return str(error).splitlines()[0]


def mark(name):
    """Return a level for the header: in use, or not run."""
    if refusal(name):
        return f"{name}?"
    return f"{name}*" if name == qops.isa() else name


def pytest_report_header():
    levels = " ".join(mark(name) for name in NAMES)
    return f"levels: {levels} (*: in use, ?: not run here)"


@pytest.fixture(params=NAMES)
def level(request):
    """Run the test on a level, which it may ask the name of."""
    if why := refusal(request.param):
        pytest.skip(f"{request.param}: not runnable here: {why}")
    with qops.use_isa(request.param):
        yield request.param
