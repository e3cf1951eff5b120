"""Every lane operation against what a GPU answered (tests/vectors/record_lane_ops.py), bit for bit."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lane_registers import Array, run_pair

FILES = sorted((Path(__file__).parents[1] / "vectors").glob("lane_ops_sm_*.npz"))
COUNT = 96


def width(type_name: str) -> int:
    digits = {"pred": 1, "f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4, "tf32": 4}
    if type_name in digits:
        return digits[type_name]
    return 2 if type_name[0] == "e" or type_name[1:] == "8" else int(type_name.strip("bfsu")) // 8


def load(path: Path) -> tuple[dict[str, Array], dict[str, list[tuple[dict[str, Any], list[Array]]]]]:
    """Inputs, and by opcode each form with its results."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    data, offset = arrays["outputs"], 0
    by_opcode: dict[str, list[tuple[dict[str, Any], list[Array]]]] = defaultdict(list)
    for form in json.loads(arrays["forms"].tobytes()):
        results = []
        for type_name in form["writes"]:
            size = COUNT * width(type_name)
            results.append(data[offset : offset + size].view(f"u{width(type_name)}"))
            offset += size
        by_opcode[form["text"].split(".")[0]].append((form, results))
    assert offset == len(data)
    return arrays, by_opcode


RECORDS = {path.stem: load(path) for path in FILES}
CASES = [(arch, opcode) for arch, (_, by_opcode) in RECORDS.items() for opcode in by_opcode]


def answer(form: dict[str, Any], arrays: dict[str, Array]) -> list[Array]:
    sources = [arrays[f"inputs/{type_name}/{k}"] for k, type_name in enumerate(form["reads"])]
    sources = [a.astype(bool) if t == "pred" else a for a, t in zip(sources, form["reads"], strict=True)]
    attributes = dict(form["attributes"])
    if "table" in attributes:
        sources.append(np.full(COUNT, int(attributes.pop("table"), 16), np.uint32))
    dtypes = [bool if t == "pred" else np.dtype(f"u{width(t)}") for t in form["writes"]]
    return run_pair(form["op"], dtypes, *sources, attributes=attributes)


def test_there_are_records() -> None:
    assert FILES
    assert sum(len(forms) for _, by_opcode in RECORDS.values() for forms in by_opcode.values()) > 2000


@pytest.mark.parametrize(("arch", "opcode"), CASES)
def test_agrees_with_the_gpu(arch: str, opcode: str) -> None:
    arrays, by_opcode = RECORDS[arch]
    for form, want in by_opcode[opcode]:
        got = answer(form, arrays)
        for mine, theirs in zip(got, want, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=f"{form['text']} ({form['op']} {form['attributes']})")
