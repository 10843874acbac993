"""Which instruction-set level is used: CPUID against what was built.

The choice is a pure function of the CPU, the environment and the build. Nothing of a
level is loaded before it is made, and NumPy is not either: `start` decides or refuses,
`activate` loads.
"""

import importlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, overload

from ._levels import FEATURES, LEVELS, REGISTERS, Feature, Level

VARIABLE = "QOPS_FORCE_ISA"
_BY_NAME = {level.name: level for level in LEVELS}
_REGISTERS = ("eax", "ebx", "ecx", "edx")
_HYPERVISOR = Feature(1, 0, "ecx", 31, 0, None)
_BRAND = ((0x80000002, 0), (0x80000003, 0), (0x80000004, 0))

Leaf = tuple[int, int, int, int]


class Levels(TypedDict):
    """What the manifest says of the levels; all lists are best first."""

    requested: list[str]
    built: list[str]
    skipped: dict[str, str]  # and why


class Build(TypedDict):
    """The manifest that setup.py writes."""

    version: str
    compiler: str
    command: str
    architecture: str
    levels: Levels
    flags: dict[str, dict[str, list[str]]]


# ---------------------------------------------------------------- the CPU


@dataclass(frozen=True)
class Cpu:
    """What CPUID and XGETBV say, raw; `leaves` has only leaves that exist."""

    leaves: Mapping[tuple[int, int], Leaf]
    xcr0: int | None = None  # None: the operating system has not turned XGETBV on

    def _leaf(self, leaf: int, subleaf: int = 0) -> Leaf:
        return self.leaves.get((leaf, subleaf), (0, 0, 0, 0))

    @property
    def vendor(self) -> str:
        """The vendor's name, such as GenuineIntel; empty if the CPU isn't x86."""
        _, ebx, ecx, edx = self._leaf(0)
        return _text(ebx, edx, ecx)

    @property
    def brand(self) -> str:
        """The model's name."""
        return _text(*(register for leaf in _BRAND for register in self._leaf(*leaf)))

    @property
    def hypervisor(self) -> str:
        """The hypervisor's name, such as KVMKVMKVM; empty if there is none."""
        return _text(*self._leaf(0x40000000)[1:])

    def has_bit(self, feature: Feature) -> bool:
        """Tell whether CPUID shows a feature."""
        registers = self._leaf(feature.leaf, feature.subleaf)
        return bool(registers[_REGISTERS.index(feature.register)] >> feature.bit & 1)

    def saves(self, state: int) -> bool:
        """Tell whether the operating system saves this register state."""
        return not state & ~(self.xcr0 or 0)

    def has(self, feature: Feature) -> bool:
        """Tell whether a feature can be used: CPU and operating system."""
        return self.has_bit(feature) and self.saves(feature.xcr0)

    def __str__(self) -> str:
        """Return its name for people."""
        name = self.brand or self.vendor or "not x86-64"
        return f"{name}, under {self.hypervisor}" if self.hypervisor else name


def _text(*registers: int) -> str:
    raw = b"".join(register.to_bytes(4, "little") for register in registers)
    shown = (chr(c) if 32 <= c < 127 else "?" for c in raw.partition(b"\0")[0])
    return " ".join("".join(shown).split())


def read_cpu(cpuid: Callable[[int, int], Leaf], xgetbv: Callable[[], int]) -> Cpu:
    """Read the leaves that features and names are in, and no leaf that isn't there.

    For a leaf beyond the maximum a CPU answers with the data of another one, and XGETBV
    traps unless OSXSAVE is set: so both are looked up first.
    """
    leaves = {(0, 0): cpuid(0, 0)}
    top = leaves[0, 0][0]
    extended_top = 0
    if top:
        leaves[0x80000000, 0] = cpuid(0x80000000, 0)
        extended_top = leaves[0x80000000, 0][0]
        if not 0x80000000 <= extended_top <= 0x8000FFFF:  # there are none
            extended_top = 0
    wanted = {(f.leaf, f.subleaf) for f in FEATURES.values()} | {(7, 0), *_BRAND}
    for leaf, subleaf in sorted(wanted):
        exists = leaf <= (top if leaf < 0x80000000 else extended_top)
        # eax of subleaf 0, read before by the order, is the last subleaf
        if exists and (not subleaf or subleaf <= leaves[leaf, 0][0]):
            leaves[leaf, subleaf] = cpuid(leaf, subleaf)
    cpu = Cpu(leaves)
    if cpu.has_bit(_HYPERVISOR):
        leaves[0x40000000, 0] = cpuid(0x40000000, 0)
    if cpu.has_bit(FEATURES["OSXSAVE"]):
        return Cpu(leaves, xgetbv())
    return cpu


def missing(level: Level, cpu: Cpu) -> list[str]:
    """Say what a machine lacks for a level: the CPU, then the operating system.

    Parameters
    ----------
    level : Level
        One of `LEVELS`.
    cpu : Cpu
        The machine.

    Returns
    -------
    list of str
        Nothing if the machine runs the level.
    """
    if level.architecture and (1, 0) not in cpu.leaves:
        return [f"the CPU is not {level.architecture}"]
    features = {name: FEATURES[name] for name in level.features}
    lacking = [name for name, feature in features.items() if not cpu.has_bit(feature)]
    in_cpu = [name for name in lacking if name != "OSXSAVE"]
    said = [f"the CPU lacks {', '.join(in_cpu)}"] if in_cpu else []
    if "OSXSAVE" in lacking:
        said.append("the operating system has not turned on XSAVE (OSXSAVE is 0)")
    else:
        xcr0 = cpu.xcr0 or 0
        said += [
            f"the operating system does not save {name} registers "
            f"(XCR0 is {xcr0:#x}, without {state & ~xcr0:#x})"
            for name, state in REGISTERS.items()
            if not cpu.saves(state) and any(f.xcr0 == state for f in features.values())
        ]
    return said


# ---------------------------------------------------------------- the choice


@dataclass(frozen=True)
class Choice:
    """The level to use and why; `available` is best first."""

    level: str
    asked_by: str | None  # None: it is the best one
    available: tuple[str, ...]
    refused: Mapping[str, str]  # level -> why


def choose(cpu: Cpu, environ: Mapping[str, str], built: Levels) -> Choice:
    """Choose the level: the best that was built and runs here, or the one asked for.

    Parameters
    ----------
    cpu : Cpu
        The machine.
    environ : mapping
        The environment; of interest is QOPS_FORCE_ISA.
    built : Levels
        What the manifest says of the levels.

    Returns
    -------
    Choice
        The level, and why the others were refused.

    Raises
    ------
    RuntimeError
        If the environment asks for a level that doesn't exist, was not built or doesn't
        run on the machine.
    """
    refused = {}
    for level in LEVELS:
        if level.name not in built["built"]:
            why = built["skipped"].get(level.name, "it is unknown to it")
            refused[level.name] = f"this build lacks it: {why}"
        elif lacking := missing(level, cpu):
            refused[level.name] = "; ".join(lacking)
    available = tuple(level.name for level in LEVELS if level.name not in refused)
    best = Choice(available[0], None, available, refused)
    asked = environ.get(VARIABLE, "")
    if not asked.strip():
        return best
    return replace(best, level=_granted(asked, VARIABLE, best, cpu), asked_by=VARIABLE)


def _granted(asked: str, by: str, choice: Choice, cpu: Cpu) -> str:
    """Return the level that someone asks for, or raise RuntimeError."""
    level = asked.strip().lower()
    if level in choice.available:
        return level
    available = ", ".join(choice.available)
    undo = f"unset {by}, or set it to" if by == VARIABLE else "pass"
    remedy = f"{undo} one of {available}"
    if level not in _BY_NAME:
        fact = f"{by} is {_shown(asked)}, not one of {', '.join(_BY_NAME)}"
    else:
        fact = f"{by} is {level!r}, which can't be used: {choice.refused[level]}"
        if not missing(_BY_NAME[level], cpu):
            remedy += "; or build qops with a compiler that knows the level"
        elif cpu.hypervisor:
            remedy += "; or, if the host has it, give the virtual machine CPU type host"
    raise RuntimeError(
        f"{fact}\n  CPU: {cpu}\n  available: {available}\n  what to do: {remedy}"
    )


def _shown(value: str) -> str:
    """Return a string from outside, fit for a message."""
    shown = ascii(value[:40])
    return shown if len(value) <= 40 else f"{shown}... ({len(value)} characters)"


# ---------------------------------------------------------------- this process


@dataclass
class _State:
    build: Build
    cpu: Cpu
    choice: Choice
    loaded: dict[str, set[str]] = field(default_factory=dict)  # level -> its kernels
    asked: tuple[str, ...] = ()  # by blocks of use_isa; the last one counts
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def level(self) -> str:
        return (self.choice.level, *self.asked)[-1]

    @property
    def asked_by(self) -> str | None:
        return "use_isa" if self.asked else self.choice.asked_by


_state: _State | None = None


def _current() -> _State:
    if _state is None:
        raise RuntimeError("qops was not imported")
    return _state


def start() -> None:
    """Choose the level, or raise RuntimeError; the same at each import that fails."""
    global _state
    folder = Path(__file__).parent
    try:
        from ._cpu import cpuid, xgetbv

        build = json.loads((folder / "_build.json").read_text("utf-8"))
    except (ImportError, OSError, ValueError) as error:
        raise ImportError(
            f"qops in {folder} is not built ({error}); if this is the source tree, "
            "start Python in another folder, or build in place: pip install -e ."
        ) from error
    cpu = read_cpu(cpuid, xgetbv)
    choice = choose(cpu, os.environ, build["levels"])
    _state = _State(build, cpu, choice)


def activate() -> None:
    """Load the library of the level chosen."""
    _select(_current().level)


def _load(level: str) -> set[str]:
    """Load a level that the machine runs; return the names of its kernels."""
    from . import _core

    loaded = _current().loaded
    if level not in loaded:
        name = f"{__package__}._src.{level}._lib"
        try:
            _core.add_library(level, importlib.import_module(name).library)
        except ImportError as error:
            folder = Path(__file__).parent / "_src" / level
            raise ImportError(
                f"qops can't load its {level} library from {folder}: {error}; "
                "reinstall qops",
                name=name,
                path=str(folder),
            ) from error
        loaded[level] = _core.library_kernels(level)
    return loaded[level]


def _select(level: str) -> None:
    """Use a level; a kernel that it lacks comes from the next one down that has it."""
    from . import _core

    available = _current().choice.available
    needed = {f"{op}_{x}_{y}" for _, op, x, y in _core.kernels()}
    used: list[str] = []
    for lower in available[available.index(level) :]:
        if needed:
            used.append(lower)
            needed -= _load(lower)
    _core.select(tuple(used))


# ---------------------------------------------------------------- public


def version() -> str:
    """Return the version, as pyproject.toml has it."""
    return _current().build["version"]


def cpu_baseline() -> list[str]:
    """Return the levels that run on any machine of the architecture."""
    built = _current().build["levels"]["built"]
    return [name for name in built if not _BY_NAME[name].features]


def cpu_dispatch() -> list[str]:
    """Return the other levels that were built, best first."""
    built = _current().build["levels"]["built"]
    return [name for name in built if _BY_NAME[name].features]


def cpu_features() -> dict[str, bool]:
    """Return for each feature whether CPU and operating system have it."""
    cpu = _current().cpu
    return {name: cpu.has(feature) for name, feature in FEATURES.items()}


def isa() -> str:
    """Return the instruction-set level in use.

    Returns
    -------
    str
        ``"avx512"``, ``"avx2"`` or ``"scalar"``.

    See Also
    --------
    available_isas, use_isa, show_runtime

    Examples
    --------
    >>> import qops
    >>> qops.isa() in qops.available_isas()
    True
    """
    return _current().level


def available_isas() -> list[str]:
    """Return the levels that were built and that this machine runs.

    Returns
    -------
    list of str
        Best first; the last one is ``"scalar"``.

    See Also
    --------
    show_runtime : Says why the others are not available.

    Examples
    --------
    >>> import qops
    >>> qops.available_isas()[-1]
    'scalar'
    """
    return list(_current().choice.available)


class use_isa:
    """Use another instruction-set level inside a ``with`` statement.

    For tests and comparisons: results are the same bits on each level.

    Parameters
    ----------
    level : str
        The level, in any case, as for the environment variable QOPS_FORCE_ISA.

    Raises
    ------
    TypeError
        If `level` is not a string.
    RuntimeError
        If the level doesn't exist, was not built or doesn't run on this machine.

    Notes
    -----
    It is process-wide: other threads use the level too, from their next call on; calls
    in flight keep the level that they began with. The block entered last counts, and
    once all are left the level is what it was before.

    Examples
    --------
    >>> import qops
    >>> with qops.use_isa("scalar"):
    ...     qops.isa()
    'scalar'
    """

    def __init__(self, level: str) -> None:
        if not isinstance(level, str):
            raise TypeError(f"use_isa: level is {type(level).__name__}, not str")
        state = _current()
        self._level = _granted(level, "use_isa", state.choice, state.cpu)

    def __enter__(self) -> Self:
        """Switch to the level."""
        state = _current()
        with state.lock:
            _select(self._level)
            state.asked += (self._level,)
        return self

    def __exit__(self, *_: object) -> None:
        """Switch back."""
        state = _current()
        with state.lock:
            last = len(state.asked) - 1 - state.asked[::-1].index(self._level)
            state.asked = state.asked[:last] + state.asked[last + 1 :]
            _select(state.level)


def kernel_info() -> dict[str, dict[str, Any]]:
    """Return for each kernel the level in use and those that have it.

    Returns
    -------
    dict
        ``{"<op>_<in>_<out>": {"isa": level, "available": levels, best first}}``, in the
        order of the list of kernels.

    Notes
    -----
    A kernel that the level in use lacks comes from the next level down that has it.

    Examples
    --------
    >>> import qops
    >>> qops.kernel_info()["quantize_f32_u8"]["available"] == qops.available_isas()
    True
    """
    from . import _core

    state = _current()
    available = state.choice.available
    usable = available[available.index(state.level) :]
    info: dict[str, dict[str, Any]] = {}
    for _, op, x, y in _core.kernels():
        name = f"{op}_{x}_{y}"
        having = [level for level in available if name in _load(level)]
        used = next(level for level in usable if level in having)
        info[name] = {"isa": used, "available": having}
    return info


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, Any]: ...
def show_config(mode: str = "stdout") -> dict[str, Any] | None:
    """Show how qops was built: compiler, flags, levels built and left out.

    Parameters
    ----------
    mode : {"stdout", "dicts"}, optional
        Whether to print it or to return it.

    Returns
    -------
    dict or None
        With ``mode="dicts"``, what can be written as JSON.

    See Also
    --------
    show_runtime : What of it is used on this machine.

    Examples
    --------
    >>> import qops
    >>> qops.show_config(mode="dicts")["levels"]["built"][-1]
    'scalar'
    """
    build = _current().build
    if mode == "dicts":
        return deepcopy(dict(build))
    _check_mode("show_config", mode)
    levels, flags = build["levels"], build["flags"]
    print(f"qops {build['version']}, built for {build['architecture']}")
    print(f"compiler: {build['compiler']}")
    print(f"command:  {build['command']}")
    for step, arguments in flags["common"].items():
        print(f"{step + ':':<10}{' '.join(arguments)}")
    print("levels:")
    for name in levels["requested"]:
        if name in flags:
            own = " ".join(chain.from_iterable(flags[name].values()))
            print(f"  {name:<8} {own or 'no flags of its own'}")
        else:
            print(f"  {name:<8} left out: {levels['skipped'][name]}")
    return None


@overload
def show_runtime(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_runtime(mode: Literal["dicts"]) -> dict[str, Any]: ...
def show_runtime(mode: str = "stdout") -> dict[str, Any] | None:
    """Show this machine: CPU, operating system, the level in use and why.

    Parameters
    ----------
    mode : {"stdout", "dicts"}, optional
        Whether to print it or to return it.

    Returns
    -------
    dict or None
        With ``mode="dicts"``, what can be written as JSON, with the raw CPUID leaves.

    See Also
    --------
    show_config : How qops was built.

    Examples
    --------
    >>> import qops
    >>> qops.show_runtime(mode="dicts")["isa"] == qops.isa()
    True
    """
    state = _current()
    cpu, choice, features = state.cpu, state.choice, cpu_features()
    if mode == "dicts":
        return {
            "cpu": {
                "brand": cpu.brand,
                "vendor": cpu.vendor,
                "hypervisor": cpu.hypervisor,
                "xcr0": cpu.xcr0,
                "leaves": {f"{a:#x}.{b}": [*v] for (a, b), v in cpu.leaves.items()},
            },
            "features": features,
            "isa": state.level,
            "asked_by": state.asked_by,
            "available": [*choice.available],
            "refused": {**choice.refused},
        }
    _check_mode("show_runtime", mode)
    saved = [name for name, bits in REGISTERS.items() if cpu.saves(bits)]
    xcr0 = "no XGETBV" if cpu.xcr0 is None else f"XCR0 is {cpu.xcr0:#x}"
    by = f"as {state.asked_by} asks" if state.asked_by else "the best one available"
    print(f"CPU:       {cpu}")
    print(f"features:  {', '.join(f for f, has in features.items() if has) or 'none'}")
    print(
        f"lacking:   {', '.join(f for f, has in features.items() if not has) or 'none'}"
    )
    print(f"registers: the system saves {' and '.join(saved) or 'neither'} ({xcr0})")
    print(f"level:     {state.level}, {by}")
    for level in LEVELS:
        print(f"  {level.name:<8} {choice.refused.get(level.name, 'available')}")
    return None


def _check_mode(function: str, mode: str) -> None:
    if mode != "stdout":
        raise ValueError(f"{function}: mode is {mode!r}, not 'stdout' or 'dicts'")
