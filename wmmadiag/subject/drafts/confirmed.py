"""A drafted card held against a run: what the result fits is written into it, and what fits nothing stays a TODO."""

from __future__ import annotations

import re
from pathlib import Path

from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.text import case_lines
from wmmadiag.subject.open_subject import SubjectOptions

_CASES = re.compile(r"^\[\[cases\]\].*", re.DOTALL | re.MULTILINE)
_OPERATION = re.compile(r'^operation = "(\w+)"', re.MULTILINE)


def confirmed(text: str, source: Path, target: Path, options: SubjectOptions) -> str:
    """A drafted card's text with the reading and the sizes under which the kernel is right.

    Under none, the operation is to be confirmed, unless the user said it: a card without a TODO is one that ran, or one
    of a kernel that is wrong by what its user says.

    Args:
        text: a card without a TODO. target: where it will stand.
    """
    from wmmadiag.subject.drafts.derive import derived_card
    from wmmadiag.subject.settling import right_alternative

    try:
        found = right_alternative(derived_card(source, options))
        if found is not None:
            name, card = found
            told = _with_reading(text, parse_card(text, target, shown="the drafted card"), card, name)
            if told:
                return told
    except WmmadiagError:
        pass  # what cannot run here is not confirmed
    if options.computes:
        return text
    return _OPERATION.sub(r'operation = "TODO"  # \1? Nothing that was tried makes the kernel right by it', text, 1)


def _with_reading(text: str, drafted: Card, card: Card, name: str) -> str:
    """The text where it says what another card of the same kernel says; "" where that cannot be written so simply."""
    if card.computes.operation != drafted.computes.operation:
        return ""
    for own, other in zip(drafted.arguments, card.arguments, strict=True):
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
    cases = [(one.name, {key: f"{value}" for key, value in one.symbols.items()}) for one in card.cases]
    text = _CASES.sub(lambda _: "\n".join(case_lines(cases)) + "\n", text, 1)
    remark = f"\n# Assumed: {name}, which is what the result fits.\n# Arguments in"
    return text.replace("\n# Arguments in", remark, 1) if name else text
