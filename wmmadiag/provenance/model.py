"""What a traced run says, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class Multiplication:
    """What one line multiplied into one product.

    Attributes:
        place: the user's line.
        product: words: "Q[0,1] · K[0,1]ᵀ".
        contracts: words: "column of Q[0,1] with column of K[0,1]".
        expected: whether the card's operation has this product; None where the card does not say.
        rows, columns, ks: [first, end) of the product's rows, columns and the contracted index.
        count: multiplications, or rows times columns where operands have gaps.
    """

    place: Place
    product: str
    contracts: str
    expected: bool | None
    rows: tuple[int, int]
    columns: tuple[int, int]
    ks: tuple[int, int]
    count: int


@dataclass(frozen=True, slots=True)
class Reach:
    """Elements of one output that a disagreement reaches.

    Attributes:
        role: of the output.
        elements, of: how many, of how many.
        first: index of the first, in the logical tensor.
        rows, columns: [first, end) of the last two axes.
    """

    role: str
    elements: int
    of: int
    first: tuple[int, ...]
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One cause at one line.

    Attributes:
        kind: "leading-dimension", "transposed", "wrong-axis", "wrong-matrix", "shifted", "broken-operand",
            "uninitialised", "accumulator", "row-statistic", "lost-sums", "incomplete", "repeated", "misplaced".
        place: the user's line; `other`: a second one, such as the multiplication that a load feeds.
        operand: "A", "B", "C", or "" where it is none.
        message: one sentence.
        detail: further lines.
        count: how often it was seen.
        block, warp: where first, None when that is not known.
        reach: outputs that it reaches.
        hint: what would make it agree.
    """

    kind: str
    place: Place
    message: str
    operand: str = ""
    other: Place | None = None
    detail: tuple[str, ...] = ()
    count: int = 1
    block: int | None = None
    warp: int | None = None
    reach: tuple[Reach, ...] = ()
    hint: str = ""

    def finding(self) -> Finding:
        """As a finding of the check "provenance"."""
        return Finding(
            "provenance", self.kind, Level.ERROR, self.message, self.place, self.other, self.count, self.detail,
            self.hint,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutputSummary:
    """How an output's elements are explained.

    Attributes:
        role: of the output.
        elements: how many it has.
        explained: right product, right element, everything added up that must be.
        unknown: the tags do not say (several matrices mixed, or nothing of a matrix).
        wrong: the rest.
    """

    role: str
    elements: int
    explained: int
    unknown: int
    wrong: int


@dataclass(frozen=True, slots=True)
class ProvenanceRun:
    """One traced launch.

    Attributes:
        disagreements: those that reach an output, the one with the widest reach first.
        multiplications: by line and product.
        outputs: one per output that the card's operation says something about.
        notes: what could not be followed.
    """

    disagreements: tuple[Disagreement, ...]
    multiplications: tuple[Multiplication, ...]
    outputs: tuple[OutputSummary, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def explained(self) -> bool:
        """Whether every element of every output is what it must be."""
        return bool(self.outputs) and all(one.explained == one.elements for one in self.outputs)
