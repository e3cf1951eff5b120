"""What host code says about the axes of its tensors: `int heads = q.size(1);`.

Such definitions tell the layout of the arrays that the kernel gets, and what `q.size(1)` and `q.stride(0)` are.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.c_expressions import CannotTranslate, HostScope, translate
from wmmadiag.subject.drafts.guess import role_named, symbol_for
from wmmadiag.subject.drafts.source_facts import without_comments
from wmmadiag.subject.expressions import ExpressionError, evaluate

# `name = [casts] tensor.size(1)`, also sizes()[1], shape[1].
_DEFINITION = re.compile(
    r"\b([A-Za-z_]\w*)\s*(?:=|\()\s*(?:\(\s*\w+\s*\)\s*|static_cast\s*<[^<>]*>\s*\(\s*)?"
    r"([A-Za-z_]\w*)\s*(?:\.|->)\s*(?:size\s*\(\s*(-?\d)\s*\)|(?:sizes\s*\(\s*\)|shape)\s*\[\s*(-?\d)\s*\])"
)
_LETTERS = {"B": "B", "H": "H", "Hkv": "H", "S": "S", "Sq": "S", "Skv": "S", "D": "D", "Dv": "D", "B*H": "H"}
_LAYOUTS: Mapping[int, tuple[str, ...]] = {4: ("BHSD", "BSHD", "SBHD"), 3: ("HSD", "SHD")}
_ROLES = ("q", "k", "v", "o")
# Where a matrix that lies by rows has its extents, counted from the end.
_PLACES: Mapping[tuple[str, str], int] = {("a", "M"): -2, ("a", "K"): -1, ("b", "K"): -2, ("b", "N"): -1}
_PACKED = ("BS3HD", "BSH3D", "B3SHD", "B3HSD", "3BHSD", "BS2HD", "B2SHD", "2BHSD")


@dataclass(frozen=True, slots=True)
class TensorAxes:
    """The axes of the tensors of an attention in host code.

    Attributes:
        layout: letters in memory order, "BHSD" or another; three letters for tensors without a batch axis of their own.
        flat: whether the first of three axes is batch × heads.
        known: whether the source says so; if not, the layout is the usual one.
        packed: layout of q, k and v (or k and v) in one tensor, "" if the source does not say.
        transposed: the operands of a GEMM that lie the other way around, as host code that measures them says.
    """

    layout: str = "BHSD"
    flat: bool = False
    known: bool = False
    packed: str = ""
    transposed: frozenset[str] = frozenset()

    def card_layout(self) -> str:
        """As a card writes it."""
        return self.layout if len(self.layout) == 4 else {"HSD": "BHSD", "SHD": "BSHD"}[self.layout]

    def symbols(self, tensor: str, role: str, operation: str = "attention", rank: int = 0) -> dict[str, str]:
        """Meaning of `tensor.size(i)` and `tensor.stride(i)`, written "tensor.size(i)", counted from either end.

        `rank`: how many axes the tensor has, 0 if nothing says so.
        """
        extents = self._extents(role, operation, rank)
        found: dict[str, str] = {}
        rank = len(extents)
        for axis, extent in enumerate(extents):
            stride = "*".join(extents[axis + 1 :]) or "1"
            for index in (axis, axis - rank):
                found[f"{tensor}.size({index})"] = extent
                found[f"{tensor}.stride({index})"] = stride
        return found

    def _extents(self, role: str, operation: str, rank: int) -> list[str]:
        if operation == "attention" and role in _ROLES:
            if rank in (0, len(self.layout)):
                return [self._extent(letter, role) for letter in self.layout]
            if rank == 4:
                return [self._extent(letter, role) for letter in self.card_layout()]
            if rank == 3:  # batch and heads in one
                return ["B*H", *(self._extent(letter, role) for letter in "SD")]
        known = OPERATIONS[operation].roles.get(role)
        if known is None:
            return []
        usual = {"a": ("batch", "M", "K"), "b": ("batch", "K", "N")}.get(role, known.shape)
        shape = list(usual[-(rank or (2 if operation == "gemm" else len(usual))) :])
        if role in self.transposed:
            shape[-2:] = shape[:-3:-1]
        return shape

    def stride(self, letter: str, role: str) -> str | None:
        """Elements from one index of an axis (B, H, S or D) to the next."""
        layout = self.card_layout()
        return "*".join(self._extent(inner, role) for inner in layout[layout.index(letter) + 1 :]) or "1"

    def _extent(self, letter: str, role: str) -> str:
        if letter == "H" and self.flat and len(self.layout) == 3:
            return "B*H"
        if role in ("k", "v"):
            return {"H": "Hkv", "S": "Skv"}.get(letter, letter)
        return {"S": "Sq"}.get(letter, letter)


def tensor_axes(text: str, operation: str, roles: Mapping[str, str]) -> TensorAxes:
    """The axes that a source's definitions agree on.

    Args:
        text: of the source.
        roles: variable of the host code → role, for those that are passed to the kernel.
    """
    facts: list[tuple[int, str]] = []
    matrices: dict[str, list[tuple[int, str]]] = {}
    packed: list[tuple[int, str]] = []
    parts = ""
    for name, tensor, plain, other in _DEFINITION.findall(_spelled_out(without_comments(text))):
        role = roles.get(tensor) or role_named(tensor, operation)
        symbol = symbol_for(name, operation)
        if operation == "gemm" and role in ("a", "b"):
            matrices.setdefault(role, []).append((int(plain or other), symbol or ""))
        elif role in _ROLES and symbol in _LETTERS:
            facts.append((int(plain or other), symbol))
        elif role in ("qkv", "kv") and symbol in _LETTERS:
            packed.append((int(plain or other), symbol))
            parts = "3" if role == "qkv" else "2"
    layouts = [one for one in _PACKED if packed and parts in one]
    found = [one for one in layouts if all(_agrees(one, index, symbol) for index, symbol in packed)]
    return replace(
        _plain_axes(facts),
        packed=found[0] if found and _telling(packed) else "",
        transposed=frozenset(role for role, sizes in matrices.items() if _is_turned(role, sizes)),
    )


def _is_turned(role: str, sizes: list[tuple[int, str]]) -> bool:
    """Whether every size that host code reads off a matrix says that it does not lie by rows."""
    rank = 3 if any(index == 2 or symbol == "batch" for index, symbol in sizes) else 2
    says = {
        _PLACES[role, symbol] != (index if index < 0 else index - rank)
        for index, symbol in sizes
        if (role, symbol) in _PLACES
    }
    return says == {True}


def _spelled_out(plain: str) -> str:
    """The text with `sizes[1]` of `auto sizes = q.sizes();` as `q.size(1)`."""
    tensors: dict[str, set[str]] = {}
    for name, tensor in re.findall(r"\b([A-Za-z_]\w*)\s*=\s*([A-Za-z_]\w*)\s*(?:\.|->)\s*sizes\s*\(\s*\)\s*;", plain):
        tensors.setdefault(name, set()).add(tensor)
    for name, known in tensors.items():
        if len(known) == 1:
            plain = re.sub(rf"(?<![\w.>]){name}\s*\[\s*(-?\d)\s*\]", rf"{next(iter(known))}.size(\1)", plain)
    return plain


def _plain_axes(facts: list[tuple[int, str]]) -> TensorAxes:
    if not facts:
        return TensorAxes()
    rank = 4 if any(index == 3 or symbol == "B" for index, symbol in facts) else 1 + max(index for index, _ in facts)
    # One axis in the middle alone leaves open whether there are three or four.
    candidates = [*_LAYOUTS.get(rank, ()), *(_LAYOUTS[4] if rank == 3 else ())]
    for layout in candidates:
        if all(_agrees(layout, index, symbol) for index, symbol in facts):
            return TensorAxes(layout, ("B*H" in {symbol for _, symbol in facts}), _telling(facts))
    return TensorAxes()


# Words for axes in the names of strides; m, n and k as in Triton's tutorial, where k of V and n of V have changed.
_AXIS_WORDS = {
    "B": "b batch z", "H": "h head heads", "S": "s seq seqlen row token t l m n", "D": "d dim col k",
}  # fmt: skip
_AMBIGUOUS = {"vk", "vn", "n", "k", "m", "on"}


def stride_for(name: str, operation: str, axes: TensorAxes) -> str | None:
    """The stride that a parameter's name means: "q_stride_b", "stride_kh", "o_head_stride", "batch_stride"."""
    found = _stride_axis(name, operation)
    return None if found is None else axes.stride(found[1], found[0])


def layout_of_strides(strides: Mapping[str, str], operation: str) -> str:
    """The one layout that strides, parameter → expression, all fit; "" if they fit several or none."""
    told = [(*found, text) for name, text in strides.items() if (found := _stride_axis(name, operation)) is not None]
    values: list[tuple[str, int]] = []
    for _, letter, text in told:
        with contextlib.suppress(ExpressionError, KeyError):
            value = evaluate(text, _EXAMPLE.__getitem__)
            if isinstance(value, int):
                values.append((letter, value))
    fitting = [
        layout
        for layout in _LAYOUTS[4]
        if all(
            value == math.prod(_EXAMPLE[inner] for inner in layout[layout.index(letter) + 1 :])
            for letter, value in values
        )
    ]
    return fitting[0] if len(fitting) == 1 else ""


# Extents without a common divisor, to tell products apart.
_EXAMPLE: Mapping[str, int] = {"B": 2, "H": 3, "Hkv": 3, "S": 35, "Sq": 35, "Skv": 35, "D": 11, "Dv": 11}


def _stride_axis(name: str, operation: str) -> tuple[str, str] | None:
    """(role, axis letter) of the stride that a parameter's name means."""
    words = [word for word in re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_") if word]
    rest = [word.removeprefix("stride") for word in words if word not in ("stride", "strides")]
    rest = [word for word in rest if word]
    if operation != "attention" or "stride" not in name.lower() or len(rest) not in (1, 2):
        return None
    role = "q"
    if len(rest) == 1 and len(rest[0]) == 2 and rest[0][0] in _ROLES:
        rest = list(rest[0])
    if len(rest) == 2:
        roles = [word for word in rest if role_named(word, operation) in _ROLES or word in ("qkv", "kv")]
        role = "k" if roles[:1] == ["kv"] else (role_named(roles[0], operation) or "q") if roles else ""
        if not roles or "".join(rest) in _AMBIGUOUS:
            return None
        rest.remove(roles[0])
    elif rest[0] in _AMBIGUOUS:
        return None
    letter = next((letter for letter, known in _AXIS_WORDS.items() if rest[0] in known.split()), None)
    return None if letter is None or role not in (*_ROLES, "qkv") else (role, letter)


def _agrees(layout: str, index: int, symbol: str) -> bool:
    return -len(layout) <= index < len(layout) and layout[index] == _LETTERS[symbol]


def axis_letter(text: str, scope: HostScope) -> str:
    """The axis whose extent an expression of host code is: B, H, S or D; "?" if none."""
    try:
        return _LETTERS.get(translate(text, scope), "?")
    except CannotTranslate:
        return "?"


def _telling(facts: Iterable[tuple[int, str]]) -> bool:
    """Whether a fact places the heads or the rows: the batch and the columns stand alike in most layouts."""
    return any(_LETTERS[symbol] in "HS" for _, symbol in facts)
