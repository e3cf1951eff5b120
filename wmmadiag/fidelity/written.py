"""Every form of every lane operation, as PTX text: what the vectors cover.

The list is a file, `instructions.txt`, so that a new row of the instruction table changes no recorded program:
`python -m wmmadiag.fidelity.written` writes it anew from the table, and then all must be recorded anew.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wmmadiag.emulator import native
from wmmadiag.ptx.instructions import lookup, rows
from wmmadiag.ptx.instructions.form import Form, Resolved
from wmmadiag.ptx.types import CLASSES, WIDTHS

LIST = Path(__file__).with_name("instructions.txt")
_GROUP = re.compile(r"(\{)?((?:\.[\w:]+)+)(?(1)\})")


@dataclass(frozen=True)
class WrittenInstruction:
    """One instruction: opcode with modifiers as written, and what the table says of it."""

    text: str
    means: Resolved

    @property
    def op(self) -> str:
        return self.means.op


def spellings(form: Form) -> Iterator[str]:
    """Every opcode with modifiers that a row allows, in the row's order of modifiers."""
    opcode, choices = _choices(form)
    for combined in itertools.product(*choices):
        yield opcode + "".join(combined)


def _choices(form: Form) -> tuple[str, list[list[str]]]:
    """A row's opcode, and what may stand at each place behind it."""
    modifiers = form.syntax.partition(" ")[0]
    opcode, dot, rest = modifiers.partition(".")
    rest = ("{" if opcode.endswith("{") else "") + dot + rest
    choices: list[list[str]] = []
    for match in _GROUP.finditer(rest):
        parts = [form.choices[name].split() if name in form.choices else [name] for name in match[2][1:].split(".")]
        texts = ["".join(f".{part.partition('=')[0]}" for part in combined) for combined in itertools.product(*parts)]
        choices.append([*([""] if match[1] else []), *texts])
    return opcode.rstrip("{"), choices


def _left_out(text: str, means: Resolved) -> bool:
    """What ptxas 13 refuses though the ISA's grammar has it, and moves and predicate logic that other kernels show."""
    types = [spec.type for spec in means.specs]
    if "b128" in types or "pred" in means.op.split("."):
        return True
    if means.op.startswith("cvt.") and "bf16" in types and {"u8", "s8"} & set(types):
        return True  # needs 8-bit registers
    if ".sat." in text and all(CLASSES[type_name] == "integer" for type_name in types[:2]):
        to, source = types[:2]
        room = WIDTHS[to] - WIDTHS[source]
        return means.op.startswith("cvt.") and (room >= 0 if to[0] == source[0] else room > 0 and source[0] == "u")
    return False


def all_spellings(sm: int) -> Iterator[str]:
    """All lane operations of the instruction table that a target has."""
    known = set(native.lane_op_names())
    seen = set()
    for forms in rows().values():
        for form in forms:
            if "{.L2" in form.syntax or form.opcode in ("ld", "st", "atom", "red", "ldu"):
                continue
            for text in spellings(form):
                meant = [means for means in lookup(text) if means.op in known and means.sm <= sm]
                if text not in seen and any(not _left_out(text, means) for means in meant):
                    seen.add(text)
                    yield text


@cache
def written(sm: int) -> tuple[WrittenInstruction, ...]:
    """The lane operations of `instructions.txt` that a target has, an entry per instruction and list of operands."""
    found: dict[tuple[str, tuple[str, ...]], WrittenInstruction] = {}
    for text in LIST.read_text("ascii").split():
        for means in lookup(text):
            if means.sm <= sm and not _left_out(text, means):
                found.setdefault((text, tuple(spec.role for spec in means.specs)), WrittenInstruction(text, means))
    return tuple(found.values())


if __name__ == "__main__":
    LIST.write_text("\n".join(all_spellings(90)) + "\n", "ascii")
