"""One row of the instruction table: its notation, and matching an instruction as written against it.

The notation follows the PTX ISA's own::

    form("add{.rounding}{.ftz}{.sat}.f32 d, a, b", rounding=ROUNDINGS, defaults={"rounding": "rn"})
    form("setp.compare.bool{.ftz}.f32 d|q?, a, b, c:pred", compare=..., bool=...)
    form("ldmatrix.sync.aligned.shape.num{.trans}{.space}.type d:b32*num, [addr]", op="ldmatrix", ...)

Modifiers: `.name` is a slot when the row gives choices for `name`, else a literal. `{...}` is optional, all of it or
nothing (`{.sem.scope}`); an optional literal is a flag, which becomes an attribute with the value "1". Choices are
words; `written=canonical` renames. Modifiers match in any order, except that types keep theirs (`cvt.f32.f16` is not
`cvt.f16.f32`), as do slots that share a word.

Operands: `role`, `role:type` (a type, or a slot or derived name whose value is one; the default is the `type` slot or
the only type of the row), `role:type*n` (a vector; n a number or a slot), `[role]` an address, `d|q` a pair whose
second is a predicate (`d|q?` optional), `role?` an optional operand (only at the end), `role{.flag}` one that is
there exactly if the flag is. `d` and roles marked `=role`
are written, all others read. Derived names, for a type slot X: `X_b` the bit type of that width, `X_wide` the integer
type of twice the width. `cc_out` and `cc_in` name the carry flag: they are not in the text, the parser appends them.

`op` is a template over slots and derived names; slots that it uses are not repeated as attributes. By default it is
the opcode, the required literals and the slots whose names end with "type", in order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from wmmadiag.ptx.ir import Access, OperandSpec
from wmmadiag.ptx.types import CLASSES, WIDTHS

_GROUP = re.compile(r"(\{)?((?:\.[\w:]+)+)(?(1)\})")
_SINCE = re.compile(r"(?:(\d+)\.(\d+))?(?: ?sm_(\d+))?")
_OPERAND = re.compile(
    r"(?P<write>=)?(?P<open>\[)?(?P<role>\w+)(?(open)\])(?P<optional>\?)?(?:\{\.(?P<flag>[\w:]+)\})?(?:\|(?P<second>\w+)(?P<second_optional>\?)?)?"
    r"(?::(?P<type>\w+))?(?:\*(?P<count>\w+))?$"
)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A row with all its slots filled: what an instruction as written means."""

    op: str
    attributes: Mapping[str, str]
    # of the longest operand list; the last `optional` of those in the text may be absent
    specs: tuple[OperandSpec, ...]
    optional: int
    implicit: int  # how many specs at the end are not in the text (the carry flag)
    pairs: str  # whether the first operand may be, or must be, a pair: "", "optional", "required"
    relaxed: bool  # registers may be wider than the type (ld, st, cvt)
    vectors: frozenset[str]  # roles of the operands that are vectors, of one element even
    values: Mapping[str, tuple[int, ...]]  # for operands with a fixed set of literals, role → allowed values
    ptx: tuple[int, int]
    sm: int


@dataclass(frozen=True, slots=True)
class _ModifierSlot:
    name: str
    choices: Mapping[str, str]  # as written → canonical
    optional: bool
    typed: bool


@dataclass(frozen=True)
class Form:
    """A parsed row. Use `form` to make one."""

    syntax: str
    op: str
    choices: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict)
    relaxed: bool = False
    values: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ptx: tuple[int, int] = (0, 0)
    sm: int = 0

    def __post_init__(self) -> None:
        modifiers, _, operands = self.syntax.partition(" ")
        opcode, dot, rest = modifiers.partition(".")
        brace = opcode.endswith("{")
        opcode = opcode.rstrip("{")
        rest = ("{" if brace else "") + dot + rest
        literals: list[str] = []
        flags: list[tuple[str, ...]] = []
        slots: list[_ModifierSlot] = []
        ties: list[tuple[str, ...]] = []
        template = [opcode]
        position = 0
        for match in _GROUP.finditer(rest):
            if match.start() != position:
                break
            position = match.end()
            names = match[2][1:].split(".")
            optional = bool(match[1])
            if optional and not any(name in self.choices for name in names):
                flags.append(tuple(names))
                continue
            if optional and len(names) > 1:
                ties.append(tuple(names))
            for name in names:
                if name in self.choices:
                    words = dict(word.partition("=")[::2] for word in self.choices[name].split())
                    canonical = {written: word or written for written, word in words.items()}
                    slots.append(_ModifierSlot(name, canonical, optional, all(word in CLASSES for word in words)))
                    if name.endswith("type"):
                        template.append(f"{{{name}}}")
                elif name in CLASSES:  # a fixed type keeps its place among the types
                    slots.append(_ModifierSlot(f"_{len(slots)}{name}", {name: name}, False, True))
                    template.append(name)
                else:
                    literals.append(name)
                    template.append(name)
        if position != len(rest):
            raise ValueError(f"malformed modifiers in row {self.syntax!r}")
        unused = set(self.choices) - {slot.name for slot in slots}
        if unused:
            raise ValueError(f"choices without a slot {sorted(unused)} in row {self.syntax!r}")
        object.__setattr__(self, "opcode", opcode)
        object.__setattr__(self, "literals", tuple(literals))
        object.__setattr__(self, "flags", tuple(flags))
        object.__setattr__(self, "slots", tuple(slots))
        object.__setattr__(self, "ties", tuple(ties))
        object.__setattr__(self, "template", self.op or ".".join(template))
        object.__setattr__(self, "operands", self._parse_operands(operands))

    opcode: str = field(init=False)
    literals: tuple[str, ...] = field(init=False)
    flags: tuple[tuple[str, ...], ...] = field(init=False)
    slots: tuple[_ModifierSlot, ...] = field(init=False)
    ties: tuple[tuple[str, ...], ...] = field(init=False)
    template: str = field(init=False)
    operands: tuple[re.Match[str], ...] = field(init=False)

    def _parse_operands(self, text: str) -> tuple[re.Match[str], ...]:
        parsed = []
        for piece in text.split(",") if text.strip() else ():
            match = _OPERAND.match(piece.strip())
            if match is None:
                raise ValueError(f"malformed operand {piece.strip()!r} in row {self.syntax!r}")
            parsed.append(match)
        return tuple(parsed)

    @cached_property
    def identity(self) -> str:
        """Equal for rows that match the same instructions."""
        choices = sorted((name, tuple(sorted(value.split()))) for name, value in self.choices.items())
        return f"{self.syntax} {choices}"

    def match(self, modifiers: tuple[str, ...]) -> Resolved | None:
        """The row with its slots filled from the modifiers, or None if they do not fit."""
        literals = list(self.literals)
        types = [slot for slot in self.slots if slot.typed]
        words = [slot for slot in self.slots if not slot.typed]
        filled: dict[str, str] = {}
        seen_flags: list[str] = []
        flag_words = {word for group in self.flags for word in group}
        for modifier in modifiers:
            if modifier in CLASSES and types:
                slot = types.pop(0)
                while slot.optional and modifier not in slot.choices and types:
                    slot = types.pop(0)
                if modifier not in slot.choices:
                    return None
                filled[slot.name] = slot.choices[modifier]
            elif modifier in literals:
                literals.remove(modifier)
            else:
                chosen = next((slot for slot in words if modifier in slot.choices), None)
                if chosen is not None:
                    words.remove(chosen)
                    filled[chosen.name] = chosen.choices[modifier]
                elif modifier in flag_words and modifier not in seen_flags:
                    seen_flags.append(modifier)
                else:
                    return None
        if literals or any(not slot.optional for slot in (*types, *words)):
            return None
        if any(0 < sum(word in seen_flags for word in group) < len(group) for group in self.flags):
            return None
        if any(0 < sum(name in filled for name in group) < len(group) for group in self.ties):
            return None
        return self._resolve(filled, seen_flags)

    def _resolve(self, filled: dict[str, str], flags: list[str]) -> Resolved:
        names = {**self.defaults, **filled}
        derived = dict(names)
        for name, value in names.items():
            if value in WIDTHS:
                derived[f"{name}_b"] = "pred" if value == "pred" else f"b{WIDTHS[value]}"
                derived[f"{name}_wide"] = f"{value[0]}{2 * WIDTHS[value]}"
        used = set(re.findall(r"\{(\w+)\}", self.template))
        attributes = {
            name: value
            for name, value in names.items()
            if name[0] != "_" and not used & {name, f"{name}_b", f"{name}_wide"}
        }
        attributes.update((flag.lower(), "1") for flag in flags)
        specs, optional, implicit, pairs = [], 0, 0, ""
        default_type = names.get("type") or next(
            (value for name, value in names.items() if name[0] == "_" and value in CLASSES), "b32"
        )
        for match in self.operands:
            role = match["role"]
            if match["flag"] and match["flag"] not in flags:
                continue
            if match["open"]:
                type_name = "addr"
            elif role in ("cc_out", "cc_in"):
                type_name = "pred"
                implicit += 1
            else:
                type_name = derived.get(match["type"] or "", match["type"] or default_type)
            count = match["count"]
            written = bool(match["write"]) or role in ("d", "cc_out")
            length = int(derived.get(count, count).lstrip("xv")) if count else 1
            specs.append(OperandSpec(role, type_name, Access.WRITE if written else Access.READ, length))
            optional += bool(match["optional"])
            if match["second"]:
                pairs = "optional" if match["second_optional"] else "required"
        return Resolved(
            op=self.template.format_map(derived),
            attributes=MappingProxyType(attributes),
            specs=tuple(specs),
            optional=optional,
            implicit=implicit,
            pairs=pairs,
            relaxed=self.relaxed,
            vectors=frozenset(match["role"] for match in self.operands if match["count"]),
            values=self.values,
            ptx=self.ptx,
            sm=self.sm,
        )


def form(
    syntax: str,
    *,
    op: str = "",
    defaults: Mapping[str, str] | None = None,
    relaxed: bool = False,
    values: Mapping[str, tuple[int, ...]] | None = None,
    since: str = "",
    slots: Mapping[str, str] | None = None,
    **choices: str,
) -> Form:
    """One row (see the module's docstring for the notation).

    Choices may also come in `slots`. `defaults` are attributes for absent modifiers, or fixed ones; `values` the
    literals that an operand may have; `since` the first PTX version and target with this form, where known, such as
    "7.8 sm_90".

    Raises:
        ValueError: the row is malformed.
    """
    known = _SINCE.fullmatch(since)
    if known is None:
        raise ValueError(f"malformed since={since!r} in row {syntax!r}")
    version, sm = (int(known[1] or 0), int(known[2] or 0)), int(known[3] or 0)
    all_choices = {**(slots or {}), **choices}
    return Form(" ".join(syntax.split()), op, all_choices, defaults or {}, relaxed, values or {}, version, sm)
