"""A program at smaller sizes than its own, and called so that it launches a certain kernel.

A benchmark's `main` is made for a GPU, and picks one of many kernels by a number on its command line. Its own
comparison is as good at sizes at which it ends on a CPU: the integers that `main` begins with and sizes its arrays by
are made smaller, each by a power of two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.tree import parse
from wmmadiag.csource.variables import declared
from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.types import is_integer, plain
from wmmadiag.programs.kernel_names import base_name

if TYPE_CHECKING:
    from wmmadiag.csource.variables import Variable
    from wmmadiag.subject.drafts.kernel import HostRead

_ALLOCATES = re.compile(r"\b\w*(?:[aA]lloc|vector|make_)\w*\s*(?:<[^;()]*>\s*)?\w*\s*\(([^;]*)|\bnew\s+[^;]*")
_LARGE = 128  # from here on a number is a size of rows, columns or a sequence
_FEW = range(3, 17)  # batches and heads
_SETTINGS = ((64, True), (128, False), (64, False))
"""What large sizes become at least, and whether numbers of batches and heads become two."""
_MOST_ARGUMENTS = 3


@dataclass(frozen=True, slots=True)
class Smaller:
    """A program with some of its numbers changed."""

    text: bytes  # lines stay where they were
    sizes: tuple[tuple[str, int], ...]  # the new values, by name

    def said(self) -> str:
        """In words: "at smaller sizes than its own (B = 2, T = 64)"; "" for its own."""
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes)
        return f"at smaller sizes than its own ({sizes})" if sizes else ""


def smaller(data: bytes, path: Path, *, unchanged: bool = False) -> Iterator[Smaller]:
    """A source's program at smaller sizes, those first that are most of its shape; none where it has no such sizes.

    Args:
        path: of the source: it goes by that in messages.
        unchanged: whether it comes first as it is.
    """
    head = f'#line 1 "{path.as_posix()}"\n'.encode()
    if unchanged:
        yield Smaller(head + data, ())
    numbers = list(_sizes_of_main(data))
    seen: set[tuple[tuple[str, int], ...]] = set()
    for least, few in _SETTINGS:
        changed = [(one, value, _reduced(value, least, few)) for one, value in numbers]
        sizes = tuple((one.name, new) for one, old, new in changed if new != old)
        if not sizes or sizes in seen:
            continue
        seen.add(sizes)
        edits = []
        for one, old, new in changed:
            if new != old and one.value is not None:
                edits.append(ByteEdit(one.value.start_byte, one.value.end_byte, str(new)))
        yield Smaller(head + applied(data, sorted(edits, key=lambda one: one.start)), sizes)


def _reduced(value: int, least: int, few: bool) -> int:
    if value >= _LARGE:
        while value // 2 >= least:
            value //= 2
        return value
    return 2 if few and value in _FEW and value % 2 == 0 else value


def _sizes_of_main(data: bytes) -> Iterator[tuple[Variable, int]]:
    """The integers that `main` gives numbers and that the sizes of its arrays depend on."""
    source = parse(data)
    main = next((one for one in declarations(source).functions if one.name == "main" and one.body is not None), None)
    if main is None or main.body is None:
        return
    body = source.text(main.body)
    variables = [one for node in descendants(main.body, "declaration") for one in declared(source, node)]
    wanted = {word for found in _ALLOCATES.finditer(body) for word in re.findall(r"[A-Za-z_]\w*", found[0])}
    for _ in range(len(variables)):  # `int total = B * T;`, of which arrays are made
        named = [one for one in variables if one.name in wanted and one.value is not None]
        more = {word for one in named for word in re.findall(r"[A-Za-z_]\w*", source.text(one.value))}  # type: ignore[arg-type]
        if more <= wanted:
            break
        wanted |= more
    for one in variables:
        if one.name not in wanted or one.value is None or one.pointers or one.dimensions:
            continue
        text = source.text(one.value)
        if is_integer(plain(one.type)) and re.fullmatch(r"\d+(?:\s*\*\s*\d+)*", text):
            value = 1
            for factor in text.split("*"):
                value *= int(factor)
            yield one, value


def arguments_for(kernel: str, host: HostRead) -> list[list[str]]:
    """What a program is called with, likely, that its `main` launches a kernel: the numbers that conditions ask for.

    Args:
        kernel: its plain name.
    """
    found: list[list[str]] = []
    for launch in chain.from_iterable(run.launches for run in host.runs):
        if launch.root != "main" or base_name(launch.kernel.name) != kernel:
            continue
        for condition, holds in launch.facts:
            if holds and condition.op == "==" and [one.op for one in condition.args] == ["symbol", "number"]:
                words = [str(condition.args[1].args[0])]
                if words not in found:
                    found.append(words)
    return [*found[:_MOST_ARGUMENTS], []]


def host_of(path: Path, include_paths: Sequence[Path], kernel: str) -> HostRead | None:
    """A source's host code as read; None where it cannot be."""
    from wmmadiag.subject.drafts.derive import kernel_of
    from wmmadiag.subject.open_subject import SubjectOptions

    try:
        return kernel_of(path, SubjectOptions(entry=kernel, include_paths=tuple(include_paths))).host
    except WmmadiagError:
        return None
