"""Checks an instruction against the instruction table: operand count, kinds, register types, literals, target."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from wmmadiag.ptx.instructions import Resolved, lookup
from wmmadiag.ptx.ir import Access, Immediate, Operand, OperandSpec
from wmmadiag.ptx.types import CLASSES, WIDTHS, compatible, fits

Shape: TypeAlias = "str | tuple[Shape, ...]"
"""What matters of an operand for verification, as the operand parser gives it:

a register's type; "#int", "#f32", "#f64" immediates; "&" a symbol's address; "$u32" a special register; "L" a label;
"_" a sink; "!" a negated predicate; "[b64" an address in a register, "[:shared" of a variable in that space, "[" an
absolute one; ("{", …) a vector; ("|", first, second) a pair.
"""

_DISCARDING = ("atom", "lop3.", "mbarrier.", "setp.")
"""Instructions whose scalar result may be `_`; elements of vectors and of pairs may always be."""

_TAKES_ONE = ("ld", "st", "mov.")
"""Instructions that take a vector of one element for a scalar (seen with ptxas 13.0; others refuse it)."""

_READS_SPECIAL = ("mov.", "cvt.")


class Mismatch(Exception):
    """The operands do not fit; the message says why, `hint` what to do if that is known."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Verifier:
    """Finds the form of each instruction of one module. Instructions of the same shape are checked once."""

    def __init__(self, version: tuple[int, int], target: str) -> None:
        self._version = version
        self._target = target
        digits = re.search(r"\d+", target)
        self._sm = int(digits[0]) if digits else 0
        self._known: dict[tuple[str, tuple[Shape, ...]], tuple[Resolved, tuple[OperandSpec, ...]]] = {}

    def resolve(
        self, text: str, operands: Sequence[Operand], shapes: tuple[Shape, ...]
    ) -> tuple[Resolved, tuple[OperandSpec, ...]] | None:
        """The form of an instruction and its operands' specs, or None if the table has no such instruction.

        Raises:
            Mismatch: the table has it, but with other operands or for newer targets.
        """
        known = self._known.get((text, shapes))
        if known is None:
            forms = lookup(text)
            if not forms:
                return None
            known = self._known[text, shapes] = self._select(text, forms, shapes)
        if known[0].values:
            _check_values(text, known[0], known[1], operands)
        return known

    def _select(
        self, text: str, forms: Sequence[Resolved], shapes: tuple[Shape, ...]
    ) -> tuple[Resolved, tuple[OperandSpec, ...]]:
        problems: list[tuple[bool, str]] = []
        too_new = ""
        for form in forms:
            specs = _trim(form, len(shapes))
            problem = _operand_count(form) if specs is None else _mismatch(form, specs, shapes)
            if not problem and specs is not None:
                too_new = too_new or self._too_new(text, form)
                if not self._too_new(text, form):
                    return form, specs
            problems.append((specs is None, problem))
        if too_new:
            raise Mismatch(too_new, "choose an architecture that has this instruction, or guard it with __CUDA_ARCH__")
        raise Mismatch(f"{text}: {min(problems)[1]}")

    def _too_new(self, text: str, form: Resolved) -> str:
        if form.ptx > self._version:
            return f"{text} needs PTX {form.ptx[0]}.{form.ptx[1]} or newer, this is {'.'.join(map(str, self._version))}"
        if form.sm > self._sm:
            return f"{text} needs sm_{form.sm} or newer, this PTX is for {self._target}"
        return ""


def _trim(form: Resolved, count: int) -> tuple[OperandSpec, ...] | None:
    in_text = len(form.specs) - form.implicit
    if not in_text - form.optional <= count <= in_text:
        return None
    return form.specs[:count] + form.specs[in_text:]


def _operand_count(form: Resolved) -> str:
    most = len(form.specs) - form.implicit
    least = most - form.optional
    expected = str(most) if least == most else f"{least} to {most}"
    roles = ", ".join(spec.role for spec in form.specs[:most])
    return f"expects {expected} operands ({roles})" if most else "takes no operands"


def _mismatch(form: Resolved, specs: Sequence[OperandSpec], shapes: Sequence[Shape]) -> str:
    """Why the operands do not fit this form; "" if they do."""
    for position, (spec, shape) in enumerate(zip(specs, shapes, strict=False)):
        if isinstance(shape, tuple) and shape[0] == "|":
            if position or not form.pairs:
                return f"operand {spec.role!r} cannot be a pair"
            if shape[2] not in ("pred", "_"):
                return "the second of a pair must be a predicate"
            shape = shape[1]
            if shape == "_":
                continue
        elif of_one(form, spec, shape):
            shape = shape[1]
        elif position == 0 and form.pairs == "required":
            return "the first operand must be a pair d|p"
        problem = _vector(form, spec, shape) if isinstance(shape, tuple) else _scalar(form, spec, shape)
        if problem:
            return f"operand {spec.role!r}: {problem}"
    return ""


def of_one(form: Resolved, spec: OperandSpec, shape: Shape) -> bool:
    """Whether an operand is a vector of one element in the place of a scalar, as Triton writes it: `{ %r1 }`."""
    return (
        isinstance(shape, tuple)
        and len(shape) == 2
        and shape[0] == "{"
        and spec.role not in form.vectors
        and form.op.startswith(_TAKES_ONE)
    )


def _vector(form: Resolved, spec: OperandSpec, shape: tuple[Shape, ...]) -> str:
    elements = shape[1:]
    if len(elements) != spec.count or spec.role not in form.vectors:
        return f"expected {_expected(form, spec)}, found a vector of {len(elements)}"
    for element in elements:
        if isinstance(element, tuple):
            return "vectors do not nest"
        if element in CLASSES:  # assemblers look at the size alone
            if element == "pred" or not fits(WIDTHS[element], WIDTHS[spec.type], form.relaxed):
                return f"a .{element} register where .{spec.type} is expected"
        elif element == "#int" and spec.access is Access.READ and spec.type in ("f16x2", "bf16x2"):
            continue  # the bits of a pair
        elif element != "_" or spec.access is Access.READ:
            problem = _element(form, spec, element)
            if problem:
                return problem
    return ""


def _scalar(form: Resolved, spec: OperandSpec, shape: str) -> str:
    if spec.role in form.vectors:
        return f"expected {_expected(form, spec)}"
    if spec.type == "addr":
        return _address(form, spec, shape)
    if spec.type == "label":
        return "" if shape == "L" else "expected a label"
    return _element(form, spec, shape)


def _element(form: Resolved, spec: OperandSpec, shape: str) -> str:
    expected = f".{spec.type} is expected"
    if shape in CLASSES:
        return "" if compatible(shape, spec.type, form.relaxed) else f"a .{shape} register where {expected}"
    if spec.access is Access.WRITE:
        return "" if shape == "_" and form.op.startswith(_DISCARDING) else "a destination must be a register"
    if shape[0] == "#":
        return _immediate(spec, shape)
    integral = CLASSES[spec.type] in ("integer", "bits")
    if shape[0] == "$":
        if not form.op.startswith(_READS_SPECIAL):
            return "only mov and cvt read special registers"
        return "" if integral and WIDTHS[spec.type] <= WIDTHS[shape[1:]] else f"a .{shape[1:]} value where {expected}"
    if shape == "&":
        return "" if integral and WIDTHS[spec.type] in (32, 64) else f"an address where {expected}"
    if shape == "!":
        return "" if spec.type == "pred" else "only a predicate can be negated"
    found = {"_": "'_'", "L": "a label"}.get(shape, "an address in brackets")
    return f"{found} where a value is expected"


def _immediate(spec: OperandSpec, shape: str) -> str:
    kind, width = CLASSES[spec.type], WIDTHS[spec.type]
    if shape == "#int":
        fitting = kind != "float" or spec.type == "tf32"
    elif shape == "#f32":
        fitting = spec.type in ("f32", "f64") or (kind == "bits" and width == 32)
    else:
        fitting = spec.type in ("f32", "f64") or (kind == "bits" and width == 64)
    names = {"#int": "an integer", "#f32": "an f32", "#f64": "an f64"}
    return "" if fitting else f"{names[shape]} literal where .{spec.type} is expected"


def _address(form: Resolved, spec: OperandSpec, shape: str) -> str:
    if shape[0] != "[":
        return "expected an address in brackets"
    if shape[:2] == "[:":
        own = form.attributes.get("space", "generic")
        wanted = form.attributes.get("from", "global") if spec.role == "src" else own
        if wanted not in ("generic", shape[2:]):
            return f"a variable in .{shape[2:]} where the instruction accesses .{wanted}"
    elif shape != "[" and (CLASSES[shape[1:]] not in ("integer", "bits") or WIDTHS[shape[1:]] not in (32, 64)):
        return f"a .{shape[1:]} register cannot be an address"
    return ""


def _expected(form: Resolved, spec: OperandSpec) -> str:
    if spec.type in ("addr", "label"):
        return {"addr": "an address in brackets", "label": "a label"}[spec.type]
    return f"a vector of {spec.count} .{spec.type}" if spec.role in form.vectors else f".{spec.type}"


def _check_values(text: str, form: Resolved, specs: Sequence[OperandSpec], operands: Sequence[Operand]) -> None:
    for spec, operand in zip(specs, operands, strict=False):
        allowed = form.values.get(spec.role)
        if allowed and (not isinstance(operand, Immediate) or operand.value not in allowed):
            found = operand.value if isinstance(operand, Immediate) else "a register"
            raise Mismatch(f"{text}: operand {spec.role!r} must be {' or '.join(map(str, allowed))}, found {found}")
