"""torch: tensors that launchers get and make, and the functions that choose by type."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wmmadiag.csource.nodes import Node, arguments, field
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.calls import run_closure
from wmmadiag.hostcode.evaluation import evaluate
from wmmadiag.hostcode.expressions import argument_values
from wmmadiag.hostcode.library.registry import function, maker, method
from wmmadiag.hostcode.machine import Machine, PathEnd
from wmmadiag.hostcode.names import type_text
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import ZERO, Term, combined, number, product
from wmmadiag.hostcode.types import bytes_of
from wmmadiag.hostcode.values import Cell, Closure, Items, Pointer, Struct, Tensor, TypeName, Unknown, Value

# c10/core/ScalarType.h: names of element types → C types.
DTYPES = {
    "kHalf": "half", "kFloat16": "half", "Half": "half", "kBFloat16": "__nv_bfloat16", "BFloat16": "__nv_bfloat16",
    "kFloat8_e4m3fn": "__nv_fp8_e4m3", "kFloat8_e5m2": "__nv_fp8_e5m2",
    "kFloat": "float", "kFloat32": "float", "Float": "float", "kDouble": "double", "kFloat64": "double",
    "kInt": "int", "kInt32": "int", "kLong": "int64_t", "kInt64": "int64_t", "kChar": "int8_t", "kInt8": "int8_t",
    "kByte": "uint8_t", "kUInt8": "uint8_t", "kBool": "bool", "Int": "int", "Long": "int64_t", "Char": "int8_t",
}  # fmt: skip
# ATen/Dispatch.h: the element types of each family of macros; AND… adds those that its name or arguments say.
_FAMILIES = (
    ("REDUCED_FLOATING", ("half", "__nv_bfloat16")),
    ("FLOATING", ("float",)),
    ("ALL_TYPES", ("float",)),
    ("INTEGRAL", ("int",)),
)
_MOST_AXES = 4  # of a tensor of which nobody says the rank
_DISPATCHED = {"half": "at::Half", "__nv_bfloat16": "at::BFloat16"}


def tensor(machine: Machine, name: str) -> Tensor:
    """A tensor that host code gets: nothing is known of it yet."""
    return Tensor(name, machine.buffer(name))


def extent(machine: Machine, one: Tensor, index: int) -> Term:
    """`x.size(index)`."""
    if one.sizes is not None and -len(one.sizes) <= index < len(one.sizes):
        return one.sizes[index]
    return _of(machine, one, "size", index)


def stride(machine: Machine, one: Tensor, index: int) -> Term:
    """`x.stride(index)` of a contiguous tensor."""
    if one.strides is not None and -len(one.strides) <= index < len(one.strides):
        return one.strides[index]
    if one.sizes is not None:
        return product(one.sizes[index % len(one.sizes) + 1 :])
    return _of(machine, one, "stride", index)


def _of(machine: Machine, one: Tensor, what: str, index: int) -> Term:
    """The symbol of an extent or a stride of a tensor of unknown rank; the last may be counted from either end."""
    name = f"{one.name}.{what}({'' if what == 'numel' else index})"
    own = re.sub(r"\W+", "_", name.replace("-", "last")).strip("_")
    if own not in machine.names:
        machine.names[own] = [name]
        machine.extents[own] = (one, what, index)
    return terms.symbol(own)


def _known_index(machine: Machine, node: Node, scope: Scope) -> int | None:
    values = argument_values(machine, node, scope)
    found = machine.known(values[0]) if values else None
    return int(found) if found is not None else None


@method("size")
def _size(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    index = _known_index(machine, node, scope)
    if not isinstance(whole, Tensor) or index is None:
        return None
    found = extent(machine, whole, index)
    machine.listed -= terms.symbols(found)
    return found


@method("stride")
def _stride(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    index = _known_index(machine, node, scope)
    return stride(machine, whole, index) if isinstance(whole, Tensor) and index is not None else None


@method("sizes", "sym_sizes")
def _sizes(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    if not isinstance(whole, Tensor):
        return None
    if whole.sizes is not None:
        return Items([Cell(one, "int64_t") for one in whole.sizes])
    known = set(machine.extents)
    sizes = Items([Cell(extent(machine, whole, index), "int64_t") for index in range(whole.rank or _MOST_AXES)])
    machine.listed |= set() if whole.rank else set(machine.extents) - known
    return sizes


@method("dim", "ndimension")
def _dim(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    if not isinstance(whole, Tensor):
        return None
    if whole.sizes is not None:
        return number(len(whole.sizes))
    own = f"{whole.name}_dim"
    if own not in machine.names:
        machine.names[own] = [own]
        machine.extents[own] = (whole, "dim", 0)
    return terms.symbol(own)


@method("numel")
def _numel(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    if not isinstance(whole, Tensor):
        return None
    if whole.sizes is None:
        return _of(machine, whole, "numel", 0)
    return product(whole.sizes)


@method("data_ptr", "mutable_data_ptr", "const_data_ptr", "data")
def _data(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    if not isinstance(whole, Tensor):
        return None
    element = next(iter(_types_given(machine, node, scope)), whole.dtype)
    element = DTYPES.get(plain_name(element), element)
    _measured(whole, element)
    return Pointer(whole.buffer, ZERO, element)


def _types_given(machine: Machine, node: Node, scope: Scope) -> list[str]:
    called = field(node, "function")
    name = field(called, "field") if called is not None else None
    listed = field(name, "arguments") if name is not None else None
    return [type_text(machine, one, scope) for one in listed.named_children] if listed is not None else []


def _measured(one: Tensor, element: str) -> None:
    each = bytes_of(element)
    if one.sizes is not None and each and one.buffer.size is None:
        one.buffer.size = product(one.sizes, number(each))
    if one.fill:
        one.buffer.content = {"0": "zero", "empty": ""}.get(one.fill, "set")
        one.buffer.fill = "" if one.fill == "empty" else one.fill


@method(
    "contiguous", "to", "cuda", "detach", "clone", "half", "requires_grad_", "unsafeGetTensorImpl", "value", "value_or"
)
def _itself(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    return whole if isinstance(whole, Tensor) else None


@method("options", "device")
def _options(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    return Struct("TensorOptions", {"dtype": Cell(TypeName(whole.dtype))}) if isinstance(whole, Tensor) else None


@method("dtype", "scalar_type")
def _dtype(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    given = arguments(node)
    if isinstance(whole, Struct) and whole.type == "TensorOptions" and given:
        text = plain_name(scope.source.words(given[0]))
        return Struct("TensorOptions", {"dtype": Cell(TypeName(DTYPES.get(text, "")))})
    return Unknown(scope.source.words(node)) if isinstance(whole, Tensor) else None


@method("is_cuda", "is_contiguous", "defined", "has_value")
def _true(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    return number(True) if isinstance(whole, Tensor) else None


@method("view", "reshape")
def _view(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    values = argument_values(machine, node, scope)
    sizes = _listed(values)
    if not isinstance(whole, Tensor) or any(machine.known(one) == -1 for one in sizes):
        return whole if isinstance(whole, Tensor) else None
    return Tensor("", whole.buffer, sizes, None, whole.dtype, whole.fill)


@method("transpose", "permute", "t")
def _turned(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    if not isinstance(whole, Tensor):
        return None
    if whole.sizes is None:
        return Tensor(whole.name, whole.buffer, None, None, whole.dtype, whole.fill)
    order = list(range(len(whole.sizes)))
    indices = [machine.known(one) for one in argument_values(machine, node, scope)]
    name = scope.source.words(node).rpartition(".")[2].partition("(")[0]
    if name == "permute" and len(indices) == len(order):
        order = [int(one or 0) for one in indices]
    elif name in ("transpose", "t") and len(order) > 1:
        one, other = (int(each or 0) for each in indices[:2]) if len(indices) > 1 else (0, 1)
        order[one], order[other] = order[other], order[one]
    sizes = [whole.sizes[one] for one in order]
    strides = [stride(machine, whole, one) for one in order]
    return Tensor("", whole.buffer, sizes, strides, whole.dtype, whole.fill)


@method("packed_accessor32", "packed_accessor64", "packed_accessor", "generic_packed_accessor")
def _accessor(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
    if not isinstance(whole, Tensor):
        return None
    parts = _types_given(machine, node, scope)
    rank = int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else whole.rank or 4
    element = DTYPES.get(plain_name(parts[0]), parts[0]) if parts else whole.dtype
    if whole.sizes is None:
        whole.rank = rank
    _measured(whole, element)
    members = {"data": Cell(Pointer(whole.buffer, ZERO, element), f"{element}*")}
    members |= {f"size{axis}": Cell(extent(machine, whole, axis), "int") for axis in range(rank)}
    members |= {f"stride{axis}": Cell(stride(machine, whole, axis), "int") for axis in range(rank)}
    return Struct("PackedTensorAccessor", members)


def _listed(values: Sequence[Value]) -> list[Term]:
    if len(values) >= 1 and isinstance(values[0], Items):
        values = [one.value for one in values[0].cells]
    return [one for one in values if isinstance(one, Term)]


@function("zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "empty_cuda",
          "randn", "rand", "new_zeros", "new_empty")  # fmt: skip
def _made(machine: Machine, node: Node, scope: Scope) -> Value:
    called = field(node, "function")
    name = plain_name(scope.source.words(called)) if called is not None else ""
    values = argument_values(machine, node, scope)
    fill = {"zeros": "0", "ones": "1", "empty": "empty", "full": "set"}.get(name.partition("_")[0], "")
    if name.startswith("full"):
        fill = scope.source.words(arguments(node)[1]) if len(arguments(node)) > 1 else ""
    dtype = next(
        (found for one in values if (found := _dtype_of(one))),
        next((DTYPES[word] for word in re.findall(r"\bk?[A-Z]\w+", scope.source.words(node)) if word in DTYPES), ""),
    )
    if name.endswith("_like") and values and isinstance(values[0], Tensor):
        like = values[0]
        return _noted(
            machine,
            Tensor("", machine.buffer(""), _sizes_of(machine, like), None, dtype or like.dtype, fill, like.rank),
        )
    sizes: Sequence[Term] | None = _listed(values)
    if values and isinstance(values[0], Unknown):
        sizes = None
    return _noted(machine, Tensor("", machine.buffer(""), sizes, None, dtype, fill))


def _noted(machine: Machine, made: Tensor) -> Tensor:
    machine.tensors.append(made)
    return made


def _sizes_of(machine: Machine, like: Tensor) -> Sequence[Term] | None:
    if like.sizes is not None:
        return like.sizes
    own = [index for other, what, index in machine.extents.values() if other is like and what == "size"]
    rank = like.rank or max((index + 1 for index in own if index >= 0), default=0)
    return [extent(machine, like, index) for index in range(rank)] if rank else None


def _dtype_of(value: Value) -> str:
    if isinstance(value, Struct) and value.type == "TensorOptions":
        held = value.members["dtype"].value
        return held.text if isinstance(held, TypeName) else ""
    return DTYPES.get(plain_name(value.text), "") if isinstance(value, TypeName | Unknown) else ""


@function("TensorOptions", "dtype")
def _new_options(machine: Machine, node: Node, scope: Scope) -> Value:
    given = arguments(node)
    text = plain_name(scope.source.words(given[0])) if given else ""
    return Struct("TensorOptions", {"dtype": Cell(TypeName(DTYPES.get(text, "")))})


@maker("TensorOptions")
def _options_object(
    machine: Machine, kind: str, values: Sequence[Value], node: Node | None, scope: Scope
) -> Value | None:
    return Struct("TensorOptions", {"dtype": Cell(TypeName(""))})


@maker("Tensor")
def _tensor_object(
    machine: Machine, kind: str, values: Sequence[Value], node: Node | None, scope: Scope
) -> Value | None:
    return values[0] if values else tensor(machine, "")


@function("TORCH_CHECK", "AT_ASSERT", "AT_ASSERTM", "TORCH_INTERNAL_ASSERT", "CHECK_SHAPE", "TORCH_CHECK_EQ")
def _check(machine: Machine, node: Node, scope: Scope) -> Value:
    given = arguments(node)
    if not given:
        return Unknown()
    if scope.source.words(node).startswith("CHECK_SHAPE"):
        _shape(machine, node, scope)
        return Unknown()
    for one in _all_of(given[0], scope):
        value = evaluate(machine, one, scope)
        if isinstance(value, Term):
            if machine.known(value) is not None and not machine.known(value):
                raise PathEnd
            machine.facts.append((value, True))
            _rank_told(machine, value)
        else:
            _alike_told(machine, one, scope)
    return Unknown()


def _all_of(node: Node, scope: Scope) -> list[Node]:
    """The parts of a condition that all have to hold."""
    inner = node.named_children[0] if node.type == "parenthesized_expression" and node.named_children else node
    sides = [field(inner, one) for one in ("left", "right")] if _is_binary(inner, "&&", scope) else []
    return [part for side in sides if side is not None for part in _all_of(side, scope)] or [inner]


def _is_binary(node: Node, operator: str, scope: Scope) -> bool:
    sign = field(node, "operator") if node.type == "binary_expression" else None
    return sign is not None and scope.source.text(sign) == operator


def _alike_told(machine: Machine, node: Node, scope: Scope) -> None:
    """`x.sizes() == y.sizes()`: of two tensors of one rank each extent of the one is the other's."""
    if not _is_binary(node, "==", scope):
        return
    calls = [field(node, side) for side in ("left", "right")]
    named = [field(one, "function") for one in calls if one is not None and one.type == "call_expression"]
    if len(named) != 2 or any(
        one is None or scope.source.words(one).split(".")[-1].strip() != "sizes" for one in named
    ):
        return
    both = [evaluate(machine, owner, scope) for one in named if one and (owner := field(one, "argument")) is not None]
    if len(both) != 2 or not (isinstance(both[0], Tensor) and isinstance(both[1], Tensor)):
        return
    one, other = both[0], both[1]
    ranks = [len(each.sizes) if each.sizes is not None else each.rank for each in (one, other)]
    one.rank, other.rank = (rank or max(ranks) for rank in ranks)
    for index in range(max(ranks)):
        machine.facts.append((combined("==", extent(machine, one, index), extent(machine, other, index)), True))


def _rank_told(machine: Machine, value: Term) -> None:
    """`x.dim() == 4`."""
    if value.op == "==" and value.args[0].op == "symbol":
        known = machine.extents.get(value.args[0].args[0])
        rank = machine.known(value.args[1])
        if known is not None and known[1] == "dim" and rank is not None:
            known[0].rank = int(rank)


def _shape(machine: Machine, node: Node, scope: Scope) -> None:
    values = argument_values(machine, node, scope)
    if values and isinstance(values[0], Tensor):
        values[0].rank = len(values) - 1
        for index, one in enumerate(values[1:]):
            if isinstance(one, Term):
                machine.facts.append((combined("==", extent(machine, values[0], index), one), True))


@function("AT_DISPATCH*", "VLLM_DISPATCH*", "DISPATCH_*")
def _dispatch(machine: Machine, node: Node, scope: Scope) -> Value:
    """The types that such a macro chooses among: the first of them."""
    called = field(node, "function")
    name = scope.source.words(called) if called is not None else ""
    choices = [kind for family, kinds in _FAMILIES if family in name for kind in kinds][:2]
    named = [DTYPES[word] for word in re.findall(r"\w+", scope.source.words(node)[:400]) if word in DTYPES]
    choices = named + ([] if named else ["half"] if "HALF" in name else []) + choices
    for value in argument_values(machine, node, scope):
        if isinstance(value, Closure):
            kind = next((one for one in machine.multiplied if one in choices), None) or (choices or ["float"])[0]
            inner = value.scope.inner()
            inner.types["scalar_t"] = _DISPATCHED.get(kind, kind)
            run_closure(machine, Closure(value.node, inner), [], [])
    return Unknown()


@function("getCurrentCUDAStream", "getDefaultCUDAStream", "CUDAGuard", "OptionalCUDAGuard", "device_of")
def _stream(machine: Machine, node: Node, scope: Scope) -> Value:
    return Struct("Stream", {})
