"""Provenance: for every element of every fragment, which input element it is.

`trace` runs a case once with a tag on every value. A tag names an element of a matrix: of an argument's head, or of a
product that tensor-core operations derived from rows of one and columns of another, together with how much of the
contracted index has been added up. Tags travel with loads, stores, moves, conversions, packing, shuffles, selects,
cp.async, ldmatrix, stmatrix and wmma fragments. An output element is explained when its tag is the element that the
card's operation puts there, with nothing missing from its sum. Whatever disagreed on the way marks the values it
spoilt, so only what reaches an output is reported.

Values are compared, too, wherever tags say which ones they are, with what the operation says of them (`ops.stages`), so
that the first line whose values depart is known even where every tag is right (`model.Stage`).

Not followed: operands of less than 8 bits, scalar products outside tensor cores,
dequantisation by a scale per group; such outputs count as unknown, never as wrong.
"""

from __future__ import annotations

from wmmadiag.provenance.explain import explain
from wmmadiag.provenance.model import Disagreement, ProvenanceRun
from wmmadiag.provenance.origin import SliceStep, compact
from wmmadiag.provenance.trace import trace

__all__ = ["Disagreement", "ProvenanceRun", "SliceStep", "compact", "explain", "trace"]
