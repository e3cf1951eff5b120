"""What an attention kernel means, where nobody says so: masking, the order of the axes in memory, the scale.

Causal kernels without a flag, BSHD tensors behind plain pointers and scores that the caller has scaled are all
attention. A result that is wrong as stated and right to the last element under another reading says which is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np

from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.ops.parts.score_terms import ROLES
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.card import Argument, Card
from wmmadiag.subject.storage import Placement

_LARGEST = 1 << 23  # multiply-adds of one head's Q·Kᵀ; a larger case is not looked at
_LARGE_PART = 0.2  # of the elements; chance gives a hundredth of that
_NEAR = 0.03  # of the largest element, wider than rounding to 8 bits
_LAYOUTS = ("BSHD", "SBHD")
_ROLES = ("q", "k", "v", "o")


@dataclass(frozen=True, slots=True)
class AttentionConvention:
    """Changes to what a card states; None for what stays.

    Attributes:
        mask: corner of a causal mask ("top-left", "bottom-right"; "any" where both are the same), or "none".
        layout: of q, k, v and o; keys: of k alone.
        scale: 1 where the stated one is not.
    """

    mask: str | None = None
    layout: str | None = None
    keys: str | None = None
    scale: float | None = None

    @property
    def assumable(self) -> bool:
        """Whether kernels are written so on purpose; a scale that is left out is a mistake as often."""
        return self.scale is None

    @property
    def stored(self) -> bool:
        """Whether it may be about how tensors are stored, among other things."""
        return True

    def meaning(self) -> str:
        """In words: "a causal mask"."""
        parts = []
        if self.mask is not None:
            corner = f" aligned to the {self.mask} corner" if self.mask != "any" else ""
            parts.append("no mask" if self.mask == "none" else f"a causal mask{corner}")
        if self.layout is not None:
            parts.append(f"q, k, v and o stored as {self.layout}")
        if self.keys is not None:
            parts.append(f"k stored as {self.keys}")
        if self.scale is not None:
            parts.append(f"a scale of {self.scale:g}")
        return " and ".join(parts)

    def settings(self) -> str:
        """As a card says it."""
        parts = []
        if self.mask is not None:
            corner = f', alignment = "{self.mask}"' if self.mask != "any" else ""
            parts.append("causal = false" if self.mask == "none" else f"causal = true{corner}")
        if self.layout is not None:
            parts.append(f'layout = "{self.layout}" for q, k, v and o')
        if self.keys is not None:
            parts.append(f'layout = "{self.keys}" for k')
        if self.scale is not None:
            parts.append(f"scale = {self.scale:g}")
        return " and ".join(parts)


def fitting_attention(bound: BoundCase) -> tuple[AttentionConvention, float] | None:
    """The one other convention under which a finished, wrong attention is right, and which part of its elements is.

    As `conventions.fitting_convention`: a part is enough if no other reading has nearly as much. What a card states
    about its memory (layouts, strides, padding) is meant and not asked.
    """
    inputs, outputs = bound.inputs(), bound.outputs()
    if not {"q", "k", "v"} <= set(inputs) or "o" not in outputs or any(inputs[role].ndim != 4 for role in "qkv"):
        return None
    if set(ROLES) & set(inputs):
        return None  # what else is done to scores may be what is wrong
    (batches, heads, queries, depth), keys = inputs["q"].shape, inputs["k"].shape[2]
    if queries * keys * depth > _LARGEST or not inputs["k"].shape[1]:
        return None
    stated = _right_part(bound, AttentionConvention(), (batches - 1, heads - 1))
    ranked = sorted(
        ((_right_part(bound, one, (batches - 1, heads - 1)), one) for one in _candidates(bound)),
        key=lambda pair: -pair[0],
    )
    if not ranked:
        return None
    best, convention = ranked[0]
    second = max(stated, ranked[1][0] if len(ranked) > 1 else 0.0)
    # A mask leaves rows alike: the first ones of two corners, the last ones with and without.
    stands_out = best >= _LARGE_PART and (best == 1.0 > second or second <= best / 4)
    if not stands_out:
        return None
    every = [_right_part(bound, convention, (batch, head)) for batch, head in np.ndindex(batches, heads)]
    return convention, float(np.mean(every))


def _candidates(bound: BoundCase) -> Iterator[AttentionConvention]:
    """Readings with one or two changes that make a difference for this shape."""
    inputs = bound.inputs()
    batches, heads, queries, depth = inputs["q"].shape
    keys = inputs["k"].shape[2]
    causal, alignment = bool(bound.parameters["causal"]), str(bound.parameters["alignment"])
    corners = ["top-left", "bottom-right"] if keys != queries else ["any"]
    masks: list[str | None] = [None, *(corner for corner in corners if not causal or corner != alignment)]
    if causal:
        masks = [mask for mask in masks if mask is None or keys != queries] + ["none"]
    packed = all(_usual(bound, role) for role in _ROLES)
    layouts: list[str | None] = [None]
    if packed and heads > 1 and max(queries, keys) > 1:
        layouts += ["BSHD"] if batches == 1 else _LAYOUTS
    elif packed and batches > 1 and max(queries, keys) > 1:
        layouts += ["SBHD"]
    key_layouts: list[str | None] = [None, "BHDS"] if packed and keys > 1 and depth > 1 else [None]
    scales: list[float | None] = [None, 1.0] if float(bound.parameters["scale"]) != 1.0 else [None]
    for changes in product(masks, layouts, key_layouts, scales):
        one = AttentionConvention(*changes)
        count = sum(getattr(one, field.name) is not None for field in fields(one))
        if count in (1, 2) and not (one.layout and one.keys):
            yield one


def _usual(bound: BoundCase, role: str) -> bool:
    """Whether a role's storage is its argument's alone, packed, and lies as nobody says."""
    argument = bound.argument_of(role)
    view = argument.spec.views[0]
    if len(argument.spec.views) != 1 or view.layout or view.strides or view.pad or view.shape:
        return False
    placement = argument.placements[role]
    return placement == _placed(placement, "BHSD")


def _placed(placement: Placement, layout: str) -> Placement:
    """The same logical (B, H, S, D) tensor, packed in another order."""
    strides, step = {}, 1
    for letter in reversed(layout):
        strides[letter] = step
        step *= placement.shape["BHSD".index(letter)]
    return Placement(placement.shape, tuple(strides[letter] for letter in "BHSD"), 0)


def _right_part(bound: BoundCase, convention: AttentionConvention, head: tuple[int, int]) -> float:
    """Which part of one (batch, head) of the output is right under a convention."""
    arrays = {}
    for role in _ROLES:
        argument = bound.argument_of(role)
        layout = convention.keys if role == "k" and convention.keys else convention.layout
        placement = _placed(argument.placements[role], layout) if layout else argument.placements[role]
        storage = argument.storage if role == "o" else argument.original
        assert storage is not None
        whole = placement.view(storage)
        own = head[1] * whole.shape[1] // bound.argument_of("q").placements["q"].shape[1]
        arrays[role] = whole[head[0] : head[0] + 1, own : own + 1]
    observed = arrays.pop("o").astype(np.float64)
    parameters = dict(bound.parameters)
    if convention.mask is not None:
        parameters["causal"] = convention.mask != "none"
        if convention.mask not in ("none", "any"):
            parameters["alignment"] = convention.mask
    if convention.scale is not None:
        parameters["scale"] = convention.scale
    expected = reference("attention", parameters, arrays)
    with np.errstate(invalid="ignore"):
        near = np.abs(observed - expected["o"]) <= _NEAR * np.abs(expected["o"]).max()
    if near.mean() < _LARGE_PART:
        return 0.0  # saves the bound, which costs more than the reference
    allowed = judge("attention", parameters, arrays, expected, bound.elements())["o"].bound
    with np.errstate(invalid="ignore"):
        return float((np.abs(observed - expected["o"]) <= allowed).mean())


def with_attention(card: Card, convention: AttentionConvention) -> Card:
    """A card of an attention that means this."""
    parameters = dict(card.computes.parameters)
    if convention.mask is not None:
        parameters["causal"] = convention.mask != "none"
        if convention.mask not in ("none", "any"):
            parameters["alignment"] = convention.mask

    def laid_out(argument: Argument) -> Argument:
        views = []
        for view in argument.views:
            layout = convention.keys if view.role == "k" and convention.keys else convention.layout
            views.append(replace(view, layout=layout) if layout and view.role in _ROLES else view)
        return replace(argument, views=tuple(views))

    return replace(
        card,
        computes=replace(card.computes, parameters=parameters),
        arguments=tuple(map(laid_out, card.arguments)),
    )
