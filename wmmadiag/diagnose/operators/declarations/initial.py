"""Values that variables begin with."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.cuda_names import FILL, MATRIX_CALLS
from wmmadiag.diagnose.operators.making import Draft, inserted_after
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_LETTERS = "ijk"


@operator
def initial(program: Program) -> Iterator[Draft]:
    """Nought for a variable or array without an initial value; a fragment filled with nought."""
    prefix = _scope(program)
    for one in program.statements:
        if one.kind != "declaration" or not one.braced:
            continue
        for variable in one.declares:
            held = program.reader.type_of(variable)
            if variable.value is not None or variable.shared or "extern" in variable.words:
                continue
            of = held
            while of.kind == "array" and of.of is not None:
                of = of.of
            if of.kind == "fragment" and of.arguments[:1] and of.arguments[0].endswith("accumulator"):
                sizes = [one.unit.source.words(size) for size in variable.dimensions if size is not None]
                text = _filled(f"{prefix}{FILL}", variable.name, sizes)
                yield from _filled_later(one, variable.name, text)
            elif of.arithmetic:
                text = " = {}" if variable.dimensions else " = 0"
                edit = one.unit.edit(variable.declarator.end_byte, variable.declarator.end_byte, text)
                yield Draft((edit,), "static", "initial value", f"{variable.name}{text}")


def _filled_later(one: Statement, name: str, text: str) -> Iterator[Draft]:
    """After the declaration, and before each loop after it that does not stand alone."""
    last = one
    for later in one.block[one.index + 1 :]:
        if later.kind != "declaration":
            break
        last = later
    for place in dict.fromkeys((one, last)):
        yield inserted_after(place, text, f"{name} filled with 0", "initial value")
    # Where the loops that use it begin anew.
    for later in one.block[one.index + 1 :]:
        if later.kind == "loop":
            held = later.children[0] if later.children else None
            if held is not None and held.kind == "block" and held.children:
                first = held.children[0]
                edit = first.unit.edit(first.start, first.start, f"{text} ")
                yield Draft((edit,), "insertion", "initial value", f"{name} filled with 0 in each round")


def _filled(call: str, name: str, sizes: list[str]) -> str:
    heads = [f"for (int {at}_ = 0; {at}_ < {size}; ++{at}_) " for at, size in zip(_LETTERS, sizes, strict=False)]
    indices = "".join(f"[{at}_]" for at, _ in zip(_LETTERS, sizes, strict=False))
    return f"{''.join(heads)}{call}({name}{indices}, 0.0f);"


def _scope(program: Program) -> str:
    """How the program writes the scope of the matrix functions."""
    for one in program.all_expressions():
        if one.kind == "call" and one.operator in MATRIX_CALLS:
            text = one.text
            return text[: text.index(one.operator)]
    return "nvcuda::wmma::"
