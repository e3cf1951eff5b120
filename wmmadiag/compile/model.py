"""What a compilation yields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import CompileError, ConfigurationError, did_you_mean
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel of the compiled module."""

    name: str  # mangled, as in the PTX
    demangled: str  # with template arguments, without parameters ("ns::attn<64, 64>")
    base_name: str  # the identifier alone ("attn")
    name_expression: str | None = None  # the expression that it was instantiated by, or None
    place: Place | None = None  # of its definition in the source, or None


@dataclass(frozen=True, slots=True)
class CompileNote:
    """Something about the compilation that the user should know, though it is no error.

    `kind` is a stable id:
        "deleted-wmma-store", "deleted-wmma-load": the call works on a thread-local array and is not in the code;
        "unused-wmma-call": the call is not in the code because nothing uses its result;
        "stub-header": a header that was not found was taken as empty;
        "blanked-code": code that was taken for host code only after the compiler refused it;
        "skipped-instantiation": a template kernel that host code launches, but that could not be instantiated.
    """

    kind: str
    message: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled source."""

    ptx: str  # the PTX text, for every kernel of the source
    log: str  # warnings of the compiler, with the user's lines
    entries: tuple[Entry, ...]  # the kernels, in the order of the PTX
    templates: tuple[str, ...]  # names of kernel templates of the source that were not instantiated
    includes: tuple[str, ...]  # the files that were read besides the source, toolkit and stub headers apart
    options: CompileOptions  # as they were used
    compiler: str  # which compiler made it, with its version ("NVRTC 13.5", "PTX file")
    source: str  # the path as the user gave it
    source_hash: str  # SHA-256 of everything that the result depends on, hexadecimal
    notes: tuple[CompileNote, ...] = ()  # what the user should know about it
    cached: bool = False  # whether it came from the cache
    seconds: float = 0.0  # wall time of the call that made it
    text: str = field(default="", repr=False)  # the source's own text, as it was given

    def entry(self, name: str | None = None) -> Entry:
        """The kernel called `name`: plain, qualified, mangled, or a name expression. None: the only kernel.

        Of a PTX file a part of the name will do that no other kernel's has.

        Raises:
            ConfigurationError: no such kernel, or several; the message lists what there is.
        """
        where = Place(self.source, 0)
        if name is None:
            if len(self.entries) == 1:
                return self.entries[0]
            what = "PTX" if is_ptx(self.source) else "source"
            wanted = f"the {what} has {'several kernels' if self.entries else 'no kernel'}"
            raise ConfigurationError(f"{self.source}: {wanted}", detail=self._listing(), hint=self._hint(None))
        found = find_entries(self.entries, name) or self._part(name)
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigurationError(
                f"{where.file}: kernel {name!r} is ambiguous",
                detail="\n".join(f"  {entry.demangled}  ({entry.name})" for entry in found),
                hint="give template arguments, or the mangled name in brackets",
            )
        raise ConfigurationError(f"{where.file}: no kernel {name!r}", detail=self._listing(), hint=self._hint(name))

    def _part(self, name: str) -> list[Entry]:
        """Kernels of a PTX file that have this in their name: nobody types what compilers make of it."""
        wanted = _normal(name)
        if not is_ptx(self.source) or not wanted:
            return []
        return [one for one in self.entries if wanted in one.name or wanted in _normal(one.demangled)]

    def _listing(self) -> str:
        lines = [f"  {entry.demangled}" for entry in self.entries]
        lines += [f"  {name}<…>  (a template, not instantiated)" for name in self.templates]
        return "kernels:\n" + "\n".join(lines) if lines else ""

    def _hint(self, name: str | None) -> str:
        base = _normal(name).split("<")[0].split("::")[-1] if name else ""
        for template in self.templates:
            if name is None or template.split("::")[-1] == base:
                return f'{template} is a template: name an instantiation, such as name_expressions=["{template}<…>"]'
        known = {entry.base_name for entry in self.entries} | {entry.demangled for entry in self.entries}
        known |= set(self.templates)
        if self.entries:
            return did_you_mean(name or "", sorted(known), "name one of the kernels above")
        none = "the source must define a __global__ function that the given macros do not switch off"
        return did_you_mean(name or "", sorted(known), none)


def find_entries(entries: Sequence[Entry], name: str) -> list[Entry]:
    """The entries that `name` can mean, by the most specific reading that matches any."""
    wanted = _normal(name)
    readings = (
        lambda e: e.name == name,
        lambda e: e.name_expression is not None and _normal(e.name_expression) == wanted,
        lambda e: _normal(e.demangled) == wanted,
        lambda e: _normal(e.demangled).split("<")[0] == wanted,
        lambda e: e.base_name == wanted,
        # a template instantiation named without its namespace
        lambda e: _normal(e.demangled).endswith("::" + wanted),
        lambda e: e.name_expression is not None and _normal(e.name_expression).endswith("::" + wanted),
        # types in its template arguments named without theirs
        lambda e: e.name_expression is not None and _unscoped(e.name_expression) == _unscoped(name),
    )
    for reading in readings:
        found = [entry for entry in entries if reading(entry)]
        if found:
            return found
    return []


def _normal(name: str) -> str:
    """Name without blanks and leading `::` or `&`, so that "a< 1,2 >" equals "a<1, 2>"."""
    return "".join(name.split()).lstrip(":&")


def _unscoped(name: str) -> str:
    return re.sub(r"\w+::", "", _normal(name))


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel needs on the chip, as ptxas reports it.

    Registers per thread; spills, stack and local memory in bytes per thread; static shared memory in bytes per
    block; constant memory in bytes (all banks); `barriers` hardware barriers per block.
    """

    entry: str
    arch: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    constant: int
    barriers: int
    local: int = 0


class PtxasError(CompileError):
    """ptxas refused the PTX.

    Attributes:
        kind: "too-much-shared", "too-much-local", "too-many-registers", "instruction", or "other".
        entry: mangled name of the kernel that it complains about, "" if none.
        used, limit: bytes (or registers) asked for and allowed, where the message says so, else None.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        entry: str = "",
        used: int | None = None,
        limit: int | None = None,
        place: Place | None = None,
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, place=place, detail=detail, hint=hint)
        self.kind = kind
        self.entry = entry
        self.used = used
        self.limit = limit


def source_name(path: Path | str) -> str:
    """The path as the user gave it, with forward slashes: what the compiler is told and messages show."""
    return Path(path).as_posix()
