"""Build qops: one shared library per instruction-set level, and two Cython modules.

What is fixed stands in pyproject.toml, the levels in qops/_levels.py, the kernels in
qops/_src/kernels.def. Here a level's sources become one translation unit, and what the
compiler can't do is left out, with a line that says why.
"""

import json
import os
import re
import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import SetupError

ROOT = Path(__file__).parent
SOURCES = ROOT / "qops" / "_src"
DATA = runpy.run_path(str(ROOT / "qops" / "_levels.py"))
LEVELS, FEATURES, BASELINE = DATA["LEVELS"], DATA["FEATURES"], DATA["BASELINE"]

# They come after the user's CFLAGS and LDFLAGS, which must not change results: nothing
# contracted or reassociated, and no start-up code that flushes denormals to zero.
EXACT = ["-O3", "-fno-fast-math", "-fno-lto"]
COMPILE_ARGS = [
    "-std=c11",
    *EXACT,
    "-ffp-contract=off",
    "-fno-math-errno",  # nobody looks at errno,
    "-fno-trapping-math",  # nor at the exception flags
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    *(["-Werror"] if os.environ.get("QOPS_WERROR") == "1" else []),
]
LINK_ARGS = [*EXACT, "-fno-unsafe-math-optimizations"]
LINKER_ARGS = ["-Wl,-z,now"]  # where the linker knows it

MODULES = ("qops._core", "qops._cpu")
DIRECTIVES = {"language_level": 3, "binding": True, "freethreading_compatible": True}
MANIFEST = "qops/_build.json"


# ------------------------------------------------------------- sources of a level


def kernels_by_op(text):
    """Return the ops that kernels.def lists, in order."""
    rows = re.findall(r"^KERNEL\(\w+, (\w+), \w+, \w+\)", text, re.MULTILINE)
    return list(dict.fromkeys(rows))


def targets(name, text, levels):
    """Return the levels that a source names in its first comment, None if it has none.

    The comment is ``/*@targets scalar avx2 avx512 */``, the first thing in the file.
    """
    if "@targets" not in text:
        return None
    statement = re.match(r"/\*@targets((?: \w+)*) \*/\n", text)
    if not statement or text.count("@targets") > 1:
        line = next(line for line in text.splitlines()[::-1] if "@targets" in line)
        raise SetupError(
            f"{name}: malformed {line.strip()!r}, not '/*@targets <level> ... */' "
            "once, on the first line"
        )
    named = statement[1].split()
    for word in named:
        if word not in levels:
            raise SetupError(
                f"{name}: @targets names {word!r}, not one of {', '.join(levels)}"
            )
        if named.count(word) > 1:
            raise SetupError(f"{name}: @targets names {word!r} twice")
    return named


def sources_by_level(ops, files, levels):
    """Return the kernel sources of each level: {level: {op: name}}.

    `files` has the text of each C file by its name in qops/_src. A level's own
    ``<level>/<op>.c`` takes the place of ``<op>.c``.
    """
    found = {level: {} for level in levels}
    for name in sorted(files, key=lambda name: (name.count("/"), name)):
        named = targets(name, files[name], levels)
        if named is None:
            continue
        *folder, file = name.split("/")
        op = file.removesuffix(".c")
        if op not in ops:
            raise SetupError(f"{name}: kernels.def has no kernel of {op!r}")
        if folder and named != folder:
            raise SetupError(
                f"{name}: @targets names {' '.join(named)!r}, not {folder[0]!r} alone"
            )
        if not folder and "scalar" not in named:
            raise SetupError(f"{name}: @targets lacks 'scalar', which has every kernel")
        for level in named:
            found[level][op] = name
    for op in ops:
        if op not in found["scalar"]:
            raise SetupError(f"kernels.def: {op!r} has no source {op}.c with @targets")
    return found


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


def wrapper(level, checks, ops, sources, stamp):
    """Return the translation unit of a level's library."""
    return "\n".join(
        [
            f"/* The {level.name} library, written by setup.py. {stamp} */",
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
    """What the C compiler and the linker can do, found by trying."""

    def __init__(self, compiler):
        if compiler.compiler_type == "msvc":
            raise SetupError("qops needs gcc or clang; MSVC lacks what it is built on")
        self.compile, self.link = compiler.compiler_so, compiler.linker_so
        said = self._run([*self.compile, "--version"]).stdout
        self.version = (said.splitlines() or ["unknown"])[0]
        # That fails as well where it builds for several architectures at once.
        x86_64 = not self.refusal("#ifndef __x86_64__\n#error\n#endif")
        self.architecture = "x86-64" if x86_64 else "other"

    @staticmethod
    def _run(command):
        environment = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=environment,
        )

    def refusal(self, source, compile_args=(), link_args=None):
        """Return why it doesn't compile (or link, silently); "" if it does."""
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
        """Return why a level can't be built; "" if it can."""
        if level.architecture is None:
            return ""
        if level.architecture != self.architecture:
            return f"the compiler does not build for {level.architecture} alone"
        program = (
            f"{feature_checks(level)}\n#include <immintrin.h>\n"
            f"int f(void);\nint f(void) {{ return {level.intrinsic}; }}"
        )
        why = self.refusal(program, [*BASELINE, *level.compile_args])
        return f"{self.version} refuses: {why}" if why else ""


class BuildExt(build_ext):
    """Build the levels that the compiler can, and write down what was built."""

    def finalize_options(self):
        """Compile on every core unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or True

    def build_extensions(self):
        """Decide what to build, build it, and write the manifest."""
        toolchain = Toolchain(self.compiler)
        x86_64 = toolchain.architecture == "x86-64"
        debug = self.debug or "-g" in os.environ.get("CFLAGS", "").split()
        common = {
            "compile": [
                *COMPILE_ARGS,
                *([] if debug else ["-g0"]),
                *(BASELINE if x86_64 else ()),
            ],
            "link": [*LINK_ARGS, *toolchain.known(LINKER_ARGS)],
        }
        flags, skipped = {"common": common}, {}
        for level in LEVELS:
            why = toolchain.why_not(level)
            if why:
                skipped[level.name] = why
                print(f"qops: level {level.name} is left out: {why}", flush=True)
                self.leave_out(level)
            else:
                flags[level.name] = {
                    "compile": [*level.compile_args],
                    "link": toolchain.known(level.link_args),
                }
        built = {
            "version": self.distribution.get_version(),
            "compiler": toolchain.version,
            "command": " ".join(toolchain.compile),
            "architecture": toolchain.architecture,
            "levels": {
                "requested": [level.name for level in LEVELS],
                "built": [level.name for level in LEVELS if level.name in flags],
                "skipped": skipped,
            },
            "flags": flags,
        }
        # In each source written here, so that another compiler rebuilds everything.
        stamp = f"{toolchain.version}: {built['command']}\n   {flags}"
        self.set_up_libraries(stamp, flags, x86_64)
        self.set_up_modules(stamp, flags, x86_64)
        super().build_extensions()
        write(self.manifest[0], json.dumps(built, indent=2) + "\n")

    def leave_out(self, level):
        """Drop a level, and what an earlier build left of it."""
        extension = self.library_of(level)
        self.extensions.remove(extension)
        Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)

    def library_of(self, level):
        """Return the extension of a level."""
        return next(e for e in self.extensions if e.name == library_name(level))

    def set_up_libraries(self, stamp, flags, x86_64):
        """Write each level's translation unit."""
        files = {
            path.relative_to(SOURCES).as_posix(): path.read_text()
            for path in SOURCES.rglob("*.c")
        }
        ops = kernels_by_op((SOURCES / "kernels.def").read_text())
        sources = sources_by_level(ops, files, [level.name for level in LEVELS])
        for level in LEVELS:
            if level.name in flags:
                unit = Path(self.build_temp, f"qops_{level.name}.c")
                checks = feature_checks(level) if x86_64 else ""
                write(unit, wrapper(level, checks, ops, sources[level.name], stamp))
                extension = self.library_of(level)
                extension.sources = [str(unit)]
                for step in ("compile", "link"):
                    args = flags["common"][step] + flags[level.name][step]
                    setattr(extension, f"extra_{step}_args", args)

    def set_up_modules(self, stamp, flags, x86_64):
        """Turn Cython into C in the build folder, to be compiled for the baseline."""
        import numpy
        from Cython.Build import cythonize

        checks = feature_checks(LEVELS[-1]) if x86_64 else ""
        header = Path(self.build_temp, "qops_baseline.h")
        write(header, f"/* Written by setup.py. {stamp} */\n{checks}\n")
        modules = [e for e in self.extensions if e.name in MODULES]
        units = cythonize(
            modules,
            build_dir=self.build_temp,
            quiet=True,
            compiler_directives=DIRECTIVES,
        )
        common = flags["common"]
        for module, unit in zip(modules, units, strict=True):
            module.sources = unit.sources
            module.include_dirs = [*module.include_dirs, numpy.get_include()]
            module.depends = [*module.depends, str(header)]
            module.extra_compile_args = [*common["compile"], "-include", str(header)]
            module.extra_link_args = common["link"]

    @property
    def manifest(self):
        """Where the manifest is built, and where it goes in an in-place build."""
        return Path(self.build_lib, MANIFEST), ROOT / MANIFEST

    def copy_extensions_to_source(self):
        """Copy the manifest to the package in the source tree as well."""
        super().copy_extensions_to_source()
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
            depends=shared,
        )
        for level in LEVELS
    ]
    return modules + libraries


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
