"""The standard library and CUDA's arithmetic: what gives numbers, and containers."""

from __future__ import annotations

from wmmadiag.csource.nodes import Node, arguments
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.expressions import argument_values
from wmmadiag.hostcode.library.registry import function, method
from wmmadiag.hostcode.machine import Machine, PathEnd
from wmmadiag.hostcode.places import place_of
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import Term, combined, number
from wmmadiag.hostcode.types import bytes_of, split_template
from wmmadiag.hostcode.values import Cell, Items, Pointer, Struct, Unknown, Value

_ONE = {
    "ceil": "ceil", "ceilf": "ceil", "floor": "floor", "floorf": "floor", "sqrt": "sqrt", "sqrtf": "sqrt",
    "rsqrt": "rsqrt", "rsqrtf": "rsqrt", "exp": "exp", "expf": "exp", "log": "log", "logf": "log", "log2": "log2",
    "log2f": "log2", "abs": "abs", "fabs": "abs", "fabsf": "abs", "__float2half": "float", "__float2half_rn": "float",
    "__half2float": "float", "__float2bfloat16": "float", "__bfloat162float": "float",
}  # fmt: skip
_TWO = {
    "max": "max", "min": "min", "pow": "pow", "powf": "pow", "fmax": "max", "fmin": "min", "fmaxf": "max",
    "gcd": "gcd", "lcm": "lcm",
}  # fmt: skip
_DIVIDED_UP = ("ceil_div", "cdiv", "div_up", "CeilDiv", "ceilDiv", "divUp", "DivUp", "div_ceil", "iDivUp", "CEIL_DIV")


def _name(node: Node, scope: Scope) -> str:
    called = node.child_by_field_name("function")
    return plain_name(scope.source.words(called)) if called is not None else ""


def _unary(machine: Machine, node: Node, scope: Scope) -> Value:
    values = argument_values(machine, node, scope)
    if values and isinstance(values[0], Term):
        return combined(_ONE[_name(node, scope)], values[0])
    return Unknown(scope.source.words(node))


def _binary(machine: Machine, node: Node, scope: Scope) -> Value:
    values = argument_values(machine, node, scope)
    if len(values) == 1 and isinstance(values[0], Items):  # std::max({a, b})
        values = [one.value for one in values[0].cells]
    if len(values) >= 2 and all(isinstance(one, Term) for one in values):
        found = values[0]
        for one in values[1:]:
            assert isinstance(found, Term) and isinstance(one, Term)
            found = combined(_TWO[_name(node, scope)], found, one)
        return found
    return Unknown(scope.source.words(node))


def _divided_up(machine: Machine, node: Node, scope: Scope) -> Value:
    values = argument_values(machine, node, scope)
    if len(values) == 2 and isinstance(values[0], Term) and isinstance(values[1], Term):
        top = combined("-", combined("+", values[0], values[1]), terms.ONE)
        return combined("/", top, values[1])
    return Unknown(scope.source.words(node))


function(*_ONE)(_unary)
function(*_TWO)(_binary)
function(*_DIVIDED_UP)(_divided_up)


@function("move", "forward", "ref", "cref", "as_const", "to_underlying", "bit_cast", "raw_pointer_cast")
def _same(machine: Machine, node: Node, scope: Scope) -> Value:
    values = argument_values(machine, node, scope)
    return values[0] if values else Unknown()


@function("exit", "_exit", "abort", "quick_exit", "terminate")
def _exit(machine: Machine, node: Node, scope: Scope) -> Value:
    raise PathEnd


@function("assert")
def _assert(machine: Machine, node: Node, scope: Scope) -> Value:
    values = argument_values(machine, node, scope)
    if values and isinstance(values[0], Term):
        machine.facts.append((values[0], True))
    return Unknown()


@function("getopt", "getopt_long")
def _no_options(machine: Machine, node: Node, scope: Scope) -> Value:
    return number(-1)


@function("printf", "fprintf", "puts", "srand", "free", "fflush", "delete", "fclose", "snprintf", "sprintf")
def _silent(machine: Machine, node: Node, scope: Scope) -> Value:
    return Unknown()


@function("swap")
def _swap(machine: Machine, node: Node, scope: Scope) -> Value:
    cells = [place_of(machine, one, scope) for one in arguments(node)]
    if len(cells) == 2 and cells[0] is not None and cells[1] is not None:
        cells[0].value, cells[1].value = cells[1].value, cells[0].value
    return Unknown()


@function("fill", "fill_n", "generate", "iota")
def _fill(machine: Machine, node: Node, scope: Scope) -> Value:
    values = argument_values(machine, node, scope)
    if values and isinstance(values[0], Pointer):
        zero = _name(node, scope) == "fill" and len(values) > 2 and machine.known(values[2]) == 0
        values[0].buffer.content = "zero" if zero else "values"
    return Unknown()


@function("make_tuple", "make_pair", "tie")
def _tuple(machine: Machine, node: Node, scope: Scope) -> Value:
    return Items([Cell(one) for one in argument_values(machine, node, scope)])


def _held(whole: Value) -> Pointer | None:
    if isinstance(whole, Struct) and ".data" in whole.members:
        found = whole.members[".data"].value
        return found if isinstance(found, Pointer) else None
    return whole if isinstance(whole, Pointer) else None


@method("data", "get", "begin")
def _data(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    return _held(whole)


@method("end")
def _end(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    return _held(whole)


@method("size")
def _size(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    if isinstance(whole, Struct) and ".size" in whole.members:
        return whole.members[".size"].value
    return number(len(whole.cells)) if isinstance(whole, Items) else None


@method("resize", "assign", "reserve")
def _resize(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    values = argument_values(machine, node, scope)
    pointer = _held(whole)
    if pointer is None or not isinstance(whole, Struct) or not values:
        return None
    each = bytes_of(split_template(whole.type)[1][0]) if split_template(whole.type)[1] else None
    if isinstance(values[0], Term):
        pointer.buffer.size = combined("*", values[0], number(each)) if each else None
        whole.members[".size"].value = values[0]
    return Unknown()


@method("push_back", "emplace_back")
def _push(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    values = argument_values(machine, node, scope)
    if isinstance(whole, Items):
        whole.cells += [Cell(one) for one in values[:1]]
        return Unknown()
    return None


@method("front", "back", "value")
def _first(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    if isinstance(whole, Items) and whole.cells:
        return whole.cells[0 if scope.source.words(node).endswith("front()") else -1].value
    return None
