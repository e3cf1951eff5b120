"""Finished runs of kernels that are written in NumPy: float32 loops with half-precision operands, as kernels do it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card


def case(operation, roles, symbols, *, inputs="", computes="", seed=0, more_cases=""):
    """A bound case whose outputs are still poison. `roles`: name → (dtype, further lines)."""
    lines = ["format = 1", 'source = "k.cu"', 'entry = "f"']
    for role, (dtype, extra) in roles.items():
        lines += ["[[arguments]]", f'role = "{role}"', f'dtype = "{dtype}"', extra]
    lines += ["[launch]", "grid = 1", "block = 32", "[computes]", f'operation = "{operation}"', computes]
    lines += ["[[cases]]", 'name = "one"', *(f"{name} = {value}" for name, value in symbols.items()), more_cases]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cu").write_text("")
        card = parse_card("\n".join(lines), Path(folder) / "k.toml")
    return bind(card, card.cases[0], card.variants[0], seed=seed, inputs=inputs)


def attention_case(*, B=1, H=2, Hkv=None, Sq=100, Skv=None, D=64, causal=False, inputs="", computes="", out="f32"):
    symbols = {"B": B, "H": H, "Hkv": Hkv or H, "Sq": Sq, "Skv": Skv or Sq, "D": D}
    roles = {"q": ("f16", ""), "k": ("f16", ""), "v": ("f16", ""), "o": (out, "")}
    settings = computes + ("\ncausal = true" if causal else "")
    return case("attention", roles, symbols, inputs=inputs, computes=settings)


def product_case(M=48, N=64, K=96, *, computes="", c=False, out="f32", inputs="", dtype="f16", extra_a="", extra_b=""):
    roles = {"a": (dtype, extra_a), "b": (dtype, extra_b)}
    if c:
        roles["c"] = ("f32", "")
    roles["d"] = (out, "")
    return case("gemm", roles, {"M": M, "N": N, "K": K}, computes=computes, inputs=inputs)


def filled(bound, values, role=None):
    """The case after a run that left these values in its output."""
    outputs = bound.outputs()
    role = role or next(iter(outputs))
    with np.errstate(over="ignore", invalid="ignore"):
        outputs[role][...] = np.asarray(values).reshape(outputs[role].shape).astype(outputs[role].dtype)
    return bound


def operands(bound):
    """q, k, v as (B, H, S, D) float32, keys' heads repeated."""
    inputs = {role: array.astype(np.float32) for role, array in bound.inputs().items()}
    group = inputs["q"].shape[1] // inputs["k"].shape[1]
    return inputs["q"], inputs["k"].repeat(group, axis=1), inputs["v"].repeat(group, axis=1)


def half(x):
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


def flash(bound, *, tile=32, scale=None, fault="", mask=None, keys=None, padded=0, exp=np.exp, reverse=False):
    """An online softmax over key tiles in float32, P rounded to half; `fault` names what it does wrong.

    Args:
        mask: (i, j) → kept; None for the card's causal mask.
        keys: number of keys that the loop sees.
        padded: keys past the end that are counted with score 0 and V = 0.
    """
    q, k, v = operands(bound)
    scale = np.float32(bound.parameters["scale"] if scale is None else scale)
    count = k.shape[2] if keys is None else keys
    k = np.concatenate([k[:, :, :count], np.zeros((*k.shape[:2], padded, k.shape[3]), np.float32)], axis=2)
    v = np.concatenate([v[:, :, :count], np.zeros((*v.shape[:2], padded, v.shape[3]), np.float32)], axis=2)
    if mask is None and bound.parameters["causal"]:
        shift = count - q.shape[2] if bound.parameters["alignment"] == "bottom-right" else 0
        mask = lambda i, j: j <= i + shift  # noqa: E731 - one of several masks
    out = np.zeros((*q.shape[:3], v.shape[3]), np.float32)
    rows = np.arange(q.shape[2])[:, None]
    with np.errstate(all="ignore"):
        for b, h in np.ndindex(q.shape[:2]):
            m = np.full((q.shape[2], 1), -np.inf, np.float32)
            total = np.zeros_like(m)
            o = np.zeros((q.shape[2], v.shape[3]), np.float32)
            starts = list(range(0, k.shape[2], tile))
            for start in reversed(starts) if reverse else starts:
                stop = min(start + tile, k.shape[2])
                s = q[b, h] @ k[b, h, start:stop].T * scale
                if mask is not None:
                    s = np.where(mask(rows, np.arange(start, stop)[None, :]), s, np.float32(-np.inf))
                grown = np.maximum(m, s.max(axis=1, keepdims=True))
                if fault == "maximum-not-carried":
                    grown = s.max(axis=1, keepdims=True)
                safe = np.where(np.isinf(grown), 0, grown).astype(np.float32)
                alpha = np.where(np.isinf(m), 0, exp(m - safe)).astype(np.float32)
                p = exp(s - safe).astype(np.float32)
                of_o, of_l = alpha, alpha
                if fault == "alpha-missing-of-output":
                    of_o = np.float32(1)
                if fault == "alpha-missing-of-sum":
                    of_l = np.float32(1)
                if fault in ("alpha-missing", "maximum-not-carried"):
                    of_o = of_l = np.float32(1)
                if fault == "alpha-inverted-of-output":
                    of_o = np.where(alpha > 0, 1 / alpha, 1)
                if fault == "alpha-twice-of-output":
                    of_o = alpha * alpha
                part = half(p) @ v[b, h, start:stop]
                o = part if fault == "last-tile-survives-of-output" else o * of_o + part
                total = total * of_l + p.sum(axis=1, keepdims=True)
                if fault == "alpha-after-tile-of-output":
                    o = part + (o - part) if start == starts[0] else (o - part) + part
                m = grown
            if fault == "sum-not-divided":
                total = np.ones_like(total)
            if fault == "sum-divided-twice":
                total = total * total
            if fault == "sum-of-other-row":
                total = np.roll(total, -1, axis=0)
            out[b, h] = o / total
    return out
