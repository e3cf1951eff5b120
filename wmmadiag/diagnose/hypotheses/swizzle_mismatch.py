"""A swizzled tile is written with one XOR of row and column and read with another, or with none: elements of a row come
from other columns.

Bad:
    tile[r][c ^ ((r & 7) << 3)] = x;    …    y = tile[r][c ^ ((r & 3) << 3)];

Good:
    tile[r][c ^ ((r & 7) << 3)] = x;    …    y = tile[r][c ^ ((r & 7) << 3)];
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, followed, of_disagreement
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.provenance.model import Break

_XOR = re.compile(r"[\w)\]]\s*\^\s*[\w(]")


def _test(evidence: Evidence) -> Answer:
    if not _swizzles(evidence):
        return NotSo("not applicable", "nothing in the source swizzles addresses")
    return answer(_claims(evidence), followed(evidence, "what is read is what was written there"))


def _swizzles(evidence: Evidence) -> bool:
    return any(_XOR.search(evidence.text_of(file) or "") for file in evidence.files)


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("broken-operand", "shifted", "misplaced"):
        rank = Roots.OPERAND if seen.broken is not None and _exchanged(seen.broken) else Roots.OPERAND + 3
        yield of_disagreement(
            "swizzle-mismatch", seen, rank, also=("index-arithmetic", "ldmatrix-address"), exact=False
        )


def _exchanged(seen: Break) -> bool:
    """Whether a column (or row) goes on at the same index of another group of eight: what a XOR does."""
    along, across = seen.odd[0] - seen.first[0], seen.odd[1] - seen.first[1]
    k = seen.k
    return (along == k and across % 8 == 0 and across != 0) or (across == k and along % 8 == 0 and along != 0)


HYPOTHESIS = Hypothesis("swizzle-mismatch", "writer and reader of a shared tile swizzle differently", _test)
