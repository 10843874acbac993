"""Quantized arithmetic for NumPy: exact, and the same bits on every CPU."""

from . import _loader

_loader.start()  # refuses before NumPy, or any code of a level, is loaded

from ._core import (  # noqa: E402
    dequantize,
    hsum,
    hsum_sq,
    qadd,
    qdiv,
    qmaximum,
    qminimum,
    qmul,
    qsub,
    quantize,
    requantize,
    take,
)
from ._loader import (  # noqa: E402
    available_isas,
    isa,
    kernel_info,
    show_config,
    show_runtime,
    use_isa,
)
from .params import choose_qparams  # noqa: E402
from .tables import lookup_table  # noqa: E402
from .threads import get_num_threads, set_num_threads  # noqa: E402

_loader.activate()

__version__ = _loader.version()
__cpu_baseline__ = _loader.cpu_baseline()
__cpu_dispatch__ = _loader.cpu_dispatch()
__cpu_features__ = _loader.cpu_features()

__all__ = [
    "available_isas",
    "choose_qparams",
    "dequantize",
    "get_num_threads",
    "hsum",
    "hsum_sq",
    "isa",
    "kernel_info",
    "lookup_table",
    "qadd",
    "qdiv",
    "qmaximum",
    "qminimum",
    "qmul",
    "qsub",
    "quantize",
    "requantize",
    "set_num_threads",
    "show_config",
    "show_runtime",
    "take",
    "use_isa",
]
