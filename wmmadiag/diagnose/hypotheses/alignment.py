"""Fragment pointers must be aligned to 32 bytes and leading dimensions multiples of 16 bytes; vector accesses and
cp.async to their own size. A `__shared__ half` array promises 2 bytes only.

Bad:
    __shared__ half tile[64 * 65];
    float4 v = *reinterpret_cast<float4*>(&tile[row * 65]);

Good:
    __shared__ __align__(32) half tile[64 * 72];
    float4 v = *reinterpret_cast<float4*>(&tile[row * 72]);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_fault, of_finding, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.errors import KernelFault

_ALSO = ("leading-dimension", "index-arithmetic", "async-copy-size", "element-type")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), watched(evidence, "every access was aligned as its instruction needs"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    if isinstance(error, KernelFault) and error.kind == "misaligned":
        yield of_fault("alignment", error, evidence, Roots.ADDRESS, also=_ALSO)
    for found in evidence.errors("wmma", "leading-dimension", "pointer-alignment", "declared-alignment"):
        yield of_finding("alignment", found, Roots.ADDRESS + 1, also=_ALSO)


HYPOTHESIS = Hypothesis(
    "alignment", "an address or leading dimension is not aligned as the instruction needs", _test, suspected=40
)
