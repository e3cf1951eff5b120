"""What an operation is, as data: the classes that a file of `catalogue/` fills in.

Words in which public sources speak of something are one string, separated by blanks, folded as
`subject.drafts.guess` folds names: without case, underscores and marks such as `d_` or `_ptr`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from wmmadiag.numerics.element_types import ElementType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wmmadiag.ops.parts.rounding import Doubles, Judgement

Setting: TypeAlias = str | int | float | bool
"""What a card says of a parameter: a number, the text of an expression, a word, or a boolean."""
Values: TypeAlias = Mapping[str, float | int | bool | str]
"""Evaluated parameters by name."""
Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"
"""Logical tensors by role, as the kernel reads them: in their storage types."""
Elements: TypeAlias = Mapping[str, ElementType]
"""The element type of every role that a kernel has."""
Oracle: TypeAlias = "Callable[[Values, Arrays], dict[str, Doubles]]"
"""The float64 reference: from parameters and inputs to outputs by role, by the textbook formula."""
Bound: TypeAlias = "Callable[[Values, Arrays, Mapping[str, Doubles], Elements], dict[str, Judgement]]"
"""The bound of what rounding explains: from parameters, inputs, and what the oracle gives, by output."""
Draw: TypeAlias = "Callable[[tuple[int, ...], ElementType, int, np.random.Generator], Doubles]"
"""Values of an input in which not every number means something: of shape, type, and the extent that they count along.
"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the values of a role are where nobody says otherwise.

    Attributes:
        values: draws them.
        role, axis: the extent that they count along: lengths of rows of keys are below the keys' number.
        times: another extent, by which that one is multiplied: keys of a page.
    """

    values: Draw
    role: str = ""
    axis: int = -2
    times: tuple[str, int] | None = None

    def extent(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """The number that the values count along, of tensors of these shapes; 0 where they do not tell it."""
        found = 1
        for role, axis in filter(None, ((self.role, self.axis), self.times)):
            shape = shapes.get(role, ())
            found *= shape[axis] if len(shape) >= -axis else 0
        return found


@dataclass(frozen=True, slots=True)
class HardInput:
    """A distribution that is hard for an operation.

    Attributes:
        meaning: one line for the documentation.
        change: changes standard normal values by role, in place.
    """

    meaning: str
    change: Callable[[dict[str, Doubles], np.random.Generator], None]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation.

    Attributes:
        kind: "real" (an expression), "cap" (one that is not negative), "flag" (a boolean, or an expression that is 0
            or not), "int" (from 1 on), "count" (from 0 on), "reach" (a number from 0 on, or -1), or "word".
        default: its value when the card does not give it.
        words: for "word", what it may be.
        meaning: one line for the documentation and for drafted cards.
        spellings: how sources call it.
        drafted: where a kernel takes it as a number, its value in the first of the drafted cases, and in the others: a
            wrong factor then shows in the second one alone. None for one that has its default there.
        factor_of: the input that it multiplies: a kernel that takes it reads that input, too.
        formulas: what code has that computes one of its words, as patterns in which case does not matter.
        asked: why a draft asks for it where the kernel does not take it as a number; "" where its default is as good.
    """

    kind: str
    default: str | bool
    meaning: str
    words: tuple[str, ...] = ()
    spellings: str = ""
    drafted: tuple[str, str] | None = None
    factor_of: str = ""
    formulas: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Role:
    """One tensor of an operation.

    Attributes:
        axes: letters of its usual logical axes, outermost first.
        shape: expressions of its usual shape over the usual symbols.
        output: whether the kernel computes it.
        required: whether a card must have it.
        usual: of a role that is spread over the axes that it lacks: letters of those that it usually has, where no
            layout names others; "" for a role that has all of its axes.
        drawn: what its values are where nobody says otherwise; None for the case's distribution.
        spellings: how sources call its pointer.
        not_beside: some of its spellings, and names of other pointers beside which they mean something else.
        element: "float" or "int" where its values can be no other; "" for any.
        instead: the role that a pointer of its name has whose elements are others; "" for none.
        asked: why a draft asks for its layout; "" where the order of its axes is the usual one.
        shared: whether its first axis may have extent 1, or be left out, and then is the same for all matrices.
        updates: of an output: the input that a kernel may write it over. "" for none.
    """

    axes: str
    shape: tuple[str, ...]
    output: bool = False
    required: bool = True
    usual: str = ""
    drawn: Drawn | None = None
    spellings: str = ""
    not_beside: tuple[str, str] = ("", "")
    element: Literal["", "float", "int"] = ""
    instead: str = ""
    asked: str = ""
    shared: bool = False
    updates: str = ""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One answer to a question about a kernel: settings, with a name for people.

    Attributes:
        name: "B stored as N×K, as nn.Linear has it".
        parameters: what `[computes]` then says, by name.
        layouts: the order of the axes in memory, by role; "" for the order in which the operation lists them.
        updated: whether the output is read, too: it then lies where its `Role.updates` does. None for "as it is".
        packed: of inputs in one storage, the role of which that is and the order of its axes; None for "as it is".
        deliberate: whether kernels are written so on purpose. A scale that is left out is a mistake as often.
    """

    name: str
    parameters: Mapping[str, Setting] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    updated: bool | None = None
    packed: tuple[str, str] | None = None
    deliberate: bool = True


Kind: TypeAlias = Literal["storage", "meaning", "arithmetic"]
"""What a question is about: where elements lie, what is computed of them, or in which type."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A question about a kernel that its source may leave open.

    Attributes:
        question: "How is B stored?"
        kind: what it is about.
        alternatives: the answers, the commonest first.
        roles: inputs and outputs without which the question makes no sense.
        types: element types of the first of `roles` for which it makes sense; empty for all.
    """

    question: str
    kind: Kind
    alternatives: tuple[Alternative, ...]
    roles: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Distance:
    """A number that says how far apart elements of a role lie.

    Attributes:
        role: whose elements.
        value: what it is where the role lies as `parameters` say: "K", or "K if transpose_b else N".
        spellings: how sources call it.
        batches: whether it is the distance between matrices, not rows.
    """

    role: str
    value: str
    spellings: str
    batches: bool = False


@dataclass(frozen=True, slots=True)
class Packed:
    """Several inputs in one storage, one more axis telling them apart.

    Attributes:
        parts: their roles, in the order in which they lie along that axis.
        layouts: orders of the axes in memory, the usual one first; the new one is the number of parts: "BS3HD".
        spellings: how sources call its pointer.
    """

    parts: tuple[str, ...]
    layouts: tuple[str, ...]
    spellings: str = ""

    @property
    def layout(self) -> str:
        """The usual order of the axes."""
        return self.layouts[0]


@dataclass(frozen=True, slots=True)
class Trait:
    """Something that code does.

    Attributes:
        pattern: what shows it, in code without comments; "" for a multiplication on tensor cores.
        lacks, has: clauses about code without it, and with it; `{found}` is what shows it.
    """

    pattern: str
    lacks: str
    has: str


@dataclass(frozen=True, slots=True)
class Told:
    """What tells that a kernel computes an operation, besides the spellings of its roles.

    Attributes:
        names: words in the names of kernels that speak for it.
        parts: operations that it consists of, of which a kernel's name may speak, too.
        extras: words in names that agree with it only where a parameter's formula, or an input of `explains`, is seen.
        needs: what its code does. excludes: what its code does not do, unless a formula for it is known.
        arrays: whether arrays with its roles' names speak for it where the kernel's name does not.
        open: what names and code do not tell, a clause; it is then never taken without being asked for. "" for nothing.
        scratch: names of pointers that are the kernel's own workspaces, where all of them are there.
    """

    names: str
    parts: tuple[str, ...] = ()
    extras: str = ""
    explains: tuple[str, ...] = ()
    needs: tuple[Trait, ...] = ()
    excludes: tuple[Trait, ...] = ()
    arrays: bool = False
    open: str = ""
    scratch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation that a card can name.

    Attributes:
        name: as a card has it; also the name of the file.
        meaning: a formula.
        notes: a paragraph for the documentation: what the tables do not say.
        roles: its tensors by name, in the order in which kernels usually take them.
        parameters: by name.
        oracle: the float64 reference. bound: of what rounding explains. Both None for what the user's function says.
        symbols: what a symbol is where no case says so: an expression over others.
        separate: symbols of axes along which each index is computed of its own inputs' alone.
        made_for: extents that kernels are written for, and that arguments and launch need not speak of, with a name.
        single: extents of which a kernel may take one alone, with what that is: {"Sq": "one query in each head"}.
        optional: the symbol of a leading axis that tensors have only where it is not 1; "" for none.
        divisors: symbols of which each divides another: {"Hkv": "H"}.
        extents: how sources call the extents: symbol, or a product of symbols → spellings. The first that fits counts.
        derived: numbers that follow from parameters, "{scale}" being one's value: expression → spellings.
        distances: leading dimensions and strides between matrices.
        packed: inputs that may share one storage, by the name of the role that they then have.
        cases: extents of the cases to begin with: a small one, and one of more than one tile and head.
        work: multiplications and additions of its products, an expression over extents and parameters; "" for none.
        hard_inputs: distributions of inputs that are hard for it, by name.
        told: what tells it by names and code; None for what nothing tells.
        choices: what may be read in more than one way.
        judged: whether anything is expected of the outputs.
    """

    name: str
    meaning: str
    roles: Mapping[str, Role] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    oracle: Oracle | None = None
    bound: Bound | None = None
    symbols: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""
    separate: tuple[str, ...] = ()
    made_for: Mapping[str, str] = field(default_factory=dict)
    single: Mapping[str, str] = field(default_factory=dict)
    optional: str = ""
    divisors: Mapping[str, str] = field(default_factory=dict)
    extents: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    distances: tuple[Distance, ...] = ()
    packed: Mapping[str, Packed] = field(default_factory=dict)
    cases: tuple[Mapping[str, int], ...] = ()
    work: str = ""
    hard_inputs: Mapping[str, HardInput] = field(default_factory=dict)
    told: Told | None = None
    choices: tuple[Choice, ...] = ()
    judged: bool = True

    @property
    def of_user(self) -> bool:
        """Whether the card says by a function what is expected."""
        return self.judged and self.oracle is None
