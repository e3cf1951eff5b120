"""What a type is, where a template is given it, an alias stands for it, or a record begins with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from wmmadiag.csource.nodes import ancestors, descendants, field
from wmmadiag.csource.types import Type
from wmmadiag.diagnose.operators.cuda_names import TYPES
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

if TYPE_CHECKING:
    from tree_sitter import Node

_HOLDING = ("template_argument_list", "base_class_clause")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "bit_cast", "fragment"})
"""Templates whose arguments are the matter of other operators."""

_Slot = tuple[str, int]
"""A template and the place of one of its arguments."""


@operator
def type_named(program: Program) -> Iterator[Draft]:
    """Another type that a template is given, an alias stands for or a record begins with: the other layout,
    `false_type` for `true_type`, another alias of a fragment, what the same template is given elsewhere."""
    found = list(_named(program))
    fragments = program.reader.types.aliases_of("fragment")
    given: dict[_Slot, dict[str, Type]] = defaultdict(dict)
    for one, node, slot in found:
        kind = program.reader.types.read(one.unit.source.words(node))
        if slot is not None and kind.kind not in ("named", "unknown"):  # what a template's own parameter is called
            given[slot].setdefault(one.unit.source.words(node), kind)
    for one, node, slot in found:
        text = one.unit.source.words(node)
        for other in dict.fromkeys((*_of_set(text), *_alike(fragments, text), *_elsewhere(given, slot, text))):
            edit = one.unit.edit(node.start_byte, node.end_byte, other)
            role = "layout" if text in TYPES[0] or text in fragments else "template argument"
            yield Draft((edit,), "static", role, f"{other} for {text}")


def _of_set(text: str) -> Iterator[str]:
    for family in TYPES:
        yield from (other for other in family if text in family and other != text)


def _alike(fragments: Mapping[str, Type], text: str) -> Iterator[str]:
    """Other aliases of fragments that have one argument otherwise."""
    own = fragments.get(text)
    for name, other in fragments.items() if own is not None else ():
        pairs = zip(own.arguments, other.arguments, strict=False) if own is not None else ()
        if sum(first != then for first, then in pairs) == 1:
            yield name


def _elsewhere(given: Mapping[_Slot, Mapping[str, Type]], slot: _Slot | None, text: str) -> Iterator[str]:
    held = given.get(slot, {}) if slot is not None else {}
    own = held.get(text)
    yield from (name for name, kind in held.items() if own is not None and name != text and kind.kind == own.kind)


def _named(program: Program) -> Iterator[tuple[Statement, Node, _Slot | None]]:
    """The names of types, without what scope they have, each with the slot that it fills."""
    for one in program.statements:
        if one.kind == "block":
            continue
        whole = one.kind not in ("if", "loop", "switch")
        for around in (one.node,) if whole else tuple(held.node for held in one.expressions):
            kind = field(around, "type") if around.type in ("alias_declaration", "type_definition") else None
            if kind is not None:
                yield from ((one, node, None) for node in _plain(kind))
            for listed in descendants(around, *_HOLDING):
                held = field(listed.parent, "name") if listed.parent is not None else None
                name = one.unit.source.words(held) if held is not None else ""
                parts = [part for part in listed.named_children if part.type != "comment"]
                for number, part in enumerate(parts if name not in _CASTS else ()):
                    slot = (
                        (name, number) if listed.type == "template_argument_list" and not _is_defined(listed) else None
                    )
                    yield from ((one, node, slot) for node in _plain(part))


def _is_defined(listed: Node) -> bool:
    """Whether it says what a record is a specialisation for."""
    return any(around.type in ("struct_specifier", "class_specifier") for around in list(ancestors(listed))[:2])


def _plain(node: Node) -> list[Node]:
    """The name of a type that has no template arguments."""
    while True:
        held = field(node, "type") or field(node, "name") if node.type != "type_identifier" else None
        if held is None:
            return [node] if node.type in ("type_identifier", "primitive_type") else []
        if node.type == "template_type":
            return []
        node = held
