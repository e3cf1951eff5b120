"""The approximate functions against the digests that a GPU computed of its own results, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from approximation_digests import APPROXIMATIONS, BY_TEXT, Approximation, Array, arguments, digest
from compare_approximations import FILES, agrees, answer

from wmmadiag.emulator import native


def load(path: Path) -> dict[str, Array]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


RECORDS = {path.stem: load(path) for path in FILES}


def exponent(value: float) -> int:
    """The block of an f32 value's sign and exponent."""
    return int(np.float32(value).view(np.uint32)) >> 23


# Where a function has the most cases: reduced range, both signs, ends of the range, subnormals.
CHOSEN = {
    "ex2": [exponent(v) for v in (0.75, -1.5, -100.0, -130.0)],
    "lg2": [exponent(v) for v in (0.75, 1.5)] + [0],
    "rcp": [exponent(v) for v in (1.5, -1.5, 2.0**126)] + [0],
    "rsqrt": [exponent(v) for v in (1.5, 2.5)] + [0],
    "sqrt": [exponent(v) for v in (1.5, 2.5)] + [0],
    "sin": [exponent(v) for v in (0.75, -3.0, 100.0, 1e9)],
    "cos": [exponent(v) for v in (0.75, -3.0, 100.0)],
    "tanh": [exponent(v) for v in (2.0**-8, 0.2, -0.6, 1.5, 5.0)],
}


def chosen(one: Approximation) -> list[int]:
    if one.kind == "f32":
        return CHOSEN[one.text.partition(".")[0]]
    return [0x3FF00000 >> 23] if one.kind == "f64" else [0]


BLOCKS = [(arch, one.text, block) for arch in RECORDS for one in APPROXIMATIONS for block in chosen(one)]


@pytest.mark.parametrize(("arch", "text", "block"), BLOCKS)
def test_agrees_with_the_gpu(arch: str, text: str, block: int) -> None:
    assert agrees(BY_TEXT[text], block, RECORDS[arch][text])


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "text"), dict.fromkeys((arch, text) for arch, text, _ in BLOCKS))
def test_agrees_with_the_gpu_throughout(arch: str, text: str) -> None:
    """One block of every 64; `compare_approximations.py` takes all."""
    one = BY_TEXT[text]
    differing = [block for block in range(59, one.blocks, 64) if not agrees(one, block, RECORDS[arch][text])]
    assert differing == []


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("text", BY_TEXT)
def test_every_engine_gives_the_same(text: str, isa: str) -> None:
    one = BY_TEXT[text]
    blocks = (0,) if one.blocks == 1 else (0, 118, 127, 255, 384)
    parts = [arguments(one, block * one.count + 5 * 2**14, 2**12) for block in blocks]
    operands = [np.concatenate(words) for words in zip(*parts, strict=True)]
    np.testing.assert_array_equal(answer(one, operands, isa), answer(one, operands))


def test_a_digest_tells_results_and_their_places_apart() -> None:
    results = np.arange(1024, dtype=np.uint32)
    base = digest(results, 0)
    changed = results.copy()
    changed[77] ^= 1
    swapped = results.copy()
    swapped[[3, 900]] = swapped[[900, 3]]
    assert len({base, digest(changed, 0), digest(swapped, 0), digest(results, 1)}) == 4
    halves = digest(results[:512], 0) + digest(results[512:], 512)
    assert halves % 2**64 == base


def test_there_are_records() -> None:
    assert RECORDS
    assert all(set(BY_TEXT) <= set(arrays) for arrays in RECORDS.values())
    assert Path(__file__).with_name("approximation_digests_sm_90.npz").stat().st_size < 100_000
