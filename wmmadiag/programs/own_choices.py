"""Where a program chooses between a word for right and one for wrong: `ok ? "PASSED" : "FAILED"`, an if and its else.

What it prints of such a choice is its own comparison's verdict, as an exit status is; a word for wrong alone may be
about anything, a file that cannot be opened, say.
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource.nodes import Node, descendants, field
from wmmadiag.csource.tree import Source, parse
from wmmadiag.programs.own_words import meant_by, words_of, wrong_lines


def chooses_wrong(output: str, text: str) -> bool:
    """Whether a line that a program printed is the wrong one of such a choice in its source."""
    lines = wrong_lines(output)
    return bool(lines) and any(words <= line for words in _wrong_ones(parse(text)) for line in lines)


def _wrong_ones(source: Source) -> Iterator[frozenset[str]]:
    """The words of the literals for wrong of all choices."""
    for one in descendants(source.root, "conditional_expression", "if_statement"):
        arms = [_literals(source, field(one, name)) for name in ("consequence", "alternative")]
        meant = [meant_by(arm) for arm in arms]
        if {*meant} == {"right", "wrong"}:
            arm = arms[meant.index("wrong")]
            yield from (words_of(each) for each in arm if meant_by([each]) == "wrong")


def _literals(source: Source, node: Node | None) -> list[str]:
    """The texts of the literals under a node."""
    if node is None:
        return []
    return [source.text(one).strip('"') for one in descendants(node, "string_literal")]
