"""Sizes are sought for which the conditions of host code hold; numbers that the kernel's own code names stay."""

from __future__ import annotations

from pathlib import Path

from wmmadiag.subject.drafts.derive import kernel_of
from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.sizes import cases
from wmmadiag.subject.open_subject import SubjectOptions

# Its host compares how many blocks of 2 * THREADS there are with the rows: one thread a block would do.
SOURCE = Path(__file__).parents[1] / "reading/unseen35/trabalho2_transposta_reducao.cu"


def test_a_macro_that_the_kernel_names_is_no_size() -> None:
    source = GivenSource(SOURCE, SubjectOptions(entry="reducao_shuffle", computes="reduce"))
    drafted = draft(kernel_of(source), "reduce", source.wishes)
    assert drafted.block == ["THREADS"]
    assert {one["THREADS"] for _, one in cases(drafted, {})} == {"256"}
