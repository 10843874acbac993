"""Build qops: one shared library per instruction-set level, and two Cython modules.

What is fixed stands in pyproject.toml, the levels in qops/_levels.py, the kernels in
qops/_src/kernels.def. Which levels are built is decided by the options of build_ext or
the environment, and by what the compiler can do, which is tried. A level's sources
become one translation unit; what is left out is told, with the reason.
"""

import hashlib
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import SetupError

ROOT = Path(__file__).parent
SOURCES = ROOT / "qops" / "_src"

# Two modules of the package, but not the package, which is still to be built.
sys.modules["qops_sources"] = ModuleType("qops_sources")
sys.modules["qops_sources"].__path__ = [str(ROOT / "qops")]
_levels = importlib.import_module("qops_sources._levels")
_dispatch = importlib.import_module("qops_sources._dispatch")
LEVELS, FEATURES, BASELINE = _levels.LEVELS, _levels.FEATURES, _levels.BASELINE
NAMES, LOWEST = _dispatch.NAMES, _dispatch.LOWEST

# They come after the user's CFLAGS and LDFLAGS, which must not change results: nothing
# contracted or reassociated, and no start-up code that flushes denormals to zero.
EXACT = ["-fno-fast-math", "-fno-lto"]
COMPILE_ARGS = [
    "-std=c11",
    "-O2",
    *EXACT,
    "-ffp-contract=off",
    "-fno-math-errno",  # nobody looks at errno,
    "-fno-trapping-math",  # nor at the exception flags
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
]
LINK_ARGS = [*EXACT, "-fno-unsafe-math-optimizations"]
LINKER_ARGS = ["-Wl,-z,now"]  # where the linker knows it

MODULES = ("qops._core", "qops._cpu")
DIRECTIVES = {"language_level": 3, "binding": True, "freethreading_compatible": True}
MANIFEST = "qops/_build.json"
CONFIGURATION = "_cpu_dispatch.h"


# ------------------------------------------------------------- what is asked for


class Options(NamedTuple):
    """What the user asks for: texts, and what each is called in messages."""

    baseline: str = "min"
    dispatch: str = "max"
    disable: bool = False
    require: tuple[str, ...] = ()
    baseline_name: str = "--cpu-baseline"
    dispatch_name: str = "--cpu-dispatch"


class Decision(NamedTuple):
    """The lowest level, all that are built, best first, and why others are not."""

    baseline: str
    built: tuple[str, ...]
    skipped: dict[str, str]
    notes: tuple[str, ...]


def switch(environ, variable):
    """Return whether a variable is 1; unset, empty and 0 are off."""
    value = environ.get(variable, "").strip()
    if value not in ("", "0", "1"):
        raise SetupError(f"{variable} is {_dispatch.shown(value)}, not 0 or 1")
    return value == "1"


def read_options(command, environ):
    """Return what the options of build_ext ask for, or else the environment."""
    values, names = {}, {}
    for key in "baseline", "dispatch":
        option, variable = f"--cpu-{key}", f"QOPS_CPU_{key.upper()}"
        value, names[key] = getattr(command, f"cpu_{key}"), option
        if value is None and environ.get(variable, "").strip():
            value, names[key] = environ[variable], variable
        values[key] = value
    try:
        require = _dispatch.parse_levels(
            "QOPS_REQUIRE", environ.get("QOPS_REQUIRE", "")
        )
    except ValueError as error:
        raise SetupError(str(error)) from None
    return Options(
        "min" if values["baseline"] is None else values["baseline"],
        "max" if values["dispatch"] is None else values["dispatch"],
        bool(command.disable_optimization)
        or switch(environ, "QOPS_DISABLE_OPTIMIZATION"),
        require,
        names["baseline"],
        names["dispatch"],
    )


def decide(options, why_not, native, detected):
    """Return the levels to build.

    `why_not` says of each level why the compiler can't build it, "" if it can; `native`
    and `detected` are functions that return the levels of -march=native and of CFLAGS.
    """
    supported = [level for level in NAMES if not why_not[level]]
    if options.disable:
        options = options._replace(baseline="none", dispatch="none")
    try:
        baseline, baseline_notes = _dispatch.parse_option(
            options.baseline_name, options.baseline, supported, native, detected
        )
        dispatch, dispatch_notes = _dispatch.parse_option(
            options.dispatch_name, options.dispatch, supported, native, detected
        )
    except ValueError as error:
        raise SetupError(str(error)) from None
    lowest = (*baseline, LOWEST)[0]
    above = _dispatch.and_above(lowest)
    built = tuple(level for level in above if level in {*dispatch, lowest})
    skipped = {}
    for level in NAMES:
        if level not in above:
            skipped[level] = f"it is part of the baseline {lowest}"
        elif level not in built:
            asked = f"{options.dispatch_name} is {options.dispatch!r}"
            asked = "--disable-optimization asks for it" if options.disable else asked
            skipped[level] = why_not[level] or asked
    for level in options.require:
        if level in skipped:
            raise SetupError(
                f"QOPS_REQUIRE asks for {level}, which is left out: {skipped[level]}"
            )
    return Decision(lowest, built, skipped, baseline_notes + dispatch_notes)


# ------------------------------------------------------------- sources of a level


def kernels_by_op(text):
    """Return the ops that kernels.def lists, in order."""
    rows = re.findall(r"^KERNEL\(\w+, (\w+), \w+, \w+\)", text, re.MULTILINE)
    return list(dict.fromkeys(rows))


class Plan(NamedTuple):
    """What becomes of the kernel sources."""

    sources: dict[str, dict[str, str]]  # level -> op -> file
    policies: dict[str, frozenset[str]]  # level -> of any of its sources
    orders: dict[str, list[str]]  # op -> levels, where a statement prefers an order
    kept: tuple[str, ...]  # levels below the baseline that are built all the same


def plan_sources(ops, files, decision, supported, vectorizes):
    """Return the kernel sources of each level.

    `files` has the text of each C file by its name in qops/_src, `supported` and
    `vectorizes` the levels that the compiler can build and can vectorize loops for. A
    level's own ``<level>/<op>.c`` takes the place of ``<op>.c``.
    """
    statements = {}
    for name, text in files.items():
        try:
            targets = _dispatch.parse_targets(name, text)
        except ValueError as error:
            raise SetupError(str(error)) from None
        if targets:
            statements[name] = targets
            op = op_of(name)
            if op not in ops:
                raise SetupError(f"{name}:1: kernels.def has no kernel of {op!r}")
    for op in ops:
        if f"{op}.c" not in statements:
            raise SetupError(f"{op}.c:1: no '@targets', but kernels.def lists {op!r}")

    # A level below the baseline is of use only as a whole.
    of_all = [statements[f"{op}.c"] for op in ops]
    kept = tuple(
        level
        for level in supported
        if level not in _dispatch.and_above(decision.baseline)
        and all("keep_baseline" in t.policies and level in t.levels for t in of_all)
    )
    levels = (*decision.built, *kept)
    plan = Plan({v: {} for v in levels}, dict.fromkeys(levels, frozenset()), {}, kept)
    for name in sorted(statements, key=lambda name: (name.count("/"), name)):
        named, policies = statements[name]
        named = in_build(named, decision.baseline, levels)
        if "autovec" in policies:
            able = (decision.baseline, *vectorizes)
            named = [level for level in named if level in able]
        for level in named:
            if "/" not in name or name.startswith(f"{level}/"):
                plan.sources[level][op_of(name)] = name
                plan.policies[level] |= policies
        if "keep_sort" in policies:
            plan.orders[op_of(name)] = named
    return plan


def op_of(name):
    """Return the operation of a source: its file's name."""
    return name.rpartition("/")[2].removesuffix(".c")


def in_build(named, baseline, levels):
    """Return the levels of a statement that are built.

    What is named below the baseline is there as the baseline, which every kernel has.
    """
    above = _dispatch.and_above(baseline)
    found = []
    for level in named:
        found += [level] if level in levels else []
        found += [baseline] if level not in above else []
    return list(dict.fromkeys(found))


def feature_checks(level):
    """Return C that fails to compile unless the compiler has just this level on."""
    lines = []
    for name, feature in FEATURES.items():
        if feature.macro:
            needed = name in level.features
            lines += [
                f"#{'ifndef' if needed else 'ifdef'} {feature.macro}",
                f'#error "{level.name}: the compiler has {name} '
                f'{"off" if needed else "on"}; look for -m options in CFLAGS"',
                "#endif",
            ]
    return "\n".join(lines)


def wrapper(level, checks, ops, sources):
    """Return the translation unit of a level's library."""
    return "\n".join(
        [
            f"/* The {level.name} library, written by setup.py. */",
            f'#include "{CONFIGURATION}"',
            checks,
            f'#define QOPS_LEVEL "{level.name}"',
            *(f"#define HAVE_{op} {int(op in sources)}" for op in ops),
            f'#include "{level.name}/vec.h"',
            *(f'#include "{sources[op]}"' for op in ops if op in sources),
            '#include "library.c"',
            "",
        ]
    )


def write(path, text):
    """Write a file unless it has this text, so that rebuilds stay small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


# ------------------------------------------------------------------- the compiler


class Toolchain:
    """What the C compiler and the linker can do, found by trying.

    What was tried is kept in the file `cache`, if there is one, under a key of all that
    the answer depends on: the compiler with its size and date, arguments, and source.
    """

    def __init__(self, compiler, cache=None):
        if compiler.compiler_type == "msvc":
            raise SetupError("qops needs gcc or clang; MSVC lacks what it is built on")
        self.compile, self.link = compiler.compiler_so, compiler.linker_so
        said = self._run([*self.compile, "--version"]).stdout
        self.version = (said.splitlines() or ["unknown"])[0]
        self.cache = cache
        self.known_answers = self._load()
        path = shutil.which(self.compile[0])
        stat = os.stat(path) if path else None
        self.identity = [said, path, stat and [stat.st_size, stat.st_mtime_ns]]
        # That fails as well where it builds for several architectures at once.
        x86_64 = not self.refusal("#ifndef __x86_64__\n#error\n#endif")
        self.architecture = "x86-64" if x86_64 else "other"

    def _load(self):
        try:
            return dict(json.loads(self.cache.read_text("utf-8")))
        except (AttributeError, OSError, ValueError, TypeError):
            return {}  # no cache, or none that can be read: everything is tried

    def _answer(self, question, find):
        """Return what is known, or find it and keep it."""
        text = json.dumps([self.identity, self.compile, self.link, question])
        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in self.known_answers:
            self.known_answers[key] = find()
            if self.cache:
                write(self.cache, json.dumps(self.known_answers))
        return self.known_answers[key]

    @staticmethod
    def _run(command):
        environment = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
        )

    def refusal(self, source, compile_args=(), link_args=None):
        """Return why it doesn't compile (or link, silently); "" if it does."""
        question = ["refusal", source, [*compile_args], link_args]
        return self._answer(
            question, lambda: self._refusal(source, compile_args, link_args)
        )

    def _refusal(self, source, compile_args, link_args):
        with tempfile.TemporaryDirectory() as folder:
            c, o, so = (os.path.join(folder, f"probe{x}") for x in (".c", ".o", ".so"))
            Path(c).write_text(f"{source}\nint qops_probe;\n")
            tried = self._run([*self.compile, *compile_args, "-c", c, "-o", o])
            failed = tried.returncode != 0
            if link_args is not None and not failed:
                tried = self._run([*self.link, o, *link_args, "-o", so])
                failed = tried.returncode != 0 or tried.stderr  # unknown -z: a warning
        if not failed:
            return ""
        lines = tried.stderr.strip().splitlines() or ["it doesn't say why"]
        error = next((line for line in lines if "error" in line), lines[0])
        return error.removeprefix(f"{c}:").strip()

    def known(self, link_args):
        """Return those linker options that the linker knows."""
        return [arg for arg in link_args if not self.refusal("", (), [arg])]

    def why_not(self, level):
        """Return why a level can't be built, by its probe; "" if it can."""
        if level.architecture is None:
            return ""
        if level.architecture != self.architecture:
            return f"the compiler does not build for {level.architecture} alone"
        probe = (SOURCES / level.name / "probe.c").read_text("utf-8")
        args = [*BASELINE, *level.compile_args]
        why = self.refusal(f"{feature_checks(level)}\n{probe}", args)
        return f"{self.version} refuses: {why}" if why else ""

    def vectorizes(self, level):
        """Tell whether plain loops become vector instructions at a level."""
        if self.architecture != "x86-64":
            return False
        loop = (
            "void f(int *y, const int *x, int n);\n"
            "void f(int *y, const int *x, int n) "
            "{ for (int i = 0; i < n; i++) y[i] += x[i]; }\n"
        )
        args = [*BASELINE, *level.compile_args, "-O3"]
        return "paddd" in self._output(loop, [*args, "-S"])

    def macros(self, compile_args, without=""):
        """Return what the compiler defines, with the user's flags but for a pattern."""
        command = [
            arg for arg in self.compile if not without or not re.match(without, arg)
        ]
        text = self._output("", [*compile_args, "-dM", "-E"], command)
        ignored = r"#define __(?:tune|code_model)_"
        return {line for line in text.splitlines() if not re.match(ignored, line)}

    def _output(self, source, args, command=None):
        """Return what the compiler writes to its standard output."""
        command = [*(command or self.compile), *args]

        def find():
            with tempfile.TemporaryDirectory() as folder:
                c = os.path.join(folder, "probe.c")
                Path(c).write_text(source)
                return self._run([*command, c, "-o", "-"]).stdout

        return self._answer(["output", source, command], find)

    def levels_of(self, compile_args=()):
        """Return the levels whose features are all on with CFLAGS and these flags."""
        text = "\n".join(self.macros(compile_args))
        on = set(re.findall(r"#define (\w+)", text))
        return [
            level.name
            for level in LEVELS
            if level.architecture in (None, self.architecture)
            and {FEATURES[name].macro for name in level.features} <= {*on, None}
        ]

    def native(self):
        """Return the levels of -march=native."""
        why = self.refusal("", ["-march=native"])
        if why:
            raise ValueError(f"native: {self.version} refuses -march=native: {why}")
        return self.levels_of(["-march=native"])

    def architecture_flag(self):
        """Return the last of the user's flags that choose a CPU, None if none does."""
        flags = [arg for arg in self.compile if re.match(ARCHITECTURE_FLAG, arg)]
        return flags[-1] if flags else None

    def check_user_flags(self, level):
        """Refuse flags that make another level of a level, or another arithmetic."""
        args = [*BASELINE, *level.compile_args]
        ours = self.macros(args, without=MACHINE_FLAG)
        changed = sorted(ours ^ self.macros(args))
        if changed:
            flags = [a for a in self.compile if re.match(MACHINE_FLAG, a)]
            raise SetupError(
                f"CFLAGS has {' '.join(flags)}, which changes what level {level.name} "
                f"is ({changed[0].removeprefix('#define ')}); take it out, and choose "
                "the CPU by --cpu-baseline or QOPS_CPU_BASELINE"
            )


MACHINE_FLAG = r"-m(?!32$|64$)"
ARCHITECTURE_FLAG = r"-(?:march|mcpu)=|-xHost$"


class BuildExt(build_ext):
    """Build the levels that are asked for, and write down what was built."""

    user_options = [  # noqa: RUF012 - as setuptools has it
        *build_ext.user_options,
        (
            "cpu-baseline=",
            None,
            "the CPU that all code may use: min, avx2, native, ...",
        ),
        ("cpu-dispatch=", None, "the levels built beyond it: max, none, avx2, ..."),
        ("disable-optimization", None, "build the plain C level alone"),
    ]
    boolean_options = [*build_ext.boolean_options, "disable-optimization"]  # noqa: RUF012

    def initialize_options(self):
        """Set the options to what means that they are not given."""
        super().initialize_options()
        self.cpu_baseline = self.cpu_dispatch = self.disable_optimization = None

    def finalize_options(self):
        """Compile on every core unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or True

    def build_extensions(self):
        """Decide what to build, build it, and write the manifest."""
        options = read_options(self, os.environ)
        toolchain = Toolchain(self.compiler, Path(self.build_temp, "qops_probes.json"))
        x86_64 = toolchain.architecture == "x86-64"
        flag = toolchain.architecture_flag()
        if flag:
            print(f"qops: CFLAGS has {flag}: 'detect' is added to the baseline")
            options = options._replace(baseline=f"{options.baseline} detect")
        decision = decide(
            options,
            {level.name: toolchain.why_not(level) for level in LEVELS},
            toolchain.native,
            toolchain.levels_of,
        )
        plan = plan_sources(
            kernels_by_op((SOURCES / "kernels.def").read_text()),
            {
                path.relative_to(SOURCES).as_posix(): path.read_text()
                for path in SOURCES.rglob("*.c")
                if path.name != "probe.c"
            },
            decision,
            [level.name for level in LEVELS if not toolchain.why_not(level)],
            [level.name for level in LEVELS if toolchain.vectorizes(level)],
        )
        levels = [level for level in LEVELS if level.name in plan.sources]
        for level in LEVELS:
            if level in levels:
                if x86_64:
                    toolchain.check_user_flags(level)
            else:
                self.leave_out(level)
        self.say(options, decision, plan)

        flags = self.flags(toolchain, plan, levels)
        built = {
            "version": self.distribution.get_version(),
            "compiler": toolchain.version,
            "command": shlex.join(toolchain.compile),
            "architecture": toolchain.architecture,
            "requested": {
                "baseline": options.baseline,
                "dispatch": options.dispatch,
                "disable_optimization": options.disable,
            },
            "levels": {
                "baseline": decision.baseline,
                "requested": [*NAMES],
                "built": [level.name for level in levels],
                "skipped": {
                    level: why
                    for level, why in decision.skipped.items()
                    if level not in plan.kept
                },
                "needs": {level.name: [*level.features] for level in levels},
            },
            "features": {name: [*FEATURES[name][:5]] for name in levels[0].features},
            "flags": flags,
            "sources": plan.sources,
            "orders": plan.orders,
        }
        # In each source written here, so that another compiler rebuilds everything.
        stamp = f"{toolchain.version}: {built['command']}\n   {flags}"
        self.write_configuration(built, stamp)
        self.set_up_libraries(plan, flags, x86_64)
        self.set_up_modules(flags, x86_64, decision.baseline)
        super().build_extensions()
        built["sizes"] = {
            level.name: os.path.getsize(self.get_ext_fullpath(library_name(level)))
            for level in levels
        }
        write(self.manifest[0], json.dumps(built, indent=2) + "\n")

    def say(self, options, decision, plan):
        """Print what is built and what is not, and why."""
        for note in decision.notes:
            print(f"qops: {note}")
        for level, why in decision.skipped.items():
            if level not in plan.kept:
                print(f"qops: level {level} is left out: {why}")
        above = [level for level in plan.sources if level != decision.baseline]
        print(
            f"qops: CPU baseline {decision.baseline} (asked for: {options.baseline}), "
            f"CPU dispatch {' '.join(above) or 'none'} (asked for: {options.dispatch})",
            flush=True,
        )

    def flags(self, toolchain, plan, levels):
        """Return the arguments of compiler and linker, common and of each level."""
        debug = self.debug or "-g" in os.environ.get("CFLAGS", "").split()
        werror = ["-Werror"] if switch(os.environ, "QOPS_WERROR") else []
        flags = {
            "common": {
                "compile": [
                    *COMPILE_ARGS,
                    *werror,
                    *([] if debug else ["-g0"]),
                    *(BASELINE if toolchain.architecture == "x86-64" else ()),
                ],
                "link": [*LINK_ARGS, *toolchain.known(LINKER_ARGS)],
            }
        }
        for level in levels:
            policies = plan.policies[level.name]
            flags[level.name] = {
                "compile": [
                    *level.compile_args,
                    *(["-O3"] if "maxopt" in policies and not self.debug else []),
                    *(["-Werror"] if "werror" in policies else []),
                ],
                "link": toolchain.known(level.link_args),
            }
        return flags

    def leave_out(self, level):
        """Drop a level, and what an earlier build left of it."""
        extension = self.library_of(level)
        self.extensions.remove(extension)
        Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)

    def library_of(self, level):
        """Return the extension of a level."""
        return next(e for e in self.extensions if e.name == library_name(level))

    def write_configuration(self, built, stamp):
        """Write the header that says what this build has."""
        levels = built["levels"]
        dispatch = [v for v in levels["built"] if v != levels["baseline"]]
        lines = [
            f"/* {CONFIGURATION} - what this build has; written by setup.py.",
            f" * {stamp} */",
            f'#define QOPS_VERSION "{built["version"]}"',
            f'#define QOPS_CPU_BASELINE "{levels["baseline"]}"',
            f'#define QOPS_CPU_DISPATCH "{" ".join(dispatch)}"',
            *(f"#define QOPS_HAVE_{v.upper()} 1" for v in levels["built"]),
            "",
        ]
        write(Path(self.build_temp, CONFIGURATION), "\n".join(lines))

    def set_up_libraries(self, plan, flags, x86_64):
        """Write each level's translation unit."""
        ops = {op: None for sources in plan.sources.values() for op in sources}
        for level in LEVELS:
            if level.name in plan.sources:
                unit = Path(self.build_temp, f"qops_{level.name}.c")
                checks = feature_checks(level) if x86_64 else ""
                sources = plan.sources[level.name]
                write(unit, wrapper(level, checks, ops, sources))
                extension = self.library_of(level)
                extension.sources = [str(unit)]
                self.add(extension, flags, "common", level.name)

    def set_up_modules(self, flags, x86_64, baseline):
        """Turn Cython into C in the build folder.

        _cpu runs before anything is known of the CPU, so it is compiled for any; the
        other is what the baseline is for.
        """
        import numpy
        from Cython.Build import cythonize

        modules = [e for e in self.extensions if e.name in MODULES]
        units = cythonize(
            modules,
            build_dir=self.build_temp,
            quiet=True,
            compiler_directives=DIRECTIVES,
        )
        for module, unit in zip(modules, units, strict=True):
            name = LOWEST if module.name == "qops._cpu" else baseline
            level = next(level for level in LEVELS if level.name == name)
            header = Path(self.build_temp, f"{module.name}_checks.h")
            checks = feature_checks(level) if x86_64 else ""
            write(header, f'#include "{CONFIGURATION}"\n{checks}\n')
            module.sources = unit.sources
            module.include_dirs = [*module.include_dirs, numpy.get_include()]
            module.depends = [*module.depends, str(header)]
            self.add(module, flags, "common", *([] if name == LOWEST else [name]))
            module.extra_compile_args += ["-O3", "-include", str(header)]

    def add(self, extension, flags, *parts):
        """Give an extension its flags, and the header of the configuration."""
        configuration = Path(self.build_temp, CONFIGURATION)
        extension.depends = [*extension.depends, str(configuration)]
        extension.include_dirs = [*extension.include_dirs, self.build_temp]
        for step in "compile", "link":
            args = [arg for part in parts for arg in flags[part][step]]
            setattr(extension, f"extra_{step}_args", args)

    @property
    def manifest(self):
        """Where the manifest is built, and where it goes in an in-place build."""
        return Path(self.build_lib, MANIFEST), ROOT / MANIFEST

    def copy_extensions_to_source(self):
        """Copy the manifest to the source tree too, and remove levels left out."""
        super().copy_extensions_to_source()
        built = {extension.name for extension in self.extensions}
        for name in map(library_name, LEVELS):
            if name not in built:
                (ROOT / self.get_ext_filename(name)).unlink(missing_ok=True)
        shutil.copyfile(*self.manifest)

    def get_outputs(self):
        """Count the manifest as built."""
        return [*super().get_outputs(), str(self.manifest[0])]

    def get_output_mapping(self):
        """Count the manifest as built in place."""
        mapping = super().get_output_mapping()
        return {**mapping, str(self.manifest[0]): MANIFEST} if self.inplace else mapping


def library_name(level):
    """Return the name of a level's extension module."""
    return f"qops._src.{level.name}._lib"


def extensions():
    """Return the extension modules; what compiles longest comes first."""
    shared = sorted(
        path.relative_to(ROOT).as_posix()
        for path in SOURCES.rglob("*")
        if path.suffix in {".c", ".h", ".def"}
    )
    headers = [path for path in shared if not path.endswith(".c")]
    modules = [
        Extension(
            name,
            [f"{name.replace('.', '/')}.pyx"],
            include_dirs=["qops/_src"],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
            depends=headers,
        )
        for name in MODULES
    ]
    libraries = [
        Extension(
            library_name(level),
            [],  # build_ext writes it
            include_dirs=["qops/_src"],
            libraries=["m"] if os.name == "posix" else [],  # fmodf
            depends=shared,
        )
        for level in LEVELS
    ]
    return modules + libraries


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
