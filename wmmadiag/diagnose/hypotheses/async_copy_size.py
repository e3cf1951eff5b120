"""cp.async.cg copies 16 bytes; .ca 4, 8 or 16; addresses must be multiples of the size.

Bad:
    asm volatile("cp.async.cg.shared.global [%0], [%1], 8;" …);

Good:
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" …);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.faulting import OUTSIDE
from wmmadiag.errors import KernelFault

_COPIES = re.compile(r"cp\.async|memcpy_async|__pipeline_")


def _test(evidence: Evidence) -> Answer:
    if not any(_COPIES.search(evidence.text_of(file) or "") for file in evidence.files):
        return NotSo("not applicable", "the kernel copies nothing asynchronously")
    return answer(_claims(evidence), NotSo("refuted", "every asynchronous copy has a legal size and alignment"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    if error is None:
        return
    outside = isinstance(error, KernelFault) and error.kind in OUTSIDE  # the copy is legal, its address is wrong
    if error.op.startswith("cp.async") and not outside:
        yield Claim(
            "async-copy-size",
            "proven",
            f"an asynchronous copy that does not exist, or is misaligned: {error.message}",
            evidence.error_place(),
            None,
            "nothing: it does not run",
            (error.message, *error.detail.splitlines()[:4]),
            None,
            Roots.COMPILE,
            ("async-copy-size", "alignment"),
        )


HYPOTHESIS = Hypothesis("async-copy-size", "cp.async with a size, alignment or operator that does not exist", _test)
