"""What a fragment is declared to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wmmadiag.csource.nodes import descendants, field
from wmmadiag.diagnose.operators.cuda_names import ENUMERATORS
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

if TYPE_CHECKING:
    from tree_sitter import Node

_ROLES = {"row_major": "layout", "col_major": "layout", "matrix_a": "use", "matrix_b": "use"}
_TYPES = ("float", "half")


@operator
def fragment(program: Program) -> Iterator[Draft]:
    """Another layout, use or element type of a fragment; of all fragments that one declaration or alias is for."""
    listed = [(one, part) for one in declarations(program) for part in arguments(one)]
    types = dict.fromkeys([*_TYPES, *(one.unit.source.words(part[4]) for one, part in listed if len(part) > 4)])
    for one, parts in listed:
        for number, part in enumerate(parts):
            text = one.unit.source.words(part)
            scope, _, plain = text.rpartition("::")
            for family in ENUMERATORS:
                for other in family if plain in family else ():
                    if other != plain:
                        new = f"{scope}::{other}" if scope else other
                        yield _changed(one, part, new, _ROLES.get(plain, "template argument"))
            for other in types if number == 4 else ():
                if other != text:
                    yield _changed(one, part, other, "element type")
    yield from _by_alias(program)


def _by_alias(program: Program) -> Iterator[Draft]:
    """Another alias of a fragment, one of whose template arguments is another one."""
    known = program.reader.types.aliases_of("fragment")
    for one in program.statements if len(known) > 1 else ():
        node = field(one.node, "type") if one.kind == "declaration" else None
        held = known.get(one.unit.source.words(node).rpartition("::")[2]) if node is not None else None
        if node is None or held is None:
            continue
        for name, other in known.items():
            differing = [a for a, b in zip(held.arguments, other.arguments, strict=False) if a != b]
            longer = abs(len(held.arguments) - len(other.arguments))
            if len(differing) + longer == 1:
                role = _ROLES.get(differing[0].rpartition("::")[2], "element type") if differing else "layout"
                yield _changed(one, node, name, role)


def _changed(one: Statement, part: Node, text: str, role: str) -> Draft:
    edit = one.unit.edit(part.start_byte, part.end_byte, text)
    return Draft((edit,), "static", role, f"{text} for {one.unit.source.words(part)}")


def declarations(program: Program) -> Iterator[Statement]:
    """What declares variables, or types."""
    for one in program.statements:
        if one.kind == "declaration" or one.node.type in ("alias_declaration", "type_definition"):
            yield one


def arguments(one: Statement) -> Iterator[list[Node]]:
    """The template arguments of each fragment that a declaration names."""
    kind = field(one.node, "type")
    for held in descendants(kind, "template_type") if kind is not None else ():
        name, listed = field(held, "name"), field(held, "arguments")
        if name is not None and listed is not None and one.unit.source.words(name) == "fragment":
            yield [part for part in listed.named_children if part.type != "comment"]
