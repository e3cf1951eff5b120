"""V says which 16 keys a row belongs to: O then holds the weight that each tile of keys got, beside what it should be.

It shows a tile that is lost, counted twice, or not rescaled when the row's maximum grew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.parts.scores import as_heads
from wmmadiag.probes.answer import Verdict
from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe

_TILE = 16


def run(subject: Subject) -> Conclusion:
    """Column c of V is 1 for the keys of tile c, and 0 for the others; as many runs as V has columns too few."""
    shape = subject.inputs["v"].shape
    keys, width = shape[-2:]
    tiles = -(-keys // _TILE)
    observed: list[Doubles] = []
    expected: list[Doubles] = []
    wrong: list[NDArray[np.bool_]] = []
    undecided = False
    for start in range(0, tiles, width):
        count = min(width, tiles - start)
        codes = np.zeros((keys, width))
        codes[:, :count] = np.arange(keys)[:, None] // _TILE == start + np.arange(count)
        judged = subject.judged({"v": subject.values("v", codes)})
        undecided |= judged.verdict == "undecided"
        observed.append(as_heads(judged.observed)[..., :count])
        expected.append(as_heads(judged.expected)[..., :count])
        wrong.append(as_heads(judged.wrong)[..., :count])
    seen, want = np.concatenate(observed, axis=-1), np.concatenate(expected, axis=-1)
    bad = np.concatenate(wrong, axis=-1)
    if not bad.any():
        verdict: Verdict = "undecided" if undecided else "right"
        return Conclusion(
            verdict,
            f"tile-coded V: each of the {tiles} tiles of {_TILE} keys has its weight in every row",
        )
    return _concluded(seen, want, bad, keys)


def _concluded(seen: Doubles, want: Doubles, bad: NDArray[np.bool_], keys: int) -> Conclusion:
    tiles = seen.shape[-1]
    detail: list[str] = []
    lost = []
    for tile in range(tiles):
        mask = bad[..., tile]
        if not mask.any():
            continue
        heavy = mask & (want[..., tile] > 1e-3)
        if heavy.any() and (np.abs(seen[..., tile][heavy]) < 1e-3 * want[..., tile][heavy]).all():
            lost.append(tile)
        row = tuple(np.argwhere(mask)[0])
        where = f"keys {tile * _TILE} to {min(keys, (tile + 1) * _TILE) - 1}"
        if len(detail) < 8:
            detail.append(
                f"{where}: wrong in {int(mask.sum())} of {mask.size} rows, the first: weight "
                f"{seen[(*row, tile)]:.4g} instead of {want[(*row, tile)]:.4g}"
            )
    wrong_tiles = int(bad.any(axis=tuple(range(bad.ndim - 1))).sum())
    sentence = f"tile-coded V: {wrong_tiles} of {tiles} tiles of {_TILE} keys have a wrong weight"
    supports: tuple[str, ...] = ()
    if lost:
        sentence += f"; {'tile' if len(lost) == 1 else 'tiles'} {', '.join(map(str, lost[:8]))} count for nothing"
        supports = ("accumulation", "loop-extent")
    return Conclusion("wrong", sentence, supports, tuple(detail))


PROBE = SubjectProbe("key-tiles", "tile-coded V: has every tile of keys its weight?", ("attention",), run)
