"""Words for levels: build options, @targets statements, QOPS_DISABLE_ISA.

Pure functions, for setup.py and for `_loader`. What is wrong is a ValueError that says
where and which word.
"""

import re
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from ._levels import BETWEEN, ELSEWHERE, GROUPS, LEVELS

NAMES = tuple(level.name for level in LEVELS)  # best first
LOWEST = NAMES[-1]
POLICIES = ("maxopt", "werror", "autovec", "keep_baseline", "keep_sort")
SPECIAL = ("none", "min", "max", "native", "detect")


def best_first(levels: Iterable[str]) -> tuple[str, ...]:
    """Return distinct levels in the order of the list."""
    found = set(levels)
    return tuple(name for name in NAMES if name in found)


def and_above(level: str) -> tuple[str, ...]:
    """Return a level and those that build on it."""
    return NAMES[: NAMES.index(level) + 1]


def shown(value: str) -> str:
    """Return a string from outside, fit for a message."""
    quoted = ascii(value[:40])
    return quoted if len(value) <= 40 else f"{quoted}... ({len(value)} characters)"


def unknown(value: str, known: Iterable[str], others: Iterable[str] = ()) -> str:
    """Say that a word is not one of those known, and which one may have been meant."""
    known = [*known]
    for words in known, others:  # rather one of ours than NumPy's name of it
        lower = {word.lower(): word for word in words}
        if near := get_close_matches(value[:40].lower(), lower, 1):
            break
    meant = f" (did you mean {lower[near[0]]!r}?)" if near else ""
    return f"{shown(value)}{meant}, not one of {', '.join(known)}"


# ---------------------------------------------------------------- build options


class Parsed(NamedTuple):
    """The levels that an option asks for, best first, and what was skipped and why."""

    levels: tuple[str, ...]
    notes: tuple[str, ...]


class _Name(NamedTuple):
    adds: str | None  # the level that it stands for
    removes: tuple[str, ...]  # that level and those above, or just those above
    note: str  # why it adds nothing


def _names() -> dict[str, _Name]:
    """Return what each name of a level, ours or NumPy's, means; in upper case."""
    known = {}
    for level in LEVELS:
        for name in (level.name.upper(), *level.names):
            known[name] = _Name(level.name, and_above(level.name), "")
    for level_below, names in BETWEEN.items():
        above = and_above(level_below)[:-1]
        where = (
            f"between {level_below} and {above[-1]}"
            if above
            else f"above {level_below}"
        )
        note = f"qops has none {where}"
        known |= {name: _Name(None, above, note) for name in names}
    note = "it means nothing here"
    return known | {name: _Name(None, (), note) for name in ELSEWHERE}


_KNOWN = _names()


def parse_option(
    option: str,
    text: str,
    supported: Collection[str],
    native: Callable[[], Collection[str]],
    detected: Callable[[], Collection[str]],
) -> Parsed:
    """Return the levels that a build option asks for, in the words of NumPy's options.

    Parameters
    ----------
    option : str
        What the option is called, for messages.
    text : str
        Words separated by blanks or commas, in any case; ``+`` and ``-`` hold for the
        word after them.
    supported : collection of str
        The levels that the compiler can build.
    native, detected : callable
        Return the levels that ``-march=native`` and the user's flags turn on.

    Raises
    ------
    ValueError
        If a word is unknown or an operator has none.
    """
    found: set[str] = set()
    notes: list[str] = []
    meanings: dict[str, Callable[[], Collection[str]]] = {
        "NONE": lambda: (),
        "MIN": lambda: (LOWEST,),
        "MAX": lambda: supported,
        "NATIVE": cache(native),
        "DETECT": cache(detected),
    }
    operator = ""
    for word in re.findall(r"[+-]|[^\s,+-]+", text):
        if word in ("+", "-"):
            if operator:
                raise ValueError(f"{option}: {word!r} follows {operator!r}, not a word")
            operator = word
            continue
        upper = word.upper() if word.isascii() else ""
        if upper in meanings:
            levels = set(meanings[upper]())
            if operator == "-":
                found -= set(and_above(best_first(levels)[-1])) if levels else set()
            else:
                found |= levels & set(supported)
                notes += [
                    f"{option}: no level for {word}: {level} can't be built"
                    for level in best_first(levels - set(supported))
                ]
        elif upper in _KNOWN:
            adds, removes, note = _KNOWN[upper]
            if note:
                notes.append(f"{option}: no level for {word}: {note}")
            if operator == "-":
                found -= set(removes)
            elif adds in supported:
                found.add(str(adds))
            elif adds:
                notes.append(f"{option}: no level for {word}: {adds} can't be built")
        elif word[0] in "#$":
            kind = "group" if word[0] == "#" else "policy"
            raise ValueError(
                f"{option}: {shown(word)} is a {kind}, for @targets statements only"
            )
        else:
            said = unknown(word, (*SPECIAL, *reversed(NAMES)), _KNOWN)
            raise ValueError(f"{option}: unknown word {said}, or NumPy's names of them")
        operator = ""
    if operator:
        raise ValueError(f"{option}: {operator!r} has no word after it")
    return Parsed(best_first(found), tuple(notes))


def parse_levels(option: str, text: str) -> tuple[str, ...]:
    """Return a list of levels, separated by blanks or commas; ValueError if unknown."""
    words = re.findall(r"[^\s,]+", text)
    for word in words:
        if not word.isascii() or word.lower() not in NAMES:
            raise ValueError(f"{option}: unknown level {unknown(word, NAMES)}")
    return best_first(word.lower() for word in words)


# ---------------------------------------------------------------- @targets


class Targets(NamedTuple):
    """A statement: levels, in the order of preference, and policies."""

    levels: tuple[str, ...]
    policies: frozenset[str]


def parse_targets(name: str, text: str) -> Targets | None:
    """Return what a kernel source says of its levels; None if it has no statement.

    Parameters
    ----------
    name : str
        The file, below qops/_src.
    text : str
        What is in it. It opens with a comment such as
        ``/*@targets $maxopt scalar avx2 avx512 */``.

    Raises
    ------
    ValueError
        If the statement is malformed, with file, line and word.
    """
    found = [match.start() for match in re.finditer("@targets", text, re.IGNORECASE)]
    if not found:
        return None

    def error(position: int, fact: str) -> ValueError:
        line = 1 + text.count("\n", 0, position)
        return ValueError(f"{name}:{line}: {fact}")

    if not re.match(r"/\*@targets(?![\w$#@+-])", text):
        raise error(
            found[0], "'@targets' does not open the file as '/*@targets ... */'"
        )
    if len(found) > 1:
        raise error(found[1], "'@targets' is there a second time")
    start, end = len("/*@targets"), text.find("*/", len("/*@targets"))
    if end < 0:
        raise error(0, "'/*@targets' has no '*/'")

    levels: list[str] = []
    policies: set[str] = set()
    for match in re.compile(r"[()]|[^\s*,()]+").finditer(text, start, end):
        try:
            named, policy = _target(match[0])
            if again := [level for level in named if level in levels]:
                raise ValueError(f"{shown(match[0])} names {again[0]!r} again")
        except ValueError as why:
            raise error(match.start(), f"@targets: {why}") from None
        levels += named
        policies |= policy
    folder = name.rpartition("/")[0]
    if not levels:
        raise error(0, "'@targets' names no level")
    if folder and levels != [folder]:
        raise error(0, f"@targets names {' '.join(levels)!r}, not {folder!r} alone")
    if not folder and not {"baseline", LOWEST} & set(levels):
        raise error(
            0,
            f"@targets names {' '.join(levels)!r}, neither {LOWEST!r} nor 'baseline', "
            "where every kernel has to be",
        )
    if "keep_sort" not in policies:
        levels.sort(key=(*NAMES, "baseline").index)
    return Targets(tuple(levels), frozenset(policies))


def _target(word: str) -> tuple[list[str], set[str]]:
    """Return the levels and the policies of one word of a statement."""
    lower = word.lower() if word.isascii() else word
    if word[0] in "()":
        raise ValueError(f"{word!r}: a level is one word, there are no sets of them")
    if word[0] in "+-":
        raise ValueError(f"{shown(word)}: '+' and '-' are for build options only")
    if word[0] == "$":
        if lower[1:] not in POLICIES:
            known = [f"${policy}" for policy in POLICIES]
            raise ValueError(f"unknown policy {unknown(word, known)}")
        return [], {lower[1:]} | ({"maxopt"} if lower == "$autovec" else set())
    if word[0] == "#":
        if lower[1:] not in GROUPS:
            known = [f"#{group}" for group in GROUPS]
            raise ValueError(f"unknown group {unknown(word, known)}")
        return [*GROUPS[lower[1:]]], set()
    if lower not in (*NAMES, "baseline"):
        known = [*reversed(NAMES), "baseline"]
        raise ValueError(f"unknown level {unknown(word, known)}")
    return [lower], set()
