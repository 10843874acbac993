"""The table of operations names every one of them, and nothing else."""

import re
from pathlib import Path

import qops

DOCS = Path(__file__).parent.parent / "docs" / "operations.md"
NO_OPERATIONS = {
    *("available_isas", "isa", "kernel_info", "show_config", "show_runtime", "use_isa"),
    *("get_num_threads", "set_num_threads"),
    *("QArray", "fuse", "sigmoid", "erf"),
    *("FuseError", "FuseShapeError", "FuseTypeError", "UnsupportedOpError"),
}


def test_every_operation_has_a_row():
    cells = re.findall(r"^\| (`.*?) \|", DOCS.read_text(), re.M)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(named) == len(set(named))
    assert set(named) == set(qops.__all__) - NO_OPERATIONS
