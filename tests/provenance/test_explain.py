"""The backward slice of one output element."""

from __future__ import annotations

import pytest
from traced import KERNELS, prepared

from wmmadiag.errors import ConfigurationError
from wmmadiag.provenance import SliceStep, compact, explain


def test_score_is_a_row_of_q_and_a_row_of_k() -> None:
    tree = explain(*prepared(KERNELS / "qkt" / "kernel.toml", "one_tile"), "scores", (0, 0, 3, 5))
    elements = {leaf.what for leaf in tree.leaves() if leaf.what[:2] in ("q[", "k[")}
    assert elements == {f"{role}[0, 0, {row}, {k}]" for role, row in (("q", 3), ("k", 5)) for k in range(64)}
    short = compact(tree)
    assert {leaf.what for leaf in short.leaves() if leaf.what[:2] == "q["} == {
        "q[0, 0, 3, 0..31]",
        "q[0, 0, 3, 32..63]",
    }
    assert len(short.render().splitlines()) < 40
    text = tree.render()
    assert text.count(", row 3, column 5") == 4
    assert "cp.async" in text
    assert "sOut, byte" in text


@pytest.mark.parametrize(
    ("card", "variant", "case", "index", "leaves"),
    [
        ("attention_fused/kernel.toml", "rows16", "one_tile", (0, 0, 7, 11), {"q[0, 0, 7, 0]", "v[0, 0, 0, 11]"}),
        ("attention/kernel.toml", "", "one_tile", (0, 0, 7, 11), {"q[0, 0, 7, 0]", "v[0, 0, 0, 11]"}),
        ("attention/wrong/qk_not_transposed.toml", "", "two_heads", (0, 1, 40, 3), {"v[0, 1, 0, 3]"}),
    ],
)
def test_attention(card: str, variant: str, case: str, index: tuple[int, ...], leaves: set[str]) -> None:
    tree = explain(*prepared(KERNELS / card, case, variant), "o", index, most=20000)
    found = {leaf.what for leaf in tree.leaves()}
    assert leaves <= found
    queries = {what for what in found if what.startswith("q[")}
    assert queries
    assert {what.split(", ")[2] for what in queries} == {str(index[2])}  # no other row of Q


def test_values_that_nothing_wrote_end_the_slice() -> None:
    bound = prepared(KERNELS / "attention" / "wrong" / "too_few_warps.toml", "two_heads")
    tree = explain(*bound, "o", (0, 0, 20, 0))
    assert any(leaf.note == "nothing in this block wrote it" for leaf in tree.leaves())


def test_elements_that_do_not_exist() -> None:
    bound = prepared(KERNELS / "qkt" / "kernel.toml", "one_tile")
    with pytest.raises(ConfigurationError, match="there is no element"):
        explain(*bound, "scores", (0, 0, 16, 0))
    with pytest.raises(ConfigurationError, match="no tensor 'x'"):
        explain(*bound, "x", (0,))


def test_a_long_slice_says_that_it_is_cut() -> None:
    bound = prepared(KERNELS / "qkt" / "kernel.toml", "one_tile")
    tree = explain(*bound, "scores", (0, 0, 3, 5), most=40)
    assert tree.note == "longer than was followed"
    assert any(leaf.note == "not followed further" for leaf in tree.leaves())


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["q[0, 3, 0]", "q[0, 3, 1]", "q[0, 3, 2]"], "q[0, 3, 0..2]"),
        (["byte 8", "byte 12", "byte 16", "byte 20", "byte 24"], "byte 8..24 by 4"),
        (["lane 1", "lane 9"], "lane 1|9"),
        (["register %f1 of lane 3", "register %f2 of lane 3"], "register %f… of lane 3"),
    ],
)
def test_neighbours_as_one(texts: list[str], expected: str) -> None:
    tree = SliceStep("x", None, [SliceStep(text) for text in texts])
    assert [child.what for child in compact(tree).children] == [expected]


def test_other_instructions_stay_apart() -> None:
    tree = SliceStep("x", None, [SliceStep("lane 1"), SliceStep("byte 2")])
    assert len(compact(tree).children) == 2
