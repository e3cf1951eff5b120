"""A drafted card held against a run: what the result fits is written into it, and what fits nothing stays a TODO."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from pathlib import Path

from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.text import case_lines, draft_text, quoted
from wmmadiag.subject.open_subject import SubjectOptions

_CASES = re.compile(r"^\[\[cases\]\].*", re.DOTALL | re.MULTILINE)
_OPERATION = re.compile(r'^operation = "(\w+)"', re.MULTILINE)


def confirmed(source: Path, target: Path, options: SubjectOptions) -> str | None:
    """The text of a card that a run confirms; None where not everything of it can be derived.

    It has the meaning of arguments, the launch, the reading and the sizes under which the kernel is right. Under none,
    the operation is to be confirmed, unless the user said it: a card without a TODO is one that ran, or one of a kernel
    that is wrong by what its user says.

    Args:
        target: where the card will stand.
    """
    from wmmadiag.subject.alternatives import right_alternative
    from wmmadiag.subject.drafts.derive import derived_card, kernel_of

    try:
        kernel = kernel_of(GivenSource(source, options))
        card = derived_card(source, replace(options, entry=kernel.entry) if kernel.stages else options)
    except ConfigurationError:
        return None
    if card.text:
        return _by_formula(card, target) if kernel.together is None else None
    if card.derived is None:
        return None
    text = _text(card, source, target)
    with contextlib.suppress(WmmadiagError):  # what cannot run here is not confirmed
        found = right_alternative(card)
        if found is not None:
            name, right = found
            own = _text(right, source, target)  # its arguments may mean something else
            told = _with_reading(own, parse_card(own, target, shown="the drafted card"), right, name)
            if told:
                return told
    if options.computes:
        return text
    return _OPERATION.sub(r'operation = "TODO"  # \1? Nothing that was tried makes the kernel right by it', text, 1)


def _text(card: Card, source: Path, target: Path) -> str:
    """The text of a derived card as it was drafted."""
    drafted = card.derivation.draft
    remarks = [*card.assumed, *drafted.remarks]
    drafted = replace(drafted, remarks=[one for one in dict.fromkeys(remarks) if "it has a card" not in one])
    relative = Path(os.path.relpath(card.path, target.parent)).as_posix()  # of the file that launches it
    return draft_text(drafted, relative, source.stem, _cases(card))


def _by_formula(card: Card, target: Path) -> str:
    """The text of a card that has formulas in comments of its source as the reference."""
    source = quoted(Path(os.path.relpath(card.path, target.parent)).as_posix())
    rounding = f"rounding = {quoted(card.computes.rounding)}\n" if card.computes.rounding else ""
    formula = f"formula = [{', '.join(map(quoted, card.computes.formula))}]\n{rounding}"
    text = re.sub(r'^source = ".*"$', lambda _: f"source = {source}", card.text, flags=re.MULTILINE)
    text = re.sub(r"^formula = .*\n", lambda _: formula, text, flags=re.MULTILINE)
    assumed = "".join(f"# Assumed: {one}.\n" for one in card.assumed if "it has a card" not in one)
    cases = "\n".join(case_lines(_cases(card)))
    return _CASES.sub(lambda _: cases, text, 1).replace("\n[[arguments]]", f"\n{assumed}[[arguments]]", 1)


def _cases(card: Card) -> list[tuple[str, dict[str, str]]]:
    return [(one.name, {key: f"{value}" for key, value in one.symbols.items()}) for one in card.cases]


def _with_reading(text: str, drafted: Card, card: Card, name: str) -> str:
    """The text where it says what another card of the same kernel says; "" where that cannot be written so simply."""
    if card.computes.operation != drafted.computes.operation:
        return ""
    for own, other in zip(drafted.arguments, card.arguments, strict=True):
        if other.packing != own.packing:
            said = f'role = "{other.packed}"\nlayout = "{other.packing}"'
            text, count = re.subn(rf'^role = "{own.packed}"', said, text, count=1, flags=re.MULTILINE)
            if not count:
                return ""
            continue
        for view, meant in zip(own.views, other.views, strict=True):
            if (view.role, view.layout) == (meant.role, meant.layout):
                continue
            said = f'role = "{meant.role}"' + (f'\nlayout = "{meant.layout}"' if meant.layout else "")
            place = rf'^role = "{view.role}"(?:\nlayout = "\w+")?'
            text, count = re.subn(place, said, text, count=1, flags=re.MULTILINE)
            if not count:
                return ""
    for key, value in card.computes.parameters.items():
        if drafted.computes.parameters.get(key) != value:
            text = re.sub(rf"^(?:# )?{key} = .*\n", "", text, count=1, flags=re.MULTILINE)
            line = f'{key} = "{value}"'
            text = _OPERATION.sub(rf"\g<0>\n{line}", text, 1)
    text = _CASES.sub(lambda _: "\n".join(case_lines(_cases(card))) + "\n", text, 1)
    remark = f"\n# Assumed: {name}, which is what the result fits.\n# Arguments in"
    return text.replace("\n# Arguments in", remark, 1) if name else text
