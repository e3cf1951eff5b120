"""The type in which a kernel sums, from its compiled instructions: templates hide it from whoever reads the source."""

from __future__ import annotations

import re
from dataclasses import replace

from wmmadiag.errors import WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.source_facts import accumulator_types
from wmmadiag.subject.symbols import rendered_entry, rendered_macros

_PLAIN = frozenset({"half", "__half", "f16", "float", "f32", "int", "int32_t", "s32", "double", "f64"})
# PTX ISA, "wmma.mma" and "mma": the type of D is the first one after the shape (and the layouts of A and B).
_FORMS = re.compile(
    r"\b(?:wmma\.mma|mma)\.sync\.aligned\.(?:(?:row|col)\.)*m\d+n\d+k\d+\.(?:(?:row|col)\.)*(?:satfinite\.)?(\w+)"
)


def with_accumulators(card: Card, text: str) -> Card:
    """A derived card that says f16 where every tensor-core sum of the compiled kernel is kept in that.

    Nothing is compiled where the source names the types itself, or the card says one.

    Args:
        card: derived from a source.
        text: of that source.
    """
    known = "accumulate" not in OPERATIONS[card.computes.operation].parameters
    if known or "accumulate" in card.computes.parameters or accumulator_types(text) <= _PLAIN:
        return card
    from wmmadiag.compile import CompileOptions, compile_source

    case, variant = card.cases[0], card.variants[0]
    try:
        entry = rendered_entry(card, case, variant)
        options = CompileOptions(
            macros={name: value or None for name, value in rendered_macros(card, case, variant).items()},
            include_paths=card.include_paths,
            std=card.std,
            name_expressions=(entry,) if "<" in entry else (),
        )
        compiled = compile_source(card.source, options)
        kernel = compiled.entry(entry).name
    except WmmadiagError:
        return card  # the check itself will say so
    body = re.search(rf"\.entry\s+{re.escape(kernel)}\b.*?^\}}", compiled.ptx, re.DOTALL | re.MULTILINE)
    if body is None or set(_FORMS.findall(body[0])) != {"f16"}:
        return card
    parameters = {**card.computes.parameters, "accumulate": "f16"}
    return replace(card, computes=replace(card.computes, parameters=parameters))
