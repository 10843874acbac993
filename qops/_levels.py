"""The instruction-set levels, what they are called and what they need: data only.

setup.py reads this file to build the levels, `_loader` to choose among them. Levels are
psABI levels: what a compiler may use under ``-march=x86-64-v3`` is what the CPU is
asked for.
"""

from typing import NamedTuple


class Feature(NamedTuple):
    """A CPU feature: where CPUID shows it, what it needs of the system, its macro."""

    leaf: int
    subleaf: int
    register: str
    bit: int
    xcr0: int  # the register state that the operating system must save
    macro: str | None  # defined by a compiler that may use the feature


class Level(NamedTuple):
    """An instruction-set level: a folder of qops/_src, a library, a word."""

    name: str
    architecture: str | None  # None: any
    compile_args: tuple[str, ...]
    link_args: tuple[str, ...]  # where the linker knows them
    features: tuple[str, ...]
    names: tuple[str, ...]  # what NumPy calls it, or a part of it, in build options


# Bits of XCR0: the register state that the operating system saves.
YMM = 0x06  # SSE and AVX
ZMM = 0xE6  # these, the opmasks, and what is new in the ZMM registers
REGISTERS = {"YMM": YMM, "ZMM": ZMM}

FEATURES = {
    "SSE3": Feature(1, 0, "ecx", 0, 0, "__SSE3__"),
    "SSSE3": Feature(1, 0, "ecx", 9, 0, "__SSSE3__"),
    "CX16": Feature(1, 0, "ecx", 13, 0, "__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16"),
    "SSE4.1": Feature(1, 0, "ecx", 19, 0, "__SSE4_1__"),
    "SSE4.2": Feature(1, 0, "ecx", 20, 0, "__SSE4_2__"),
    "POPCNT": Feature(1, 0, "ecx", 23, 0, "__POPCNT__"),
    "LAHF": Feature(0x80000001, 0, "ecx", 0, 0, "__LAHF_SAHF__"),
    "FMA": Feature(1, 0, "ecx", 12, YMM, "__FMA__"),
    "MOVBE": Feature(1, 0, "ecx", 22, 0, "__MOVBE__"),
    "OSXSAVE": Feature(1, 0, "ecx", 27, 0, None),  # set by the operating system
    "AVX": Feature(1, 0, "ecx", 28, YMM, "__AVX__"),
    "F16C": Feature(1, 0, "ecx", 29, YMM, "__F16C__"),
    "BMI1": Feature(7, 0, "ebx", 3, 0, "__BMI__"),
    "AVX2": Feature(7, 0, "ebx", 5, YMM, "__AVX2__"),
    "BMI2": Feature(7, 0, "ebx", 8, 0, "__BMI2__"),
    "LZCNT": Feature(0x80000001, 0, "ecx", 5, 0, "__LZCNT__"),
    "AVX512F": Feature(7, 0, "ebx", 16, ZMM, "__AVX512F__"),
    "AVX512DQ": Feature(7, 0, "ebx", 17, ZMM, "__AVX512DQ__"),
    "AVX512CD": Feature(7, 0, "ebx", 28, ZMM, "__AVX512CD__"),
    "AVX512BW": Feature(7, 0, "ebx", 30, ZMM, "__AVX512BW__"),
    "AVX512VL": Feature(7, 0, "ebx", 31, ZMM, "__AVX512VL__"),
    "AVX512IFMA": Feature(7, 0, "ebx", 21, ZMM, "__AVX512IFMA__"),
    "AVX512VBMI": Feature(7, 0, "ecx", 1, ZMM, "__AVX512VBMI__"),
    "AVX512VBMI2": Feature(7, 0, "ecx", 6, ZMM, "__AVX512VBMI2__"),
    "AVX512VNNI": Feature(7, 0, "ecx", 11, ZMM, "__AVX512VNNI__"),
    "AVX512BITALG": Feature(7, 0, "ecx", 12, ZMM, "__AVX512BITALG__"),
    "AVX512VPOPCNTDQ": Feature(7, 0, "ecx", 14, ZMM, "__AVX512VPOPCNTDQ__"),
}

_V2 = ("SSE3", "SSSE3", "CX16", "SSE4.1", "SSE4.2", "POPCNT", "LAHF")
_V3 = (
    *_V2,
    *("FMA", "MOVBE", "OSXSAVE", "AVX", "F16C", "BMI1", "AVX2", "BMI2", "LZCNT"),
)
_V4 = (*_V3, "AVX512F", "AVX512DQ", "AVX512CD", "AVX512BW", "AVX512VL")
_ICL = (
    *(*_V4, "AVX512IFMA", "AVX512VBMI", "AVX512VBMI2", "AVX512VNNI"),
    *("AVX512BITALG", "AVX512VPOPCNTDQ"),
)

# On x86-64 for everything; a level's own arguments come after them and win.
BASELINE = ("-march=x86-64", "-mtune=generic")

# Best first. The last one is plain C and runs anywhere.
LEVELS = (
    Level(
        "avx512_icl",
        "x86-64",
        (
            *("-march=x86-64-v4", "-mavx512ifma", "-mavx512vbmi", "-mavx512vbmi2"),
            *("-mavx512vnni", "-mavx512bitalg", "-mavx512vpopcntdq"),
        ),
        ("-Wl,-z,x86-64-v4",),
        _ICL,
        ("AVX512_ICL",),
    ),
    Level(
        "avx512",
        "x86-64",
        ("-march=x86-64-v4",),
        ("-Wl,-z,x86-64-v4",),
        _V4,
        ("X86_V4", "AVX512F", "AVX512CD", "AVX512_SKX"),
    ),
    Level(
        "avx2",
        "x86-64",
        ("-march=x86-64-v3",),
        ("-Wl,-z,x86-64-v3",),
        _V3,
        ("X86_V3", "AVX", "AVX2", "F16C", "FMA3", "BMI", "BMI2", "LZCNT", "MOVBE"),
    ),
    Level("scalar", None, (), (), (), ("SSE", "SSE2")),
)

# Sets of levels that @targets statements name as #all.
GROUPS = {"all": ("scalar", "avx2", "avx512")}

# NumPy's other names: without a level here, but with a place among the levels, between
# the one that they lie above and the next.
BETWEEN = {
    "scalar": ("SSE3", "SSSE3", "SSE41", "POPCNT", "SSE42", "X86_V2"),
    "avx512": ("AVX512_CLX", "AVX512_CNL"),
    "avx512_icl": ("AVX512_SPR",),
}
# And those that have none: of CPUs that came to an end, and of other architectures.
ELSEWHERE = (
    *("XOP", "FMA4", "AVX512_KNL", "AVX512_KNM"),
    *("NEON", "NEON_FP16", "NEON_VFPV4", "ASIMD", "ASIMDHP", "ASIMDDP", "ASIMDFHM"),
    *("SVE", "VSX", "VSX2", "VSX3", "VSX4", "VX", "VXE", "VXE2", "RVV", "LSX"),
)

# What NumPy's names ask of a CPU beyond x86-64, where a NumPy was built for them.
NUMPY_BASELINES = {
    "SSE": (),
    "SSE2": (),
    "SSE3": ("SSE3",),
    "SSSE3": ("SSSE3",),
    "SSE41": ("SSE4.1",),
    "POPCNT": ("POPCNT",),
    "SSE42": ("SSE4.2",),
    "X86_V2": _V2,
    "AVX": ("OSXSAVE", "AVX"),
    "F16C": ("F16C",),
    "FMA3": ("FMA",),
    "AVX2": ("AVX2",),
    "X86_V3": _V3,
    "AVX512F": ("AVX512F",),
    "AVX512CD": ("AVX512CD",),
    "AVX512_SKX": ("AVX512DQ", "AVX512BW", "AVX512VL"),
    "X86_V4": _V4,
}
