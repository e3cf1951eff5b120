"""Where a statement can be inserted in CUDA source: between statements, not inside one, and not under a bare `if`."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from wmmadiag.compile.languages import is_c_family
from wmmadiag.csource.nodes import LOOPS, Node, descendants, field
from wmmadiag.csource.tree import Source, parse

_HOLDERS = frozenset({"compound_statement", "case_statement", "preproc_if", "preproc_ifdef", "preproc_else"})
_NO_STATEMENTS = frozenset({"comment", "case_statement", "preproc_else", "preproc_elif"})


@dataclass(frozen=True, slots=True)
class SourceLoop:
    """A loop with braces: the line of its keyword, and that of its closing brace."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SourceBranch:
    """What an `if`, or its `else`, holds: the line of the `if`, and the first and last one of what is under it."""

    owner: int
    first: int
    last: int
    after_return: bool  # whether threads may have left the function before it


@dataclass(frozen=True, slots=True)
class Structure:
    """Where statements of a source begin."""

    lines: int  # how many it has
    # line before which a statement can be inserted → (open #if, braces) that it stands in
    starts: Mapping[int, tuple[int, int]]
    loops: Sequence[SourceLoop]  # those with braces, inner ones first
    branches: Sequence[SourceBranch]  # inner ones first

    def between(self, after: int, before: int) -> int:
        """The line before which a statement stands after line `after` and before line `before`, or 0.

        The least nested such place, and the last of these: outside of loops and branches that hold only one of them.
        """
        places = [line for line in self.starts if 0 < after < line <= before <= self.lines]
        least = min((self.starts[line] for line in places), default=None)
        return max((line for line in places if self.starts[line] == least), default=0)

    def branches_of(self, *lines: int) -> tuple[SourceBranch, ...]:
        """The branches that hold all of these lines, the innermost first."""
        return tuple(one for one in self.branches if one.first <= min(lines) and max(lines) <= one.last)

    def on_two_sides(self, one: int, other: int) -> bool:
        """Whether two lines stand on the two sides of one `if`."""
        mine, others = ({branch.owner for branch in self.branches_of(line)} for line in (one, other))
        return mine & others != {branch.owner for branch in self.branches_of(one, other)}

    def after(self, line: int) -> int:
        """The first line behind `line` before which a statement can be inserted, or 0."""
        return min((one for one in self.starts if one > line), default=0)

    def loop_end(self, lines: Sequence[int]) -> int:
        """The closing line of the innermost loop that holds all of these lines, where nothing else stands; or 0."""
        for loop in self.loops:
            if loop.first <= min(lines) and max(lines) <= loop.last:
                return loop.last if loop.last in self.starts else 0
        return 0


@lru_cache(maxsize=16)
def structure(text: str) -> Structure:
    """What stands where in a source."""
    source = parse(text)
    directives = [one for one in source.code.spans if one.kind == "directive"]
    words = [(one.start, source.data[one.start : one.end].lstrip(b" \t#%:")) for one in directives]
    pragmas = [start for start, word in words if word.startswith(b"pragma")]
    nesting = _nesting(words)
    starts: dict[int, tuple[int, int]] = {}
    loops, branches = [], list(_branches(source))
    for node, depth in _statements(source.root):
        if node.type in LOOPS:
            body = field(node, "body")
            if body is not None and body.type == "compound_statement":
                loops.append(SourceLoop(source.line_at(node.start_byte), source.line_at(body.end_byte - 1)))
        start = _first_pragma(source, pragmas, node.start_byte)
        begin = source.lines[source.line_at(start) - 1]
        if not source.code.code[begin:start].strip():
            opened = nesting[bisect.bisect_right(nesting, (start, 0)) - 1][1]
            starts.setdefault(source.line_at(start), (opened, depth))
    return Structure(len(source.lines), starts, sorted(loops, key=_length), sorted(branches, key=_length))


def _length(one: SourceLoop | SourceBranch) -> int:
    return one.last - one.first


def _branches(source: Source) -> Iterator[SourceBranch]:
    """The branches of every `if` in a function."""
    for function in descendants(source.root, "function_definition"):
        returns = [one.start_byte for one in descendants(function, "return_statement")]
        for node in descendants(function, "if_statement"):
            for side in (field(node, "consequence"), field(node, "alternative")):
                if side is not None:
                    owner, first, last = (
                        source.line_at(at) for at in (node.start_byte, side.start_byte, side.end_byte - 1)
                    )
                    yield SourceBranch(owner, first, last, any(one < node.start_byte for one in returns))


def _statements(root: Node) -> Iterator[tuple[Node, int]]:
    """What stands directly in braces, closing ones included, and how many braces are open there."""
    open_ones = [(root, 0)]
    while open_ones:
        holder, depth = open_ones.pop()
        inside = depth + (holder.type == "compound_statement")
        is_holder = inside > 0 and holder.type in _HOLDERS
        for child in holder.children:
            if is_holder and (child.type == "}" or _is_statement(holder, child)):
                yield child, inside
            open_ones.append((child, inside))


def _is_statement(holder: Node, child: Node) -> bool:
    is_label = holder.type == "case_statement" and child == field(holder, "value")
    is_condition = child == field(holder, "condition") or child == field(holder, "name")
    return child.is_named and not is_label and not is_condition and child.type not in _NO_STATEMENTS


def _first_pragma(source: Source, pragmas: Sequence[int], start: int) -> int:
    """Where the pragmas begin that stand directly before a statement; its own start where there are none."""
    at = bisect.bisect_left(pragmas, start)
    while at > 0 and not source.code.code[pragmas[at - 1] : start].strip():
        at, start = at - 1, pragmas[at - 1]
        start += len(source.data[start:]) - len(source.data[start:].lstrip(b" \t"))
    return start


def _nesting(directives: Sequence[tuple[int, bytes]]) -> list[tuple[int, int]]:
    """(offset, how many conditionals are open from there on)."""
    found, opened = [(-1, 0)], 0
    for start, word in directives:
        opened += word.startswith(b"if") - word.startswith(b"endif")
        found.append((start, opened))
    return found


def structure_of(path: str) -> Structure | None:
    """The structure of a CUDA source, or None when it cannot be read or is in another language."""
    if not is_c_family(path):
        return None
    try:
        return structure(Path(path).read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return None
