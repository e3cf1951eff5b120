"""What variables of host code hold: numbers as terms, memory, structs, kernels, tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wmmadiag.csource.nodes import Node
from wmmadiag.hostcode.terms import ONE, ZERO, Term

if TYPE_CHECKING:
    from wmmadiag.hostcode.program import HostFunction
    from wmmadiag.hostcode.scopes import Scope


@dataclass(slots=True, eq=False)
class Cell:
    """A variable, a member or an element: its value now, and its type as declared."""

    value: Value
    type: str = ""


@dataclass(slots=True, eq=False)
class Buffer:
    """Memory that host code makes, or gets through a parameter."""

    name: str  # of the variable that it is first kept in
    size: Term | None = None  # bytes; None where nothing says
    element: str = ""  # the type that pointers to it have; "" for none but void
    # "" unknown, "zero", "bytes 255" (each of them), "set" (to something else), "values" (host code writes numbers)
    content: str = ""
    copied: Buffer | None = None  # the buffer whose content it has been given
    fill: str = ""  # the text of the number that every element is, where host code says one
    bytes_set: Term | None = None  # how many bytes a fill was of, None where nothing says

    def origin(self) -> Buffer:
        """The buffer that its content comes from."""
        one, seen = self, 0
        while one.copied is not None and seen < 8:
            one, seen = one.copied, seen + 1
        return one


@dataclass(frozen=True, slots=True)
class Pointer:
    """A place in memory: `offset` in elements of type `element`."""

    buffer: Buffer
    offset: Term = ZERO
    element: str = ""


@dataclass(frozen=True, slots=True)
class HostAddress:
    """The address of a variable."""

    cell: Cell


@dataclass(slots=True, eq=False)
class Struct:
    """A struct or an object; `dim3` and its like, too."""

    type: str
    members: dict[str, Cell]

    def copy(self) -> Struct:
        """Its members' values in cells of its own."""
        return Struct(self.type, {name: Cell(copied(one.value), one.type) for name, one in self.members.items()})


@dataclass(slots=True, eq=False)
class Items:
    """An array or a list whose elements are known."""

    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel, or an instantiation of one: `arguments` as C++ that the compiler understands at file scope."""

    name: str
    arguments: tuple[str, ...] = ()
    place: Node | None = None


@dataclass(frozen=True, slots=True)
class FunctionName:
    """Functions of one name, with explicit template arguments, and the object that a method is called on."""

    found: tuple[HostFunction, ...]
    arguments: tuple[TemplateValue, ...] = ()
    this: Struct | None = None


@dataclass(frozen=True, slots=True)
class Closure:
    """A lambda and where it was made."""

    node: Node
    scope: Scope


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value: a template argument, `at::kHalf`."""

    text: str


@dataclass(frozen=True, slots=True)
class CharacterText:
    """A string."""

    text: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """What nothing is known of, with its text."""

    text: str = ""


@dataclass(slots=True, eq=False)
class Tensor:
    """A torch tensor.

    Attributes:
        name: of the variable that it is first kept in.
        buffer: its storage.
        sizes: None where its rank is not known: extents are then symbols "x.size(1)".
        dtype: a C type, "" unknown.
        fill: "" unknown, "empty", or the text of the number that its elements are.
        ranks: what the code says of its rank, 0 for nothing.
    """

    name: str
    buffer: Buffer
    sizes: Sequence[Term] | None = None
    strides: Sequence[Term] | None = None
    dtype: str = ""
    fill: str = ""
    rank: int = 0


Value: TypeAlias = (
    Term
    | Pointer
    | HostAddress
    | Struct
    | Items
    | KernelName
    | FunctionName
    | Closure
    | TypeName
    | CharacterText
    | Unknown
    | Tensor
)
TemplateValue: TypeAlias = Value


_THERE = Pointer | HostAddress | KernelName | Closure | Tensor


def as_condition(value: Value) -> Value:
    """A value as a condition: memory, functions and tensors that host code has are there, one that is optional, too."""
    return ONE if isinstance(value, _THERE) else value


def copied(value: Value) -> Value:
    """A value as assignment gives it on: structs and arrays are copied."""
    if isinstance(value, Struct):
        return value.copy()
    if isinstance(value, Items):
        return Items([Cell(copied(one.value), one.type) for one in value.cells])
    return value


def dim3(values: Sequence[Value] = ()) -> Struct:
    """`dim3(x, y, z)`."""
    if len(values) == 1 and isinstance(values[0], Struct):
        return values[0].copy()
    given = [*values, ONE, ONE, ONE]
    return Struct("dim3", {axis: Cell(one, "unsigned") for axis, one in zip("xyz", given, strict=False)})
