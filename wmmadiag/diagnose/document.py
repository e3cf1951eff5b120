"""Writes docs/hypotheses.md from the modules' own words: `python -m wmmadiag.diagnose.document [FILE]`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from wmmadiag.diagnose.edits.registry import generators
from wmmadiag.diagnose.faults.registry import all_fault_models
from wmmadiag.diagnose.registry import Hypothesis, all_hypotheses
from wmmadiag.docstrings import prose_and_examples, write_page

_HEAD = """\
# Hypotheses

`wmmadiag diagnose` asks each of these of a failing case: is this what is wrong, and on which line? What checks,
provenance and fault models show makes a claim; where the line or the cause is not certain, changes are tried on a copy
of the source, and the one that makes every case pass decides. A cause is *proven* (checks or provenance show it at a
line, or a change that was tried), or *reproduced* (the float64 reference, changed in this one way, gives the kernel's
output within the bound); the others are *refuted*, *not applicable* or *undecided*, each with the reason.

This page is made by `python -m wmmadiag.diagnose.document`.
"""
_FAULTS = """\
# Fault models

What a run leaves no other trace of is looked for in the numbers: the float64 reference is changed in exactly one way
and compared with the output, within the rounding bound. The plainest are asked first.
"""
_EDITS = """\
# Changes that are tried

Each kind of change is made where the evidence points, the likeliest first; a name that the source has is preferred to a
number. What compiles and makes every case pass, with no new finding, is shown as a diff.
"""

_MANY = 20


def page() -> str:
    """The page as Markdown."""
    sections = [_hypothesis(one) for one in all_hypotheses().values()]
    return "\n".join([_HEAD, *sections, _FAULTS, _faults(), _EDITS, _edits()])


def _hypothesis(one: Hypothesis) -> str:
    module = importlib.import_module(f"wmmadiag.diagnose.hypotheses.{one.id.replace('-', '_')}")
    text, code = prose_and_examples(module.__doc__ or "")
    return f"## {one.id}\n\n{one.title[0].upper()}{one.title[1:]}.\n\n{text}\n{code}"


def _faults() -> str:
    rows = []
    for model in all_fault_models():
        first = (model.propose.__doc__ or "").strip().partition("\n")[0].strip()
        rows.append(f"| {first} | {', '.join(sorted(model.operations))} |")
    return "\n".join(["| what is changed | of |", "|---|---|", *rows, ""])


def _edits() -> str:
    """One row per module of generators: its first sentence, and what it may mend."""
    mends: Mapping[str, set[str]] = {one.doc: set() for one in generators()}
    for one in generators():
        mends[one.doc] |= one.hypotheses
    rows = []
    for doc, hypotheses in mends.items():
        text, _ = prose_and_examples(doc)
        named = ", ".join(sorted(hypotheses)) if len(hypotheses) < _MANY else "most of them"
        rows.append(f"| {' '.join(text.split())} | {named} |")
    return "\n".join(["| what is tried | for |", "|---|---|", *sorted(rows), ""])


def main() -> None:
    """Write the page."""
    write_page(page(), "docs/hypotheses.md")


if __name__ == "__main__":
    main()
