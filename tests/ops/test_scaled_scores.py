"""Scores of rows that have scales, each its own or several together."""

from pathlib import Path

import numpy as np
import pytest

import wmmadiag
from wmmadiag.cli.main import main

SOURCE = Path(__file__).parents[1] / "reading" / "unseen11" / "attn_int8_qk_dequant.cu"


@pytest.mark.parametrize("rows", [1, 4])
def test_each_score_has_the_scales_of_its_rows(rows):
    rng = np.random.default_rng(1)
    q, k = rng.integers(-127, 128, (2, 8, 16)).astype(np.int8)
    one, other = q[None], k[None]
    scale_q, scale_k = rng.random((2, 8 // rows)).astype(np.float32)
    blocks = {"q_block": rows, "k_block": rows}
    wanted = wmmadiag.reference(
        "qkt", q=one, k=other, scale_q=scale_q[None], scale_k=scale_k[None], scale=0.5, dtype="f32", **blocks
    )
    for i, j in np.ndindex(8, 8):
        whole = np.float32(int(q[i].astype(int) @ k[j].astype(int)))
        score = np.float32(whole * scale_q[i // rows]) * np.float32(scale_k[j // rows]) * np.float32(0.5)
        value, bound = wanted.value[0, i, j], wanted.bound[0, i, j]
        assert abs(score - value) <= bound
        assert abs(score * np.float32(1.001) - value) > bound or abs(value) < 1e-3


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("", "", 0), ("k_scale[bh * gridDim.x + kb]", "k_scale[bh * gridDim.x + qb]", 3), (" * sm_scale;", ";", 3)],
    ids=["right", "the query's block for the key's", "without the scale of scores"],
)
def test_a_source_alone_tells_how_many_rows_have_a_scale_together(tmp_path, capsys, old, new, code):
    path = tmp_path / "qk.cu"
    text = SOURCE.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new) if old else text, "utf-8")
    assert main(["check", str(path), "--entry", "qk_int8_kernel"]) == code
    assert code or "a scale for each 64 rows of Q" in " ".join(capsys.readouterr().out.split())
