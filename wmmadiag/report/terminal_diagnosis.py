"""A diagnosis as text for a terminal of 80 columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from wmmadiag.results.diagnosis import Cause, Diagnosis, Excerpt, Fix, FixStatus, Tested
from wmmadiag.results.text import diff_lines, one_line, split_place, visible, wrapped_line

RULED_OUT = 8
"""Of what was ruled out, so much is told; the others are counted, unless verbose."""

# Select Graphic Rendition codes, ECMA-48 section 8.3.117.
_BOLD, _RED, _GREEN, _CYAN, _FAINT = "1", "31", "32", "36", "2"
_CODE = 120
"""Columns of source that are shown."""

_FIX_WORDS: dict[FixStatus, str] = {
    "verified": "verified",
    "improves": "helps, but not enough",
    "suggestion": "suggestion",
}


def render(diagnosis: Diagnosis, *, colour: bool = False, verbose: bool = False) -> str:
    """The diagnosis as text, ending with a newline.

    Args:
        colour: with terminal colour codes.
        verbose: everything that was tested.
    """
    return "\n".join(diagnosis_lines(diagnosis, colour=colour, verbose=verbose)) + "\n"


def diagnosis_lines(diagnosis: Diagnosis, *, colour: bool = False, verbose: bool = False) -> list[str]:
    """Lines of `render`."""
    about = f"{diagnosis.variant} / {diagnosis.case}" if diagnosis.case else diagnosis.variant
    lines = [_painted(one_line(f"diagnosis of {diagnosis.name}, {about}".rstrip(", ")), _BOLD, colour)]
    if not diagnosis.told_by_headline:
        lines += wrapped_line(diagnosis.headline, "  ")
    for assumed in diagnosis.assumed:
        lines += wrapped_line(f"only if this holds, which nobody said: {assumed}", "  ", "    ")
    for number, cause in enumerate(diagnosis.causes, 1):
        lines += [""] * (len(lines) > 1) + [*_cause_lines(cause, number, len(diagnosis.causes), colour)]
    if diagnosis.symptoms:
        lines += ["", "  what was seen", *_items(diagnosis.symptoms)]
    lines += _tested_lines(diagnosis.tested, verbose)
    if diagnosis.unseen:
        lines += ["", "  what this run could not see", *_items(diagnosis.unseen)]
    if work_line(diagnosis):
        lines += ["", *wrapped_line(work_line(diagnosis), "  ", "    ")]
    if diagnosis.repeat:
        lines += ["", f"  repeat: {one_line(diagnosis.repeat)}"]
    return lines


def _cause_lines(cause: Cause, number: int, of: int, colour: bool) -> list[str]:
    head = f"{number}. " if of > 1 else ""
    sentence = wrapped_line(f"{head}{cause.sentence}", "  ", "  " + " " * len(head))
    lines = [_painted(line, _RED + ";" + _BOLD, colour) for line in sentence]
    lines += wrapped_line(f"{how_sure(cause)}: {_explains(cause)} [{cause.name}]", "     ")
    if cause.place:
        also = f"; see also {one_line(cause.other)}" if cause.other else ""
        lines.append(f"     at {one_line(cause.place)}{also}")
    if cause.excerpt is not None:
        lines += _excerpt_lines(cause.excerpt, split_place(cause.place).column, colour)
    if cause.evidence:
        lines += ["     how we know", *_items(cause.evidence, "       ")]
    if cause.consequences:
        lines += ["     what follows from it", *_items(cause.consequences, "       ")]
    if cause.fix is not None:
        lines += _fix_lines(cause.fix, colour)
    if cause.readings:
        lines += ["     these make the case right as well", *_items(cause.readings, "       ")]
    return lines


def _explains(cause: Cause) -> str:
    if cause.verdict == "undecided" and not cause.of:
        return "where to look first"
    if not cause.of:
        return "it ends the run, or shows in no element of this one"
    if cause.explains == cause.of:
        return f"explains all {cause.of} wrong elements" if cause.of > 1 else "explains the one wrong element"
    return f"explains {cause.explains} of {cause.of} wrong elements"


def _excerpt_lines(excerpt: Excerpt, column: int, colour: bool) -> Iterator[str]:
    """Source lines with their numbers; a marked one has an arrow, and a caret where the column is known."""
    last = excerpt.first + len(excerpt.lines) - 1
    width = len(str(last))
    texts = [visible(text.expandtabs(4)).rstrip() for text in excerpt.lines]
    # Code is shown as far as the diff below it would be: what is cut off may be what matters.
    spare = min((len(text) - len(text.lstrip()) for text in texts if text), default=0)
    for number, text in enumerate(texts, excerpt.first):
        marked = number in excerpt.marked
        shown = text[spare:]
        if len(shown) > _CODE:
            shown = shown[: _CODE - 3] + "..."
        line = f"     {'>' if marked else ' '} {number:>{width}} | {shown}".rstrip()
        yield _painted(line, _BOLD, colour) if marked else line
        if marked and column and len(excerpt.marked) == 1:
            source = excerpt.lines[number - excerpt.first]
            at = len(source[: column - 1].expandtabs(4)) - spare
            if 0 <= at < _CODE:
                yield _painted(f"       {'':>{width}} | {' ' * at}^", _RED + ";" + _BOLD, colour)


def _fix_lines(fix: Fix, colour: bool) -> list[str]:
    lines = wrapped_line(f"fix ({_FIX_WORDS[fix.status]}): {fix.summary}", "     ", "       ")
    for line in diff_lines(fix.diff):
        sign = {"removed": "-", "added": "+", "context": " "}.get(line.kind, "")
        code = {"removed": _RED, "added": _GREEN, "hunk": _CYAN, "file": _FAINT}.get(line.kind, "")
        shown = f"       {sign}{visible(line.text)}".rstrip()
        lines.append(_painted(shown, code, colour and bool(code)))
    tried = fix_effect(fix)
    if tried:
        lines += wrapped_line(tried, "     ", "       ")
    if fix.note:
        lines += wrapped_line(fix.note, "     ", "       ")
    return lines


def how_sure(cause: Cause) -> str:
    """The verdict, of a likely cause with its share among all that may mend: "likely (60 %)"."""
    return f"likely ({cause.share:.0%})" if cause.verdict == "likely" and cause.share < 1 else cause.verdict


def work_line(diagnosis: Diagnosis) -> str:
    """What the search took, in one line; "" where nothing was tried."""
    work = diagnosis.work
    if not work.changes:
        return ""
    which = "all that there are" if work.complete else "the likeliest first"
    refused = f", {work.refused:,} of them refused by the compiler" if work.refused else ""
    filled = f"; {work.filled:,} times something else in a place" if work.filled else ""
    instructions = f"{work.instructions / 1e6:.1f} million warp instructions"
    return (
        f"tried: {work.changes:,} changes of the source, {which}{refused}{filled}; {instructions}; effort {work.effort}"
    )


def fix_effect(fix: Fix) -> str:
    """What trying a fix did, in words; "" where it was not tried."""
    if fix.wrong_after is None:
        return ""
    text = f"with it: {fix.wrong_after} elements wrong"
    ended = bool(fix.wrong_before) or fix.max_difference_before != math.inf  # else nothing was there to count
    text += f" instead of {fix.wrong_before}" if ended else ", where the kernel as it is does not run to its end"
    if fix.max_difference_after is not None:
        text += f", largest difference {number(fix.max_difference_after)}"
        text += f" instead of {number(fix.max_difference_before)}" if ended else ""
    if fix.tried:
        text += f"; cases tried: {', '.join(fix.tried)}"
    return text


def number(value: float) -> str:
    """Three digits; NaN and infinity in words."""
    return f"{value:.3g}" if math.isfinite(value) else "not a number" if math.isnan(value) else "infinite"


def _tested_lines(tested: Sequence[Tested], verbose: bool) -> list[str]:
    refuted = [one for one in tested if one.verdict == "refuted"]
    open_ones = [one for one in tested if one.verdict == "undecided"]
    lines = []
    if refuted:
        shown = refuted if verbose else refuted[:RULED_OUT]
        lines += ["", "  ruled out", *_items([_tested(one) for one in shown])]
        if len(shown) < len(refuted):
            lines.append(f"    ({len(refuted) - len(shown)} more; -v shows them)")
    if open_ones:
        lines += ["", "  tried in vain", *_items([_tested(one) for one in open_ones])]
    return lines


def _tested(one: Tested) -> str:
    return f"{one.title}: {one.reason}"


def _items(texts: Sequence[str], indent: str = "    ") -> list[str]:
    return [line for text in texts for line in wrapped_line(text, f"{indent}- ", f"{indent}  ")]


def _painted(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
