"""Products are added up in an fp16 accumulator: errors grow with the length of the sum, and large sums
overflow. An error of rounding size everywhere, and a card that says `accumulate = "f32"`.

Bad:
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc;

Good:
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
"""

from __future__ import annotations

from wmmadiag.diagnose.answers import answer, modelled, of_models
from wmmadiag.diagnose.claim import Answer
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis


def _test(evidence: Evidence) -> Answer:
    return answer(of_models(evidence, "half-accumulation"), modelled(evidence, "with fp16 sums"))


HYPOTHESIS = Hypothesis("half-accumulation", "sums are kept in fp16 where the bound needs fp32", _test, suspected=12)
