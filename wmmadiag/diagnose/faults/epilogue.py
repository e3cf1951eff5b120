"""Another epilogue of a GEMM: bias, scales or activation missing, doubled, misread, or in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Value
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model
from wmmadiag.subject.epilogue import FUNCTIONS, finished, spread

Change: TypeAlias = "Callable[[Rows, Doubles], Doubles]"
"""(rows, alpha·A·B) → the output."""

Index: TypeAlias = "Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[np.intp]]"
"""(row, column) → the element of a vector that is read."""

_SCALES = ("scale_a", "scale_b")


def _rest(
    rows: Rows,
    product: Doubles,
    *,
    less: str = "",
    activation: str = "",
    instead: Mapping[str, Doubles] | None = None,
) -> Doubles:
    """The oracle's epilogue without one input, with others in their place, with another activation."""
    further = {role: array for role, array in {**rows.further, **(instead or {})}.items() if role != less}
    parameters = rows.problem.parameters
    name = activation or str(parameters["activation"])
    return finished(product, further, beta=float(parameters["beta"]), activation=name)


def _times(role: str, power: int, rows: Rows, product: Doubles) -> Doubles:
    """A scale to another power; 0 leaves it out."""
    return _rest(rows, product, instead={role: rows.further[role] ** power})


def _with_bias(factor: float, rows: Rows, product: Doubles) -> Doubles:
    return _rest(rows, product, instead={"bias": factor * rows.further["bias"]})


def _bias_scaled(names: tuple[str, ...], rows: Rows, product: Doubles) -> Doubles:
    return _rest(rows, product, instead={"bias": _factors(rows, product.shape, names) * rows.further["bias"]})


def _read_at(role: str, index: Index, rows: Rows, product: Doubles) -> Doubles:
    return _rest(rows, product, instead={role: picked(rows, role, index)})


def _other(name: str, rows: Rows, product: Doubles) -> Doubles:
    return _FORMULAS[name](_rest(rows, product, activation="none"))


def _candidate(
    model: str,
    words: str,
    change: Change,
    about: str,
    *,
    hypothesis: str = "epilogue",
    looser: float = 1.0,
    parameters: Mapping[str, Value] | None = None,
) -> Candidate:
    def predict(rows: Rows) -> Doubles:
        return change(rows, rows.products * rows.problem.scale)

    return Candidate(hypothesis, model, words, predict, parameters or {}, looser=looser, about=about)


def _apply(rows: Rows, values: Doubles) -> Doubles:
    return FUNCTIONS[str(rows.problem.parameters["activation"])].apply(values)


def _factors(rows: Rows, shape: tuple[int, ...], names: tuple[str, ...]) -> Doubles:
    """Product of alpha and scales, as many as are named, over a result of that shape."""
    result = np.full(shape, rows.problem.scale if "alpha" in names else 1.0)
    for name in names:
        if name != "alpha":
            result = result * spread(rows.further[name], shape)
    return result


def picked(rows: Rows, role: str, index: Index) -> Doubles:
    """A vector that is spread over rows or columns, read at index(row, column) instead; NaN outside of it."""
    vector = rows.extra(role).reshape(-1)
    at = np.broadcast_to(index(rows.index[:, None], np.arange(rows.keys)[None, :]), (rows.index.size, rows.keys))
    inside = (at >= 0) & (at < vector.size)
    return np.where(inside, vector[np.where(inside, at, 0)], np.nan)


@fault_model("gemm", rank=9)
def biases(problem: Problem) -> Iterator[Candidate]:
    """The bias missing, doubled, subtracted, before a scale, or after the activation."""
    if "bias" not in problem.extras:
        return
    name, beta = str(problem.parameters["activation"]), float(problem.parameters["beta"])
    yield _candidate("bias-missing", "the bias is not added", partial(_with_bias, 0.0), "bias")
    yield _candidate("bias-twice", "the bias is added twice", partial(_with_bias, 2.0), "bias")
    yield _candidate("bias-subtracted", "the bias is subtracted", partial(_with_bias, -1.0), "bias")
    if name != "none":
        yield _candidate(
            "bias-after-activation",
            f"the activation ({name}) is applied before the bias is added",
            lambda r, p: _rest(r, p, less="bias") + spread(r.further["bias"], p.shape),
            "bias",
        )
        yield _candidate(
            "activation-around-bias",
            f"the activation ({name}) is applied before the bias is added, too",
            lambda r, p: _apply(r, _rest(r, p, less="bias") + spread(r.further["bias"], p.shape)),
            "bias",
        )
    factors = [*(["alpha"] if problem.scale != 1.0 else []), *(one for one in _SCALES if one in problem.extras)]
    for names in [*((one,) for one in factors), *([tuple(factors)] if len(factors) > 1 else [])]:
        sizes = (float(np.abs(problem.extras.get(one, np.array(problem.scale))).max()) for one in names)
        yield _candidate(
            "bias-before-scale",
            f"the bias is added before the sum is multiplied by {' and '.join(names)}",
            partial(_bias_scaled, names),
            "bias",
            looser=max(1.0, *sizes),
        )
    if beta not in (0.0, 1.0):
        words = f"the bias is multiplied by beta ({beta:g})"
        yield _candidate("bias-times-beta", words, partial(_with_bias, beta), "bias", looser=max(1.0, abs(beta)))


@fault_model("gemm", rank=10)
def spread_indices(problem: Problem) -> Iterator[Candidate]:
    """A bias or scale that is read by the other axis, or by an index inside a tile."""
    for role, array in problem.extras.items():
        rows, columns = array.shape[-2:]
        if (rows > 1) == (columns > 1):
            continue
        axis, other, extent = ("row", "column", rows) if rows > 1 else ("column", "row", columns)
        for model, words, index, parameters in _misreadings(problem, rows > 1, axis, other, extent):
            yield _candidate(
                f"{role}-{model}",
                f"{role} {words}",
                partial(_read_at, role, index),
                role,
                hypothesis="index-arithmetic",
                parameters=parameters,
            )


def _misreadings(
    problem: Problem, along_rows: bool, axis: str, other: str, extent: int
) -> Iterator[tuple[str, str, Index, Mapping[str, Value]]]:
    """(model, words, index, parameters) of ways to misread a vector.

    Where the other axis is longer, what lies behind the end is anybody's: nothing is predicted of it.
    """

    def own(i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.intp]:
        return i if along_rows else j

    yield f"by-{other}", f"is indexed by the {other} instead of the {axis}", lambda i, j: j if along_rows else i, {}
    yield "first", f"gives its first element to every {axis}", lambda i, _: 0 * i, {}
    for tile in problem.tiles(extent):
        words = f"is indexed by the {axis} inside its tile of {tile} instead of the whole {axis}"
        mixed = f"is indexed by the {other} inside a tile of {tile}, in the tile of the {axis}"
        for part in (t for t in (16, 32, 64) if t < tile):
            words_of = f"is indexed by the {axis} inside parts of {part} of each tile of {tile}"
            yield "in-part-of-tile", words_of, partial(_in_part, along_rows, tile, part), {"tile": tile, "part": part}
        swapped = f"is indexed by the {axis} inside its tile of {tile}, in the tile of the {other}"
        yield "of-other-tile", swapped, partial(_mixed, not along_rows, tile), {"tile": tile}
        yield "of-other-in-tile", mixed, partial(_mixed, along_rows, tile), {"tile": tile}
        yield "in-tile", words, lambda i, j, t=tile: own(i, j) % t, {"tile": tile}  # type: ignore[misc]
    for offset in (1, -1):
        words = f"is read {offset:+d} element off"
        yield "shifted", words, lambda i, j, d=offset: own(i, j) + d, {"offset": offset}  # type: ignore[misc]


def _in_part(along_rows: bool, tile: int, part: int, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.intp]:
    own = i if along_rows else j
    return own // tile * tile + own % part


def _mixed(along_rows: bool, tile: int, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.intp]:
    own, other = (i, j) if along_rows else (j, i)
    return own // tile * tile + other % tile


@fault_model("gemm", rank=9)
def scales(problem: Problem) -> Iterator[Candidate]:
    """A scale of rows or columns missing, applied twice, or divided by."""
    for role in (one for one in _SCALES if one in problem.extras):
        size = np.abs(problem.extras[role])
        least, most = float(size.min()), float(size.max())
        for model, words, power in (
            ("missing", f"{role} is not applied", 0),
            ("twice", f"{role} is applied twice", 2),
            ("inverted", f"the sum is divided by {role}", -1),
        ):
            if power >= 0 or least > 0:
                looser = max(1.0, *(one ** (power - 1) for one in (least, most) if one > 0))
                yield _candidate(f"{role}-{model}", words, partial(_times, role, power), role, looser=looser)


@fault_model("gemm", rank=9)
def activations(problem: Problem) -> Iterator[Candidate]:
    """The activation missing, another one, twice, or at another place."""
    name, beta = str(problem.parameters["activation"]), float(problem.parameters["beta"])
    if name != "none":
        words = f"the activation ({name}) is not applied"
        yield _candidate("activation-missing", words, partial(_other, "none"), "activation")
        if beta and "c" in problem.arrays:
            yield _candidate(
                "c-after-activation",
                f"the activation ({name}) is applied before beta·C is added",
                lambda r, p: _rest(r, p, less="c") + beta * r.further["c"],
                "c",
            )
        if problem.scale not in (0.0, 1.0):
            yield _candidate(
                "alpha-after-activation",
                f"the activation ({name}) is applied to the sum before it is multiplied by alpha",
                lambda r, _: _rest(r, r.problem.scale * _apply(r, r.products), activation="none"),
                "activation",
            )
        if name != "relu":
            words = f"the activation ({name}) is applied twice"
            yield _candidate("activation-twice", words, lambda r, p: _apply(r, _rest(r, p)), "activation")
    for other, text in _OTHERS.items():
        if other not in (name, "none"):
            yield _candidate(
                "activation-other",
                f"{text} is applied"
                + (f" instead of {name}" if name != "none" else ", of which the card says nothing"),
                partial(_other, other),
                "activation",
                parameters={"activation": other},
            )


def _quick_gelu(x: Doubles) -> Doubles:
    return np.asarray(x / (1.0 + np.exp(-1.702 * x)))


_FORMULAS: Mapping[str, Callable[[Doubles], Doubles]] = {
    **{name: one.apply for name, one in FUNCTIONS.items()},
    "quick_gelu": _quick_gelu,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "relu6": lambda x: np.clip(x, 0.0, 6.0),
    "negative relu": lambda x: np.minimum(x, 0.0),
}
_OTHERS: Mapping[str, str] = {
    **{name: name for name in FUNCTIONS},
    "quick_gelu": "x·sigmoid(1.702·x)",
    "sigmoid": "the sigmoid alone",
    "relu6": "relu6",
    "negative relu": "min(x, 0)",
}
"""What kernels have in an activation's place, in words."""
