"""A pointer cast tells the compiler nothing about memory: a float accumulator stored through a half pointer fills twice
the bytes with halves of floats.

Bad:
    wmma::store_matrix_sync(reinterpret_cast<float*>(o_half), acc, N, wmma::mem_row_major);

Good:
    for (int i = lane; i < 256; i += 32) o_half[i] = __float2half(tile[i]);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_models
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.source.casts import mistyped
from wmmadiag.place import Place
from wmmadiag.subject.check import own_place

_CAST = re.compile(
    r"(reinterpret_cast\s*<[^>]*\*\s*>|\(\s*(?:const\s+)?(?:__half|half|float|double|__nv_bfloat16|u?int\d*\w*)\s*\*\s*\))"
)


def _test(evidence: Evidence) -> Answer:
    if not any(_CAST.search(evidence.text_of(file) or "") for file in evidence.files):
        return NotSo("refuted", "the source casts no pointer to another element type")
    return answer(
        _claims(evidence),
        NotSo("undecided", "casts of pointers change no address and no value; none was shown to be wrong"),
    )


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("broken-operand", "uninitialised", "misplaced"):
        if _CAST.search(evidence.line_text(seen.place)):
            yield Claim(
                "element-type",
                "undecided",
                f"the cast at this line may give the memory another type: {seen.message}",
                seen.place,
                seen.other,
                evidence=(seen.message,),
                reach=seen.masks or None,
                rank=Roots.OPERAND + 4,
            )
    yield from _other_than_declared(evidence)
    yield from of_models(evidence, "element-type")


def _other_than_declared(evidence: Evidence) -> Iterator[Claim]:
    """Accesses through a cast of a pointer to numbers to one to numbers of another kind.

    Memory that is used again for another type is read so, too: it is a suspicion that a change must confirm.
    """
    ends = [own_place(found.place) for found in evidence.errors("memory")]
    died = evidence.error_place()
    ends += [died] if died is not None else []
    for file in evidence.files if evidence.wrong_count or died is not None else ():
        model = evidence.source_model(file)
        for cast in mistyped(model) if model is not None else ():
            # Larger elements than the array was made for, and what goes so runs out of memory.
            past = cast.wider and any((one.file, one.line) == (file, cast.line) for one in ends)
            yield Claim(
                "element-type",
                "proven" if past else "undecided",
                f"line {cast.line} takes {cast.array}, declared of {cast.declared}, for {cast.taken}",
                Place(file, cast.line),
                evidence=("the same line reaches past the end of its memory",) if past else (),
                rank=Roots.ADDRESS + 1 if past else Roots.OPERAND - 3,
                exact=False,
            )


HYPOTHESIS = Hypothesis(
    "element-type", "memory is read or written as another element type than it holds", _test, suspected=42
)
