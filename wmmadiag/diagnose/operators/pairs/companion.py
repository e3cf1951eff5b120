"""What is done to one of two that are set together, done to the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping

from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.shapes import Shapes, Tokens, renamed, renaming, shapes

_MOST = 3


@operator
def companion(program: Program) -> Iterator[Draft]:
    """`id[i] = id[j];` beside `d[i] = d[j];`, where `d[k] = x; id[k] = y;` or `x = d[k]; y = id[k];` stands
    elsewhere."""
    known = shapes(program)
    learned = _learned(program, known)
    for one in program.statements:
        tokens = known.tokens(one)
        if one.kind != "expression" or not one.braced or not tokens or tokens[0].kind != "name":
            continue
        scope = program.names_at(one.unit, one.end)
        target = tokens[0].text
        set_beside = {known.tokens(other)[0].text for other in one.block if known.tokens(other)}
        here = {token.text for token in tokens}
        free = {token.text for number, token in enumerate(tokens) if not _is_member(tokens, number)}
        # What says most of this statement's names comes first.
        ways = sorted(learned.get(target, ()), key=lambda way: -len(here & way[0].keys()))
        for names, first in ways[:_MOST]:
            own = {token.text: _other_name(token.text, names, scope) for token in tokens if token.kind == "name"}
            named = {new for name, new in own.items() if new != name and name in free}
            if own[target] in set_beside or not all(new in scope for new in named):
                continue
            text = renamed(one, tokens, own)
            make = inserted_after if first else inserted_before
            yield make(one, text, f"{text[:50]} beside this line", one.role)


def _is_member(tokens: Tokens, number: int) -> bool:
    """Whether a token is the name of a member, or of something in a scope."""
    before = "".join(token.text for token in tokens[max(0, number - 2) : number])
    return before.endswith((".", "->", "::"))


def _other_name(name: str, names: Mapping[str, str], scope: Container[str]) -> str:
    """The companion of a name: as it was learned, or with a part of it that was (`row_l_new`: `row_m_new`)."""
    if name in names:
        return names[name]
    parts = name.split("_")
    other = "_".join(names.get(part, part) for part in parts)
    return other if len(parts) > 1 and other in scope else name


def _learned(program: Program, known: Shapes) -> Mapping[str, list[tuple[dict[str, str], bool]]]:
    """By a name: what a neighbour of the same shape has for the names of a statement, and whether that follows."""
    found: dict[str, list[tuple[dict[str, str], bool]]] = defaultdict(list)
    for one in program.statements:
        if one.kind not in ("expression", "declaration") or one.index + 1 >= len(one.block):
            continue
        other = one.block[one.index + 1]
        for names, first in ((_between(known, one, other), True), (_between(known, other, one), False)):
            for name in names:
                if (names, first) not in found[name]:
                    found[name].append((names, first))
    return found


def _between(known: Shapes, one: Statement, other: Statement) -> dict[str, str]:
    """What differs between two statements of one shape that set different things."""
    some, others = known.tokens(one), known.tokens(other)
    if not some or len(some) != len(others) or other not in known.like(one):
        return {}
    names = renaming(some, others) or {}
    sets_other = some[0].kind == others[0].kind == "name" and names.get(some[0].text, "") != some[0].text
    numbers = {token.text for token in some if token.kind != "name"}
    return {name: new for name, new in names.items() if name != new and name not in numbers} if sets_other else {}
