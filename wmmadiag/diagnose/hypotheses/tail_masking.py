"""The last tile is only partly filled, and what lies behind is counted: exp(0) in the row sum, or 0 times NaN in the
product.

Bad:
    p = expf(s[j] - row_max);                             // also for j >= keys_left

Good:
    p = j < keys_left ? expf(s[j] - row_max) : 0.0f;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, modelled, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.unwritten import of_hole, unwritten_reads

_ALSO = ("guard-condition", "loop-extent", "partial-fill", "stale-tile")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), modelled(evidence, "with keys past the end"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    ends_inside = any(run.passed for name, run in evidence.others.items() if name != evidence.case.name)
    for read in unwritten_reads(evidence):
        if read.space == "shared" and read.by == "threads" and ends_inside:
            sentence = f"part of {read.array} past the end is not filled when line {read.place.line} reads it"
            yield of_hole("tail-masking", read, Roots.UNCOMPUTED + 1, sentence=sentence, also=_ALSO)
    for seen in evidence.disagreements("mask"):
        yield of_disagreement("tail-masking", seen, Roots.STATISTIC + 1, also=("causal-mask", *_ALSO), exact=False)
    yield from of_models(evidence, "tail-masking", also=_ALSO)


HYPOTHESIS = Hypothesis("tail-masking", "rows or keys past the end take part", _test, suspected=10)
