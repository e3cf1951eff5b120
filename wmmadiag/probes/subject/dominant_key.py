"""One key dominates each query, each query another one: P is one-hot, and each row of O is a row of V.

It shows which key each query really finds, whatever the softmax does with smaller weights: a transposed, shifted or
repeated tile of Q, K or V puts other rows there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.parts.scores import as_heads
from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe

_GAP = 40.0
"""Score by which the dominant key leads: the others' weights are below exp(-40), which no type here sees beside 1."""


def run(subject: Subject) -> Conclusion | None:
    """Keys are rows of random signs; query i is a multiple of its key."""
    scale = float(subject.parameters["scale"])
    q, k, v = (as_heads(subject.inputs[role]) for role in "qkv")
    keys, width = k.shape[2:]
    if width < 8 or not 0 < scale < np.inf:
        return None
    rng = np.random.default_rng(11)
    signs = rng.choice([-1.0, 1.0], k.shape)
    group = q.shape[1] // k.shape[1]
    chosen = rng.permuted(
        np.broadcast_to(np.arange(max(keys, q.shape[2])), (*q.shape[:2], max(keys, q.shape[2]))), axis=-1
    )
    chosen = chosen[..., : q.shape[2]] % keys
    if subject.parameters["causal"]:
        offset = keys - q.shape[2] if subject.parameters["alignment"] == "bottom-right" else 0
        chosen = chosen % np.maximum(np.arange(q.shape[2]) + offset + 1, 1)
    queries = np.take_along_axis(np.repeat(signs, group, axis=1), chosen[..., None], axis=2)
    products = queries @ np.repeat(signs, group, axis=1).swapaxes(-1, -2)
    np.put_along_axis(products, chosen[..., None], -np.inf, axis=-1)
    lead = width - products.max(initial=-width)
    if lead <= 0:  # two keys are the same: too few dimensions for so many
        return None
    factor = _GAP / (scale * lead)
    values = rng.standard_normal(v.shape)
    given = {"q": queries * factor, "k": signs, "v": values}
    judged = subject.judged(
        {role: subject.values(role, x.reshape(subject.inputs[role].shape)) for role, x in given.items()}
    )
    if judged.right:
        return Conclusion(
            judged.verdict,
            "one key dominates each query: every row of O is that key's row of V: right, so Q, K and V are read "
            "in place",
        )
    if judged.overflows and subject.base_judged.right:
        return Conclusion(
            "undecided",
            "one key dominates each query: such scores overflow here, and the case's own do not: "
            "the kernel may not be meant for them (no maximum is subtracted)",
        )
    return _compared(judged.wrong, as_heads(judged.observed), chosen, np.repeat(values, group, axis=1), judged.where())


def _compared(
    wrong: NDArray[np.bool_], observed: Doubles, chosen: NDArray[np.int64], values: Doubles, where: str
) -> Conclusion:
    rows = as_heads(wrong).any(axis=-1)
    found, detail = 0, [where]
    for batch, head, row in np.argwhere(rows)[:256]:
        distance = np.abs(values[batch, head] - observed[batch, head, row]).max(axis=-1)
        with np.errstate(invalid="ignore"):
            near = int(np.argmin(np.where(np.isnan(distance), np.inf, distance)))
        if distance[near] < 0.02:
            found += 1
            if len(detail) < 6:
                detail.append(f"head [{batch},{head}] row {row}: V of key {near} instead of {chosen[batch, head, row]}")
    count, looked = int(rows.sum()), min(int(rows.sum()), 256)
    if found > looked // 2:
        return Conclusion(
            "wrong",
            f"one key dominates each query: {count} of {rows.size} rows of O are another key's row of V",
            ("layout", "leading-dimension", "stride", "index", "value"),
            tuple(detail),
        )
    return Conclusion(
        "wrong",
        f"one key dominates each query: {count} of {rows.size} rows of O are no single row of V",
        (),
        tuple(detail),
    )


PROBE = SubjectProbe("dominant-key", "one key per query: is each row of O that key's row of V?", ("attention",), run)
