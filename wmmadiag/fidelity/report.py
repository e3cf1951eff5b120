"""What a fidelity run says: a text for the terminal, and JSON from which docs/exactness.md is made."""

from __future__ import annotations

from typing import Any

from tabulate import tabulate

from wmmadiag.fidelity.compare import Piece
from wmmadiag.fidelity.families import FAMILIES
from wmmadiag.fidelity.run import Fidelity

_SHOWN = 20


def text(found: Fidelity, where: str) -> str:
    """The sums by family, and each key that differs.

    Args:
        where: the GPU, as its driver calls it.
    """
    lines = [f"{where}, {found.plan.arch}: {found.outputs:,} outputs compared, {found.differing:,} differ", ""]
    rows = []
    for name, family in FAMILIES.items():
        own = [count for (of, _), count in found.counts.items() if of == name]
        if own:
            outputs, differing = sum(one.outputs for one in own), sum(one.differing for one in own)
            rows.append([family.title, f"{len(own):,}", f"{outputs:,}", f"{differing:,}"])
    lines.append(tabulate(rows, headers=["", "cases", "outputs", "differing"], colalign=["left", *["right"] * 3]))
    wrong = [(key, one) for key, one in found.counts.items() if one.first is not None]
    for (family_name, key), one in wrong[:_SHOWN]:
        assert one.first is not None
        lines += ["", f"{family_name} {key}: {one.differing:,} of {one.outputs:,} differ; the first, with seed "
                  f"{one.first.piece.seed}: {one.first.first}"]  # fmt: skip
    if len(wrong) > _SHOWN:
        lines += ["", f"{len(wrong) - _SHOWN:,} more cases differ: --json FILE lists them"]
    left_out = sorted({(key, one.left_out) for (_, key), one in found.counts.items() if one.left_out})
    lines += ["", *(f"not compared: {key}: {why}" for key, why in left_out)] if left_out else []
    lines += [f"not compared: {_named(piece)}: {why}" for piece, why in found.errors.items()]
    return "\n".join(lines)


def _named(piece: Piece) -> str:
    return f"{piece.family} {piece.key}, seed {piece.seed}"


def as_json(found: Fidelity, where: str, date: str, seconds: float) -> dict[str, Any]:
    """All counts.

    Args:
        date: of the run, as ISO 8601 has it; seconds: that it took.
    """
    return {
        "gpu": where,
        "arch": found.plan.arch,
        "date": date,
        "seconds": round(seconds, 1),
        "seed": found.plan.seed,
        "outputs": found.outputs,
        "differing": found.differing,
        "counts": [
            {"family": family, "key": key, "outputs": one.outputs, "differing": one.differing, "left_out": one.left_out}
            for (family, key), one in sorted(found.counts.items())
        ],
        "errors": {_named(piece): why for piece, why in found.errors.items()},
    }
