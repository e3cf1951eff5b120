"""Ends of shares: what is clamped to which length, and what is left alone."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

KERNEL = """struct Sizes {{ int k; int parts; }};
__global__ void k(const half* x, float* y, int n, int parts, Sizes sizes) {{
    {body}
        wmma::load_matrix_sync(a, x + i, n);
    }}
}}
"""


def offered(body: str) -> dict[str, float]:
    model = read_source(KERNEL.format(body=body))
    lines = set(range(1, len(model.lines) + 1))
    return {apply(model.text, one): one.rank for one in edits(model, lines=lines) if one.kind == "shares"}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            "int share = (n + parts - 1) / parts; int from = blockIdx.z * share; int to = from + share; "
            "for (int i = from; i < to; ++i) {{",
            "int share = (n + parts - 1) / parts; int from = blockIdx.z * share; "
            "int to = min((int)(n), (int)(from + share)); for (int i = from; i < to; ++i) {{",
        ),
        (
            "int share = (sizes.k + sizes.parts - 1) / sizes.parts; int from = blockIdx.z * share; "
            "for (int i = from; i < from + share; ++i) {{",
            "int share = (sizes.k + sizes.parts - 1) / sizes.parts; int from = blockIdx.z * share; "
            "for (int i = from; i < min((int)(sizes.k), (int)(from + share)); ++i) {{",
        ),
        ("for (int i = 0; i < n; i += 16) {{", "for (int i = 0; i + 16 <= n; i += 16) {{"),
    ],
)
def test_what_is_mended(wrong: str, right: str) -> None:
    assert KERNEL.format(body=right.replace("{{", "{")) in offered(wrong.replace("{{", "{"))


def test_only_a_share_that_is_rounded_up_looks_wrong_without_an_end() -> None:
    body = "int share = {}; int from = blockIdx.z * share; int to = from + share; for (int i = from; i < to; ++i) {{"
    assert offered(body.format("(n + parts - 1) / parts").replace("{{", "{"))
    assert not offered(body.format("n / parts").replace("{{", "{"))


@pytest.mark.parametrize(
    "body",
    [
        "int share = (n + 3) / 4; int from = blockIdx.z * share; int to = min(n, from + share); "
        "for (int i = from; i < to; ++i) {",
        "int from = blockIdx.z * 64; int at = from + n; y[at] = 0; for (int i = 0; i < n; ++i) {",
        "for (int i = 0; i + 16 <= n; i += 16) {",
    ],
)
def test_what_is_left_alone(body: str) -> None:
    assert list(offered(body)) == []
