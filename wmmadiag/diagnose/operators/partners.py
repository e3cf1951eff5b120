"""What is added to and multiplied by what, somewhere in a program: the terms and factors worth trying elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Text, binary, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Atom, pools

_MOST = 6
# log2(e) and ln(2): what lies between powers of e and powers of 2.
_LOGARITHMS = ("1.4426950408889634f", "0.6931471805599453f")
_MOST_MEMBERS, _MOST_SHIFTS, _MOST_UNITS, _MOST_WHOLES = 3, 4, 2, 2
_MOST_NAMES, _MOST_FACTORS, _MOST_NUMBERS, _MOST_BOUNDS, _MOST_OFFSETS = 8, 5, 2, 3, 12


class Partners:
    """The sums and products of a program, read once."""

    def __init__(self, program: Program) -> None:
        self._pool = pools(program)
        self._factors: dict[str, Expression] = {}
        self._divisors: dict[str, Expression] = {}
        # Sizes, by what they multiply.
        self._times: dict[str, dict[str, Expression]] = defaultdict(dict)
        # The same, by every name that is a term of what they multiply: `(k + 1) * s` says that `k` counts by `s`.
        self._units: dict[str, dict[str, Expression]] = defaultdict(dict)
        self._reals: dict[str, Expression] = {}
        self._summed: set[str] = set()
        self._offsets: dict[str, Expression] = {}
        further: dict[str, Expression] = {}
        self._wholes: dict[str, Expression] = {}  # products that are all of an index
        # Terms, by another term of the same sum, with whether only one of both is subtracted.
        self._beside: dict[str, dict[str, tuple[Expression, bool]]] = defaultdict(dict)
        # Of what `w` is added to `x / p`, by `x`: `w` and `p`.
        self._in_units: dict[str, list[tuple[Expression, Expression]]] = defaultdict(list)
        # What is added to something, and what is multiplied, or divides.
        self._added: set[str] = set()
        self._scaled: set[str] = set()
        self._powers = any(
            b"exp2" in text or b"ex2." in text or b"log2" in text or b"lg2." in text for text in program.texts.values()
        )
        for one in program.all_expressions():
            if one.kind == "assignment" and one.operator == "+=" and one.type.kind == "float":
                self._summed.add(one.operands[0].text)
            if one.kind != "binary":
                continue
            self._added_or_scaled(one)
            if one.operator in ("+", "-") and sums.top(one):
                self._sum(one)
            if one.operator == "*" and one.role in ("coordinate", "offset") and one.varying is not False:
                further.setdefault(one.text, one)
            if one.operator == "*" and one.type.whole:
                for part in one.operands:
                    size = part.role == "pitch" or (part.role == "extent" and part.kind != "literal")
                    if part.atom and part.varying is False and size:
                        self._factors.setdefault(part.text, part)
                    if part.atom and part.varying is not True:
                        self._multiplied(sums.uncast(one.operands[1 - part.number]), part)
            elif one.operator == "/" and one.type.whole and one.operands[1].varying is False:
                self._divisors.setdefault(one.operands[1].text, one.operands[1])
            elif one.operator == "*" and one.type.kind == "float":
                for part in one.operands:
                    if part.atom:
                        self._reals.setdefault(part.text, part)
        for text, one in further.items():
            self._offsets.setdefault(text, one)

    def _added_or_scaled(self, one: Expression) -> None:
        if one.type.whole and one.operator in ("+", "-", "*", "/", "%"):
            atoms = [part.text for part in one.operands if part.atom]
            (self._added if one.operator in ("+", "-") else self._scaled).update(atoms)
            if one.operator == "*" and one.varying is not False and _is_index(one):
                self._wholes.setdefault(one.text, one)

    def _multiplied(self, one: Expression, size: Expression) -> None:
        self._times[one.text].setdefault(size.text, size)
        for term in sums.terms(one):
            self._units[sums.uncast(term.expression).text].setdefault(size.text, size)

    def factors(self, one: Expression) -> Iterator[Text]:
        """The sizes that something is multiplied by, the names before the numbers."""
        own = {part.text for part in sums.factors(one)}
        yield from self._visible(one, list(self._times[sums.uncast(one).text].values()), own)
        sizes = (atom for atom in self._pool.at(one) if atom.type.whole and atom.varying is False)
        # What nothing uses is likeliest to have been left out here.
        idle = [atom for atom in sizes if atom.text not in self._pool.roles]
        yield from (Text(atom.text) for atom in idle if atom.root == atom.text)
        members = [atom for atom in idle if atom.root not in ("", atom.text)]
        yield from (Text(atom.text, precedence.POSTFIX) for atom in members[:_MOST_MEMBERS])
        names = [part for part in self._factors.values() if part.kind != "literal"]
        numbers = [part for part in self._factors.values() if part.kind == "literal"]
        bounds = [atom for atom in self._pool.at(one) if atom.text not in self._factors and self._bounds(atom)]
        yield from (Text(atom.text, precedence.POSTFIX) for atom in bounds[:_MOST_BOUNDS])
        # What a kernel is given is likelier to be a pitch than what is known before it runs.
        known = {atom.text: atom.constant for atom in self._pool.at(one)}
        names.sort(key=lambda part: known.get(part.text, True))
        yield from self._visible(one, [*names[:_MOST_NAMES], *numbers[:_MOST_NUMBERS]], own, _MOST_NAMES + 1)

    def _bounds(self, atom: Atom) -> bool:
        """Whether something is compared with a size."""
        roles: Set[str] = self._pool.roles.get(atom.text, set())
        return atom.type.whole and atom.varying is not True and bool(roles & {"bound", "loop bound"})

    def units(self, one: Expression) -> Iterator[Text]:
        """The sizes that something is multiplied by, alone or with what is added to it."""
        around = one.parent
        own = {part.text for part in around.under()} if around is not None else set()
        return self._visible(one, list(self._units[one.text].values()), own)

    def divisors(self, one: Expression) -> Iterator[Text]:
        """The sizes that something is divided by."""
        return self._visible(one, list(self._divisors.values()), {part.text for part in one.under()})

    def counts(self, one: Expression) -> Iterator[Text]:
        """How many something is the sum of: sizes that are loops' ends."""
        if one.text in self._summed:
            ends = [atom for atom in self._pool.at(one) if atom.type.whole and atom.varying is False]
            ends = [atom for atom in ends if "loop bound" in self._pool.roles.get(atom.text, set())]
            ends.sort(key=lambda atom: atom.constant)
            yield from (Text(atom.text, precedence.POSTFIX) for atom in ends[:_MOST_FACTORS])

    def reals(self, one: Expression) -> Iterator[Text]:
        """The real numbers in scope that something may be scaled by."""
        own = {part.text for part in one.under()}
        found = [atom for atom in self._pool.at(one) if atom.type.kind == "float" and atom.text not in own]
        found.sort(key=lambda atom: atom.text in self._pool.roles)
        names = [Text(atom.text, precedence.POSTFIX) for atom in found]
        numbers = [part for part in self._reals.values() if part.kind == "literal"]
        yield from names[:_MOST]
        if one.role == "initial value" and self._powers:
            yield from (Text(text) for text in _LOGARITHMS)
        yield from self._visible(one, numbers, own)

    def offsets(self, one: Expression) -> Iterator[Text]:
        """What is added to pointers: first what stands beside one of its own terms elsewhere."""
        own = dict.fromkeys(part.expression.text for part in sums.terms(one))  # in their order
        most = _MOST_OFFSETS if one.atom else _MOST_OFFSETS // 3
        beside = {key: part for text in own for key, (part, negative) in self._beside[text].items() if not negative}
        return self._visible(one, list((beside | self._offsets).values()), {*own}, most)

    def terms(self, one: Expression) -> Iterator[tuple[Text, bool]]:
        """What is added to one of its terms elsewhere, with whether it is subtracted, as from a term that is; `w * p`,
        too, where `w` is added to `x / p`."""
        own = {part.expression.text: part.negative for part in sums.terms(one)}  # in their order
        found: dict[str, tuple[Expression, bool]] = {}
        for text, less in own.items():
            for key, (part, negative) in self._beside[text].items():
                found.setdefault(key, (part, negative != less))
        for atom in self._pool.at(one):
            # What nothing uses is likeliest to have been left out here.
            idle = atom.root == atom.text and atom.text not in self._pool.roles
            if idle and atom.type.whole:
                yield Text(atom.text), False
        made = 0
        # The simplest terms are the likeliest to be left out.
        for key, (part, negative) in sorted(found.items(), key=lambda item: (not item[1][0].atom, len(item[0]))):
            if key not in own and made < _MOST and self._pool.visible(part, one):
                made += 1
                yield text_of(part), negative
        for text in self._shifts(one):
            if text not in own and text not in found:
                yield Text(text), False
        if _is_index(one):
            others = [part for part in self._wholes.values() if not part.names & one.names]
            yield from ((text, False) for text in self._visible(one, others, set(), _MOST_WHOLES))
        for text in own:
            for part, size in self._in_units[text][:_MOST_UNITS]:
                if self._pool.visible(part, one) and self._pool.visible(size, one):
                    yield binary(text_of(part), "*", text_of(size)), False

    def _shifts(self, one: Expression) -> list[str]:
        """The names in scope that are added wherever they are used, and never multiplied: where something begins, by
        how much it is moved; the last declared first."""
        names = [atom.text for atom in self._pool.at(one) if atom.root == atom.text and atom.type.whole]
        return [text for text in names[::-1] if text in self._added and text not in self._scaled][:_MOST_SHIFTS]

    def _sum(self, one: Expression) -> None:
        held = sums.terms(one)
        for first in held:
            kept = first.expression
            if kept.type.address:
                continue
            if kept.kind == "binary" and kept.operator == "/" and not first.negative:
                beside = (second.expression for second in held if second is not first and not second.negative)
                units = [(part, kept.operands[1]) for part in beside if part.type.whole]
                self._in_units[kept.operands[0].text] += units
            if one.type.address:
                self._offsets.setdefault(kept.text, kept)
                # The beginning of a product is an offset of something smaller.
                while kept.kind == "binary" and kept.operator == "*" and kept.operands[0].kind == "binary":
                    kept = kept.operands[0]
                    self._offsets.setdefault(kept.text, kept)
                kept = first.expression
            if not kept.type.whole:
                continue
            for second in held:
                if second is not first and not second.expression.type.address:
                    self._beside[second.expression.text].setdefault(
                        kept.text, (kept, first.negative != second.negative)
                    )

    def _visible(self, one: Expression, listed: list[Expression], own: set[str], most: int = _MOST) -> Iterator[Text]:
        found = (part for part in listed if part.text not in own and self._pool.visible(part, one))
        for number, part in enumerate(found):
            if number == most:
                return
            yield text_of(part)


def _is_index(one: Expression) -> bool:
    """Whether it is all of an index."""
    return one.role == "index" and one.parent is not None and one.parent.kind == "subscript"


def partners(program: Program) -> Partners:
    """The partners of a program."""
    return program.once(Partners)
