"""cuBLAS: which product host code computes of which arrays, and how they lie.

Argument orders: cuBLAS documentation, "cuBLAS Level-3 Function Reference" and "BLAS-like Extension". Matrices are
stored by columns.
"""

from __future__ import annotations

import re

from wmmadiag.csource.nodes import Node, arguments
from wmmadiag.hostcode.events import Product
from wmmadiag.hostcode.expressions import argument_values
from wmmadiag.hostcode.library.registry import function
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import ZERO, Term
from wmmadiag.hostcode.values import Pointer, Value

# The parts of a call, in order. The types of the Ex functions follow the pointers.
_PLAIN = "handle ta tb m n k alpha a lda b ldb beta c ldc"
_EX = "handle ta tb m n k alpha a at lda b bt ldb beta c ct ldc"
_STRIDED = "handle ta tb m n k alpha a lda sa b ldb sb beta c ldc sc batch"
_STRIDED_EX = "handle ta tb m n k alpha a at lda sa b bt ldb sb beta c ct ldc sc batch"


def _order(name: str) -> dict[str, int]:
    parts = (_STRIDED_EX if "Ex" in name else _STRIDED) if "Strided" in name else _EX if "Ex" in name else _PLAIN
    return {part: index for index, part in enumerate(parts.split())}


@function("cublasSgemm*", "cublasHgemm*", "cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasDgemm*")
def _product(machine: Machine, node: Node, scope: Scope) -> Value:
    called = node.child_by_field_name("function")
    name = scope.source.words(called) if called is not None else ""
    values, texts = argument_values(machine, node, scope), [scope.source.words(one) for one in arguments(node)]
    order = _order(name)
    if len(values) <= max(order.values()):
        return ZERO

    def at(part: str) -> Value:
        return values[order[part]]

    a, b, c = (at(one) for one in "abc")
    whole = [one for one in map(at, "mnk") if isinstance(one, Term)]
    if not (isinstance(a, Pointer) and isinstance(b, Pointer) and isinstance(c, Pointer) and len(whole) == 3):
        return ZERO
    batch = at("batch") if "batch" in order else None
    turned = tuple(bool(re.search(r"OP_[TC]\b", texts[order[one]])) for one in ("ta", "tb"))
    m, n, k = whole
    given = batch if isinstance(batch, Term) else None
    machine.events.append(Product(a, b, c, (turned[0], turned[1]), m, n, k, given, scope.source.place(node)))
    c.buffer.content, c.buffer.copied = "computed", None
    return ZERO
