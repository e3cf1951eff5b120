"""The rules and the native core against MMA-Sim's recorded answers (see tests/vectors/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_parts import matrix_dtype, mma, pack_a, pack_b
from numpy.typing import NDArray

from wmmadiag.numerics.tensor_core import mma_rule

FILE = Path(__file__).parents[1] / "vectors" / "mmasim.npz"
CASES = ("spread", "tiny", "special")


def _load() -> Mapping[str, NDArray[Any]]:
    with np.load(FILE) as file:
        return {name: file[name] for name in file.files}


ARRAYS = _load()
OUTPUTS = [name.removeprefix("outputs/") for name in ARRAYS if name.startswith("outputs/")]


@pytest.mark.parametrize("name", OUTPUTS)
def test_native_core_agrees(name: str) -> None:
    arch, shape, types = name.split("/")
    d_type, a_type, b_type, c_type = types.split(".")
    rule = mma_rule(arch, "mma", shape, a_type, b_type, c_type, d_type)
    for case, expected in zip(CASES, ARRAYS[f"outputs/{name}"], strict=True):
        a, b, c = (ARRAYS[f"inputs/{shape}/{types}/{role}/{case}"] for role in "abc")
        for reference in (False, True):
            d = mma(rule, pack_a(a, a_type), pack_b(b, b_type), c, reference=reference)
            got = np.asarray(d).view(matrix_dtype(d_type)).reshape(rule.m, rule.n)
            if d_type == "f64":  # NaN payloads are the model's host's
                same = (got == expected) | (np.isnan(got.view(np.float64)) & np.isnan(expected.view(np.float64)))
                assert same.all(), case
            else:
                np.testing.assert_array_equal(got, expected, err_msg=case)


def test_the_recorded_answers_tell_architectures_apart() -> None:
    key = "m16n8k16/f32.f16.f16.f32"
    assert (ARRAYS[f"outputs/sm_80/{key}"] != ARRAYS[f"outputs/sm_90/{key}"]).any()
    assert (ARRAYS[f"outputs/sm_90/{key}"] == ARRAYS[f"outputs/sm_100/{key}"]).all()
