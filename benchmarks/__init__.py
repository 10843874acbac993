"""Benchmarks. Run their modules from the root: python -m benchmarks.levels."""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent

# For -m the current folder comes first in sys.path: there qops is sources, unless it
# was built in place. This folder comes instead, as for python benchmarks/table.py.
if not (_ROOT / "qops" / "_build.json").exists():
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != _ROOT]
sys.path.insert(0, str(_HERE))
