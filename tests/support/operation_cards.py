"""Cards of any operation, made of its object: what its documentation says in a form that can be read and bound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from wmmadiag.ops import OPERATIONS, Operation
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import parse_card

DOCUMENTED = {name: one for name, one in OPERATIONS.items() if one.oracle is not None}


def card_of(
    operation: Operation,
    folder: Path,
    keys: Mapping[str, str] | None = None,
    *,
    optional: bool = False,
    computes: str = "",
    further: Mapping[str, int] | None = None,
) -> Card:
    """A card with every required role, or all of them, and the operation's own cases.

    Where no output is required the last one is there: gradients, of which a kernel may have any.

    Args:
        keys: lines of single roles' tables: {"a": 'layout = "BKM"'}.
        computes: lines of `[computes]`. further: symbols of each case.
    """
    (folder / "k.cu").write_text("")
    lines = ["format = 1", 'source = "k.cu"', 'entry = "k"', "[computes]", f'operation = "{operation.name}"', computes]
    outputs = [name for name, role in operation.roles.items() if role.output]
    needed = {name for name, role in operation.roles.items() if role.required}
    needed |= set() if needed & {*outputs} else {*outputs[-1:]}
    for name, role in operation.roles.items():
        if name in needed or optional or name in (keys or {}):
            dtype = "s32" if role.element == "int" else "f32"
            lines += ["[[arguments]]", f'role = "{name}"', f'dtype = "{dtype}"', (keys or {}).get(name, "")]
    lines += ["[launch]", "grid = 1", "block = 32"]
    for number, case in enumerate(operation.cases):
        lines += ["[[cases]]", f'name = "case{number}"']
        extents = {key: value // 8 if value > 16 else value for key, value in case.items()}  # binding draws them all
        lines += [f"{key} = {json.dumps(value)}" for key, value in {**extents, **(further or {})}.items()]
    return parse_card("\n".join(lines) + "\n", folder / "k.toml")
