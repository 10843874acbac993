from collections.abc import Callable
from typing import Any, Literal, Self, final, overload

from numpy.typing import ArrayLike, DTypeLike, NDArray

def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    nan: Literal["zero_point", "raise"] = "zero_point",
    out: NDArray[Any] | None = None,
) -> Any: ...
def dequantize(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    out: NDArray[Any] | None = None,
) -> Any: ...
def requantize(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike,
    out_zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    out: NDArray[Any] | None = None,
) -> Any: ...
def qadd(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    relu: bool = False,
    out: NDArray[Any] | None = None,
) -> Any: ...
def qmul(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    relu: bool = False,
    out: NDArray[Any] | None = None,
) -> Any: ...
def qsub(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    relu: bool = False,
    out: NDArray[Any] | None = None,
) -> Any: ...
def qdiv(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    relu: bool = False,
    out: NDArray[Any] | None = None,
) -> Any: ...
def qmaximum(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    relu: bool = False,
    out: NDArray[Any] | None = None,
) -> Any: ...
def qminimum(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    relu: bool = False,
    out: NDArray[Any] | None = None,
) -> Any: ...
def take(
    q: ArrayLike,
    table: ArrayLike,
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> Any: ...
@overload
def hsum(
    q: ArrayLike, axis: None = None, *, keepdims: Literal[False] = False
) -> int: ...
@overload
def hsum(
    q: ArrayLike, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Any: ...
@overload
def hsum_sq(
    q: ArrayLike, axis: None = None, *, keepdims: Literal[False] = False
) -> int: ...
@overload
def hsum_sq(
    q: ArrayLike, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Any: ...

# for qops itself and its tests
def real_array(op: str, x: ArrayLike) -> NDArray[Any]: ...
def code_array(op: str, name: str, x: ArrayLike) -> NDArray[Any]: ...
def result_array(
    op: str,
    out: NDArray[Any] | None,
    dtype: DTypeLike | None,
    default: DTypeLike | None,
    shape: tuple[int, ...],
) -> NDArray[Any]: ...
def check_pairs(
    op: str,
    prefix: str,
    scale: ArrayLike,
    zero_point: ArrayLike,
    dtype: DTypeLike,
    shape: tuple[int, ...],
    axis: int | None,
    block_size: int | None = None,
    *,
    rounded: bool = True,
    limits: tuple[int, int, str] | None = None,
) -> None: ...
def run_rows(
    part: Callable[[int, int], object], rows: int, n_elements: int
) -> None: ...

FEW_CHANNELS: int

def pool(
    q: NDArray[Any],
    windows: list[Any],
    pad: int,
    how: list[Any],
    out: NDArray[Any],
    pairs: tuple[NDArray[Any], NDArray[Any], ArrayLike, ArrayLike] | None = None,
) -> None: ...
def real_means(sums: NDArray[Any], scale: float, divisor: float) -> NDArray[Any]: ...
def normalize(
    q: NDArray[Any],
    center: NDArray[Any],
    gain: NDArray[Any],
    shift: NDArray[Any],
    weight: NDArray[Any],
    bias: NDArray[Any],
    out_scale: ArrayLike,
    out_zero_point: ArrayLike,
    out: NDArray[Any],
) -> None: ...
def interpolate(
    q: NDArray[Any],
    dims: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]],
    channels: int,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike,
    out_zero_point: ArrayLike,
    out: NDArray[Any],
) -> None: ...
def refuse_nan(op: str, x: NDArray[Any]) -> None: ...
def fake_quantize(
    x: NDArray[Any],
    scale: ArrayLike,
    zero_point: ArrayLike,
    dtype: DTypeLike,
    axis: int | None,
    block_size: int | None,
    out: NDArray[Any] | None,
    mask: bool,
) -> Any: ...
def masked_fill(
    q: NDArray[Any], mask: NDArray[Any], code: int, out: NDArray[Any] | None
) -> Any: ...
def softmax(
    q: NDArray[Any],
    units: NDArray[Any],
    unit: float,
    numbers: NDArray[Any],
    scale: float,
    zero_point: int,
    out: NDArray[Any],
) -> None: ...
def code_range(op: str, dtype: DTypeLike) -> tuple[int, int]: ...
def kernels() -> list[tuple[str, str, str, str]]: ...
def add_library(level: str, capsule: object) -> None: ...
def library_kernels(level: str) -> set[str]: ...
def version() -> str: ...
def select(levels: tuple[str, ...]) -> None: ...
def opcodes() -> list[str]: ...

@final
class TileProgram:
    def __new__(
        cls,
        steps: list[Any],
        n_first: int,
        n_tiles: int,
        tile: int,
        n_inputs: int,
    ) -> Self: ...
    def run(self, operands: list[NDArray[Any]], numbers: list[Any]) -> None: ...
