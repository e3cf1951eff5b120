"""The line of a softmax's fault: not where wrong values are first seen, but where such a fault is made.

Numbers show that the running output was not rescaled; they show it at the multiplication by V, or where the output is
stored. The line to look at is the one that computes the factor.
"""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.diagnose.claim import Claim
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.source.model import SourceModel
from wmmadiag.diagnose.source.softmax import Softmax, key_step
from wmmadiag.place import Place

_UNLIKE = "parts of a row are scaled unlike: its sum or its maximum is not that of the whole row everywhere"
_OWN_MAXIMUM = frozenset({"maximum-not-carried", "tile-maximum", "tile-maximum-of-output", "tile-maximum-of-sum"})
_OWN_SUM = frozenset({"first-tile-in-sum", "last-tile-in-sum", "tile-dropped-of-sum"})
"""Fault models of a tile by itself."""
_REDUCED = ("reduction", "normalisation", "row-statistic", "tail-masking")


def located(claim: Claim, evidence: Evidence) -> Claim:
    """A claim about a softmax at the line of the part that it is about; where it showed becomes the second line.

    Further parts that such a fault may lie in are lines for edits. A line that was seen as the fault itself stays.
    """
    found = evidence.softmax
    if found is None or claim.exact:
        return claim
    file, parts = found
    if claim.hypothesis == "rescale-missing" and not claim.model and not parts.factors and not parts.online:
        claim = replace(claim, hypothesis="reduction", sentence=_UNLIKE, edit_hypotheses=_REDUCED)
    model = evidence.source_model(file)
    if model is not None:
        claim = _within_a_tile(claim, key_step(model, parts))
    main, also = _about(claim, parts)
    if not main or (claim.place is not None and claim.place.file != file):
        return claim
    lines = tuple(dict.fromkeys((*claim.edit_lines, *main, *also)))
    helper = claim.place is not None and model is not None and _in_a_helper(model, claim.place.line, main, parts)
    if claim.place is not None and not helper and (claim.seen or not _shows_later(claim.place.line, main, parts)):
        return replace(claim, edit_lines=lines)
    return replace(claim, place=Place(file, main[0]), other=claim.other or claim.place, edit_lines=lines)


def _in_a_helper(model: SourceModel, line: int, main: tuple[int, ...], parts: Softmax) -> bool:
    """Whether a line is in a helper that is no part of the softmax: values pass through it, wherever they are made."""
    function = next((f for f in model.functions if f.line <= line <= model.line_of(f.end)), None)
    if function is None or function.kernel or line in main:
        return False
    lines = {*main, *parts.maxima, *parts.sums, *parts.masks, *parts.divisions, *(c.line for c in parts.weights)}
    return not any(function.line <= one <= model.line_of(function.end) for one in lines)


def _within_a_tile(claim: Claim, step: int) -> Claim:
    """A fault of parts narrower than the tiles in which the source meets its keys: threads share a tile, and each
    part's maximum or sum is that of its own threads."""
    tile = claim.values.get("tile", 0)
    if not 0 < tile < step or step % tile:
        return claim
    if claim.hypothesis == "rescale-missing" and claim.model in _OWN_MAXIMUM:
        sentence = f"each {tile} of the {step} keys of a tile are relative to a maximum of their own"
    elif claim.model in _OWN_SUM:
        sentence = f"the row sum holds some of the {step} keys of each tile alone"
    else:
        return claim
    evidence = (*claim.evidence, f"the loop over the keys takes {step} at a time")
    return replace(
        claim, hypothesis="reduction", sentence=sentence, instead="", evidence=evidence, edit_hypotheses=_REDUCED
    )


def _shows_later(line: int, main: tuple[int, ...], parts: Softmax) -> bool:
    """Whether a line is behind the softmax: values were wrong before they got there."""
    return line not in main and line > max(call.line for call in parts.weights)


def _about(claim: Claim, parts: Softmax) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lines that a fault of this kind is made at, the likeliest first, and further ones that may mend it."""
    weights = tuple(dict.fromkeys(call.line for call in parts.weights))
    factors = tuple(dict.fromkeys(call.line for call in parts.factors))
    name = claim.hypothesis
    if name == "rescale-missing":
        if claim.model.endswith("-of-sum"):
            return (tuple(reversed(parts.sums)), factors)
        if claim.model in ("alpha-of-tile-maximum", "maximum-not-carried") or claim.model.startswith("tile-maximum"):
            return (parts.maxima, (*weights, *factors))
        if claim.model.startswith("alpha-stale"):
            return (weights, parts.maxima)
        return (factors, (*parts.maxima, *parts.sums, *weights))
    if name == "reduction" and (claim.model in _OWN_MAXIMUM or claim.model.startswith("maximum-of-lane")):
        shuffled = tuple(line for line in parts.maxima if line in parts.shuffles)
        return (shuffled or parts.maxima, (*parts.shuffles, *parts.maxima, *weights))
    if name == "reduction":
        shuffled = tuple(line for line in parts.sums if line in parts.shuffles)
        return (shuffled or parts.sums, (*parts.shuffles, *parts.maxima, *parts.sums))
    if name == "tail-masking":
        return (weights, (*parts.masks, *parts.maxima))
    if name == "causal-mask":
        return (parts.masks or weights, weights)
    if name == "masked-row":
        return (weights, (*factors, *parts.masks, *parts.divisions))
    if name == "exp-base":
        return (factors if claim.model.startswith("alpha") else weights, (*weights, *factors))
    if name == "normalisation":
        return (parts.divisions, parts.sums)
    return ((), ())
