"""The instruction table: every PTX form that is known, one readable row each.

To add an instruction, add one row to the module of its family (or a new module: all are found). `lookup` matches the
modifiers as written, in any order, against the rows.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from wmmadiag.ptx.instructions.form import Form, Resolved

__all__ = ["Form", "Resolved", "lookup", "refusal", "rows"]


def _collect() -> tuple[dict[str, list[Form]], dict[str, str]]:
    by_opcode: dict[str, list[Form]] = {}
    refused: dict[str, str] = {}
    seen: dict[str, str] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        if info.name == "form":
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        for form in getattr(module, "ROWS", ()):
            if form.identity in seen:
                raise ValueError(f"{module.__file__}: duplicate row {form.syntax!r}, also in {seen[form.identity]}")
            seen[form.identity] = str(module.__file__)
            by_opcode.setdefault(form.opcode, []).append(form)
        for prefix, reason in getattr(module, "REFUSED", {}).items():
            if prefix in refused:
                raise ValueError(f"{module.__file__}: {prefix!r} is refused twice")
            refused[prefix] = reason
    return by_opcode, refused


_FORMS, _REFUSED = _collect()


def rows() -> Mapping[str, list[Form]]:
    """All rows by opcode, in the order in which they are tried."""
    return _FORMS


@cache
def lookup(text: str) -> tuple[Resolved, ...]:
    """The forms that an opcode with modifiers as written can be; several when they differ in operands only.

    Empty when the instruction is unknown or refused (see `refusal`).
    """
    opcode, *modifiers = text.split(".")
    if _refused_prefix(text):
        return ()
    found = (form.match(tuple(modifiers)) for form in _FORMS.get(opcode, ()))
    return tuple(resolved for resolved in found if resolved is not None)


def _refused_prefix(text: str) -> str:
    pieces = text.split(".")
    for end in range(len(pieces), 0, -1):
        prefix = ".".join(pieces[:end])
        if prefix in _REFUSED:
            return prefix
    # A modifier that puts any instruction out of reach is written ".name".
    return next((f".{piece}" for piece in pieces[1:] if f".{piece}" in _REFUSED), "")


def refusal(text: str) -> str:
    """Why an instruction that `lookup` does not find cannot be emulated, one sentence for the user."""
    prefix = _refused_prefix(text)
    if prefix:
        return f"{text}: {_REFUSED[prefix]}"
    opcode = text.split(".", 1)[0]
    if opcode in _FORMS:
        return f"{text}: this combination of modifiers of {opcode!r} is not known and not emulated"
    return f"{text}: unknown instruction {opcode!r}, not emulated"
