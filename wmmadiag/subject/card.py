"""A kernel card as data: what the subject is, how it is launched and what it should compute.

Everything that may depend on a case is still an expression here; `binding.bind` evaluates it for one case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.element_types import ElementType
from wmmadiag.place import Place

if TYPE_CHECKING:
    from wmmadiag.subject.drafts.kernel import SourceKernel
    from wmmadiag.subject.drafts.model import CardDraft
    from wmmadiag.subject.open_subject import SubjectOptions

FORMAT = 1

Expression: TypeAlias = str | int | float
"""A number, or the text of an expression over a case's symbols and the macros."""


@dataclass(frozen=True, slots=True)
class Places:
    """Line of every key of a card, by path; a missing one falls back to its parent's."""

    file: str
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)

    def of(self, *path: str | int) -> Place:
        """The place of a key, or of the nearest enclosing one."""
        while path and path not in self.lines:
            path = path[:-1]
        return Place(self.file, self.lines.get(path, 1) if path else 1)


class CardPart:
    """A part of a card, which stands somewhere in it."""

    __slots__ = ()
    place: Place

    def error(self, message: str, hint: str = "", detail: str = "") -> ConfigurationError:
        """What is wrong with it, and the next step."""
        return ConfigurationError(message, place=self.place, detail=detail, hint=hint)


@dataclass(frozen=True, slots=True)
class View(CardPart):
    """One logical tensor inside an argument's storage."""

    role: str  # what it is to the operation
    place: Place
    shape: tuple[Expression, ...] = ()  # logical shape, outermost axis first; empty for the role's usual shape
    layout: str = ""  # order of the axes in memory as letters ("BSHD"), or "" for the logical order
    strides: tuple[Expression, ...] = ()  # explicit strides in elements, in logical order, or empty
    # extra elements after each run of an axis, by axis letter or number: {"D": 8}
    pad: Mapping[str, Expression] = field(default_factory=dict)
    offset: Expression = 0  # first element, counted in elements from the start of the storage


@dataclass(frozen=True, slots=True)
class Argument(CardPart):
    """One kernel argument: a scalar with a `value`, or storage with one or more views."""

    name: str  # for messages and Python references
    element: ElementType  # its element type
    direction: str  # "in", "out", "inout" or "workspace"
    place: Place
    value: Expression | None = None  # of a scalar; None for arrays
    views: tuple[View, ...] = ()  # the tensors inside; several for packed QKV; empty for a workspace
    size: Expression | None = None  # elements of storage, or None for what the views need
    inputs: str = ""  # distribution of its values, or "" for the case's
    # of an input, in place of drawn ones: an expression for each element in logical order, or one expression of the
    # element's index `i`, or what its storage holds; None for drawn ones
    values: Expression | tuple[Expression, ...] | bytes | None = None
    # of an output or workspace before the run: "poison", "zero", "inputs" for drawn values, or the text of an
    # expression for every element
    initial: str = "poison"
    padding: str = "poison"  # content of storage that no view covers: "poison" or "zero"
    struct: str = ""  # the parameter that it is a field of, if that is a struct passed by value; fields stand in a row
    # the role of several inputs in one storage, "qkv", "" for others; `packing`: the order of its axes, "" where nobody
    # said it
    packed: str = ""
    packing: str = ""
    pointers: bool = False  # whether the kernel gets an array of pointers, one to each of what its first axis counts


@dataclass(frozen=True, slots=True)
class LaunchShape(CardPart):
    """Grid and block (x, y, z) and dynamic shared memory in bytes, as expressions."""

    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What replaces the rounding bound: |observed - expected| ≤ atol + rtol·|expected|."""

    atol: float
    rtol: float


@dataclass(frozen=True, slots=True)
class Case(CardPart):
    """One shape with its inputs."""

    name: str
    place: Place
    symbols: Mapping[str, Expression]  # B, H, S, D, …: numbers, or expressions over other symbols
    inputs: str = ""  # distribution of the inputs, "" for the card's
    seed: int | None = None  # of the inputs, None for the card's
    tolerance: Tolerance | None = None  # in place of the rounding bound, None for the card's


@dataclass(frozen=True, slots=True)
class Variant(CardPart):
    """One set of macros, and what else it changes. None and empty mean: as the card says.

    `arguments` are all of the kernel's, those among them that the variant changes as it says.
    """

    name: str
    place: Place
    macros: Mapping[str, Expression] = field(default_factory=dict)
    source: Path | None = None
    entry: str | None = None
    launch: LaunchShape | None = None
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class FromRole:
    """The input of a role, as a keyword of a library's function."""

    role: str


@dataclass(frozen=True, slots=True)
class FromSymbols:
    """The value of an expression, as a keyword of a library's function."""

    text: Expression


Keyword: TypeAlias = "FromRole | FromSymbols | str | int | float | bool | tuple[Keyword, ...]"
"""What a keyword of a library's function is; anything else than the first two is passed as it is."""


@dataclass(frozen=True, slots=True)
class Computes(CardPart):
    """What the kernel should compute."""

    operation: str  # a name in `wmmadiag.ops.OPERATIONS`; "python" for a function of the user's, or of a library
    place: Place
    parameters: Mapping[str, Expression | bool]  # of the operation, by name; expressions, words or booleans
    python: str = ""  # "file.py:function" for "python", resolved against the card's folder when used
    reference: str = ""  # "module.function" of a library, in its place
    formula: tuple[str, ...] = ()  # or what each output is, of roles, symbols and numbers
    # the type to which a kernel judged by a formula rounds what it computes on the way, "bf16"; "" for none
    rounding: str = ""
    arguments: tuple[str, ...] = ()  # roles of the inputs that it takes by position; empty for all, in the card's order
    keywords: Mapping[str, Keyword] = field(default_factory=dict)  # what it takes by name


@dataclass(frozen=True, slots=True)
class Derived:
    """Of a card that was derived from a source: what it stands on."""

    options: SubjectOptions  # with which it was derived
    # of what it says that the user or the host code itself shows, and nobody guessed: "operation", "storage", "sizes"
    stated: frozenset[str]
    # draft, kernel: that it was made of
    draft: CardDraft
    kernel: SourceKernel
    doubt: str = ""  # what speaks against the operation, a clause; "" for nothing, or where the user named it
    near: str = ""  # what the arguments are taken to mean because most of the output is near with it, and is not right

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Syntax trees stay in their process: a card that is sent to another one is there as if it had been written."""
        return type(None), ()


@dataclass(frozen=True, slots=True)
class Card:
    """A kernel under test.

    `path` is the card's own file, or the source when there is no card; `command` the words that check it, if a path
    alone does not. `open_conventions`: nobody said how the matrices are stored, so the result may; `answered`: the
    questions of the operation that it has answered. `assumed`: what was taken from the source alone and changes the
    meaning of a verdict, each one clause with how to say otherwise. `derived`: of a card that nobody wrote; `text`: of
    one by formulas in comments of its source, which nobody wrote either. `own_headers`: by absolute path, that are
    looked at as the source is, though only an include path leads to them.
    """

    name: str
    path: Path
    source: Path
    entry: str
    arguments: tuple[Argument, ...]
    launch: LaunchShape
    cases: tuple[Case, ...]
    computes: Computes
    places: Places
    macros: Mapping[str, Expression] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()
    include_paths: tuple[Path, ...] = ()
    std: str = "c++17"
    own_headers: tuple[str, ...] = ()
    symbols: Mapping[str, Expression] = field(default_factory=dict)
    inputs: str = ""
    seed: int = 0
    tolerance: Tolerance | None = None
    command: str = ""
    open_conventions: bool = False
    answered: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    derived: Derived | None = None
    text: str = ""

    @property
    def derivation(self) -> Derived:
        """How it was derived, of a card that was."""
        assert self.derived is not None
        return self.derived

    @property
    def folder(self) -> Path:
        """Paths in the card are relative to this."""
        return self.path.parent

    def case(self, name: str) -> Case:
        """The case of that name.

        Raises:
            ConfigurationError: there is none; the hint lists those there are.
        """
        return _named(name, self.cases, "case", self.places.of("cases"))

    def variant(self, name: str) -> Variant:
        """The variant of that name.

        Raises:
            ConfigurationError: there is none; the hint lists those there are.
        """
        return _named(name, self.variants, "variant", self.places.of("variants"))

    def as_variant(self, variant: Variant) -> Card:
        """The same card with the arguments of a variant."""
        return replace(self, arguments=variant.arguments) if variant.arguments else self

    def with_macros(self, macros: Mapping[str, Expression]) -> Card:
        """The same card with more (or other) macros."""
        return replace(self, macros={**self.macros, **macros})


_Named = TypeVar("_Named", Case, Variant)


def _named(name: str, items: tuple[_Named, ...], what: str, place: Place) -> _Named:
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items)
    raise ConfigurationError(f"the card has no {what} '{name}'", place=place, hint=f"it has: {known}")
