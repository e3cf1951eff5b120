"""The leading dimension of a fragment load or store counts elements from one row (column, for col_major) to the next in
memory. With the logical width instead of the padded one, or rows for columns, every row after the first comes from
elsewhere.

Bad:
    __shared__ half tile[64][72];
    wmma::load_matrix_sync(a, &tile[0][0], 64);

Good:
    __shared__ half tile[64][72];
    wmma::load_matrix_sync(a, &tile[0][0], 72);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_finding, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.unwritten import unwritten_reads

_EITHER = 0.5
"""How much later it is asked whether a store, rather than what reads it, is mistaken about the pitch."""


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every fragment's rows lie where its leading dimension says"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("leading-dimension"):
        yield of_disagreement("leading-dimension", seen, Roots.ADDRESS)
    for found in evidence.errors("wmma", "leading-dimension"):
        yield of_finding("leading-dimension", found, Roots.ADDRESS, also=("alignment",), exact=False)
    for read in unwritten_reads(evidence):
        if read.pitch:
            sentence = (
                f"reads the padding of {read.array}, whose rows are {read.pitch} elements apart: as if they were not"
            )
            also = ("leading-dimension", "index-arithmetic", "loop-extent")
            padding = of_finding("leading-dimension", read.finding, Roots.UNCOMPUTED, sentence=sentence, also=also)
            yield replace(padding, values={"ldm": read.pitch}, exact=False)
            if read.by in ("fragments", "mixed") and read.writers:  # as well they may be stored too far apart
                last = read.writers[-1]
                yield replace(padding, place=last, other=read.place, rank=padding.rank + _EITHER, exact=False)
    yield from of_models(evidence, "leading-dimension", also=("index-arithmetic", "tensor-strides"))


HYPOTHESIS = Hypothesis(
    "leading-dimension", "a leading dimension is not the pitch of the array that it is used on", _test, suspected=45
)
