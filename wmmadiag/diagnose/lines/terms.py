"""The user's lines that a fault model is about: where an input is read, an activation computed, the result stored.

A fault that numbers show (a bias that is not added) has its line in how the kernel accesses memory, whatever names its
source has: the line that reads the input, or the line that stores a result into which it never came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.checks.run import emulator_of
from wmmadiag.diagnose.edits.registry import is_integer
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.faults.problem import MAIN_OUTPUT
from wmmadiag.place import Place
from wmmadiag.subject.check import own_place
from wmmadiag.subject.drafts.source_facts import FORMULAS

_MOST = 6

_FUNCTIONS = {
    "activation": re.compile("|".join(FORMULAS.values()), re.IGNORECASE),
    "softcap": re.compile(r"tanh", re.IGNORECASE),
}
"""What a line that computes a part of the operation has, by the part."""


@dataclass(frozen=True, slots=True)
class About:
    """A line, and what it does as a clause: "reads bias"."""

    place: Place
    words: str


def lines_about(evidence: Evidence, about: str, *, used: bool = True, outer: bool = False) -> tuple[About, ...]:
    """Lines that a fault of an input or a part may be made at, the likeliest first; at most `_MOST`.

    Args:
        about: as `Candidate.about`.
        used: whether lines that use what was read come before those that read it.
        outer: whether a pointer's own definition comes before the lines that read through it: a wrong row, head or
            batch is made there as a rule.
    """
    if about in _FUNCTIONS:
        found = list(_computing(evidence, about))
    else:
        found = list(_reading(evidence, about))
        pointers = [About(at, f"makes the pointer through which line {one.place.line} reads {about}")
                    for one in found for at in _pointers(evidence, one.place)]  # fmt: skip
        uses = [About(use, f"uses what line {one.place.line} reads of {about}")
                for one in found for use in _uses(evidence, one.place)]  # fmt: skip
        first, last = (uses, pointers) if used else (pointers, uses) if outer else ([], [*uses, *pointers])
        found = [*first, *found, *last]
    return tuple(found or _storing(evidence, about))[:_MOST]


_HOLDS = re.compile(r"(?:^|[\s*&])(\w+)\s*(?:\[[^=]*\]\s*)?=\s*([^=].*)$")
_FRAGMENT = re.compile(r"\bstore_matrix_sync\s*\([^,]*,\s*(\w+)")
_SUBSCRIPT = re.compile(r"\[[^\[\]]*\]")
_COMBINED = re.compile(r"[\w)]\s*(?:[-+*/]|[<>?])\s*[\w(]")


def _uses(evidence: Evidence, place: Place) -> Iterator[Place]:
    """Where a variable is used that a line merely fills with what it reads; nothing where the line uses it itself."""
    held = _HOLDS.search(evidence.line_text(place))
    model = evidence.source_model(place.file)
    if held is None or model is None:
        return
    if not re.search(r"[\[(*]", held[2]):
        return  # what is read is used by a condition before it
    value = held[2]
    while _SUBSCRIPT.search(value):
        value = _SUBSCRIPT.sub("", value)
    if _COMBINED.search(re.sub(r"<[\w\s]*>", "", value)):
        return
    function = model.function_at(model.line_starts[place.line - 1])
    if function is None:
        return
    last = model.line_of(max(f.end for f in (function,)) - 1)
    lines = dict.fromkeys(t.line for t in model.tokens if t.text == held[1] and place.line < t.line <= last)
    yield from (Place(place.file, line) for line in lines)


def _reading(evidence: Evidence, role: str) -> Iterator[About]:
    places = [one.place for one in evidence.accesses if role in one.argument.placements and not one.store]
    for place in _once(evidence, places):
        yield About(place, f"reads {role}")


def _pointers(evidence: Evidence, place: Place) -> Iterator[Place]:
    """Where local pointers get their values that a line reads through."""
    model = evidence.source_model(place.file)
    tokens = [token for token in model.tokens if token.line == place.line] if model is not None else []
    filled = max((at for at, token in enumerate(tokens) if token.text == "="), default=-1)
    for token in (one for one in tokens[filled + 1 :] if one.kind == "id"):
        variable = model.variable(token.text, token.offset) if model is not None else None
        if variable is None or variable.kind != "local" or variable.dims or variable.initial is None:
            continue
        if (variable.pointer or "auto" in variable.type) and variable.line != place.line:
            yield Place(place.file, variable.line)


def _computing(evidence: Evidence, part: str) -> Iterator[About]:
    kernel = emulator_of(evidence.run.kernel) if evidence.run.kernel is not None else None
    places = (own_place(node.place) for node in kernel.kernel.nodes) if kernel is not None else ()
    for place in dict.fromkeys(Place(one.file, one.line) for one in places if one.file in evidence.files):
        if _FUNCTIONS[part].search(evidence.line_text(place)):
            yield About(place, f"computes what looks like the {part}")


def _storing(evidence: Evidence, about: str) -> Iterator[About]:
    score = _score(evidence)
    if score is not None:
        clause = f"no line computes the {about}" if about in _FUNCTIONS else f"no line reads {about}"
        yield About(score, f"makes the scores, and {clause}")
        return
    outputs = MAIN_OUTPUT.get(evidence.operation, ())
    seen = [one.place for one in evidence.accesses if one.store and set(outputs) & set(one.argument.placements)]
    clause = f"no line computes the {about}" if about in _FUNCTIONS else f"no line reads {about}"
    for place in _once(evidence, seen or list(evidence.output_lines)):
        words = f"stores the result, and {clause}" if seen else "stores the result"
        made = _made(evidence, place)
        if made is not None:
            yield About(made, f"makes what line {place.line} stores" + (f", and {clause}" if seen else ""))
        yield About(place, words)


def _score(evidence: Evidence) -> Place | None:
    """Where a softmax's scores get the values that are compared or masked; None where no softmax is recognised."""
    found = evidence.softmax
    model = evidence.source_model(found[0]) if found is not None else None
    if found is None or model is None:
        return None
    file, parts = found
    for line in sorted({*parts.masks, *parts.maxima, *(call.line for call in parts.weights)}):
        start = model.line_starts[line - 1]
        function = model.function_at(start)
        first = model.line_of(function.start) if function is not None else line
        for token in (token for token in model.tokens if token.line == line and token.kind == "id"):
            variable = model.variable(token.text, token.offset)
            if variable is None or is_integer(variable) or variable.pointer or token.text in parts.maximum_names:
                continue
            filled = re.compile(rf"\b{token.text}\b\s*(?:\[[^=]*\]\s*)*=[^=].*\*")  # by a product: the scale's
            made = next((at for at in range(line, first - 1, -1) if filled.search(model.lines[at - 1])), None)
            if made is not None:
                return Place(file, made)
    return None


def _made(evidence: Evidence, place: Place) -> Place | None:
    """Where the one variable got its value that a line merely stores."""
    text = evidence.line_text(place)
    held, fragment = _HOLDS.search(text), _FRAGMENT.search(text)
    model = evidence.source_model(place.file)
    names = re.findall(r"\b[A-Za-z_]\w*\b(?!\s*\()", held[2]) if held is not None else []
    if model is None or (len(names) != 1 and fragment is None):
        return None
    if fragment is not None:  # its elements, one by one
        filled = re.compile(rf"\b{fragment[1]}\s*(?:\[[^]]*\])*\.x\s*\[[^]]*\]\s*[-+*/]?=[^=]")
    else:
        filled = re.compile(rf"\b{names[0]}\s*[-+*/]?=[^=]")
    function = model.function_at(model.line_starts[place.line - 1])
    first = model.line_of(function.start) if function is not None else place.line
    lines = (line for line in range(place.line - 1, first - 1, -1) if filled.search(model.lines[line - 1]))
    found = next(lines, None)
    return Place(place.file, found) if found is not None else None


def _once(evidence: Evidence, places: list[Place]) -> list[Place]:
    """Each line once, at the use of a thin wrapper."""
    lifted = (evidence.lifted(place) for place in places)
    return list(dict.fromkeys(Place(one.file, one.line) for one in lifted))
