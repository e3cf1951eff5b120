"""Casts of pointers to numbers to pointers to numbers of another kind, in the middle of an access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.source.model import SourceModel

_KINDS = {
    "half": "half", "__half": "half", "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "float": "float",
    "double": "double", "signed char": "signed byte", "int8_t": "signed byte", "unsigned char": "unsigned byte",
    "uint8_t": "unsigned byte",
}  # fmt: skip
_SIZES = {"half": 2, "bfloat16": 2, "float": 4, "double": 8}
_BYTES = ("signed byte", "unsigned byte")


@dataclass(frozen=True, slots=True)
class MistypedAccess:
    """`((half*)sO)[i]` of a `float* sO`: the array, what it is declared of, and what it is taken for."""

    array: str
    declared: str
    taken: str
    line: int

    @property
    def wider(self) -> bool:
        """Whether elements are taken for larger ones than the array has."""
        return _SIZES.get(_KINDS[self.taken], 1) > _SIZES.get(_KINDS[self.declared], 1)


def mistyped(model: SourceModel) -> Iterator[MistypedAccess]:
    """Such accesses, once per line and array. Initialisers of pointers, which carve buffers, are none.

    Bytes are taken for bytes of the other sign only: raw memory is declared as bytes.
    """
    initial = [v.initial for v in model.variables if v.pointer and v.initial is not None]
    told: set[tuple[str, int]] = set()
    for index, token in enumerate(model.tokens):
        taken, after = _cast(model, index)
        if not taken or after >= len(model.tokens):
            continue
        name = model.tokens[after]
        variable = model.variable(name.text, name.offset) if name.kind == "id" else None
        if variable is None or not (variable.pointer or variable.dims) or (name.text, token.line) in told:
            continue
        declared = variable.element
        kinds = _KINDS.get(declared, ""), _KINDS.get(taken, "")
        bytes_ = [kind in _BYTES for kind in kinds]
        if not all(kinds) or kinds[0] == kinds[1] or bytes_[0] != bytes_[1]:
            continue
        if any(one.start <= token.offset < one.end for one in initial):
            continue
        told.add((name.text, token.line))
        yield MistypedAccess(name.text, declared, taken, token.line)


def _cast(model: SourceModel, index: int) -> tuple[str, int]:
    """(element type, index of the token that is cast) of a cast to a pointer that begins at a token; ("", 0) else."""
    tokens = model.tokens
    if tokens[index].text == "reinterpret_cast" and index + 1 < len(tokens) and tokens[index + 1].text == "<":
        first, closer = index + 2, ">"
    elif tokens[index].text == "(":
        first, closer = index + 1, ")"
    else:
        return "", 0
    words = []
    at = first
    while at < len(tokens) and tokens[at].kind == "id" and at < first + 4:
        words.append(tokens[at].text)
        at += 1
    if at + 2 >= len(tokens) or not words or tokens[at].text != "*" or tokens[at + 1].text != closer:
        return "", 0
    after = at + 2
    while after + 1 < len(tokens) and tokens[after].text in ("(", "&"):
        after += 1
    return " ".join(word for word in words if word not in ("const", "volatile")), after
