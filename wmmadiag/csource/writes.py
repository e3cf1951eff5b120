"""What code may write: names that may stand for another value, or for memory with other content, afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.csource.declarations import Function
from wmmadiag.csource.nodes import Node, arguments, bare, called, descendants, field
from wmmadiag.csource.variables import Variable

# CUDA C++ Programming Guide: warp matrix functions, asynchronous copies, atomic functions. They write what their first
# argument is or points to, and nothing else that they are given.
WRITE_FIRST = frozenset(
    {"load_matrix_sync", "store_matrix_sync", "fill_fragment", "mma_sync", "bmma_sync", "__pipeline_memcpy_async",
     "memcpy_async", "memcpy", "memset", "atomicAdd", "atomicSub", "atomicExch", "atomicMin", "atomicMax", "atomicInc",
     "atomicDec", "atomicCAS", "atomicAnd", "atomicOr", "atomicXor"}
)  # fmt: skip
# They give another view of what they are given, and write nothing.
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast"})
_WRITING = (
    "assignment_expression", "update_expression", "call_expression", "gnu_asm_expression", "pointer_expression",
)  # fmt: skip
_VALUES = frozenset({"number_literal", "sizeof_expression", "char_literal"})
_PLACES = frozenset({"subscript_expression", "field_expression", "pointer_expression", "update_expression"})


@dataclass(frozen=True, slots=True)
class Write:
    """A name that is written."""

    name: Node  # the identifier
    whole: bool  # whether it gets a value itself, not an element of it or what it points to
    node: Node  # what writes: an assignment, `++`, a call, inline assembly


def writes(node: Node, functions: Mapping[str, Sequence[Function]]) -> Iterator[Write]:
    """Everything that the code of a node may write, declarations left out.

    Args:
        functions: by name, those of which it is known which parameters they may write.
    """
    return (found for one in descendants(node, *_WRITING) for found in written_by(one, functions))


def written_by(node: Node, functions: Mapping[str, Sequence[Function]]) -> Iterator[Write]:
    """What a node itself may write, and not what is under it."""
    if node.type == "call_expression":
        yield from _of_call(node, functions)
    elif node.type == "gnu_asm_expression":
        for output in descendants(node, "gnu_asm_output_operand"):
            yield from _of(field(output, "value"), node)
    elif node.type == "pointer_expression":
        if _is_address(node) and not _is_argument(node):
            yield from _of(field(node, "argument"), node)
    elif node.type in _WRITING:
        yield from _of(field(node, "left") or field(node, "argument"), node)


def base(node: Node | None, *, macros: bool = False) -> Node | None:
    """The identifier whose memory an expression is a place in (`s[i].x`) or an address of (`&s[i]`, `s + i`), or None.

    Args:
        macros: whether a call may be a macro's that stands for a place in its first argument.
    """
    while node is not None:
        node = bare(node)
        if node.type == "identifier":
            return node
        if node.type == "binary_expression":
            left = field(node, "left")
            sum_ = _operator(node) in ("+", "-")
            node = None if not sum_ else field(node, "right") if left is not None and left.type in _VALUES else left
        elif node.type == "call_expression":
            held, given = field(node, "function"), arguments(node)
            if given and (macros or called(node) in _CASTS):
                node = given[0]
            else:
                node = field(held, "argument") if held is not None and not given else None
        elif node.type == "cast_expression":
            node = field(node, "value")
        elif node.type in _PLACES:
            node = field(node, "argument")
        else:
            return None
    return None


def may_write(parameter: Variable) -> bool:
    """Whether a function can write its caller's memory through a parameter."""
    constant = "const" in parameter.type.split()
    return (parameter.pointers > 0 or parameter.reference or bool(parameter.dimensions)) and not constant


def _of(target: Node | None, node: Node) -> Iterator[Write]:
    name = base(target, macros=True)
    if name is not None and target is not None:
        yield Write(name, bare(target) == name, node)


def _of_call(call: Node, functions: Mapping[str, Sequence[Function]]) -> Iterator[Write]:
    name, given = called(call), arguments(call)
    if name in _CASTS:
        return
    if name in WRITE_FIRST:
        yield from _of(given[0] if given else None, call)
        return
    known = functions.get(name, ())
    # A call that is a statement of its own is there for what it writes; of others the value is used.
    alone = call.parent is not None and call.parent.type == "expression_statement"
    for number, one in enumerate(given):
        if known:
            # A parameter that is beyond the known ones belongs to a pack.
            taking = [other.parameters for other in known if other.parameters]
            written = any(may_write(some[min(number, len(some) - 1)]) for some in taking)
        else:
            written = alone or _is_address(bare(one))
        place = field(bare(one), "argument") if _is_address(bare(one)) else one
        target = base(place) if written else None
        if target is not None and place is not None:
            yield Write(target, bare(place) == target, call)
    held = field(call, "function")
    if alone and held is not None and held.type == "field_expression":
        yield from _of(held, call)


def _is_address(node: Node) -> bool:
    return node.type == "pointer_expression" and _operator(node) == "&"


def _operator(node: Node) -> str:
    one = field(node, "operator")
    return one.type if one is not None else ""


def _is_argument(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "argument_list"
