"""The wait is missing, counts the wrong groups, or comes before the commit; no barrier follows it; or the buffer is
filled again while others still read.

Bad:
    __pipeline_wait_prior(0);  __pipeline_commit();  use(tile);

Good:
    __pipeline_commit();  __pipeline_wait_prior(0);  __syncthreads();  use(tile);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.checks.finding import Finding
from wmmadiag.diagnose.answers import answer, of_disagreement, of_finding, watched
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.subject.check import own_place

_COPIES = re.compile(r"cp\.async|memcpy_async|__pipeline_")
_ALSO = ("missing-barrier", "stale-tile")


def _test(evidence: Evidence) -> Answer:
    if not any(_COPIES.search(evidence.text_of(file) or "") for file in evidence.files):
        return NotSo("not applicable", "the kernel copies nothing asynchronously")
    return answer(
        _claims(evidence), watched(evidence, "every asynchronous copy was waited for before its data were used")
    )


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for found in evidence.errors("async"):
        yield of_finding("async-copy-order", found, Roots.ORDER - 2, also=_ALSO, lines=_steps(evidence, found))
    for seen in evidence.disagreements("uninitialised"):
        yield of_disagreement("async-copy-order", seen, Roots.UNCOMPUTED + 5, also=_ALSO, exact=False)


def _steps(evidence: Evidence, found: Finding) -> tuple[int, ...]:
    """The lines that start the copies, commit them, wait for them, or order threads, in the file of what was found."""
    file = own_place(found.place).file
    places = (found.place, *((found.other,) if found.other is not None else ()))
    lines = [frame.line for place in places for frame in place.frames() if frame.file == file]
    model = evidence.source_model(file) if file in evidence.files else None
    if model is not None:
        lines += [step.line for step in model.barriers if step.kind != "warp"]
    return tuple(dict.fromkeys(lines))


HYPOTHESIS = Hypothesis(
    "async-copy-order", "data of cp.async is used before it is there, or overwritten too early", _test, suspected=10
)
