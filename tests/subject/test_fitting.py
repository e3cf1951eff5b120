"""A kernel whose card does not say how it is meant is read as its result fits, whatever it computes."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.check import check_card

KERNELS = Path(__file__).parents[2] / "kernels"

# Kernel, case; what its card says and is left out here; what its result then says.
LEFT_OUT = [
    ("conv2d", "odd", r'layout = "N[HP].*"\n', "images as NHWC"),
    ("conv2d", "odd", r'layout = "KRSC"\n', "filters as KRSC"),
    ("gated_gemm", "odd", r'gating = "swiglu"\n', ""),
    ("softmax", "odd", r"causal = true\n", "a causal mask"),
    ("quantized_gemm", "odd", r"zero_offset = 1\n", "zero points stored less 1, as GPTQ has them"),
    ("gemm_mma", "odd", r"transpose_b = 1\n", "B stored as N×K, as nn.Linear has it"),
]


@pytest.mark.parametrize(("kernel", "case", "said", "meaning"), LEFT_OUT, ids=[f"{k}-{m}" for k, _, _, m in LEFT_OUT])
def test_what_a_card_does_not_say_its_result_says(tmp_path, kernel, case, said, meaning):
    shutil.copytree(KERNELS / kernel, tmp_path / "k", ignore=shutil.ignore_patterns("wrong", "lookalike"))
    path = tmp_path / "k" / "kernel.toml"
    text = path.read_text()
    assert re.search(said, text)
    path.write_text(re.sub(said, "", text))
    (stated,) = check_card(load_card(path), cases=[case]).cases
    (taken,) = check_card(replace(load_card(path), open_conventions=True), cases=[case]).cases
    assert stated.status == ("failed" if meaning else "passed")  # a default may be what is meant
    assert taken.status == "passed"
    if meaning:
        assert f"every element is right with {meaning}; if the kernel means that" in stated.notes[-1]
        assert taken.notes == (f"assumed: {meaning}, which is what the result fits; a card can say what is meant",)


def test_a_wrong_kernel_is_not_explained_by_a_reading(tmp_path):
    shutil.copytree(KERNELS / "conv2d", tmp_path / "k")
    source = tmp_path / "k" / "kernel.cu"
    source.write_text(source.read_text().replace("* shape.stride - shape.pad + s", "* shape.stride + s"))
    card = replace(load_card(tmp_path / "k" / "kernel.toml"), open_conventions=True)
    (result,) = check_card(card, cases=["odd"]).cases
    assert result.status == "failed" and not result.notes
