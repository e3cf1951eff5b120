"""What a run of host code leaves behind: launches, and what else is done with the same arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from wmmadiag.hostcode.terms import Term
from wmmadiag.hostcode.values import Buffer, KernelName, Pointer, Struct, Value
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """One launch of a kernel.

    Attributes:
        kernel: with the template arguments that the launch gives, as C++ for file scope.
        grid, block: `dim3`.
        shared: bytes of dynamic shared memory; 0 where left out.
        arguments: of the kernel, as passed.
        place: of the kernel's name.
        function: qualified name of the host function that it stands in; `root`: of the one that the run began with.
        facts: (condition, whether it holds) of the ways that led here.
        buffers: content of each buffer of the arguments at that time: (content, the buffer that it was copied from).
        cooperative: whether all blocks run at once.
        numbers: those that the function around it has by name.
        repeated: whether a loop makes it, of which a run takes a few turns.
    """

    kernel: KernelName
    grid: Struct
    block: Struct
    shared: Value
    arguments: tuple[Value, ...]
    place: Place
    function: str
    root: str
    facts: tuple[tuple[Term, bool], ...] = ()
    contents: Mapping[int, tuple[str, Buffer | None]] = field(default_factory=dict)
    cooperative: bool = False
    numbers: Mapping[str, Term] = field(default_factory=dict)
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """A call of a BLAS library that multiplies matrices, as it is called: by columns.

    Attributes:
        a, b, c: the operands; transposed: whether op(A) and op(B) are transposes.
        m, n, k: rows and columns of C and depth, as the library has them.
        batch: how many, None for one.
    """

    a: Pointer
    b: Pointer
    c: Pointer
    transposed: tuple[bool, bool]
    m: Term
    n: Term
    k: Term
    batch: Term | None = None
    place: Place | None = None


Event: TypeAlias = HostLaunch | Product
