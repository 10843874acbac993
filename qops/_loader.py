"""Which instruction-set level is used: CPUID against what was built.

The choice is a pure function of the CPU, the environment and the build. Nothing of a
level is loaded before it is made, and NumPy is not either: `start` decides or refuses,
`activate` loads.
"""

import importlib
import json
import mmap
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib import metadata, util
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, overload

from ._dispatch import NAMES, and_above, parse_levels, unknown
from ._levels import FEATURES, LEVELS, NUMPY_BASELINES, REGISTERS, Feature

FORCE, DISABLE = "QOPS_FORCE_ISA", "QOPS_DISABLE_ISA"
_REGISTERS = ("eax", "ebx", "ecx", "edx")
_HYPERVISOR = Feature(1, 0, "ecx", 31, 0, None)
_BRAND = ((0x80000002, 0), (0x80000003, 0), (0x80000004, 0))

Leaf = tuple[int, int, int, int]


class Levels(TypedDict):
    """What the manifest says of the levels; all lists are best first."""

    baseline: str  # what all code but `_cpu` may use
    requested: list[str]
    built: list[str]
    skipped: dict[str, str]  # and why
    needs: dict[str, list[str]]  # level -> features


class Build(TypedDict):
    """The manifest that setup.py writes."""

    version: str
    compiler: str
    command: str
    architecture: str
    requested: dict[str, Any]
    levels: Levels
    features: dict[str, list[Any]]  # where CPUID shows what the levels need
    flags: dict[str, dict[str, list[str]]]
    sources: dict[str, dict[str, str]]  # level -> op -> file
    orders: dict[str, list[str]]  # op -> levels, where it prefers another order
    sizes: dict[str, int]  # level -> bytes


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

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it, with the names for a reader."""
        return {
            "brand": self.brand,
            "vendor": self.vendor,
            "hypervisor": self.hypervisor,
            "xcr0": self.xcr0,
            "leaves": {f"{a:#x}.{b}": [*v] for (a, b), v in self.leaves.items()},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the CPU of a bug report: what `as_dict` gave on another machine."""
        leaves = {}
        for name, (eax, ebx, ecx, edx) in document["leaves"].items():
            leaf, subleaf = name.split(".")
            leaves[int(leaf, 16), int(subleaf)] = (eax, ebx, ecx, edx)
        return cls(leaves, document["xcr0"])

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


def missing(needs: Iterable[str], cpu: Cpu) -> str:
    """Say what a machine lacks: the CPU, then the operating system.

    Parameters
    ----------
    needs : iterable of str
        Names of `FEATURES`.
    cpu : Cpu
        The machine.

    Returns
    -------
    str
        Empty if it lacks nothing.
    """
    features = {name: FEATURES[name] for name in needs}
    if features and (1, 0) not in cpu.leaves:
        return "the CPU is not x86-64"
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
    return "; ".join(said)


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
        The environment; of interest are QOPS_FORCE_ISA and QOPS_DISABLE_ISA.
    built : Levels
        What the manifest says of the levels.

    Returns
    -------
    Choice
        The level, and why the others were refused.

    Raises
    ------
    RuntimeError
        If the machine doesn't run the build's baseline, or the environment asks for a
        level that doesn't exist, was not built, is disabled or doesn't run here.
    """
    refused = {}
    for name in NAMES:
        if name not in built["built"]:
            why = built["skipped"].get(name, "it is unknown to it")
            refused[name] = f"this build lacks it: {why}"
        elif lacking := missing(built["needs"][name], cpu):
            refused[name] = lacking
    baseline = built["baseline"]
    if baseline in refused:
        raise _refusal(
            f"qops was built for baseline {baseline}, which this machine can't run: "
            f"{refused[baseline]}",
            cpu,
            (),
            ["build qops for any CPU: QOPS_CPU_BASELINE=min pip install ."],
            built["needs"][baseline],
        )
    best = _without_disabled(Choice("", None, (), refused), cpu, environ, baseline)
    asked = environ.get(FORCE, "")
    if not asked.strip():
        return best
    return replace(best, level=_granted(asked, FORCE, best, cpu), asked_by=FORCE)


def _without_disabled(
    choice: Choice, cpu: Cpu, environ: Mapping[str, str], baseline: str
) -> Choice:
    """Return the choice of the best level that QOPS_DISABLE_ISA leaves."""
    refused = {**choice.refused}
    runnable = tuple(name for name in NAMES if name not in refused)
    others = [name for name in runnable if name != baseline]
    undo = [f"unset {DISABLE}, or name some of {', '.join(others) or 'no level'}"]
    try:
        named = parse_levels(DISABLE, environ.get(DISABLE, ""))
    except ValueError as error:
        raise _refusal(str(error), cpu, runnable, undo) from None
    for disabled in named:
        for name in and_above(disabled):
            if name == baseline:
                fact = f"{DISABLE} names {disabled}, without which qops can't run"
                raise _refusal(fact, cpu, runnable, undo)
            above = "" if name in named else f" {disabled}, which it builds on"
            refused.setdefault(name, f"{DISABLE} disables{above or ' it'}")
    available = tuple(name for name in runnable if name not in refused)
    return Choice(available[0], None, available, refused)


def _granted(asked: str, by: str, choice: Choice, cpu: Cpu) -> str:
    """Return the level that someone asks for, or raise RuntimeError."""
    level = asked.strip().lower()
    if level in choice.available:
        return level
    undo = f"unset {by}, or set it to" if by == FORCE else "pass"
    remedies = [f"{undo} one of {', '.join(choice.available)}"]
    if level not in NAMES:
        fact = f"{by} is {unknown(asked, NAMES)}"
        needs: tuple[str, ...] = ()
    else:
        fact = f"{by} is {level!r}, which can't be used: {choice.refused[level]}"
        needs = next(row.features for row in LEVELS if row.name == level)
        if "this build lacks it" in choice.refused[level] and not missing(needs, cpu):
            remedies.append("build qops with the level: qops.show_config() says more")
    raise _refusal(fact, cpu, choice.available, remedies, needs)


def _refusal(
    fact: str,
    cpu: Cpu,
    available: tuple[str, ...],
    remedies: list[str],
    needs: Iterable[str] = (),
) -> RuntimeError:
    """Return the error that says all: the fact, the machine, and what to do."""
    needs = tuple(needs)
    lines = [fact]
    if lacking := missing(needs, cpu):
        states = {FEATURES[name].xcr0 for name in needs}
        saved = [name for name, state in REGISTERS.items() if state in states]
        saving = f"; {saved[-1]} registers saved" if saved else ""
        lines.append(f"needs: {', '.join(needs)}{saving}")
        if "VirtualApple" in cpu.brand:  # as Rosetta calls it
            remedies = [*remedies, "use a Python for arm64, not one under Rosetta"]
        elif cpu.hypervisor:
            version = "v4" if "AVX512F" in needs else "v3" if "AVX2" in needs else "v2"
            remedies = [
                *remedies,
                "if the host has it, give the virtual machine the CPU type host or "
                f"x86-64-{version}",
            ]
        elif "operating system" in lacking and "the CPU lacks" not in lacking:
            remedies = [*remedies, "let the operating system save the registers"]
    lines += [
        f"CPU: {cpu}",
        f"available: {', '.join(available) or 'none'}",
        f"what to do: {'; or '.join(remedies)}",
    ]
    return RuntimeError("\n  ".join(lines))


def numpy_baseline(library: Path) -> list[str]:
    """Return the CPU features that a NumPy was built for, by NumPy's names.

    Its own check comes too late on some CPUs: the library dies of an illegal
    instruction while it is loaded. So its message is looked up in the file.
    """
    with library.open("rb") as file:
        if not library.stat().st_size:
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = content.find(b"NumPy was built with baseline optimizations: \n(")
            found = re.match(rb"[^(]*\(([A-Z0-9_ ]*)\)", content[at : at + 500])
    return found[1].decode().split() if at >= 0 and found else []


def check_numpy(cpu: Cpu) -> None:
    """Raise RuntimeError if this machine lacks what NumPy was built for."""
    if "numpy" in sys.modules or all(map(cpu.has, FEATURES.values())):
        return
    spec = util.find_spec("numpy")
    if spec is None or spec.origin is None or (1, 0) not in cpu.leaves:
        return  # importing it says what is wrong
    for library in Path(spec.origin).parent.glob("_core/_multiarray_umath*.so"):
        names = numpy_baseline(library)
        needs = dict.fromkeys(
            chain.from_iterable(NUMPY_BASELINES.get(name, ()) for name in names)
        )
        if lacking := missing(needs, cpu):
            raise _refusal(
                f"NumPy {metadata.version('numpy')} was built for baseline "
                f"{' '.join(names)}, which this machine can't run: {lacking}",
                cpu,
                (),
                [
                    "install a NumPy for this CPU: pip install 'numpy<2.4', or build "
                    "one: pip install --no-binary numpy "
                    "-Csetup-args=-Dcpu-baseline=none numpy"
                ],
                needs,
            )


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
    def level_asked(self) -> str | None:
        return self.level if self.asked_by else None

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
    check_numpy(cpu)
    _state = _State(build, cpu, choice)


def activate() -> None:
    """Load the library of the level chosen."""
    from . import _core

    build = _current().build
    if _core.version() != build["version"]:
        raise ImportError(
            f"qops._core is of qops {_core.version()}, the manifest of "
            f"{build['version']}; reinstall qops"
        )
    _use_level_asked_for()


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


def _levels_of_kernels(asked: str | None) -> dict[str, str]:
    """Return the level that each kernel comes from, in the order of the list.

    A kernel that the level lacks comes from the next one down that has it. Where nobody
    asks for a level, an order that the kernel's source prefers is followed.
    """
    from . import _core

    state = _current()
    available = state.choice.available
    down = available[available.index(asked or state.choice.level) :]
    found = {}
    for _, op, x, y in _core.kernels():
        kernel = f"{op}_{x}_{y}"
        preferred = [] if asked else state.build["orders"].get(op, [])
        ordered = dict.fromkeys([v for v in preferred if v in available] + [*down])
        having = (level for level in ordered if kernel in _load(level))
        found[kernel] = next(having, "")
        if not found[kernel]:
            raise RuntimeError(f"{kernel}: none of {', '.join(ordered)} has it")
    return found


def _use_level_asked_for() -> None:
    from . import _core

    state = _current()
    _core.select(tuple(_levels_of_kernels(state.level_asked).values()))


# ---------------------------------------------------------------- public


def version() -> str:
    """Return the version, as pyproject.toml has it."""
    return _current().build["version"]


def cpu_baseline() -> list[str]:
    """Return the level that a machine has to run for qops to be imported."""
    return [_current().build["levels"]["baseline"]]


def cpu_dispatch() -> list[str]:
    """Return the other levels that were built, best first."""
    levels = _current().build["levels"]
    return [name for name in levels["built"] if name != levels["baseline"]]


def cpu_features() -> dict[str, bool]:
    """Return for each feature whether CPU and operating system have it."""
    cpu = _current().cpu
    return {name: cpu.has(feature) for name, feature in FEATURES.items()}


def isa() -> str:
    """Return the instruction-set level in use.

    Returns
    -------
    str
        ``"avx512_icl"``, ``"avx512"``, ``"avx2"`` or ``"scalar"``.

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
        Best first; the last one is the baseline, ``"scalar"`` unless built otherwise.

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
            before = state.asked
            state.asked += (self._level,)
            try:
                _use_level_asked_for()
            except BaseException:  # a library that can't be loaded: nothing changes
                state.asked = before
                raise
        return self

    def __exit__(self, *_: object) -> None:
        """Switch back."""
        state = _current()
        with state.lock:
            last = len(state.asked) - 1 - state.asked[::-1].index(self._level)
            state.asked = state.asked[:last] + state.asked[last + 1 :]
            _use_level_asked_for()


def kernel_info(name: str | None = None) -> dict[str, dict[str, Any]]:
    """Return for each kernel the level in use and those that have it.

    Parameters
    ----------
    name : str, optional
        A regular expression; only kernels in whose name it is found are returned.

    Returns
    -------
    dict
        ``{"<op>_<in>_<out>": {"isa": level, "available": levels, best first}}``, in the
        order of the list of kernels.

    Raises
    ------
    TypeError
        If `name` is not a string.
    ValueError
        If `name` is not a regular expression.

    Notes
    -----
    A kernel that the level in use lacks comes from the next level down that has it.

    Examples
    --------
    >>> import qops
    >>> info = qops.kernel_info("^quantize_f32")
    >>> info["quantize_f32_u8"]["available"][-1]
    'scalar'
    """
    if not isinstance(name, str | None):
        raise TypeError(f"kernel_info: name is {type(name).__name__}, not str")
    try:
        pattern = re.compile(name or "")
    except re.error as error:
        raise ValueError(
            f"kernel_info: name is {name!r}, not a regular expression: {error}"
        ) from None
    state = _current()
    return {
        kernel: {
            "isa": level,
            "available": [v for v in state.choice.available if kernel in _load(v)],
        }
        for kernel, level in _levels_of_kernels(state.level_asked).items()
        if pattern.search(kernel)
    }


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
    levels, flags, asked = build["levels"], build["flags"], build["requested"]
    print(f"qops {build['version']}, built for {build['architecture']}")
    print(f"compiler: {build['compiler']}")
    print(f"command:  {build['command']}")
    for step, arguments in flags["common"].items():
        print(f"{step + ':':<10}{' '.join(arguments)}")
    dispatch = " ".join(cpu_dispatch()) or "none"
    optimized = " (--disable-optimization)" if asked["disable_optimization"] else ""
    print(f"baseline: {levels['baseline']}, asked for: {asked['baseline']}{optimized}")
    print(f"dispatch: {dispatch}, asked for: {asked['dispatch']}{optimized}")
    print("levels:")
    for name in levels["requested"]:
        if name in flags:
            own = " ".join(chain.from_iterable(flags[name].values()))
            print(f"  {name:<8} {build['sizes'][name]:,} bytes; {own}".rstrip("; "))
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
            "cpu": cpu.as_dict(),
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
