"""What declarations introduce: names with their types as written, arrays and initial values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.csource.nodes import Node, ancestors, at, field
from wmmadiag.csource.tree import Source

_DECLARATORS = frozenset(
    {
        "identifier", "field_identifier", "type_identifier", "init_declarator", "pointer_declarator",
        "array_declarator", "reference_declarator", "parenthesized_declarator",
        "function_declarator", "structured_binding_declarator", "variadic_declarator",
    }
)  # fmt: skip
_LEAVES = frozenset({"identifier", "field_identifier", "type_identifier"})
_STORAGE = frozenset({"static", "extern", "register", "inline", "mutable", "thread_local"})


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, a parameter, a member or a constant."""

    name: str  # "" for a parameter without one
    type: str  # as written, qualifiers included, storage and declarator left out: "const T", "unsigned"
    pointers: int  # levels of `*` of its declarator; `reference`: whether it is one
    reference: bool
    dimensions: tuple[Node | None, ...]  # of an array, outermost first; None for `[]`
    value: Node | None  # its initialiser, or None
    node: Node  # the whole declaration; `declarator`: the part of it that is this name's
    declarator: Node
    kind: str  # "local", "parameter", "template", "member", "namespace"
    words: frozenset[str]  # all words before the declarator ("__shared__", "constexpr", "static", …)

    @property
    def shared(self) -> bool:
        """Whether it lies in shared memory."""
        return "__shared__" in self.words

    @property
    def constant(self) -> bool:
        """Whether the compiler knows its value."""
        return self.kind == "template" or "constexpr" in self.words


def declared(source: Source, node: Node, kind: str = "local") -> Iterator[Variable]:
    """The variables of a `declaration`, `field_declaration` or `parameter_declaration`, functions left out."""
    type_node = field(node, "type")
    if type_node is None:
        return
    declarators = node.children_by_field_name("declarator")
    first = declarators[0].start_byte if declarators else node.end_byte
    words = frozenset(source.code.code[node.start_byte : first].decode("utf-8", "replace").replace("*", " ").split())
    qualifiers = [source.text(one) for one in node.children if one.type == "type_qualifier"]
    spelled = " ".join([*(one for one in qualifiers if not one.startswith(("__", "alignas"))), source.words(type_node)])
    spelled = " ".join(one for one in spelled.split() if one not in _STORAGE and one != "constexpr")
    defaults = node.children_by_field_name("default_value")
    for one, following in zip(declarators, [*declarators[1:], None], strict=False):
        # Each of several members of one declaration has its own value behind it.
        end = following.start_byte if following is not None else node.end_byte
        own = next((each for each in defaults if one.end_byte <= each.start_byte < end), None)
        found = _variable(source, one, spelled, node, kind, words, own)
        if found is not None:
            yield found
    if not declarators and kind == "parameter" and spelled != "void":  # `(void)` is an empty list
        yield Variable("", spelled, 0, False, (), next(iter(defaults), None), node, node, kind, words)


def named_by(source: Source, start: int) -> str:
    """The variable, constant or macro that the declaration around a byte gives its value or size to; "" for none."""
    node = at(source.root, start)
    for one in (node, *ancestors(node)):
        if one.type in ("preproc_def", "preproc_function_def", "enumerator"):
            name = field(one, "name")
            return source.text(name) if name is not None else ""
        if one.type in ("declaration", "field_declaration"):
            held = [variable for variable in declared(source, one) if variable.declarator.start_byte <= start]
            return held[-1].name if held else ""
        if one.type in ("compound_statement", "parameter_list"):
            break
    return ""


def _variable(
    source: Source, declarator: Node, spelled: str, node: Node, kind: str, words: frozenset[str], default: Node | None
) -> Variable | None:
    value, at, pointers, reference = default, declarator, 0, False
    dimensions: list[Node | None] = []
    if at.type == "init_declarator":
        value = field(at, "value")
        at = field(at, "declarator") or at
    while at.type not in _LEAVES:
        if at.type in ("pointer_declarator", "abstract_pointer_declarator"):
            pointers += 1
        elif at.type in ("reference_declarator", "abstract_reference_declarator"):
            reference = True
        elif at.type in ("array_declarator", "abstract_array_declarator"):
            dimensions.insert(0, field(at, "size"))
        elif at.type == "function_declarator" and _is_pointed_to(at):  # `void (*run)(half *)`: its type is no number's
            spelled, pointers = "auto", pointers - 1
        elif at.type == "function_declarator" and kind == "local" and _is_constructed(at):
            value = field(at, "parameters")
        elif at.type in ("function_declarator", "structured_binding_declarator"):
            return None
        inner = field(at, "declarator") or next((one for one in at.named_children if one.type in _DECLARATORS), None)
        if inner is None:
            return Variable("", spelled, pointers, reference, tuple(dimensions), value, node, declarator, kind, words)
        at = inner
    name = source.text(at)
    return Variable(name, spelled, pointers, reference, tuple(dimensions), value, node, declarator, kind, words)


def _is_constructed(function: Node) -> bool:
    """Whether what reads as a function is a variable: `Tile t(a, n);` in a function, given names alone."""
    listed = field(function, "parameters")
    given = listed.named_children if listed is not None else []
    return bool(given) and all(
        one.type == "parameter_declaration" and [part.type for part in one.named_children] == ["type_identifier"]
        for one in given
    )


def _is_pointed_to(function: Node) -> bool:
    """Whether a function's declarator is that of a pointer or reference to one."""
    inner = field(function, "declarator")
    inner = next(iter(inner.named_children), None) if inner is not None and inner.type.startswith("paren") else None
    return inner is not None and inner.type in ("pointer_declarator", "reference_declarator")
