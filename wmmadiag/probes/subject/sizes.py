"""The case, smaller: one of everything first (one tile, one head), growing until it first fails; and square, where the
case is not.

A kernel need not be right for sizes that its card does not name, so only the case itself decides between right and
wrong.
"""

from __future__ import annotations

import time
from dataclasses import replace

from wmmadiag.errors import WmmadiagError
from wmmadiag.probes.subject.model import EVERY, Conclusion, Subject, SubjectProbe
from wmmadiag.subject.card import Case
from wmmadiag.subject.symbols import rendered_entry, rendered_macros
from wmmadiag.subject.verdict import judge_case

_FEW = 5
_SECONDS = 0.3


def run(subject: Subject) -> Conclusion | None:
    """Integer symbols of the case scaled down, as far as the same compiled kernel serves them."""
    started = time.perf_counter()
    tried = []
    for words, case in _cases(subject):
        if time.perf_counter() - started > _SECONDS:
            break
        tried.append((words, _right(subject, case)))
    known = [(words, right) for words, right in tried if right is not None]
    own = subject.base_judged
    if not known and own.right:
        return None
    if not known:
        return Conclusion("wrong", "wrong for the case itself; no other size could be tried", (), (own.where(),))
    detail = tuple(f"{words}: {'right' if right else 'wrong'}" for words, right in known)
    if own.right:
        return Conclusion(
            "right",
            "the case is right"
            + (
                ""
                if all(right for _, right in known)
                else "; of the smaller sizes, which the card does not name, some are wrong"
            ),
            detail=detail,
        )
    wrong = [words for words, right in known if not right]
    fine = [words for words, right in known if right]
    if not fine:
        return Conclusion("wrong", f"wrong from the smallest size on ({wrong[0]})", (), detail)
    square = next((words for words in fine if words.startswith("square")), "")
    if square:
        return Conclusion(
            "wrong",
            f"right when all extents are equal ({square}), wrong for the case: an extent or a leading "
            "dimension stands for another",
            ("leading-dimension", "stride", "condition"),
            detail,
        )
    return Conclusion(
        "wrong",
        f"right for {fine[-1]}, first wrong for {wrong[0] if wrong else 'the case itself'}: one "
        "tile, head or slice is right, several are not",
        (),
        detail,
    )


def _cases(subject: Subject) -> list[tuple[str, Case]]:
    """Smaller and square siblings of the case, the smallest first."""
    symbols = {
        name: value
        for name, value in subject.case.symbols.items()
        if isinstance(value, int) and value > 1 and not isinstance(value, bool)
    }
    found: dict[tuple[tuple[str, int], ...], str] = {}

    def add(words: str, changes: dict[str, int]) -> None:
        key = tuple(sorted(changes.items()))
        if changes and changes != {name: symbols[name] for name in changes} and key not in found:
            found[key] = words

    counts = dict.fromkeys((name for name in symbols if name in ("B", "H", "Hkv", "batch")), 1)
    long = [name for name in symbols if name in ("S", "Sq", "Skv", "M", "N", "K")]
    size = 16
    while long and size < max(symbols[name] for name in long) and len(found) < _FEW:
        changes = {**counts, **{name: min(size, symbols[name]) for name in long}}
        add(", ".join(f"{name} = {value}" for name, value in changes.items()), changes)
        size *= 2
    if counts and any(symbols[name] > 1 for name in counts):
        add("one head and batch", dict(counts))
    if len({symbols[name] for name in long}) > 1:
        most = -(-max(symbols[name] for name in long) // 16) * 16
        add(f"square, {' = '.join(long)} = {most}", dict.fromkeys(long, most))
    return [
        (words, replace(subject.case, symbols={**subject.case.symbols, **dict(key)})) for key, words in found.items()
    ]


def _right(subject: Subject, case: Case) -> bool | None:
    """Whether a size is right; None where the card or the compiled kernel does not serve it."""
    card, variant = subject.bench.card, subject.bench.variant
    try:
        same = rendered_macros(card, case, variant) == rendered_macros(card, subject.case, variant)
        if not same or rendered_entry(card, case, variant) != rendered_entry(card, subject.case, variant):
            return None
        bound = subject.bind(case)
    except WmmadiagError:
        return None
    try:
        subject.kernel.launch(bound.launch)
        return judge_case(bound).status == "passed"
    except WmmadiagError:
        return False


PROBE = SubjectProbe("sizes", "smaller and square sizes: from where on is it wrong?", EVERY, run)
