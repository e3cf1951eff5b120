"""Whether the shapes of an operation's tensors fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS
from wmmadiag.place import Place
from wmmadiag.subject.card import Card
from wmmadiag.subject.symbols import Parameters

Shape: TypeAlias = tuple[int, ...]
Axis: TypeAlias = tuple[str, int]

# Axes that must be equal, by operation; the second counts from the end: ("q", -1) is the last axis of q.
_EQUAL: Mapping[str, tuple[tuple[Axis, Axis], ...]] = {
    "attention": (
        (("q", -1), ("k", -1)),
        (("k", -2), ("v", -2)),
        (("o", -2), ("q", -2)),
        (("o", -1), ("v", -1)),
        (("lse", -1), ("q", -2)),
    ),
    "qkt": ((("q", -1), ("k", -1)), (("scores", -2), ("q", -2)), (("scores", -1), ("k", -2))),
    "pv": ((("p", -1), ("v", -2)), (("o", -2), ("p", -2)), (("o", -1), ("v", -1))),
    "softmax": ((("y", -1), ("x", -1)), (("y", -2), ("x", -2))),
}
# Roles whose leading axes (batch, then head) must agree with the first's, up to a divisor of the heads (GQA).
_HEADS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "attention": (("q", "o"), ("k", "v")),
    "qkt": (("q", "scores"), ("k",)),
    "pv": (("p", "o"), ("v",)),
}


def check_shapes(card: Card, shapes: Mapping[str, Shape], parameters: Parameters) -> None:
    """Refuse shapes that the operation cannot combine.

    Args:
        shapes: logical shape by role.
        parameters: of the operation, evaluated.

    Raises:
        ConfigurationError: at the argument whose shape does not fit.
    """
    operation = card.computes.operation
    for (one, a), (other, b) in _EQUAL.get(operation, ()):
        if one in shapes and other in shapes and shapes[one][a] != shapes[other][b]:
            raise _misfit(card, other, f"axis {b} of {_shown(other, shapes)} differs from axis {a} of", one, shapes)
    spread_roles = [role for role, one in OPERATIONS[operation].roles.items() if one.usual and role in shapes]
    for role in shapes if operation in _HEADS else ():
        if role in spread_roles:
            continue
        first = _HEADS[operation][0][0]
        leading, expected = shapes[role][:-2], shapes[first][:-2]
        if role == "lse":
            leading = shapes[role][:-1]
        grouped = role in _HEADS[operation][1]
        fits = leading == expected or (
            grouped
            and len(leading) == len(expected) >= 1
            and leading[:-1] == expected[:-1]
            and expected[-1] % leading[-1] == 0
        )
        if not fits:
            raise _misfit(card, role, f"the batch and head axes of {_shown(role, shapes)} do not fit", first, shapes)
    if operation == "gemm":
        _check_gemm(card, shapes, parameters)
    elif spread_roles:
        # q's axes with k's rows in place of the last: (B, H, Sq, Skv), of which a role has the first few, or the last.
        scores = (*(1,) * (4 - len(shapes["q"])), *shapes["q"][:-1], shapes["k"][-2])
        for role in spread_roles:
            over = scores[: len(OPERATIONS[operation].roles[role].axes)]
            _check_spread(card, role, over, "the scores of", "q", shapes)


def _check_gemm(card: Card, shapes: Mapping[str, Shape], parameters: Parameters) -> None:
    a, b = shapes["a"], shapes["b"]
    rows, depth = (a[-1], a[-2]) if parameters["transpose_a"] else (a[-2], a[-1])
    inner, columns = (b[-1], b[-2]) if parameters["transpose_b"] else (b[-2], b[-1])
    if inner != depth:
        raise _misfit(card, "b", f"depth {inner} of {_shown('b', shapes)} differs from {depth} of", "a", shapes)
    for role in ("c", "d"):
        if role in shapes and shapes[role][-2:] != (rows, columns):
            raise _misfit(card, role, f"{_shown(role, shapes)} is not {rows}×{columns}, the product of", "a", shapes)
    spread_roles = [role for role in shapes if OPERATIONS["gemm"].roles[role].usual]
    for role in shapes:
        if role not in spread_roles and shapes[role][:-2] != a[:-2]:
            raise _misfit(card, role, f"the leading axes of {_shown(role, shapes)} differ from those of", "a", shapes)
    for role in spread_roles:
        _check_spread(card, role, (*a[:-2], rows, columns), "the product of", "a", shapes)


def _check_spread(card: Card, role: str, over: Shape, what: str, other: str, shapes: Mapping[str, Shape]) -> None:
    """Whether every axis of a role has the extent of the result's axis, or 1."""
    own = shapes[role]
    wide = (1,) * (len(own) - len(over)) + over
    if any(mine not in (1, extent) for mine, extent in zip(own, wide[len(wide) - len(own) :], strict=True)):
        extents = "×".join(map(str, over))
        raise _misfit(card, role, f"{_shown(role, shapes)} cannot be spread over {extents}, {what}", other, shapes)


def _shown(role: str, shapes: Mapping[str, Shape]) -> str:
    return f"'{role}' {list(shapes[role])}"


def _misfit(card: Card, role: str, what: str, other: str, shapes: Mapping[str, Shape]) -> ConfigurationError:
    place: Place = next((v.place for a in card.arguments for v in a.views if v.role == role), card.computes.place)
    return ConfigurationError(f"{what} {_shown(other, shapes)}", place=place, hint="see `shape`, `layout` and symbols")
