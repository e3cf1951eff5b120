"""What an operation is, as data: the classes that a file of `catalogue/` fills in.

Words in which public sources speak of something are one string, separated by blanks, folded as
`subject.drafts.guess` folds names: without case, underscores and marks such as `d_` or `_ptr`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, Judgement
from wmmadiag.ops.stages.model import StageCase, Stages

Setting: TypeAlias = str | int | float | bool
"""What a card says of a parameter: a number, the text of an expression, a word, or a boolean."""
Values: TypeAlias = Mapping[str, float | int | bool | str]
"""Evaluated parameters by name."""
Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"
"""Logical tensors by role, as the kernel reads them: in their storage types."""
Elements: TypeAlias = Mapping[str, ElementType]
"""The element type of every role that a kernel has."""
Outputs: TypeAlias = dict[str, Doubles]
"""What is expected of outputs, by role."""
Judged: TypeAlias = dict[str, Judgement]
"""How each of them is to be judged."""
Oracle: TypeAlias = "Callable[[Values, Arrays], Outputs]"
"""The float64 reference: from parameters and inputs to outputs by role, by the textbook formula."""
Bound: TypeAlias = "Callable[[Values, Arrays, Outputs, Elements], Judged]"
"""The bound of what rounding explains: from parameters, inputs, and what the oracle gives, by output."""
Kept: TypeAlias = "Callable[[Values, Arrays, int], Callable[[tuple[int, ...]], NDArray[np.bool_]] | None]"
"""Which summands of a product count: from parameters, inputs and an output's rows to a function of its leading indices,
(rows, summands); None where all do."""
StagesOf: TypeAlias = "Callable[[StageCase], Stages]"
"""What is known of the values of a case on their way to its outputs."""
Draw: TypeAlias = "Callable[[tuple[int, ...], ElementType, int, np.random.Generator], Doubles]"
"""Values of an input in which not every number means something: of shape, type, and the extent that they count along.
"""


Taken: TypeAlias = Literal["multiplied", "divided"]
"""What is done with a factor."""

ROW, COLUMN = 0, 1
"""An axis of a matrix."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A product of matrices, the last two axes of roles: an axis of `left` is contracted with one of `right`."""

    left: str | MatrixProduct  # a role, or a product that is made first
    left_axis: int  # ROW or COLUMN
    right: str
    right_axis: int
    made_into: str = "({})"  # of a product that is made first: words for what of it is multiplied


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the values of a role are where nobody says otherwise."""

    values: Draw  # draws them
    # role, axis: the extent that they count along: lengths of rows of keys are below the keys' number
    role: str = ""
    axis: int = -2
    times: tuple[str, int] | None = None  # another extent, by which that one is multiplied: keys of a page

    def extent(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """The number that the values count along, of tensors of these shapes; 0 where they do not tell it."""
        found = 1
        for role, axis in filter(None, ((self.role, self.axis), self.times)):
            shape = shapes.get(role, ())
            found *= shape[axis] if len(shape) >= -axis else 0
        return found


@dataclass(frozen=True, slots=True)
class HardInput:
    """A distribution that is hard for an operation."""

    meaning: str  # one line for the documentation
    # changes standard normal values by role, in place
    change: Callable[[dict[str, Doubles], np.random.Generator], None]
    of: tuple[frozenset[str], ...]  # sets of roles: it changes something where all of one are there


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation."""

    # "real" (an expression), "cap" (one that is not negative), "flag" (a boolean, or an expression that is 0 or not),
    # "int" (from 1 on), "count" (from 0 on), "reach" (a number from 0 on, or -1), or "word"
    kind: str
    default: str | bool  # its value when the card does not give it
    meaning: str  # one line for the documentation and for drafted cards
    words: tuple[str, ...] = ()  # for "word", what it may be
    spellings: str = ""  # how sources call it
    # where a kernel takes it as a number, its value in the first of the drafted cases, and in the others: a wrong
    # factor then shows in the second one alone. None for one that has its default there.
    drafted: tuple[str, str] | None = None
    # the input that it multiplies, or each of several: a kernel that takes it reads that input, too
    factor_of: str = ""
    # what code has that computes one of its words, as patterns in which case does not matter
    formulas: Mapping[str, str] = field(default_factory=dict)
    # what it is in drafts by the element type of a role: ("b", {"u8": "2"})
    by_element: tuple[str, Mapping[str, str]] | None = None
    # words of kernels' names → how its word then begins; a reading by which it is another is none
    named: Mapping[str, str] = field(default_factory=dict)
    of: str = ""  # the input that it says something of: without that it means nothing
    # why a draft asks for it where the kernel does not take it as a number; "" where its default is as good
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Role:
    """One tensor of an operation."""

    axes: str  # letters of its usual logical axes, outermost first
    shape: tuple[str, ...] = ()  # expressions of its usual shape over the usual symbols; () for these letters
    output: bool = False  # whether the kernel computes it
    required: bool = True  # whether a card must have it
    # of a role that is spread over the axes that it lacks: letters of those that it usually has, where no layout names
    # others; "" for a role that has all of its axes
    usual: str = ""
    drawn: Drawn | None = None  # what its values are where nobody says otherwise; None for the case's distribution
    spellings: str = ""  # how sources call its pointer
    # some of its spellings, and names of other pointers beside which they mean something else
    unless_with: tuple[str, str] = ("", "")
    element: Literal["", "float", "int"] = ""  # "float" or "int" where its values can be no other; "" for any
    instead: str = ""  # the role that a pointer of its name has whose elements are others; "" for none
    asked: str = ""  # why a draft asks for its layout; "" where the order of its axes is the usual one
    # whether its first axis may have extent 1, or be left out, and then is the same for all matrices
    shared: bool = False
    flat: bool = False  # whether host code has all its elements along one axis, where it does not say otherwise
    updates: str = ""  # of an output: the input that a kernel may write it over. "" for none.

    def __post_init__(self) -> None:
        """The letters are its extents where none are given."""
        object.__setattr__(self, "shape", self.shape or tuple(self.axes))


@dataclass(frozen=True, slots=True)
class Alternative:
    """One answer to a question about a kernel: settings, with a name for people."""

    name: str  # "B stored as N×K, as nn.Linear has it"
    parameters: Mapping[str, Setting] = field(default_factory=dict)  # what `[computes]` then says, by name
    # the order of the axes in memory, by role; "" for the order in which the operation lists them
    layouts: Mapping[str, str] = field(default_factory=dict)
    # whether the output is read, too: it then lies where its `Role.updates` does. None for "as it is".
    updated: bool | None = None
    # of inputs in one storage, the role of which that is and the order of its axes; None for "as it is"
    packed: tuple[str, str] | None = None
    # whether kernels are written so on purpose. A scale that is left out is a mistake as often.
    deliberate: bool = True
    # an output that a kernel behind it then multiplies by, or divides by
    taken: tuple[str, Taken] | None = None


ParameterKind: TypeAlias = Literal["storage", "meaning", "arithmetic"]
"""What a question is about: where elements lie, what is computed of them, or in which type."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A question about a kernel that its source may leave open."""

    question: str  # "How is B stored?"
    kind: ParameterKind  # what it is about
    alternatives: tuple[Alternative, ...]  # the answers, the commonest first
    roles: tuple[str, ...] = ()  # inputs and outputs without which the question makes no sense
    types: tuple[str, ...] = ()  # element types of the first of `roles` for which it makes sense; empty for all
    # an element type of the first of `roles`, and a parameter with a value, by which it is answered: a byte that holds
    # one value says by its type whether that has a sign
    settled: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True, slots=True)
class Distance:
    """A number that says how far apart elements of a role lie."""

    role: str  # whose elements
    value: str  # what it is where the role lies as `parameters` say: "K", or "K if transpose_b else N"
    spellings: str  # how sources call it
    batches: bool = False  # whether it is the distance between matrices, not rows


@dataclass(frozen=True, slots=True)
class Packed:
    """Several inputs in one storage, one more axis telling them apart."""

    parts: tuple[str, ...]  # their roles, in the order in which they lie along that axis
    # orders of the axes in memory, the usual one first; the new one is the number of parts: "BS3HD"
    layouts: tuple[str, ...]
    spellings: str = ""  # how sources call its pointer
    # of a layout in which the parts lie one behind the other, sizes of blocks in which they may take turns instead: the
    # operation's parameter `block` is that then
    blocks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        """The usual order of the axes."""
        return self.layouts[0]


@dataclass(frozen=True, slots=True)
class Trait:
    """Something that code does."""

    pattern: str  # what shows it, in code without comments; "" for a multiplication on tensor cores
    # lacks, has: clauses about code without it, and with it; `{found}` is what shows it
    lacks: str
    has: str


@dataclass(frozen=True, slots=True)
class Signs:
    """What tells that a kernel computes an operation, besides the spellings of its roles."""

    names: str  # words in the names of kernels that speak for it
    parts: tuple[str, ...] = ()  # operations that it consists of, of which a kernel's name may speak, too
    within_any: bool = False  # whether every other operation may have it as a part: an activation
    agreeing: str = ""  # words in names that agree with it, and speak for it no more than for others
    # words in names that agree with it only where a parameter's formula, or an input of `explains`, is seen
    extras: str = ""
    explains: tuple[str, ...] = ()
    # what its code does. excludes: what its code does not do, unless a formula for it is known.
    needs: tuple[Trait, ...] = ()
    excludes: tuple[Trait, ...] = ()
    arrays: bool = False  # whether arrays with its roles' names speak for it where the kernel's name does not
    # what names and code do not tell, a clause; it is then never taken without being asked for. "" for nothing.
    open: str = ""
    scratch: str = ""  # names of pointers that are the kernel's own workspaces, where all of them are there


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation that a card can name."""

    name: str  # as a card has it; also the name of the file
    meaning: str  # a formula
    # its tensors by name, in the order in which kernels usually take them
    roles: Mapping[str, Role] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)  # by name
    # the float64 reference. bound: of what rounding explains. Both None for what the user's function says.
    oracle: Oracle | None = None
    bound: Bound | None = None
    # the matrix products that its outputs are made of, by output, from its parameters; None where that is not known
    products: Callable[[Values], Mapping[str, MatrixProduct]] | None = None
    kept: Kept | None = None  # which summands of them count, where masks leave some out
    stages: StagesOf | None = None  # what values on their way to the outputs must be; None for those of plain products
    # what a symbol is where no case says so: an expression over others
    symbols: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""  # a paragraph for the documentation: what the tables do not say
    separate: tuple[str, ...] = ()  # symbols of axes along which each index is computed of its own inputs' alone
    # extents that kernels are written for, and that arguments and launch need not speak of, with a name
    made_for: Mapping[str, str] = field(default_factory=dict)
    # extents of which a kernel may take one alone, with what that is: {"Sq": "one query in each head"}
    single: Mapping[str, str] = field(default_factory=dict)
    rows: str = ""  # the extent that counts rows, each computed alone: a kernel of one block may take one; "" for none
    # the symbol of parts of an output of which inputs say how long each is; "" for none
    groups: str = ""
    # extents that are another's, but where an array is there that counts them itself: {"key_starts": "U"}
    counted_by: Mapping[str, str] = field(default_factory=dict)
    # extents that are others', or products of them, where nothing speaks of them: filters, as many as channels
    alike: Mapping[str, str] = field(default_factory=dict)
    # extents that usual cases have alike → the second's value in a case of a kernel that takes both as numbers
    apart: Mapping[tuple[str, str], int] = field(default_factory=dict)
    optional: str = ""  # the symbol of a leading axis that tensors have only where it is not 1; "" for none
    divisors: Mapping[str, str] = field(default_factory=dict)  # symbols of which each divides another: {"Hkv": "H"}
    # how sources call the extents: symbol, or a product of symbols → spellings. The first that fits counts.
    extents: Mapping[str, str] = field(default_factory=dict)
    # those of them that mean the longest part of an extent: another number may be that extent itself
    longest: str = ""
    # names of numbers that together mean something else than each alone, as literature has them: name → spelling
    dialects: tuple[Mapping[str, str], ...] = ()
    # numbers that follow from parameters, "{scale}" being one's value: expression → spellings
    derived: Mapping[str, str] = field(default_factory=dict)
    distances: tuple[Distance, ...] = ()  # leading dimensions and strides between matrices
    # inputs that may share one storage, by the name of the role that they then have
    packed: Mapping[str, Packed] = field(default_factory=dict)
    # extents of the cases to begin with: a small one, and one of more than one tile and head
    cases: tuple[Mapping[str, int], ...] = ()
    # extents that kernels take no tiles along, but along what they make together: sides of an image
    untiled: tuple[str, ...] = ()
    # multiplications and additions of its products, an expression over extents and parameters; "" for none
    work: str = ""
    # distributions of inputs that are hard for it, by name
    hard_inputs: Mapping[str, HardInput] = field(default_factory=dict)
    signs: Signs | None = None  # what tells it by names and code; None for what nothing tells
    choices: tuple[Choice, ...] = ()  # what may be read in more than one way
    judged: bool = True  # whether anything is expected of the outputs

    @property
    def of_user(self) -> bool:
        """Whether the card says by a function what is expected."""
        return self.judged and self.oracle is None
