"""The CUDA runtime: memory, launches, what the device is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wmmadiag.csource.nodes import Node, arguments, bare, field
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.classes import constructed
from wmmadiag.hostcode.evaluation import evaluate
from wmmadiag.hostcode.expressions import argument_values
from wmmadiag.hostcode.launching import as_dim3, record_launch
from wmmadiag.hostcode.library.registry import function, maker
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.names import type_text
from wmmadiag.hostcode.places import place_of, recast
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import ZERO, Term, number
from wmmadiag.hostcode.types import bytes_of, plain, pointee, split_template
from wmmadiag.hostcode.values import Cell, HostAddress, Items, KernelName, Pointer, Struct, Unknown, Value, dim3

# What a program that asks its device is told: a small number of processors keeps persistent kernels short.
_PROPERTIES = {
    "multiProcessorCount": 3, "major": 9, "minor": 0, "warpSize": 32, "maxThreadsPerBlock": 1024,
    "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472,
    "maxThreadsPerMultiProcessor": 2048, "regsPerBlock": 65536, "cooperativeLaunch": 1, "totalGlobalMem": 1 << 36,
    "managedMemory": 1, "concurrentManagedAccess": 1,
}  # fmt: skip
_ATTRIBUTES = {
    "cudaDevAttrMultiProcessorCount": "multiProcessorCount",
    "cudaDevAttrMaxSharedMemoryPerBlockOptin": "sharedMemPerBlockOptin",
    "cudaDevAttrMaxSharedMemoryPerBlock": "sharedMemPerBlock",
    "cudaDevAttrMaxSharedMemoryPerMultiprocessor": "sharedMemPerMultiprocessor",
    "cudaDevAttrComputeCapabilityMajor": "major",
    "cudaDevAttrComputeCapabilityMinor": "minor",
    "cudaDevAttrCooperativeLaunch": "cooperativeLaunch",
    "cudaDevAttrWarpSize": "warpSize",
}


@maker("cudaLaunchConfig_t")
def _configuration(
    machine: Machine, kind: str, values: Sequence[Value], node: Node | None, scope: Scope
) -> Value | None:
    names = ("gridDim", "blockDim", "dynamicSmemBytes", "stream", "attrs", "numAttrs")
    given = values[0].cells if len(values) == 1 and isinstance(values[0], Items) else [Cell(one) for one in values]
    members: dict[str, Cell] = {}
    for index, cell in enumerate(given):
        name = cell.type.lstrip(".") if cell.type.startswith(".") else names[min(index, len(names) - 1)]
        members[name] = Cell(cell.value)
    return Struct(kind, members)


def _target(machine: Machine, node: Node, scope: Scope) -> Cell | None:
    """The variable whose address an argument is, casts aside."""
    inner = bare(node)
    while inner.type in ("cast_expression", "call_expression"):
        held = field(inner, "value") if inner.type == "cast_expression" else next(iter(arguments(inner)), None)
        if held is None:
            return None
        inner = bare(held)
    if inner.type == "pointer_expression":
        held = field(inner, "argument")
        return place_of(machine, held, scope) if held is not None else None
    value = evaluate(machine, inner, scope)
    return value.cell if isinstance(value, HostAddress) else place_of(machine, inner, scope)


@function("cudaMalloc", "cudaMallocManaged", "cudaMallocHost", "cudaHostAlloc", "cudaMallocAsync", "hipMalloc",
          "cudaMallocPitch")  # fmt: skip
def _malloc(machine: Machine, node: Node, scope: Scope) -> Value:
    given = arguments(node)
    values = argument_values(machine, node, scope)
    cell = _target(machine, given[0], scope) if given else None
    if cell is None or len(values) < 2:
        return ZERO
    own = bare(given[0])
    while own.type == "cast_expression" and (held := field(own, "value")) is not None:
        own = bare(held)
    inner = field(own, "argument") if own.type == "pointer_expression" else own
    name = scope.source.words(inner).replace("->", ".").rpartition(".")[2] if inner is not None else ""
    element = pointee(cell.type)
    before = cell.value
    if isinstance(before, Pointer) and before.element and not element:
        element = before.element
    size = values[1] if isinstance(values[1], Term) else None
    cell.value = Pointer(machine.buffer(name, size, element), ZERO, element)
    return ZERO


@function("malloc", "calloc", "aligned_alloc", "_aligned_malloc")
def _host_malloc(machine: Machine, node: Node, scope: Scope) -> Value:
    values = [one for one in argument_values(machine, node, scope) if isinstance(one, Term)]
    size = values[-1] if values else None
    name = scope.source.words(node).partition("(")[0]
    if name == "calloc" and len(values) == 2:
        size = terms.combined("*", values[0], values[1])
    return Pointer(machine.buffer("", size), ZERO, "")


@function("cudaMemcpy", "cudaMemcpyAsync", "memcpy", "hipMemcpy")
def _copy(machine: Machine, node: Node, scope: Scope) -> Value:
    values = argument_values(machine, node, scope)
    if len(values) >= 2 and isinstance(values[0], Pointer):
        target = values[0].buffer
        if isinstance(values[1], Pointer):
            target.copied, target.content = values[1].buffer.origin(), values[1].buffer.content
        else:
            target.content = "values"
    return ZERO


@function("cudaMemset", "cudaMemsetAsync", "memset", "hipMemset")
def _set(machine: Machine, node: Node, scope: Scope) -> Value:
    values = argument_values(machine, node, scope)
    if len(values) >= 2 and isinstance(values[0], Pointer):
        known = machine.known(values[1])
        byte = int(known) & 0xFF if known is not None and math.isfinite(known) else None
        values[0].buffer.content = "set" if byte is None else f"bytes {byte}" if byte else "zero"
        values[0].buffer.copied = None
        values[0].buffer.bytes_set = values[2] if len(values) > 2 and isinstance(values[2], Term) else None
    return ZERO


@function("cudaGetDeviceProperties", "cudaGetDeviceProperties_v2")
def _properties(machine: Machine, node: Node, scope: Scope) -> Value:
    given = arguments(node)
    cell = _target(machine, given[0], scope) if given else None
    if cell is not None:
        members = {name: Cell(number(value), "int") for name, value in _PROPERTIES.items()}
        cell.value = Struct("cudaDeviceProp", members)
    return ZERO


@function("getCurrentDeviceProperties", "getDeviceProperties")
def _torch_properties(machine: Machine, node: Node, scope: Scope) -> Value:
    members = {name: Cell(number(value), "int") for name, value in _PROPERTIES.items()}
    return HostAddress(Cell(Struct("cudaDeviceProp", members)))


@function("cudaDeviceGetAttribute", "cuDeviceGetAttribute")
def _attribute(machine: Machine, node: Node, scope: Scope) -> Value:
    given = arguments(node)
    cell = _target(machine, given[0], scope) if given else None
    name = scope.source.words(given[1]) if len(given) > 1 else ""
    if cell is not None:
        known = _PROPERTIES.get(_ATTRIBUTES.get(name, ""))
        cell.value = number(known) if known is not None else Unknown(name)
    return ZERO


@function("cudaGetDevice", "cudaGetDeviceCount")
def _device(machine: Machine, node: Node, scope: Scope) -> Value:
    given = arguments(node)
    cell = _target(machine, given[0], scope) if given else None
    if cell is not None:
        cell.value = number(1 if "Count" in scope.source.words(node) else 0)
    return ZERO


@function("cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
def _occupancy(machine: Machine, node: Node, scope: Scope) -> Value:
    argument_values(machine, node, scope)
    given = arguments(node)
    cell = _target(machine, given[0], scope) if given else None
    if cell is not None:
        cell.value = number(1)
    return ZERO


@function("cudaLaunchKernel", "cudaLaunchCooperativeKernel")
def _launch(machine: Machine, node: Node, scope: Scope) -> Value:
    given, values = arguments(node), argument_values(machine, node, scope)
    if len(values) >= 4 and isinstance(values[0], KernelName):
        passed = _pointed(values[3])
        shared = values[4] if len(values) > 4 else ZERO
        together = "Cooperative" in scope.source.words(node)
        record_launch(machine, values[0], values[1], values[2], shared, passed, given[0], scope, cooperative=together)
    return ZERO


def _pointed(value: Value) -> Sequence[Value]:
    """The arguments that an array of pointers to them names."""
    if not isinstance(value, Items):
        return ()
    found = [one.value for one in value.cells]
    return [one.cell.value if isinstance(one, HostAddress) else one for one in found]


@function("cudaLaunchKernelEx", "cudaLaunchKernelExC")
def _launch_ex(machine: Machine, node: Node, scope: Scope) -> Value:
    given, values = arguments(node), argument_values(machine, node, scope)
    config = values[0].cell.value if values and isinstance(values[0], HostAddress) else values[0] if values else None
    if len(values) < 2 or not isinstance(values[1], KernelName) or not isinstance(config, Struct):
        return ZERO

    def member(name: str) -> Value:
        return config.members[name].value if name in config.members else ZERO

    passed: Sequence[Value] = values[2:]
    if scope.source.words(node).partition("(")[0].endswith("C"):
        passed = _pointed(values[2]) if len(values) > 2 else ()
    together = False
    attributes = member("attrs")
    if isinstance(attributes, Items):
        together = any("Cooperative" in str(getattr(one.value, "members", "")) for one in attributes.cells)
    record_launch(
        machine,
        values[1],
        as_dim3(member("gridDim")),
        as_dim3(member("blockDim")),
        member("dynamicSmemBytes"),
        passed,
        given[1],
        scope,
        cooperative=together,
    )
    return ZERO


@function("cuda*", "cublasCreate", "cublasSet*", "cublasDestroy", "cublasLtCreate", "curand*", "hip*", "checkCuda*")
def _succeeds(machine: Machine, node: Node, scope: Scope) -> Value:
    """All else of the runtime succeeds; a number that is asked for is not known."""
    values = argument_values(machine, node, scope)
    name = scope.source.words(node).partition("(")[0]
    if "Occupancy" in name or "Get" in name:
        for value in values:
            if isinstance(value, HostAddress) and isinstance(value.cell.value, Unknown | Term):
                value.cell.value = Unknown(name)
    return values[0] if name.startswith("checkCuda") and values else ZERO


@function("make_unique", "make_shared")
def _unique(machine: Machine, node: Node, scope: Scope) -> Value:
    called = field(node, "function")
    inner = called
    while inner is not None and inner.type == "qualified_identifier":
        inner = field(inner, "name")
    listed = field(inner, "arguments") if inner is not None else None
    kind = type_text(machine, listed.named_children[0], scope) if listed is not None and listed.named_children else ""
    values = argument_values(machine, node, scope)
    element = kind.replace("[]", "").strip()
    if "[" not in kind and split_template(plain(element))[0].rpartition("::")[2] in machine.program.classes:
        return HostAddress(Cell(constructed(machine, element, values, scope, node)))
    each = bytes_of(element)
    count = values[0] if values and isinstance(values[0], Term) else None
    size = terms.combined("*", count, number(each)) if count is not None and each else None
    return recast(Pointer(machine.buffer("", size, element), ZERO, element), element)


@function("make_uint3", "make_int3", "make_dim3")
def _triple(machine: Machine, node: Node, scope: Scope) -> Value:
    return dim3(argument_values(machine, node, scope))
