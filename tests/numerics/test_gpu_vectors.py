"""Rules, native core and fragment maps against what GPUs answered (see tests/vectors/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_parts import matrix_dtype, mma, pack_a, pack_b
from numpy.typing import NDArray

from wmmadiag.fragments import ldmatrix_map, wmma_map
from wmmadiag.numerics.tensor_core import mma_rule

FILES = sorted((Path(__file__).parents[1] / "vectors").glob("sm_*.npz"))


def _load(path: Path) -> Mapping[str, NDArray[Any]]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


RECORDS = {path.stem: _load(path) for path in FILES}
SUMS = [
    (arch, key)
    for arch, arrays in RECORDS.items()
    for key in dict.fromkeys(name[8:].rsplit("/", 1)[0] for name in arrays if name.startswith("outputs/"))
]


@pytest.mark.parametrize(("arch", "key"), SUMS)
def test_sums_agree_bit_for_bit(arch: str, key: str) -> None:
    arrays = RECORDS[arch]
    instruction, shape, form = key.split("/")
    d_type, a_type, b_type, c_type = form.split(".")[:4]
    bit_op = next((op for op in ("xor_popc", "and_popc") if op.replace("_", ".") in form), "")
    rule = mma_rule(arch, instruction, shape, a_type, b_type, c_type, d_type, ".satfinite" in form, bit_op)
    for name, outputs in arrays.items():
        if not name.startswith(f"outputs/{key}/"):
            continue
        case = name.rsplit("/", 1)[1]
        a, b, c = (arrays[f"inputs/{key}/{role}/{case}"] for role in "abc")
        for tile in np.ndindex(outputs.shape[:2]):
            d = mma(rule, pack_a(a[tile], a_type), pack_b(b[tile], b_type), c[tile])
            got = np.asarray(d).view(matrix_dtype(d_type)).reshape(rule.m, rule.n)
            np.testing.assert_array_equal(got, outputs[tile], err_msg=f"{case} {tile}")


@pytest.mark.parametrize("arch", RECORDS)
def test_wmma_layouts_agree(arch: str) -> None:
    found = 0
    for name, ids in RECORDS[arch].items():
        if name.startswith("layouts/"):
            _, shape, matrix, type_, _ = name.split("/")
            fragment = wmma_map(shape, matrix, type_, arch)
            np.testing.assert_array_equal(
                fragment.row.astype(int) * fragment.shape[1] + fragment.col, ids, err_msg=name
            )
            found += 1
    assert found > 50


@pytest.mark.parametrize("arch", RECORDS)
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_layout_agrees(arch: str, trans: bool) -> None:
    fragment = ldmatrix_map("x4", trans)
    ids = RECORDS[arch]["ldmatrix/x4" + (".trans" if trans else "")]
    np.testing.assert_array_equal(fragment.tile.astype(int) * 64 + fragment.row * 8 + fragment.col, ids)
