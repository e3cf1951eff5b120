"""The symbols of a program's host half: kernels, the shadows of variables, and which source each is of."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from wmmadiag.compile.names import demangle, parameter_types, qualified_name
from wmmadiag.programs.macro_kernels import MARKER

_MACRO_LIKE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or variable of the host half."""

    name: str  # mangled
    # start, size: offset in the shared object, and bytes
    start: int
    size: int
    unit: int | None = None  # number of the source that alone knows it by this name; None: it is the whole program's


def is_kernel(symbol: str, scopes: Mapping[str, Collection[str]]) -> bool:
    """Whether a symbol is of a kernel: of its name, and in a scope that is its own, as far as the sources tell.

    They do not tell of inline namespaces, nor of those that macros open or name.
    """
    inside, _, base = qualified_name(symbol).rpartition("::")
    base = base or base_of(symbol)
    parts = inside.split("::")

    def fits(scope: str) -> bool:
        rest = iter(parts)
        told = (one for one in scope.split("::") if one and not _MACRO_LIKE.fullmatch(one))
        return all(one in rest for one in told)

    return any(fits(scope) for scope in scopes.get(base, ()))


def without_namesakes(
    kernels: Sequence[Symbol], scopes: Mapping[str, Collection[str]], counts: Mapping[str, Collection[int]]
) -> list[Symbol]:
    """Symbols without functions of the host that are called as a kernel is, in a scope of their own.

    A kernel without a scope fits every scope, since a macro may have opened one. Where one of its name is in the scope
    that the sources tell, another one is a kernel only if it takes as many arguments as one of that name does.

    Args:
        kernels: what `is_kernel` holds for.
        scopes: by a kernel's plain name, the scopes in which the sources define one.
        counts: by the same, the numbers of their parameters.
    """

    def exact(symbol: Symbol) -> bool:
        inside, _, base = qualified_name(symbol.name).rpartition("::")
        return inside in scopes.get(base or base_of(symbol.name), ())

    told = {base_of(one.name) for one in kernels if exact(one)}
    return [
        one
        for one in kernels
        if (base := base_of(one.name)) not in told or exact(one) or _parameters_of(one.name) in counts.get(base, ())
    ]


def _parameters_of(symbol: str) -> int:
    """How many parameters a function has."""
    text = parameter_types(symbol) or "void"
    depths = accumulate((letter in "([{<") - (letter in ")>]}") for letter in text)
    commas = sum(letter == "," and depth == 0 for letter, depth in zip(text, depths, strict=True))
    return 0 if text == "void" else commas + 1


def of_macro(name: str) -> str:
    """The kernel of a macro that a symbol marks: "_ZZ3addPfiE26wmmadiag…" → "_Z3addPfi"; "" for any other."""
    found = re.fullmatch(rf"_ZZ(\w+)E\d+{MARKER}(?:_\d+)?", name)
    return f"_Z{found[1]}" if found else ""


def base_of(name: str) -> str:
    return demangle(name).partition("<")[0].rpartition("::")[2]


def symbols_of(library: Path, units: int) -> Iterator[tuple[str, Symbol]]:
    """(kind as nm writes it, symbol) of a program's library.

    A table of symbols holds those of internal linkage behind the name of the file that they were compiled from, file
    by file as they were linked, and the others at its end.
    """
    command = ["nm", "-aSp", "--defined-only", str(library)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = {object_source(number): number for number in range(units)}
    unit: int | None = None
    for line in listed.stdout.splitlines():
        words = line.split()
        if words[1:2] == ["a"]:
            unit = expected.get(words[-1])
        elif len(words) == 4:
            kind, own = words[2], words[2].islower() and words[2] not in "uvw"
            yield kind, Symbol(words[3], int(words[0], 16), int(words[1], 16), unit if own else None)


def called_by(library: Path) -> frozenset[str]:
    """The functions of other libraries that a program's library calls, without their versions."""
    command = ["nm", "-D", "--undefined-only", str(library)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    names = (line.split()[-1] for line in listed.stdout.splitlines() if line.strip())
    return frozenset(re.sub(r"(?:_v\d+)?(?:@.*)?$", "", name) for name in names)


def object_source(number: int) -> str:
    """The name of the file that a source is written to for the compiler."""
    return f"wmmadiag_unit_{number}.cu"
